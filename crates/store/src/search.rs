//! The tables `search_progress`, `searched` and `search`: what was said and done, to be found again.
//!
//! Nobody who stores an event waits for the index. Whoever searches first brings it up to date, from where the last
//! search had come to: a reader reads and takes apart, the writer only adds rows.

use agentd_core::{
    event::EventKind,
    ids::SessionId,
    search::{SearchHit, SearchKind, SearchQuery, searchable},
};
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter, types::Value};

use crate::{
    codec::{bound, id_from, json_from, limit, number_from, text, time_from},
    error::Fault,
    sessions,
};

/// Events that are read at once.
const PAGE: usize = 500;
/// Bytes of an item that can be found.
const MAX_TEXT: usize = 16 << 10;
/// Letters that the index knows at once: shorter terms are looked for in the texts themselves.
const TRIGRAM: usize = 3;

/// What the index lacks of one session: the next page.
pub(crate) struct Missing {
    session: i64,
    after: i64,
    through: i64,
    rows: Vec<Row>,
}

struct Row {
    seq: i64,
    at: i64,
    kind: &'static str,
    text: String,
}

impl Missing {
    /// The bytes of its texts.
    pub(crate) fn size(&self) -> usize {
        self.rows.iter().map(|row| row.text.len()).sum()
    }

    /// Adds it, unless another search was faster, or the session is gone.
    pub(crate) fn add(&self, connection: &Connection) -> Result<(), Fault> {
        let moved = connection
            .prepare_cached(
                "INSERT INTO search_progress (session, through) SELECT key, ?3 FROM sessions WHERE key = ?1
                 ON CONFLICT DO UPDATE SET through = excluded.through WHERE through = ?2",
            )?
            .execute(params![self.session, self.after, self.through])?;
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

/// The sessions that the index is behind with, one or all, and how far they are now.
pub(crate) fn behind(connection: &Connection, session: Option<SessionId>) -> Result<Vec<(i64, i64)>, Fault> {
    let only = match session {
        None => None,
        Some(id) => match sessions::key(connection, id)? {
            None => return Ok(Vec::new()),
            key => key,
        },
    };
    let mut statement = connection.prepare_cached(
        "SELECT key, last_seq FROM sessions LEFT JOIN search_progress ON session = key
         WHERE last_seq > coalesce(through, 0) AND (?1 IS NULL OR key = ?1)",
    )?;
    let rows = statement.query_map([only], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The next page that the index lacks of a session up to an event; none where it lacks nothing.
pub(crate) fn missing(connection: &Connection, session: i64, until: i64) -> Result<Option<Missing>, Fault> {
    let after: Option<i64> = connection
        .prepare_cached(
            "SELECT coalesce(through, 0) FROM sessions LEFT JOIN search_progress ON session = key WHERE key = ?1",
        )?
        .query_row([session], |row| row.get(0))
        .optional()?;
    // It may have been deleted meanwhile.
    let Some(after) = after.filter(|after| *after < until) else { return Ok(None) };
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, payload FROM events INDEXED BY completed_items
         WHERE session = ?1 AND kind = 'item_completed' AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4",
    )?;
    let mut read = statement.query(params![session, after, until, limit(PAGE)])?;
    let (mut rows, mut count, mut last) = (Vec::new(), 0, after);
    while let Some(row) = read.next()? {
        (count, last) = (count + 1, row.get("seq")?);
        let EventKind::ItemCompleted { item, .. } = json_from(text(row, "payload")?)? else { continue };
        if let Some((kind, mut words)) = searchable(&item) {
            words.truncate(words.floor_char_boundary(MAX_TEXT));
            rows.push(Row { seq: last, at: row.get("at")?, kind: kind.as_str(), text: words.replace('\0', " ") });
        }
    }
    let through = if count < PAGE { until } else { last };
    Ok(Some(Missing { session, after, through, rows }))
}

/// The best finds first; where only short words are looked for, the newest.
pub(crate) fn find(
    connection: &Connection,
    query: &SearchQuery,
    session: Option<SessionId>,
    at_most: usize,
) -> Result<Vec<SearchHit>, Fault> {
    let (long, short): (Vec<&String>, Vec<&String>) =
        query.terms().iter().partition(|term| term.chars().count() >= TRIGRAM);
    let mut arguments: Vec<Value> = Vec::new();
    let mut sql = "SELECT id, title, seq, at, kind, searched.text AS text FROM searched
                   JOIN sessions ON sessions.key = searched.session"
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
    arguments.push(bound(at_most as u64).into());
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(arguments))?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let kind = text(row, "kind")?;
        let (excerpt, marks) = query.excerpt(text(row, "text")?);
        hits.push(SearchHit {
            session_id: id_from(text(row, "id")?)?,
            title: row.get("title")?,
            seq: number_from(row.get("seq")?)?,
            at: time_from(row.get("at")?)?,
            kind: SearchKind::ALL
                .into_iter()
                .find(|known| known.as_str() == kind)
                .ok_or_else(|| Fault::Damaged("a found text is of no known kind".to_owned()))?,
            excerpt,
            marks,
        });
    }
    Ok(hits)
}
