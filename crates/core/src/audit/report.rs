//! Result of verifying the log: whether it holds, and what is wrong where it does not.

use serde::{Deserialize, Serialize};

use super::AuditHead;

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
    #[must_use]
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

/// Problem of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditProblem {
    /// A line is not the one that was written.
    Changed,
    /// Something stands in the place of a line that is none.
    NotALine,
    /// Lines are gone.
    Missing,
    /// A line stands where it was not written.
    OutOfOrder,
    /// The first lines are gone.
    BeginningMissing,
    /// The last lines are gone.
    EndMissing,
    /// The last line is not whole.
    Torn,
    /// Lines were added by somebody else.
    Foreign,
    /// The file that should name the last line is gone or damaged: whether the end is missing cannot be known.
    NoWitness,
    /// A hash that was noted elsewhere is not in the log.
    NotedHashMissing,
    /// The log itself tells that it was found damaged before.
    Recorded,
    /// A file of the log cannot be read.
    Unreadable,
}

impl AuditProblem {
    pub(super) const ALL: [Self; 12] = [
        Self::Changed,
        Self::NotALine,
        Self::Missing,
        Self::OutOfOrder,
        Self::BeginningMissing,
        Self::EndMissing,
        Self::Torn,
        Self::Foreign,
        Self::NoWitness,
        Self::NotedHashMissing,
        Self::Recorded,
        Self::Unreadable,
    ];

    /// Its stable name, as JSON has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::NotALine => "not_a_line",
            Self::Missing => "missing",
            Self::OutOfOrder => "out_of_order",
            Self::BeginningMissing => "beginning_missing",
            Self::EndMissing => "end_missing",
            Self::Torn => "torn",
            Self::Foreign => "foreign",
            Self::NoWitness => "no_witness",
            Self::NotedHashMissing => "noted_hash_missing",
            Self::Recorded => "recorded",
            Self::Unreadable => "unreadable",
        }
    }

    /// The problem of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|problem| problem.as_str() == name)
    }
}
