//! How long a turn has worked. Waiting for people is no work.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// How long a turn has worked.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    /// What was worked before.
    before: Duration,
    started: Instant,
    waited_ms: AtomicU64,
}

/// A wait that ends when this is dropped.
pub(crate) struct Waiting<'a> {
    stopwatch: &'a Stopwatch,
    since: Instant,
}

impl Stopwatch {
    /// Of a turn that has worked so long.
    pub(crate) fn start(before: Duration) -> Self {
        Self { before, started: Instant::now(), waited_ms: AtomicU64::new(0) }
    }

    pub(crate) fn worked(&self) -> Duration {
        let waited = Duration::from_millis(self.waited_ms.load(Ordering::Relaxed));
        self.before + self.started.elapsed().saturating_sub(waited)
    }

    pub(crate) fn pause(&self) -> Waiting<'_> {
        Waiting { stopwatch: self, since: Instant::now() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.stopwatch.waited_ms.fetch_add(waited, Ordering::Relaxed);
    }
}
