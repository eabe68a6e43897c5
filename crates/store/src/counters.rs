//! The table `counters`: what happened, summed up as it is stored.

use agentd_core::{
    counters::{Counter, CounterKind, DayCounters, MAX_COUNTER_DAYS},
    event::{Event, EventKind},
    interrupt::{Answer, AnsweredBy, Ask},
    item::ItemBody,
    tool::ToolErrorCode,
};
use jiff::{Timestamp, tz::TimeZone};
use rusqlite::{Connection, OptionalExtension as _, named_params, params};

use crate::{
    codec::{bound, id_text, json_from, limit},
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
    let found: Option<String> = connection
        .prepare_cached("SELECT interrupt FROM interrupts WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
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
    connection
        .prepare_cached(
            "INSERT INTO counters (day, kind, name, outcome, count, milliseconds)
             VALUES (:day, :kind, :name, :outcome, 1, :milliseconds)
             ON CONFLICT (day, kind, name, outcome) DO UPDATE SET
                count = min(count + 1, 0x7fffffffffffffff),
                milliseconds = min(milliseconds + excluded.milliseconds, 0x7fffffffffffffff)",
        )?
        .execute(named_params! {
            ":day": day,
            ":kind": kind.as_str(),
            ":name": name,
            ":outcome": *outcome,
            ":milliseconds": bound(*milliseconds),
        })?;
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
        let (Ok(day), Some(kind)) = (day.parse(), CounterKind::named(&kind)) else { continue };
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
