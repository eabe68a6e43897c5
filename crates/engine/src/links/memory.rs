//! What `AGENTS.md` files say, in front of a turn's input, and again behind a compaction that replaced it.

use agentd_core::item::{ItemBody, NoticeTopic};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::{
    instructions::{self, PreambleContext, memory, told},
    turn::{TurnContext, TurnExit, TurnState, hooks::Link},
};

pub(crate) struct Memory;

impl Link for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn description(&self) -> &'static str {
        "what AGENTS.md files and trusted projects say, told once, and again where they changed"
    }

    fn preamble(&self, opening: &PreambleContext<'_>) -> Option<ItemBody> {
        memory::notice(opening)
    }

    fn before_step<'a>(
        &'a self,
        context: &'a TurnContext,
        state: &'a mut TurnState,
    ) -> BoxFuture<'a, Result<(), TurnExit>> {
        tell_again(context, state, NoticeTopic::Memory, memory::notice)
    }
}

/// Tells what a compaction has just replaced.
pub(super) fn tell_again<'a>(
    context: &'a TurnContext,
    state: &'a mut TurnState,
    topic: NoticeTopic,
    notice: fn(&PreambleContext<'_>) -> Option<ItemBody>,
) -> BoxFuture<'a, Result<(), TurnExit>> {
    let compacted = state.compacted_at == Some(state.steps) && !state.only_compacts();
    if !compacted || told(&state.history, topic).is_some() {
        return std::future::ready(Ok(())).boxed();
    }
    async move {
        let limits = context.prompt.guide_limits;
        let Some(guides) =
            instructions::look(context.files.session.workspaces(), &context.files.workspace, limits).await
        else {
            return Ok(());
        };
        let window = context.smallest_window();
        let (history, tools) = (&state.history, &context.tools.visible);
        let opening = PreambleContext { guides: &guides, limits, window, history, handed: &[], tools };
        if let Some(body) = notice(&opening) {
            let item = context.recorder.whole(body).await?;
            state.note(item);
        }
        Ok(())
    }
    .boxed()
}
