//! Maintenance of the file while the writer is idle, in small pieces: overwrites removed data, returns free space to
//! the disk, and moves the log into the database.
//!
//! Also contains the removal of sessions, which is immediate for readers and piece by piece on disk.
//!
//! A large session has hundreds of thousands of rows, each of which must be overwritten. The caller only waits for one
//! small change: the row loses its ID and becomes its own parent, so that no list, search or load finds it. The
//! session's content is removed in pieces while the writer is idle, or by the next process if this process ends first.
//!
//! A damaged page of the file prevents neither the removal of its session nor the overwriting of other sessions.
//! Unreadable data is skipped and counted, and retried at the next start.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentd_core::ids::SessionId;
use rusqlite::{Connection, Row, TransactionBehavior};

use crate::{
    codec::{Fault, bound, first, id_from, id_text, number_from, rows, run, value},
    mark::{self, Mark},
    sessions, usage,
};

/// Number of unused pages that stay in the file for later writes (1 MB).
const SPARE_PAGES: i64 = 256;
/// Number of pages returned to the disk at once.
const RELEASED_PAGES: i64 = 64;
/// Maximum size in bytes of a file of an earlier version that is rewritten when opened, so that it can shrink
/// afterwards. Larger files are only rewritten on request.
pub(crate) const SMALL_FILE: i64 = 16 << 20;

/// SQLite's `auto_vacuum` mode for a file that can return pages.
const INCREMENTAL: i64 = 2;

#[derive(Debug)]
pub(crate) struct Upkeep {
    step: Step,
    /// True if data was removed or overwritten, so that the log still contains the old data.
    log_is_due: bool,
    /// Number of attempts to move the log so far.
    checkpoints: u32,
}

/// Maximum number of attempts to move the log while readers block it. Each attempt except the first waits for
/// `CHECKPOINT_WAIT`.
const MAX_CHECKPOINTS: u32 = 250;
const CHECKPOINT_WAIT: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
enum Step {
    Overwrite,
    ReleasePages,
    /// Move the log into the database.
    Checkpoint,
}

impl Upkeep {
    /// Creates the upkeep task that runs after a start or a removal. The log must be checkpointed if a crash left one, or
    /// after a removal: a small session is overwritten in the removing transaction, so the log still contains its text.
    pub(crate) const fn new(log_is_due: bool) -> Self {
        Self { step: Step::Overwrite, log_is_due, checkpoints: 0 }
    }

    /// Skips to moving the log after a piece failed. Returns true if there is more work.
    pub(crate) fn skip_to_log(&mut self) -> bool {
        let has_more = !matches!(self.step, Step::Checkpoint);
        self.step = Step::Checkpoint;
        has_more
    }

    /// Performs the next piece. Returns true if there may be another piece.
    pub(crate) fn piece(
        &mut self,
        connection: &mut Connection,
        mark: &mut Mark,
        unerased: &mut UnerasedSessions,
        busy_timeout: Duration,
    ) -> Result<bool, Fault> {
        match self.step {
            Step::Overwrite if unerased.piece(connection)? => self.log_is_due = true,
            Step::Overwrite => self.step = Step::ReleasePages,
            Step::ReleasePages => {
                let excess = pages(connection)?.spare - SPARE_PAGES;
                if excess > 0 && can_shrink(connection)? {
                    release_pages(connection, excess.min(RELEASED_PAGES))?;
                    self.log_is_due = true;
                } else if self.log_is_due {
                    self.step = Step::Checkpoint;
                } else {
                    return Ok(false);
                }
            }
            Step::Checkpoint => {
                let wait = if self.checkpoints == 0 { Duration::ZERO } else { CHECKPOINT_WAIT };
                self.checkpoints += 1;
                let is_moved = checkpoint(connection, mark, wait, busy_timeout)?;
                let is_given_up = !is_moved && self.checkpoints >= MAX_CHECKPOINTS;
                if is_given_up {
                    tracing::debug!("readers prevent truncating the log; the next deletion, stop or start retries");
                }
                return Ok(!is_moved && !is_given_up);
            }
        }
        Ok(true)
    }
}

