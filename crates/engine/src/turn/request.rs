//! The next request of a turn: reminders, messages, tools and estimated size. Also evaluates that size for the fill
//! level of the window, price tiers, and servers that silently truncate a request.
//!
//! Reminders are notices at the end of the history. They are appended when they change, and never moved or removed.
//! Therefore, each request starts with all bytes of the previous one.

use std::sync::Arc;

use agentd_context::{
    NextRequest, RequestBuilder, ToolSet, history,
    meter::{self, SentRequest},
    tokens,
    windows::min_tokens,
};
use agentd_core::{
    ids::TurnId,
    item::{Item, ItemBody, NoticeTopic},
    model::{Message, ModelInfo, WindowSource},
    ports::Model,
    usage::Usage,
};

use crate::turn::{Flow, TurnContext, TurnState, hooks::Reminder};

/// Builds the request for the next model call, before the chain modifies it.
pub(crate) fn assemble(context: &TurnContext, state: &TurnState, tools: ToolSet) -> RequestBuilder {
    let mut messages = Vec::with_capacity(state.history.len() + 1);
    messages.push(Message::System { text: context.prompt.system.clone() });
    messages.extend(history::messages(&state.history, context.next_model(state).echo_reasoning));
    let (known_paths, agent) = (context.prompt.known_paths.clone(), context.active_agent.name().to_owned());
    RequestBuilder { messages, tools, may_call: true, answer_schema: None, known_paths, agent }
}

/// Estimates the tokens of the next request to a model, uncalibrated.
pub(crate) fn guess(context: &TurnContext, state: &TurnState, model: &ModelInfo) -> u64 {
    let history: u64 = state.history.iter().map(|item| meter::guess(item, model.echo_reasoning)).sum();
    guess_fixed(context, model) + history
}

/// Estimates the tokens of instructions and tools in each request to a model. The embedded model gets neither.
pub(crate) fn guess_fixed(context: &TurnContext, model: &ModelInfo) -> u64 {
    if model.embedded {
        return 0;
    }
    context.tools.finder.tools().print.tokens + tokens::estimate(&context.prompt.system)
}

/// Estimates the tokens of the next request to a model.
pub(crate) fn expected(context: &TurnContext, state: &TurnState, model: &ModelInfo) -> u64 {
    let next = NextRequest { model, tools: context.tools.finder.tools().print };
    state.meter.expected(&context.models.calibration, next, || guess(context, state, model))
}

/// Text that is appended if a request would end with the model's own text, because servers do not let a model continue
/// from there.
const CONTINUE_PROMPT: &str = "Your answer was incomplete: continue where it stopped.";

/// Appends the reminders that changed, and other messages with which the next request must end.
pub(crate) async fn append_reminders(context: &TurnContext, state: &mut TurnState, extra: Option<Reminder>) -> Flow {
    let reminders = context.tools.chain.reminders(context, state).into_iter().chain(extra);
    let changed: Vec<Reminder> = reminders
        .filter(|Reminder { topic, text }| {
            !text.is_empty() && last_reminder(&state.history, *topic, context.ids.turn) != Some(text.as_str())
        })
        .collect();
    let ends_with_answer = matches!(state.history.last().map(|item| &item.body), Some(ItemBody::AgentMessage { text }) if !text.is_empty());
    let continuation =
        (ends_with_answer && changed.is_empty()).then(|| Reminder::new(NoticeTopic::Continue, CONTINUE_PROMPT));
    for reminder in changed.into_iter().chain(continuation) {
        context.append_notice(state, reminder.notice()).await?;
    }
    Ok(())
}

/// Returns the current reminder on a topic. If there is no current reminder, `retraction` retracts the earlier
/// reminder.
pub(crate) fn reminder_or_over(
    state: &TurnState,
    topic: NoticeTopic,
    current: Option<String>,
    retraction: &str,
) -> Option<Reminder> {
    let was_shown = || {
        state.history.iter().rev().find_map(|item| match &item.body {
            ItemBody::Notice { topic: about, text, .. } if *about == topic => Some(text != retraction),
            _ => None,
        })
    };
    let text = current.or_else(|| (was_shown() == Some(true)).then(|| retraction.to_owned()))?;
    Some(Reminder::new(topic, text))
}

