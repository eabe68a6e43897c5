//! Calls the model once and turns its stream into items. Also requests the final answer of a turn that would otherwise
//! end with a tool result.

use std::sync::Arc;

use agentd_context::{RequestBuilder, ToolSet, compaction::plan::CompactionRequest};
use agentd_core::{
    context::{CompactionCause, CompactionStrategy, PromptReport, ServerRemark},
    error::{ErrorKind, ModelError},
    event::EventKind,
    exchange::ExchangePurpose,
    ids::{CallId, ItemId},
    item::{Item, ItemBody, ItemStatus, NoticeTopic},
    model::{Finish, ModelChunk, ModelInfo, Slot, UnrunReason, WindowSource},
    origin::{ItemOrigin, ServerFields},
    ports::Model,
    routing::ChoiceRule,
    tool::ToolCall,
};

use crate::turn::{
    Flow, Phase, Reply, TurnContext, TurnExit, TurnState,
    hooks::Reminder,
    recorder::Recorder,
    request,
    route::SlotChoice,
    stopwatch::{CallCost, CallStream},
    unusable_answers,
};

/// Maximum number of calls per answer. A model that requests more is malfunctioning.
const MAX_CALLS: usize = 64;

/// Calls the turn's model with its tools.
pub(crate) async fn sample(context: &TurnContext, state: &mut TurnState) -> Flow {
    request::append_reminders(context, state, None).await?;
    let model = &*context.models.model;
    let tools = context.tools.finder.tools();
    // The answer exists but has the wrong form, so no calls are needed to fix it.
    let only_form = state.unusable.wrong_form().is_some();
    let tools = if only_form && !model.can_forbid_calls() { ToolSet::none() } else { tools };
    let mut draft = request::assemble(context, state, tools);
    draft.answer_schema = context.answer_schema().filter(|_| state.phase != Phase::Planning);
    draft.may_call = !only_form;
    context.tools.chain.before_model(context, state, &mut draft);
    ask(context, state, context.models.slot, model, draft).await
}

/// Notice at the end of the final request. Without the notice, a model that may not call tools often returns nothing.
const FINAL_ANSWER_PROMPT: &str = "Do not call any more tools in this turn. Answer the user now, in text, with what you have: \
                          what is done, and what is left to do.";

/// Requests the final answer from the chat model. Calls are forbidden, but the tools are still listed so that the
/// request keeps the prefix of the previous request. If the answer is empty, the turn ends without an answer.
pub(crate) async fn finalize(context: &TurnContext, state: &mut TurnState) -> Flow {
    state.phase = Phase::Finalizing;
    let answered = last_answer(context, state).await;
    state.phase = Phase::Working;
    answered
}

async fn last_answer(context: &TurnContext, state: &mut TurnState) -> Flow {
    // The history may fit the window of the turn's model but not that of the chat model.
    context.tools.chain.before_step(context, state).await?;
    let (slot, rule, model) = (context.models.chat_slot, ChoiceRule::LastAnswer, context.models.chat.info().id.clone());
    if slot != context.models.slot {
        let reason = SlotChoice { slot, rule }.reason().to_owned();
        context.recorder.fact(EventKind::ModelChosen { slot, model, rule, reason }).await?;
    }
    let offered_tools =
        if context.models.chat.can_forbid_calls() { context.tools.finder.tools() } else { ToolSet::none() };
    ask_with_retry(context, state, offered_tools).await?;
    if state.reply == Reply::ForbiddenCall && state.answer.is_none() {
        // The model called a tool despite the ban, so it is asked again without tools.
        ask_with_retry(context, state, ToolSet::none()).await?;
    }
    if state.answer.is_none() {
        let message = "the model ended the turn without an answer".to_owned();
        context.recorder.warn("empty_answer", message).await?;
    }
    Ok(())
}

/// Sends the request, and retries once after a compaction if the request did not fit.
async fn ask_with_retry(context: &TurnContext, state: &mut TurnState, tools: ToolSet) -> Flow {
    ask_once(context, state, tools.clone()).await?;
    if state.reply == Reply::Overflowed {
        context.tools.chain.before_step(context, state).await?;
        ask_once(context, state, tools).await?;
    }
    Ok(())
}

async fn ask_once(context: &TurnContext, state: &mut TurnState, tools: ToolSet) -> Flow {
    request::append_reminders(context, state, Some(Reminder::new(NoticeTopic::LastAnswer, FINAL_ANSWER_PROMPT)))
        .await?;
    let mut draft = request::assemble(context, state, tools);
    (draft.answer_schema, draft.may_call) = (context.answer_schema(), false);
    context.tools.chain.before_model(context, state, &mut draft);
    ask(context, state, context.models.chat_slot, &*context.models.chat, draft).await
}

