//! How long a call waits for what. Connecting is limited by the client itself; the rest is here.

use std::{future::Future, pin::pin, time::Duration};

use agentd_core::error::ErrorKind;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{config::ModelConfig, failure::Failure, http::Target};

/// Time limit for the usage after the answer has ended, where it has not come yet.
const USAGE_TAIL: Duration = Duration::from_millis(1_500);

/// Time limit for the end of the transfer once all is there. Waiting for it lets the connection be used again.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// Multiple of the longer of its two limits for which a server may only say that it is alive.
const KEEP_ALIVE_TIMES: u32 = 5;

/// The longest look at what has come, where a deadline is noticed late.
const LAST_LOOK: Duration = Duration::from_secs(2);

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
    at: Instant,
    limit: Duration,
    missed: MissedDeadline,
}

#[derive(Debug, Clone, Copy)]
enum MissedDeadline {
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
        Self { at: Instant::now() + limit, limit, missed }
    }

    /// Returns whether it lies in the past.
    pub(crate) fn has_passed(&self) -> bool {
        self.at <= Instant::now()
    }

    /// The sooner of two.
    pub(crate) fn sooner(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    /// Runs a future for as long as the deadline allows. A process that was stopped meanwhile notices it late, and what came
    /// in time lies in its socket still: that is read, for about as long as it is late.
    pub(crate) async fn run<T>(&self, target: &Target, future: impl Future<Output = T>) -> Result<T, Failure> {
        let mut future = pin!(future);
        if let Ok(outcome) = timeout_at(self.at, &mut future).await {
            return Ok(outcome);
        }
        timeout(self.at.elapsed().min(LAST_LOOK), future).await.map_err(|_| self.failure(target))
    }

    fn failure(&self, target: &Target) -> Failure {
        let limit = self.limit;
        match self.missed {
            MissedDeadline::FirstByte => Failure::new(
                ErrorKind::Timeout,
                format!("the model at {target} did not begin to answer within {limit:?}{}", target.proxy_note()),
            )
            .hint("a slow model may need a higher `timeouts.first_byte` in models.yaml"),
            MissedDeadline::KeepAlive => Failure::new(
                ErrorKind::Timeout,
                format!("the model at {target} sent nothing of its answer for {limit:?}, only signs of life"),
            )
            .hint("a model that needs longer before it answers may need a higher `timeouts.first_byte` in models.yaml"),
            MissedDeadline::Idle | MissedDeadline::Tail => Failure::new(
                ErrorKind::Timeout,
                format!("the model at {target} stopped in the middle of its answer for {limit:?}"),
            )
            .hint("a slow model may need a higher `timeouts.idle` in models.yaml"),
        }
    }
}
