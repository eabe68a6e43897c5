//! How many sessions and turns there are, kept by the sessions themselves.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counters that sessions keep.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    sessions: AtomicUsize,
    open: AtomicUsize,
    waiting: AtomicUsize,
}

/// One session's share of the counters; given back when the session is unloaded, however that comes.
#[derive(Debug)]
pub(crate) struct Share {
    gauges: std::sync::Arc<Gauges>,
    open: bool,
    waiting: bool,
}

impl Gauges {
    /// Counts a session.
    pub(crate) fn enter(self: &std::sync::Arc<Self>) -> Share {
        self.sessions.fetch_add(1, Ordering::Relaxed);
        Share { gauges: std::sync::Arc::clone(self), open: false, waiting: false }
    }

    /// Sessions in memory, open turns, and those of them that wait for a person.
    pub(crate) fn read(&self) -> (usize, usize, usize) {
        (self.sessions.load(Ordering::Relaxed), self.open.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed))
    }
}

impl Share {
    /// Says whether the session has an open turn, and whether it waits for a person.
    pub(crate) fn set(&mut self, open: bool, waiting: bool) {
        shift(&self.gauges.open, self.open, open);
        shift(&self.gauges.waiting, self.waiting, waiting);
        (self.open, self.waiting) = (open, waiting);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(false, false);
        self.gauges.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

fn shift(counter: &AtomicUsize, was: bool, is: bool) {
    match (was, is) {
        (false, true) => {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        (true, false) => {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
        _ => {}
    }
}
