//! Usage of model calls over all sessions: the question about it, and the answer.

use std::str::FromStr;

use jiff::{Timestamp, civil::Date};
use serde::{Deserialize, Serialize};

use crate::{ids::SessionId, model::Slot, usage::Usage};

/// Usage of a model call that belongs to no session, such as one of a test of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct SideUsage {
    /// When it was made.
    pub at: Timestamp,
    /// The slot that was asked.
    pub slot: Slot,
    /// The model that answered.
    pub model: String,
    /// Usage of the call.
    pub usage: Usage,
}

/// Question about usage. Days are those of the daemon's time zone when the calls were made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageQuery {
    /// Number of days up to today, today included; wins over `since`.
    pub last_days: Option<u32>,
    /// The first day; the first of all where absent.
    pub since: Option<Date>,
    /// The last day, which is included; today where absent.
    pub until: Option<Date>,
    /// Grouping.
    pub by: UsageGrouping,
}

impl UsageQuery {
    /// The first and the last day that are asked for, where it is `today`.
    pub fn days(&self, today: Date) -> (Option<Date>, Date) {
        let back = |days: u32| {
            let days = i64::from(days.saturating_sub(1));
            today.checked_sub(jiff::Span::new().try_days(days).ok()?).ok()
        };
        (self.last_days.map_or(self.since, back), self.until.unwrap_or(today))
    }
}

/// Largest number of groups of a [`UsageReport`].
pub const MAX_USAGE_GROUPS: usize = 5_000;

names! {
    /// Grouping of usage.
    #[derive(Default)]
    pub enum UsageGrouping {
        /// By the id of the model.
        #[default]
        Model = "model",
        /// By the session of a person; those that work for it count as it.
        Session = "session",
        /// By the day.
        Day = "day",
        /// By the slot.
        Slot = "slot",
    }
}

impl FromStr for UsageGrouping {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::from_name(name)
            .ok_or_else(|| format!("usage is not grouped by {name:?}; it is by model, session, day or slot"))
    }
}

/// Answer to a [`UsageQuery`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// The first day that was asked for, or the first that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Date>,
    /// The last day.
    pub until: Date,
    /// Name of the time zone of the days.
    pub time_zone: String,
    /// Grouping.
    pub by: UsageGrouping,
    /// The groups: days in their order, all others by money, then by tokens, the most first.
    pub groups: Vec<UsageGroup>,
    /// Groups that are left out, since there are more than [`MAX_USAGE_GROUPS`]. They are in the total.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub left_out: u64,
    /// Sum over all groups.
    pub total: Usage,
}

/// Usage of one model, session, day or slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageGroup {
    /// The model's id, the session's id, the day or the slot; empty for calls of deleted sessions and of none.
    pub name: String,
    /// Title of the session, where it is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Usage of its calls.
    pub usage: Usage,
}

impl UsageGroup {
    /// The session, where it is one that is still there.
    pub fn session(&self) -> Option<SessionId> {
        self.name.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_days_end_today() {
        let today: Date = "2026-03-01".parse().unwrap();
        let check = |last_days, since: Option<&str>, until: Option<&str>, days: (Option<&str>, &str)| {
            let day = |text: &str| text.parse::<Date>().unwrap();
            let query =
                UsageQuery { last_days, since: since.map(day), until: until.map(day), by: UsageGrouping::Model };
            assert_eq!(query.days(today), (days.0.map(day), day(days.1)));
        };
        check(Some(1), None, None, (Some("2026-03-01"), "2026-03-01"));
        check(Some(7), Some("2020-01-01"), None, (Some("2026-02-23"), "2026-03-01"));
        check(None, None, None, (None, "2026-03-01"));
        check(None, Some("2026-01-01"), Some("2026-01-31"), (Some("2026-01-01"), "2026-01-31"));
        // Before all calendars is from the first day on.
        check(Some(u32::MAX), None, None, (None, "2026-03-01"));
    }
}
