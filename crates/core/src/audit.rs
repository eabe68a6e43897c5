//! What the audit log keeps: who asked for a call, what was decided and by whom, and what came of it.
//!
//! An [`AuditEntry`] is what happened, as the engine knows it. The adapter behind [`crate::ports::Audit`] takes secrets
//! out, cuts what is long, and chains the lines; see there for what a line promises. [`AuditRecord`] is what readers see:
//! each call once, with what came of it.

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
    /// When it happened.
    pub at: Timestamp,
    /// Ties it to the turn's logs and traces.
    pub trace_id: Option<TraceId>,
    /// The session; facts about the daemon have none.
    pub session_id: Option<SessionId>,
    /// The turn.
    pub turn_id: Option<TurnId>,
    /// The tool call.
    pub call_id: Option<CallId>,
    /// The fact.
    #[serde(flatten)]
    pub fact: AuditFact,
}

impl AuditEntry {
    /// A fact about no session: about the daemon, the rules or the log itself.
    pub fn general(at: Timestamp, fact: AuditFact) -> Self {
        Self { at, trace_id: None, session_id: None, turn_id: None, call_id: None, fact }
    }

    /// A fact about a session that belongs to no call.
    pub fn of_session(at: Timestamp, session_id: SessionId, fact: AuditFact) -> Self {
        Self { session_id: Some(session_id), ..Self::general(at, fact) }
    }
}

/// A recorded fact.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AuditFact {
    /// It was decided whether a call may run. Durable before a call that changes or runs anything begins.
    CallDecided(Box<Decision>),
    /// The end of a call. A call that was decided and has no end was cut off by the end of the daemon: whether it took
    /// effect is not known.
    CallEnded(CallEnd),
    /// A call asked the turn's model for somebody else, such as an MCP server. Told before it is asked.
    ModelAsked {
        /// The tool that was called.
        tool: String,
        /// The model's id.
        model: String,
        /// Maximum number of tokens of the answer.
        max_tokens: u64,
    },
    /// A rule was remembered, so that nobody is asked again.
    GrantAdded {
        /// The rule, as it was shown.
        rule: String,
        /// Its scope: `session` or `for_good`.
        scope: String,
        /// The client that granted it.
        by: AnsweredBy,
    },
    /// A remembered rule was taken back.
    GrantRevoked {
        /// The rule.
        rule: String,
        /// Its scope: `session` or `for_good`.
        scope: String,
        /// The client that revoked it.
        by: AnsweredBy,
    },
    /// A session was set to another mode.
    ModeSet {
        /// Its mode from then on.
        mode: SessionMode,
        /// The client that set it.
        by: AnsweredBy,
    },
    /// A person trusted the `.agentd/` of a project: its instructions, agents, skills and commands are used.
    ProjectTrusted {
        /// The real path of the project.
        project: String,
        /// SHA-256 of what is trusted.
        sha256: String,
        /// The client that did it.
        by: AnsweredBy,
    },
    /// A person trusts the `.agentd/` of a project no longer.
    ProjectDistrusted {
        /// The real path of the project.
        project: String,
        /// The client that did it.
        by: AnsweredBy,
    },
    /// A person agreed to a plugin: its skills, agents, commands and servers are used.
    PluginAdded {
        /// Its name.
        plugin: String,
        /// SHA-256 of what was agreed to.
        sha256: String,
        /// The place that it was added from.
        source: String,
        /// The client that did it.
        by: AnsweredBy,
    },
    /// A person removed a plugin.
    PluginRemoved {
        /// Its name.
        plugin: String,
        /// The client that did it.
        by: AnsweredBy,
    },
    /// A session was taken in from a file. Told before it is there.
    SessionImported {
        /// The program that wrote the file, by its own word.
        source: String,
        /// The id that the file names, where the session has another one here.
        former_id: Option<SessionId>,
        /// Number of its events, those of its subagents included.
        events: u64,
        /// The client that brought it.
        by: AnsweredBy,
    },
    /// Changes of files were undone.
    Undone {
        /// Whose changes; absent where a single call's were.
        of_turn: Option<TurnId>,
        /// Effect of the undo on each file.
        files: Vec<ChangedFile>,
        /// The requester: a client's name, or `model`.
        by: String,
    },
    /// The daemon began.
    DaemonStarted {
        /// Its version.
        version: String,
        /// Its process.
        pid: u32,
    },
    /// The daemon ended in good order. A start without a stop before it followed a crash.
    DaemonStopped {
        /// Its process.
        pid: u32,
    },
    /// The rules for calls were read, at the start or again.
    RulesRead {
        /// Where from, weakest first.
        sources: Vec<String>,
        /// The SHA-256 of what was read, where there was something to read.
        sha256: Option<String>,
        /// Why they do not hold, where they are wrong: the rules before them go on.
        problem: Option<String>,
    },
    /// The log itself was found other than it was left. Written by the log, and by nobody else.
    LogDamaged {
        /// The finding, one sentence.
        found: String,
        /// Number of bytes that were set aside, where some were.
        #[serde(default)]
        bytes: u64,
        /// The SHA-256 of the bytes that were set aside.
        sha256: Option<String>,
        /// The file beside the log that holds them now.
        kept_as: Option<String>,
        /// Problem that remains from then on, where nothing else in the log shows it.
        problem: Option<AuditProblem>,
    },
    /// The log goes on in a new file. Its first line; written by the log, and by nobody else.
    LogContinued {
        /// The file that holds what came before.
        previous: String,
    },
    /// The oldest file of the log is removed, as the configuration says. Written by the log before it is, and by nobody else.
    LogTrimmed {
        /// The file.
        file: String,
        /// Its last line: with that, the log goes on being whole.
        through: AuditHead,
        /// Its bytes.
        bytes: u64,
    },
    /// Unused data was removed, as the configuration says.
    Cleaned {
        /// Removed data by kind.
        parts: Vec<CleanedData>,
        /// The requester: a client's name, or `schedule`.
        by: String,
    },
}

