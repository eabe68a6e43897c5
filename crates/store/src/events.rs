//! The table `events`, and the check for sessions with unreadable events.

use std::sync::Arc;

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::{SessionId, TurnId},
    item::{Item, ItemBody},
    session::{EndedTurn, EndedTurns, TurnSpan},
    state_files::StateFileChange,
};
use rusqlite::{Connection, Row, params};

use crate::{
    codec::{
        Fault, bound, first, id_from, id_text, json_from, number, number_from, rows, run, text, time, time_from, value,
    },
    damage, sessions,
};

/// Inserts one event. `payload` is the event's kind as JSON.
pub(crate) fn insert(connection: &Connection, session: i64, event: &Event, payload: &str) -> Result<(), Fault> {
    let turn = event.turn_id.map(|turn| id_text(turn.as_uuid()));
    let sql = "INSERT INTO events (session, seq, at, turn, kind, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    run(connection, sql, params![session, number(event.seq)?, time(event.at)?, turn, event.kind.name(), payload])
}

pub(crate) fn page(
    connection: &Connection,
    session_id: SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<Arc<Event>>, Fault> {
    // The snapshot prevents concurrent appends from looking like gaps.
    let snapshot = connection.unchecked_transaction()?;
    let Some((session, last)) = sessions::head(&snapshot, session_id)? else { return Ok(Vec::new()) };
    let numbers = after.saturating_add(1)..=last.min(after.saturating_add(limit as u64));
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT seq, at, turn, payload FROM events WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    let parameters = params![session, bound(after), bound(limit)];
    let found = match rows(&snapshot, sql, parameters, |row| damage::read(row, session_id)) {
        Err(fault) if fault.is_corrupt() => damage::one_by_one(&snapshot, session, session_id, numbers.clone()),
        found => found?,
    };
    Ok(damage::fill(found, session_id, numbers)?.into_iter().map(Arc::new).collect())
}

/// Returns the size in bytes of the events of a session and its subagents.
pub(crate) fn bytes(connection: &Connection, session_id: SessionId) -> Result<u64, Fault> {
    let Some(key) = sessions::key(connection, session_id)? else { return Ok(0) };
    let sql = "SELECT sum(octet_length(payload)) FROM events
         WHERE session = ?1 OR session IN (SELECT key FROM sessions WHERE parent = ?1)";
    let bytes: Option<i64> = value(connection, sql, [key])?;
    number_from(bytes.unwrap_or(0))
}

/// Returns the turns of a session, in the order in which they began.
pub(crate) fn turns(connection: &Connection, session_id: SessionId) -> Result<Vec<TurnSpan>, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let Some((session, last)) = sessions::head(&snapshot, session_id)? else { return Ok(Vec::new()) };
    let edge = |row: &Row<'_>| -> Result<(u64, String, String), Fault> {
        Ok((number_from(row.get("seq")?)?, text(row, "turn")?.to_owned(), text(row, "kind")?.to_owned()))
    };
    let edges = "SELECT seq, turn, kind FROM events WHERE kind IN ('turn_started', 'turn_ended') AND session = ?1";
    let found = match rows(&snapshot, &format!("{edges} ORDER BY seq"), [session], edge) {
        Err(fault) if fault.is_corrupt() => {
            let one = format!("{edges} AND seq = ?2");
            (1..=last).filter_map(|seq| first(&snapshot, &one, (session, bound(seq)), edge).ok().flatten()).collect()
        }
        found => found?,
    };
    Ok(spans(found))
}

