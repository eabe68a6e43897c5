//! Lets a call use a model, at the expense and within the limits of the turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_context::{footprint::picture, tokens::estimate};
use agentd_core::{
    audit::{AuditEntry, AuditFact},
    error::{ErrorKind, ModelError},
    exchange::{ExchangePurpose, RequestTap},
    ids::SessionId,
    model::{CallUsage, Finish, Message, ModelChunk, ModelRequest},
    ports::{Model, SampleAnswer, SampleRequest, Sampler},
    usage::Usage,
};
use futures_util::FutureExt as _;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    config::Ports,
    turn::{
        hooks::Invocation,
        stopwatch::{CallStream, Stopwatch},
    },
};

/// Maximum bytes of an answer per allowed token, in case the server ignores the token limit.
const MAX_BYTES_PER_TOKEN: u64 = 16;

/// Time limit for cancelling the requests of a call that has ended. Dropping the requests is immediate.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Budget of one call for using a model.
pub(crate) struct SamplingBudget<'a> {
    call: &'a Invocation<'a>,
    spent_tokens: Arc<watch::Sender<SpentTokens>>,
    /// Cancelled when the call has ended. The call's requests may run in other tasks.
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct SpentTokens {
    usage: Usage,
    /// Number of running requests.
    open: usize,
    /// True if no more requests may start.
    closed: bool,
}

impl<'a> SamplingBudget<'a> {
    pub(crate) fn open(call: &'a Invocation<'a>) -> Self {
        Self { call, spent_tokens: Arc::default(), ended: CancellationToken::new() }
    }

    /// Creates the sampler for this call, which asks `model`.
    pub(crate) fn sampler(&self, model: &Arc<dyn Model>) -> Sampler {
        let Invocation { context, call, state, .. } = self.call;
        // The turn itself has spent these tokens so far.
        let spent = state.usage.tokens().saturating_sub(state.delegated);
        let id = model.info().id.clone();
        let access = Arc::new(ModelAccess {
            session: context.ids.session,
            tap: context.tap(state.steps, ExchangePurpose::Tool),
            model: Arc::clone(model),
            ports: Arc::clone(&context.ports),
            entry: context
                .audit_entry(call, AuditFact::ModelAsked { tool: call.name.clone(), model: id.clone(), max_tokens: 0 }),
            tokens: context.limits.tokens.map(|limit| limit.saturating_sub(spent)),
            time: context.limits.time,
            delegated: Arc::clone(&context.tools.delegated),
            spent_tokens: Arc::clone(&self.spent_tokens),
            stopwatch: Arc::clone(&context.control.stopwatch),
            cancel: context.control.cancel.clone(),
            ended: self.ended.clone(),
        });
        Sampler::new(id, move |request| {
            let access = Arc::clone(&access);
            async move { access.ask(request).await }.boxed()
        })
    }

    /// Ends the budget and returns the usage, including requests whose answer the call did not wait for.
    pub(crate) async fn close(self) -> Usage {
        let mut spent = self.spent_tokens.subscribe();
        self.spent_tokens.send_modify(|spent| spent.closed = true);
        self.ended.cancel();
        let _ = timeout(CANCEL_TIMEOUT, spent.wait_for(|spent| spent.open == 0)).await;
        spent.borrow().usage
    }
}

/// Access to the model for one call.
struct ModelAccess {
    session: SessionId,
    model: Arc<dyn Model>,
    /// Recorder for each request.
    tap: RequestTap,
    ports: Arc<Ports>,
    /// Template of the audit entry for each request.
    entry: AuditEntry,
    /// Token limit for all calls of the turn together.
    tokens: Option<u64>,
    time: Option<Duration>,
    /// Tokens that all calls of the turn have spent.
    delegated: Arc<AtomicU64>,
    spent_tokens: Arc<watch::Sender<SpentTokens>>,
    stopwatch: Arc<Stopwatch>,
    cancel: CancellationToken,
    ended: CancellationToken,
}

