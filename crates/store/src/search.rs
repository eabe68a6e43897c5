//! The tables `search_progress`, `searched` and `search`: the full-text index over past sessions.
//!
//! Storing an event never waits for the index. The writer updates the index while idle, in pieces so small that new
//! writes are hardly delayed. Before a search, a reader reads and parses the events that are still missing, and the
//! writer only inserts the rows. If too many events are missing, they are reported as not yet searched.

use agentd_core::{
    event::EventKind,
    ids::SessionId,
    search::{SearchHit, SearchKind, SearchQuery, searchable},
};
use rusqlite::{Connection, TransactionBehavior, params, params_from_iter, types::Value};

use crate::{
    codec::{Fault, bound, changed, first, id_from, id_text, json_from, number_from, rows, text, time_from},
    events::not_withdrawn,
    sessions,
};

/// Maximum number of items that are added at once.
const PAGE: usize = 64;
/// Total size of items from which a page is full, in bytes.
const MAX_PAGE: usize = 256 << 10;
/// Maximum number of missing events that are indexed before a search.
pub(crate) const MAX_MISSING_EVENTS: u64 = 2000;
/// Maximum searchable size of an item, in bytes.
const MAX_TEXT: usize = 16 << 10;
/// Length of the index's n-grams in characters. Shorter terms are searched for in the texts.
const TRIGRAM: usize = 3;

/// Next page of a session that is missing from the index.
pub(crate) struct MissingPage {
    session: i64,
    after: i64,
    through: i64,
    rows: Vec<Row>,
    /// Number of unreadable events on the page, which a search never finds.
    pub(crate) damaged: u64,
}

struct Row {
    seq: i64,
    at: i64,
    kind: &'static str,
    text: String,
}

impl MissingPage {
    /// Adds an event if it is searchable, and returns its size. An unreadable event is counted as damaged; the events
    /// after it are still indexed.
    fn push(&mut self, row: &rusqlite::Row<'_>) -> usize {
        let mut size = 0;
        let read = text(row, "payload").and_then(|payload| {
            size = payload.len();
            let EventKind::ItemCompleted { item, .. } = json_from(payload)? else { return Ok(None) };
            let Some((kind, mut content)) = searchable(&item) else { return Ok(None) };
            content.truncate(content.floor_char_boundary(MAX_TEXT));
            let text = content.replace('\0', " ");
            Ok(Some(Row { seq: row.get("seq")?, at: row.get("at")?, kind: kind.as_str(), text }))
        });
        match read {
            Ok(row) => self.rows.extend(row),
            Err(_) => self.damaged += 1,
        }
        size
    }

    /// Returns the size of the page's texts in bytes.
    pub(crate) fn size(&self) -> usize {
        self.rows.iter().map(|row| row.text.len()).sum()
    }

    /// Adds the page to the index, unless a concurrent search has added it or the session was deleted.
    pub(crate) fn add(&self, connection: &Connection) -> Result<(), Fault> {
        let sql = "INSERT INTO search_progress (session, through) SELECT key, ?3 FROM sessions WHERE key = ?1 AND parent IS NOT key
                 ON CONFLICT DO UPDATE SET through = excluded.through WHERE through = ?2";
        let moved = changed(connection, sql, params![self.session, self.after, self.through])?;
        if moved == 0 {
            return Ok(());
        }
        let mut add = connection.prepare_cached(
            "INSERT INTO searched (session, seq, at, kind, text) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        )?;
        for row in &self.rows {
            add.execute(params![self.session, row.seq, row.at, row.kind, row.text])?;
        }
        Ok(())
    }
}

/// Session with texts that are missing from the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnindexedSession {
    pub(crate) session: i64,
    pub(crate) until: i64,
    /// Number of the session's events that have not been indexed yet.
    pub(crate) missing_events: u64,
}

