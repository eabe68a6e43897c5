//! Sending requests and reading documents. Also reports the exchanged bytes to the request's tap. Nothing is copied if
//! there is no recorder.

use std::{future::Future, pin::pin, sync::Arc};

use agentd_core::{
    error::{ErrorKind, ModelError},
    exchange::{ExchangeOutcome, ExchangeRecorder, ReceivedAnswer, RequestTap, SentRequest},
    model::ModelChunk,
    usage::Usage,
};
use reqwest::{
    Body, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout, timeout_at};

use crate::http::{
    failure::{self, Failure},
    target::{Deadline, MAX_GRACE, MissedDeadline, Target},
};

/// Maximum size of an error's body in bytes.
const MAX_ERROR_BODY: usize = 64 << 10;

/// Maximum size of a document about models in bytes. A detailed list of some hundred models takes one megabyte.
const MAX_DOCUMENT: usize = 4 << 20;

/// A document, or `None` if the server does not provide it. The error means that the server could not be reached.
pub(crate) type Document = Result<Option<Vec<u8>>, Failure>;

impl Target {
    /// Posts a JSON body. Returns the answer once its headers have arrived with a success status, and the deadline,
    /// which is later if a key was read meanwhile.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: String,
        mut deadline: Deadline,
        recording: &mut Recording,
    ) -> Result<(Response, Deadline), Failure> {
        let request = |body: String| {
            // This kind of body is freed once it is sent. A byte body would be kept for a possible resend until the
            // answer starts, which may take a while.
            self.client.post(self.at(path)).headers(self.headers_of_call()).body(Body::wrap(body))
        };
        let again = self.renewable_key.is_some().then(|| request(body.clone()));
        let response = self.send(request(body), again, &mut deadline).await?;
        recording.head(&response);
        let status = response.status();
        if let Some(id) = failure::request_id(response.headers()) {
            tracing::debug!(request = id, %status, "request id assigned by the model at {self}");
        }
        if status.is_success() {
            return Ok((response, deadline));
        }
        let headers = response.headers().clone();
        let body = capped_body(response, &deadline, self, MAX_ERROR_BODY).await;
        recording.bytes(&body);
        Err(Failure::status(self, status, &headers, &body))
    }

    /// Posts a JSON body and returns the answer's body, up to a limit.
    pub(crate) async fn exchange(&self, path: &str, body: String, limit: usize) -> Result<Vec<u8>, Failure> {
        let (response, _) = self.post(path, body, self.deadlines.first_byte(), &mut Recording::default()).await?;
        Ok(capped_body(response, &self.deadlines.idle(), self, limit).await)
    }

    pub(crate) async fn get(&self, path: &str, deadline: &Deadline) -> Document {
        self.document(self.client.get(self.at(path)), deadline).await
    }

    /// Posts a query and gets a JSON document.
    pub(crate) async fn query(&self, path: &str, body: String, deadline: &Deadline) -> Document {
        let request = self.client.post(self.at(path)).header(CONTENT_TYPE, "application/json").body(body);
        self.document(request, deadline).await
    }

    async fn document(&self, request: RequestBuilder, deadline: &Deadline) -> Document {
        let request = request.headers(self.headers.clone()).header(ACCEPT, "application/json");
        let (again, mut deadline) = (request.try_clone(), *deadline);
        let response = self.send(request, again, &mut deadline).await?;
        let status = response.status();
        if status.is_server_error() {
            let note = self.proxy_note();
            let message = format!("could not list models: the server at {self} answered {status}{note}");
            return Err(Failure::new(ErrorKind::Unreachable, message));
        }
        if !status.is_success() {
            return Ok(None);
        }
        Ok(Some(capped_body(response, &deadline, self, MAX_DOCUMENT).await))
    }

    /// Reads the key if none was read before. Called before a deadline begins.
    pub(crate) async fn read_key(&self) -> Result<Option<SecretString>, Failure> {
        let Some(key) = &self.renewable_key else { return Ok(None) };
        let read = key.get(None, self.deadlines.key).await;
        read.map(Some).map_err(|reason| Failure::no_key(self, &reason))
    }

    /// Sends a request. If the server refuses a renewable key, reads the key again and sends `again` with the new one,
    /// once. The deadline is extended by the time for reading.
    async fn send(
        &self,
        request: RequestBuilder,
        again: Option<RequestBuilder>,
        deadline: &mut Deadline,
    ) -> Result<Response, Failure> {
        let began = Instant::now();
        let (Some(source), Some(key)) = (&self.renewable_key, self.read_key().await?) else {
            return self.send_once(request, deadline).await;
        };
        deadline.at += began.elapsed();
        let response = self.send_once(self.with_key(request, &key), deadline).await?;
        let (StatusCode::UNAUTHORIZED, Some(again)) = (response.status(), again) else { return Ok(response) };
        let began = Instant::now();
        let renewed = source.get(Some(&key), self.deadlines.key).await;
        let renewed = renewed.map_err(|reason| Failure::no_key(self, &reason))?;
        deadline.at += began.elapsed();
        if renewed.expose_secret() == key.expose_secret() {
            return Ok(response);
        }
        self.send_once(self.with_key(again, &renewed), deadline).await
    }

    async fn send_once(&self, request: RequestBuilder, deadline: &Deadline) -> Result<Response, Failure> {
        self.within(deadline, request.send()).await?.map_err(|error| Failure::from_send_error(self, error))
    }

    /// Runs a future until the deadline. A process that was suspended notices a missed deadline late, while data that
    /// arrived in time is still in its socket. The time to read this data is extended by about the delay.
    pub(crate) async fn within<T>(&self, deadline: &Deadline, future: impl Future<Output = T>) -> Result<T, Failure> {
        let mut future = pin!(future);
        if let Ok(outcome) = timeout_at(deadline.at, &mut future).await {
            return Ok(outcome);
        }
        if deadline.is_grace {
            return Err(self.missed(deadline));
        }
        timeout(deadline.at.elapsed().min(MAX_GRACE), future).await.map_err(|_| self.missed(deadline))
    }

    fn missed(&self, deadline: &Deadline) -> Failure {
        let limit = deadline.limit;
        let (message, hint) = match deadline.missed {
            MissedDeadline::FirstByte => (
                format!("the model at {self} did not begin to answer within {limit:?}{}", self.proxy_note()),
                "a slow model may need a higher `timeouts.first_byte` in models.yaml",
            ),
            MissedDeadline::KeepAlive => (
                format!("the model at {self} sent no answer for {limit:?}, only keep-alives"),
                "a slow model may need a higher `timeouts.first_byte` in models.yaml",
            ),
            MissedDeadline::Idle | MissedDeadline::Tail => (
                format!("the model at {self} stalled in the middle of its answer for {limit:?}"),
                "a slow model may need a higher `timeouts.idle` in models.yaml",
            ),
        };
        Failure::new(ErrorKind::Timeout, message).hint(hint)
    }
}

