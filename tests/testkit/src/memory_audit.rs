//! An audit log that is only remembered, and that can fail or make whoever waits for it wait.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use agentd_core::{
    audit::{AuditEntry, AuditFact, CallEnd, Decision},
    error::{AuditError, ErrorKind},
    ports::Audit,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::{Notify, watch};

/// An audit log in memory.
#[derive(Debug)]
pub struct MemoryAudit {
    entries: Mutex<Vec<AuditEntry>>,
    broken: AtomicBool,
    /// The next entry that somebody waits for fails.
    fails_once: AtomicBool,
    /// Whether entries that somebody waits for come to the disk.
    open: watch::Sender<bool>,
    /// How many entries somebody has waited for.
    waited: Mutex<usize>,
    asked: Notify,
}

impl Default for MemoryAudit {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            broken: AtomicBool::new(false),
            fails_once: AtomicBool::new(false),
            open: watch::Sender::new(true),
            waited: Mutex::default(),
            asked: Notify::new(),
        }
    }
}

fn full() -> AuditError {
    AuditError::new(ErrorKind::Storage, "could not write the audit log: the disk is full").with_hint("make room")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryAudit {
    /// From now on nothing can be written, or everything can again.
    pub fn break_it(&self, broken: bool) {
        self.broken.store(broken, Ordering::Relaxed);
    }

    /// The next entry that somebody waits for cannot be written; what comes then can.
    pub fn fail_next(&self) {
        self.fails_once.store(true, Ordering::Relaxed);
    }

    /// Makes everybody who waits for an entry wait until [`Self::release`].
    pub fn hold(&self) {
        self.open.send_replace(false);
    }

    /// Lets everybody go on.
    pub fn release(&self) {
        self.open.send_replace(true);
    }

    /// Returns when that many entries were waited for, or are.
    pub async fn asked(&self, times: usize) {
        loop {
            let again = self.asked.notified();
            if *lock(&self.waited) >= times {
                return;
            }
            again.await;
        }
    }

    /// How many entries somebody has waited for.
    pub fn waited(&self) -> usize {
        *lock(&self.waited)
    }

    /// Everything so far.
    pub fn entries(&self) -> Vec<AuditEntry> {
        lock(&self.entries).clone()
    }

    /// The decisions so far.
    pub fn decisions(&self) -> Vec<Decision> {
        let decision = |entry: AuditEntry| match entry.fact {
            AuditFact::CallDecided(decision) => Some(*decision),
            _ => None,
        };
        self.entries().into_iter().filter_map(decision).collect()
    }

    /// The ends so far.
    pub fn ends(&self) -> Vec<CallEnd> {
        let end = |entry: AuditEntry| match entry.fact {
            AuditFact::CallEnded(end) => Some(end),
            _ => None,
        };
        self.entries().into_iter().filter_map(end).collect()
    }

    fn keep(&self, entry: AuditEntry) -> Result<(), AuditError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(full());
        }
        lock(&self.entries).push(entry);
        Ok(())
    }
}

impl Audit for MemoryAudit {
    fn record(&self, entry: AuditEntry) -> BoxFuture<'_, Result<(), AuditError>> {
        async move {
            *lock(&self.waited) += 1;
            self.asked.notify_waiters();
            // The sender is our own: it is not dropped meanwhile.
            let _ = self.open.subscribe().wait_for(|open| *open).await;
            if self.fails_once.swap(false, Ordering::Relaxed) { Err(full()) } else { self.keep(entry) }
        }
        .boxed()
    }

    fn note(&self, entry: AuditEntry) -> BoxFuture<'_, ()> {
        let _ = self.keep(entry);
        std::future::ready(()).boxed()
    }
}
