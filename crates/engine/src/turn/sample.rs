//! Asks the model once and turns its stream into items.

use std::sync::Arc;

use agentd_context::{RequestBuilder, ToolSet, compaction::plan::CompactionRequest};
use agentd_core::{
    context::{CompactionCause, CompactionStrategy, PromptReport, ServerRemark},
    error::{ErrorKind, ModelError},
    event::EventKind,
    exchange::ExchangePurpose,
    ids::{CallId, ItemId},
    item::{Item, ItemBody, ItemStatus},
    model::{Finish, ModelChunk, ModelInfo, Slot, UnrunReason, WindowSource},
    origin::{ItemOrigin, ServerFields},
    ports::Model,
    tool::ToolCall,
};

use crate::turn::{
    Phase, Reply, TurnContext, TurnExit, TurnState,
    recorder::Recorder,
    request,
    stopwatch::{CallCost, CallStream},
    unusable::{self, AnswerParts},
};

/// Calls of one answer that are run at the most. A model that asks for more has lost its way.
const MAX_CALLS: usize = 64;

/// Asks the turn's model with its tools.
pub(crate) async fn sample(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    request::append_reminders(context, state, None).await?;
    let model = &*context.models.model;
    let tools = context.tools.finds.tools();
    // The answer is there, in the wrong form: nothing is to be called for it any more.
    let only_form = state.unusable.wrong_form().is_some();
    let tools = if only_form && !model.can_forbid_calls() { ToolSet::none() } else { tools };
    let mut draft = request::assemble(context, state, tools);
    if state.phase != Phase::Planning {
        draft = draft.in_form(context.answer_schema());
    }
    if only_form {
        draft.forbid_calls();
    }
    context.tools.chain.before_model(context, state, &mut draft);
    ask(context, state, context.models.slot, model, draft).await
}

/// Sends one request and takes in the whole answer.
pub(crate) async fn ask(
    context: &TurnContext,
    state: &mut TurnState,
    slot: Slot,
    model: &dyn Model,
    draft: RequestBuilder,
) -> Result<(), TurnExit> {
    state.steps += 1;
    let (mut request, footprint) = draft.seal(context.ids.session);
    // The last answer of another model can be given by the turn's own.
    let has_fallback = context.models.has_fallback || slot != context.models.slot;
    request.has_fallback = has_fallback;
    request.tap = context.tap(state.steps, ExchangePurpose::Turn);
    let mut sent = state.meter.sending(footprint, &context.models.scales, &model.info().id);
    let may_call = request.may_call;
    let items = state.history.len();
    request::warn_of_price(context, state, model).await?;
    let mut answer = Answer::new(&context.recorder, model);
    let latest = context.latest_answer();
    let mut chunks = CallStream::open(model, request);
    let end = loop {
        match context.or_too_late(latest, chunks.next()).await {
            Ok(Ok(ModelChunk::End(finish))) => break Ok(finish),
            Ok(Ok(chunk)) => answer.take(chunk).await?,
            Ok(Err(error)) => break Err(error),
            Err(exit) => {
                count(context, state, slot, model.info(), chunks.close(true), None).await?;
                return Err(exit);
            }
        }
    };
    let cost = chunks.close(end.is_ok() || answer.words.have_begun());
    let usage = cost.counted;
    let Answer { words, mut calls, unrun, without_tools, fields, remarks, .. } = answer;
    if without_tools {
        sent = state.meter.sent_without_tools(sent, &context.models.scales, &model.info().id);
    }
    state.usage_of_answer = usage.completion_tokens;
    // The embedded model reads of a request what it can make use of, and in its own words.
    let prompt = (!model.info().embedded).then(|| PromptReport { remarks, ..sent.report.clone() });
    // Told also where the server reported nothing: it is what counts the steps after a restart.
    count(context, state, slot, model.info(), cost, prompt).await?;
    let finish = match end {
        Ok(finish) => finish,
        Err(error) => {
            let is_silent = !words.have_begun() && calls.is_empty();
            words.complete(&context.recorder, state, ItemStatus::Cut, None).await?;
            if is_silent && has_fallback && error.kind() != ErrorKind::ContextOverflow {
                return Err(TurnExit::of_silent(model.info(), error));
            }
            return Box::pin(room_or_fail(context, state, model, error)).await;
        }
    };
    let had_thoughts = words.have_thoughts();
    let status = if finish == Finish::Stop { ItemStatus::Done } else { ItemStatus::Cut };
    // With the last words, or with the first call where there are none.
    if let Some(whole) = words.complete(&context.recorder, state, status, fields).await?
        && let Some(SampledCall { fields, .. }) = calls.first_mut()
    {
        let ServerFields { call_id, extra_content, .. } = std::mem::take(fields);
        *fields = ServerFields { call_id, extra_content, ..whole };
    }
    warn_of_cut(context, finish).await?;
    let is_called = !calls.is_empty() || matches!(unrun, Some((_, UnrunReason::Foreign)));
    let called_in_vain = !may_call && is_called;
    let parts = AnswerParts {
        finish,
        words: state.answer.as_ref().map_or(0, String::len),
        thoughts: had_thoughts,
        calls: calls.len(),
        unrun: unrun.as_ref(),
    };
    let problem = unusable::problem(&parts);
    if may_call {
        Box::pin(record_calls(context, state, model.info(), calls)).await?;
    } else if let Some(SampledCall { name, .. }) = calls.first() {
        let message = format!("the model called {name} when only its final answer was expected; the call did not run");
        context.recorder.warn("call_not_run", message).await?;
    }
    let known = request::look_for_cut(context, state, model, (&sent, items), usage).await?;
    context.models.windows.answered(model.info(), sent.tokens(usage));
    state.meter.answered(sent, known, &context.models.scales, model.info());
    request::tell_level(context, state).await?;
    state.reply = if called_in_vain { Reply::CalledInVain } else { Reply::Useful };
    // The last answer at a limit is taken as it is.
    if matches!(state.phase, Phase::Working | Phase::Planning) {
        state.take_problem(problem, model.info().embedded);
    }
    Ok(())
}

