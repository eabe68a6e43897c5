//! Carries out a compaction: moves old results to files, or replaces a part of the history with a summary.
//!
//! The summary is requested as one more input to the conversation itself, so that the model sees the whole conversation
//! and the server has cached nearly all of it. If this is not possible, a transcript is summarised instead. A truncated
//! summary is rejected.

use std::sync::Arc;

use agentd_context::{
    compaction::{
        facts, offload,
        plan::{self, CompactionRequest, Plan, to_offload},
        summary::{self, Length},
        verbatim,
    },
    meter,
    tokens::estimate,
};
use agentd_core::{
    context::{Compaction, CompactionCause, CompactionReport, CompactionStrategy, OffloadedResult, PromptReport},
    error::{ErrorKind, ModelError},
    exchange::ExchangePurpose,
    item::{Item, ItemBody},
    model::{Finish, Message, ModelChunk, ModelRequest, Slot},
    ports::Model,
    tool::ToolResult,
};

use crate::{
    links::history::compaction::files,
    turn::{Flow, Phase, TurnContext, TurnState, request, sample, stopwatch::CallStream},
};

/// Compacts the history, if a part can be replaced, and returns a sentence about the outcome.
pub(crate) async fn run(context: &TurnContext, state: &mut TurnState, wanted: CompactionRequest) -> Flow<String> {
    let budget = budget(context, state);
    let plan = match make_plan(&state.history, wanted.cause, budget) {
        Ok(plan) => plan,
        Err(nothing) => return Ok(nothing),
    };
    let item = context.recorder.start(ItemBody::Compaction(Compaction::default())).await?;
    let compaction = compact(context, state, plan, wanted, budget).await?;
    let outcome = sentence(&compaction.report);
    let replaced: Vec<Arc<Item>> = state.history[..plan.split].to_vec();
    let stored = context.recorder.compact(item, replaced.iter().map(|item| item.id).collect(), compaction).await?;
    state.history.splice(..plan.split, [stored]);
    state.meter.start_over();
    files::append_contents(context, state, &replaced).await?;
    request::record_level(context, state).await?;
    state.visible_at_undo = 0;
    Ok(outcome)
}

/// Returns the part of the history to replace, or a sentence that explains why nothing can be replaced.
fn make_plan(history: &[Arc<Item>], cause: CompactionCause, budget: plan::HistoryBudget) -> Result<Plan, String> {
    let Some(plan) = plan::plan(history, cause, budget) else {
        return Err("there is nothing to compact: the history is short, or all of it is still needed".to_owned());
    };
    let is_requested = matches!(cause, CompactionCause::Model | CompactionCause::Person);
    if is_requested && !plan.worth_a_model {
        let (messages, least) = (plan.messages, plan::MIN_MESSAGES);
        return Err(format!(
            "there is nothing to compact yet: the history has {messages} messages; the minimum is {least}"
        ));
    }
    Ok(plan)
}

/// Returns the reason why a compaction after the pending calls would have no effect, or `None` if it would have an
/// effect.
pub(crate) fn refusal(context: &TurnContext, state: &TurnState) -> Option<String> {
    let mut history = state.history.clone();
    // The compaction runs after the pending calls. Their results are not known yet, but can only add to the items that
    // can be replaced.
    history.extend(state.pending_calls.iter().map(|call| {
        let result = ToolResult::empty(call.call_id.clone(), call.name.clone());
        let body = ItemBody::ToolResult(result);
        Arc::new(Item::new(context.ids.turn, body))
    }));
    make_plan(&history, CompactionCause::Model, budget(context, state)).err()
}

/// Returns the window of the next model in uncalibrated tokens: if a server counts twice as many tokens as estimated,
/// half as many tokens fit.
fn budget(context: &TurnContext, state: &TurnState) -> plan::HistoryBudget {
    let model = context.next_model(state);
    let guess = request::guess(context, state, model).max(1);
    let expected = request::expected(context, state, model).max(1);
    let window = u128::from(context.next_window(state)) * u128::from(guess) / u128::from(expected);
    let window = u64::try_from(window).unwrap_or(u64::MAX).saturating_sub(request::guess_fixed(context, model));
    let max_messages = plan::message_limit(context.config.max_message_history);
    plan::HistoryBudget { window, max_messages, echo_reasoning: model.echo_reasoning }
}

