//! The table `usage`: what model calls took, summed up as they are stored.

use agentd_core::{
    Date,
    model::Slot,
    spending::{MAX_USAGE_GROUPS, UsageGroup, UsageGrouping, UsageQuery, UsageReport},
    usage::Usage,
};
use jiff::{Timestamp, tz::TimeZone};
use rusqlite::{Connection, Row, named_params, params};

use crate::{
    codec::{bound, first, id_from, limit, number_from, rows, run},
    error::Fault,
};

/// The session of calls that belong to none, or to one that is gone.
const NO_SESSION: i64 = 0;

/// A model call, as far as it is counted.
pub(crate) struct CountedCall<'a> {
    pub(crate) at: Timestamp,
    /// Key of the session of a person; none where the call belongs to no session.
    pub(crate) session: Option<i64>,
    pub(crate) slot: Slot,
    pub(crate) model: &'a str,
    pub(crate) usage: &'a Usage,
}

/// The end of an `INSERT` that adds to the sum that is there. Sums end at the largest integer.
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

/// Adds one call to the sum that it belongs to.
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
    run(connection, sql, values)?;
    Ok(())
}

fn day(at: Timestamp, zone: &TimeZone) -> Date {
    zone.to_datetime(at).date()
}

/// Keeps the numbers of a session that is gone, and nothing that names it.
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
    run(connection, "DELETE FROM usage WHERE session = ?1", [session])?;
    Ok(())
}

/// The columns of a sum over rows of `usage`. `total` never overflows, and is exact below 2^53.
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

/// Rows of these days, a group each, the dearest first.
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
        return Err(Fault::invalid("the last day of the usage is before the first"));
    }
    // All of it is read in one snapshot, or the groups would not add up to the total.
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
        // A session that is removed is its own parent until its row is gone.
        UsageGrouping::Session => select_sums!(
            "coalesce(sessions.id, '')",
            "coalesce(sessions.title, '')",
            "LEFT JOIN sessions ON sessions.key = usage.session AND sessions.parent IS NULL
             WHERE day BETWEEN ?1 AND ?2 GROUP BY 1
             ORDER BY 10 DESC NULLS LAST, total(prompt_tokens) + total(completion_tokens) DESC, 1 DESC LIMIT ?3"
        ),
    };
    let mut groups = rows(connection, sql, params![days.0, days.1, limit(usize::MAX)], |row| group(row, by))?;
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
