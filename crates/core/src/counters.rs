//! Counters of what happened over all sessions, by day.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

names! {
    /// Kind of what is counted.
    #[derive(PartialOrd, Ord)]
    pub enum CounterKind {
        /// Turns that ended, by their stop reason. The time is that of the turns.
        Turn = "turn",
        /// Tool calls that ended, by tool, with `ok` or their error code. The time is that of the calls.
        Tool = "tool",
        /// Questions to people that were answered, by their kind, with the kind of the answer. The time is how long they waited.
        Wait = "wait",
        /// Warnings, by their code.
        Warning = "warning",
        /// Starts of the daemon: `clean`, or `unclean` where the stop before it was none.
        Start = "start",
    }
}

/// A counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Kind of what is counted.
    pub kind: CounterKind,
    /// Name of it; empty where its kind has none.
    pub name: String,
    /// Outcome; empty where its kind has none.
    pub outcome: String,
    /// Number of them.
    pub count: u64,
    /// Time of all of them together.
    pub milliseconds: u64,
}

/// Counters of one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayCounters {
    /// The day, in the daemon's time zone.
    pub day: Date,
    /// Its counters, by kind, name and outcome.
    pub counters: Vec<Counter>,
}

/// Most days of one report.
pub const MAX_COUNTER_DAYS: usize = 3660;
