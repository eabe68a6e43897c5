//! The editor, as far as it is spoken to: answers, updates, and requests of ours that wait for an answer.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use agent_client_protocol_schema::v1::{
    CLIENT_METHOD_NAMES, Error, RequestId, SessionId, SessionNotification, SessionUpdate,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

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
        let params = SessionNotification::new(session.clone(), update);
        self.notify(CLIENT_METHOD_NAMES.session_update, &params).await;
    }

    async fn notify(&self, method: &str, params: &impl Serialize) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Asks for something; none where the editor has gone. Dropping the wait withdraws the request.
    pub(super) async fn request(&self, method: &str, params: &impl Serialize) -> Option<Outcome> {
        let id = RequestId::Number(self.requests.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, answer) = oneshot::channel();
        self.requests.lock().insert(id.clone(), sender);
        let open = OpenRequest { peer: self, id };
        self.send(json!({"jsonrpc": "2.0", "id": open.id, "method": method, "params": params})).await;
        answer.await.ok()
    }

    /// Ends a request whose answer cannot be read.
    pub(super) fn give_up(&self, id: &RequestId, error: &Error) {
        self.deliver(id, Err(json!({"code": error.code, "message": error.message})));
    }

    /// Hands an answer to whoever waits for it. One that nobody waits for came too late.
    pub(super) fn deliver(&self, id: &RequestId, outcome: Outcome) {
        if let Some(waiting) = self.requests.lock().remove(id) {
            // Whoever has stopped waiting has withdrawn the request.
            let _ = waiting.send(outcome);
        }
    }

    async fn send(&self, message: Value) {
        // Where nothing is written any more, the loop finds out by itself.
        let _ = self.lines.send(message.to_string()).await;
    }
}

impl Requests {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, oneshot::Sender<Outcome>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits. Dropped before its answer has come, it is withdrawn.
struct OpenRequest<'a> {
    peer: &'a Peer,
    id: RequestId,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if self.peer.requests.lock().remove(&self.id).is_some() {
            let withdrawn = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": self.id}});
            // An editor that takes nothing now keeps a question on its screen, whose answer is dropped.
            let _ = self.peer.lines.try_send(withdrawn.to_string());
        }
    }
}

/// Writes lines until all peers are gone, or nothing can be written.
pub(super) async fn write(mut lines: mpsc::Receiver<String>, mut to: impl AsyncWrite + Unpin, over: CancellationToken) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: Option<String>) -> Value {
        serde_json::from_str(&line.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_request_gets_its_answer_and_a_late_one_harms_nobody() {
        let (peer, mut lines) = Peer::new();
        let params = json!({});
        let ask = peer.request("m", &params);
        let serve = async {
            let sent = message(lines.recv().await);
            assert_eq!((&sent["method"], &sent["id"]), (&json!("m"), &json!(1)));
            peer.deliver(&RequestId::Number(1), Ok(json!("yes")));
            peer.deliver(&RequestId::Number(1), Ok(json!("again")));
            peer.deliver(&RequestId::Str("never".into()), Ok(Value::Null));
        };
        assert_eq!(tokio::join!(ask, serve).0, Some(Ok(json!("yes"))));
    }

    #[tokio::test]
    async fn a_request_that_nobody_waits_for_is_withdrawn() {
        let (peer, mut lines) = Peer::new();
        let params = json!({});
        tokio::select! {
            biased;
            _ = peer.request("m", &params) => unreachable!(),
            () = std::future::ready(()) => {}
        }
        assert_eq!(message(lines.recv().await)["method"], "m");
        let withdrawn = message(lines.recv().await);
        assert_eq!((&withdrawn["method"], &withdrawn["params"]["requestId"]), (&json!("$/cancel_request"), &json!(1)));
    }

    #[tokio::test]
    async fn lines_are_written_until_the_last_peer_is_gone() {
        let (peer, lines) = Peer::new();
        let over = CancellationToken::new();
        let mut written = Vec::new();
        let fill = async {
            peer.answer(RequestId::Number(1), Ok(json!({}))).await;
            peer.answer(RequestId::Null, Err(super::super::refusal::cancelled())).await;
            drop(peer);
        };
        tokio::join!(fill, write(lines, &mut written, over.clone()));
        let lines: Vec<Value> = written
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        assert_eq!((&lines[0]["result"], &lines[1]["error"]["code"]), (&json!({}), &json!(-32800)));
        assert!(over.is_cancelled());
    }
}
