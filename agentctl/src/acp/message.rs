//! JSON-RPC messages: bounded input lines, output to the editor, and pending requests to the editor. Also contains the
//! errors sent to editors, which combine JSON-RPC and protocol codes with the daemon's messages.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, Error, ErrorCode, RequestId, SessionId, SessionNotification, SessionUpdate,
};
use agentd_core::{error::ErrorKind, turn::TurnError};
use agentd_proto::client::ClientError;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use crate::{exit::Exit, failure::Failure};

/// Maximum bytes in an input line: enough for a picture of 24 MB in Base64 with some text.
const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;
/// Bytes stored of an oversized line, to find the request id in them.
const HEAD_BYTES: usize = 64 * 1024;

/// One input line, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A line that is not empty.
    Line(Vec<u8>),
    /// The beginning of a line that is too long.
    TooLong(Vec<u8>),
}

/// Reads the next non-empty line; `None` at the end. The last line needs no newline.
///
/// # Errors
/// Fails if the input cannot be read.
pub(super) async fn next_frame(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Frame>> {
    loop {
        let (mut line, mut is_long) = (Vec::new(), false);
        let has_ended = loop {
            let piece = input.fill_buf().await?;
            if piece.is_empty() {
                break true;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            if !is_long {
                line.extend_from_slice(part);
            }
            if line.len() > MAX_LINE_BYTES {
                is_long = true;
                line.truncate(HEAD_BYTES);
                line.shrink_to_fit();
            }
            let consumed_bytes = part.len() + usize::from(end.is_some());
            input.consume(consumed_bytes);
            if end.is_some() {
                break false;
            }
        };
        match (is_long, line.trim_ascii().is_empty()) {
            (true, _) => return Ok(Some(Frame::TooLong(line))),
            (false, false) => return Ok(Some(Frame::Line(line))),
            (false, true) if has_ended => return Ok(None),
            (false, true) => {}
        }
    }
}

/// A message from the editor.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// A request, which must be answered.
    Request { id: RequestId, method: String, params: Value },
    /// A notification, which is not answered.
    Notification { method: String, params: Value },
    /// The response to one of our requests.
    Answer { id: RequestId, outcome: Result<Value, Value> },
}

/// An invalid line, and the id of the request that it may have contained.
#[derive(Debug, PartialEq)]
pub(super) struct InvalidMessage {
    pub(super) id: RequestId,
    pub(super) error: Error,
    /// True if the line looks like a response. The id is then one of ours, so no error is sent for it: the editor would
    /// treat that error as the response to one of its requests.
    pub(super) is_answer: bool,
}

impl InvalidMessage {
    /// Builds the error for a message without a usable id.
    fn refusal(reason: &str) -> Box<Self> {
        Box::new(Self { id: RequestId::Null, error: invalid_request(reason), is_answer: false })
    }

    /// Builds the error for a line that cannot be parsed, with the id and the kind guessed from its beginning.
    fn within(head: &[u8], error: Error) -> Box<Self> {
        let (id, is_answer) = id_within(head);
        Box::new(Self { id, error, is_answer })
    }
}

/// Parses a line as a message.
///
/// # Errors
/// Fails if the line is invalid or too long.
pub(super) fn read(frame: &Frame) -> Result<Message, Box<InvalidMessage>> {
    let line = match frame {
        Frame::Line(line) => line,
        Frame::TooLong(head) => {
            return Err(InvalidMessage::within(head, invalid_request("the line is longer than 32 MiB")));
        }
    };
    let invalid_json = |error| error_with_code(ErrorCode::ParseError, format!("the line is not valid JSON: {error}"));
    let value: Value =
        serde_json::from_slice(line).map_err(|error| InvalidMessage::within(line, invalid_json(error)))?;
    let Value::Object(mut fields) = value else {
        return Err(InvalidMessage::refusal("a message must be one JSON object, not a batch"));
    };
    let invalid_id = |_| InvalidMessage::refusal("an id must be a string, an integer or null");
    let params = fields.remove("params").unwrap_or_default();
    let id = fields.remove("id").map(serde_json::from_value).transpose().map_err(invalid_id)?;
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Ok(Message::Request { id, method, params }),
        (Some(Value::String(method)), None) => Ok(Message::Notification { method, params }),
        (Some(_), id) => {
            let error = invalid_request("the method is not a string");
            Err(Box::new(InvalidMessage { id: id.unwrap_or(RequestId::Null), error, is_answer: false }))
        }
        (None, Some(id)) => answer(id, fields),
        (None, None) => Err(InvalidMessage::refusal("the message has no method and no id")),
    }
}