/// Sends one request and processes the whole answer.
pub(crate) async fn ask(
    context: &TurnContext,
    state: &mut TurnState,
    slot: Slot,
    model: &dyn Model,
    draft: RequestBuilder,
) -> Flow {
    state.steps += 1;
    let (mut request, footprint) = draft.seal(context.ids.session);
    // If another model fails to write the final answer, the turn's own model can write it.
    let has_fallback = context.models.has_fallback || slot != context.models.slot;
    request.has_fallback = has_fallback;
    request.tap = context.tap(state.steps, ExchangePurpose::Turn);
    let mut sent = state.meter.sending(footprint, &context.models.calibration, &model.info().id);
    let may_call = request.may_call;
    let items = state.history.len();
    request::warn_of_price(context, state, model).await?;
    let mut answer = Answer::new(&context.recorder, model);
    let latest = context.answer_deadline();
    let mut chunks = CallStream::open(model, request);
    let end = loop {
        match context.or_deadline(latest, chunks.next()).await {
            Ok(Ok(ModelChunk::End(finish))) => break Ok(finish),
            Ok(Ok(chunk)) => answer.take(chunk).await?,
            Ok(Err(error)) => break Err(error),
            Err(exit) => {
                count(context, state, slot, model.info(), chunks.close(true), None).await?;
                return Err(exit);
            }
        }
    };
    let cost = chunks.close(end.is_ok() || answer.has_begun());
    let usage = cost.counted;
    let remarks = std::mem::take(&mut answer.remarks);
    if answer.without_tools {
        sent = state.meter.without_tools(sent, &context.models.calibration, &model.info().id);
    }
    state.answer_tokens = usage.completion_tokens;
    // The embedded model reads only parts of a request and rephrases them.
    let prompt = (!model.info().embedded).then(|| PromptReport { remarks, ..sent.report.clone() });
    // Usage is recorded even if the server reported none, because this event counts the steps after a restart.
    count(context, state, slot, model.info(), cost, prompt).await?;
    let finish = match end {
        Ok(finish) => finish,
        Err(error) => {
            let is_silent = !answer.has_begun() && answer.calls.is_empty();
            Box::pin(answer.close(ItemStatus::Cut, None)).await?;
            answer.done.into_iter().for_each(|item| state.note(item));
            if is_silent && has_fallback && error.kind() != ErrorKind::ContextOverflow {
                return Err(TurnExit::of_silent(model.info(), error));
            }
            return Box::pin(compact_or_fail(context, state, model, error)).await;
        }
    };
    let status = if finish == Finish::Stop { ItemStatus::Done } else { ItemStatus::Cut };
    let fields = answer.fields.take();
    let unused_fields = Box::pin(answer.close(status, fields)).await?;
    let Answer { done, mut calls, unrun, .. } = answer;
    let has_reasoning = done.iter().any(|item| matches!(item.body, ItemBody::Reasoning { .. }));
    done.into_iter().for_each(|item| state.note(item));
    // The fields are stored with the last text, or with the first call if there is no text.
    if let (Some(whole), Some((_, fields))) = (unused_fields, calls.first_mut()) {
        let ServerFields { call_id, extra_content, .. } = std::mem::take(fields);
        *fields = ServerFields { call_id, extra_content, ..whole };
    }
    warn_of_truncation(context, finish).await?;
    let is_called = !calls.is_empty() || matches!(unrun, Some((_, UnrunReason::Foreign)));
    let is_forbidden_call = !may_call && is_called;
    let text_bytes = state.answer.as_ref().map_or(0, String::len);
    let problem = unusable_answers::problem(finish, text_bytes, has_reasoning, !calls.is_empty(), unrun.as_ref());
    if may_call {
        Box::pin(record_calls(context, state, model.info(), calls)).await?;
    } else if let Some((ToolCall { name, .. }, _)) = calls.first() {
        let message = format!("the model called {name} when only its final answer was expected; the call did not run");
        context.recorder.warn("call_not_run", message).await?;
    }
    let checked_usage = request::check_truncation(context, state, model, (&sent, items), usage).await?;
    context.models.windows.answered(model.info(), sent.tokens(usage));
    state.meter.answered(sent, checked_usage, &context.models.calibration, model.info());
    request::record_level(context, state).await?;
    state.reply = if is_forbidden_call { Reply::ForbiddenCall } else { Reply::Useful };
    // The final answer at a limit is accepted even if it has a problem.
    if matches!(state.phase, Phase::Working | Phase::Planning) {
        state.record_problem(problem, model.info().embedded);
    }
    Ok(())
}

