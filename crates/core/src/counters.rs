//! Daily counters over all sessions.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

names! {
    /// Kind of counted event.
    #[derive(PartialOrd, Ord)]
    pub enum CounterKind {
        /// Ended turns, by stop reason. The time is the duration of the turns.
        Turn = "turn",
        /// Ended tool calls by tool, with `ok` or an error code. The time is the duration of the calls.
        Tool = "tool",
        /// Answered questions to users by kind, with the kind of the answer. The time is the waiting time until the
        /// answer.
        Wait = "wait",
        /// Warnings, by warning code.
        Warning = "warning",
        /// Starts of the daemon: `clean`, or `unclean` if the previous run did not shut down cleanly.
        Start = "start",
    }
}

/// Counter for one kind, name and outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Kind of counted event.
    pub kind: CounterKind,
    /// Name within the kind. Empty if the kind has no names.
    pub name: String,
    /// Outcome of the events. Empty if the kind has no outcomes.
    pub outcome: String,
    /// Number of counted events.
    pub count: u64,
    /// Total duration of these events, in milliseconds.
    pub milliseconds: u64,
}

/// Counters of one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayCounters {
    /// Day in the daemon's time zone.
    pub day: Date,
    /// Counters of the day, by kind, name and outcome.
    pub counters: Vec<Counter>,
}

/// Maximum number of days in one report.
pub const MAX_COUNTER_DAYS: usize = 3660;