/// Returns the latest reminder on a topic. Reminders that belong to a turn are considered only in that turn.
fn last_reminder(history: &[Arc<Item>], topic: NoticeTopic, turn: TurnId) -> Option<&str> {
    let is_per_turn = matches!(
        topic,
        NoticeTopic::Mentions
            | NoticeTopic::LastAnswer
            | NoticeTopic::Plan
            | NoticeTopic::AnswerForm
            | NoticeTopic::TurnInstructions
    );
    let summary =
        history.iter().find(|item| matches!(&item.body, ItemBody::Compaction(summary) if !summary.summary.is_empty()));
    history
        .iter()
        .rev()
        // The level from before a compaction is outdated.
        .take_while(|item| topic != NoticeTopic::Level || !matches!(item.body, ItemBody::Compaction(_)))
        .filter(|item| topic != NoticeTopic::Level || summary.is_none_or(|summary| item.id > summary.id))
        .find_map(|item| match &item.body {
            ItemBody::Notice { topic: about, text, .. } if *about == topic => {
                Some(text.as_str()).filter(|_| !is_per_turn || item.turn_id == turn)
            }
            _ => None,
        })
}

/// Divisor of a request's size. The user is warned if a request larger by this fraction would reach a price tier.
const PRICE_MARGIN: u64 = 10;

/// Records the fill level of the window of the turn's model, even if another model was called last.
pub(crate) async fn record_level(context: &TurnContext, state: &mut TurnState) -> Flow {
    let tokens = expected(context, state, context.models.model.info());
    match state.meter.moved(tokens, context.window()) {
        Some(change) => context.recorder.change(change).await,
        None => Ok(()),
    }
}

/// Warns if the next request comes close to a size above which all of its tokens cost more. Each such size is reported
/// once per session.
pub(crate) async fn warn_of_price(context: &TurnContext, state: &mut TurnState, model: &dyn Model) -> Flow {
    let Some(prices) = model.prices().filter(|prices| !prices.tiers.is_empty()) else { return Ok(()) };
    let tokens = expected(context, state, model.info());
    let upper_tier = prices.of_request(tokens.saturating_add(tokens / PRICE_MARGIN));
    let current_tier = prices.of_request(upper_tier.above);
    if upper_tier.input <= current_tier.input || !state.meter.note_threshold(upper_tier.above) {
        return Ok(());
    }
    let message = format!(
        "this request to {} has about {tokens} tokens; above {} tokens, all input of a request costs ${} per million \
         tokens instead of ${}: /compact shrinks the next ones",
        model.info().id,
        upper_tier.above,
        upper_tier.input,
        current_tier.input
    );
    context.recorder.warn("price_border", message).await
}

/// Checks the token count of a request that contained `items` items of the history, and returns the usage to calibrate
/// with. If the server read only a part, the prompt tokens are set to 0, so that the estimate is used.
pub(crate) async fn check_truncation(
    context: &TurnContext,
    state: &mut TurnState,
    model: &dyn Model,
    (sent, items): (&SentRequest, usize),
    usage: Usage,
) -> Flow<Usage> {
    let (info, windows) = (model.info(), &context.models.windows);
    let (system, history) = (context.prompt.system.as_str(), &state.history[..items.min(state.history.len())]);
    let minimum = || min_tokens(system) + history.iter().map(|item| min_item_tokens(item)).sum::<u64>();
    let Some(window) = state.meter.cut(sent, usage, info, windows.largest(info), minimum) else { return Ok(usage) };
    let before = windows.of(info);
    windows.learn(info, sent.report.tokens, window);
    if window < before {
        model.note_window(window, WindowSource::Cut);
    }
    if window <= before && windows.note_cut(info, window) {
        let message = format!(
            "the server of {} silently reads only {window} tokens of a request: this one has about {}, so a part of \
             the conversation was not seen. From now on {window} tokens are used as its window. To enlarge it, set \
             OLLAMA_CONTEXT_LENGTH or num_ctx of the model in Ollama, elsewhere the context size of the server, then \
             measure again with `agentctl models test`. To override it, set MODEL_BASIC_CONTEXT_WINDOW, or \
             context_window in models.yaml",
            info.id, sent.report.tokens
        );
        context.recorder.warn("window_cut", message).await?;
    }
    Ok(Usage { prompt_tokens: 0, ..usage })
}

/// Returns a lower bound on the tokens of an item in a request.
fn min_item_tokens(item: &Item) -> u64 {
    match &item.body {
        ItemBody::UserMessage { text, .. } | ItemBody::AgentMessage { text } | ItemBody::Notice { text, .. } => {
            min_tokens(text)
        }
        ItemBody::ToolCall(call) => min_tokens(&call.arguments),
        ItemBody::ToolResult(result) => min_tokens(&result.text),
        ItemBody::Compaction(compaction) => min_tokens(&compaction.summary),
        ItemBody::Reasoning { .. } => 0,
    }
}
