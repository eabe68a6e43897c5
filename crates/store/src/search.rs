//! The tables `search_progress`, `searched` and `search`: the full-text index over past sessions.
//!
//! Storing an event never waits for the index. The writer updates the index while idle, in pieces so small that new
//! writes are hardly delayed. Before a search, a reader reads and parses the events that are still missing, and the
//! writer only inserts the rows. If too many events are missing, they are reported as not yet searched.

use std::cmp::Reverse;

use agentd_core::{
    event::EventKind,
    ids::SessionId,
    search::{SearchHit, SearchKind, SearchQuery, is_indexed, searchable},
};
use rusqlite::{Connection, TransactionBehavior, params, params_from_iter, types::Value};

use crate::{
    codec::{Fault, bound, changed, first, id_from, id_text, json_from, number_from, rows, text, time_from, value},
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
/// Maximum number of texts that are ranked because they have any of a query's terms.
const MAX_RANKED: i64 = 10_000;

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

/// Returns the matches for a query: texts with all terms, then texts with any of them, each best first. Among texts that
/// match by short terms only, the newest are first.
pub(crate) fn find(
    connection: &Connection,
    query: &SearchQuery,
    session: Option<SessionId>,
    limit: usize,
) -> Result<Vec<SearchHit>, Fault> {
    let session = match session.map(|id| sessions::key(connection, id)).transpose()? {
        Some(None) => return Ok(Vec::new()),
        key => key.flatten(),
    };
    let mut keys = matching(connection, query.terms(), " AND ", session, limit)?;
    if keys.len() < limit {
        let (indexed, short): (Vec<String>, Vec<String>) =
            query.parts().iter().cloned().partition(|part| is_indexed(part));
        for terms in [rarest(connection, indexed, MAX_RANKED)?, short] {
            let found = matching(connection, &terms, " OR ", session, limit)?;
            let new: Vec<i64> = found.into_iter().filter(|key| !keys.contains(key)).collect();
            keys.extend(new);
        }
        keys.truncate(limit);
    }
    keys.into_iter().filter_map(|key| hit(connection, query, key).transpose()).collect()
}

/// Returns the terms in the order of their number of texts, up to a total of `limit` texts but at least one term. Terms
/// in nearly every text take the most time to rank and contribute the least.
fn rarest(connection: &Connection, terms: Vec<String>, limit: i64) -> Result<Vec<String>, Fault> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM search WHERE search MATCH ?1 LIMIT ?2)";
    let mut counted: Vec<(i64, String)> = Vec::new();
    for term in terms {
        counted.push((value(connection, sql, params![phrase(&term), limit])?, term));
    }
    // Of terms that exceed the limit, the longest is probably the rarest.
    counted.sort_by_key(|(texts, term)| (*texts, Reverse(term.len())));
    let mut total: i64 = 0;
    let is_within_limit = |(texts, _): &(i64, String)| {
        total += *texts;
        total <= limit || total == *texts
    };
    Ok(counted.into_iter().take_while(is_within_limit).map(|(_, term)| term).collect())
}

/// Returns a term as a phrase of the index's query language.
fn phrase(term: &str) -> String {
    format!("\"{}\"", term.replace('"', "\"\""))
}

/// Returns the keys of the texts with all or any of the terms, depending on the operator between them, best first.
fn matching(
    connection: &Connection,
    terms: &[String],
    operator: &str,
    session: Option<i64>,
    limit: usize,
) -> Result<Vec<i64>, Fault> {
    let (indexed, short): (Vec<&String>, Vec<&String>) = terms.iter().partition(|term| is_indexed(term));
    let (mut conditions, mut arguments): (Vec<String>, Vec<Value>) = (Vec::new(), Vec::new());
    let (tables, order) = match (indexed.is_empty(), short.is_empty()) {
        (true, true) => return Ok(Vec::new()),
        (true, false) => ("searched", "at DESC, seq DESC"),
        // The order of the tables is fixed, because a query of the index per text of a session takes much longer.
        (false, _) => ("search CROSS JOIN searched ON searched.key = search.rowid", "search.rank, at DESC"),
    };
    if !indexed.is_empty() {
        conditions.push("search MATCH ?".to_owned());
        arguments.push(indexed.iter().map(|term| phrase(term)).collect::<Vec<_>>().join(operator).into());
    }
    if !short.is_empty() {
        let each = vec!["searched.text LIKE ? ESCAPE '\\'"; short.len()];
        conditions.push(format!("({})", each.join(operator)));
    }
    for term in short {
        let plain = term.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        arguments.push(format!("%{plain}%").into());
    }
    if let Some(key) = session {
        conditions.push("searched.session = ?".to_owned());
        arguments.push(key.into());
    }
    arguments.push(bound(limit as u64).into());
    let sql = format!(
        "SELECT searched.key FROM {tables}
         CROSS JOIN sessions ON sessions.key = searched.session AND sessions.parent IS NOT sessions.key
         WHERE {} AND {} ORDER BY {order} LIMIT ?",
        conditions.join(" AND "),
        not_withdrawn!("searched"),
    );
    rows(connection, &sql, params_from_iter(arguments), |row| Ok(row.get(0)?))
}

/// Returns the hit for a text, or `None` if its session was deleted in the meantime.
fn hit(connection: &Connection, query: &SearchQuery, key: i64) -> Result<Option<SearchHit>, Fault> {
    let sql = "SELECT id, title, seq, at, kind, searched.text AS text FROM searched
         JOIN sessions ON sessions.key = searched.session WHERE searched.key = ?1";
    first(connection, sql, [key], |row| {
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

    #[test]
    fn terms_of_too_many_texts_are_not_ranked() {
        let folder = tempfile::tempdir().unwrap();
        let open = open::open(&StoreConfig::at(folder.path().join("journal.db"))).unwrap();
        let session = "INSERT INTO sessions (key, id, created_at, updated_at, usage) VALUES (1, 'one', 0, 0, '{}')";
        open.writer.execute_batch(session).unwrap();
        for (seq, content) in ["the door", "the roof", "the barn", "the barn", "a zebra"].into_iter().enumerate() {
            let sql = "INSERT INTO searched (session, seq, at, kind, text) VALUES (1, ?1, 0, 'person', ?2)";
            changed(&open.writer, sql, params![bound(seq), content]).unwrap();
        }
        let check = |terms: &[&str], limit: i64, expected: &[&str]| {
            let terms = terms.iter().map(|term| (*term).to_owned()).collect();
            assert_eq!(rarest(&open.writer, terms, limit).unwrap(), expected, "{limit}");
        };
        check(&["the", "zebra", "barn"], 7, &["zebra", "barn", "the"]);
        check(&["the", "zebra", "barn"], 6, &["zebra", "barn"]);
        check(&["the", "zebra", "barn"], 1, &["zebra"]);
        check(&["the"], 1, &["the"]);
        check(&["absent", "the"], 2, &["absent", "the"]);
    }
}