/// Reads the body up to the deadline and the limit. After a failure, the part read so far is returned.
async fn capped_body(mut response: Response, deadline: &Deadline, target: &Target, limit: usize) -> Vec<u8> {
    let (mut body, mut deadline) = (Vec::new(), *deadline);
    while body.len() < limit {
        let chunk = target.within(&deadline, response.chunk()).await;
        deadline = deadline.after_miss();
        match chunk {
            Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
            _ => break,
        }
    }
    body.truncate(limit);
    body
}

/// Maximum size of a recorded body in bytes.
const MAX_BODY: usize = 4 << 20;

const MASK: &str = "[redacted]";

/// Response headers that are recorded.
const HEADERS: [&str; 5] = ["content-type", "request-id", "x-request-id", "retry-after", "retry-after-ms"];

/// Recording of one attempt. Dropping it records that the attempt was abandoned.
#[derive(Default)]
pub(crate) struct Recording(Option<Box<OpenRecording>>);

struct OpenRecording {
    recorder: Arc<dyn ExchangeRecorder>,
    key: u64,
    started: Instant,
    answer: ReceivedAnswer,
}

impl Recording {
    /// Starts a recording with a request to a path. Secrets in the URL and the headers are masked.
    pub(crate) fn begin(tap: &RequestTap, target: &Target, path: &str, sent: &SentRequest<'_>) -> Self {
        let Some(recorder) = tap.recorder() else { return Self::default() };
        let (url, headers) = target.shown_call(path);
        let headers = masked(&headers);
        let key = recorder.sent(&SentRequest { url: &url, headers: &headers, ..*sent });
        let (recorder, started) = (Arc::clone(recorder), Instant::now());
        Self(Some(Box::new(OpenRecording { recorder, key, started, answer: ReceivedAnswer::default() })))
    }

    pub(crate) fn head(&mut self, response: &Response) {
        let Some(open) = &mut self.0 else { return };
        open.answer.status = Some(response.status().as_u16());
        let header = |name: &&str| {
            let value = response.headers().get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        };
        open.answer.headers = HEADERS.iter().filter_map(header).collect();
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let Some(open) = &mut self.0 else { return };
        let since = open.started.elapsed();
        let answer = &mut open.answer;
        answer.first_byte.get_or_insert(since);
        answer.bytes += bytes.len() as u64;
        let capacity = MAX_BODY.saturating_sub(answer.body.len());
        answer.body.extend_from_slice(&bytes[..bytes.len().min(capacity)]);
    }

    /// Records the time of the first token and the usage.
    pub(crate) fn chunks<'a>(&mut self, chunks: impl IntoIterator<Item = &'a ModelChunk>) {
        let Some(open) = &mut self.0 else { return };
        let since = open.started.elapsed();
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

    /// Completes the recording, with the failure if there was one.
    pub(crate) fn end(&mut self, outcome: ExchangeOutcome, error: Option<&ModelError>) {
        let Some(open) = self.0.take() else { return };
        let OpenRecording { recorder, key, started, answer } = *open;
        let error = error.map(ToString::to_string);
        recorder.ended(key, ReceivedAnswer { duration: started.elapsed(), outcome, error, ..answer });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(ExchangeOutcome::Abandoned, None);
    }
}

/// Copies the headers and masks secrets.
fn masked(headers: &HeaderMap) -> Vec<(String, String)> {
    let value = |value: &reqwest::header::HeaderValue| match value.to_str() {
        Ok(text) if !value.is_sensitive() => text.to_owned(),
        _ => MASK.to_owned(),
    };
    headers.iter().map(|(name, text)| (name.as_str().to_owned(), value(text))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{advance, sleep};

    use super::*;

    /// A loaded machine notices a deadline late. A server that sends a comment every few milliseconds must not benefit
    /// from the delay.
    #[tokio::test(start_paused = true)]
    async fn late_data_does_not_extend_a_missed_deadline() {
        let target = Target::for_tests("http://h/v1", "");
        let mut deadline = target.deadlines.listing();
        advance(Duration::from_secs(60)).await;
        let mut reads = 0;
        while target.within(&deadline, sleep(Duration::from_millis(10))).await.is_ok() {
            deadline = deadline.after_miss();
            reads += 1;
            assert!(reads < 1_000, "the deadline is never enforced");
        }
        assert!(reads > 0, "data that arrived in time is read");
    }
}
