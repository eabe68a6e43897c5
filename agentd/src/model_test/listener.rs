//! One answer of a test, and how long it took to begin.

use std::time::{Duration, Instant};

use agentd_core::{
    error::{ErrorKind, ModelError},
    model::{CallUsage, ModelChunk, ModelRequest},
    ports::Model,
    usage::Usage,
};
use futures_util::StreamExt as _;
use tokio::time::timeout;

/// The bytes of an answer that are kept.
const MAX_TEXT: usize = 4_000;

/// Calls of an answer that are kept.
const MAX_CALLS: usize = 8;

/// Characters of an answer that are shown.
const SHOWN: usize = 120;

/// An answer.
#[derive(Debug, Default)]
pub(super) struct HeardAnswer {
    pub(super) text: String,
    /// Calls: the tool and its arguments.
    pub(super) calls: Vec<(String, String)>,
    pub(super) usage: CallUsage,
    /// Time until it began.
    pub(super) first: Duration,
}

impl HeardAnswer {
    /// Its first words, in one line.
    pub(super) fn excerpt(&self) -> String {
        let text: String = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.chars().count() {
            0 => "it said nothing".to_owned(),
            count if count > SHOWN => format!("{:?}…", text.chars().take(SHOWN).collect::<String>()),
            _ => format!("{text:?}"),
        }
    }
}

/// Asks, and listens to the end. Says also what that took.
pub(super) async fn hear(
    model: &dyn Model,
    request: ModelRequest,
    limit: Duration,
) -> (Result<HeardAnswer, ModelError>, Usage) {
    let asked = Instant::now();
    let mut heard = HeardAnswer::default();
    let mut chunks = model.stream(request);
    let listening = async {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            heard.usage.note(&chunk);
            let begins = match chunk {
                ModelChunk::Text(text) => {
                    let room = MAX_TEXT.saturating_sub(heard.text.len());
                    heard.text.push_str(&text[..text.floor_char_boundary(room)]);
                    true
                }
                ModelChunk::ToolCall { name, arguments, .. } if heard.calls.len() < MAX_CALLS => {
                    heard.calls.push((name, arguments));
                    true
                }
                ModelChunk::Reasoning(_) => true,
                // Waits and other forms before the answer are no part of its time.
                ModelChunk::Retry { .. } => false,
                ModelChunk::WasReasoning => {
                    heard.text.clear();
                    true
                }
                // It broke off, and is asked for again.
                ModelChunk::Discarded => {
                    heard = HeardAnswer { usage: heard.usage, ..HeardAnswer::default() };
                    false
                }
                _ => false,
            };
            if begins && heard.first.is_zero() {
                heard.first = asked.elapsed();
            }
        }
        Ok::<_, ModelError>(())
    };
    let end = timeout(limit, listening).await;
    drop(chunks);
    // One that was refused costs nothing; one that broke off does, also where nobody came to count it.
    let has_answered = matches!(end, Ok(Ok(())) | Err(_)) || !heard.first.is_zero();
    let usage = heard.usage.total(if has_answered { Usage::of_call(None) } else { Usage::of_failed_call() });
    let heard = match end {
        Ok(Ok(())) => Ok(heard),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            let message = format!("no answer within {} seconds", limit.as_secs());
            Err(ModelError::new(ErrorKind::Timeout, message).with_hint("is the server busy, or the model very slow?"))
        }
    };
    (heard, usage)
}
