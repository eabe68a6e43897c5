//! A model that a tool asks while it runs: the turn's, at the turn's cost, and within the limits of the turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    audit::{AuditEntry, AuditFact},
    error::{ErrorKind, ModelError},
    ids::SessionId,
    model::{Finish, Message, ModelChunk, ModelRequest},
    ports::{Asked, Audit, Clock, Model, Sampled, Sampler},
    tool::ToolOutput,
    usage::Usage,
};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::stopwatch::Stopwatch;
use crate::{chain::Invocation, prompt::tokens::estimate};

/// Bytes that are read of an answer for each token that it may have, where its server holds to no limit.
const BYTES_A_TOKEN: u64 = 16;

/// What one call takes of the turn's model.
pub(super) struct Tab<'a> {
    call: &'a Invocation<'a>,
    taken: Arc<watch::Sender<Usage>>,
}

impl<'a> Tab<'a> {
    pub(super) fn open(call: &'a Invocation<'a>) -> Self {
        Self { call, taken: Arc::default() }
    }

    /// The model, for this call.
    pub(super) fn sampler(&self) -> Sampler {
        let Invocation { context, call, state, .. } = self.call;
        // What the turn itself has taken until now.
        let spent = state.usage.tokens().saturating_sub(state.delegated);
        let model = context.model.info().id.clone();
        let line = Arc::new(Line {
            session: context.session_id,
            model: Arc::clone(&context.model),
            clock: Arc::clone(&context.clock),
            audit: Arc::clone(&context.audit),
            entry: AuditEntry {
                at: context.clock.now(),
                trace_id: Some(context.trace_id),
                session_id: Some(context.session_id),
                turn_id: Some(context.turn_id),
                call_id: Some(call.call_id.clone()),
                fact: AuditFact::ModelAsked { tool: call.name.clone(), model: model.clone(), max_tokens: 0 },
            },
            tokens: context.limits.tokens.map(|limit| limit.saturating_sub(spent)),
            time: context.limits.time,
            delegated: Arc::clone(&context.delegated),
            taken: Arc::clone(&self.taken),
            stopwatch: Arc::clone(&context.stopwatch),
            cancel: context.cancel.clone(),
        });
        Sampler::new(model, move |asked| {
            let line = Arc::clone(&line);
            async move { line.ask(asked).await }.boxed()
        })
    }

    /// The output of the call, with what was taken.
    pub(super) fn settled(self, mut output: ToolOutput) -> ToolOutput {
        let taken = *self.taken.borrow();
        if taken != Usage::default() {
            output.delegated.get_or_insert_default().usage += taken;
        }
        output
    }
}

/// The way from a call to the model.
struct Line {
    session: SessionId,
    model: Arc<dyn Model>,
    clock: Arc<dyn Clock>,
    audit: Arc<dyn Audit>,
    /// What the audit log hears of each request, but for what is not known before.
    entry: AuditEntry,
    /// The tokens that all calls of the turn may take together.
    tokens: Option<u64>,
    time: Option<Duration>,
    /// What they have taken.
    delegated: Arc<AtomicU64>,
    taken: Arc<watch::Sender<Usage>>,
    stopwatch: Arc<Stopwatch>,
    cancel: CancellationToken,
}

impl Line {
    async fn ask(&self, asked: Asked) -> Result<Sampled, ModelError> {
        let Asked { messages, max_tokens } = asked;
        let size = messages.iter().map(size).sum();
        let max_tokens = self.room(size).map_or(max_tokens, |room| max_tokens.min(room));
        if max_tokens == 0 {
            return Err(ModelError::new(ErrorKind::Conflict, "the tokens of the turn are spent"));
        }
        self.tell(max_tokens).await;
        let request = ModelRequest {
            session_id: self.session,
            messages,
            tools: Arc::from([]),
            may_call: false,
            max_tokens: Some(max_tokens),
            known_paths: Vec::new(),
        };
        let _works = self.stopwatch.work();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ModelError::new(ErrorKind::Conflict, "the turn was cancelled")),
            () = self.stopwatch.reaches(self.time) => {
                Err(ModelError::new(ErrorKind::Conflict, "the time of the turn is over"))
            }
            answer = self.answer(request, size, max_tokens) => answer,
        }
    }

    async fn tell(&self, may_take: u64) {
        let mut entry = AuditEntry { at: self.clock.now(), ..self.entry.clone() };
        if let AuditFact::ModelAsked { max_tokens, .. } = &mut entry.fact {
            *max_tokens = may_take;
        }
        self.audit.note(entry).await;
    }

    /// The tokens that an answer may have to a request of that size.
    fn room(&self, size: u64) -> Option<u64> {
        Some(self.tokens?.saturating_sub(self.delegated.load(Ordering::Relaxed)).saturating_sub(size))
    }

    async fn answer(&self, request: ModelRequest, size: u64, max_tokens: u64) -> Result<Sampled, ModelError> {
        let mut bill = Bill { line: self, asked: size, answered: 0, counted: None };
        let (mut text, mut bytes) = (String::new(), 0u64);
        let mut chunks = self.model.stream(request);
        let finish = loop {
            match chunks.next().await {
                Some(Ok(ModelChunk::Text(more))) => {
                    bytes += bill.takes(&more);
                    text.push_str(&more);
                }
                Some(Ok(ModelChunk::Reasoning(more))) => bytes += bill.takes(&more),
                Some(Ok(ModelChunk::Usage(usage))) => bill.counted = Some(usage),
                Some(Ok(ModelChunk::End(finish))) => break finish,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    if bytes == 0 {
                        // As far as anybody knows it was never asked.
                        bill.counted.get_or_insert_default();
                    }
                    return Err(error);
                }
                None => {
                    let message = "the model's adapter ended its stream without a word";
                    return Err(ModelError::new(ErrorKind::Internal, message));
                }
            }
            if bytes > max_tokens.saturating_mul(BYTES_A_TOKEN) {
                break Finish::Length;
            }
        };
        let cut = match finish {
            Finish::Stop => false,
            Finish::Length | Finish::Runaway => true,
            Finish::Filtered => return Err(ModelError::new(ErrorKind::Rejected, "the provider withheld the answer")),
        };
        Ok(Sampled { text, model: self.model.info().id.clone(), cut })
    }
}

/// What one request takes: as its server has counted, or about that much where it did not come to say so. It counts also
/// where nobody waits for the answer any more.
struct Bill<'a> {
    line: &'a Line,
    asked: u64,
    answered: u64,
    counted: Option<Usage>,
}

impl Bill<'_> {
    /// Takes in words of the answer; says how many bytes they have.
    fn takes(&mut self, words: &str) -> u64 {
        self.answered = self.answered.saturating_add(estimate(words));
        words.len() as u64
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        let about = Usage { prompt_tokens: self.asked, completion_tokens: self.answered, ..Usage::default() };
        let usage = self.counted.unwrap_or(about);
        self.line.delegated.fetch_add(usage.tokens(), Ordering::Relaxed);
        self.line.taken.send_modify(|taken| *taken += usage);
    }
}

/// About how many tokens a message has.
fn size(message: &Message) -> u64 {
    match message {
        Message::System { text } | Message::User { text } | Message::Assistant { text, .. } => estimate(text),
        Message::Pictures { text, .. } | Message::Tool { text, .. } => estimate(text),
    }
}
