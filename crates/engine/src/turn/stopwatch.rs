//! Measures the working time of turns and of model calls. Time spent waiting for users is excluded.
//!
//! The stopwatch pauses while a call of the turn waits for a user, unless a subagent works for the turn at the same
//! time.

use std::time::Duration;

use agentd_core::{
    error::{ErrorKind, ModelError},
    event::EventKind,
    model::{CallUsage, ModelChunk, ModelRequest, Slot},
    ports::Model,
    usage::{CallTiming, Usage},
};
use futures_util::{StreamExt as _, stream::BoxStream};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// Stopwatch for the working time of a turn.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    /// Working time before the start.
    before: Duration,
    started: Instant,
    counts: watch::Sender<PauseCounts>,
}

/// Counts that determine whether the stopwatch is paused.
#[derive(Debug, Default)]
struct PauseCounts {
    /// Number of calls that wait for a user.
    waiting: usize,
    /// Number of subagents and model requests that work for the turn and do not wait.
    working: usize,
    /// Start of the current pause.
    since: Option<Instant>,
    /// Duration of all earlier pauses.
    paused: Duration,
}

/// Guard of a wait for a user, or of work on behalf of the turn. The wait or work ends when the guard is dropped.
#[derive(Debug)]
pub(crate) struct StopwatchGuard<'a> {
    stopwatch: &'a Stopwatch,
    waits: bool,
}

impl Stopwatch {
    /// Starts the stopwatch of a turn that has already worked for `before`.
    pub(crate) fn start(before: Duration) -> Self {
        Self { before, started: Instant::now(), counts: watch::Sender::default() }
    }

    pub(crate) fn worked(&self) -> Duration {
        let counts = self.counts.borrow();
        let paused = counts.paused + counts.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.before + self.started.elapsed().saturating_sub(paused)
    }

    /// Completes when the turn has worked for `limit`; never completes if there is no limit.
    pub(crate) async fn reaches(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        loop {
            match limit.saturating_sub(self.worked()) {
                Duration::ZERO => return,
                left => sleep(left).await,
            }
        }
    }

    /// Marks a call as waiting for a user.
    pub(crate) fn pause(&self) -> StopwatchGuard<'_> {
        self.guard(true)
    }

    /// Marks a subagent or a model request as working for the turn.
    pub(crate) fn work(&self) -> StopwatchGuard<'_> {
        self.guard(false)
    }

    fn guard(&self, waits: bool) -> StopwatchGuard<'_> {
        self.counts.send_modify(|counts| {
            *counts.count(waits) += 1;
            counts.update();
        });
        StopwatchGuard { stopwatch: self, waits }
    }
}

impl PauseCounts {
    fn count(&mut self, waits: bool) -> &mut usize {
        if waits { &mut self.waiting } else { &mut self.working }
    }

    /// Pauses or continues, depending on the counts.
    fn update(&mut self) {
        match (self.waiting > 0 && self.working == 0, self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => {
                self.paused += since.elapsed();
                self.since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}

impl Drop for StopwatchGuard<'_> {
    fn drop(&mut self) {
        self.stopwatch.counts.send_modify(|counts| {
            let count = counts.count(self.waits);
            *count = count.saturating_sub(1);
            counts.update();
        });
    }
}

/// A model call in progress. Its chunks are counted and timed.
pub(crate) struct CallStream {
    chunks: BoxStream<'static, Result<ModelChunk, ModelError>>,
    started: Instant,
    /// Time to the first part of the answer.
    first: Option<Duration>,
    usage: CallUsage,
}

/// Cost of a completed model call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallCost {
    /// Usage of all attempts.
    pub(crate) spent: Usage,
    /// Usage of the last attempt, as counted by its server.
    pub(crate) counted: Usage,
    pub(crate) timing: CallTiming,
}

impl CallCost {
    /// Creates the usage event of a request beside the steps of a turn.
    pub(crate) fn event(self, slot: Slot, model: String) -> EventKind {
        let (step, prompt, delegated, usage, timing) = (0, None, false, self.spent, Some(self.timing));
        EventKind::UsageUpdated { step, slot, model, usage, turn: usage, prompt, delegated, timing }
    }
}

impl CallStream {
    pub(crate) fn open(model: &dyn Model, request: ModelRequest) -> Self {
        let started = Instant::now();
        Self { chunks: model.stream(request), started, first: None, usage: CallUsage::default() }
    }

    /// Returns the next chunk. Cancel safe: no chunk is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<ModelChunk, ModelError> {
        let no_result =
            || Err(ModelError::new(ErrorKind::Internal, "the model's adapter ended its stream without a result"));
        let chunk = self.chunks.next().await.unwrap_or_else(no_result)?;
        let is_answer = match &chunk {
            ModelChunk::Text(text) | ModelChunk::Reasoning(text) => !text.is_empty(),
            ModelChunk::ToolCall { .. } | ModelChunk::UnrunCall { .. } => true,
            _ => false,
        };
        // The first part is timed even if its attempt failed later, because users have seen it.
        if is_answer && self.first.is_none() {
            self.first = Some(self.started.elapsed());
        }
        self.usage.note(&chunk);
        Ok(chunk)
    }

    /// Ends the call. A call without an answer has no cost, unless its server counted usage.
    pub(crate) fn close(self, has_answered: bool) -> CallCost {
        let uncounted = if has_answered { Usage::of_call(None) } else { Usage::of_failed_call() };
        let (counted, duration_ms) = (self.usage.counted().unwrap_or_default(), milliseconds(self.started.elapsed()));
        let timing = CallTiming { first_token_ms: self.first.map(milliseconds), duration_ms };
        CallCost { spent: self.usage.total(uncounted), counted, timing }
    }
}

pub(super) fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn overlapping_pauses_count_once() {
        let second = Duration::from_secs(1);
        let stopwatch = Stopwatch::start(second);
        advance(second).await;
        assert_eq!(stopwatch.worked(), 2 * second);
        let (first, other) = (stopwatch.pause(), stopwatch.pause());
        advance(second).await;
        assert_eq!(stopwatch.worked(), 2 * second, "paused while a call waits");
        drop(first);
        advance(second).await;
        drop(other);
        assert_eq!(stopwatch.worked(), 2 * second);
        let (waits, works) = (stopwatch.pause(), stopwatch.work());
        advance(second).await;
        assert_eq!(stopwatch.worked(), 3 * second, "not paused while a subagent works");
        drop(works);
        advance(second).await;
        drop(waits);
        assert_eq!(stopwatch.worked(), 3 * second);
    }

    #[tokio::test(start_paused = true)]
    async fn first_content_chunk_ends_the_time_to_first_token() {
        let timed = [
            (10, ModelChunk::Retry { attempt: 1, attempts: None, delay_ms: 5, reason: "busy".to_owned() }),
            (0, ModelChunk::Text(String::new())),
            (20, ModelChunk::Reasoning("well".to_owned())),
            (30, ModelChunk::Text("yes".to_owned())),
        ];
        let chunks = stream::iter(timed).then(async |(ms, chunk)| {
            sleep(Duration::from_millis(ms)).await;
            Ok(chunk)
        });
        let (started, usage) = (Instant::now(), CallUsage::default());
        let mut call = CallStream { chunks: chunks.boxed(), started, first: None, usage };
        for _ in 0..4 {
            call.next().await.unwrap();
        }
        assert_eq!(call.close(true).timing, CallTiming { first_token_ms: Some(30), duration_ms: 60 });
    }
}
