//! A session's events as one client's stream sees them.
//!
//! Events are pulled when the connection has room for them. A client that stops reading stops the pulling and nothing
//! else: the engine keeps a bounded queue for every reader, drops the deltas that do not fit and reads the rest from
//! the journal once the client is back.
//!
//! What is asked of the client of a turn: calls of its tools, and questions about the files that it holds. The lines end with the
//! client's half of the stream, and with them every call and question that waits.

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
        turn_request::{FileAnswer, Start, ToolAnswer, tool_answer::Outcome},
    },
};
use futures_util::{StreamExt as _, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

use crate::rpc::{Refusal, ReplyStream};

/// The events of one call.
pub(super) type EventStream = ReplyStream<v1::Event>;

/// When a feed ends, if the daemon does not stop first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// With the client.
    Forever,
    /// With the end of this turn.
    TurnEnds(TurnId),
    /// When everything stored was shown.
    Current,
}

/// Notices of the reader of a client's commands for the client's own stream. Each turn has room for many, and few ever
/// come: so that room is small.
#[derive(Debug)]
pub(super) enum ClientNotice {
    /// A command was refused; the turn continues.
    Refused(Box<Refusal>),
    /// The client broke the protocol; its stream ends, the turn continues.
    Broken(Box<Refusal>),
    /// The model calls a tool of the client.
    ToolRequested(Box<ClientToolCall>),
    /// A tool asks about a file that the client holds.
    FileRequested(Box<ClientFileRequest>),
}

/// A feed and what ends with it.
pub(super) struct Feed {
    pub(super) subscription: Subscription,
    pub(super) until: Until,
    /// The turn that remarks are about.
    pub(super) turn_id: Option<TurnId>,
    pub(super) remarks: mpsc::Receiver<ClientNotice>,
    pub(super) shutdown: CancellationToken,
    /// Ends the reader of commands when the client is gone.
    pub(super) _reader: Option<DropGuard>,
    /// The number of the last event that was shown, at which notices are reported.
    pub(super) seen: u64,
}

/// An event, or why there is none; and whether another may come.
type NextEvent = (Result<v1::Event, Status>, bool);

impl Feed {
    /// A feed without commands.
    pub(super) fn of_reader(subscription: Subscription, until: Until, seen: u64, shutdown: CancellationToken) -> Self {
        let (_, remarks) = mpsc::channel(1);
        Self { subscription, until, turn_id: None, remarks, shutdown, _reader: None, seen }
    }

