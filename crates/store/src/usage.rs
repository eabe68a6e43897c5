//! The table `usage`, with sums over model calls that are updated when calls are stored.
//!
//! Also the table `counters`, with sums over events; the table `counted`, with deleted sessions whose model calls were
//! counted, so that an imported copy is not counted again; and the table `audit_head`, with the last known head of the
//! audit log. Rows of `counted` contain digests of IDs, which reveal nothing without an archive of the session.

use agentd_core::{
    Date,
    audit::AuditHead,
    counters::{Counter, CounterKind, DayCounters, MAX_COUNTER_DAYS},
    event::{Event, EventKind},
    ids::SessionId,
    interrupt::{Answer, AnsweredBy, Ask},
    item::ItemBody,
    model::Slot,
    spending::{MAX_USAGE_GROUPS, UsageGroup, UsageGrouping, UsageQuery, UsageReport},
    tool::ToolErrorCode,
    usage::Usage,
};
use jiff::{Timestamp, tz::TimeZone};
use rusqlite::{Connection, Row, named_params, params};
use sha2::{Digest as _, Sha256};

use crate::codec::{Fault, bound, first, id_from, id_text, json_from, number, number_from, rows, run, value};

/// Key for calls outside of sessions and for calls of deleted sessions.
const NO_SESSION: i64 = 0;

/// Model call to be counted.
pub(crate) struct CountedCall<'a> {
    pub(crate) at: Timestamp,
    /// Key of the top-level session. `None` for a call outside of sessions.
    pub(crate) session: Option<i64>,
    pub(crate) slot: Slot,
    pub(crate) model: &'a str,
    pub(crate) usage: &'a Usage,
}

/// SQL suffix of an `INSERT` that adds to an existing sum. Sums saturate at the largest integer.
macro_rules! sum_up {
    () => {
        "ON CONFLICT (day, session, slot, model) DO UPDATE SET
            calls = min(calls + excluded.calls, 0x7fffffffffffffff),
            unpriced_calls = min(unpriced_calls + excluded.unpriced_calls, 0x7fffffffffffffff),
            prompt_tokens = min(prompt_tokens + excluded.prompt_tokens, 0x7fffffffffffffff),
            cached_tokens = min(cached_tokens + excluded.cached_tokens, 0x7fffffffffffffff),
            cache_write_tokens = min(cache_write_tokens + excluded.cache_write_tokens, 0x7fffffffffffffff),
            completion_tokens = min(completion_tokens + excluded.completion_tokens, 0x7fffffffffffffff),
            reasoning_tokens = min(reasoning_tokens + excluded.reasoning_tokens, 0x7fffffffffffffff),
            cost_microusd = coalesce(
                min(cost_microusd + excluded.cost_microusd, 0x7fffffffffffffff), cost_microusd, excluded.cost_microusd)"
    };
}

/// Adds one model call to its sum.
pub(crate) fn add(connection: &Connection, zone: &TimeZone, call: &CountedCall<'_>) -> Result<(), Fault> {
    let Usage { prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, .. } = *call.usage;
    let Usage { reasoning_tokens, cost_microusd, calls, unpriced_calls, .. } = *call.usage;
    let sql = concat!(
        "INSERT INTO usage (day, session, slot, model, calls, unpriced_calls, prompt_tokens, cached_tokens,
                cache_write_tokens, completion_tokens, reasoning_tokens, cost_microusd)
             VALUES (:day, :session, :slot, :model, :calls, :unpriced, :prompt, :cached, :written, :completion,
                :reasoning, :cost) ",
        sum_up!()
    );
    let values = named_params! {
        ":day": day(call.at, zone).to_string(),
        ":session": call.session.unwrap_or(NO_SESSION),
        ":slot": call.slot.as_str(),
        ":model": call.model,
        ":calls": bound(calls),
        ":unpriced": bound(unpriced_calls),
        ":prompt": bound(prompt_tokens),
        ":cached": bound(cached_tokens),
        ":written": bound(cache_write_tokens),
        ":completion": bound(completion_tokens),
        ":reasoning": bound(reasoning_tokens),
        ":cost": cost_microusd.map(bound),
    };
    run(connection, sql, values)
}