/// Counts a model call.
pub(crate) async fn count(
    context: &TurnContext,
    state: &mut TurnState,
    slot: Slot,
    info: &ModelInfo,
    cost: CallCost,
    prompt: Option<PromptReport>,
) -> Result<(), TurnExit> {
    let CallCost { spent: usage, timing, .. } = cost;
    state.usage += usage;
    let (step, model, turn) = (state.steps, info.id.clone(), state.usage);
    let timing = Some(timing);
    let kind = EventKind::UsageUpdated { step, slot, model, usage, turn, prompt, delegated: false, timing };
    context.recorder.fact(kind).await
}

/// A request that did not fit is tried once more after the history was compacted.
async fn room_or_fail(
    context: &TurnContext,
    state: &mut TurnState,
    model: &dyn Model,
    error: ModelError,
) -> Result<(), TurnExit> {
    if error.kind() != ErrorKind::ContextOverflow {
        return Err(error.into());
    }
    learn(context, model, request::expected(context, state, model.info()), &error).await?;
    if state.reply == Reply::Overflowed {
        return Err(too_narrow(context, model, error).into());
    }
    tracing::info!("the request did not fit, so the history is compacted: {error}");
    state.reply = Reply::Overflowed;
    // What was said before the server noticed is no answer.
    state.answer = None;
    state.compact = Some(CompactionRequest { cause: CompactionCause::Overflow, strategy: CompactionStrategy::Auto });
    Ok(())
}

/// Takes in what an error says of the model's window, if it does, and tells it. The request had about so many tokens.
pub(crate) async fn learn(
    context: &TurnContext,
    model: &dyn Model,
    refused: u64,
    error: &ModelError,
) -> Result<(), TurnExit> {
    let info = model.info();
    let Some(said) = error.window().filter(|said| context.models.windows.learn(info, refused, *said)) else {
        return Ok(());
    };
    let message = format!(
        "the window of {} has {said} tokens, as its server says, not {}: that is kept; set context_window in models.yaml to \
         say it yourself",
        info.id, info.context_window
    );
    model.note_window(said, WindowSource::Refusal);
    context.recorder.warn("window_learned", message).await
}