async fn compact(
    context: &TurnContext,
    state: &mut TurnState,
    plan: Plan,
    wanted: CompactionRequest,
    budget: plan::HistoryBudget,
) -> Flow<Compaction> {
    let (replaced, rest) = state.history.split_at(plan.split);
    let (replaced, rest): (Vec<Arc<Item>>, Vec<Arc<Item>>) = (replaced.to_vec(), rest.to_vec());
    let before = last_compaction(&replaced);
    // The summary gets its share of the space left by tools and instructions.
    let window = budget.window;
    let user_messages = verbatim::messages(before, &replaced);
    // User messages get a share of the whole window, so that they are not lost if tools take more space than estimated.
    let fitted = verbatim::for_window(&user_messages.messages, context.next_window(state));
    let continues = !rest.iter().any(|item| matches!(item.body, ItemBody::UserMessage { steered: false, .. }));
    // A user who compacts now may want to continue the unfinished turn.
    let continues = continues && state.phase != (Phase::Compacting { unfinished: false });
    let running = (!matches!(state.phase, Phase::Compacting { .. })).then_some(context.ids.turn);
    let mut facts = facts::facts(&replaced, &state.todos, window, running);
    if !facts.is_answered {
        // The last answer is carried over until there is a new answer.
        facts.last_answer = before.and_then(|earlier| summary::last_answer(&earlier.summary)).map(str::to_owned);
    }
    if continues {
        facts.under_way = files::inputs(context, before, &replaced, window).await?;
    }
    // No model is called if there is little to summarise or if only the message limit was reached.
    let strategy = match wanted.strategy {
        _ if wanted.cause == CompactionCause::Limit || !plan.worth_a_model => CompactionStrategy::Truncate,
        CompactionStrategy::Auto => CompactionStrategy::Compact,
        strategy => strategy,
    };
    let wanted = CompactionRequest { strategy, ..wanted };
    let mut report = CompactionReport {
        messages_after: count(plan::count(&rest) + 1),
        pinned: user_messages.messages,
        ..initial_report(context, state, wanted)
    };
    if user_messages.left_out > 0 {
        let reason = "of your messages are no longer kept verbatim: in total they are too long";
        note(&mut report, format!("{} {reason}", user_messages.left_out));
    }
    let mut written = None;
    if report.strategy != CompactionStrategy::Truncate {
        let earlier = before.map(|compaction| compaction.summary.as_str());
        match ask(context, state, wanted, earlier, &replaced).await? {
            Ok((text, model)) => {
                report.model = Some(model);
                written = Some(text);
            }
            Err(error) => {
                report.strategy = CompactionStrategy::Truncate;
                note(&mut report, format!("no model summarised it: {error}"));
            }
        }
    }
    // The history file is written last, so that a cancelled compaction does not write items twice.
    let mut file = files::previous_file(context, state, before);
    match files::write(context, &mut file, before, &replaced).await {
        Ok(path) => report.path = Some(path),
        Err(error) => note(&mut report, format!("the replaced part could not be written to a file: {error}")),
    }
    let source = match (&written, before) {
        (Some(text), _) => summary::SummaryText::Written(text),
        (None, Some(earlier)) => summary::SummaryText::Earlier(&earlier.summary),
        (None, None) => summary::SummaryText::None,
    };
    let summary = summary::compose(source, &facts, &fitted.messages, report.path.as_deref(), window);
    let mut compaction = Compaction { summary, report, file, ..Compaction::default() };
    let mut after = vec![Arc::new(Item::new(context.ids.turn, ItemBody::Compaction(compaction.clone())))];
    after.extend(rest);
    compaction.report.tokens_after = calibrated_tokens(context, &after);
    Ok(compaction)
}

fn last_compaction(items: &[Arc<Item>]) -> Option<&Compaction> {
    items.iter().find_map(|item| match &item.body {
        ItemBody::Compaction(compaction) if !compaction.summary.is_empty() => Some(compaction),
        _ => None,
    })
}

/// Returns the report on a history before the compaction.
fn initial_report(context: &TurnContext, state: &TurnState, wanted: CompactionRequest) -> CompactionReport {
    let CompactionRequest { cause, strategy } = wanted;
    let messages = count(plan::count(&state.history));
    let expected = request::expected(context, state, context.next_model(state));
    CompactionReport {
        cause,
        strategy,
        messages_before: messages,
        messages_after: messages,
        tokens_before: calibrated_tokens(context, &state.history),
        // Percentage of the window that the next request would take.
        percent_before: expected.saturating_mul(100) / context.next_window(state).max(1),
        ..CompactionReport::default()
    }
}

fn note(report: &mut CompactionReport, problem: String) {
    match &mut report.problem {
        Some(known) => known.push_str(&format!("; {problem}")),
        None => report.problem = Some(problem),
    }
}

