//! The port of the audit log, for those who write it and those who read it.

use futures_util::future::BoxFuture;

use crate::{
    audit::{AuditEntry, AuditRecord, AuditReport, RecordQuery},
    error::AuditError,
};

/// The audit log: append-only, each line chained to the one before. What it is given is kept in the order in which it
/// was given, with secrets taken out and what is long cut.
pub trait Audit: Send + Sync {
    /// Keeps an entry. It is durable when this returns. A caller that stops waiting does not undo it.
    fn record(&self, entry: AuditEntry) -> BoxFuture<'_, Result<(), AuditError>>;

    /// Hands an entry over, to be durable soon: for what nothing waits for, such as a call that only looks. What cannot
    /// be kept is told to the operator.
    fn note(&self, entry: AuditEntry) -> BoxFuture<'_, ()>;
}

/// Reads the audit log.
pub trait AuditReader: Send + Sync {
    /// The newest records that fit the query, oldest first; fewer where they would be too large to send at once.
    fn records(&self, query: RecordQuery) -> BoxFuture<'_, Result<Vec<AuditRecord>, AuditError>>;

    /// Returns whether the whole log holds. With a hash that was noted elsewhere: whether that line is still in it.
    fn verify(&self, noted: Option<String>) -> BoxFuture<'_, Result<AuditReport, AuditError>>;
}