/// Returns one session or all sessions with texts missing from the index, last used first.
pub(crate) fn unindexed(connection: &Connection, session: Option<SessionId>) -> Result<Vec<UnindexedSession>, Fault> {
    let id = session.map(|id| id_text(id.as_uuid()));
    let sql =
        "SELECT key, last_seq, last_seq - coalesce(through, 0) FROM sessions LEFT JOIN search_progress ON session = key
         WHERE last_seq > coalesce(through, 0) AND parent IS NOT key AND (?1 IS NULL OR id = ?1)
         ORDER BY updated_at DESC, id DESC";
    rows(connection, sql, [id], |row| {
        Ok(UnindexedSession { session: row.get(0)?, until: row.get(1)?, missing_events: number_from(row.get(2)?)? })
    })
}

/// Progress of an index update, which the writer performs piece by piece.
#[derive(Debug, Default)]
pub(crate) struct CatchUp {
    /// Current session, and the event up to which it is indexed.
    at: Option<(i64, i64)>,
    /// Number of damaged events in that session so far.
    damaged: u64,
    /// Sessions that are skipped because of a damaged page in the index.
    skipped: Vec<i64>,
}

impl CatchUp {
    /// Adds the next piece, and returns true if there may be another piece. The most recently used sessions come first.
    /// Skips events on an unreadable page, and sessions whose part of the index cannot be written.
    pub(crate) fn piece(&mut self, connection: &mut Connection) -> Result<bool, Fault> {
        if self.at.is_none() {
            let unindexed =
                unindexed(connection, None)?.into_iter().find(|unindexed| !self.skipped.contains(&unindexed.session));
            self.at = unindexed.map(|unindexed| (unindexed.session, unindexed.until));
        }
        let Some((session, until)) = self.at else { return Ok(false) };
        match add_next(connection, session, until) {
            Ok(Some(damaged)) => self.damaged += damaged,
            Ok(None) => {
                log_damaged(session, std::mem::take(&mut self.damaged));
                self.at = None;
            }
            Err(fault) if fault.is_corrupt() => {
                tracing::warn!(?fault, session, "the search index is damaged; the rest of a session is not indexed");
                self.skipped.push(session);
                (self.at, self.damaged) = (None, 0);
            }
            Err(fault) => return Err(fault),
        }
        Ok(true)
    }
}

/// Adds the next page of a session, and returns the number of damaged events on the page, or `None` if nothing is
/// missing.
fn add_next(connection: &mut Connection, session: i64, until: i64) -> Result<Option<u64>, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(missing) = missing(&transaction, session, until)? else { return Ok(None) };
    missing.add(&transaction)?;
    transaction.commit()?;
    Ok(Some(missing.damaged))
}

/// Logs damaged events once per session.
pub(crate) fn log_damaged(session: i64, damaged: u64) {
    if damaged > 0 {
        tracing::warn!(session, damaged, "events of a session are damaged and cannot be searched");
    }
}

/// Returns the next missing page of a session up to event `until`, or `None` if nothing is missing.
pub(crate) fn missing(connection: &Connection, session: i64, until: i64) -> Result<Option<MissingPage>, Fault> {
    let sql = "SELECT coalesce(through, 0) FROM sessions LEFT JOIN search_progress ON session = key
             WHERE key = ?1 AND parent IS NOT key";
    let after: Option<i64> = first(connection, sql, [session], |row| Ok(row.get(0)?))?;
    // The session may have been deleted in the meantime.
    let Some(after) = after.filter(|after| *after < until) else { return Ok(None) };
    match read_page(connection, session, after, until) {
        Err(fault) if fault.is_corrupt() => Ok(Some(one_by_one(connection, session, after, until))),
        found => found.map(Some),
    }
}

fn read_page(connection: &Connection, session: i64, after: i64, until: i64) -> Result<MissingPage, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, payload FROM events INDEXED BY completed_items
         WHERE session = ?1 AND kind = 'item_completed' AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4",
    )?;
    let mut read = statement.query(params![session, after, until, bound(PAGE)])?;
    let mut page = MissingPage { session, after, through: after, rows: Vec::new(), damaged: 0 };
    let (mut count, mut bytes) = (0, 0);
    while bytes < MAX_PAGE
        && let Some(row) = read.next()?
    {
        count += 1;
        page.through = row.get("seq")?;
        bytes += page.push(row);
    }
    if count < PAGE && bytes < MAX_PAGE {
        page.through = until;
    }
    Ok(page)
}

