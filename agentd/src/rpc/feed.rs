//! A session's events as one client's stream sees them.
//!
//! Events are pulled when the connection has room for them. A client that stops reading stops the pulling and nothing
//! else: the engine keeps a bounded queue for every reader, drops the deltas that do not fit and reads the rest from
//! the journal once the client is back.

use agentd_core::{
    Timestamp,
    client_file::ClientFileRequest,
    client_tool::ClientToolCall,
    event::{Event, EventKind},
    ids::TurnId,
};
use agentd_engine::Subscription;
use agentd_proto::v1;
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

use super::{Refusal, ReplyStream};

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

enum Next {
    Event(Box<v1::Event>),
    Last(Box<v1::Event>),
    End(Option<Status>),
}

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
            match feed.next().await {
                Next::Event(event) => Some((Ok(*event), Some(feed))),
                Next::Last(event) => Some((Ok(*event), None)),
                Next::End(status) => status.map(|status| (Err(status), None)),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Next {
        if self.until == Until::Current && self.subscription.is_current() {
            return Next::End(None);
        }
        tokio::select! {
            // What has happened is shown before what cannot happen any more.
            biased;
            event = self.subscription.next() => match event {
                Some(Ok(event)) => self.show(&event),
                Some(Err(error)) => Next::End(Some(Refusal::from(error).into())),
                None => Next::End(None),
            },
            Some(remark) = self.remarks.recv() => match remark {
                ClientNotice::Refused(refusal) => Next::Event(Box::new((&self.warning(&refusal)).into())),
                ClientNotice::ToolRequested(call) => self.asked(v1::event::Kind::ToolRequested((&*call).into())),
                ClientNotice::FileRequested(asked) => self.asked(v1::event::Kind::FileRequested((*asked).into())),
                ClientNotice::Broken(refusal) => Next::End(Some((*refusal).into())),
            },
            () = self.shutdown.cancelled() => Next::End(Some(Refusal::stopping().into())),
        }
    }

    fn show(&mut self, event: &Event) -> Next {
        self.seen = event.seq;
        let shown = Box::new(event.into());
        let ended = matches!(event.kind, EventKind::TurnEnded { .. });
        match self.until {
            Until::TurnEnds(turn) if ended && event.turn_id == Some(turn) => Next::Last(shown),
            _ => Next::Event(shown),
        }
    }

    /// Something that is asked of this client. It is no fact of the session either: the call and its result are.
    fn asked(&self, kind: v1::event::Kind) -> Next {
        Next::Event(Box::new(v1::Event {
            session_id: self.subscription.session_id().to_string(),
            turn_id: self.turn_id.map(|turn| turn.to_string()),
            seq: self.seen,
            at: Some(std::time::SystemTime::now().into()),
            kind: Some(kind),
        }))
    }

    /// Reports a refused command to its sender. It is no fact of the session and is not stored.
    fn warning(&self, refusal: &Refusal) -> Event {
        let kind = EventKind::Warning { code: "command_refused".to_owned(), message: refusal.sentence() };
        let session_id = self.subscription.session_id();
        Event { session_id, turn_id: self.turn_id, seq: self.seen, at: Timestamp::now(), kind }
    }
}
