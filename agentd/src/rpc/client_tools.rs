//! Tools of a turn's client: calls that wait for its answer. The line ends with the client's half of the stream, and with it
//! every call that waits.

use std::collections::HashMap;

use agentd_core::{client_tool::ClientToolAnswer, ids::TurnId};
use agentd_engine::{ClientToolRequest, Engine};
use agentd_proto::v1::turn_request::{ToolAnswer, tool_answer::Outcome};
use tokio::sync::{mpsc, oneshot};

use super::{Refusal, feed::ClientNotice};

/// Calls of the client's tools, from the engine to the client's stream and back.
pub(super) struct ClientCalls {
    requests: Option<mpsc::Receiver<ClientToolRequest>>,
    waiting: HashMap<String, oneshot::Sender<ClientToolAnswer>>,
}

impl ClientCalls {
    pub(super) fn new(requests: Option<mpsc::Receiver<ClientToolRequest>>) -> Self {
        Self { requests, waiting: HashMap::new() }
    }

    /// The next call for the client; never where it has no tools.
    pub(super) async fn next(&mut self) -> ClientToolRequest {
        match &mut self.requests {
            Some(requests) => match requests.recv().await {
                Some(request) => request,
                // The turn has ended.
                None => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }

    /// Tells the client of a call. One that leaves too much unread is not asked: the call ends at once.
    pub(super) fn offer(&mut self, turn: TurnId, request: ClientToolRequest, stream: &mpsc::Sender<ClientNotice>) {
        let ClientToolRequest { call, reply } = request;
        // Nobody waits for these any more.
        self.waiting.retain(|_, waiting| !waiting.is_closed());
        let call_id = call.call_id.clone();
        match stream.try_send(ClientNotice::ToolRequested(Box::new(call))) {
            Ok(()) => drop(self.waiting.insert(call_id, reply)),
            Err(_) => tracing::warn!(%turn, "a client does not read its stream, so a call of its tool ends"),
        }
    }

    /// Hands an answer to the call that waits for it.
    ///
    /// # Errors
    /// When no call waits for it, or its picture is none. Then the call waits on.
    pub(super) async fn answer(&mut self, engine: &Engine, answer: ToolAnswer) -> Result<(), Refusal> {
        let ToolAnswer { call_id, outcome, picture } = answer;
        if self.waiting.get(&call_id).is_none_or(oneshot::Sender::is_closed) {
            let shown: String = call_id.chars().take(80).collect();
            return Err(Refusal::invalid(format!("no call {shown:?} of a tool of this client waits for an answer"))
                .with_hint("it was answered, has ended, or never was"));
        }
        let picture = match picture {
            Some(picture) => Some(engine.check_picture("the answer", picture.try_into()?).await?.prepared),
            None => None,
        };
        let (text, failed) = match outcome {
            Some(Outcome::Text(text)) => (text, false),
            Some(Outcome::Error(why)) => (why, true),
            None => (String::new(), false),
        };
        if let Some(reply) = self.waiting.remove(&call_id) {
            // A turn that has ended meanwhile does not need it.
            let _ = reply.send(ClientToolAnswer { text, failed, picture });
        }
        Ok(())
    }
}
