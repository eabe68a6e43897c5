//! What the daemon shows that is no word of the core.

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
};

use crate::start_variables::StartVariables;

/// A session to make. What is absent is as the daemon is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSession {
    /// Its name; absent, its first input names it.
    pub title: Option<String>,
    /// Ask before a file is changed.
    pub confirm_write: Option<bool>,
    /// Ask before a command is run.
    pub confirm_exec: Option<bool>,
    /// The slot that turns use where they name none.
    pub slot: Option<Slot>,
    /// The folder that the session sees as `/project`.
    pub project: Option<Mount>,
    /// Further folders that the session sees.
    pub folders: Vec<Mount>,
    /// The name of a worktree that is made of the project; empty leaves the name to the daemon, and none makes none.
    pub worktree: Option<String>,
    /// Its mode.
    pub mode: Option<SessionMode>,
    /// The id of a model on the server of the slot.
    pub model: Option<String>,
    /// Says whether requests and answers are kept as they are on the wire.
    pub trace: Option<bool>,
}

/// A session with what goes on in it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    /// The session as it is stored.
    pub session: StoredSession,
    /// Pending interrupts, oldest first.
    pub pending: Vec<Interrupt>,
    /// The turn that runs or waits in the daemon now.
    pub live_turn: Option<TurnId>,
}

/// Content of an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExportedContent {
    /// Number of events.
    pub events: u64,
    /// The files that came along.
    pub files: FilesCopied,
}

/// Report on sessions that were removed together, or would be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PruneReport {
    /// Number of them.
    pub count: u64,
    /// Their bytes on the disk.
    pub bytes: u64,
    /// Number of those that would have fitted and stay.
    pub kept: u64,
    /// The first of them.
    pub sessions: Vec<SessionSummary>,
    /// Failed removals, a sentence each.
    pub problems: Vec<String>,
}

/// A session that goes on from a copy of another's history.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkReply {
    /// The new session.
    pub session: SessionView,
    /// The number of the last turn that was copied, from 1.
    pub turn: u64,
    /// The files that came along.
    pub files: FilesCopied,
    /// Files that were brought to that turn, where that was asked for.
    pub earlier: Option<EarlierFiles>,
}

/// An item and the event that completed it.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedItem {
    /// The number of that event.
    pub seq: u64,
    /// The item.
    pub item: Item,
}

/// Greeting of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The protocol version that the daemon speaks.
    pub protocol_version: u32,
    /// The daemon's own version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// The variables that it wants of the client when a turn starts; one that ends with `*` means all that begin so.
    pub environment: Vec<String>,
    /// The variables that its configuration names and its own environment lacks.
    pub variables: Vec<String>,
    /// The data folder that it works on; empty where it does not say.
    pub data_dir: PathBuf,
    /// The variables of models and keys that it was started with; none where it does not say.
    pub started_with: Option<StartVariables>,
}

/// Status of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonStatus {
    /// The daemon's own version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Time since its start.
    pub uptime: Duration,
    /// The memory that it holds, in bytes, where the system tells.
    pub resident_bytes: Option<u64>,
    /// The sessions that are in memory.
    pub live_sessions: u64,
    /// The turns that run.
    pub running_turns: u64,
    /// The turns that wait for an answer.
    pub waiting_turns: u64,
    /// The turns that were found open and put in order at start.
    pub recovered: Vec<RecoveredTurn>,
    /// The socket that it listens on.
    pub socket: PathBuf,
    /// The folder that holds the journal and the workspaces.
    pub data_dir: PathBuf,
    /// The configuration that was read, weakest first: `built-in` and the paths of files.
    pub config_sources: Vec<String>,
    /// Sandbox of commands, where it is known.
    pub sandbox: Option<SandboxState>,
    /// Problems of what is stored, as far as they can be seen at once.
    pub problems: Vec<Finding>,
    /// Language servers of this machine, where they are known.
    pub language_servers: Option<Vec<LanguageServer>>,
}