/// Returns turns of top-level sessions that ended after position `after`. Removed sessions are excluded, because they
/// are their own parents. Turns before the mark of a fork are copies, and imported turns did not run on this machine,
/// so both are left out.
pub(crate) fn ended_turns(connection: &Connection, after: u64, limit: usize) -> Result<EndedTurns, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let end = snapshot.query_row("SELECT coalesce(max(key), 0) FROM events", [], |row| row.get(0))?;
    let sql = "SELECT events.key, sessions.id, events.turn, events.seq, events.at
         FROM events JOIN sessions ON sessions.key = events.session
         WHERE events.key > ?1 AND events.kind = 'turn_ended' AND events.turn IS NOT NULL AND sessions.parent IS NULL
            AND events.seq > coalesce((SELECT CASE WHEN json_valid(settings) THEN settings ->> '$.imported.events' END
                FROM session_state AS state WHERE state.session = sessions.key), 0)
            AND NOT EXISTS (SELECT 1 FROM events AS later WHERE later.session = events.session AND later.seq > events.seq
                AND later.kind = 'state_changed' AND later.payload LIKE '%\"state\":\"forked\"%')
         ORDER BY events.key LIMIT ?2";
    let turns = rows(&snapshot, sql, params![bound(after), bound(limit)], |row| {
        Ok(EndedTurn {
            place: number_from(row.get("key")?)?,
            session_id: id_from(text(row, "id")?)?,
            turn_id: id_from(text(row, "turn")?)?,
            seq: number_from(row.get("seq")?)?,
            at: time_from(row.get("at")?)?,
        })
    })?;
    Ok(EndedTurns { turns, end: number_from(end)? })
}

/// Builds turns from their starts and ends.
fn spans(edges: Vec<(u64, String, String)>) -> Vec<TurnSpan> {
    let mut spans: Vec<TurnSpan> = Vec::new();
    // Only a few turns are open at once: the running turn, and turns that were reported but never ran.
    let mut open: Vec<(String, usize)> = Vec::new();
    for (seq, turn, kind) in edges {
        if kind == "turn_started" {
            open.push((turn, spans.len()));
            spans.push(TurnSpan { began: seq, ended: None });
        } else if let Some(found) = open.iter().position(|(open, _)| *open == turn) {
            let (_, at) = open.swap_remove(found);
            spans[at].ended = Some(seq);
        }
    }
    spans
}

/// SQL condition that an item, a row with `session` and `seq`, was not withdrawn. The condition names the index, so
/// that a query plan that reads other events is an error.
macro_rules! not_withdrawn {
    ($row:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM events AS marks INDEXED BY withdrawn_items,
                json_each(CASE WHEN json_valid(marks.payload) THEN marks.payload END, '$.change.items') AS withdrawn
             WHERE marks.session = ", $row, ".session AND marks.kind = 'state_changed'
                AND CASE WHEN json_valid(marks.payload) THEN json_extract(marks.payload, '$.change.state') END = 'withdrawn'
                AND withdrawn.value = ", $row, ".seq)"
        )
    };
}
pub(crate) use not_withdrawn;

/// Numbers of completed items, read from the index alone. The query names the index, so that a query plan that reads
/// other events is an error instead of a slow start.
const ITEM_NUMBERS: &str = concat!(
    "SELECT seq FROM events INDEXED BY completed_items
     WHERE session = ?1 AND kind = 'item_completed' AND seq > ?2 AND seq < ?4 AND ",
    not_withdrawn!("events"),
    " ORDER BY seq DESC LIMIT ?3"
);

pub(crate) fn items_between(
    connection: &Connection,
    session_id: SessionId,
    after: u64,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<(u64, Item)>, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let Some((session, last)) = sessions::head(&snapshot, session_id)? else { return Ok(Vec::new()) };
    let end = before.map_or(i64::MAX, bound);
    let parameters = params![session, bound(after), bound(limit), end];
    let mut numbers = match rows(&snapshot, ITEM_NUMBERS, parameters, |row| number_from(row.get("seq")?)) {
        Err(fault) if fault.is_corrupt() => {
            let last = before.map_or(last, |before| last.min(before.saturating_sub(1)));
            damage::items_one_by_one(&snapshot, session, after..last, limit)
        }
        numbers => numbers?,
    };
    numbers.reverse();
    let payload = "SELECT turn, payload FROM events WHERE session = ?1 AND seq = ?2";
    let item = |seq: u64| -> Result<(u64, Item), Fault> {
        let read = |row: &Row<'_>| {
            Ok(match text(row, "payload").and_then(json_from) {
                Ok(EventKind::ItemCompleted { item, .. }) => item,
                _ => damaged_item(session_id, seq, text(row, "turn").and_then(id_from).ok()),
            })
        };
        let found = match first(&snapshot, payload, (session, bound(seq)), read) {
            Err(fault) if fault.is_corrupt() => None,
            found => found?,
        };
        Ok((seq, found.unwrap_or_else(|| damaged_item(session_id, seq, None))))
    };
    numbers.into_iter().map(item).collect()
}

