//! What the model sees: a fixed system message, then the history. Whatever varies is added at the end by the
//! chain, so that each request repeats the one before it.

mod history;
mod system;

use std::sync::Arc;

use agentd_core::{
    model::{Message, ModelRequest},
    tool::ToolSpec,
};

pub(crate) use self::system::system;
use crate::turn::{TurnContext, TurnState};

/// The request for the next model call, before the chain has seen it.
pub(crate) fn assemble(context: &TurnContext, state: &TurnState, tools: &Arc<[ToolSpec]>) -> ModelRequest {
    let window = history::window(&state.history, context.max_message_history);
    let mut messages = Vec::with_capacity(window.len() + 1);
    messages.push(Message::System { text: context.system_prompt.clone() });
    messages.extend(history::messages(window));
    ModelRequest {
        session_id: context.session_id,
        messages,
        tools: Arc::clone(tools),
        known_paths: context.known_paths.clone(),
    }
}
