//! Implementation of the store port by the writer and the readers.

use std::{path::Path, sync::Arc};

use agentd_core::{
    Date,
    audit::AuditHead,
    counters::DayCounters,
    error::{ErrorKind, StoreError},
    event::Event,
    grant::{Grant, ScopedGrant},
    ids::{InterruptId, SessionId},
    interrupt::Interrupt,
    item::Item,
    ports::{JournalImports, Store, StoredInterrupt},
    search::{SearchQuery, SearchResult},
    session::{EndedTurns, NewFork, SessionPage, SessionSettings, SessionSummary, StoredSession, TurnSpan},
    spending::{SideUsage, UsageQuery, UsageReport},
    state_files::{StateFileChange, StateFiles},
};
use futures_util::{FutureExt, future::BoxFuture};
use jiff::{Timestamp, tz::TimeZone};
use rusqlite::Connection;

use crate::{
    DamagedSession, StoreConfig, StoreStats,
    append::Append,
    change::Change,
    codec::Fault,
    draft::Fork,
    events, interrupts,
    mark::{Anchor, Loss},
    open::{self, Connections},
    reader::Readers,
    search::{self, UnindexedSession},
    sessions,
    upkeep::{self, Pages, Upkeep},
    usage,
    writer::Writer,
};

/// Journal in a single SQLite file.
///
/// Dropping the store without [`SqliteStore::close`] loses no acknowledged events.
pub struct SqliteStore {
    /// Path of the file, which every error contains because a user has to check its disk or folder.
    path: Arc<Path>,
    writer: Writer,
    readers: Readers,
    time_zone: fn() -> TimeZone,
    anchor: Arc<Anchor>,
    is_new: bool,
    loss: Loss,
}

/// Size of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSize {
    /// Size of the journal's file in bytes, without the data that is still in the log.
    pub bytes: u64,
    /// Number of unused bytes in the file.
    pub spare_bytes: u64,
    /// Number of removed sessions whose data has not been completely overwritten yet.
    pub removed_sessions: u64,
    /// Number of removed sessions that could not be overwritten because their part of the file is damaged. The next
    /// start retries them.
    pub stuck_sessions: u64,
}

impl StoreSize {
    fn of(pages: Pages, removed: u64, stuck_sessions: u64) -> Self {
        let bytes = |count: i64| count.saturating_mul(pages.size).unsigned_abs();
        let removed_sessions = removed.saturating_sub(stuck_sessions);
        Self { bytes: bytes(pages.count), spare_bytes: bytes(pages.spare), removed_sessions, stuck_sessions }
    }
}

impl SqliteStore {
    /// Opens or creates the journal. Blocks for a few milliseconds, and longer after an unclean stop.
    ///
    /// # Errors
    ///
    /// Returns an error of kind `Storage` with a hint if the folder is not writable, the disk is full, another process
    /// has locked the file, or the file is damaged, is not a journal or was written by a newer agentd.
    pub fn open(config: StoreConfig) -> Result<Self, StoreError> {
        let path: Arc<Path> = config.path.as_path().into();
        let start = || -> Result<Self, Fault> {
            let Connections { writer, readers, is_new, has_old_log, mark, loss } = open::open(&config)?;
            let anchor = Arc::new(Anchor::of(&path)?);
            anchor.check()?;
            let readers = Readers::start(readers)?;
            let upkeep = Upkeep::new(has_old_log);
            let writer = Writer::start(writer, mark, upkeep, &config, Arc::clone(&anchor))?;
            Ok(Self { path: Arc::clone(&path), writer, readers, time_zone: config.time_zone, anchor, is_new, loss })
        };
        start().map_err(|fault| fault.while_doing("open the journal", &path))
    }

    /// Completes the queued work, moves the log into the database and ends the threads. Later calls fail with
    /// `ShuttingDown`; a second close does nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be moved. Nothing is lost, because the next open moves the log.
    pub async fn close(&self) -> Result<(), StoreError> {
        // Readers are closed first, because the log can only be emptied while there are no readers.
        self.readers.close().await;
        self.writer.close().await.map_err(|fault| fault.while_doing("close the journal", &self.path))
    }

    /// Returns the counters of writes since the journal was opened.
    pub fn stats(&self) -> StoreStats {
        self.writer.stats()
    }

    /// Returns true if the journal did not exist before it was opened.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the description of a loss, if the log disappeared while the daemon was not running. The loss is reported
    /// until a user removes the [loss file](Self::loss_file).
    pub fn loss(&self) -> Option<String> {
        self.loss.description()
    }

    /// Returns the path of the file that records a loss.
    pub fn loss_file(&self) -> &Path {
        self.loss.path()
    }

    /// Checks that the journal's files are still at the paths where they were opened. If they are not, no write is
    /// acknowledged.
    ///
    /// # Errors
    /// Returns an error that names the file that was removed or replaced.
    pub fn check_files(&self) -> Result<(), StoreError> {
        self.anchor.check().map_err(|fault| fault.while_doing("store anything", &self.path))
    }