fn day(at: Timestamp, zone: &TimeZone) -> Date {
    zone.to_datetime(at).date()
}

/// Preserves the sums of a deleted session, but removes all data that identifies the session.
pub(crate) fn forget_session(connection: &Connection, session: i64) -> Result<(), Fault> {
    let sql = concat!(
        "INSERT INTO usage (day, session, slot, model, calls, unpriced_calls, prompt_tokens, cached_tokens,
                cache_write_tokens, completion_tokens, reasoning_tokens, cost_microusd)
             SELECT day, ?2, slot, model, calls, unpriced_calls, prompt_tokens, cached_tokens, cache_write_tokens,
                completion_tokens, reasoning_tokens, cost_microusd
             FROM usage INDEXED BY usage_by_session WHERE session = ?1 ",
        sum_up!()
    );
    run(connection, sql, params![session, NO_SESSION])?;
    run(connection, "DELETE FROM usage WHERE session = ?1", [session])
}

/// SQL columns for a sum over rows of `usage`. `total` never overflows, and is exact below 2^53.
macro_rules! select_sums {
    ($name:literal, $title:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $name,
            " AS name, ",
            $title,
            " AS title, cast(total(calls) AS INTEGER) AS calls, cast(total(unpriced_calls) AS INTEGER) AS unpriced_calls,
                cast(total(prompt_tokens) AS INTEGER) AS prompt_tokens,
                cast(total(cached_tokens) AS INTEGER) AS cached_tokens,
                cast(total(cache_write_tokens) AS INTEGER) AS cache_write_tokens,
                cast(total(completion_tokens) AS INTEGER) AS completion_tokens,
                cast(total(reasoning_tokens) AS INTEGER) AS reasoning_tokens,
                iif(count(cost_microusd) = 0, NULL, cast(total(cost_microusd) AS INTEGER)) AS cost_microusd,
                min(day) AS first
             FROM usage ",
            $rest
        )
    };
}

/// SQL for the rows in a range of days, grouped by `name`, most expensive first.
macro_rules! grouped_by {
    ($name:literal) => {
        select_sums!(
            $name,
            "''",
            "WHERE day BETWEEN ?1 AND ?2 GROUP BY 1
             ORDER BY 10 DESC NULLS LAST, total(prompt_tokens) + total(completion_tokens) DESC, 1 LIMIT ?3"
        )
    };
}

pub(crate) fn report(
    connection: &Connection,
    zone: &TimeZone,
    query: &UsageQuery,
    now: Timestamp,
) -> Result<UsageReport, Fault> {
    let (since, until) = query.days(day(now, zone));
    if since.is_some_and(|since| since > until) {
        return Err(Fault::invalid("the last day of the range is before the first day"));
    }
    // The query uses one snapshot. Otherwise, the groups might not add up to the total.
    let snapshot = connection.unchecked_transaction()?;
    let days = (since.map(|day| day.to_string()).unwrap_or_default(), until.to_string());
    let (total, first) = total(&snapshot, &days)?;
    let (groups, left_out) = groups(&snapshot, query.by, &days)?;
    Ok(UsageReport {
        since: since.or(first),
        until,
        time_zone: zone.iana_name().unwrap_or("local time").to_owned(),
        by: query.by,
        groups,
        left_out,
        total,
    })
}

fn total(connection: &Connection, days: &(String, String)) -> Result<(Usage, Option<Date>), Fault> {
    let sql = select_sums!("''", "''", "WHERE day BETWEEN ?1 AND ?2");
    let total = first(connection, sql, params![days.0, days.1], |row| {
        let first: Option<String> = row.get("first")?;
        Ok((usage(row)?, first.and_then(|day| day.parse().ok())))
    })?;
    Ok(total.unwrap_or_default())
}

