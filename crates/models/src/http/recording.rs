//! Bytes on the wire of one attempt, told to the request's tap. Without a recorder behind it nothing is copied.

use std::sync::Arc;

use agentd_core::{
    error::ModelError,
    exchange::{ExchangeOutcome, ExchangeRecorder, ReceivedAnswer, RequestTap, SentRequest},
    model::ModelChunk,
    usage::Usage,
};
use reqwest::{Response, header::HeaderMap};
use tokio::time::Instant;

use crate::http::target::Target;

/// Bytes of an answer that are kept.
const MAX_BODY: usize = 4 << 20;

/// Mask of a header's value.
const MASK: &str = "[redacted]";

/// Headers of an answer that say something of the request.
const HEADERS: [&str; 5] = ["content-type", "request-id", "x-request-id", "retry-after", "retry-after-ms"];

/// An attempt that is kept, from its request to its end. One that is dropped before has been abandoned.
#[derive(Default)]
pub(crate) struct Recording(Option<Box<OpenRecording>>);

struct OpenRecording {
    recorder: Arc<dyn ExchangeRecorder>,
    key: u64,
    begun: Instant,
    answer: ReceivedAnswer,
}

impl Recording {
    /// Begins with a request to that path. What is secret in its address is left out.
    pub(crate) fn begin(tap: &RequestTap, target: &Target, path: &str, sent: &SentRequest<'_>) -> Self {
        let Some(recorder) = tap.recorder() else { return Self::default() };
        let (url, headers) = target.shown_call(path);
        let headers = shown(&headers);
        let key = recorder.sent(&SentRequest { url: &url, headers: &headers, ..*sent });
        let (recorder, begun) = (Arc::clone(recorder), Instant::now());
        Self(Some(Box::new(OpenRecording { recorder, key, begun, answer: ReceivedAnswer::default() })))
    }

    /// Takes in the head of the answer.
    pub(crate) fn head(&mut self, response: &Response) {
        let Some(open) = &mut self.0 else { return };
        open.answer.status = Some(response.status().as_u16());
        let header = |name: &&str| {
            let value = response.headers().get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        };
        open.answer.headers = HEADERS.iter().filter_map(header).collect();
    }

    /// Takes in bytes of the body.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let Some(open) = &mut self.0 else { return };
        let since = open.begun.elapsed();
        let answer = &mut open.answer;
        answer.first_byte.get_or_insert(since);
        answer.bytes += bytes.len() as u64;
        let room = MAX_BODY.saturating_sub(answer.body.len());
        answer.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Takes in the meaning of what was read.
    pub(crate) fn chunks<'a>(&mut self, chunks: impl IntoIterator<Item = &'a ModelChunk>) {
        let Some(open) = &mut self.0 else { return };
        let since = open.begun.elapsed();
        for chunk in chunks {
            match chunk {
                ModelChunk::Text(text) | ModelChunk::Reasoning(text) if text.is_empty() => {}
                ModelChunk::Text(_)
                | ModelChunk::Reasoning(_)
                | ModelChunk::ToolCall { .. }
                | ModelChunk::UnrunCall { .. } => {
                    open.answer.first_token.get_or_insert(since);
                }
                ModelChunk::Usage(usage) => {
                    open.answer.usage = Some(Usage { calls: 0, unpriced_calls: 0, ..*usage });
                }
                _ => {}
            }
        }
    }

    /// Ends it, with its failure if it had one.
    pub(crate) fn end(&mut self, outcome: ExchangeOutcome, error: Option<&ModelError>) {
        let Some(open) = self.0.take() else { return };
        let OpenRecording { recorder, key, begun, answer } = *open;
        let error = error.map(ToString::to_string);
        recorder.ended(key, ReceivedAnswer { duration: begun.elapsed(), outcome, error, ..answer });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(ExchangeOutcome::Abandoned, None);
    }
}

/// Headers with masks in place of secret values.
fn shown(headers: &HeaderMap) -> Vec<(String, String)> {
    let value = |value: &reqwest::header::HeaderValue| match value.to_str() {
        Ok(text) if !value.is_sensitive() => text.to_owned(),
        _ => MASK.to_owned(),
    };
    headers.iter().map(|(name, text)| (name.as_str().to_owned(), value(text))).collect()
}