/// Says so where it is not the history that does not fit.
fn too_narrow(context: &TurnContext, model: &dyn Model, error: ModelError) -> ModelError {
    let info = model.info();
    let fixed = context.models.scales.apply(&info.id, request::guess_fixed(context, info));
    let window = context.models.windows.of(info);
    if fixed < window / 2 {
        return error;
    }
    error.with_hint(format!(
        "instructions and tools alone take about {fixed} of the {window} tokens: use a model with a larger window, or set \
         context_window to what the server really has"
    ))
}

async fn warn_of_cut(context: &TurnContext, finish: Finish) -> Result<(), TurnExit> {
    let (code, message) = match finish {
        Finish::Stop | Finish::Runaway => return Ok(()),
        Finish::Length => {
            ("answer_cut", "the answer reached the token limit and is cut; raise max_tokens of this slot for more")
        }
        Finish::Filtered => ("answer_filtered", "the provider withheld the rest of the answer"),
    };
    context.recorder.warn(code, message).await
}

async fn record_calls(
    context: &TurnContext,
    state: &mut TurnState,
    info: &ModelInfo,
    calls: Vec<SampledCall>,
) -> Result<(), TurnExit> {
    let asked = calls.len();
    for SampledCall { name, arguments, fields } in calls.into_iter().take(MAX_CALLS) {
        let body = ItemBody::ToolCall(ToolCall { call_id: CallId::generate(), name, arguments });
        let origin = ItemOrigin { model: info.origin(), fields };
        state.note(context.recorder.whole_said(body, origin).await?);
    }
    if asked > MAX_CALLS {
        let message = format!("the model asked for {asked} tool calls at once; only the first {MAX_CALLS} are run");
        context.recorder.warn("too_many_calls", message).await?;
    }
    Ok(())
}

/// An answer on its way in.
struct Answer<'a> {
    recorder: &'a Recorder,
    words: Words<'a>,
    calls: Vec<SampledCall>,
    /// The server's own fields of it as a whole.
    fields: Option<ServerFields>,
    /// The call that did not run, where there was one.
    unrun: Option<(String, UnrunReason)>,
    /// Remarks of the server on the request.
    remarks: Vec<ServerRemark>,
    /// Set if the request went without its tools.
    without_tools: bool,
}

/// A call of an answer, as it came.
struct SampledCall {
    name: String,
    arguments: String,
    fields: ServerFields,
}

/// The items of an answer that hold text. Models may think, speak and think again.
struct Words<'a> {
    model: &'a dyn Model,
    /// Those that are whole.
    done: Vec<Arc<Item>>,
    /// The one under way.
    open: Option<(ItemId, ItemBody)>,
}

impl<'a> Answer<'a> {
    fn new(recorder: &'a Recorder, model: &'a dyn Model) -> Self {
        let words = Words { model, done: Vec::new(), open: None };
        Self {
            recorder,
            words,
            calls: Vec::new(),
            unrun: None,
            fields: None,
            remarks: Vec::new(),
            without_tools: false,
        }
    }
    async fn take(&mut self, chunk: ModelChunk) -> Result<(), TurnExit> {
        match chunk {
            ModelChunk::Text(text) => self.words.add(self.recorder, text, false).await?,
            ModelChunk::Reasoning(text) => self.words.add(self.recorder, text, true).await?,
            ModelChunk::ToolCall { name, arguments, fields } => {
                self.calls.push(SampledCall { name, arguments, fields });
            }
            ModelChunk::AnswerFields(fields) => self.fields = Some(fields),
            ModelChunk::UnrunCall { name, why } => self.unrun = Some((name, why)),
            ModelChunk::WasReasoning => Box::pin(self.words.were_thoughts(self.recorder)).await?,
            ModelChunk::Discarded => Box::pin(self.words.discard(self.recorder)).await?,
            ModelChunk::Remark(remark) => self.remarks.push(remark),
            ModelChunk::Retry { attempt, delay_ms, reason } => {
                let message = format!("try {attempt} of the model call in {delay_ms} ms: {reason}");
                self.warn("model_retry", message).await?;
            }
            ModelChunk::WithoutTools => self.without_tools = true,
            ModelChunk::Notice { code, message } => self.warn(code, message).await?,
            ModelChunk::Runaway { what } => {
                self.warn("answer_runaway", format!("the answer was cut: it {what}")).await?;
            }
            ModelChunk::Usage(_) | ModelChunk::End(_) => {}
        }
        Ok(())
    }

