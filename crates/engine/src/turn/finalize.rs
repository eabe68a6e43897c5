//! The last answer of a turn that would otherwise end on a tool result.

use std::sync::Arc;

use agentd_core::event::EventKind;

use super::{Stop, TurnContext, TurnState, sample};
use crate::prompt;

/// Asks the chat model once more, without tools, for the answer. One that says nothing has said it: the turn
/// ends as it is.
pub(crate) async fn finalize(context: &TurnContext, state: &mut TurnState) -> Result<(), Stop> {
    let mut request = prompt::assemble(context, state, &Arc::from([]));
    context.chain.before_model(context, state, &mut request);
    sample::ask(context, state, context.chat_slot, &*context.chat, request).await?;
    if state.answer.is_none() {
        let message = "the model ended the turn without an answer".to_owned();
        context.recorder.fact(EventKind::Warning { code: "empty_answer".to_owned(), message }).await?;
    }
    Ok(())
}
