//! The next request of a turn: its messages and tools, and about how large it is.

use agentd_context::{Next, RequestBuilder, ToolSet, history, meter, tokens};
use agentd_core::model::{Message, ModelInfo};

use super::{TurnContext, TurnState};

/// The request for the next model call, before the chain has seen it.
pub(crate) fn assemble(context: &TurnContext, state: &TurnState, tools: ToolSet) -> RequestBuilder {
    let mut messages = Vec::with_capacity(state.history.len() + 1);
    messages.push(Message::System { text: context.prompt.system.clone() });
    messages.extend(history::messages(&state.history, context.next_model(state).echo_reasoning));
    RequestBuilder::new(messages, tools, context.prompt.known_paths.clone()).to(context.acting.name())
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
    context.tools.finds.tools().print.tokens + tokens::estimate(&context.prompt.system)
}

/// About how many tokens the next request to a model has.
pub(crate) fn expected(context: &TurnContext, state: &TurnState, model: &ModelInfo) -> u64 {
    let next = Next { model, tools: context.tools.finds.tools().print };
    state.meter.expected(&context.models.scales, next, || guess(context, state, model))
}
