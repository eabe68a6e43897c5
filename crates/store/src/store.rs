//! The port, over the writer and the readers.

use std::{path::Path, sync::Arc};

use agentd_core::{
    error::StoreError,
    event::Event,
    grant::{Grant, HeldGrant},
    ids::{InterruptId, SessionId},
    interrupt::Interrupt,
    item::Item,
    ports::{Newborn, Store, StoredInterrupt},
    search::{Found, SearchQuery},
    session::{NewFork, SessionSettings, SessionSummary, StoredSession, TurnSpan},
    state_files::{StateFileChange, StateFiles},
};
use futures_util::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::{
    StoreConfig, StoreStats, append::Append, change::Change, error::Fault, events, fork::Fork, grants, interrupts,
    open, reader::Readers, search, sessions, state_files, writer::Writer,
};

/// The journal in one SQLite file.
///
/// Dropping it without [`SqliteStore::close`] loses nothing that was acknowledged.
pub struct SqliteStore {
    /// Named in every error, because its disk or folder is what a person has to look at.
    path: Arc<Path>,
    writer: Writer,
    readers: Readers,
}

impl SqliteStore {
    /// Opens the journal, or makes it. This blocks for some milliseconds, longer after an unclean stop.
    ///
    /// # Errors
    ///
    /// Of kind `Storage`, with a hint: the folder cannot be written, the disk is full, the file is damaged, is no
    /// journal or comes from a newer agentd, or another process holds it.
    pub fn open(config: StoreConfig) -> Result<Self, StoreError> {
        let path: Arc<Path> = config.path.as_path().into();
        let start = || {
            let connections = open::open(&config)?;
            let readers = Readers::start(connections.readers)?;
            let writer = Writer::start(connections.writer, config.max_waiting)?;
            Ok((writer, readers))
        };
        match start() {
            Ok((writer, readers)) => Ok(Self { path, writer, readers }),
            Err(fault) => Err(Fault::while_doing(&fault, "open the journal", &path)),
        }
    }

    /// Finishes what was asked before, moves the log into the database and ends the threads. Later calls are refused
    /// with `ShuttingDown`; a second close does nothing.
    ///
    /// # Errors
    ///
    /// If the log cannot be moved. Nothing is lost then: the next open does it.
    pub async fn close(&self) -> Result<(), StoreError> {
        // Readers first: the log can be emptied only when nobody reads from it.
        self.readers.close().await;
        self.writer.close().await.map_err(|fault| fault.while_doing("close the journal", &self.path))
    }

    /// What was written since the journal was opened.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.writer.stats()
    }

    fn read<T: Send + 'static>(
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
            self.writer.write(Change::Create { id, at, settings, first }, &self.path).await
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

    fn append_ahead(
        &self,
        id: SessionId,
        newborn: Option<Newborn>,
        events: Vec<Arc<Event>>,
    ) -> Option<BoxFuture<'static, Result<(), StoreError>>> {
        let change = match (newborn, Append::of_session(id, events)) {
            (Some(Newborn { at, settings }), Ok(first)) => Change::Create { id, at, settings, first },
            (None, Ok(Some(append))) => Change::Append(append),
            (None, Ok(None)) => return Some(std::future::ready(Ok(())).boxed()),
            (_, Err(fault)) => {
                return Some(std::future::ready(Err(fault.while_doing("store events", &self.path))).boxed());
            }
        };
        self.writer.write_ahead(change, &self.path)
    }

    fn session(&self, id: SessionId) -> BoxFuture<'_, Result<Option<StoredSession>, StoreError>> {
        self.read("read the session", move |connection| sessions::one(connection, id))
    }

    fn sessions(&self, limit: usize) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        self.read("list the sessions", move |connection| sessions::list(connection, limit))
    }

    fn children(&self, parent: SessionId) -> BoxFuture<'_, Result<Vec<SessionSummary>, StoreError>> {
        self.read("list the sessions that work for another", move |connection| sessions::children(connection, parent))
    }

    fn find_sessions(&self, prefix: String, limit: usize) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        self.read("look for the session", move |connection| sessions::find(connection, &prefix, limit))
    }

    fn open_turns(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        self.read("look for open turns", sessions::with_open_turn)
    }

    fn events(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Arc<Event>>, StoreError>> {
        self.read("read events", move |connection| events::page(connection, session, after, limit))
    }

    fn recent_items(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(u64, Item)>, StoreError>> {
        self.read("read items", move |connection| events::recent_items(connection, session, after, limit))
    }

    fn search(
        &self,
        query: SearchQuery,
        session: Option<SessionId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Found, StoreError>> {
        async move {
            let action = "bring the index up to date";
            let lacks = self.read(action, move |connection| search::lacks(connection, session)).await?;
            if lacks > search::FEW {
                self.writer.catch_up();
                let hits = self.read("search", move |connection| search::find(connection, &query, session, limit));
                return Ok(Found { hits: hits.await?, unsearched: lacks });
            }
            for (key, until) in self.read(action, move |connection| search::behind(connection, session)).await? {
                while let Some(missing) =
                    self.read(action, move |connection| search::missing(connection, key, until)).await?
                {
                    self.writer.write(Change::Index(missing), &self.path).await?;
                }
            }
            let hits = self.read("search", move |connection| search::find(connection, &query, session, limit)).await?;
            Ok(Found { hits, unsearched: 0 })
        }
        .boxed()
    }

    fn state_files(&self, session: SessionId) -> BoxFuture<'_, Result<StateFiles, StoreError>> {
        self.read("read the files of the session's state", move |connection| state_files::of(connection, session))
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
        self.read("read the kept rules", grants::all)
    }

    fn keep_grant(&self, grant: Grant) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(Change::Keep(grant), &self.path).boxed()
    }

    fn revoke_grant(&self, rule: String) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(Change::Revoke(rule), &self.path).boxed()
    }

    fn session_grants(&self) -> BoxFuture<'_, Result<Vec<HeldGrant>, StoreError>> {
        self.read("read the rules of sessions", grants::of_sessions)
    }

    fn delete_session(&self, id: SessionId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.write(Change::Delete(id), &self.path).boxed()
    }
}