    /// Commits a write without a change, to check that the journal is writable.
    ///
    /// # Errors
    /// Returns an error if the journal is not writable.
    pub async fn try_write(&self) -> Result<(), StoreError> {
        self.writer.write(Change::TestWrite, &self.path).await
    }

    /// Returns those of the given sessions that are not in the journal.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub async fn unknown(&self, ids: Vec<SessionId>) -> Result<Vec<SessionId>, StoreError> {
        self.read("find sessions", move |connection| {
            // The files of recently removed sessions are about to be deleted.
            let removed = upkeep::files_left(connection)?;
            let is_unknown =
                |id: &SessionId| Ok::<_, Fault>(!removed.contains(id) && sessions::key(connection, *id)?.is_none());
            let mut unknown = Vec::new();
            for id in ids {
                if is_unknown(&id)? {
                    unknown.push(id);
                }
            }
            Ok(unknown)
        })
        .await
    }

    /// Returns the sessions with unreadable events. Reads every event, which takes about a second per 100 MB.
    ///
    /// # Errors
    /// Returns an error if the journal as a whole cannot be read.
    pub async fn damaged(&self) -> Result<Vec<DamagedSession>, StoreError> {
        self.read("find damage", events::damaged).await
    }

    /// Returns the size in bytes of the events of a session and its subagents.
    ///
    /// # Errors
    /// Returns an error if the events cannot be read.
    pub async fn event_bytes(&self, id: SessionId) -> Result<u64, StoreError> {
        self.read("measure a session", move |connection| events::bytes(connection, id)).await
    }

    /// Returns the size of the journal.
    ///
    /// # Errors
    /// Returns an error if the size cannot be read.
    pub async fn size(&self) -> Result<StoreSize, StoreError> {
        let (pages, removed) = self
            .read("measure the journal", |connection| Ok((upkeep::pages(connection)?, upkeep::removed(connection)?)))
            .await?;
        Ok(StoreSize::of(pages, removed, self.writer.stuck()))
    }

    /// Rewrites the whole file if it was created by a version whose files never shrink. Returns true if the file was
    /// rewritten. Other writes wait until the rewrite ends. The rewrite needs as much free space as the size of the
    /// file.
    ///
    /// # Errors
    /// Returns an error if there is not enough space on the disk. In this case, the file stays unchanged.
    pub async fn let_shrink(&self) -> Result<bool, StoreError> {
        if self.read("check the file", upkeep::can_shrink).await? {
            return Ok(false);
        }
        self.writer.rewrite().await.map_err(|fault| fault.while_doing("rewrite the journal", &self.path))?;
        Ok(true)
    }

    /// Stores the head of the audit log. The log up to this head must already be on disk.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be written.
    pub async fn note_audit_head(&self, head: AuditHead) -> Result<(), StoreError> {
        self.writer.write(Change::NoteAudit(head), &self.path).await
    }

    /// Returns the last stored head of the audit log.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub async fn audit_head(&self) -> Result<Option<AuditHead>, StoreError> {
        self.read("read the audit position", usage::noted_audit).await
    }

    /// Adds the missing events of these sessions to the search index.
    async fn add_missing(&self, action: &'static str, sessions: Vec<UnindexedSession>) -> Result<(), StoreError> {
        for UnindexedSession { session: key, until, .. } in sessions {
            let mut damaged = 0;
            while let Some(missing) =
                self.read(action, move |connection| search::missing(connection, key, until)).await?
            {
                damaged += missing.damaged;
                self.writer.write(Change::Index(missing), &self.path).await?;
            }
            search::log_damaged(key, damaged);
        }
        Ok(())
    }

    /// Returns the path of the journal's file, for error messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Applies a change and makes it durable.
    pub(crate) fn change(&self, change: Change) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(change, &self.path).boxed()
    }

    pub(crate) fn read<T: Send + 'static>(
        &self,
        action: &'static str,
        query: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        let answer = self.readers.read(query);
        async move { answer.await.map_err(|fault| fault.while_doing(action, &self.path)) }.boxed()
    }
}

