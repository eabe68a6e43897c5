//! A server that reads only a part of a request without a word: noticed by its counts, told, and taken for its window.

use agentd_context::{cuts::least_tokens, meter::SentRequest};
use agentd_core::{
    event::EventKind,
    item::{Item, ItemBody},
    model::WindowSource,
    ports::Model,
    usage::Usage,
};

use super::{TurnContext, TurnExit, TurnState};

/// Looks at what was counted of a request that held so many items of the history, and returns the usage to measure by: none
/// of its tokens where only a part was read, so that the guess stands.
pub(crate) async fn look(
    context: &TurnContext,
    state: &mut TurnState,
    model: &dyn Model,
    (sent, items): (&SentRequest, usize),
    usage: Usage,
) -> Result<Usage, TurnExit> {
    let (info, windows) = (model.info(), &context.models.windows);
    let (system, history) = (context.prompt.system.as_str(), &state.history[..items.min(state.history.len())]);
    let least = || least_tokens(system) + history.iter().map(|item| of_item(item)).sum::<u64>();
    let Some(window) = state.meter.cut(sent, usage, info, windows.largest(info), least) else { return Ok(usage) };
    let before = windows.of(info);
    windows.learn(info, sent.report.tokens, window);
    if window < before {
        model.note_window(window, WindowSource::Cut);
    }
    if window <= before && windows.tell_cut(info, window) {
        let message = format!(
            "the server of {} reads only {window} tokens of a request, and says nothing of it: this one has about {}, so a part \
             of the conversation was not seen. {window} tokens are its window from now on. Give it a larger one: in Ollama set \
             OLLAMA_CONTEXT_LENGTH, or num_ctx of the model; elsewhere the context size of the server. Then `agentctl models \
             test` measures it again. What you know better, say in MODEL_BASIC_CONTEXT_WINDOW or in context_window in \
             models.yaml",
            info.id, sent.report.tokens
        );
        context.recorder.fact(EventKind::Warning { code: "window_cut".to_owned(), message }).await?;
    }
    Ok(Usage { prompt_tokens: 0, ..usage })
}

/// The tokens that an item takes of a request at the least.
fn of_item(item: &Item) -> u64 {
    match &item.body {
        ItemBody::UserMessage { text, .. } | ItemBody::AgentMessage { text } | ItemBody::Notice { text, .. } => {
            least_tokens(text)
        }
        ItemBody::ToolCall(call) => least_tokens(&call.arguments),
        ItemBody::ToolResult(result) => least_tokens(&result.text),
        ItemBody::Compaction(compaction) => least_tokens(&compaction.summary),
        ItemBody::Reasoning { .. } => 0,
    }
}
