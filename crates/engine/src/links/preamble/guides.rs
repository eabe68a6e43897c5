//! What `AGENTS.md` files say, and skills: in front of a turn's input, and again behind a compaction that replaced it.
//!
//! The notes of folders of the project are told when a call first comes to the folder. A skill is brought into the session when
//! something is about it: an input that mentions it, a file that asks for it, a call that names its folder. What it needs
//! installed is asked for with the call that runs it.

use std::{path::Path, sync::Arc};

use agentd_core::{
    audit::DecidedBy,
    guide::{self, GuideFile},
    item::{Item, ItemBody, NoticeTopic},
    ports,
    tool::{Effect, ToolErrorCode, ToolOutput},
};
use futures_util::FutureExt as _;

use crate::{
    error::EngineError,
    instructions::{
        self, PreambleContext,
        memory, skills, told,
    },
    turn::{
        Phase, TurnContext, TurnExit, TurnState, dispatch,
        hooks::{Hook, Invocation, Link, Next, done},
    },
};

pub(crate) struct Memory;

impl Link for Memory {
    fn preamble(&self, opening: &PreambleContext<'_>) -> Option<ItemBody> {
        memory::notice(opening)
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        async move {
            tell_again(context, state, NoticeTopic::Memory, memory::notice).await?;
            add_folder_notes(context, state).await
        }
        .boxed()
    }
}

/// Tells what a compaction has just replaced.
fn tell_again<'a>(
    context: &'a TurnContext,
    state: &'a mut TurnState,
    topic: NoticeTopic,
    notice: fn(&PreambleContext<'_>) -> Option<ItemBody>,
) -> Hook<'a> {
    let compacted = state.compacted_at == Some(state.steps) && !state.only_compacts();
    if !compacted || told(&state.history, topic).is_some() {
        return done(());
    }
    async move {
        let limits = context.config.guides;
        let Some(guides) = instructions::look(&*context.ports.workspaces, &context.files.workspace, limits).await
        else {
            return Ok(());
        };
        let window = context.smallest_window();
        let (history, tools) = (&state.history, &context.tools.visible);
        let opening = PreambleContext { guides: &guides, limits, window, history, handed: &[], tools };
        if let Some(body) = notice(&opening) {
            context.tell(state, body).await?;
        }
        Ok(())
    }
    .boxed()
}

/// Paths that calls came to since the last look. What a compaction has left is looked at as a whole: of what it replaced,
/// nothing is told any more.
fn touched(context: &TurnContext, state: &TurnState) -> Vec<String> {
    let compacted = state.compacted_at == Some(state.steps);
    let from = if compacted { 0 } else { state.guided.min(state.history.len()) };
    let is_new = |item: &&Arc<Item>| {
        let is_read_again = matches!(item.body, ItemBody::Notice { topic: NoticeTopic::ReadAgain, .. });
        compacted || state.guided > 0 || is_read_again || item.turn_id == context.ids.turn
    };
    let project = context.files.workspace.project.as_ref();
    let is_inside = |here: &&Path| project.is_some_and(|project| here.starts_with(&project.path));
    let here = context.control.environment.folder().filter(is_inside);
    let start = here.and_then(Path::to_str).unwrap_or("/project");
    let is_command = |name: &str| context.tool(name).is_some_and(|tool| tool.effect == Effect::Execute);
    memory::touched(state.history[from..].iter().filter(is_new), start, is_command)
}

/// Tells the guides of folders that calls came to since the last look. At the first look of a turn, those that were told
/// before are looked at again, and told where they changed or are gone.
async fn add_folder_notes(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    let (limits, workspace) = (context.config.guides, &context.files.workspace);
    let works = matches!(state.phase, Phase::Working | Phase::Planning) && state.answer.is_none();
    if !limits.memory || !works || !state.pending_calls.is_empty() || workspace.project.is_none() {
        return Ok(());
    }
    let (known, begins) = (memory::known_files(&state.history), state.guided == 0);
    let mut paths = touched(context, state);
    if begins {
        paths.extend(known.keys().map(|name| (*name).to_owned()));
    }
    let looked = instructions::look_at_folders(&*context.ports.workspaces, workspace, limits, paths).await;
    let Some(mut files) = looked else { return Ok(()) };
    if begins {
        let gone = known.keys().filter(|name| files.iter().all(|file| file.name != **name));
        let gone: Vec<GuideFile> = gone.map(|name| GuideFile::gone((*name).to_owned())).collect();
        files.extend(gone);
    }
    let quoting = context.quoting();
    files.retain(|file| {
        let is_news = known.get(file.name.as_str()).is_none_or(|digest| begins && *digest != file.digest);
        is_news && quoting.allow(&file.name)
    });
    if let Some(body) = memory::folder_notice(&state.history, &files, context.smallest_window(), limits) {
        context.tell(state, body).await?;
    }
    state.guided = state.history.len();
    Ok(())
}

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
                    let is_stopped = call.context.control.calls.is_cancelled();
                    let code = if is_stopped { call.context.stop_code() } else { ToolErrorCode::Tool };
                    return Ok(ToolOutput::error(code, format!("{}. The command did not run", EngineError::from(error).sentence())));
                }
            }
            offer_package(call, skills, next.run(call).await?).await
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
    context.ports.workspaces.skills().filter(|_| context.config.guides.skills)
}

/// Brings a skill into the session, if there is one of that name. What is wrong with it is a sentence.
async fn bring(context: &TurnContext, name: &str) -> Result<Result<(), String>, TurnExit> {
    let Some(skills) = shelf(context) else { return Ok(Ok(())) };
    context.make_folders().await?;
    let linked = context.or_cancelled(skills.link(&context.files.workspace, name)).await?;
    Ok(linked.map(drop).map_err(|error| EngineError::from(error).sentence()))
}
