//! Verdicts: what the rules say of a tool call.

use serde::{Deserialize, Serialize};

/// How much harm a call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Looks, changes nothing.
    Low,
    /// Changes what can be changed back.
    Medium,
    /// Runs code or changes what is hard to restore.
    High,
    /// May destroy or leak.
    Critical,
}

/// What the rules say. The order is from mild to strict, so that the strictest is the greatest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person decides.
    Ask {
        /// How much harm it may do.
        risk: Risk,
        /// Why it is asked.
        reason: String,
    },
    /// It may not run, whoever asks.
    Deny {
        /// What the model is told.
        reason: String,
    },
}