fn calibrated_tokens(context: &TurnContext, items: &[Arc<Item>]) -> u64 {
    let info = context.models.model.info();
    context.models.calibration.apply(&info.id, items.iter().map(|item| meter::guess(item, info.echo_reasoning)).sum())
}

fn count(messages: usize) -> u32 {
    u32::try_from(messages).unwrap_or(u32::MAX)
}

/// Returns the one-sentence report for the model and for users.
fn sentence(report: &CompactionReport) -> String {
    let CompactionReport { messages_before, messages_after, tokens_before, tokens_after, .. } = report;
    let percent = tokens_after.saturating_mul(100).checked_div(*tokens_before).unwrap_or(100);
    let path = report.path.iter().map(|path| format!("; the replaced part is in {path}"));
    let more: String = path.chain(report.problem.iter().map(|problem| format!("; {problem}"))).collect();
    format!(
        "the history was compacted from {messages_before} to {messages_after} messages, about {tokens_before} to \
         {tokens_after} tokens ({percent} %){more}"
    )
}

/// Moves results to files if this frees enough space. Returns true if results were moved.
pub(super) async fn offload(context: &TurnContext, state: &mut TurnState, cause: CompactionCause) -> Flow<bool> {
    let model = context.next_model(state);
    let expected = request::expected(context, state, model).max(1);
    let mut needed = to_offload(expected, context.next_window(state));
    if cause == CompactionCause::Overflow {
        // The server rejected the request as too long, regardless of the estimate.
        needed = needed.max(expected / 2);
    }
    // If a server counts twice as many tokens as estimated, half as many estimated tokens must be freed.
    let guess = u128::from(request::guess(context, state, model));
    let needed = u64::try_from(u128::from(needed) * guess / u128::from(expected)).unwrap_or(u64::MAX);
    let Some(chosen) = offload::results(&state.history, context.ids.turn, needed) else { return Ok(false) };
    let Some(offloaded) = store_results(context, &chosen).await else { return Ok(false) };
    let strategy = CompactionStrategy::Offload;
    let mut report = initial_report(context, state, CompactionRequest { cause, strategy });
    report.offloaded = count(offloaded.len());
    let item = context.recorder.start(ItemBody::Compaction(Compaction::default())).await?;
    let mut after = state.history.clone();
    let body = ItemBody::Compaction(Compaction { offloaded: offloaded.clone(), ..Compaction::default() });
    after.push(Arc::new(Item { id: item, ..Item::new(context.ids.turn, body) }));
    offload::apply(&mut after);
    report.tokens_after = calibrated_tokens(context, &after);
    let compaction = Compaction { report, offloaded, ..Compaction::default() };
    let stored = context.recorder.compact(item, Vec::new(), compaction).await?;
    after.pop();
    after.push(stored);
    state.history = after;
    state.meter.start_over();
    state.visible_at_undo = 0;
    request::record_level(context, state).await?;
    Ok(true)
}

/// Writes each result to its own file. Returns `None` without moving anything if a result cannot be written.
async fn store_results(context: &TurnContext, chosen: &[Arc<Item>]) -> Option<Vec<OffloadedResult>> {
    let mut offloaded = Vec::with_capacity(chosen.len());
    for item in chosen {
        let ItemBody::ToolResult(result) = &item.body else { continue };
        // A result that was too long to be shown is already stored in full under the name without a suffix.
        let name = format!("{}-shown.txt", result.call_id);
        let content = result.text.clone().into_bytes();
        let stored = context.store_result(name, content).await;
        let stored = stored.inspect_err(|error| tracing::warn!("could not move results to files: {error}"));
        offloaded.push(OffloadedResult { item: item.id, path: stored.ok()? });
    }
    Some(offloaded)
}

/// Maximum size of a model's summary, in bytes: many times the requested length.
const MAX_SUMMARY_BYTES: usize = 100_000;

/// A model's summary and the model's ID. The error is from the model, and does not end the turn.
type WrittenSummary = Result<(String, String), ModelError>;