impl AuditFact {
    /// Name of the fact, as JSON has it.
    pub fn name(&self) -> String {
        let json = serde_json::to_value(self).unwrap_or_default();
        json["kind"].as_str().unwrap_or_default().to_owned()
    }
}

/// The decision on a call, and who made it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The tool's name.
    pub tool: String,
    /// The arguments that the model wrote; a text where they are no JSON.
    pub args: Value,
    /// Where the path that they name led through a link then: the call was judged under both names. Lines of earlier
    /// versions do not say.
    pub leads_to: Option<String>,
    /// The requester of the call.
    pub asked_by: Requester,
    /// The verdict of the rules.
    pub verdict: VerdictName,
    /// The layer of the rules that spoke, such as `global` or `tool`.
    pub layer: Option<String>,
    /// The rule that spoke.
    pub rule: Option<String>,
    /// Its risk.
    pub risk: Option<Risk>,
    /// Why, in the words that people or the model are told.
    pub reason: Option<String>,
    /// Set if the call may run.
    pub allowed: bool,
    /// The kept rules that let it run without a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted_by: Vec<String>,
    /// The last word.
    pub by: DecidedBy,
    /// The answer, where one was given; an edit holds the arguments that run in place of the model's.
    pub answer: Option<Answer>,
    /// The answer to what the call asked itself, where `answer` had let it.
    pub reply: Option<Answer>,
}

/// The requester of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The model's id, as its server knows it.
    pub model: String,
    /// The agent that it spoke for; `main` for a session's own.
    pub agent: String,
}

/// The verdict of the rules, without its reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictName {
    /// It may run.
    Allow,
    /// A person decides.
    Ask,
    /// It may not run.
    Deny,
}

/// The last word on a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The rules alone.
    Rules,
    /// A rule that somebody had granted.
    Grant,
    /// A client, by the name that it gave.
    Client(String),
    /// Nobody in time: the default was taken.
    Deadline,
    /// The client had said when the turn began what is to happen when somebody would have to be asked.
    OnInterrupt(OnInterrupt),
    /// The tool itself said beforehand that the call cannot succeed; nobody was asked.
    Tool,
    /// The daemon, because the turn ended first or something broke.
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
    /// The tool's name.
    pub tool: String,
    /// Set if the tool began to run.
    pub ran: bool,
    /// Why it failed, if it did.
    pub error: Option<ToolErrorCode>,
    /// The exit code of the command, where it was one and no limit ended it; 128 and the signal's number where a signal did.
    pub exit_code: Option<i32>,
    /// Duration, waiting for people included, in milliseconds.
    pub duration_ms: u64,
    /// The files that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ChangedFile>,
    /// Its output. Never written: the log keeps its size and its fingerprint.
    #[serde(skip)]
    pub output: String,
    /// The size of what it said, in bytes; filled in by the log.
    #[serde(default)]
    pub output_bytes: u64,
    /// The SHA-256 of what it said, secrets taken out first; filled in by the log.
    pub output_sha256: Option<String>,
}

/// A file that was changed: which, and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Its path, as tools name it.
    pub path: String,
    /// The change.
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
    /// The number of the last line, from 1; 0 before the first.
    pub n: u64,
    /// Its hash, in 64 hexadecimal digits.
    pub hash: String,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Its number, from 1 without a gap.
    pub n: u64,
    /// The entry.
    #[serde(flatten)]
    pub entry: AuditEntry,
}

#[cfg(test)]
mod tests;