impl Store for SqliteStore {
    fn create_session(
        &self,
        id: SessionId,
        at: Timestamp,
        settings: SessionSettings,
        first: Vec<Arc<Event>>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let first =
                Append::of_session(id, first).map_err(|fault| fault.while_doing("create the session", &self.path))?;
            self.writer.write(Change::Create { id, at, settings: settings.into(), first }, &self.path).await
        }
        .boxed()
    }

    fn fork_session(&self, fork: NewFork) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let fork = self.read("read the session", move |connection| Fork::prepare(connection, fork)).await?;
            self.writer.write(Change::Fork(Box::new(fork)), &self.path).await
        }
        .boxed()
    }

    fn turns(&self, session: SessionId) -> BoxFuture<'_, Result<Vec<TurnSpan>, StoreError>> {
        self.read("read the turns", move |connection| events::turns(connection, session))
    }

    fn ended_turns(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<EndedTurns, StoreError>> {
        self.read("read the ended turns", move |connection| events::ended_turns(connection, after, limit))
    }

    fn append(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            match Append::encode(events) {
                Ok(None) => Ok(()),
                Ok(Some(append)) => self.writer.write(Change::Append(append), &self.path).await,
                Err(fault) => Err(fault.while_doing("store events", &self.path)),
            }
        }
        .boxed()
    }

    fn session(&self, id: SessionId) -> BoxFuture<'_, Result<Option<StoredSession>, StoreError>> {
        self.read("read the session", move |connection| sessions::one(connection, id))
    }

    fn session_page(&self, before: Option<u64>, limit: usize) -> BoxFuture<'_, Result<SessionPage, StoreError>> {
        self.read("list the sessions", move |connection| sessions::list(connection, before, limit))
    }

    fn children(&self, parent: SessionId) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        self.read("list the subagents of a session", move |connection| sessions::children(connection, parent))
    }

    fn find_sessions(&self, name: String, limit: usize) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        self.read("find the session", move |connection| sessions::find(connection, &name, limit))
    }

    fn open_turns(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        self.read("find open turns", sessions::with_open_turn)
    }

    fn events(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Event>>, StoreError>> {
        self.read("read events", move |connection| events::page(connection, session, after, limit))
    }

    fn items_between(
        &self,
        session: SessionId,
        after: u64,
        before: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Item)>, StoreError>> {
        self.read("read items", move |connection| events::items_between(connection, session, after, before, limit))
    }

    fn search(
        &self,
        query: SearchQuery,
        session: Option<SessionId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<SearchResult, StoreError>> {
        async move {
            let action = "update the index";
            let unindexed = self.read(action, move |connection| search::unindexed(connection, session)).await?;
            let missing_events: u64 = unindexed.iter().map(|unindexed| unindexed.missing_events).sum();
            let unsearched = if missing_events > search::MAX_MISSING_EVENTS {
                self.writer.catch_up();
                missing_events
            } else {
                match self.add_missing(action, unindexed).await {
                    Ok(()) => 0,
                    // Nothing can be added on a full disk, so the search only covers the existing index.
                    Err(error) if error.kind() == ErrorKind::Storage => {
                        tracing::warn!("the search index is not up to date: {error}");
                        missing_events
                    }
                    Err(error) => return Err(error),
                }
            };
            let hits = self.read("search", move |connection| search::find(connection, &query, session, limit)).await?;
            Ok(SearchResult { hits, unsearched })
        }
        .boxed()
    }

    fn usage(&self, query: UsageQuery, now: Timestamp) -> BoxFuture<'_, Result<UsageReport, StoreError>> {
        let zone = (self.time_zone)();
        self.read("read the usage", move |connection| usage::report(connection, &zone, &query, now))
    }

    fn counters(
        &self,
        since: Option<Date>,
        until: Option<Date>,
    ) -> BoxFuture<'_, Result<Vec<DayCounters>, StoreError>> {
        let text = |day: Option<Date>, otherwise: &str| day.map_or_else(|| otherwise.to_owned(), |day| day.to_string());
        // Days are compared as strings.
        let days = (text(since, ""), text(until, "9999"));
        self.read("read the counters", move |connection| usage::days(connection, &days))
    }

    fn count_usage(&self, usage: SideUsage) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(Change::Count(usage), &self.path).boxed()
    }

    fn state_files(&self, session: SessionId) -> BoxFuture<'_, Result<StateFiles, StoreError>> {
        self.read("read the files of the session's state", move |connection| interrupts::files(connection, session))
    }

    fn state_file_changes(
        &self,
        session: SessionId,
        before: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, StateFileChange)>, StoreError>> {
        self.read("read the changes of the session's state", move |connection| {
            events::state_file_changes(connection, session, before, limit)
        })
    }

    fn pending_interrupts(&self, session: Option<SessionId>) -> BoxFuture<'_, Result<Vec<Interrupt>, StoreError>> {
        self.read("read interrupts", move |connection| interrupts::pending(connection, session))
    }

    fn interrupt(&self, id: InterruptId) -> BoxFuture<'_, Result<Option<StoredInterrupt>, StoreError>> {
        self.read("read the interrupt", move |connection| interrupts::one(connection, id))
    }

    fn grants(&self) -> BoxFuture<'_, Result<Vec<Grant>, StoreError>> {
        self.read("read the grants", interrupts::grants)
    }

    fn store_grant(&self, grant: Grant) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(Change::AddGrant(grant), &self.path).boxed()
    }

    fn revoke_grant(&self, rule: String) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(Change::Revoke(rule), &self.path).boxed()
    }

    fn session_grants(&self) -> BoxFuture<'_, Result<Vec<ScopedGrant>, StoreError>> {
        self.read("read the grants of sessions", interrupts::session_grants)
    }

    fn delete_session(&self, id: SessionId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(Change::Delete(id), &self.path).boxed()
    }

    fn files_left(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        self.read("find files of deleted sessions", upkeep::files_left)
    }

    fn record_files_removed(&self, ids: Vec<SessionId>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(Change::FilesGone(ids), &self.path).boxed()
    }

    fn imports(&self) -> Option<&dyn JournalImports> {
        Some(self)
    }
}