/// A language server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageServer {
    /// Its name in `languages.yaml`.
    pub name: String,
    /// Hint on how to install it, where only something that stands in for it is there.
    pub hint: Option<String>,
}

/// Something that is wrong with what is kept.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Subject: `disk`, `journal`, `audit` or `session`.
    pub subject: String,
    /// The finding, in a sentence.
    pub message: String,
    /// Hint on what to do.
    pub hint: String,
    /// Set if something does not work because of it.
    #[serde(skip)]
    pub is_failure: bool,
}

/// Outcome of a reload of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadOutcome {
    /// Sources that were read, weakest first.
    pub config_sources: Vec<String>,
    /// Changes that hold only after a restart, one sentence each.
    pub notes: Vec<String>,
}

/// A call of a tool, about which the rules are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyCall {
    /// The tool's name.
    pub tool: String,
    /// The arguments, as the model would write them.
    pub arguments: String,
}

/// A file of rules to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText {
    /// Its text.
    pub text: String,
    /// Its path, for messages.
    pub path: String,
}

/// A call under two sets of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The call.
    pub call: PolicyCall,
    /// Verdict of the rules in force.
    pub now: Explanation,
    /// Verdict of the file.
    pub then: Explanation,
}

impl Comparison {
    /// Returns whether the file would change the fate of the call: whether it runs, asks or is refused.
    pub fn changes(&self) -> bool {
        std::mem::discriminant(&self.now.verdict) != std::mem::discriminant(&self.then.verdict)
    }
}

/// Changes that a file of rules would make to earlier calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditComparison {
    /// The calls that were judged.
    pub calls: u64,
    /// The calls that could not be judged again, for the log holds only a part of them.
    pub skipped: u64,
    /// The calls of which the file says something else, those of one kind together, the most frequent first.
    pub changes: Vec<AuditChange>,
}

/// Calls of which a file says the same, and something else than the rules in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditChange {
    /// Their number.
    pub count: u64,
    /// One of them, the newest.
    pub example: Comparison,
}

/// The configuration that holds, without its values: some are secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigView {
    /// Sources that were read, weakest first: `built-in` and the paths of files.
    pub sources: Vec<String>,
    /// Keys with where their values came from, sorted by key.
    pub origins: Vec<ConfigOrigin>,
    /// The links of the chain with the reason of each, in order.
    pub chain: Vec<(String, String)>,
}

/// A key of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigOrigin {
    /// The key, such as `turns.max_steps`.
    pub key: String,
    /// `built-in`, the path of a file, a variable with its `$`, or an option.
    pub origin: String,
    /// Its value, with `•••` in place of secrets; none where the daemon does not say.
    pub value: Option<serde_json::Value>,
}

agentd_core::names! {
    /// State of an MCP server.
    pub enum McpServerState {
        /// It does not run; the next call starts it.
        Stopped = "stopped",
        /// It is being started.
        Starting = "starting",
        /// It runs.
        Running = "running",
        /// It failed; the next call starts it, unless that comes too soon.
        Down = "down",
        /// The configuration has it and does not want it.
        Disabled = "disabled",
    }
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct McpServerView {
    /// Its name in the configuration.
    pub name: String,
    /// Its state.
    pub state: McpServerState,
    /// Why it is down; empty where it is not.
    pub reason: String,
    /// Its transport: stdio, http or sse.
    pub transport: String,
    /// Its command line or its address.
    pub place: String,
    /// Number of connections.
    pub connections: u32,
    /// Its own name and version.
    pub says_it_is: String,
    /// Version of the protocol that it speaks; empty where it was never reached.
    pub protocol: String,
    /// Set if it was ever reached as it is configured now.
    pub reached: bool,
    /// The names under which models are offered its tools.
    pub tools: Vec<String>,
    /// Deviations from the configuration.
    pub notes: Vec<String>,
}
