//! The audit log's types: who requested a call, what was decided and by whom, and how the call ended.
//!
//! An [`AuditEntry`] is a fact as reported by the engine. The adapter of [`crate::ports::Audit`] redacts secrets,
//! truncates long values and chains the lines; the guarantees for a line are documented there. Readers get an
//! [`AuditRecord`]: one per call, with its outcome.

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
    /// Id that links the entry to the turn's logs and traces.
    pub trace_id: Option<TraceId>,
    /// Session that the fact is about. `None` for facts about the daemon.
    pub session_id: Option<SessionId>,
    /// Turn that the fact is about, if any.
    pub turn_id: Option<TurnId>,
    /// Tool call that the fact is about, if any.
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
    /// Decision on a call. Durable before a call that changes or runs anything begins.
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
        /// Maximum answer length, in tokens.
        max_tokens: u64,
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
        /// Mode of the session from then on.
        mode: SessionMode,
        /// Client that set the mode.
        by: AnsweredBy,
    },
    /// A user trusted the `.agentd/` of a project, so its instructions, agents, skills and commands are used.
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
    /// A user approved a plugin, so its skills, agents, commands and servers are used.
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
        /// Id in the file, if the session got a new one.
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
        /// Process id of the daemon.
        pid: u32,
    },
    /// The daemon shut down cleanly. A start without a preceding stop means that the daemon crashed.
    DaemonStopped {
        /// Process id of the daemon.
        pid: u32,
    },
    /// The policy rules were loaded, at startup or on reload.
    RulesRead {
        /// Sources of the rules, weakest first.
        sources: Vec<String>,
        /// SHA-256 of the rules, if there were any.
        sha256: Option<String>,
        /// Reason why the rules were rejected, if they are invalid. The previous rules stay in force.
        problem: Option<String>,
    },
    /// The log itself was found modified. Only the log writes this fact.
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
    /// The log continues in a new file. This fact is the first line of that file. Only the log writes this fact.
    LogContinued {
        /// File with the preceding lines.
        previous: String,
    },
    /// The oldest file of the log is removed, as configured. Only the log writes this fact, before the removal.
    LogTrimmed {
        /// File name of the removed file.
        file: String,
        /// Last line of the removed file. The remaining log is verified starting from it.
        through: AuditHead,
        /// Size of the removed file, in bytes.
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
    /// Target of the path argument if the path led through a link at that time. The call was judged under both names.
    /// Lines of earlier versions lack this field.
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
    /// Granted rules that let the call run without a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted_by: Vec<String>,
    /// Source of the final decision.
    pub by: DecidedBy,
    /// Answer to the question, if one was given. An edit has the arguments that replace those of the model.
    pub answer: Option<Answer>,
    /// Answer to the call's own question, if `answer` allowed the call to ask.
    pub reply: Option<Answer>,
}

/// Model and agent that requested a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Id of the model, as its server names it.
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
    /// A client, by its self-reported name.
    Client(String),
    /// The deadline passed without an answer, so the default applied.
    Deadline,
    /// The client's policy for questions, set when it started the turn.
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

/// Result of a call that has ended.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnd {
    /// Name of the tool.
    pub tool: String,
    /// True if the tool started to run.
    pub ran: bool,
    /// Error code, if the call failed.
    pub error: Option<ToolErrorCode>,
    /// Exit code if the call was a command and was not stopped by a limit; 128 plus the signal number if it was killed
    /// by a signal.
    pub exit_code: Option<i32>,
    /// Duration in milliseconds, including the time spent waiting for users.
    pub duration_ms: u64,
    /// Files that the call changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ChangedFile>,
    /// Output of the call. The log never stores the output itself, only its size and hash.
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
    /// File path as tools write it.
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
    /// Number of the line, from 1 without gaps.
    pub n: u64,
    /// Entry on the line.
    #[serde(flatten)]
    pub entry: AuditEntry,
}

#[cfg(test)]
mod tests;
