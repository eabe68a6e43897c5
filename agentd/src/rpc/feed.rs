//! One client's event stream for a session.
//!
//! Events are pulled when the connection has capacity. If a client stops reading, pulling stops and the engine is not
//! affected: the engine has a bounded queue per reader, drops deltas that do not fit, and reads all other events from
//! the journal when the client continues.
//!
//! Also requests to the client of a turn: calls to the client's tools, and questions about files that the client has
//! open. Pending requests are dropped when the client closes its half of the stream.

use std::collections::HashMap;

use agentd_core::{
    Timestamp,
    client_file::{ClientFileAnswer, ClientFileRequest},
    client_tool::{ClientToolAnswer, ClientToolCall},
    event::{Event, EventKind},
    ids::TurnId,
    ports::ClientFileAccess,
};
use agentd_engine::{ClientFileQuestion, ClientLine, ClientLines, ClientToolRequest, Engine, FileLine, Subscription};
use agentd_proto::{
    convert::answered_file,
    v1::{
        self,
        event::Kind,
        turn_request::{FileAnswer, Start, ToolAnswer, tool_answer::Outcome},
    },
};
use futures_util::{StreamExt as _, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

use crate::rpc::{Refusal, ReplyStream};

/// Event stream of one call.
pub(super) type EventStream = ReplyStream<v1::Event>;

/// Condition that ends a feed. A feed also ends when the daemon stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedEnd {
    /// When the client disconnects.
    Disconnect,
    /// When this turn ends.
    TurnEnd(TurnId),
    /// When all stored events have been sent.
    CaughtUp,
}

/// Message from the reader of a client's commands to the client's stream. The contents are boxed, because every turn
/// reserves capacity for many notices and few are ever sent.
#[derive(Debug)]
pub(super) enum ClientNotice {
    /// A command was refused. The turn continues.
    Refused(Box<Refusal>),
    /// The client violated the protocol. The stream ends, and the turn continues.
    Broken(Box<Refusal>),
    /// The model called a tool of the client.
    ToolRequested(Box<ClientToolCall>),
    /// A tool requests the content of a file that the client has open.
    FileRequested(Box<ClientFileRequest>),
}

/// Feed of one client, and the resources that are released with the feed.
pub(super) struct Feed {
    pub(super) subscription: Subscription,
    pub(super) feed_end: FeedEnd,
    /// Turn that the notices refer to.
    pub(super) turn_id: Option<TurnId>,
    pub(super) notices: mpsc::Receiver<ClientNotice>,
    pub(super) shutdown: CancellationToken,
    /// Stops the command reader when the feed is dropped.
    pub(super) _reader: Option<DropGuard>,
    /// Sequence number of the last event sent. Notices have the same number.
    pub(super) seen: u64,
}

/// Next event or error, and true if more may follow.
type NextEvent = (Result<v1::Event, Status>, bool);

impl Feed {
    /// Creates a feed without commands.
    pub(super) fn of_reader(
        subscription: Subscription,
        feed_end: FeedEnd,
        seen: u64,
        shutdown: CancellationToken,
    ) -> Self {
        let (_, notices) = mpsc::channel(1);
        Self { subscription, feed_end, turn_id: None, notices, shutdown, _reader: None, seen }
    }

