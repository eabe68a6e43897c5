//! The audit log's types: who requested a call, what was decided and by whom, and how the call ended.
//!
//! An [`AuditEntry`] is a fact as the engine knows it. The adapter of [`crate::ports::Audit`] redacts secrets,
//! truncates long values and chains the lines; see there for the guarantees of a line. Readers get an [`AuditRecord`]:
//! one per call, with its outcome.

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

/// One fact for the audit log.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Time of the fact.
    pub at: Timestamp,
    /// Id that links it to the turn's logs and traces.
    pub trace_id: Option<TraceId>,
    /// Session of the fact. `None` for facts about the daemon.
    pub session_id: Option<SessionId>,
    /// Turn of the fact, if any.
    pub turn_id: Option<TurnId>,
    /// Tool call of the fact, if any.
    pub call_id: Option<CallId>,
    /// Kind and details of the fact.
    #[serde(flatten)]
    pub fact: AuditFact,
}

impl AuditEntry {
    /// Creates an entry without a session, about the daemon, the rules or the log itself.
    pub fn general(at: Timestamp, fact: AuditFact) -> Self {
        Self { at, trace_id: None, session_id: None, turn_id: None, call_id: None, fact }
    }

    /// Creates an entry about a session but not about a call.
    pub fn of_session(at: Timestamp, session_id: SessionId, fact: AuditFact) -> Self {
        Self { session_id: Some(session_id), ..Self::general(at, fact) }
    }
}

/// Kind of a recorded fact, with its details.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AuditFact {
    /// Decision on a call. It is durable before a call that changes or runs anything begins.
    CallDecided(Box<Decision>),
    /// End of a call. A call with a decision but without an end was cut off when the daemon ended; whether it took
    /// effect is unknown.
    CallEnded(CallEnd),
    /// A call sent a request to the turn's model on behalf of a third party, such as an MCP server. Logged before the
    /// request is sent.
    ModelAsked {
        /// Name of the called tool.
        tool: String,
        /// Id of the model.
        model: String,
        /// Maximum number of tokens of the answer.
        max_tokens: u64,
    },
    /// A rule was granted, so that matching calls run without a question.
    GrantAdded {
        /// The rule as it was shown.
        rule: String,
        /// Scope of the grant: `session` or `for_good`.
        scope: String,
        /// Client that granted it.
        by: AnsweredBy,
    },
    /// A granted rule was revoked.
    GrantRevoked {
        /// The rule as it was shown.
        rule: String,
        /// Scope of the grant: `session` or `for_good`.
        scope: String,
        /// Client that revoked it.
        by: AnsweredBy,
    },
    /// The mode of a session was changed.
    ModeSet {
        /// Mode of the session from then on.
        mode: SessionMode,
        /// Client that set it.
        by: AnsweredBy,
    },
    /// A user trusted the `.agentd/` of a project: its instructions, agents, skills and commands are used.
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
    /// A user approved a plugin: its skills, agents, commands and servers are used.
    PluginAdded {
        /// Name of the plugin.
        plugin: String,
        /// SHA-256 of the approved files.
        sha256: String,
        /// Location from which it was installed.
        source: String,
        /// Client that added it.
        by: AnsweredBy,
    },
    /// A user removed a plugin.
    PluginRemoved {
        /// Name of the plugin.
        plugin: String,
        /// Client that removed it.
        by: AnsweredBy,
    },
    /// A session was imported from a file. Logged before the session exists.
    SessionImported {
        /// Program that wrote the file, as named in the file.
        source: String,
        /// Id in the file, if the session got a new one.
        former_id: Option<SessionId>,
        /// Number of its events, including those of its subagents.
        events: u64,
        /// Client that imported it.
        by: AnsweredBy,
    },
    /// File changes were undone.
    Undone {
        /// Turn whose changes were undone. `None` if it was a single call.
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
        /// Process id of the daemon.
        pid: u32,
    },
    /// The daemon shut down cleanly. A start without a preceding stop means that it crashed.
    DaemonStopped {
        /// Process id of the daemon.
        pid: u32,
    },
    /// The policy rules were loaded, at the start or on reload.
    RulesRead {
        /// Sources of the rules, weakest first.
        sources: Vec<String>,
        /// SHA-256 of the rules, if there were any.
        sha256: Option<String>,
        /// Why they were rejected, if they are invalid. The previous rules stay in force.
        problem: Option<String>,
    },
    /// The log itself was found modified. Written only by the log.
    LogDamaged {
        /// The finding in one sentence.
        found: String,
        /// Number of bytes moved out of the log; 0 if none were.
        #[serde(default)]
        bytes: u64,
        /// SHA-256 of the bytes that were moved out.
        sha256: Option<String>,
        /// File next to the log that now holds these bytes.
        kept_as: Option<String>,
        /// Problem that persists, if nothing else in the log shows it.
        problem: Option<AuditProblem>,
    },
    /// The log continues in a new file. First line of that file; written only by the log.
    LogContinued {
        /// File with the preceding lines.
        previous: String,
    },
    /// The oldest file of the log is removed, as configured. Written before the removal, and only by the log.
    LogTrimmed {
        /// Name of the removed file.
        file: String,
        /// Its last line. The remaining log is verified starting from it.
        through: AuditHead,
        /// Size of the file in bytes.
        bytes: u64,
    },
    /// Unused data was removed, as configured.
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

