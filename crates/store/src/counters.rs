//! The table `counters`: what happened, summed up as it is stored. The table `counted`: deleted sessions whose model calls were
//! counted, so that one that comes back is not counted again; rows are digests of ids: who has no archive of a session learns
//! nothing from them. The table `audit_head`: how far the audit log was when the journal last heard of it.

use agentd_core::{
    audit::AuditHead,
    counters::{Counter, CounterKind, DayCounters, MAX_COUNTER_DAYS},
    event::{Event, EventKind},
    ids::SessionId,
    interrupt::{Answer, AnsweredBy, Ask},
    item::ItemBody,
    tool::ToolErrorCode,
};
use jiff::{Timestamp, tz::TimeZone};
use rusqlite::{Connection, named_params, params};
use sha2::{Digest as _, Sha256};

use crate::{
    codec::{bound, first, id_text, json_from, limit, number, number_from, run},
    error::Fault,
};

/// Longest name that is counted as itself, in bytes.
const LONGEST_NAME: usize = 128;

/// Names of one kind that are counted as themselves on one day. Tools of servers come and go, and nothing else bounds their names.
const MAX_NAMES: i64 = 500;

/// The name of all that have no room for their own.
const OTHERS: &str = "others";

/// Something to be counted.
pub(crate) struct CountedEvent<'a> {
    pub(crate) kind: CounterKind,
    pub(crate) name: &'a str,
    pub(crate) outcome: &'a str,
    pub(crate) milliseconds: u64,
}

/// Counts what an event tells. What other sessions asked for this one they have counted themselves.
pub(crate) fn count(connection: &Connection, zone: &TimeZone, event: &Event) -> Result<(), Fault> {
    let counted = match &event.kind {
        EventKind::TurnEnded { result } => {
            let outcome = serde_json::to_value(result.stop_reason).ok();
            let outcome = outcome.as_ref().and_then(|outcome| outcome.as_str()).unwrap_or_default().to_owned();
            let milliseconds = result.duration_ms;
            return add(
                connection,
                zone,
                event.at,
                &CountedEvent { kind: CounterKind::Turn, name: "", outcome: &outcome, milliseconds },
            );
        }
        EventKind::ItemCompleted { item, .. } => match &item.body {
            ItemBody::ToolResult(result) => CountedEvent {
                kind: CounterKind::Tool,
                // A model may call anything by any name.
                name: if result.error == Some(ToolErrorCode::UnknownTool) { "unknown" } else { &result.name },
                outcome: result.error.map_or("ok", ToolErrorCode::as_str),
                milliseconds: result.duration_ms,
            },
            _ => return Ok(()),
        },
        EventKind::Warning { code, .. } if !event.is_damaged() => {
            CountedEvent { kind: CounterKind::Warning, name: code, outcome: "", milliseconds: 0 }
        }
        EventKind::InterruptResolved { interrupt_id, answer, by, .. } => {
            let Some((name, raised_at)) = asked(connection, &id_text(interrupt_id.as_uuid()), event)? else {
                return Ok(());
            };
            let waited = event.at.duration_since(raised_at).as_millis();
            let milliseconds = u64::try_from(waited).unwrap_or_default();
            let (outcome, milliseconds) = match by {
                AnsweredBy::Client(_) => (outcome(answer), milliseconds),
                AnsweredBy::Deadline => ("deadline", milliseconds),
                // Nobody waited for an answer to the end: the daemon may have been off for days.
                AnsweredBy::Daemon => ("withdrawn", 0),
            };
            CountedEvent { kind: CounterKind::Wait, name, outcome, milliseconds }
        }
        _ => return Ok(()),
    };
    add(connection, zone, event.at, &counted)
}

/// The kind of a question of this session, and when it was asked.
fn asked(connection: &Connection, id: &str, event: &Event) -> Result<Option<(&'static str, Timestamp)>, Fault> {
    let sql = "SELECT interrupt FROM interrupts WHERE id = ?1";
    let found: Option<String> = first(connection, sql, [id], |row| Ok(row.get(0)?))?;
    let Some(interrupt) = found.map(|text| json_from::<agentd_core::interrupt::Interrupt>(&text)).transpose()? else {
        return Ok(None);
    };
    let name = match interrupt.ask {
        Ask::Approval { .. } => "approval",
        Ask::Question { .. } => "question",
    };
    Ok((interrupt.session_id == event.session_id).then_some((name, interrupt.raised_at)))
}

fn outcome(answer: &Answer) -> &'static str {
    match answer {
        Answer::Approve => "approve",
        Answer::Reject { .. } => "reject",
        Answer::Always { .. } | Answer::Keep { .. } => "always",
        Answer::Edit { .. } => "edit",
        Answer::Text { .. } => "text",
    }
}