/// Moves the log, and only waits briefly for readers. If a reader is busy for longer, a later attempt moves the log.
fn checkpoint(connection: &Connection, mark: &mut Mark, wait: Duration, busy_timeout: Duration) -> Result<bool, Fault> {
    connection.busy_timeout(wait)?;
    let moved = empty_log(connection, mark);
    connection.busy_timeout(busy_timeout)?;
    moved
}

/// Moves the log into the database and empties it. Returns false if a reader prevented the move.
pub(crate) fn empty_log(connection: &Connection, mark: &mut Mark) -> Result<bool, Fault> {
    let counts = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let (busy, logged, moved) = connection.query_row("PRAGMA wal_checkpoint(FULL)", [], counts)?;
    if busy != 0 || logged != moved {
        return Ok(false);
    }
    mark.clear(mark::newest(connection))?;
    let (busy, ..) = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], counts)?;
    Ok(busy == 0)
}

/// Number and size of the file's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Total number of pages.
    pub(crate) count: i64,
    /// Number of unused pages.
    pub(crate) spare: i64,
    /// Size of a page in bytes.
    pub(crate) size: i64,
}

pub(crate) fn pages(connection: &Connection) -> Result<Pages, Fault> {
    Ok(Pages {
        count: pragma(connection, "page_count")?,
        spare: pragma(connection, "freelist_count")?,
        size: pragma(connection, "page_size")?,
    })
}

/// Returns true if the file can return pages without being rewritten.
pub(crate) fn can_shrink(connection: &Connection) -> Result<bool, Fault> {
    Ok(pragma(connection, "auto_vacuum")? == INCREMENTAL)
}

/// Enables returning pages for a file that is still empty.
pub(crate) fn allow_shrinking(connection: &Connection) -> Result<(), Fault> {
    Ok(connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?)
}

/// Rewrites the whole file without unused pages, and enables shrinking. Needs as much free space as the size of the
/// file. Other writes wait until the rewrite ends.
pub(crate) fn rewrite(connection: &Connection) -> Result<(), Fault> {
    allow_shrinking(connection)?;
    Ok(connection.execute_batch("VACUUM")?)
}

fn release_pages(connection: &Connection, pages: i64) -> Result<(), Fault> {
    // Each step of the statement frees a page.
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut steps = statement.query([])?;
    while steps.next()?.is_some() {}
    Ok(())
}

fn pragma(connection: &Connection, name: &str) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, name, |row| row.get(0))?)
}

/// Maximum number of rows removed at once.
const MAX_ROWS: usize = 128;
/// Total size of rows from which a piece is full, in bytes. A full piece takes some milliseconds.
const MAX_BYTES: i64 = 128 << 10;

/// Small tables whose rows are removed together with the session's row.
const SMALL_TABLES: [&str; 4] = ["interrupts", "queued_turns", "session_state", "search_progress"];

/// SQL for the tables that are removed in pieces: the statement that deletes a row, and the query for a session's next
/// rows with their sizes.
const LARGE_TABLES: [(&str, &str); 3] = [
    (
        "DELETE FROM searched WHERE key = ?1",
        "SELECT key, 4 * octet_length(text) FROM searched INDEXED BY searched_by_number
         WHERE session = ?1 ORDER BY seq LIMIT ?2",
    ),
    (
        "DELETE FROM events WHERE key = ?1",
        "SELECT key, octet_length(payload) FROM events INDEXED BY events_by_number
         WHERE session = ?1 ORDER BY seq LIMIT ?2",
    ),
    (
        "DELETE FROM state_files WHERE rowid = ?1",
        "SELECT rowid, octet_length(content) FROM state_files WHERE session = ?1 LIMIT ?2",
    ),
];