/// The decision on a call, and who made it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Name of the tool.
    pub tool: String,
    /// Arguments that the model wrote; a string if they are not valid JSON.
    pub args: Value,
    /// Target of the path argument if it led through a link at that time: the call was judged under both names. Lines
    /// of earlier versions lack it.
    pub leads_to: Option<String>,
    /// Model and agent that requested the call.
    pub asked_by: Requester,
    /// Verdict of the rules.
    pub verdict: VerdictName,
    /// Layer of the rule that matched, such as `global` or `tool`.
    pub layer: Option<String>,
    /// Rule that matched the call.
    pub rule: Option<String>,
    /// Risk of the call.
    pub risk: Option<Risk>,
    /// Reason, as shown to users or the model.
    pub reason: Option<String>,
    /// True if the call may run.
    pub allowed: bool,
    /// Granted rules that let it run without a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted_by: Vec<String>,
    /// Source of the final decision.
    pub by: DecidedBy,
    /// The answer, if one was given. An edit has the arguments that replace those of the model.
    pub answer: Option<Answer>,
    /// Answer to the call's own question, if `answer` allowed it to ask.
    pub reply: Option<Answer>,
}

/// Model and agent that requested a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Id of the model, as its server knows it.
    pub model: String,
    /// Agent that the model acted for; `main` for the session's main agent.
    pub agent: String,
}

/// Verdict of the rules, without its reasons.
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
    /// A rule that was granted earlier.
    Grant,
    /// A client, by the name that it gave.
    Client(String),
    /// The deadline passed without an answer, so the default applied.
    Deadline,
    /// The policy for questions that the client had set when it started the turn.
    OnInterrupt(OnInterrupt),
    /// The tool reported beforehand that the call cannot succeed. No question was asked.
    Tool,
    /// The daemon, because the turn ended first or an error occurred.
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

/// The end of a call.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnd {
    /// Name of the tool.
    pub tool: String,
    /// True if the tool started to run.
    pub ran: bool,
    /// Error code, if it failed.
    pub error: Option<ToolErrorCode>,
    /// Exit code if it was a command that no limit ended; 128 plus the signal number if a signal ended it.
    pub exit_code: Option<i32>,
    /// Duration in milliseconds, including the time spent waiting for users.
    pub duration_ms: u64,
    /// Files that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ChangedFile>,
    /// Output of the call. It is never written: the log stores its size and its hash.
    #[serde(skip)]
    pub output: String,
    /// Size of the output in bytes. Filled in by the log.
    #[serde(default)]
    pub output_bytes: u64,
    /// SHA-256 of the output after redaction. Filled in by the log.
    pub output_sha256: Option<String>,
}

/// A changed file, and the kind of change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Path of the file as tools write it.
    pub path: String,
    /// Kind of the change.
    pub change: FileChangeKind,
}

impl From<&FileChange> for ChangedFile {
    fn from(file: &FileChange) -> Self {
        Self { path: file.path.clone(), change: file.change }
    }
}

/// The end of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// Number of the last line, from 1; 0 for an empty log.
    pub n: u64,
    /// Hash of the last line, in 64 hexadecimal digits.
    pub hash: String,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Number of the line, from 1 without a gap.
    pub n: u64,
    /// Entry on the line.
    #[serde(flatten)]
    pub entry: AuditEntry,
}

#[cfg(test)]
mod tests;
