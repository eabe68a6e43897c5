//! Types shown by the daemon that are not part of the core.

use std::{path::PathBuf, time::Duration};

use agentd_core::{
    files::{EarlierFiles, FilesCopied},
    ids::TurnId,
    interrupt::Interrupt,
    item::Item,
    model::Slot,
    policy::{Explanation, SandboxState},
    session::{Mount, SessionMode, SessionSummary, StoredSession},
    turn::RecoveredTurn,
    usage::Usage,
};

use crate::start_variables::StartVariables;

/// A session to be created. For fields that are `None`, the daemon's configuration applies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSession {
    /// Title of the session. If `None`, the start of the first input is used.
    pub title: Option<String>,
    /// True if changing a file requires approval.
    pub confirm_write: Option<bool>,
    /// True if running a command requires approval.
    pub confirm_exec: Option<bool>,
    /// Default slot for the session's turns.
    pub slot: Option<Slot>,
    /// Folder mounted as `/project` in the session.
    pub project: Option<Mount>,
    /// Additional folders in the session.
    pub folders: Vec<Mount>,
    /// Name of a worktree to be created from the project. If empty, the daemon chooses a name; if `None`, no worktree
    /// is created.
    pub worktree: Option<String>,
    /// Mode of the session.
    pub mode: Option<SessionMode>,
    /// ID of a model on the server of the slot.
    pub model: Option<String>,
    /// True if exchanges with models are recorded.
    pub trace: Option<bool>,
}

/// A session with its current activity.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// The session as it is stored.
    pub session: StoredSession,
    /// Pending interrupts, oldest first.
    pub pending: Vec<Interrupt>,
    /// Turn that is running or waiting in the daemon now.
    pub live_turn: Option<TurnId>,
}

/// Answer to a side question.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct SideAnswer {
    /// Text of the answer.
    #[serde(rename = "answer")]
    pub text: String,
    /// ID of the model that answered.
    pub model: String,
    /// Usage of the call.
    pub usage: Usage,
    /// True if the answer was truncated at a limit.
    pub truncated: bool,
}

/// Content of an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportedContent {
    /// Number of exported events.
    pub events: u64,
    /// Files in the archive.
    pub files: FilesCopied,
}

/// Report on sessions that were pruned, or would be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PruneReport {
    /// Number of sessions deleted, or to be deleted.
    pub count: u64,
    /// Total size of these sessions on disk, in bytes.
    pub bytes: u64,
    /// Number of matching sessions that were not deleted.
    pub kept: u64,
    /// The first of these sessions.
    pub sessions: Vec<SessionSummary>,
    /// Failed deletions, one sentence each.
    pub problems: Vec<String>,
}

/// Result of forking a session.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkReply {
    /// Session that was created.
    pub session: SessionView,
    /// Number of the last copied turn, from 1.
    pub turn: u64,
    /// Files that were copied.
    pub files: FilesCopied,
    /// Files that were restored to their state at that turn, if requested.
    pub earlier: Option<EarlierFiles>,
}

/// An item with the number of its event.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedItem {
    /// Number of the event that completed the item.
    pub seq: u64,
    /// Content of the item.
    pub item: Item,
}

/// Daemon's response to the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Protocol version of the daemon.
    pub protocol_version: u32,
    /// Version of the daemon.
    pub version: String,
    /// Process ID of the daemon.
    pub pid: u32,
    /// Variables that a client should send when a turn starts; a name that ends with `*` is a prefix.
    pub environment: Vec<String>,
    /// Variables that the daemon's configuration refers to but its environment lacks.
    pub variables: Vec<String>,
    /// Data folder of the daemon; empty if unknown.
    pub data_dir: PathBuf,
    /// Variables for models and keys with which the daemon was started. `None` if unknown.
    pub started_with: Option<StartVariables>,
}

/// Status of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonStatus {
    /// Version of the daemon.
    pub version: String,
    /// Process ID of the daemon.
    pub pid: u32,
    /// Time since the daemon started.
    pub uptime: Duration,
    /// Resident memory in bytes, if the system reports it.
    pub resident_bytes: Option<u64>,
    /// Number of sessions in memory.
    pub live_sessions: u64,
    /// Number of running turns.
    pub running_turns: u64,
    /// Number of turns that wait for an answer.
    pub waiting_turns: u64,
    /// Turns that were open at startup and were recovered.
    pub recovered: Vec<RecoveredTurn>,
    /// Socket that the daemon listens on.
    pub socket: PathBuf,
    /// Folder with the journal and the workspaces.
    pub data_dir: PathBuf,
    /// Sources of the configuration, lowest precedence first: `built-in` and the paths of files.
    pub config_sources: Vec<String>,
    /// Sandbox for commands, if known.
    pub sandbox: Option<SandboxState>,
    /// Problems in the stored data that can be detected quickly.
    pub problems: Vec<Finding>,
    /// Language servers on this machine, if known.
    pub language_servers: Option<Vec<LanguageServer>>,
}

