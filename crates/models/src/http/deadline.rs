//! How long a call waits for what. Connecting is limited by the client itself.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::ModelConfig;

/// Time limit for the usage after the answer has ended, where it has not come yet.
const USAGE_TAIL: Duration = Duration::from_millis(1_500);

/// Time limit for the end of the transfer once all is there. Waiting for it lets the connection be used again.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// Multiple of the longer of its two limits for which a server may only say that it is alive.
const KEEP_ALIVE_TIMES: u32 = 5;

/// The longest look at what has come, where a deadline is noticed late.
pub(super) const LAST_LOOK: Duration = Duration::from_secs(2);

/// Time limit of a list of models.
const LISTING: Duration = Duration::from_secs(3);

/// The limits of one model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    first_byte: Duration,
    idle: Duration,
}

/// A point in time, and what it means to miss it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(super) at: Instant,
    pub(super) limit: Duration,
    pub(super) missed: MissedDeadline,
    /// True if it was missed before, and only what came in time is still read.
    pub(super) is_last_look: bool,
}

/// Wait that a deadline ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum MissedDeadline {
    FirstByte,
    Idle,
    KeepAlive,
    Tail,
}

impl Deadlines {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        Self {
            first_byte: Duration::from_millis(config.first_byte_timeout_ms),
            idle: Duration::from_millis(config.idle_timeout_ms),
        }
    }

    /// Until the first byte of the answer, counted from now.
    pub(crate) fn first_byte(&self) -> Deadline {
        Deadline::new(self.first_byte, MissedDeadline::FirstByte)
    }

    /// Until the next bytes of the answer, counted from now.
    pub(crate) fn idle(&self) -> Deadline {
        Deadline::new(self.idle, MissedDeadline::Idle)
    }

    /// Until the next part of the answer itself, counted from now. A server that works on a long prompt sends comments
    /// meanwhile; one that is stuck may send them for ever.
    pub(crate) fn keep_alive(&self) -> Deadline {
        Deadline::new(self.first_byte.max(self.idle).saturating_mul(KEEP_ALIVE_TIMES), MissedDeadline::KeepAlive)
    }

    /// Until the usage that follows an answer, counted from now.
    pub(crate) fn usage_tail(&self) -> Deadline {
        Deadline::new(USAGE_TAIL.min(self.idle), MissedDeadline::Tail)
    }

    /// Until the end of the transfer once nothing more is expected, counted from now.
    pub(crate) fn last_bytes(&self) -> Deadline {
        Deadline::new(LAST_BYTES.min(self.idle), MissedDeadline::Tail)
    }

    /// For a list of models, counted from now.
    pub(crate) fn listing(&self) -> Deadline {
        Deadline::new(LISTING.min(self.first_byte), MissedDeadline::FirstByte)
    }
}

impl Deadline {
    fn new(limit: Duration, missed: MissedDeadline) -> Self {
        Self { at: Instant::now() + limit, limit, missed, is_last_look: false }
    }

    /// Returns whether it lies in the past.
    pub(crate) fn has_passed(&self) -> bool {
        self.at <= Instant::now()
    }

    /// The same deadline; one last look if it lies in the past. Without that, each part that comes late would earn another look.
    pub(crate) fn once_missed(self) -> Self {
        if self.is_last_look || !self.has_passed() {
            return self;
        }
        Self { at: Instant::now() + self.at.elapsed().min(LAST_LOOK), is_last_look: true, ..self }
    }

    /// The sooner of two.
    pub(crate) fn sooner(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }
}