impl ModelAccess {
    async fn ask(&self, request: SampleRequest) -> Result<SampleAnswer, ModelError> {
        let SampleRequest { messages, max_tokens } = request;
        let size = messages.iter().map(size).sum();
        let charge = SamplingCharge::open(self, size, max_tokens)?;
        let max_tokens = charge.max_tokens;
        let mut entry = AuditEntry { at: self.ports.clock.now(), ..self.entry.clone() };
        if let AuditFact::ModelAsked { max_tokens: logged_max, .. } = &mut entry.fact {
            *logged_max = max_tokens;
        }
        self.ports.audit.note(entry).await;
        let request = ModelRequest {
            max_tokens: Some(max_tokens),
            tap: self.tap.clone(),
            ..ModelRequest::new(self.session, messages)
        };
        let _guard = self.stopwatch.work();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ModelError::new(ErrorKind::Conflict, "the turn was cancelled")),
            () = self.ended.cancelled() => Err(call_ended_error()),
            () = self.stopwatch.reaches(self.time) => {
                Err(ModelError::new(ErrorKind::Conflict, "the turn's time limit was reached"))
            }
            answer = self.answer(request, charge) => answer,
        }
    }

    async fn answer(&self, request: ModelRequest, mut charge: SamplingCharge<'_>) -> Result<SampleAnswer, ModelError> {
        charge.asked = true;
        let (mut text, mut bytes) = (String::new(), 0u64);
        let mut chunks = CallStream::open(&*self.model, request);
        let finish = loop {
            let chunk = chunks.next().await.inspect_err(|_| charge.has_failed = bytes == 0)?;
            charge.counted.note(&chunk);
            match chunk {
                ModelChunk::Text(more) => {
                    bytes += charge.add_output(&more);
                    text.push_str(&more);
                }
                ModelChunk::Reasoning(more) => bytes += charge.add_output(&more),
                ModelChunk::WasReasoning | ModelChunk::Discarded => text.clear(),
                ModelChunk::End(finish) => break finish,
                _ => {}
            }
            if bytes > charge.max_tokens.saturating_mul(MAX_BYTES_PER_TOKEN) {
                break Finish::Length;
            }
        };
        let cut = match finish {
            Finish::Stop => false,
            Finish::Length | Finish::Runaway => true,
            Finish::Filtered => return Err(ModelError::new(ErrorKind::Rejected, "the provider withheld the answer")),
        };
        Ok(SampleAnswer { text, model: self.model.info().id.clone(), cut })
    }
}

fn call_ended_error() -> ModelError {
    ModelError::new(ErrorKind::Conflict, "the call has ended")
}

/// Charge for one request: its usage as counted by the server, or an estimate if the server reported none. The usage is
/// charged even if the answer is no longer needed. While the request runs, its maximum is reserved, since other
/// requests run concurrently.
struct SamplingCharge<'a> {
    access: &'a ModelAccess,
    size: u64,
    max_tokens: u64,
    reserved: u64,
    /// True once the model was called.
    asked: bool,
    /// True if the request failed without an answer, so that the model presumably never processed it.
    has_failed: bool,
    answered: u64,
    counted: CallUsage,
}

impl<'a> SamplingCharge<'a> {
    /// Opens the charge for a request of `size` tokens. The answer may have `max_tokens`, or as many tokens as are
    /// left.
    fn open(access: &'a ModelAccess, size: u64, max_tokens: u64) -> Result<Self, ModelError> {
        let is_open = access.spent_tokens.send_if_modified(|spent| {
            spent.open += usize::from(!spent.closed);
            !spent.closed
        });
        if !is_open {
            return Err(call_ended_error());
        }
        // From here on, dropping the charge closes it.
        let mut charge = Self {
            access,
            size,
            max_tokens,
            reserved: 0,
            asked: false,
            has_failed: false,
            answered: 0,
            counted: CallUsage::default(),
        };
        if let Some(tokens) = access.tokens {
            let allowance = |spent: u64| tokens.saturating_sub(spent).saturating_sub(size).min(max_tokens);
            let reserve = |spent: u64| {
                Some(allowance(spent)).filter(|allowance| *allowance > 0).map(|allowance| spent + size + allowance)
            };
            let before = access.delegated.fetch_update(Ordering::AcqRel, Ordering::Acquire, reserve);
            let before =
                before.map_err(|_| ModelError::new(ErrorKind::Conflict, "the turn's token budget is spent"))?;
            (charge.max_tokens, charge.reserved) = (allowance(before), size + allowance(before));
        }
        Ok(charge)
    }

    /// Adds text of the answer and returns its length in bytes.
    fn add_output(&mut self, text: &str) -> u64 {
        self.answered = self.answered.saturating_add(estimate(text));
        text.len() as u64
    }
}

impl Drop for SamplingCharge<'_> {
    fn drop(&mut self) {
        let estimated = Usage { prompt_tokens: self.size, completion_tokens: self.answered, ..Usage::default() };
        let usage = self.counted.total(match (self.asked, self.has_failed) {
            (true, true) => Usage::of_failed_call(),
            (true, false) => Usage::of_call(Some(estimated)),
            (false, _) => Usage::default(),
        });
        // The counter includes the reserved tokens, so it cannot fall below zero.
        self.access.delegated.fetch_add(usage.tokens(), Ordering::AcqRel);
        self.access.delegated.fetch_sub(self.reserved, Ordering::AcqRel);
        self.access.spent_tokens.send_modify(|spent| {
            spent.usage += usage;
            spent.open -= 1;
        });
    }
}

/// Estimates the tokens of a message.
fn size(message: &Message) -> u64 {
    match message {
        Message::System { text } | Message::User { text } | Message::Assistant { text, .. } => estimate(text),
        Message::Pictures { text, pictures } | Message::Tool { text, pictures, .. } => {
            estimate(text) + pictures.iter().map(|shown| picture(&shown.picture).tokens).sum::<u64>()
        }
    }
}