    /// The stream that a client reads.
    pub(super) fn into_stream(self) -> EventStream {
        stream::unfold(Some(self), |feed| async move {
            let mut feed = feed?;
            let (event, goes_on) = feed.next().await?;
            Some((event, goes_on.then_some(feed)))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<NextEvent> {
        if self.until == Until::Current && self.subscription.is_current() {
            return None;
        }
        let end = |refusal: Refusal| Some((Err(refusal.into()), false));
        tokio::select! {
            // What has happened is shown before what cannot happen any more.
            biased;
            event = self.subscription.next() => match event? {
                Ok(event) => Some(self.show(&event)),
                Err(error) => end(error.into()),
            },
            Some(remark) = self.remarks.recv() => match remark {
                ClientNotice::Refused(refusal) => Some((Ok((&self.warning(&refusal)).into()), true)),
                ClientNotice::ToolRequested(call) => Some(self.asked(v1::event::Kind::ToolRequested((&*call).into()))),
                ClientNotice::FileRequested(asked) => Some(self.asked(v1::event::Kind::FileRequested((*asked).into()))),
                ClientNotice::Broken(refusal) => end(*refusal),
            },
            () = self.shutdown.cancelled() => end(Refusal::stopping()),
        }
    }

    fn show(&mut self, event: &Event) -> NextEvent {
        self.seen = event.seq;
        let ended = matches!(event.kind, EventKind::TurnEnded { .. });
        let is_last = matches!(self.until, Until::TurnEnds(turn) if ended && event.turn_id == Some(turn));
        (Ok(event.into()), !is_last)
    }

    /// Something that is asked of this client. It is no fact of the session either: the call and its result are.
    fn asked(&self, kind: v1::event::Kind) -> NextEvent {
        let event = v1::Event {
            session_id: self.subscription.session_id().to_string(),
            turn_id: self.turn_id.map(|turn| turn.to_string()),
            seq: self.seen,
            at: Some(std::time::SystemTime::now().into()),
            kind: Some(kind),
        };
        (Ok(event), true)
    }

    /// Reports a refused command to its sender. It is no fact of the session and is not stored.
    fn warning(&self, refusal: &Refusal) -> Event {
        let kind = EventKind::Warning { code: "command_refused".to_owned(), message: refusal.sentence() };
        let session_id = self.subscription.session_id();
        Event { session_id, turn_id: self.turn_id, seq: self.seen, at: Timestamp::now(), kind }
    }
}

/// Requests from the engine to the client's stream, and who waits for the answers.
struct Line<Q, A> {
    requests: Option<mpsc::Receiver<Q>>,
    waiting: HashMap<String, oneshot::Sender<A>>,
}

impl<Q, A> Line<Q, A> {
    fn new(requests: Option<mpsc::Receiver<Q>>) -> Self {
        Self { requests, waiting: HashMap::new() }
    }

    /// The next request; never where there is no line, or the turn has ended.
    async fn next(&mut self) -> Q {
        if let Some(requests) = &mut self.requests
            && let Some(request) = requests.recv().await
        {
            return request;
        }
        std::future::pending().await
    }

    /// Waits for an answer. Nobody waits any more for those whose other end is gone.
    fn wait(&mut self, id: String, reply: oneshot::Sender<A>) {
        self.waiting.retain(|_, waiting| !waiting.is_closed());
        self.waiting.insert(id, reply);
    }

    /// Refuses an answer that nothing waits for.
    fn check(&self, id: &str, what: &str, hint: &str) -> Result<(), Refusal> {
        if self.waiting.get(id).is_some_and(|waiting| !waiting.is_closed()) {
            return Ok(());
        }
        let shown: String = id.chars().take(80).collect();
        Err(Refusal::invalid(what.replace("{}", &format!("{shown:?}"))).with_hint(hint))
    }

    /// Hands an answer over. A turn that has ended meanwhile does not need it.
    fn reply(&mut self, id: &str, answer: A) {
        if let Some(reply) = self.waiting.remove(id) {
            let _ = reply.send(answer);
        }
    }
}

/// A request to the client.
pub(super) enum ClientQuestion {
    /// A call of one of its tools.
    Tool(ClientToolRequest),
    /// A question about a file.
    File(ClientFileQuestion),
}

/// The lines to the client of one turn.
pub(super) struct ClientCalls {
    tools: Line<ClientToolRequest, ClientToolAnswer>,
    files: Line<ClientFileQuestion, ClientFileAnswer>,
}

impl ClientCalls {
    /// The lines to a client that offers tools or holds files, and their other ends. They are there before the turn is: it may
    /// call at once.
    pub(super) fn of(start: &Start) -> (Self, ClientLines) {
        let (tools, requests) = (!start.tools.is_empty()).then(ClientLine::new).unzip();
        let access = |writes| if writes { ClientFileAccess::ReadWrite } else { ClientFileAccess::Read };
        let (files, questions) = start.client_files.as_ref().map(|client| FileLine::new(access(client.writes))).unzip();
        let lines = ClientLines { tools, files: files.into_iter().collect() };
        (Self { tools: Line::new(requests), files: Line::new(questions) }, lines)
    }

    /// The next request.
    pub(super) async fn next(&mut self) -> ClientQuestion {
        tokio::select! {
            request = self.tools.next() => ClientQuestion::Tool(request),
            question = self.files.next() => ClientQuestion::File(question),
        }
    }

    /// Asks the client. Of one that leaves too much unread a call ends at once, and a question counts as late.
    pub(super) fn offer(&mut self, turn: TurnId, question: ClientQuestion, stream: &mpsc::Sender<ClientNotice>) {
        match question {
            ClientQuestion::Tool(ClientToolRequest { call, reply }) => {
                let call_id = call.call_id.clone();
                match stream.try_send(ClientNotice::ToolRequested(Box::new(call))) {
                    Ok(()) => self.tools.wait(call_id, reply),
                    Err(_) => tracing::warn!(%turn, "a client does not read its stream, so a call of its tool ends"),
                }
            }
            ClientQuestion::File(ClientFileQuestion { request, reply }) => {
                self.files.wait(request.id.clone(), reply);
                if stream.try_send(ClientNotice::FileRequested(Box::new(request))).is_err() {
                    tracing::warn!(%turn, "a client does not read its stream, so it is not asked about a file");
                }
            }
        }
    }

    /// Hands an answer to the call that waits for it.
    ///
    /// # Errors
    /// When no call waits for it, or its picture is none. Then the call waits on.
    pub(super) async fn answer_tool(&mut self, engine: &Engine, answer: ToolAnswer) -> Result<(), Refusal> {
        let ToolAnswer { call_id, outcome, picture } = answer;
        let unknown = "no call {} of a tool of this client waits for an answer";
        self.tools.check(&call_id, unknown, "it was answered, has ended, or never was")?;
        let picture = match picture {
            Some(picture) => Some(engine.check_picture("the answer", picture.try_into()?).await?.prepared),
            None => None,
        };
        let (text, failed) = match outcome {
            Some(Outcome::Text(text)) => (text, false),
            Some(Outcome::Error(why)) => (why, true),
            None => (String::new(), false),
        };
        self.tools.reply(&call_id, ClientToolAnswer { text, failed, picture });
        Ok(())
    }

    /// Hands an answer to the question that waits for it.
    ///
    /// # Errors
    /// When none does.
    pub(super) fn answer_file(&mut self, answer: FileAnswer) -> Result<(), Refusal> {
        let id = answer.request_id.clone();
        let unknown = "no question {} about a file waits for an answer";
        self.files.check(&id, unknown, "it was answered, was given up after some seconds, or never was")?;
        self.files.reply(&id, answered_file(answer));
        Ok(())
    }
}
