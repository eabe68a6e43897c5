//! What the log tells, put together for readers: each call once, with its decision and what came of it.
//!
//! Result of verifying the log: whether it holds, and what is wrong where it does not.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AuditFact, AuditHead, AuditLine, CallEnd, VerdictName};
use crate::ids::{SessionId, TurnId};

/// A line of the log that stands for itself, with what came of it where it is the decision on a call.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The line.
    #[serde(flatten)]
    pub line: AuditLine,
    /// State of the call; absent where the line is about something else.
    pub outcome: Option<CallOutcome>,
    /// The line that tells the call's end, where there is one.
    pub ended: Option<RecordedEnd>,
}

/// The line that tells a call's end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEnd {
    /// Its number.
    pub n: u64,
    /// When that was.
    pub at: Timestamp,
    /// End of the call.
    #[serde(flatten)]
    pub end: CallEnd,
}

names! {
    /// State of a call that was decided.
    #[derive(Hash)]
    pub enum CallOutcome {
        /// It did what it should.
        Done = "done",
        /// It failed, or could not run for another reason than a refusal.
        Failed = "failed",
        /// It was not let through.
        Refused = "refused",
        /// It has no end yet.
        Open = "open",
        /// The daemon ended before it did: it may have taken effect or not.
        Unknown = "unknown",
    }
}

impl CallOutcome {
    /// State of a call. `restarted` says whether the daemon was restarted since it was decided.
    pub fn of(allowed: bool, end: Option<&CallEnd>, restarted: bool) -> Self {
        match end {
            _ if !allowed => Self::Refused,
            Some(CallEnd { error: None, .. }) => Self::Done,
            Some(_) => Self::Failed,
            None if restarted => Self::Unknown,
            None => Self::Open,
        }
    }
}

/// Which records are wanted. What is said of calls leaves out all that is about something else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordQuery {
    /// Only those of this session.
    pub session_id: Option<SessionId>,
    /// Only calls of this turn.
    pub turn_id: Option<TurnId>,
    /// Only calls of this tool.
    pub tool: Option<String>,
    /// Only calls of which the rules said this.
    pub verdict: Option<VerdictName>,
    /// Only calls that were not let through, whoever refused them.
    pub refused: bool,
    /// Only from this moment on.
    pub since: Option<Timestamp>,
    /// Only those with numbers below this one; 0 for all.
    pub before: u64,
    /// At most so many: the newest.
    pub limit: usize,
}

impl RecordQuery {
    /// Returns whether the line is wanted. Ends of calls belong to their decisions and are no records of their own.
    pub fn wants(&self, line: &AuditLine) -> bool {
        let entry = &line.entry;
        let of_call = match &entry.fact {
            AuditFact::CallEnded(_) => return false,
            AuditFact::CallDecided(decision) => {
                self.turn_id.is_none_or(|id| entry.turn_id == Some(id))
                    && self.tool.as_ref().is_none_or(|tool| *tool == decision.tool)
                    && self.verdict.is_none_or(|verdict| verdict == decision.verdict)
                    && !(self.refused && decision.allowed)
            }
            _ => self.turn_id.is_none() && self.tool.is_none() && self.verdict.is_none() && !self.refused,
        };
        of_call
            && self.session_id.is_none_or(|id| entry.session_id == Some(id))
            && self.since.is_none_or(|since| entry.at >= since)
            && (self.before == 0 || line.n < self.before)
    }
}

/// Result of verifying the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditReport {
    /// The lines that were read.
    pub lines: u64,
    /// The files that were read, oldest first.
    pub files: Vec<String>,
    /// The last line that holds. Noted elsewhere, it proves later that nothing up to here was changed.
    pub head: AuditHead,
    /// Findings, in the order of the lines; none where the log holds.
    pub findings: Vec<AuditFinding>,
    /// Number of findings beyond those.
    pub more: u64,
}

impl AuditReport {
    /// Returns whether the log holds. That it tells of damage before, which was set aside then, is no damage now.
    pub fn holds(&self) -> bool {
        self.more == 0 && self.findings.iter().all(|finding| finding.problem == AuditProblem::Recorded)
    }
}

/// One thing that is wrong with the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFinding {
    /// The file.
    pub file: String,
    /// The line in the file, from 1; 0 where it is about the file as a whole.
    pub line: u64,
    /// The problem.
    pub problem: AuditProblem,
    /// One sentence.
    pub message: String,
}

names! {
    /// Problem of the log.
    #[derive(Hash)]
    pub enum AuditProblem {
        /// A line is not the one that was written.
        Changed = "changed",
        /// Something stands in the place of a line that is none.
        NotALine = "not_a_line",
        /// Lines are gone.
        Missing = "missing",
        /// A line stands where it was not written.
        OutOfOrder = "out_of_order",
        /// The first lines are gone.
        BeginningMissing = "beginning_missing",
        /// The last lines are gone.
        EndMissing = "end_missing",
        /// The last line is not whole.
        Torn = "torn",
        /// Lines were added by somebody else.
        Foreign = "foreign",
        /// The file that should name the last line is gone or damaged: whether the end is missing cannot be known.
        NoWitness = "no_witness",
        /// A hash that was noted elsewhere is not in the log.
        NotedHashMissing = "noted_hash_missing",
        /// The log itself tells that it was found damaged before.
        Recorded = "recorded",
        /// A file of the log cannot be read.
        Unreadable = "unreadable",
    }
}