/// Records the usage of a model call.
pub(crate) async fn count(
    context: &TurnContext,
    state: &mut TurnState,
    slot: Slot,
    info: &ModelInfo,
    cost: CallCost,
    prompt: Option<PromptReport>,
) -> Flow {
    let CallCost { spent: usage, timing, .. } = cost;
    state.usage += usage;
    let (step, model, turn) = (state.steps, info.id.clone(), state.usage);
    let timing = Some(timing);
    let kind = EventKind::UsageUpdated { step, slot, model, usage, turn, prompt, delegated: false, timing };
    context.recorder.fact(kind).await
}

/// Compacts the history after a request that did not fit, so that it can be retried once.
async fn compact_or_fail(context: &TurnContext, state: &mut TurnState, model: &dyn Model, error: ModelError) -> Flow {
    if error.kind() != ErrorKind::ContextOverflow {
        return Err(error.into());
    }
    learn(context, model, request::expected(context, state, model.info()), &error).await?;
    if state.reply == Reply::Overflowed {
        return Err(with_window_hint(context, model, error).into());
    }
    tracing::info!("the request did not fit; compacting the history: {error}");
    state.reply = Reply::Overflowed;
    // Text received before the server reported the overflow is not an answer.
    state.answer = None;
    state.compact = Some(CompactionRequest { cause: CompactionCause::Overflow, strategy: CompactionStrategy::Auto });
    Ok(())
}

/// Updates the model's window if the error states the window, and warns about the change. The request had about
/// `refused` tokens.
pub(crate) async fn learn(context: &TurnContext, model: &dyn Model, refused: u64, error: &ModelError) -> Flow {
    let info = model.info();
    let is_news = |reported: &u64| context.models.windows.learn(info, refused, *reported);
    let Some(reported) = error.window().filter(is_news) else { return Ok(()) };
    let message = format!(
        "the window of {} has {reported} tokens according to its server, not {}; using the server's value. To override \
         it, set context_window in models.yaml",
        info.id, info.context_window
    );
    model.note_window(reported, WindowSource::Refusal);
    context.recorder.warn("window_learned", message).await
}

/// Adds a hint if instructions and tools, not the history, are too large.
fn with_window_hint(context: &TurnContext, model: &dyn Model, error: ModelError) -> ModelError {
    let info = model.info();
    let fixed = context.models.calibration.apply(&info.id, request::guess_fixed(context, info));
    let window = context.models.windows.of(info);
    if fixed < window / 2 {
        return error;
    }
    error.with_hint(format!(
        "instructions and tools alone take about {fixed} of the {window} tokens: use a model with a larger window, or \
         set context_window to the server's actual window"
    ))
}

async fn warn_of_truncation(context: &TurnContext, finish: Finish) -> Flow {
    let (code, message) = match finish {
        Finish::Stop | Finish::Runaway => return Ok(()),
        Finish::Length => {
            ("answer_cut", "the answer was truncated at the token limit; raise max_tokens of this slot for more")
        }
        Finish::Filtered => ("answer_filtered", "the provider withheld the rest of the answer"),
    };
    context.recorder.warn(code, message).await
}

async fn record_calls(
    context: &TurnContext,
    state: &mut TurnState,
    info: &ModelInfo,
    calls: Vec<(ToolCall, ServerFields)>,
) -> Flow {
    let asked = calls.len();
    for (call, fields) in calls.into_iter().take(MAX_CALLS) {
        let origin = ItemOrigin { model: info.origin(), fields };
        state.note(context.recorder.whole(ItemBody::ToolCall(call), Some(origin)).await?);
    }
    if asked > MAX_CALLS {
        let message = format!("the model asked for {asked} tool calls at once; only the first {MAX_CALLS} run");
        context.recorder.warn("too_many_calls", message).await?;
    }
    Ok(())
}

/// An answer being received. Models may alternate between reasoning and text, so an answer can consist of several
/// items.
struct Answer<'a> {
    recorder: &'a Recorder,
    model: &'a dyn Model,
    /// Completed items of the answer.
    done: Vec<Arc<Item>>,
    /// The item in progress.
    open: Option<(ItemId, ItemBody)>,
    /// Calls of the answer, each with the server-specific fields.
    calls: Vec<(ToolCall, ServerFields)>,
    /// Server-specific fields of the whole answer.
    fields: Option<ServerFields>,
    /// A call that did not run, if there was one.
    unrun: Option<(String, UnrunReason)>,
    /// The server's remarks about the request.
    remarks: Vec<ServerRemark>,
    /// True if the request was sent without its tools.
    without_tools: bool,
}

impl<'a> Answer<'a> {
    fn new(recorder: &'a Recorder, model: &'a dyn Model) -> Self {
        Self {
            recorder,
            model,
            done: Vec::new(),
            open: None,
            calls: Vec::new(),
            fields: None,
            unrun: None,
            remarks: Vec::new(),
            without_tools: false,
        }
    }