fn groups(
    connection: &Connection,
    by: UsageGrouping,
    days: &(String, String),
) -> Result<(Vec<UsageGroup>, u64), Fault> {
    let sql = match by {
        UsageGrouping::Model => grouped_by!("model"),
        UsageGrouping::Slot => grouped_by!("slot"),
        UsageGrouping::Day => {
            select_sums!("day", "''", "WHERE day BETWEEN ?1 AND ?2 GROUP BY day ORDER BY day DESC LIMIT ?3")
        }
        // A removed session is its own parent until its row is deleted.
        UsageGrouping::Session => select_sums!(
            "coalesce(sessions.id, '')",
            "coalesce(sessions.title, '')",
            "LEFT JOIN sessions ON sessions.key = usage.session AND sessions.parent IS NULL
             WHERE day BETWEEN ?1 AND ?2 GROUP BY 1
             ORDER BY 10 DESC NULLS LAST, total(prompt_tokens) + total(completion_tokens) DESC, 1 DESC LIMIT ?3"
        ),
    };
    let mut groups = rows(connection, sql, params![days.0, days.1, i64::MAX], |row| group(row, by))?;
    let left_out = groups.len().saturating_sub(MAX_USAGE_GROUPS) as u64;
    groups.truncate(MAX_USAGE_GROUPS);
    if by == UsageGrouping::Day {
        groups.reverse();
    }
    Ok((groups, left_out))
}

fn group(row: &Row<'_>, by: UsageGrouping) -> Result<UsageGroup, Fault> {
    let mut name: String = row.get("name")?;
    if by == UsageGrouping::Session && !name.is_empty() {
        name = id_from::<agentd_core::ids::SessionId>(&name)?.to_string();
    }
    Ok(UsageGroup { name, title: row.get("title")?, usage: usage(row)? })
}

fn usage(row: &Row<'_>) -> Result<Usage, Fault> {
    let count = |column: &str| number_from(row.get(column)?);
    Ok(Usage {
        prompt_tokens: count("prompt_tokens")?,
        cached_tokens: count("cached_tokens")?,
        cache_write_tokens: count("cache_write_tokens")?,
        completion_tokens: count("completion_tokens")?,
        reasoning_tokens: count("reasoning_tokens")?,
        cost_microusd: row.get::<_, Option<i64>>("cost_microusd")?.map(number_from).transpose()?,
        calls: count("calls")?,
        unpriced_calls: count("unpriced_calls")?,
    })
}

/// Maximum length of a name with its own counter, in bytes.
const MAX_NAME: usize = 128;

/// Maximum number of names of one kind with their own counters per day. The number of names has no other limit, because
/// the set of tools changes.
const MAX_NAMES: i64 = 500;

/// Name of the counter for all other names.
const OTHER_NAMES: &str = "others";

/// Event to be counted.
pub(crate) struct CountedEvent<'a> {
    pub(crate) kind: CounterKind,
    pub(crate) name: &'a str,
    pub(crate) outcome: &'a str,
    pub(crate) milliseconds: u64,
}

