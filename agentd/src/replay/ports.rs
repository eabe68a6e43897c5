//! Ports that only a play has.

use std::sync::{Mutex, PoisonError};

use agentd_core::{
    Timestamp,
    audit::AuditEntry,
    error::AuditError,
    ports::{Audit, Clock},
};
use agentd_replay::Play;
use futures_util::future::BoxFuture;

/// The time of a play: that of the recorded turn, as long as nothing real happens in it.
pub(super) struct PlayedClock(Option<Mutex<Timestamp>>);

impl PlayedClock {
    pub(super) fn new(play: Play) -> Self {
        let is_played = matches!(play, Play::Learn | Play::Strict);
        Self(is_played.then(|| Mutex::new(Timestamp::UNIX_EPOCH)))
    }

    /// Sets the time.
    pub(super) fn set(&self, now: Timestamp) {
        if let Some(time) = &self.0 {
            *time.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }
}

impl Clock for PlayedClock {
    fn now(&self) -> Timestamp {
        self.0.as_ref().map_or_else(Timestamp::now, |time| *time.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keeps nothing, as nothing runs.
pub(super) struct NoAudit;

impl Audit for NoAudit {
    fn record(&self, _: AuditEntry) -> BoxFuture<'_, Result<(), AuditError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn note(&self, _: AuditEntry) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