/// A language server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageServer {
    /// Name of its entry in `languages.yaml`.
    pub name: String,
    /// Hint on how to install the server, if only a rustup proxy for it is present.
    pub hint: Option<String>,
}

/// A problem in the stored data.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Subject: `disk`, `journal`, `audit` or `session`.
    pub subject: String,
    /// Description in one sentence.
    pub message: String,
    /// Hint on how to fix the problem.
    pub hint: String,
    /// True if the problem breaks a feature.
    #[serde(skip)]
    pub is_failure: bool,
}

/// Result of reloading the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadOutcome {
    /// Sources that were loaded, lowest precedence first.
    pub config_sources: Vec<String>,
    /// Changes that require a restart, one sentence each.
    pub notes: Vec<String>,
}

/// A tool call to be evaluated by the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments, as the model would write them.
    pub arguments: String,
}

/// A rule file to be tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// Text of the file.
    pub text: String,
    /// Path of the file, for messages.
    pub path: String,
}

/// A call under two sets of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Call that was evaluated.
    pub call: PolicyCall,
    /// Verdict of the current rules.
    pub now: Explanation,
    /// Verdict of the file.
    pub then: Explanation,
}

impl Comparison {
    /// Returns true if the file would change the kind of verdict: allow, ask or deny.
    pub fn changes(&self) -> bool {
        std::mem::discriminant(&self.now.verdict) != std::mem::discriminant(&self.then.verdict)
    }
}

/// Changes that a rule file would make to verdicts on earlier calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditComparison {
    /// Number of calls that were evaluated.
    pub calls: u64,
    /// Number of calls that could not be evaluated again, because the log contains only a part of them.
    pub skipped: u64,
    /// Calls with a different verdict, grouped by kind, most frequent first.
    pub changes: Vec<AuditChange>,
}

/// Calls with the same verdict change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditChange {
    /// Number of these calls.
    pub count: u64,
    /// The newest of these calls.
    pub example: Comparison,
}

/// The current configuration, without secret values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigView {
    /// Sources that were loaded, lowest precedence first: `built-in` and the paths of files.
    pub sources: Vec<String>,
    /// Keys with the origins of their values, sorted by key.
    pub origins: Vec<ConfigOrigin>,
    /// Links of the middleware chain with the reason for each, in order.
    pub chain: Vec<(String, String)>,
}

/// Origin of a configuration value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigOrigin {
    /// Key, such as `turns.max_steps`.
    pub key: String,
    /// `built-in`, the path of a file, a variable with its `$`, or an option.
    pub origin: String,
    /// Value with secrets replaced by `•••`. `None` if the daemon did not send it.
    pub value: Option<serde_json::Value>,
}

agentd_core::names! {
    /// State of an MCP server.
    pub enum McpServerState {
        /// The server is not running; the next call starts it.
        Stopped = "stopped",
        /// The server is being started.
        Starting = "starting",
        /// The server is running.
        Running = "running",
        /// The server has failed; the next call restarts it after a backoff.
        Down = "down",
        /// The server is disabled in the configuration.
        Disabled = "disabled",
    }
}

/// An MCP server with its state.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct McpServerView {
    /// Name in the configuration.
    pub name: String,
    /// Current state of the server.
    pub state: McpServerState,
    /// Reason why the server is down; empty otherwise.
    pub reason: String,
    /// Transport: stdio, http or sse.
    pub transport: String,
    /// Command line or URL.
    pub place: String,
    /// Number of open connections.
    pub connections: u32,
    /// Name and version that the server reported.
    pub says_it_is: String,
    /// Protocol version of the server; empty if the server was never reached.
    pub protocol: String,
    /// True if the server was ever reached with its current configuration.
    pub reached: bool,
    /// Names of the server's tools for models.
    pub tools: Vec<String>,
    /// Deviations from the configuration.
    pub notes: Vec<String>,
}
