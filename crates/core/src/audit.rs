//! The audit log's types: who requested a call, what was decided and by whom, and how the call ended.
//!
//! An [`AuditEntry`] is a fact as reported by the engine. The adapter of [`crate::ports::Audit`] redacts secrets,
//! truncates long values and chains the lines; that port documents the guarantees for a line. Readers receive one
//! [`AuditRecord`] per call, which includes the outcome.

mod record;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::record::{AuditFinding, AuditProblem, AuditRecord, AuditReport, CallOutcome, RecordQuery, RecordedEnd};

use crate::{
    ids::{CallId, SessionId, TraceId, TurnId},
    interrupt::{Answer, AnsweredBy},
    policy::Risk,
    settings::SessionMode,
    storage::CleanedData,
    tool::{FileChange, FileChangeKind, ToolErrorCode},
    turn::OnInterrupt,
};

/// Fact for the audit log with its context.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Time of the fact.
    pub at: Timestamp,
    /// ID that links the entry to the turn's logs and traces.
    pub trace_id: Option<TraceId>,
    /// Session to which the fact applies. `None` for facts about the daemon.
    pub session_id: Option<SessionId>,
    /// Turn to which the fact applies, if any.
    pub turn_id: Option<TurnId>,
    /// Tool call to which the fact applies, if any.
    pub call_id: Option<CallId>,
    /// Kind and details of the fact.
    #[serde(flatten)]
    pub fact: AuditFact,
}

impl AuditEntry {
    /// Creates an entry without a session, for facts about the daemon, the rules or the log itself.
    pub fn general(at: Timestamp, fact: AuditFact) -> Self {
        Self { at, trace_id: None, session_id: None, turn_id: None, call_id: None, fact }
    }

    /// Creates an entry for a fact about a session but not about a call.
    pub fn of_session(at: Timestamp, session_id: SessionId, fact: AuditFact) -> Self {
        Self { session_id: Some(session_id), ..Self::general(at, fact) }
    }
}

/// Kind of a recorded fact, with its details.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AuditFact {
    /// Decision on a call. Durable before a call that changes or runs anything starts.
    CallDecided(Box<Decision>),
    /// End of a call. If a call has a decision but no end, the daemon ended during the call, and it is unknown whether
    /// the call took effect.
    CallEnded(CallEnd),
    /// A call sent a request to the turn's model on behalf of a third party, such as an MCP server. Logged before the
    /// request is sent.
    ModelAsked {
        /// Name of the called tool.
        tool: String,
        /// ID of the model.
        model: String,
        /// Maximum answer length, in tokens.
        max_tokens: u64,
    },
    /// A user asked the session's model a question beside the turns. Logged before the request is sent.
    SideQuestion {
        /// Text of the question.
        question: String,
        /// ID of the model.
        model: String,
        /// Client that sent the question.
        by: AnsweredBy,
    },
    /// A rule was granted, so that matching calls run without a question.
    GrantAdded {
        /// Rule text as shown to the user.
        rule: String,
        /// Scope of the grant: `session` or `for_good`.
        scope: String,
        /// Client that granted the rule.
        by: AnsweredBy,
    },
    /// A granted rule was revoked.
    GrantRevoked {
        /// Rule text as shown to the user.
        rule: String,
        /// Scope of the grant: `session` or `for_good`.
        scope: String,
        /// Client that revoked the rule.
        by: AnsweredBy,
    },
    /// The session mode was changed.
    ModeSet {
        /// New mode of the session.
        mode: SessionMode,
        /// Client that set the mode.
        by: AnsweredBy,
    },
    /// A user made a session's read-only project writable, because a call would change it.
    ProjectMadeWritable {
        /// Path of the project.
        project: String,
        /// Client that approved it.
        by: AnsweredBy,
    },
    /// A user trusted the `.agentd/` of a project. Its instructions, agents, skills and commands are used from now on.
    ProjectTrusted {
        /// Real path of the project.
        project: String,
        /// SHA-256 of the trusted files.
        sha256: String,
        /// Client that granted the trust.
        by: AnsweredBy,
    },
    /// A user revoked the trust in a project's `.agentd/`.
    ProjectDistrusted {
        /// Real path of the project.
        project: String,
        /// Client that revoked the trust.
        by: AnsweredBy,
    },
    /// A user approved a plugin. Its skills, agents, commands and servers are used from now on.
    PluginAdded {
        /// Name of the plugin.
        plugin: String,
        /// SHA-256 of the approved files.
        sha256: String,
        /// Location from which the plugin was installed.
        source: String,
        /// Client that added the plugin.
        by: AnsweredBy,
    },
    /// A user removed a plugin.
    PluginRemoved {
        /// Name of the plugin.
        plugin: String,
        /// Client that removed the plugin.
        by: AnsweredBy,
    },
    /// A session was imported from a file. Logged before the session exists.
    SessionImported {
        /// Program that wrote the file, as named in the file.
        source: String,
        /// ID in the file, if a new one was assigned to the session.
        former_id: Option<SessionId>,
        /// Number of imported events, including those of subagents.
        events: u64,
        /// Client that imported the session.
        by: AnsweredBy,
    },
    /// File changes were undone.
    Undone {
        /// Turn whose changes were undone. `None` if a single call was undone.
        of_turn: Option<TurnId>,
        /// Effect of the undo on each file.
        files: Vec<ChangedFile>,
        /// Name of the requesting client, or `model`.
        by: String,
    },
    /// The daemon process has started.
    DaemonStarted {
        /// Version of the daemon.
        version: String,
        /// Process ID of the daemon.
        pid: u32,
    },
    /// The daemon shut down cleanly. A start without a preceding stop means that the daemon crashed.
    DaemonStopped {
        /// Process ID of the daemon.
        pid: u32,
    },
    /// The policy rules were loaded, at startup or by a reload.
    RulesRead {
        /// Sources of the rules, weakest first.
        sources: Vec<String>,
        /// SHA-256 of the rules, if there are any.
        sha256: Option<String>,
        /// Reason why the rules were rejected, if they are invalid. In this case, the previous rules stay in effect.
        problem: Option<String>,
    },
    /// The log itself was modified by another program. Only the log writes this fact.
    LogDamaged {
        /// Finding as one sentence.
        found: String,
        /// Number of bytes moved out of the log, or 0 if no bytes were moved.
        #[serde(default)]
        bytes: u64,
        /// SHA-256 of the moved bytes.
        sha256: Option<String>,
        /// File next to the log that contains the moved bytes.
        kept_as: Option<String>,
        /// Problem that persists, unless other lines of the log show it.
        problem: Option<AuditProblem>,
    },
    /// The log continues in a new file, whose first line is this fact. Only the log writes this fact.
    LogContinued {
        /// File that contains the preceding lines.
        previous: String,
    },
    /// The oldest file of the log is removed according to the configuration. Only the log writes this fact, before the
    /// removal.
    LogTrimmed {
        /// File name of the removed file.
        file: String,
        /// Last line of the removed file. Verification of the remaining log starts after this line.
        through: AuditHead,
        /// Size of the removed file, in bytes.
        bytes: u64,
    },
    /// Unused data was removed according to the configuration.
    Cleaned {
        /// Removed data by kind.
        parts: Vec<CleanedData>,
        /// Name of the requesting client, or `schedule`.
        by: String,
    },
}