/// Same as [`read_page`], but skips unreadable pages by reading a few numbers individually.
fn one_by_one(connection: &Connection, session: i64, after: i64, until: i64) -> MissingPage {
    let mut page = MissingPage { session, after, through: after, rows: Vec::new(), damaged: 0 };
    let mut bytes = 0;
    for seq in (after + 1..=until).take(PAGE) {
        let sql = "SELECT seq, at, payload FROM events INDEXED BY events_by_number
             WHERE session = ?1 AND seq = ?2 AND kind = 'item_completed'";
        let read = first(connection, sql, [session, seq], |row| Ok(page.push(row)));
        match read {
            Ok(size) => bytes += size.unwrap_or_default(),
            Err(_) => page.damaged += 1,
        }
        page.through = seq;
        if bytes >= MAX_PAGE {
            break;
        }
    }
    page
}

/// Returns the matches for a query, best first, or newest first if all terms are short.
pub(crate) fn find(
    connection: &Connection,
    query: &SearchQuery,
    session: Option<SessionId>,
    limit: usize,
) -> Result<Vec<SearchHit>, Fault> {
    let (long, short): (Vec<&String>, Vec<&String>) =
        query.terms().iter().partition(|term| term.chars().count() >= TRIGRAM);
    let mut arguments: Vec<Value> = Vec::new();
    let mut sql = "SELECT id, title, seq, at, kind, searched.text AS text FROM searched
                   JOIN sessions ON sessions.key = searched.session AND sessions.parent IS NOT sessions.key"
        .to_owned();
    if long.is_empty() {
        sql.push_str(" WHERE 1");
    } else {
        sql.push_str(" JOIN search ON search.rowid = searched.key WHERE search MATCH ?");
        let phrases: Vec<String> = long.iter().map(|term| format!("\"{}\"", term.replace('"', "\"\""))).collect();
        arguments.push(phrases.join(" AND ").into());
    }
    for term in short {
        sql.push_str(" AND searched.text LIKE ? ESCAPE '\\'");
        let plain = term.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        arguments.push(format!("%{plain}%").into());
    }
    sql.push_str(concat!(" AND ", not_withdrawn!("searched")));
    if let Some(id) = session {
        let Some(key) = sessions::key(connection, id)? else { return Ok(Vec::new()) };
        sql.push_str(" AND searched.session = ?");
        arguments.push(key.into());
    }
    sql.push_str(if long.is_empty() {
        " ORDER BY at DESC, seq DESC LIMIT ?"
    } else {
        " ORDER BY search.rank, at DESC LIMIT ?"
    });
    arguments.push(bound(limit as u64).into());
    rows(connection, &sql, params_from_iter(arguments), |row| {
        let kind = text(row, "kind")?;
        let (excerpt, marks) = query.excerpt(text(row, "text")?);
        Ok(SearchHit {
            session_id: id_from(text(row, "id")?)?,
            title: row.get("title")?,
            seq: number_from(row.get("seq")?)?,
            at: time_from(row.get("at")?)?,
            kind: SearchKind::from_name(kind)
                .ok_or_else(|| Fault::Damaged("a search result has an unknown kind".to_owned()))?,
            excerpt,
            marks,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoreConfig, open};

    #[test]
    fn catch_up_skips_draft_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let mut open = open::open(&StoreConfig::at(folder.path().join("journal.db"))).unwrap();
        let draft = "INSERT INTO sessions (key, parent, id, created_at, updated_at, usage, last_seq)
             VALUES (7, 7, 'import 1 draft', 0, 0, '{}', 3)";
        open.writer.execute_batch(draft).unwrap();
        assert!(!CatchUp::default().piece(&mut open.writer).unwrap());
    }
}
