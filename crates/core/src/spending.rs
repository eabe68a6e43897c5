//! Usage of model calls over all sessions: query and report.

use std::str::FromStr;

use jiff::{Timestamp, civil::Date};
use serde::{Deserialize, Serialize};

use crate::{ids::SessionId, model::Slot, usage::Usage};

/// Usage of a model call outside of sessions, such as a test of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct SideUsage {
    /// Time of the call.
    pub at: Timestamp,
    /// Slot of the call.
    pub slot: Slot,
    /// Id of the model that answered.
    pub model: String,
    /// Usage of the call.
    pub usage: Usage,
}

/// Query for usage. Days are in the daemon's time zone at the time of the calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageQuery {
    /// Number of days, up to and including today; overrides `since`.
    pub last_days: Option<u32>,
    /// First day. `None` for the first day with usage.
    pub since: Option<Date>,
    /// Last day, inclusive. `None` for today.
    pub until: Option<Date>,
    /// Grouping of the report.
    pub by: UsageGrouping,
}

impl UsageQuery {
    /// Returns the first and the last day of the query, given the current day.
    pub fn days(&self, today: Date) -> (Option<Date>, Date) {
        let first_day_of_last = |days: u32| {
            let days = i64::from(days.saturating_sub(1));
            today.checked_sub(jiff::Span::new().try_days(days).ok()?).ok()
        };
        (self.last_days.map_or(self.since, first_day_of_last), self.until.unwrap_or(today))
    }
}

/// Maximum number of groups of a [`UsageReport`].
pub const MAX_USAGE_GROUPS: usize = 5_000;

names! {
    /// Grouping of a usage report.
    #[derive(Default)]
    pub enum UsageGrouping {
        /// By the id of the model.
        #[default]
        Model = "model",
        /// By session. Usage of subagents is included in their parent session.
        Session = "session",
        /// By day of the calls.
        Day = "day",
        /// By slot of the model.
        Slot = "slot",
    }
}

impl FromStr for UsageGrouping {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::from_name(name).ok_or_else(|| format!("cannot group usage by {name:?}; use model, session, day or slot"))
    }
}

/// Answer to a [`UsageQuery`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// First requested day, or the first day with usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Date>,
    /// Last day of the report, inclusive.
    pub until: Date,
    /// Name of the time zone for the days.
    pub time_zone: String,
    /// Grouping of the report.
    pub by: UsageGrouping,
    /// Groups: days in order, all others by descending cost, then by descending tokens.
    pub groups: Vec<UsageGroup>,
    /// Number of omitted groups beyond [`MAX_USAGE_GROUPS`]. The total includes them.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub left_out: u64,
    /// Sum over all groups.
    pub total: Usage,
}

/// Usage of one model, session, day or slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageGroup {
    /// Model id, session id, day or slot; empty for calls of deleted sessions and calls outside of sessions.
    pub name: String,
    /// Title of the session, if the group is a session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Usage of the group's calls.
    pub usage: Usage,
}

impl UsageGroup {
    /// Returns the session's id, if the group is a session that still exists.
    pub fn session(&self) -> Option<SessionId> {
        self.name.parse().ok()
    }
}