    /// Converts the feed into the stream for the client.
    pub(super) fn into_stream(self) -> EventStream {
        stream::unfold(Some(self), |feed| async move {
            let mut feed = feed?;
            let (event, has_more) = feed.next().await?;
            Some((event, has_more.then_some(feed)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<NextEvent> {
        if self.feed_end == FeedEnd::CaughtUp && self.subscription.is_current() {
            return None;
        }
        let end = |refusal: Refusal| Some((Err(refusal.into()), false));
        tokio::select! {
            // Events that have already occurred are sent before requests, errors and the end of the stream at shutdown.
            biased;
            event = self.subscription.next() => match event? {
                Ok(event) => Some(self.show(&event)),
                Err(error) => end(error.into()),
            },
            Some(notice) = self.notices.recv() => match notice {
                ClientNotice::Refused(refusal) => Some((Ok((&self.warning(&refusal)).into()), true)),
                ClientNotice::ToolRequested(call) => Some(self.request_event(Kind::ToolRequested((&*call).into()))),
                ClientNotice::FileRequested(request) => {
                    Some(self.request_event(Kind::FileRequested((*request).into())))
                }
                ClientNotice::Broken(refusal) => end(*refusal),
            },
            () = self.shutdown.cancelled() => end(Refusal::stopping()),
        }
    }

    fn show(&mut self, event: &Event) -> NextEvent {
        self.seen = event.seq;
        let ended = matches!(event.kind, EventKind::TurnEnded { .. });
        let is_last = matches!(self.feed_end, FeedEnd::TurnEnd(turn) if ended && event.turn_id == Some(turn));
        (Ok(event.into()), !is_last)
    }

    /// Creates an event with a request to the client. The event is not stored: the session records the call and its
    /// result.
    fn request_event(&self, kind: Kind) -> NextEvent {
        let event = v1::Event {
            session_id: self.subscription.session_id().to_string(),
            turn_id: self.turn_id.map(|turn| turn.to_string()),
            seq: self.seen,
            at: Some(std::time::SystemTime::now().into()),
            kind: Some(kind),
        };
        (Ok(event), true)
    }

    /// Creates the warning about a refused command, for the client that sent the command. The warning is not stored.
    fn warning(&self, refusal: &Refusal) -> Event {
        let kind =
            EventKind::Warning { code: "command_refused".to_owned(), message: refusal.sentence(), retry_in_ms: None };
        let session_id = self.subscription.session_id();
        Event { session_id, turn_id: self.turn_id, seq: self.seen, at: Timestamp::now(), kind }
    }
}

/// Requests from the engine to the client's stream, and the channels for pending answers.
struct PendingRequests<Q, A> {
    requests: Option<mpsc::Receiver<Q>>,
    pending: HashMap<String, oneshot::Sender<A>>,
}

impl<Q, A> PendingRequests<Q, A> {
    fn new(requests: Option<mpsc::Receiver<Q>>) -> Self {
        Self { requests, pending: HashMap::new() }
    }

    /// Returns the next request. Never completes if there is no channel or the turn has ended.
    async fn next(&mut self) -> Q {
        if let Some(requests) = &mut self.requests
            && let Some(request) = requests.recv().await
        {
            return request;
        }
        std::future::pending().await
    }

    /// Registers the reply channel of a request, and removes channels whose receivers are closed.
    fn wait(&mut self, id: String, reply: oneshot::Sender<A>) {
        self.pending.retain(|_, pending| !pending.is_closed());
        self.pending.insert(id, reply);
    }

    /// Returns an error if no request waits for this answer.
    fn check(&self, id: &str, message: &str, hint: &str) -> Result<(), Refusal> {
        if self.pending.get(id).is_some_and(|pending| !pending.is_closed()) {
            return Ok(());
        }
        let shown: String = id.chars().take(80).collect();
        Err(Refusal::invalid(message.replace("{}", &format!("{shown:?}"))).with_hint(hint))
    }

    /// Sends an answer to the waiting request. Ignores the answer if the turn has ended.
    fn reply(&mut self, id: &str, answer: A) {
        if let Some(reply) = self.pending.remove(id) {
            let _ = reply.send(answer);
        }
    }
}

/// Request to the client of a turn.
pub(super) enum ClientQuestion {
    /// Call to one of the client's tools.
    Tool(ClientToolRequest),
    /// Question about a file that the client has open.
    File(ClientFileQuestion),
}

/// Request channels to the client of one turn.
pub(super) struct ClientCalls {
    tools: PendingRequests<ClientToolRequest, ClientToolAnswer>,
    files: PendingRequests<ClientFileQuestion, ClientFileAnswer>,
}

impl ClientCalls {
    /// Creates the channels to a client that offers tools or has open files, and returns them with the engine's ends.
    /// The channels must exist before the turn starts, because the turn may use them immediately.
    pub(super) fn of(start: &Start) -> (Self, ClientLines) {
        let (tools, requests) = (!start.tools.is_empty()).then(ClientLine::new).unzip();
        let access = |writes| if writes { ClientFileAccess::ReadWrite } else { ClientFileAccess::Read };
        let (files, questions) = start.client_files.as_ref().map(|client| FileLine::new(access(client.writes))).unzip();
        let lines = ClientLines { tools, files: files.into_iter().collect() };
        (Self { tools: PendingRequests::new(requests), files: PendingRequests::new(questions) }, lines)
    }

    pub(super) async fn next(&mut self) -> ClientQuestion {
        tokio::select! {
            request = self.tools.next() => ClientQuestion::Tool(request),
            question = self.files.next() => ClientQuestion::File(question),
        }
    }

    /// Sends a request to the client. If the client has too many unread requests, a tool call fails immediately and a
    /// file question times out.
    pub(super) fn offer(&mut self, turn: TurnId, question: ClientQuestion, stream: &mpsc::Sender<ClientNotice>) {
        match question {
            ClientQuestion::Tool(ClientToolRequest { call, reply }) => {
                let call_id = call.call_id.clone();
                match stream.try_send(ClientNotice::ToolRequested(Box::new(call))) {
                    Ok(()) => self.tools.wait(call_id, reply),
                    Err(_) => tracing::warn!(%turn, "a client does not read its stream; its tool call fails"),
                }
            }
            ClientQuestion::File(ClientFileQuestion { request, reply }) => {
                self.files.wait(request.id.clone(), reply);
                if stream.try_send(ClientNotice::FileRequested(Box::new(request))).is_err() {
                    tracing::warn!(%turn, "a client does not read its stream; a file request is dropped");
                }
            }
        }
    }

    /// Sends an answer to the waiting tool call.
    ///
    /// # Errors
    /// Fails if no call waits for the answer, or if the answer's picture is invalid. In the latter case, the call keeps
    /// waiting.
    pub(super) async fn answer_tool(&mut self, engine: &Engine, answer: ToolAnswer) -> Result<(), Refusal> {
        let ToolAnswer { call_id, outcome, picture } = answer;
        let unknown = "no pending call {} to a tool of this client";
        self.tools.check(&call_id, unknown, "it was already answered, has ended or never existed")?;
        let picture = match picture {
            Some(picture) => Some(engine.check_picture("the answer", picture.try_into()?).await?.prepared),
            None => None,
        };
        let (text, failed) = match outcome {
            Some(Outcome::Text(text)) => (text, false),
            Some(Outcome::Error(message)) => (message, true),
            None => (String::new(), false),
        };
        self.tools.reply(&call_id, ClientToolAnswer { text, failed, picture });
        Ok(())
    }

    /// Sends an answer to the waiting file question.
    ///
    /// # Errors
    /// Fails if no question waits for the answer.
    pub(super) fn answer_file(&mut self, answer: FileAnswer) -> Result<(), Refusal> {
        let id = answer.request_id.clone();
        let unknown = "no pending file request {}";
        self.files.check(&id, unknown, "it was already answered, timed out or never existed")?;
        self.files.reply(&id, answered_file(answer));
        Ok(())
    }
}
