//! Records of the audit log for readers: each call once, with its decision and its outcome.
//!
//! Also the result of verifying the log: whether it is intact, and its problems if not.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AuditFact, AuditHead, AuditLine, CallEnd, VerdictName};
use crate::ids::{SessionId, TurnId};

/// A line of the log that forms a record. A decision on a call includes the outcome of the call.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The line of the log.
    #[serde(flatten)]
    pub line: AuditLine,
    /// State of the call. `None` if the line is not about a call.
    pub outcome: Option<CallOutcome>,
    /// End of the call, if it is in the log.
    pub ended: Option<RecordedEnd>,
}

/// The line with the end of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEnd {
    /// Number of the line.
    pub n: u64,
    /// Time of the end.
    pub at: Timestamp,
    /// Details of the end.
    #[serde(flatten)]
    pub end: CallEnd,
}

names! {
    /// State of a call that was decided.
    #[derive(Hash)]
    pub enum CallOutcome {
        /// The call ended without an error.
        Done = "done",
        /// The call failed, or could not run for a reason other than a refusal.
        Failed = "failed",
        /// The call was refused.
        Refused = "refused",
        /// The call has no end yet.
        Open = "open",
        /// The daemon ended before the call did. The call may or may not have taken effect.
        Unknown = "unknown",
    }
}

impl CallOutcome {
    /// Returns the state of a call. `restarted` is true if the daemon has restarted since the decision.
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

/// Filter for records. A filter on calls excludes all records that are not about calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordQuery {
    /// Only records of this session.
    pub session_id: Option<SessionId>,
    /// Only calls in this turn.
    pub turn_id: Option<TurnId>,
    /// Only calls to this tool.
    pub tool: Option<String>,
    /// Only calls with this verdict of the rules.
    pub verdict: Option<VerdictName>,
    /// Only calls that were refused for any reason.
    pub refused: bool,
    /// Only records from this time on.
    pub since: Option<Timestamp>,
    /// Only records with numbers below this; 0 for all.
    pub before: u64,
    /// Maximum number of records: the newest.
    pub limit: usize,
}

impl RecordQuery {
    /// Returns true if the line matches. Ends of calls belong to their decisions and never match.
    pub fn matches(&self, line: &AuditLine) -> bool {
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
    /// Number of lines that were read.
    pub lines: u64,
    /// Files that were read, oldest first.
    pub files: Vec<String>,
    /// The last valid line. A copy stored elsewhere can later prove that nothing up to this line was changed.
    pub head: AuditHead,
    /// Findings in the order of the lines; empty if the log is intact.
    pub findings: Vec<AuditFinding>,
    /// Number of findings beyond those in `findings`.
    pub more: u64,
}

impl AuditReport {
    /// Returns true if the log is intact. Records of earlier damage that was moved out of the log are ignored.
    pub fn is_intact(&self) -> bool {
        self.more == 0 && self.findings.iter().all(|finding| finding.problem == AuditProblem::Recorded)
    }
}

/// A problem in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFinding {
    /// Name of the file.
    pub file: String,
    /// Line in the file, from 1; 0 if the finding is about the whole file.
    pub line: u64,
    /// Kind of the problem.
    pub problem: AuditProblem,
    /// Description in one sentence.
    pub message: String,
}

names! {
    /// Kind of problem in the log.
    #[derive(Hash)]
    pub enum AuditProblem {
        /// A line differs from the one that was written.
        Changed = "changed",
        /// The text where a line is expected is not a valid line.
        NotALine = "not_a_line",
        /// Lines between others are missing.
        Missing = "missing",
        /// A line is not in its original position.
        OutOfOrder = "out_of_order",
        /// The first lines are missing.
        BeginningMissing = "beginning_missing",
        /// The last lines are missing.
        EndMissing = "end_missing",
        /// The last line is incomplete.
        Torn = "torn",
        /// Lines were added by another program.
        Foreign = "foreign",
        /// The file that names the last line is missing or damaged, so whether the end is missing cannot be determined.
        NoWitness = "no_witness",
        /// A hash that was noted elsewhere is not in the log.
        NotedHashMissing = "noted_hash_missing",
        /// The log itself records earlier damage.
        Recorded = "recorded",
        /// A file of the log cannot be read.
        Unreadable = "unreadable",
    }
}
