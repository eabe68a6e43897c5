//! Messages of JSON-RPC: read from lines that are bounded, whatever they hold, and sent to the editor, whose answers to requests
//! of ours are waited for. Errors as editors are told them: codes of JSON-RPC and of the protocol, with the words of the daemon.

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

/// Longest line that is read whole, in bytes: a picture of 24 MB in Base64, and words beside it.
const LONGEST: usize = 32 * 1024 * 1024;
/// Bytes kept of a longer line; its id is looked for among them.
const HEAD: usize = 64 * 1024;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A line that is not empty.
    Line(Vec<u8>),
    /// The beginning of a line that is too long.
    TooLong(Vec<u8>),
}

/// The next line that is not empty; none at the end. A line that the end cuts is one.
///
/// # Errors
/// When nothing can be read any more.
pub(super) async fn next_frame(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Frame>> {
    next_within(input, LONGEST).await
}

async fn next_within(input: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Option<Frame>> {
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
            if line.len() > longest {
                is_long = true;
                line.truncate(HEAD.min(longest));
                line.shrink_to_fit();
            }
            let taken = part.len() + usize::from(end.is_some());
            input.consume(taken);
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

/// A message of the editor.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// A request, which gets an answer.
    Request { id: RequestId, method: String, params: Value },
    /// A notification, which gets none.
    Notification { method: String, params: Value },
    /// The answer to a request of ours: its result, or the error.
    Answer { id: RequestId, outcome: Result<Value, Value> },
}

/// A line that is no message, with the id of the request that it may have been.
#[derive(Debug, PartialEq)]
pub(super) struct Misfit {
    pub(super) id: RequestId,
    pub(super) error: Error,
    /// Set if it was meant as an answer: then the id is one of ours, and an error under it would be taken for the answer to
    /// the editor's own request.
    pub(super) is_answer: bool,
}

impl Misfit {
    fn new(id: RequestId, error: Error) -> Box<Self> {
        Box::new(Self { id, error, is_answer: false })
    }

    /// A line that cannot be read whole, by what can be told of its beginning.
    fn within(head: &[u8], error: Error) -> Box<Self> {
        let (id, is_answer) = id_within(head);
        Box::new(Self { id, error, is_answer })
    }
}

/// Reads a line as a message.
///
/// # Errors
/// When it is none, or too long.
pub(super) fn read(frame: &Frame) -> Result<Message, Box<Misfit>> {
    let line = match frame {
        Frame::Line(line) => line,
        Frame::TooLong(head) => {
            return Err(Misfit::within(head, not_a_request("the line is longer than 32 MiB")));
        }
    };
    let no_json = |error| worded(ErrorCode::ParseError, format!("the line is no JSON: {error}"));
    let value: Value = serde_json::from_slice(line).map_err(|error| Misfit::within(line, no_json(error)))?;
    let Value::Object(mut fields) = value else {
        return Err(Misfit::new(RequestId::Null, not_a_request("a message is one JSON object; no batches")));
    };
    let misnamed = |_| Misfit::new(RequestId::Null, not_a_request("an id is a string, a whole number or null"));
    let params = fields.remove("params").unwrap_or_default();
    let id = fields.remove("id").map(serde_json::from_value).transpose().map_err(misnamed)?;
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Ok(Message::Request { id, method, params }),
        (Some(Value::String(method)), None) => Ok(Message::Notification { method, params }),
        (Some(_), id) => Err(Misfit::new(id.unwrap_or(RequestId::Null), not_a_request("the method is no string"))),
        (None, Some(id)) => answer(id, fields),
        (None, None) => Err(Misfit::new(RequestId::Null, not_a_request("there is no method and no id"))),
    }
}

fn answer(id: RequestId, mut fields: Map<String, Value>) -> Result<Message, Box<Misfit>> {
    // Some libraries write the one that is not there as null.
    match (fields.remove("result"), fields.remove("error").filter(|error| !error.is_null())) {
        (_, Some(error)) => Ok(Message::Answer { id, outcome: Err(error) }),
        (Some(result), None) => Ok(Message::Answer { id, outcome: Ok(result) }),
        (None, None) => {
            let error = not_a_request("there is no method, no result and no error");
            Err(Box::new(Misfit { id, error, is_answer: true }))
        }
    }
}

/// The id in the beginning of a message that cannot be read whole, so that its sender learns which it was; and whether the
/// message is an answer.
fn id_within(head: &[u8]) -> (RequestId, bool) {
    let text = String::from_utf8_lossy(head);
    let (mut id, mut is_answer, mut has_method) = (RequestId::Null, false, false);
    // The depth of brackets, and where the string that is open began.
    let (mut depth, mut begun, mut is_escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (begun, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(start), '"') => {
                begun = None;
                let behind = text[at + 1..].trim_start().strip_prefix(':').filter(|_| depth == 1);
                match (&text[start..at], behind) {
                    ("id", Some(behind)) if id == RequestId::Null => {
                        let value = serde_json::Deserializer::from_str(behind).into_iter::<RequestId>().next();
                        id = value.and_then(Result::ok).unwrap_or(RequestId::Null);
                    }
                    ("result" | "error", Some(_)) => is_answer = true,
                    ("method", Some(_)) => has_method = true,
                    _ => {}
                }
            }
            (Some(_), _) => {}
            (None, '"') => begun = Some(at + 1),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    (id, is_answer && !has_method)
}

/// Lines that may wait to be written. A full queue holds up whoever writes, and through them the daemon's stream.
const QUEUE: usize = 256;
/// Bytes that are written at once where more lines wait.
const AT_ONCE: usize = 64 * 1024;

/// The way to the editor.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    lines: mpsc::Sender<String>,
    requests: Arc<Requests>,
}

/// Requests of ours that wait for an answer.
#[derive(Debug, Default)]
struct Requests {
    last: AtomicI64,
    open: Mutex<HashMap<RequestId, oneshot::Sender<Outcome>>>,
}

/// An answer of the editor: the result, or the error.
pub(super) type Outcome = Result<Value, Value>;

impl Peer {
    /// A peer, and the lines that are to be written for it.
    pub(super) fn new() -> (Self, mpsc::Receiver<String>) {
        let (lines, written) = mpsc::channel(QUEUE);
        (Self { lines, requests: Arc::default() }, written)
    }

    /// Answers a request.
    pub(super) async fn answer(&self, id: RequestId, outcome: Result<Value, Error>) {
        self.send(match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        })
        .await;
    }

    /// Tells of a session.
    pub(super) async fn update(&self, session: &SessionId, update: SessionUpdate) {
        let (method, params) = (CLIENT_METHOD_NAMES.session_update, SessionNotification::new(session.clone(), update));
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request; `None` if the editor has gone. Dropping the future withdraws the request.
    pub(super) async fn request(&self, method: &str, params: &impl Serialize) -> Option<Outcome> {
        let id = RequestId::Number(self.requests.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, answer) = oneshot::channel();
        lock(&self.requests.open).insert(id.clone(), sender);
        let open = OpenRequest { peer: self, id };
        self.send(json!({"jsonrpc": "2.0", "id": open.id, "method": method, "params": params})).await;
        answer.await.ok()
    }

    /// Hands an answer to whoever waits for it. One that nobody waits for came too late.
    pub(super) fn deliver(&self, id: &RequestId, outcome: Outcome) {
        if let Some(waiting) = lock(&self.requests.open).remove(id) {
            // Whoever has stopped waiting has withdrawn the request.
            let _ = waiting.send(outcome);
        }
    }

    async fn send(&self, message: Value) {
        // Where nothing is written any more, the loop finds out by itself.
        let _ = self.lines.send(message.to_string()).await;
    }
}

/// A mutex as it is, also after a panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request that waits. Dropped before its answer has come, it is withdrawn.
struct OpenRequest<'a> {
    peer: &'a Peer,
    id: RequestId,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if lock(&self.peer.requests.open).remove(&self.id).is_some() {
            let withdrawn = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": self.id}});
            // An editor that takes nothing now keeps a question on its screen, whose answer is dropped.
            let _ = self.peer.lines.try_send(withdrawn.to_string());
        }
    }
}

