//! Events that cannot be read: each costs itself, and nothing behind it.

use std::ops::{Range, RangeInclusive};

use agentd_core::{event::Event, ids::SessionId};
use rusqlite::{Connection, Row};

use crate::codec::{Fault, bound, first, id_from, json_from, number_from, text, time_from};

/// Numbers without an event that are told of one by one. More of them say that a session's count is damaged.
const MAX_MISSING: u64 = 10_000;

/// An event of a row with `seq`, `at`, `turn` and `payload`.
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

/// The event of a row, or what stands in for it.
pub(crate) fn read(row: &Row<'_>, session_id: SessionId) -> Result<Event, Fault> {
    let seq = number_from(row.get("seq")?)?;
    Ok(parse(row, session_id).unwrap_or_else(|fault| {
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

/// One event after the other, where they cannot be read together: a page of the file that is damaged costs what is in it.
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

/// Numbers of the last completed items behind the start of the range, the last first, where the index that knows them cannot
/// be read. An event that cannot be read may have been one.
pub(crate) fn items_one_by_one(connection: &Connection, session: i64, range: Range<u64>, at_most: usize) -> Vec<u64> {
    tracing::warn!("an index of events is damaged; items are looked for one by one");
    let kind = "SELECT kind FROM events WHERE session = ?1 AND seq = ?2";
    let is_item = |seq: &u64| {
        let found = first(connection, kind, (session, bound(*seq)), |row| Ok(text(row, "kind")? == "item_completed"));
        found.map_or(true, |found| found.unwrap_or(true))
    };
    let numbers = (range.start + 1..=range.end).rev().take(usize::try_from(MAX_MISSING).unwrap_or(usize::MAX));
    numbers.filter(is_item).take(at_most).collect()
}