/// Adds one to the counter that it belongs to.
pub(crate) fn add(
    connection: &Connection,
    zone: &TimeZone,
    at: Timestamp,
    counted: &CountedEvent<'_>,
) -> Result<(), Fault> {
    let CountedEvent { kind, name, outcome, milliseconds } = counted;
    let day = zone.to_datetime(at).date().to_string();
    let name = if has_room(connection, &day, kind.as_str(), name)? { *name } else { OTHERS };
    let sql = "INSERT INTO counters (day, kind, name, outcome, count, milliseconds)
             VALUES (:day, :kind, :name, :outcome, 1, :milliseconds)
             ON CONFLICT (day, kind, name, outcome) DO UPDATE SET
                count = min(count + 1, 0x7fffffffffffffff),
                milliseconds = min(milliseconds + excluded.milliseconds, 0x7fffffffffffffff)";
    let values = named_params! {
        ":day": day,
        ":kind": kind.as_str(),
        ":name": name,
        ":outcome": *outcome,
        ":milliseconds": bound(*milliseconds),
    };
    run(connection, sql, values)?;
    Ok(())
}

/// Returns whether a name is counted as itself: it is short, and known on that day or one of few.
fn has_room(connection: &Connection, day: &str, kind: &str, name: &str) -> Result<bool, Fault> {
    if name.is_empty() {
        return Ok(true);
    }
    if name.len() > LONGEST_NAME {
        return Ok(false);
    }
    let known: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM counters WHERE day = ?1 AND kind = ?2 AND name = ?3)")?
        .query_row(params![day, kind, name], |row| row.get(0))?;
    if known {
        return Ok(true);
    }
    let names: i64 = connection
        .prepare_cached("SELECT count(DISTINCT name) FROM counters WHERE day = ?1 AND kind = ?2")?
        .query_row(params![day, kind], |row| row.get(0))?;
    Ok(names < MAX_NAMES)
}

/// The counters of these days, day by day. Empty days are left out.
pub(crate) fn read(connection: &Connection, days: &(String, String)) -> Result<Vec<DayCounters>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT day, kind, name, outcome, count, milliseconds FROM counters WHERE day BETWEEN ?1 AND ?2
         ORDER BY day, kind, name, outcome LIMIT ?3",
    )?;
    let mut rows = statement.query(params![days.0, days.1, limit(usize::MAX)])?;
    let mut found: Vec<DayCounters> = Vec::new();
    while let Some(row) = rows.next()? {
        let (day, kind): (String, String) = (row.get("day")?, row.get("kind")?);
        // Of a newer version.
        let (Ok(day), Some(kind)) = (day.parse(), CounterKind::from_name(&kind)) else { continue };
        let number = |column: &str| row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or_default());
        let counter = Counter {
            kind,
            name: row.get("name")?,
            outcome: row.get("outcome")?,
            count: number("count")?,
            milliseconds: number("milliseconds")?,
        };
        match found.last_mut().filter(|last| last.day == day) {
            Some(last) => last.counters.push(counter),
            None => found.push(DayCounters { day, counters: vec![counter] }),
        }
    }
    let surplus = found.len().saturating_sub(MAX_COUNTER_DAYS);
    found.drain(..surplus);
    Ok(found)
}

/// Bytes of a digest that are kept.
const DIGEST: usize = 16;

/// Remembers that the calls of a session which goes were counted, up to its last event.
pub(crate) fn remember(connection: &Connection, key: i64) -> Result<(), Fault> {
    let sql = "SELECT id, last_seq FROM sessions WHERE key = ?1";
    let found: Option<(String, i64)> = first(connection, sql, [key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((id, last)) = found.filter(|(_, last)| *last > 0) else { return Ok(()) };
    let sql = "INSERT INTO counted (digest, through) VALUES (?1, ?2)
             ON CONFLICT (digest) DO UPDATE SET through = max(through, excluded.through)";
    run(connection, sql, params![digest(&id), last])?;
    Ok(())
}

/// Number of the last event of a session whose calls were counted before it was deleted; 0 where it never was.
pub(crate) fn through(connection: &Connection, id: SessionId) -> Result<u64, Fault> {
    let sql = "SELECT through FROM counted WHERE digest = ?1";
    let found: Option<i64> = first(connection, sql, [digest(&id_text(id.as_uuid()))], |row| Ok(row.get(0)?))?;
    found.map_or(Ok(0), number_from)
}

fn digest(id: &str) -> Vec<u8> {
    Sha256::digest(id.as_bytes())[..DIGEST].to_vec()
}

pub(crate) fn note_audit(connection: &Connection, head: &AuditHead) -> Result<(), Fault> {
    let sql = "INSERT INTO audit_head (one, n, hash) VALUES (1, ?1, ?2)
             ON CONFLICT DO UPDATE SET n = excluded.n, hash = excluded.hash";
    run(connection, sql, params![number(head.n)?, head.hash])?;
    Ok(())
}

pub(crate) fn noted_audit(connection: &Connection) -> Result<Option<AuditHead>, Fault> {
    let row = first(connection, "SELECT n, hash FROM audit_head", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    row.map(|(n, hash)| Ok(AuditHead { n: number_from(n)?, hash })).transpose()
}
