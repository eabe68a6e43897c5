//! The last answer of a turn that would otherwise end on a tool result.

use agentd_core::event::EventKind;

use super::{Stop, TurnContext, TurnState, sample};
use crate::prompt::{self, ToolSet};

/// Asks the chat model once more, without tools, for the answer. One that says nothing has said it: the turn
/// ends as it is.
pub(crate) async fn finalize(context: &TurnContext, state: &mut TurnState) -> Result<(), Stop> {
    ask(context, state).await?;
    if state.overflowed {
        // It did not fit, and there is a second and last try behind a compaction.
        context.chain.before_step(context, state).await?;
        ask(context, state).await?;
    }
    if state.answer.is_none() {
        let message = "the model ended the turn without an answer".to_owned();
        context.recorder.fact(EventKind::Warning { code: "empty_answer".to_owned(), message }).await?;
    }
    Ok(())
}

async fn ask(context: &TurnContext, state: &mut TurnState) -> Result<(), Stop> {
    let mut draft = prompt::assemble(context, state, ToolSet::none());
    context.chain.before_model(context, state, &mut draft);
    sample::ask(context, state, context.chat_slot, &*context.chat, draft).await
}