/// Writes lines until all peers are gone, or nothing can be written.
pub(super) async fn write_lines(
    mut lines: mpsc::Receiver<String>,
    mut to: impl AsyncWrite + Unpin,
    over: CancellationToken,
) {
    let _over = over.drop_guard();
    while let Some(mut text) = lines.recv().await {
        text.push('\n');
        while text.len() < AT_ONCE
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

/// Why a request came to nothing.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The request makes no sense.
    Refused(Box<Error>),
    /// The daemon refused it, or cannot be reached.
    Failed(Failure),
}

impl Trouble {
    /// Returns whether it never reached the daemon, so that it can be tried again.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.exit == Exit::Unreachable)
    }

    /// The error that the editor is told.
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => *error,
            Self::Failed(failure) => of_failure(&failure),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Refused(Box::new(error))
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.into())
    }
}

/// JSON that is no request.
pub(super) fn not_a_request(why: &str) -> Error {
    worded(ErrorCode::InvalidRequest, why)
}

/// Parameters that do not fit a method.
pub(super) fn misfit(why: impl Into<String>) -> Error {
    worded(ErrorCode::InvalidParams, why)
}

/// A session that is not there.
pub(super) fn unknown_session(id: &str) -> Error {
    let message = format!("Session not found: {id}");
    worded(ErrorCode::ResourceNotFound, message).data(json!({"hint": "session/list shows those that there are"}))
}