/// Requests a summary of the replaced part, including an earlier summary.
pub(super) async fn ask(
    context: &TurnContext,
    state: &mut TurnState,
    CompactionRequest { cause, strategy }: CompactionRequest,
    earlier: Option<&str>,
    replaced: &[Arc<Item>],
) -> Flow<WrittenSummary> {
    let (slot, model) = match &context.models.summary {
        Some((slot, model)) => (*slot, model),
        None => (context.models.slot, &context.models.model),
    };
    if model.info().embedded {
        return Ok(Err(ModelError::new(ErrorKind::Configuration, "the built-in model is too small for summaries")));
    }
    if context.models.summary.is_none()
        && cause != CompactionCause::Overflow
        && let Some((request, report)) = append_to_conversation(context, state, strategy)
    {
        let summary = summarise(context, state, (slot, &**model), request, Some(report)).await?;
        // A model that calls forbidden tools, or that has no space after the conversation, may succeed without tools
        // and conversation.
        let retry = summary
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), ErrorKind::ContextOverflow) || error.to_string() == NO_TEXT);
        if !retry {
            return Ok(summary);
        }
    }
    let window = context.models.windows.of(model.info());
    let (prompt, now) = (&context.config.compact_prompt, context.ports.clock.now());
    match summary::request(context.ids.session, prompt, earlier, replaced, strategy, window, now) {
        Some(request) => summarise(context, state, (slot, &**model), request, None).await,
        None => Ok(Err(ModelError::new(ErrorKind::ContextOverflow, "its window is too small for the history"))),
    }
}

/// Appends the prompt for a summary to the conversation, in the form of the next request. `None` if the window has no
/// space for the answer.
fn append_to_conversation(
    context: &TurnContext,
    state: &TurnState,
    strategy: CompactionStrategy,
) -> Option<(ModelRequest, PromptReport)> {
    let (model, window) = (&context.models.model, context.window());
    let length = Length::of(strategy, window);
    let input = summary::input(&context.config.compact_prompt, length);
    let expected = request::expected(context, state, model.info());
    if expected.saturating_add(estimate(&input)).saturating_add(length.tokens()) > window {
        return None;
    }
    let mut draft = request::assemble(context, state, context.tools.finder.tools());
    draft.may_call = false;
    context.tools.chain.before_model(context, state, &mut draft);
    draft.messages.push(Message::User { text: input });
    let (request, footprint) = draft.seal(context.ids.session);
    let report = state.meter.sending(footprint, &context.models.calibration, &model.info().id).report;
    Some((request, report))
}

/// Error for an answer without text.
const NO_TEXT: &str = "it returned no text";

async fn summarise(
    context: &TurnContext,
    state: &mut TurnState,
    (slot, model): (Slot, &dyn Model),
    request: ModelRequest,
    prompt: Option<PromptReport>,
) -> Flow<WrittenSummary> {
    let info = model.info();
    let tap = context.tap(state.steps, ExchangePurpose::Summary);
    let mut chunks = CallStream::open(model, ModelRequest { tap, ..request });
    let (mut text, mut calls) = (String::new(), false);
    let end = loop {
        if text.len() > MAX_SUMMARY_BYTES {
            break Err(ModelError::new(ErrorKind::Protocol, "its output did not end"));
        }
        match context.or_cancelled(chunks.next()).await {
            Ok(Ok(ModelChunk::Text(more))) => text.push_str(&more),
            Ok(Ok(ModelChunk::WasReasoning | ModelChunk::Discarded)) => text.clear(),
            Ok(Ok(ModelChunk::End(finish))) => break check_complete(finish),
            Ok(Ok(ModelChunk::ToolCall { .. } | ModelChunk::UnrunCall { .. })) => calls = true,
            Ok(Ok(_)) => {}
            Ok(Err(error)) => break Err(error),
            Err(exit) => {
                sample::count(context, state, slot, info, chunks.close(true), None).await?;
                return Err(exit);
            }
        }
    };
    let cost = chunks.close(end.is_ok() || !text.is_empty());
    sample::count(context, state, slot, info, cost, prompt).await?;
    // Text next to a call describes the call and is no summary.
    let has_text = !calls && !text.trim().is_empty();
    let no_text = || ModelError::new(ErrorKind::Protocol, NO_TEXT);
    let end = end.and_then(|()| has_text.then(|| (text, info.id.clone())).ok_or_else(no_text));
    if let Err(error) = &end
        && context.models.summary.is_none()
    {
        // `expected` counts the whole history, which includes the part to be summarised.
        sample::learn(context, model, request::expected(context, state, info), error).await?;
    }
    Ok(end)
}

/// Rejects a truncated summary, because it would silently omit facts.
fn check_complete(finish: Finish) -> Result<(), ModelError> {
    let reason = match finish {
        Finish::Stop => return Ok(()),
        Finish::Length => "it exceeded the model's output limit",
        Finish::Filtered => "the provider withheld the rest",
        Finish::Runaway => "it repeated itself endlessly",
    };
    Err(ModelError::new(ErrorKind::Protocol, format!("its summary was truncated: {reason}")))
}
