//! Skills: the catalogue is told in the same way as memory, and a skill is brought into the session when something is about
//! it: an input that mentions it, a file that asks for it, a call that names its folder. What it needs installed is asked for
//! with the call that runs it.

use agentd_core::{
    audit::DecidedBy,
    guide,
    item::{ItemBody, NoticeTopic},
    ports,
    tool::{Effect, ToolErrorCode, ToolOutput},
};
use futures_util::FutureExt as _;

use crate::{
    instructions::{PreambleContext, skills},
    links::preamble::memory::tell_again,
    turn::{
        TurnContext, TurnExit, TurnState,
        call_record::PackageNeed,
        dispatch,
        hooks::{Hook, Invocation, Link, Next, done},
    },
};

pub(crate) struct Skills;

impl Link for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn description(&self) -> &'static str {
        "which skills there are; one is brought into the session when something is about it, and what it needs installed when \
         a person allows that"
    }

    fn preamble(&self, opening: &PreambleContext<'_>) -> Option<ItemBody> {
        skills::notice(opening)
    }

    fn before_turn<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        if state.only_compacts() || context.tools.mentions.skills.is_empty() {
            return done(());
        }
        async move {
            for loaded in &context.tools.mentions.skills {
                if let Err(message) = bring(context, &loaded.skill.name).await? {
                    context.recorder.warn("skill", message).await?;
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        tell_again(context, state, NoticeTopic::Skills, skills::notice)
    }

    fn prepare_call<'a>(&'a self, call: &'a Invocation<'a>) -> Hook<'a, Option<ToolOutput>> {
        // JSON may write a slash in two ways.
        let text = call.call.arguments.replace("\\/", "/");
        let names: Vec<String> = guide::skills_named(&text).into_iter().map(str::to_owned).collect();
        let effect = call.tool().map(|tool| tool.effect);
        if names.is_empty() || !matches!(effect, Some(Effect::Read | Effect::Execute)) {
            return done(None);
        }
        async move {
            for name in names {
                if let Err(message) = bring(call.context, &name).await? {
                    return Ok(Some(ToolOutput::error(ToolErrorCode::Path, message)));
                }
            }
            if effect == Some(Effect::Execute)
                && let Some(skills) = shelf(call.context)
            {
                let missing = skills.missing(&call.context.files.workspace, &text);
                let missing = call.context.or_cancelled(missing).await?;
                if !missing.is_empty() {
                    call.record.needs(PackageNeed { missing });
                }
            }
            Ok(None)
        }
        .boxed()
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        let need = call.record.need().filter(|_| has_consent(call));
        if need.is_none() && !runs_skill(call) {
            return next.run(call);
        }
        async move {
            let Some(skills) = shelf(call.context) else { return next.run(call).await };
            let Some(need) = need else {
                let output = next.run(call).await?;
                return offer_package(call, skills, output).await;
            };
            // It is told while it goes on, and a crash finds that the call had begun.
            dispatch::begin(call).await?;
            let progress = call.started.get().map(|id| call.context.recorder.progress(*id)).unwrap_or_default();
            for wanted in &need.missing {
                if let Err(error) = skills.install(wanted, &progress, &call.context.control.calls).await {
                    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                    let is_stopped = call.context.control.calls.is_cancelled();
                    let code = if is_stopped { call.context.stop_code() } else { ToolErrorCode::Tool };
                    return Ok(ToolOutput::error(code, format!("{error}{hint}. The command did not run")));
                }
            }
            let output = next.run(call).await?;
            offer_package(call, skills, output).await
        }
        .boxed()
    }
}

/// Returns whether a call runs something of a skill.
fn runs_skill(call: &Invocation<'_>) -> bool {
    let is_command = call.tool().is_some_and(|tool| tool.effect == Effect::Execute);
    is_command && !guide::skills_named(&call.call.arguments.replace("\\/", "/")).is_empty()
}

/// Tells the model to try again where a script of a skill lacked a package: the person is asked for it with the next call.
async fn offer_package(
    call: &Invocation<'_>,
    skills: &dyn ports::Skills,
    mut output: ToolOutput,
) -> Result<ToolOutput, TurnExit> {
    let command = call.call.arguments.replace("\\/", "/");
    let failed = skills.import_failed(&call.context.files.workspace, &command, &output.text);
    if let Some(package) = call.context.or_cancelled(failed).await? {
        output.text += &format!(
            "\n\nThe skill needs the Python package {package}, which it does not declare. Run the same command again: the \
             person is asked then whether {package} is installed for the skill."
        );
    }
    Ok(output)
}

/// Returns whether the person who let the call run was shown what is installed: a rule that was kept meanwhile speaks
/// of the command alone.
fn has_consent(call: &Invocation<'_>) -> bool {
    call.record.answered().is_none_or(|answered| answered.by != DecidedBy::Grant)
}

fn shelf(context: &TurnContext) -> Option<&dyn ports::Skills> {
    context.ports.workspaces.skills().filter(|_| context.prompt.guide_limits.skills)
}

/// Brings a skill into the session, if there is one of that name. What is wrong with it is a sentence.
async fn bring(context: &TurnContext, name: &str) -> Result<Result<(), String>, TurnExit> {
    let Some(skills) = shelf(context) else { return Ok(Ok(())) };
    context.files.session.make(&context.files.workspace).await?;
    let linked = context.or_cancelled(skills.link(&context.files.workspace, name)).await?;
    Ok(linked.map(drop).map_err(|error| {
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{error}{hint}")
    }))
}
