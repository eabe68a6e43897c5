//! Events that cannot be read: each costs itself, and nothing behind it.

use std::ops::{Range, RangeInclusive};

use agentd_core::{event::Event, ids::SessionId};
use rusqlite::{Connection, Params, Row};

use crate::{
    codec::{bound, id_from, number_from, text},
    error::Fault,
    events,
};

/// Numbers without an event that are told of one by one. More of them say that a session's count is damaged.
const MAX_MISSING: u64 = 10_000;

/// Events that are looked at at once.
const PAGE: usize = 500;

/// Damaged events that are named of one session.
const NAMED: usize = 100;

/// A session with events that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedSession {
    /// The session; none where its own row cannot be read.
    pub id: Option<SessionId>,
    /// The numbers of the first of them; none where it cannot be read at all.
    pub events: Vec<u64>,
}

/// The event of a row, or what stands in for it.
pub(crate) fn read(row: &Row<'_>, session_id: SessionId) -> Result<Event, Fault> {
    let seq = number_from(row.get("seq")?)?;
    Ok(events::read(row, session_id).unwrap_or_else(|fault| {
        tracing::warn!(?fault, session = %session_id, seq, "an event is damaged and is left out");
        let turn_id = text(row, "turn").ok().and_then(|turn| id_from(turn).ok());
        Event::damaged(session_id, turn_id, seq)
    }))
}

/// Puts something in the place of every number that has no event.
pub(crate) fn fill(
    found: Vec<Event>,
    session_id: SessionId,
    numbers: RangeInclusive<u64>,
) -> Result<Vec<Event>, Fault> {
    let wanted = (numbers.end() + 1).saturating_sub(*numbers.start());
    let missing = wanted.saturating_sub(found.len() as u64);
    if missing == 0 {
        return Ok(found);
    }
    if missing > MAX_MISSING {
        return Err(Fault::Damaged(format!("{missing} events of session {session_id} are missing")));
    }
    tracing::warn!(session = %session_id, missing, "events are missing and are left out");
    let mut all = Vec::with_capacity(found.len());
    let mut found = found.into_iter().peekable();
    for seq in numbers {
        let event = found.next_if(|event| event.seq == seq);
        all.push(event.unwrap_or_else(|| Event::damaged(session_id, None, seq)));
    }
    Ok(all)
}

/// The sessions of which something cannot be read.
pub(crate) fn all(connection: &Connection) -> Result<Vec<DamagedSession>, Fault> {
    let mut statement = connection.prepare("SELECT id FROM sessions WHERE parent IS NOT key ORDER BY key")?;
    let mut rows = statement.query([])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.push(text(row, "id").and_then(id_from).ok());
    }
    let unnamed = || Some(DamagedSession { id: None, events: Vec::new() });
    Ok(ids.into_iter().filter_map(|id| id.map_or_else(unnamed, |id| of(connection, id))).collect())
}

fn of(connection: &Connection, id: SessionId) -> Option<DamagedSession> {
    let unreadable = DamagedSession { id: Some(id), events: Vec::new() };
    if crate::sessions::one(connection, id).is_err() {
        return Some(unreadable);
    }
    let mut events = Vec::new();
    let mut after = 0;
    while events.len() < NAMED {
        let Ok(page) = events::page(connection, id, after, PAGE) else { return Some(unreadable) };
        let Some(last) = page.last() else { break };
        after = last.seq;
        events.extend(page.iter().filter(|event| event.is_damaged()).map(|event| event.seq));
    }
    (!events.is_empty()).then_some(DamagedSession { id: Some(id), events })
}

/// One event after the other, where they cannot be read together: a page of the file that is damaged costs what is in it.
pub(crate) fn one_by_one(
    connection: &Connection,
    session: i64,
    session_id: SessionId,
    numbers: RangeInclusive<u64>,
) -> Vec<Event> {
    let event = "SELECT seq, at, turn, payload FROM events WHERE session = ?1 AND seq = ?2";
    let read_one = |seq| one(connection, event, session, seq, |row| read(row, session_id)).ok().flatten();
    numbers.map(|seq| read_one(seq).unwrap_or_else(|| Event::damaged(session_id, None, seq))).collect()
}

/// Numbers of the last completed items behind the start of the range, the last first, where the index that knows them cannot
/// be read. An event that cannot be read may have been one.
pub(crate) fn items_one_by_one(connection: &Connection, session: i64, range: Range<u64>, at_most: usize) -> Vec<u64> {
    tracing::warn!("an index of events is damaged; items are looked for one by one");
    let kind = "SELECT kind FROM events WHERE session = ?1 AND seq = ?2";
    let is_item = |seq: &u64| {
        let found = one(connection, kind, session, *seq, |row| Ok(text(row, "kind")? == "item_completed"));
        found.map_or(true, |found| found.unwrap_or(true))
    };
    let numbers = (range.start + 1..=range.end).rev().take(usize::try_from(MAX_MISSING).unwrap_or(usize::MAX));
    numbers.filter(is_item).take(at_most).collect()
}

/// Reads one row of an event by `query`, which takes the session and the number; none where there is none.
pub(crate) fn one<T>(
    connection: &Connection,
    query: &str,
    session: i64,
    seq: u64,
    read: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query((session, bound(seq)))?;
    rows.next()?.map(read).transpose()
}

/// Numbers of events, by a query that reads nothing but an index.
pub(crate) fn numbers(connection: &Connection, query: &str, params: impl Params) -> Result<Vec<u64>, Fault> {
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query(params)?;
    let mut numbers = Vec::new();
    while let Some(row) = rows.next()? {
        numbers.push(number_from(row.get("seq")?)?);
    }
    Ok(numbers)
}