/// Counts an event. Questions of subagents are skipped, because they are counted in the subagents' sessions.
pub(crate) fn count(connection: &Connection, zone: &TimeZone, event: &Event) -> Result<(), Fault> {
    let stop_reason;
    let counted = match &event.kind {
        EventKind::TurnEnded { result } => {
            stop_reason = serde_json::to_value(result.stop_reason).ok();
            let outcome = stop_reason.as_ref().and_then(|outcome| outcome.as_str()).unwrap_or_default();
            CountedEvent { kind: CounterKind::Turn, name: "", outcome, milliseconds: result.duration_ms }
        }
        EventKind::ItemCompleted { item, .. } => match &item.body {
            ItemBody::ToolResult(result) => CountedEvent {
                kind: CounterKind::Tool,
                // Models may call tools by arbitrary names.
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
            let Some((name, raised_at)) = question(connection, &id_text(interrupt_id.as_uuid()), event)? else {
                return Ok(());
            };
            let waited = event.at.duration_since(raised_at).as_millis();
            let milliseconds = u64::try_from(waited).unwrap_or_default();
            let (outcome, milliseconds) = match by {
                AnsweredBy::Client(_) => (outcome(answer), milliseconds),
                AnsweredBy::Deadline => ("deadline", milliseconds),
                // This wait is not counted, because the daemon may have been stopped for days.
                AnsweredBy::Daemon => ("withdrawn", 0),
            };
            CountedEvent { kind: CounterKind::Wait, name, outcome, milliseconds }
        }
        _ => return Ok(()),
    };
    add_event(connection, zone, event.at, &counted)
}

/// Returns the kind and the time of a question from this session.
fn question(connection: &Connection, id: &str, event: &Event) -> Result<Option<(&'static str, Timestamp)>, Fault> {
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

/// Increments the counter of an event.
pub(crate) fn add_event(
    connection: &Connection,
    zone: &TimeZone,
    at: Timestamp,
    counted: &CountedEvent<'_>,
) -> Result<(), Fault> {
    let CountedEvent { kind, name, outcome, milliseconds } = counted;
    let day = zone.to_datetime(at).date().to_string();
    let name = if has_own_counter(connection, &day, kind.as_str(), name)? { *name } else { OTHER_NAMES };
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
    run(connection, sql, values)
}

/// Returns true if a name gets its own counter. The name must be short, and must either already have a counter on that
/// day or be within the limit.
fn has_own_counter(connection: &Connection, day: &str, kind: &str, name: &str) -> Result<bool, Fault> {
    if name.is_empty() {
        return Ok(true);
    }
    if name.len() > MAX_NAME {
        return Ok(false);
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM counters WHERE day = ?1 AND kind = ?2 AND name = ?3)";
    if value(connection, sql, params![day, kind, name])? {
        return Ok(true);
    }
    let sql = "SELECT count(DISTINCT name) FROM counters WHERE day = ?1 AND kind = ?2";
    let names: i64 = value(connection, sql, params![day, kind])?;
    Ok(names < MAX_NAMES)
}

/// Returns the counters of a range of days, without empty days.
pub(crate) fn days(connection: &Connection, days: &(String, String)) -> Result<Vec<DayCounters>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT day, kind, name, outcome, count, milliseconds FROM counters WHERE day BETWEEN ?1 AND ?2
         ORDER BY day, kind, name, outcome LIMIT ?3",
    )?;
    let mut rows = statement.query(params![days.0, days.1, i64::MAX])?;
    let mut found: Vec<DayCounters> = Vec::new();
    while let Some(row) = rows.next()? {
        let (day, kind): (String, String) = (row.get("day")?, row.get("kind")?);
        // Counters of unknown kinds, as written by newer versions, are skipped.
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

/// Stored length of a digest in bytes.
const DIGEST: usize = 16;

/// Records that the calls of a session were counted up to its last event, before the session is deleted.
pub(crate) fn record_counted(connection: &Connection, key: i64) -> Result<(), Fault> {
    let sql = "SELECT id, last_seq FROM sessions WHERE key = ?1";
    let found: Option<(String, i64)> = first(connection, sql, [key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((id, last)) = found.filter(|(_, last)| *last > 0) else { return Ok(()) };
    let sql = "INSERT INTO counted (digest, through) VALUES (?1, ?2)
             ON CONFLICT (digest) DO UPDATE SET through = max(through, excluded.through)";
    run(connection, sql, params![digest(&id), last])
}

/// Returns the number of the last event of a session whose calls were counted before the session was deleted, or 0.
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
    run(connection, sql, params![number(head.n)?, head.hash])
}

pub(crate) fn noted_audit(connection: &Connection) -> Result<Option<AuditHead>, Fault> {
    let row = first(connection, "SELECT n, hash FROM audit_head", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    row.map(|(n, hash)| Ok(AuditHead { n: number_from(n)?, hash })).transpose()
}