/// Hides a session and its subagents' sessions from readers, and returns their keys. Reads no other data of these
/// sessions, because a damaged page would prevent the commit of the whole transaction.
pub(crate) fn remove(connection: &Connection, id: SessionId) -> Result<Vec<i64>, Fault> {
    let key = sessions::require_key(connection, id)?;
    let sql = "WITH RECURSIVE family (key) AS (
                SELECT ?1 UNION SELECT sessions.key FROM sessions JOIN family ON sessions.parent = family.key)
             SELECT key FROM family";
    let family: Vec<i64> = rows(connection, sql, [key], |row| Ok(row.get(0)?))?;
    for key in &family {
        hide(connection, *key)?;
    }
    Ok(family)
}

fn hide(connection: &Connection, key: i64) -> Result<(), Fault> {
    usage::record_counted(connection, key)?;
    let sql = "INSERT INTO files_left (session) SELECT id FROM sessions WHERE key = ?1 ON CONFLICT DO NOTHING";
    run(connection, sql, [key])?;
    let sql = "UPDATE sessions SET id = 'removed ' || key, parent = key, title = '', usage = '{}', last_seq = 0,
                open_turn = NULL, open_turn_seq = NULL WHERE key = ?1";
    run(connection, sql, [key])
}

/// Removed sessions that have not been completely overwritten, as known to the writer.
#[derive(Default)]
pub(crate) struct UnerasedSessions {
    /// Sessions that could not be overwritten because their part of the file is damaged.
    stuck: BTreeSet<i64>,
    /// Number of these sessions, shared with other threads.
    count: Arc<AtomicU64>,
}

