//! Events of all sessions.

use agentd_core::{
    ids::{InterruptId, SessionId, TurnId},
    interrupt::{Answer, Interrupt},
    session::SessionSummary,
    turn::{StopReason, TurnError},
};
use tonic::Streaming;

use super::{Client, ClientError};
use crate::{
    convert::{Wire, WireError, all, newer},
    v1::{self, watch_event::Kind},
};

/// Something that happened in some session.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// All that there is.
    Snapshot {
        /// Sessions, last used first.
        sessions: Vec<SessionSummary>,
        /// Pending interrupts, oldest first.
        interrupts: Vec<Interrupt>,
        /// Set if there are more sessions.
        more: bool,
    },
    /// There is a new session.
    SessionCreated(Box<SessionSummary>),
    /// A session is not as it was.
    SessionChanged(Box<SessionSummary>),
    /// A session is gone.
    SessionDeleted(SessionId),
    /// A turn began.
    TurnStarted {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
        /// The model's id.
        model: String,
    },
    /// A turn is over.
    TurnEnded {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
        /// Why it ended.
        stop_reason: StopReason,
        /// The error, where there was one.
        error: Option<TurnError>,
    },
    /// A turn waits for an answer.
    InterruptRaised(Box<Interrupt>),
    /// An interrupt has its answer.
    InterruptResolved {
        /// The session that tells of it.
        session: SessionId,
        /// The interrupt.
        interrupt: InterruptId,
        /// The answer.
        answer: Answer,
    },
    /// The configuration was read again.
    ConfigReloaded,
    /// This client read too slowly, and has missed about so many events.
    Lagged(u64),
}

impl TryFrom<v1::WatchEvent> for WatchEvent {
    type Error = WireError;

    fn try_from(event: v1::WatchEvent) -> Result<Self, WireError> {
        Ok(match event.kind.ok_or(WireError::Unknown("an event of all sessions"))? {
            Kind::Snapshot(snapshot) => Self::Snapshot {
                sessions: all(snapshot.sessions)?,
                interrupts: all(snapshot.interrupts)?,
                more: snapshot.more,
            },
            Kind::SessionCreated(summary) => Self::SessionCreated(Box::new(summary.try_into()?)),
            Kind::SessionChanged(summary) => Self::SessionChanged(Box::new(summary.try_into()?)),
            Kind::SessionDeleted(deleted) => Self::SessionDeleted(deleted.session_id.parse()?),
            Kind::TurnStarted(began) => Self::TurnStarted {
                session: began.session_id.parse()?,
                turn: began.turn_id.parse()?,
                model: began.model,
            },
            Kind::TurnEnded(over) => Self::TurnEnded {
                session: over.session_id.parse()?,
                turn: over.turn_id.parse()?,
                stop_reason: newer(Wire::from_wire(over.stop_reason, "the end"), StopReason::Failed)?,
                error: Wire::from_wire(over.error, "the error")?,
            },
            Kind::InterruptRaised(interrupt) => Self::InterruptRaised(Box::new(interrupt.try_into()?)),
            Kind::InterruptResolved(over) => Self::InterruptResolved {
                session: over.session_id.parse()?,
                interrupt: over.interrupt_id.parse()?,
                answer: Wire::from_wire(over.answer, "the answer")?,
            },
            Kind::ConfigReloaded(_) => Self::ConfigReloaded,
            Kind::Lagged(lagged) => Self::Lagged(lagged.missed),
        })
    }
}

/// Events of all sessions, as they come.
#[derive(Debug)]
pub struct WatchStream(Streaming<v1::WatchEvent>);

impl WatchStream {
    /// The next event; `None` after the last. Events of kinds that are not known here are skipped.
    ///
    /// # Errors
    /// [`ClientErrorKind::Lost`](super::ClientErrorKind::Lost), or `ShuttingDown` when the daemon stops.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>, ClientError> {
        while let Some(event) = self.0.message().await? {
            match WatchEvent::try_from(event) {
                Err(error) if error.is_unknown_kind() => tracing::debug!(%error, "skipped an event"),
                event => return Ok(Some(event?)),
            }
        }
        Ok(None)
    }
}

impl Client {
    /// Watches all sessions: with `snapshot`, what there is comes first. Sessions that work for others are told of only if
    /// `children` is set.
    ///
    /// # Errors
    /// When the connection fails, or the daemon is too old to know.
    pub async fn watch(&self, snapshot: bool, children: bool) -> Result<WatchStream, ClientError> {
        let request = v1::WatchRequest { snapshot, limit: 0, children };
        Ok(WatchStream(self.daemon().watch(request).await?.into_inner()))
    }
}