/// A failure on the way to the daemon, or of the daemon.
pub(super) fn of_failure(failure: &Failure) -> Error {
    let code = match failure.kind {
        ErrorKind::NotFound => ErrorCode::ResourceNotFound,
        ErrorKind::InvalidInput => ErrorCode::InvalidParams,
        _ => ErrorCode::InternalError,
    };
    told(code, &failure.message, failure.hint.as_deref(), failure.kind)
}

/// A turn that failed.
pub(super) fn of_turn(error: &TurnError) -> Error {
    told(ErrorCode::InternalError, &error.message, error.hint.as_deref(), error.kind)
}

/// Many editors show the message and nothing else, so the hint is in it, too.
fn told(code: ErrorCode, message: &str, hint: Option<&str>, kind: ErrorKind) -> Error {
    let words = hint.map_or_else(|| message.to_owned(), |hint| format!("{message}\nhint: {hint}"));
    worded(code, words).data(json!({"kind": kind, "hint": hint}))
}

/// An error of that code in these words.
pub(super) fn worded(code: ErrorCode, message: impl Into<String>) -> Error {
    Error::new(code.into(), message)
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn all(input: &[u8], longest: usize) -> Vec<Frame> {
        // Pieces of a few bytes, so that lines come in several.
        let mut reader = BufReader::with_capacity(3, input);
        let mut frames = Vec::new();
        while let Some(frame) = next_within(&mut reader, longest).await.unwrap() {
            frames.push(frame);
        }
        frames
    }

    #[tokio::test]
    async fn lines_come_whole_and_empty_ones_not_at_all() {
        let line = |text: &str| Frame::Line(text.as_bytes().to_vec());
        assert_eq!(all(b"one\n\n  \r\ntwo three\nfour", 100).await, [line("one"), line("two three"), line("four")]);
        assert_eq!(all(b"", 100).await, []);
        assert_eq!(all(b"\n\n", 100).await, []);
        let long = || Frame::TooLong(b"01234567".to_vec());
        assert_eq!(all(b"0123456789abcdef\nnext\n", 8).await, [long(), line("next")]);
        assert_eq!(all(b"0123456789", 8).await, [long()]);
    }

    fn of(line: &[u8]) -> Result<Message, Box<Misfit>> {
        read(&Frame::Line(line.to_vec()))
    }

    #[test]
    fn what_is_no_message_is_answered_with_its_id_where_it_can_be_found() {
        let check = |line: &[u8], id: RequestId, code: ErrorCode| {
            let misfit = of(line).unwrap_err();
            assert_eq!((&misfit.id, misfit.error.code), (&id, code), "{}", String::from_utf8_lossy(line));
        };
        let number = RequestId::Number;
        check(br#"{"params":{"id":9,"s":"\"id\":8"},"id" : 4,"meth"#, number(4), ErrorCode::ParseError);
        check(b"{}", RequestId::Null, ErrorCode::InvalidRequest);
        check(br#"{"id":1.5,"method":"m"}"#, RequestId::Null, ErrorCode::InvalidRequest);
        let is_answer = |line: &[u8]| of(line).unwrap_err().is_answer;
        assert!(!is_answer(br#"{"id":4,"params":{"result":1},"meth"#) && !is_answer(br#"{"id":5,"method":7}"#));
        for answer in [&br#"{"id":6}"#[..], br#"{"id":6,"result":{"content":"#, b"{\"result\":\"\xff\",\"id\":6}"] {
            let misfit = of(answer).unwrap_err();
            assert_eq!((&misfit.id, misfit.is_answer), (&number(6), true), "{}", String::from_utf8_lossy(answer));
        }
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        check(&deep, RequestId::Null, ErrorCode::ParseError);
    }
}