    async fn warn(&self, code: &str, message: String) -> Result<(), TurnExit> {
        self.recorder.warn(code, message).await
    }
}

impl Words<'_> {
    async fn add(&mut self, recorder: &Recorder, more: String, thought: bool) -> Result<(), TurnExit> {
        if more.is_empty() {
            return Ok(());
        }
        let goes_on = self.open.as_ref().is_some_and(|(_, body)| matches!(body, ItemBody::Reasoning { .. }) == thought);
        if !goes_on {
            Box::pin(self.close(recorder, ItemStatus::Done, None)).await?;
            let text = String::new();
            let body = if thought { ItemBody::Reasoning { text } } else { ItemBody::AgentMessage { text } };
            self.open = Some((recorder.start(body.clone()).await?, body));
        }
        if let Some((id, ItemBody::AgentMessage { text } | ItemBody::Reasoning { text })) = &mut self.open {
            text.push_str(&more);
            recorder.delta(*id, more).await?;
        }
        Ok(())
    }

    fn have_begun(&self) -> bool {
        self.open.is_some() || !self.done.is_empty()
    }

    fn have_thoughts(&self) -> bool {
        let open = self.open.as_ref().map(|(_, body)| body);
        self.done.iter().map(|item| &item.body).chain(open).any(|body| matches!(body, ItemBody::Reasoning { .. }))
    }

    /// Makes the words so far thoughts. An item keeps its kind, so the words are told again in another one.
    async fn were_thoughts(&mut self, recorder: &Recorder) -> Result<(), TurnExit> {
        let Some((_, ItemBody::AgentMessage { text })) = &self.open else { return Ok(()) };
        let text = text.clone();
        self.discard(recorder).await?;
        self.add(recorder, text, true).await
    }

    /// Ends the words so far as cut and empty. Empty words say that what came before them, of the same answer, counts for
    /// nothing: so it is in the history after a restart, too.
    async fn discard(&mut self, recorder: &Recorder) -> Result<(), TurnExit> {
        let was_open = self.open.take();
        let none = || ItemBody::AgentMessage { text: String::new() };
        let void = match was_open {
            Some((id, ItemBody::AgentMessage { .. })) => Some(recorder.complete(id, none(), ItemStatus::Cut).await?),
            Some((id, _)) => {
                recorder.complete(id, ItemBody::Reasoning { text: String::new() }, ItemStatus::Cut).await?;
                None
            }
            None => None,
        };
        let void = match void {
            None if !self.done.is_empty() => {
                Some(recorder.complete(recorder.start(none()).await?, none(), ItemStatus::Cut).await?)
            }
            void => void,
        };
        self.done = void.into_iter().collect();
        Ok(())
    }

    /// Closes the item under way. Fields are handed back where none is.
    async fn close(
        &mut self,
        recorder: &Recorder,
        status: ItemStatus,
        fields: Option<ServerFields>,
    ) -> Result<Option<ServerFields>, TurnExit> {
        let Some((id, body)) = self.open.take() else { return Ok(fields) };
        let fields = fields.unwrap_or_default();
        let origin = ItemOrigin { model: self.model.info().origin(), fields };
        self.done.push(recorder.complete_said(id, body, status, origin).await?);
        Ok(None)
    }

    async fn complete(
        mut self,
        recorder: &Recorder,
        state: &mut TurnState,
        status: ItemStatus,
        fields: Option<ServerFields>,
    ) -> Result<Option<ServerFields>, TurnExit> {
        let left = Box::pin(self.close(recorder, status, fields)).await?;
        for item in self.done {
            state.note(item);
        }
        Ok(left)
    }
}