impl UnerasedSessions {
    /// Returns the shared count of sessions that cannot be overwritten.
    pub(crate) fn stuck(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.count)
    }

    /// Overwrites the first piece of the sessions that were just removed, or all pieces of small sessions.
    pub(crate) fn first_piece(&mut self, connection: &mut Connection, removed: Vec<i64>) -> Result<(), Fault> {
        let mut budget = Budget::default();
        for session in removed {
            if !budget.is_spent() {
                self.overwrite(connection, session, &mut budget)?;
            }
        }
        Ok(())
    }

    /// Overwrites the next piece of removed sessions, and returns true if there may be another piece. A session that
    /// cannot be overwritten is only tried once.
    pub(crate) fn piece(&mut self, connection: &mut Connection) -> Result<bool, Fault> {
        let Some(session) = self.next(connection)? else { return Ok(false) };
        self.overwrite(connection, session, &mut Budget::default())?;
        Ok(true)
    }

    fn next(&self, connection: &Connection) -> Result<Option<i64>, Fault> {
        let sql = "SELECT key FROM sessions INDEXED BY removed_sessions WHERE parent = key AND key > ?1 AND id LIKE 'removed %'
             ORDER BY key LIMIT 1";
        let mut after = i64::MIN;
        while let Some(key) = first(connection, sql, [after], |row| Ok(row.get(0)?))? {
            if !self.stuck.contains(&key) {
                return Ok(Some(key));
            }
            after = key;
        }
        Ok(None)
    }

    /// Overwrites the remaining rows of a removed session within the budget, and finally its row.
    fn overwrite(&mut self, connection: &mut Connection, session: i64, budget: &mut Budget) -> Result<(), Fault> {
        if !is_removed(connection, session)? {
            return Ok(());
        }
        self.in_transaction(connection, session, |connection| overwrite_pieces(connection, session, budget))?;
        if !budget.is_spent() && !self.stuck.contains(&session) {
            self.in_transaction(connection, session, |connection| overwrite_row(connection, session))?;
        }
        Ok(())
    }

    /// Runs `work` in its own transaction, which is rolled back if `work` reads a damaged page.
    fn in_transaction(
        &mut self,
        connection: &mut Connection,
        session: i64,
        work: impl FnOnce(&Connection) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        match work(&transaction) {
            Ok(()) => transaction.commit()?,
            Err(fault) if fault.is_transient() => return Err(fault),
            Err(fault) => {
                drop(transaction);
                tracing::error!(?fault, session, "could not overwrite a deleted session: the journal is damaged there");
                self.stuck.insert(session);
                self.count.store(self.stuck.len() as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

fn is_removed(connection: &Connection, session: i64) -> Result<bool, Fault> {
    Ok(connection.prepare_cached("SELECT 1 FROM sessions WHERE key = ?1 AND parent = key")?.exists([session])?)
}

/// Remaining amount of work in one piece.
struct Budget {
    rows: usize,
    bytes: i64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { rows: MAX_ROWS, bytes: MAX_BYTES }
    }
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.rows == 0 || self.bytes <= 0
    }
}

/// Overwrites rows of the large tables within the budget.
fn overwrite_pieces(connection: &Connection, session: i64, budget: &mut Budget) -> Result<(), Fault> {
    for (delete, find) in LARGE_TABLES {
        let mut delete = connection.prepare_cached(delete)?;
        for row in next_rows(connection, find, session, budget)? {
            delete.execute([row])?;
        }
        if budget.is_spent() {
            break;
        }
    }
    Ok(())
}

/// Overwrites the remaining data of a session once the large tables are empty.
fn overwrite_row(connection: &Connection, session: i64) -> Result<(), Fault> {
    for table in SMALL_TABLES {
        run(connection, &format!("DELETE FROM {table} WHERE session = ?1"), [session])?;
    }
    usage::forget_session(connection, session)?;
    run(connection, "DELETE FROM sessions WHERE key = ?1", [session])
}

/// Returns the number of sessions whose data has not been completely overwritten.
pub(crate) fn removed(connection: &Connection) -> Result<u64, Fault> {
    let sql = "SELECT count(*) FROM sessions INDEXED BY removed_sessions WHERE parent = key AND id LIKE 'removed %'";
    let count: i64 = value(connection, sql, [])?;
    number_from(count)
}

/// Returns the removed sessions whose files may still exist.
pub(crate) fn files_left(connection: &Connection) -> Result<Vec<SessionId>, Fault> {
    let sql = "SELECT session FROM files_left ORDER BY session";
    // An unreadable ID cannot identify files.
    let ids = rows(connection, sql, [], |row| Ok(id_from::<SessionId>(&row.get::<_, String>(0)?).ok()))?;
    Ok(ids.into_iter().flatten().collect())
}

/// Records that the files of these sessions have been removed.
pub(crate) fn forget_files(connection: &Connection, ids: &[SessionId]) -> Result<(), Fault> {
    let mut forget = connection.prepare_cached("DELETE FROM files_left WHERE session = ?1")?;
    for id in ids {
        forget.execute([id_text(id.as_uuid())])?;
    }
    Ok(())
}

/// Returns the next rows within the budget.
fn next_rows(connection: &Connection, find: &str, session: i64, budget: &mut Budget) -> Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(find)?;
    let mut found = statement.query((session, bound(budget.rows)))?;
    let mut rows = Vec::new();
    while !budget.is_spent()
        && let Some(row) = found.next()?
    {
        rows.push(row.get(0)?);
        budget.rows -= 1;
        budget.bytes -= row.get::<_, i64>(1)?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoreConfig, open};

    #[test]
    fn upkeep_empties_the_log_after_a_failed_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.db");
        let mut open = open::open(&StoreConfig::at(path.clone())).unwrap();
        assert!(mark::log_length(&path) > Some(0));
        let (mut upkeep, mut unerased) = (Upkeep::new(true), UnerasedSessions::default());
        assert!(upkeep.skip_to_log(), "the log is still pending");
        assert!(!upkeep.piece(&mut open.writer, &mut open.mark, &mut unerased, Duration::ZERO).unwrap());
        assert_eq!(mark::log_length(&path), Some(0));
        assert!(!upkeep.skip_to_log(), "the log is the last step");
    }
}
