//! Unreadable events, each replaced by a placeholder so that later events stay readable.

use std::ops::{Range, RangeInclusive};

use agentd_core::{event::Event, ids::SessionId};
use rusqlite::{Connection, Row};

use crate::codec::{Fault, bound, first, id_from, json_from, number_from, text, time_from};

/// Maximum number of missing events that get placeholders. A larger number means that a session's event count is
/// damaged.
const MAX_MISSING: u64 = 10_000;

/// Parses an event from a row with `seq`, `at`, `turn` and `payload`.
fn parse(row: &Row<'_>, session_id: SessionId) -> Result<Event, Fault> {
    let turn_id = row.get::<_, Option<String>>("turn")?.map(|turn| id_from(&turn)).transpose()?;
    Ok(Event {
        session_id,
        turn_id,
        seq: number_from(row.get("seq")?)?,
        at: time_from(row.get("at")?)?,
        kind: json_from(text(row, "payload")?)?,
    })
}

/// Reads the event of a row, or returns a placeholder for the event.
pub(crate) fn read(row: &Row<'_>, session_id: SessionId) -> Result<Event, Fault> {
    let seq = number_from(row.get("seq")?)?;
    Ok(parse(row, session_id).unwrap_or_else(|fault| {
        tracing::warn!(?fault, session = %session_id, seq, "skipping a damaged event");
        let turn_id = text(row, "turn").ok().and_then(|turn| id_from(turn).ok());
        Event::damaged(session_id, turn_id, seq)
    }))
}

/// Inserts a placeholder for every number without an event.
pub(crate) fn fill(
    found: Vec<Event>,
    session_id: SessionId,
    numbers: RangeInclusive<u64>,
) -> Result<Vec<Event>, Fault> {
    let expected = (numbers.end() + 1).saturating_sub(*numbers.start());
    let missing = expected.saturating_sub(found.len() as u64);
    if missing == 0 {
        return Ok(found);
    }
    if missing > MAX_MISSING {
        return Err(Fault::Damaged(format!("{missing} events of session {session_id} are missing")));
    }
    tracing::warn!(session = %session_id, missing, "skipping missing events");
    let mut all = Vec::with_capacity(found.len());
    let mut found = found.into_iter().peekable();
    for seq in numbers {
        let event = found.next_if(|event| event.seq == seq);
        all.push(event.unwrap_or_else(|| Event::damaged(session_id, None, seq)));
    }
    Ok(all)
}

/// Reads events one by one after reading them together has failed. A damaged page of the file only affects the events
/// on that page.
pub(crate) fn one_by_one(
    connection: &Connection,
    session: i64,
    session_id: SessionId,
    numbers: RangeInclusive<u64>,
) -> Vec<Event> {
    let event = "SELECT seq, at, turn, payload FROM events WHERE session = ?1 AND seq = ?2";
    let read_one = |seq| first(connection, event, (session, bound(seq)), |row| read(row, session_id)).ok().flatten();
    numbers.map(|seq| read_one(seq).unwrap_or_else(|| Event::damaged(session_id, None, seq))).collect()
}

/// Returns the numbers of the last completed items after the start of the range, last first, for a journal with a
/// damaged index. An unreadable event counts as an item, because it may have been one.
pub(crate) fn items_one_by_one(connection: &Connection, session: i64, range: Range<u64>, limit: usize) -> Vec<u64> {
    tracing::warn!("an index of events is damaged; searching items one by one");
    let kind = "SELECT kind FROM events WHERE session = ?1 AND seq = ?2";
    let is_item = |seq: &u64| {
        let found = first(connection, kind, (session, bound(*seq)), |row| Ok(text(row, "kind")? == "item_completed"));
        found.map_or(true, |found| found.unwrap_or(true))
    };
    let numbers = (range.start + 1..=range.end).rev().take(usize::try_from(MAX_MISSING).unwrap_or(usize::MAX));
    numbers.filter(is_item).take(limit).collect()
}