fn answer(id: RequestId, mut fields: Map<String, Value>) -> Result<Message, Box<InvalidMessage>> {
    // Some libraries send both fields, with the unused one set to null.
    match (fields.remove("result"), fields.remove("error").filter(|error| !error.is_null())) {
        (_, Some(error)) => Ok(Message::Answer { id, outcome: Err(error) }),
        (Some(result), None) => Ok(Message::Answer { id, outcome: Ok(result) }),
        (None, None) => {
            let error = invalid_request("the message has no method, result or error");
            Err(Box::new(InvalidMessage { id, error, is_answer: true }))
        }
    }
}

/// Finds the id at the beginning of a message that cannot be parsed, so that the sender gets a response. The second
/// value is true if the message looks like a response.
fn id_within(head: &[u8]) -> (RequestId, bool) {
    let text = String::from_utf8_lossy(head);
    let (mut id, mut is_answer, mut has_method) = (RequestId::Null, false, false);
    // Nesting depth, and the start of the current string.
    let (mut depth, mut string_start, mut is_escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (string_start, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(start), '"') => {
                string_start = None;
                let rest = text[at + 1..].trim_start().strip_prefix(':').filter(|_| depth == 1);
                match (&text[start..at], rest) {
                    ("id", Some(rest)) if id == RequestId::Null => {
                        let value = serde_json::Deserializer::from_str(rest).into_iter::<RequestId>().next();
                        id = value.and_then(Result::ok).unwrap_or(RequestId::Null);
                    }
                    ("result" | "error", Some(_)) => is_answer = true,
                    ("method", Some(_)) => has_method = true,
                    _ => {}
                }
            }
            (Some(_), _) => {}
            (None, '"') => string_start = Some(at + 1),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    (id, is_answer && !has_method)
}

/// Capacity of the output queue. A full queue blocks senders, which slows down the daemon's event stream.
const QUEUE_CAPACITY: usize = 256;
/// Queued lines are combined into writes of about this size.
const BATCH_BYTES: usize = 64 * 1024;

/// Sending side of the connection to the editor.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    lines: mpsc::Sender<String>,
    requests: Arc<Requests>,
}

/// Requests sent to the editor that have no response yet.
#[derive(Debug, Default)]
struct Requests {
    last: AtomicI64,
    open: Mutex<HashMap<RequestId, oneshot::Sender<Outcome>>>,
}

/// Response from the editor: the result or the error.
pub(super) type Outcome = Result<Value, Value>;

impl Peer {
    /// Creates a peer, and the receiver of its output lines.
    pub(super) fn new() -> (Self, mpsc::Receiver<String>) {
        let (lines, written) = mpsc::channel(QUEUE_CAPACITY);
        (Self { lines, requests: Arc::default() }, written)
    }

    /// Answers a request from the editor.
    pub(super) async fn answer(&self, id: RequestId, outcome: Result<Value, Error>) {
        self.send(match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        })
        .await;
    }

    /// Sends an update for a session.
    pub(super) async fn update(&self, session: &SessionId, update: SessionUpdate) {
        let (method, params) = (CLIENT_METHOD_NAMES.session_update, SessionNotification::new(session.clone(), update));
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request. Returns `None` if the editor has disconnected. Dropping the future withdraws the request.
    pub(super) async fn request(&self, method: &str, params: &impl Serialize) -> Option<Outcome> {
        let id = RequestId::Number(self.requests.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, answer) = oneshot::channel();
        lock(&self.requests.open).insert(id.clone(), sender);
        let open = OpenRequest { peer: self, id };
        self.send(json!({"jsonrpc": "2.0", "id": open.id, "method": method, "params": params})).await;
        answer.await.ok()
    }

    /// Delivers a response to its waiting request. A late response is ignored.
    pub(super) fn deliver(&self, id: &RequestId, outcome: Outcome) {
        if let Some(waiting) = lock(&self.requests.open).remove(id) {
            // Fails if the request was withdrawn.
            let _ = waiting.send(outcome);
        }
    }

    async fn send(&self, message: Value) {
        // Fails if the queue is closed: the output has failed, which also ends the main loop.
        let _ = self.lines.send(message.to_string()).await;
    }
}

/// Locks a mutex and ignores poisoning.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pending request, withdrawn if dropped before its response.
struct OpenRequest<'a> {
    peer: &'a Peer,
    id: RequestId,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if lock(&self.peer.requests.open).remove(&self.id).is_some() {
            let withdrawn = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": self.id}});
            // If the queue is full, the withdrawal is lost: the editor keeps showing the question, and its answer is
            // ignored.
            let _ = self.peer.lines.try_send(withdrawn.to_string());
        }
    }
}

