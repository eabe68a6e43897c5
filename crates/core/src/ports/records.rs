//! What is kept beside or brought into the journal: the audit log, exchanges with models, and sessions from elsewhere.

use std::{io::Read, sync::Arc};

use futures_util::future::BoxFuture;

use crate::{
    archive::{DraftId, SessionDraft, TreeFile},
    audit::{AuditEntry, AuditRecord, AuditReport, RecordQuery},
    error::{AuditError, StoreError, WorkspaceError},
    event::Event,
    exchange::{ExchangeSource, RequestTap},
    files::FilesCopied,
    ids::SessionId,
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

/// Keeps exchanges with models.
pub trait Exchanges: Send + Sync {
    /// A tap for one request. It is closed where nothing is to be kept: `wanted` is what the session's settings say.
    fn tap(&self, source: &dyn Fn() -> ExchangeSource, wanted: Option<bool>) -> RequestTap;

    /// Removes all that is kept of a session.
    fn remove(&self, session: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;
}

/// Keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoExchanges;

impl NoExchanges {
    /// The port.
    pub fn port() -> Arc<dyn Exchanges> {
        Arc::new(Self)
    }
}

impl Exchanges for NoExchanges {
    fn tap(&self, _: &dyn Fn() -> ExchangeSource, _: Option<bool>) -> RequestTap {
        RequestTap::default()
    }

    fn remove(&self, _: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Brings sessions into the journal. Nobody sees a draft before it is finished, and the next start removes what was left.
pub trait JournalImports: Send + Sync {
    /// Begins a draft.
    fn begin(&self, draft: DraftId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Adds events to a draft, numbered without a gap after those that it has.
    fn add(&self, draft: DraftId, events: Vec<Arc<Event>>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Makes sessions of drafts, all or none: a session before those that work for it. It is durable when this returns. No
    /// interrupt of theirs can be answered, and no turn waits.
    ///
    /// An error of kind `Conflict` says that a session is there already, or that a turn is open.
    fn finish(&self, drafts: Vec<SessionDraft>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Removes drafts.
    fn abandon(&self, drafts: Vec<DraftId>) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Takes the files of sessions out of workspaces and brings them in. Every method blocks.
pub trait TreeTransport: Send + Sync {
    /// Shows every file of a session's tree that travels, as far as they are not too many or too large. What cannot be copied
    /// safely is left out and counted.
    ///
    /// # Errors
    /// The first of `take`, or why the tree cannot be read.
    fn each_file(
        &self,
        session: SessionId,
        take: &mut (dyn FnMut(TreeFile, &mut dyn Read) -> std::io::Result<()> + Send),
    ) -> Result<FilesCopied, WorkspaceError>;

    /// Begins the tree of a session that is to be.
    ///
    /// # Errors
    /// Of kind `Conflict` where files of a session of that id are there already.
    fn stage(&self, session: SessionId) -> Result<Box<dyn StagedTree>, WorkspaceError>;

    /// Settles what imports have left behind that were cut off: the tree of a session that `is_known` knows is kept, others are
    /// removed.
    ///
    /// # Errors
    /// When the folders cannot be read.
    fn settle(&self, is_known: &dyn Fn(SessionId) -> bool) -> Result<(), WorkspaceError>;
}

/// A tree that is still out of sight. Dropping it removes it.
pub trait StagedTree: Send {
    /// Adds a file. Its path is checked again, and nothing that is there is replaced.
    ///
    /// # Errors
    /// When the path leads out, something has that name, the quota is used up, or the disk does not take it.
    fn add(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<(), WorkspaceError>;

    /// Writes all of it to the disk and puts it where its session will look for it. Dropping it removes it still.
    ///
    /// # Errors
    /// When the disk does not take it.
    fn sync(&mut self) -> Result<FilesCopied, WorkspaceError>;

    /// Keeps it. Called when the session is in the journal: a failure is settled at the next start.
    ///
    /// # Errors
    /// When what marks it as coming in cannot be removed.
    fn reveal(self: Box<Self>) -> Result<(), WorkspaceError>;
}
