//! An in-memory audit log that can fail or block its callers.

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

/// An audit log that stores its entries in memory.
#[derive(Debug)]
pub struct MemoryAudit {
    entries: Mutex<Vec<AuditEntry>>,
    broken: AtomicBool,
    /// True if the next recorded entry fails.
    fails_once: AtomicBool,
    /// True if entries are written immediately. If false, recording an entry blocks.
    open: watch::Sender<bool>,
    /// Number of recorded entries so far, including blocked ones.
    received: Mutex<usize>,
    asked: Notify,
}

impl Default for MemoryAudit {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            broken: AtomicBool::new(false),
            fails_once: AtomicBool::new(false),
            open: watch::Sender::new(true),
            received: Mutex::default(),
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
    /// Makes all writes fail from now on, or succeed again.
    pub fn simulate_failures(&self, broken: bool) {
        self.broken.store(broken, Ordering::Relaxed);
    }

    /// Makes the next recorded entry fail. Later entries succeed.
    pub fn fail_next(&self) {
        self.fails_once.store(true, Ordering::Relaxed);
    }

    /// Makes callers that record an entry wait until [`Self::release`] is called.
    pub fn hold(&self) {
        self.open.send_replace(false);
    }

    /// Releases all waiting callers.
    pub fn release(&self) {
        self.open.send_replace(true);
    }

    /// Waits until `times` entries have been recorded or are blocked.
    pub async fn asked(&self, times: usize) {
        loop {
            let next_entry = self.asked.notified();
            if *lock(&self.received) >= times {
                return;
            }
            next_entry.await;
        }
    }

    /// Returns the number of recorded entries so far, including blocked ones.
    pub fn received(&self) -> usize {
        *lock(&self.received)
    }

    /// Returns all entries recorded so far.
    pub fn entries(&self) -> Vec<AuditEntry> {
        lock(&self.entries).clone()
    }

    /// Returns all decisions recorded so far.
    pub fn decisions(&self) -> Vec<Decision> {
        let decision = |entry: AuditEntry| match entry.fact {
            AuditFact::CallDecided(decision) => Some(*decision),
            _ => None,
        };
        self.entries().into_iter().filter_map(decision).collect()
    }

    /// Returns all ends of calls recorded so far.
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
            *lock(&self.received) += 1;
            self.asked.notify_waiters();
            // The sender is owned by `self`, so it is not dropped during the wait.
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
