//! Records of the audit log for readers: one record per call, with the decision and the outcome.
//!
//! Also the result of verifying the log, with the problems found.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AuditFact, AuditHead, AuditLine, CallEnd, VerdictName};
use crate::ids::{SessionId, TurnId};

/// Line of the log that forms a record. The decision on a call is joined with the call's outcome.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Line of the log, with its number.
    #[serde(flatten)]
    pub line: AuditLine,
    /// State of the call. `None` if the line is not about a call.
    pub outcome: Option<CallOutcome>,
    /// End of the call, if the log contains it.
    pub ended: Option<RecordedEnd>,
}

/// Line that contains the end of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedEnd {
    /// Number of the log line.
    pub n: u64,
    /// Time at which the call ended.
    pub at: Timestamp,
    /// Details of the call's end.
    #[serde(flatten)]
    pub end: CallEnd,
}

names! {
    /// State of a call for which there is a decision.
    #[derive(Hash)]
    pub enum CallOutcome {
        /// The call ended without an error.
        Done = "done",
        /// The call failed, or could not run for a reason other than a refusal.
        Failed = "failed",
        /// The call was refused.
        Refused = "refused",
        /// The call has not ended yet.
        Open = "open",
        /// The daemon ended before the call. It is unknown whether the call took effect.
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
    /// Only records at or after this time.
    pub since: Option<Timestamp>,
    /// Only records with lower numbers than this. 0 for all records.
    pub before: u64,
    /// Maximum number of records. If there are more, the newest are returned.
    pub limit: usize,
}

impl RecordQuery {
    /// Returns true if the line matches. Ends of calls never match, because they belong to their decisions.
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditReport {
    /// Number of lines that were read.
    pub lines: u64,
    /// Files that were read, oldest first.
    pub files: Vec<String>,
    /// Last valid line. A copy that is stored elsewhere can later prove that no line up to this one was changed.
    pub head: AuditHead,
    /// Findings in the order of the lines. Empty if the log is intact.
    pub findings: Vec<AuditFinding>,
    /// Number of findings beyond those in `findings`.
    pub more: u64,
}

impl AuditReport {
    /// Returns true if the log is intact. Ignores recorded earlier damage that was moved out of the log.
    pub fn is_intact(&self) -> bool {
        self.more == 0 && self.findings.iter().all(|finding| finding.problem == AuditProblem::Recorded)
    }
}

/// Problem found in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFinding {
    /// Name of the file.
    pub file: String,
    /// Line in the file, starting at 1, or 0 if the finding is about the whole file.
    pub line: u64,
    /// Kind of the problem.
    pub problem: AuditProblem,
    /// Description as one sentence.
    pub message: String,
}

names! {
    /// Kind of problem in the log.
    #[derive(Hash)]
    pub enum AuditProblem {
        /// A line was changed after it was written.
        Changed = "changed",
        /// Text that is not a valid line.
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
        /// The witness file, which records the last line, is missing or damaged, so a missing end cannot be detected.
        NoWitness = "no_witness",
        /// A hash that was noted elsewhere is not in the log.
        NotedHashMissing = "noted_hash_missing",
        /// The log itself records earlier damage.
        Recorded = "recorded",
        /// A file of the log cannot be read.
        Unreadable = "unreadable",
    }
}
