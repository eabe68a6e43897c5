//! What the model sees: a fixed system message, then the history. Whatever varies is added at the end by the
//! chain, so that each request repeats the one before it.

//!
//! - `system`: the fixed message; `servers`: the part of it about MCP servers; `history`: from items to messages; `toolset`: the tools of a turn.
//! - [`draft`]: a request on its way through the chain, stable part and reminders apart.
//! - `footprint`: how much a request repeats of the one before it; [`meter`]: how full the window is.
//! - [`view`]: what fills the window, for people.
//! - [`tokens`]: about how many tokens a text has.

pub(crate) mod draft;
pub(crate) mod footprint;
pub(crate) mod history;
pub(crate) mod meter;
mod servers;
mod system;
pub(crate) mod tokens;
pub(crate) mod toolset;
pub(crate) mod view;

use agentd_core::model::{Message, ModelInfo};

pub(crate) use self::{
    draft::Draft,
    meter::{Meter, Next},
    servers::servers,
    system::system,
    toolset::ToolSet,
};
use crate::turn::{TurnContext, TurnState};

/// The request for the next model call, before the chain has seen it.
pub(crate) fn assemble(context: &TurnContext, state: &TurnState, tools: ToolSet) -> Draft {
    let mut messages = Vec::with_capacity(state.history.len() + 1);
    messages.push(Message::System { text: context.system_prompt.clone() });
    messages.extend(history::messages(&state.history, context.next_model(state).echo_reasoning));
    Draft::new(messages, tools, context.known_paths.clone()).to(context.acting.name())
}

/// About how many tokens the next request to a model has, by the unscaled guess.
pub(crate) fn guess(context: &TurnContext, state: &TurnState, model: &ModelInfo) -> u64 {
    let history: u64 = state.history.iter().map(|item| meter::guess(item, model.echo_reasoning)).sum();
    guess_fixed(context, model) + history
}

/// About how many tokens of each request to a model are instructions and tools. The embedded model is shown neither.
pub(crate) fn guess_fixed(context: &TurnContext, model: &ModelInfo) -> u64 {
    if model.embedded {
        return 0;
    }
    context.finds.tools().print.tokens + tokens::estimate(&context.system_prompt)
}

/// About how many tokens the next request to a model has.
pub(crate) fn expected(context: &TurnContext, state: &TurnState, model: &ModelInfo) -> u64 {
    let next = Next { model, tools: context.finds.tools().print };
    state.meter.expected(&context.scales, next, || guess(context, state, model))
}