/// Returns a placeholder for a damaged item, for the model and the user. The placeholder never quotes the stored text,
/// which may be private.
fn damaged_item(session_id: SessionId, seq: u64, turn_id: Option<TurnId>) -> Item {
    tracing::warn!(session = %session_id, seq, "skipping a damaged item");
    let text = format!("This item (event {seq}) is damaged on disk and omitted.");
    Item::new(turn_id.unwrap_or_else(TurnId::generate), ItemBody::notice(text))
}

pub(crate) fn state_file_changes(
    connection: &Connection,
    session_id: SessionId,
    before: u64,
    limit: usize,
) -> Result<Vec<(u64, StateFileChange)>, Fault> {
    let Some(session) = sessions::key(connection, session_id)? else { return Ok(Vec::new()) };
    // The query names the index, so that a query plan that reads other events is an error instead of a slow undo.
    let sql = "SELECT seq, payload FROM events INDEXED BY state_file_changes
         WHERE session = ?1 AND kind = 'state_changed'
            AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.change.state') END = 'file' AND seq < ?2
         ORDER BY seq DESC LIMIT ?3";
    rows(connection, sql, params![session, bound(before), bound(limit)], |row| {
        let seq = number_from(row.get("seq")?)?;
        match json_from(text(row, "payload")?)? {
            EventKind::StateChanged { change: StateChange::File(change) } => Ok((seq, change)),
            other => Err(Fault::Damaged(format!("event {seq} of session {session_id} is a {}", other.name()))),
        }
    })
}

/// Number of events read per query.
const PAGE: usize = 500;

/// Maximum number of damaged events listed per session.
const MAX_LISTED: usize = 100;

/// Session with events that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedSession {
    /// ID of the session. `None` if the session's own row cannot be read.
    pub id: Option<SessionId>,
    /// Numbers of the first unreadable events. Empty if the whole session cannot be read.
    pub events: Vec<u64>,
}

/// Returns the sessions with unreadable data.
pub(crate) fn damaged(connection: &Connection) -> Result<Vec<DamagedSession>, Fault> {
    let sql = "SELECT id FROM sessions WHERE parent IS NOT key ORDER BY key";
    let ids = rows(connection, sql, [], |row| Ok(text(row, "id").and_then(id_from).ok()))?;
    let unnamed = || Some(DamagedSession { id: None, events: Vec::new() });
    Ok(ids.into_iter().filter_map(|id| id.map_or_else(unnamed, |id| of(connection, id))).collect())
}

fn of(connection: &Connection, id: SessionId) -> Option<DamagedSession> {
    let unreadable = DamagedSession { id: Some(id), events: Vec::new() };
    if sessions::one(connection, id).is_err() {
        return Some(unreadable);
    }
    let mut events = Vec::new();
    let mut after = 0;
    while events.len() < MAX_LISTED {
        let Ok(page) = page(connection, id, after, PAGE) else { return Some(unreadable) };
        let Some(last) = page.last() else { break };
        after = last.seq;
        events.extend(page.iter().filter(|event| event.is_damaged()).map(|event| event.seq));
    }
    (!events.is_empty()).then_some(DamagedSession { id: Some(id), events })
}