    async fn take(&mut self, chunk: ModelChunk) -> Flow {
        match chunk {
            ModelChunk::Text(text) => self.add(text, false).await?,
            ModelChunk::Reasoning(text) => self.add(text, true).await?,
            ModelChunk::ToolCall { name, arguments, fields } => {
                self.calls.push((ToolCall { call_id: CallId::generate(), name, arguments }, fields));
            }
            ModelChunk::AnswerFields(fields) => self.fields = Some(fields),
            ModelChunk::UnrunCall { name, why } => self.unrun = Some((name, why)),
            // The kind of an item cannot change, so the text is repeated in an item of the other kind.
            ModelChunk::WasReasoning => {
                if let Some((_, ItemBody::AgentMessage { text })) = &self.open {
                    let text = text.clone();
                    Box::pin(self.discard()).await?;
                    self.add(text, true).await?;
                }
            }
            ModelChunk::Discarded => Box::pin(self.discard()).await?,
            ModelChunk::Remark(remark) => self.remarks.push(remark),
            ModelChunk::Retry { attempt, attempts, delay_ms, reason } => {
                let message = retry_message(attempt, attempts, delay_ms, &reason);
                let retry_in_ms = Some(delay_ms);
                self.recorder.fact(EventKind::Warning { code: "model_retry".to_owned(), message, retry_in_ms }).await?;
            }
            ModelChunk::WithoutTools => self.without_tools = true,
            ModelChunk::Notice { code, message } => self.recorder.warn(code, message).await?,
            ModelChunk::Runaway { what } => {
                self.recorder.warn("answer_runaway", format!("the answer was cut off: it {what}")).await?;
            }
            ModelChunk::Usage(_) | ModelChunk::End(_) => {}
        }
        Ok(())
    }

    async fn add(&mut self, more: String, is_reasoning: bool) -> Flow {
        if more.is_empty() {
            return Ok(());
        }
        let continues =
            self.open.as_ref().is_some_and(|(_, body)| matches!(body, ItemBody::Reasoning { .. }) == is_reasoning);
        if !continues {
            Box::pin(self.close(ItemStatus::Done, None)).await?;
            let text = String::new();
            let body = if is_reasoning { ItemBody::Reasoning { text } } else { ItemBody::AgentMessage { text } };
            self.open = Some((self.recorder.start(body.clone()).await?, body));
        }
        if let Some((id, ItemBody::AgentMessage { text } | ItemBody::Reasoning { text })) = &mut self.open {
            text.push_str(&more);
            self.recorder.delta(*id, more).await?;
        }
        Ok(())
    }

    fn has_begun(&self) -> bool {
        self.open.is_some() || !self.done.is_empty()
    }

    /// Completes the text so far as a cut and empty item. An empty message marks earlier items of the same answer as
    /// void, so that the history is the same after a restart.
    async fn discard(&mut self) -> Flow {
        let empty_message = || ItemBody::AgentMessage { text: String::new() };
        let void = match self.open.take() {
            Some((id, ItemBody::AgentMessage { .. })) => Some(id),
            other => {
                if let Some((id, _)) = other {
                    let empty = ItemBody::Reasoning { text: String::new() };
                    self.recorder.complete(id, empty, ItemStatus::Cut, None, Vec::new()).await?;
                }
                if self.done.is_empty() { None } else { Some(self.recorder.start(empty_message()).await?) }
            }
        };
        self.done.clear();
        if let Some(id) = void {
            self.done.push(self.recorder.complete(id, empty_message(), ItemStatus::Cut, None, Vec::new()).await?);
        }
        Ok(())
    }

    /// Completes the item in progress. Returns the fields if there is no item in progress.
    async fn close(&mut self, status: ItemStatus, fields: Option<ServerFields>) -> Flow<Option<ServerFields>> {
        let Some((id, body)) = self.open.take() else { return Ok(fields) };
        let origin = ItemOrigin { model: self.model.info().origin(), fields: fields.unwrap_or_default() };
        self.done.push(self.recorder.complete(id, body, status, Some(origin), Vec::new()).await?);
        Ok(None)
    }
}

/// Returns the announcement of another attempt, for the user.
fn retry_message(attempt: u32, attempts: Option<u32>, delay_ms: u64, reason: &str) -> String {
    let delay = match delay_ms {
        0 => String::new(),
        1..1_000 => format!(" in {delay_ms} ms"),
        _ => format!(" in {} s", delay_ms.div_ceil(1_000)),
    };
    let count = attempts.map(|attempts| format!(" ({attempt} of {attempts})")).unwrap_or_default();
    format!("retrying{delay}{count}: {reason}")
}