/// Writes lines until all peers are dropped or the output fails.
pub(super) async fn write_lines(
    mut lines: mpsc::Receiver<String>,
    mut to: impl AsyncWrite + Unpin,
    shutdown: CancellationToken,
) {
    let _shutdown = shutdown.drop_guard();
    while let Some(mut text) = lines.recv().await {
        text.push('\n');
        while text.len() < BATCH_BYTES
            && let Ok(more) = lines.try_recv()
        {
            text.push_str(&more);
            text.push('\n');
        }
        if to.write_all(text.as_bytes()).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

/// Result of a request from the editor.
pub(super) type Result<T, E = RequestError> = std::result::Result<T, E>;

/// Reason why a request failed.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The request is invalid.
    Refused(Box<Error>),
    /// The daemon refused the request or cannot be reached.
    Failed(Failure),
}

impl RequestError {
    /// Returns true if the request never reached the daemon and can be retried.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.exit == Exit::Unreachable)
    }

    /// Converts this failure to a JSON-RPC error.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => *error,
            Self::Failed(failure) => of_failure(&failure),
        }
    }
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<Failure> for RequestError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ClientError> for RequestError {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.into())
    }
}

/// Returns an error for JSON that is not a valid request.
pub(super) fn invalid_request(reason: &str) -> Error {
    error_with_code(ErrorCode::InvalidRequest, reason)
}

/// Returns an error for invalid parameters.
pub(super) fn invalid_params(reason: impl Into<String>) -> Error {
    error_with_code(ErrorCode::InvalidParams, reason)
}

/// Returns an error for an unknown session.
pub(super) fn unknown_session(id: &str) -> Error {
    let message = format!("Session not found: {id}");
    error_with_code(ErrorCode::ResourceNotFound, message).data(json!({"hint": "session/list shows the existing ones"}))
}

/// Returns an error for a failure of the daemon or of the connection to it.
pub(super) fn of_failure(failure: &Failure) -> Error {
    let code = match failure.kind {
        ErrorKind::NotFound => ErrorCode::ResourceNotFound,
        ErrorKind::InvalidInput => ErrorCode::InvalidParams,
        _ => ErrorCode::InternalError,
    };
    error_with_hint(code, &failure.message, failure.hint.as_deref(), failure.kind)
}

/// Returns an error for a failed turn.
pub(super) fn of_turn(error: &TurnError) -> Error {
    error_with_hint(ErrorCode::InternalError, &error.message, error.hint.as_deref(), error.kind)
}

/// Builds an error. The hint is appended to the message, because many editors show only the message.
fn error_with_hint(code: ErrorCode, message: &str, hint: Option<&str>, kind: ErrorKind) -> Error {
    let text = hint.map_or_else(|| message.to_owned(), |hint| format!("{message}\nhint: {hint}"));
    error_with_code(code, text).data(json!({"kind": kind, "hint": hint}))
}

/// Builds an error with this code and message.
pub(super) fn error_with_code(code: ErrorCode, message: impl Into<String>) -> Error {
    Error::new(code.into(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &[u8]) -> Result<Message, Box<InvalidMessage>> {
        read(&Frame::Line(line.to_vec()))
    }

    #[test]
    fn invalid_message_is_answered_with_its_id_if_readable() {
        let check = |line: &[u8], id: RequestId, code: ErrorCode| {
            let invalid = of(line).unwrap_err();
            assert_eq!((&invalid.id, invalid.error.code), (&id, code), "{}", String::from_utf8_lossy(line));
        };
        let number = RequestId::Number;
        check(br#"{"params":{"id":9,"s":"\"id\":8"},"id" : 4,"meth"#, number(4), ErrorCode::ParseError);
        check(b"{}", RequestId::Null, ErrorCode::InvalidRequest);
        check(br#"{"id":1.5,"method":"m"}"#, RequestId::Null, ErrorCode::InvalidRequest);
        let is_answer = |line: &[u8]| of(line).unwrap_err().is_answer;
        assert!(!is_answer(br#"{"id":4,"params":{"result":1},"meth"#) && !is_answer(br#"{"id":5,"method":7}"#));
        for answer in [&br#"{"id":6}"#[..], br#"{"id":6,"result":{"content":"#, b"{\"result\":\"\xff\",\"id\":6}"] {
            let invalid = of(answer).unwrap_err();
            assert_eq!((&invalid.id, invalid.is_answer), (&number(6), true), "{}", String::from_utf8_lossy(answer));
        }
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        check(&deep, RequestId::Null, ErrorCode::ParseError);
    }
}
