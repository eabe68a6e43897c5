//! Tokens and money.

use agentd_core::{
    Date,
    counters::{Counter, CounterKind, DayCounters},
    spending::{UsageGroup, UsageGrouping, UsageQuery, UsageReport},
    usage::{CallTiming, Usage},
};

use super::{WireError, required, same_fields};
use crate::v1;

same_fields! {
    Usage: prompt_tokens cached_tokens cache_write_tokens completion_tokens reasoning_tokens cost_microusd calls unpriced_calls
}
same_fields! { CallTiming: first_token_ms duration_ms }

/// A question for the wire.
pub(crate) fn usage_query_to_wire(query: &UsageQuery) -> v1::ShowSpendingRequest {
    v1::ShowSpendingRequest {
        last_days: query.last_days,
        since: query.since.map(|day| day.to_string()),
        until: query.until.map(|day| day.to_string()),
        by: query.by.as_str().to_owned(),
    }
}

/// A question from the wire.
///
/// # Errors
/// When a day is none, or the grouping is not known.
pub fn usage_query(request: &v1::ShowSpendingRequest) -> Result<UsageQuery, WireError> {
    let by = match request.by.as_str() {
        "" => UsageGrouping::default(),
        name => grouping(name)?,
    };
    Ok(UsageQuery {
        last_days: request.last_days,
        since: request.since.as_deref().map(|text| day(text, "since")).transpose()?,
        until: request.until.as_deref().map(|text| day(text, "until")).transpose()?,
        by,
    })
}

fn grouping(name: &str) -> Result<UsageGrouping, WireError> {
    name.parse().map_err(|_| WireError::Value { what: "by", problem: "is not model, session, day or slot" })
}

fn day(text: &str, what: &'static str) -> Result<Date, WireError> {
    text.parse().map_err(|_| WireError::Value { what, problem: "is not a day such as 2026-11-25" })
}

/// The days of a question from the wire.
///
/// # Errors
/// When a day is none.
pub fn counter_days(request: &v1::CountersRequest) -> Result<(Option<Date>, Option<Date>), WireError> {
    let since = request.since.as_deref().map(|text| day(text, "since")).transpose()?;
    Ok((since, request.until.as_deref().map(|text| day(text, "until")).transpose()?))
}

impl From<&DayCounters> for v1::DayCounters {
    fn from(counters: &DayCounters) -> Self {
        let counter = |counter: &Counter| v1::Counter {
            kind: counter.kind.as_str().to_owned(),
            name: counter.name.clone(),
            outcome: counter.outcome.clone(),
            count: counter.count,
            milliseconds: counter.milliseconds,
        };
        Self { day: counters.day.to_string(), counters: counters.counters.iter().map(counter).collect() }
    }
}

impl TryFrom<v1::DayCounters> for DayCounters {
    type Error = WireError;

    fn try_from(counters: v1::DayCounters) -> Result<Self, WireError> {
        // Kinds of a newer daemon are left out.
        let counter = |counter: v1::Counter| {
            let v1::Counter { kind, name, outcome, count, milliseconds } = counter;
            CounterKind::named(&kind).map(|kind| Counter { kind, name, outcome, count, milliseconds })
        };
        let day = day(&counters.day, "day")?;
        Ok(Self { day, counters: counters.counters.into_iter().filter_map(counter).collect() })
    }
}

impl From<&UsageReport> for v1::ShowSpendingResponse {
    fn from(report: &UsageReport) -> Self {
        let group = |group: &UsageGroup| v1::SpendingGroup {
            name: group.name.clone(),
            title: group.title.clone(),
            usage: Some((&group.usage).into()),
        };
        Self {
            since: report.since.map(|day| day.to_string()),
            until: report.until.to_string(),
            time_zone: report.time_zone.clone(),
            by: report.by.as_str().to_owned(),
            groups: report.groups.iter().map(group).collect(),
            left_out: report.left_out,
            total: Some((&report.total).into()),
        }
    }
}

impl TryFrom<v1::ShowSpendingResponse> for UsageReport {
    type Error = WireError;

    fn try_from(response: v1::ShowSpendingResponse) -> Result<Self, WireError> {
        let group = |group: v1::SpendingGroup| {
            let usage = required(group.usage, "the usage of a group")?.into();
            Ok(UsageGroup { name: group.name, title: group.title, usage })
        };
        Ok(Self {
            since: response.since.as_deref().map(|text| day(text, "since")).transpose()?,
            until: day(&response.until, "until")?,
            time_zone: response.time_zone,
            by: grouping(&response.by)?,
            groups: response.groups.into_iter().map(group).collect::<Result<_, WireError>>()?,
            left_out: response.left_out,
            total: required(response.total, "the total")?.into(),
        })
    }
}
