//! What `AGENTS.md` files say: in front of a turn's input, and again behind a compaction that replaced it; of those in folders of
//! the project, when a call first comes to the folder.

use std::{path::Path, sync::Arc};

use agentd_core::{
    guide::GuideFile,
    item::{Item, ItemBody, NoticeTopic},
    tool::Effect,
};
use futures_util::FutureExt as _;

use crate::{
    instructions::{
        self, PreambleContext,
        memory::{self, Commands},
        told,
    },
    turn::{
        Phase, TurnContext, TurnExit, TurnState,
        hooks::{Hook, Link, done},
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
pub(crate) fn tell_again<'a>(
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
        let limits = context.prompt.guide_limits;
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
    let here = context
        .control
        .environment
        .folder()
        .filter(|here| project.is_some_and(|project| here.starts_with(&project.path)));
    let start = here.and_then(Path::to_str).unwrap_or("/project");
    let is_command = |name: &str| context.tool(name).is_some_and(|tool| tool.effect == Effect::Execute);
    memory::touched(state.history[from..].iter().filter(is_new), &Commands { start, is_command: &is_command })
}

/// Tells the guides of folders that calls came to since the last look. At the first look of a turn, those that were told
/// before are looked at again, and told where they changed or are gone.
async fn add_folder_notes(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    let (limits, workspace) = (context.prompt.guide_limits, &context.files.workspace);
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
    let notice = memory::folder_notice(&state.history, &files, context.smallest_window(), limits);
    if let Some(body) = notice {
        context.tell(state, body).await?;
    }
    state.guided = state.history.len();
    Ok(())
}
