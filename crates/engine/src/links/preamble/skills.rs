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
        dispatch,
        hooks::{Hook, Invocation, Link, Next, done},
    },
};

pub(crate) struct Skills;

impl Link for Skills {
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
        let text = plain(&call.call.arguments);
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
                let mut entries = call.record.entries();
                if entries.packages.is_empty() {
                    entries.packages = missing;
                }
            }
            Ok(None)
        }
        .boxed()
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        // Whoever let it run was shown what is installed; a rule that was kept meanwhile speaks of the command alone.
        let has_consent = call.record.answered().is_none_or(|answered| answered.by != DecidedBy::Grant);
        let packages = if has_consent { call.record.entries().packages.clone() } else { Vec::new() };
        let is_command = call.tool().is_some_and(|tool| tool.effect == Effect::Execute);
        let runs_skill = || is_command && !guide::skills_named(&plain(&call.call.arguments)).is_empty();
        if packages.is_empty() && !runs_skill() {
            return next.run(call);
        }
        async move {
            let Some(skills) = shelf(call.context) else { return next.run(call).await };
            if !packages.is_empty() {
                // It is told while it goes on, and a crash finds that the call had begun.
                dispatch::begin(call).await?;
            }
            let progress = call.started.get().map(|id| call.context.recorder.progress(*id)).unwrap_or_default();
            for wanted in &packages {
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

/// Arguments as they are looked at for names of skills: JSON may write a slash in two ways.
fn plain(arguments: &str) -> String {
    arguments.replace("\\/", "/")
}

/// Tells the model to try again where a script of a skill lacked a package: the person is asked for it with the next call.
async fn offer_package(
    call: &Invocation<'_>,
    skills: &dyn ports::Skills,
    mut output: ToolOutput,
) -> Result<ToolOutput, TurnExit> {
    let command = plain(&call.call.arguments);
    let failed = skills.import_failed(&call.context.files.workspace, &command, &output.text);
    if let Some(package) = call.context.or_cancelled(failed).await? {
        output.text += &format!(
            "\n\nThe skill needs the Python package {package}, which it does not declare. Run the same command again: the \
             person is asked then whether {package} is installed for the skill."
        );
    }
    Ok(output)
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