impl AuditFact {
    /// Returns the `kind` of the fact in JSON.
    pub fn name(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json["kind"].as_str().unwrap_or_default().to_owned()
    }
}

/// Decision on a call, and its source.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Name of the tool.
    pub tool: String,
    /// Arguments as written by the model. A string if the arguments are not valid JSON.
    pub args: Value,
    /// Target of the path argument if the path led through a link at that time. The rules were evaluated for both
    /// paths. Lines of earlier versions lack this field.
    pub leads_to: Option<String>,
    /// Model and agent that requested the call.
    pub asked_by: Requester,
    /// Verdict of the rules.
    pub verdict: VerdictName,
    /// Layer of the matching rule, such as `global` or `tool`.
    pub layer: Option<String>,
    /// Rule that matched the call.
    pub rule: Option<String>,
    /// Risk of the call.
    pub risk: Option<Risk>,
    /// Reason shown to users or to the model.
    pub reason: Option<String>,
    /// True if the call may run.
    pub allowed: bool,
    /// Granted rules that allowed the call without a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted_by: Vec<String>,
    /// Source of the final decision.
    pub by: DecidedBy,
    /// Answer to the approval question, if there is one. An edit contains the arguments that replace those of the
    /// model.
    pub answer: Option<Answer>,
    /// Answer to the question that the call itself asked, if `answer` allowed this.
    pub reply: Option<Answer>,
}

/// Model and agent that requested a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Model ID as used by the model's server.
    pub model: String,
    /// Agent that requested the call. `main` for the session's main agent.
    pub agent: String,
}

/// Verdict of the rules without reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictName {
    /// The call may run.
    Allow,
    /// The user decides on the call.
    Ask,
    /// The call may not run.
    Deny,
}

/// Source of the final decision on a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The rules, without a question.
    Rules,
    /// A rule that was granted before.
    Grant,
    /// A client, identified by its self-reported name.
    Client(String),
    /// The deadline passed without an answer, so the default applied.
    Deadline,
    /// The client's policy for questions, specified at the start of the turn.
    OnInterrupt(OnInterrupt),
    /// The tool reported in advance that the call cannot succeed, so no question was asked.
    Tool,
    /// The daemon, because the turn ended before an answer or an error occurred.
    Daemon,
}

impl From<AnsweredBy> for DecidedBy {
    fn from(by: AnsweredBy) -> Self {
        match by {
            AnsweredBy::Client(name) => Self::Client(name),
            AnsweredBy::Deadline => Self::Deadline,
            AnsweredBy::Daemon => Self::Daemon,
        }
    }
}

/// Result of a finished call.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnd {
    /// Name of the tool.
    pub tool: String,
    /// True if the tool was started.
    pub ran: bool,
    /// Error code, if the call failed.
    pub error: Option<ToolErrorCode>,
    /// Exit code if the call was a command that no limit stopped, or 128 plus the signal number if a signal killed the
    /// command.
    pub exit_code: Option<i32>,
    /// Duration in milliseconds, including the time spent waiting for users.
    pub duration_ms: u64,
    /// Files that the call changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ChangedFile>,
    /// Output of the call. The log only stores the size and hash of the output.
    #[serde(skip)]
    pub output: String,
    /// Size of the output in bytes. Filled in by the log.
    #[serde(default)]
    pub output_bytes: u64,
    /// SHA-256 of the output after redaction. Filled in by the log.
    pub output_sha256: Option<String>,
}

/// Changed file with the kind of change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// File path in the form that tools use.
    pub path: String,
    /// Kind of the change.
    pub change: FileChangeKind,
}

impl From<&FileChange> for ChangedFile {
    fn from(file: &FileChange) -> Self {
        Self { path: file.path.clone(), change: file.change }
    }
}

/// Last line of the log, as number and hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// Number of the last line, starting at 1. 0 for an empty log.
    pub n: u64,
    /// Hash of the last line, in 64 hexadecimal digits.
    pub hash: String,
}

/// Line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Number of the line, starting at 1 without gaps.
    pub n: u64,
    /// Entry stored in the line.
    #[serde(flatten)]
    pub entry: AuditEntry,
}

#[cfg(test)]
mod tests;
