//! Nothing that changes or runs anything does so without a verdict, and where the verdict is to ask, a person
//! decides. Fails closed.

use std::path::Path;

use agentd_core::{
    interrupt::{Answer, Ask},
    policy::{Explanation, Risk, Verdict},
    tool::{ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
    turn::{Denial, OnInterrupt},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;

use super::{Invocation, Link, Next};
use crate::{
    policy::{self, Facts},
    turn::Stop,
};

pub(crate) struct Approvals;

impl Link for Approvals {
    fn name(&self) -> &'static str {
        "approvals"
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> BoxFuture<'a, Result<ToolOutput, Stop>> {
        async move {
            let context = call.context;
            let Some(tool) = context.tool(&call.call.name) else {
                // The toolbox knows best how to say that it has no such tool.
                return next.run(call).await;
            };
            let judgement = judge(call, tool);
            match judgement.verdict {
                Verdict::Allow => next.run(call).await,
                Verdict::Deny { reason } => Ok(ToolOutput::error(ToolErrorCode::Denied, reason)),
                Verdict::Ask { risk, reason } => match context.on_interrupt {
                    OnInterrupt::Approve => next.run(call).await,
                    OnInterrupt::Deny => Ok(refuse(&format!("this run asks nobody, and {reason}"))),
                    OnInterrupt::Fail => Err(Stop::Refused(Denial {
                        call_id: call.call.call_id.clone(),
                        tool: tool.name.clone(),
                        reason,
                    })),
                    OnInterrupt::Wait => ask(call, next, tool, risk, reason, judgement.grants).await,
                },
            }
        }
        .boxed()
    }
}

/// What the rules say of the call as it stands, also for the audit log.
fn judge(call: &Invocation<'_>, tool: &ToolSpec) -> Explanation {
    let context = call.context;
    let project = context.workspace.project.as_ref().map(|mount| mount.path.as_path());
    let roots: Vec<&Path> = [context.workspace.root.as_path()].into_iter().chain(project).collect();
    let judgement = context.policy.judge(&Facts {
        tool,
        arguments: &call.call.arguments,
        settings: &context.settings,
        roots: &roots,
        kept: &[],
    });
    call.trail.judged(&judgement);
    judgement
}

/// Asks a person and does what the person says.
async fn ask<'a>(
    call: &'a Invocation<'a>,
    next: Next<'a>,
    tool: &ToolSpec,
    risk: Risk,
    reason: String,
    grants: Vec<String>,
) -> Result<ToolOutput, Stop> {
    let context = call.context;
    let preview = match context.or_cancelled(context.chain.preview(call)).await? {
        Ok(preview) => preview,
        // It would fail for certain: nobody needs to be asked.
        Err(output) => return Ok(output),
    };
    let grant = <[String; 1]>::try_from(grants).ok().map(|[grant]| grant);
    let args = arguments(call.call);
    let ask = Ask::Approval { tool: tool.name.clone(), args, risk, reason, preview, grant };
    match call.ask(ask).await? {
        Answer::Approve | Answer::Always => next.run(call).await,
        Answer::Edit { args } => run_edited(call, next, args).await,
        Answer::Reject { reason } => Ok(refuse(reason.as_deref().unwrap_or("the person gave no reason"))),
        // The session refuses an answer that does not fit; if one gets here all the same, the gate stays shut.
        Answer::Text { .. } => Ok(refuse("the answer was no decision")),
    }
}

/// Runs the call with the person's arguments, and tells the model that they are not its own.
async fn run_edited<'a>(call: &'a Invocation<'a>, next: Next<'a>, args: Value) -> Result<ToolOutput, Stop> {
    let edited = ToolCall { arguments: args.to_string(), ..call.call.clone() };
    let invocation = Invocation { call: &edited, ..*call };
    let mut output = next.run(&invocation).await?;
    output.text = format!("The person changed the arguments to {args} before it ran.\n{}", output.text);
    Ok(output)
}

fn refuse(reason: &str) -> ToolOutput {
    ToolOutput::error(
        ToolErrorCode::Denied,
        format!("refused: {reason}. Do not try the same again; ask, or go another way"),
    )
}

/// The arguments for people and programs: JSON where they are JSON, the raw text where not, or where they nest so
/// deeply that what holds them could not be read back.
pub(super) fn arguments(call: &ToolCall) -> Value {
    match serde_json::from_str(&call.arguments) {
        Ok(args) if policy::is_shallow(&args) => args,
        _ => Value::String(call.arguments.clone()),
    }
}
