//! Clock of one model call: the time to the first part of its answer, and the whole.

use std::time::Duration;

use agentd_core::{model::ModelChunk, usage::CallTiming};
use tokio::time::Instant;

/// Runs from the request to the end of the answer.
#[derive(Debug)]
pub(crate) struct CallClock {
    started: Instant,
    first: Option<Duration>,
}

impl CallClock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), first: None }
    }

    /// Takes note of a part of the answer. The first one counts, also where its answer broke off: it was seen.
    pub(crate) fn note(&mut self, chunk: &ModelChunk) {
        let is_answer = match chunk {
            ModelChunk::Text(text) | ModelChunk::Reasoning(text) => !text.is_empty(),
            ModelChunk::ToolCall { .. } | ModelChunk::UnrunCall { .. } => true,
            _ => false,
        };
        if is_answer && self.first.is_none() {
            self.first = Some(self.started.elapsed());
        }
    }

    pub(crate) fn timing(&self) -> CallTiming {
        CallTiming { first_token_ms: self.first.map(milliseconds), duration_ms: milliseconds(self.started.elapsed()) }
    }
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_part_of_an_answer_counts_and_nothing_before_it() {
        let mut clock = CallClock::start();
        let wait = |ms| tokio::time::advance(Duration::from_millis(ms));
        wait(10).await;
        clock.note(&ModelChunk::Retry { attempt: 1, delay_ms: 5, reason: "busy".to_owned() });
        clock.note(&ModelChunk::Text(String::new()));
        assert_eq!(clock.timing(), CallTiming { first_token_ms: None, duration_ms: 10 });
        wait(20).await;
        clock.note(&ModelChunk::Reasoning("well".to_owned()));
        wait(30).await;
        clock.note(&ModelChunk::Text("yes".to_owned()));
        assert_eq!(clock.timing(), CallTiming { first_token_ms: Some(30), duration_ms: 60 });
    }
}
