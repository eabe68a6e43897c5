//! Settings and todo list of a session.

use std::{path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    agent::Parent,
    folder::{AddedFolder, Mount, Mounts},
    grant::Grant,
    ids::SessionId,
    import_origin::ImportOrigin,
    model::Slot,
    worktree::SessionWorktree,
};

/// Settings of a session.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// True if changing a file requires approval.
    pub confirm_write: bool,
    /// True if running a command requires approval.
    pub confirm_exec: bool,
    /// Default slot for turns of the session.
    pub slot: Option<Slot>,
    /// Id of the model for turns with that slot, on the slot's server and in place of the slot's own model.
    pub model: Option<String>,
    /// The folder mounted at `/project`.
    pub project: Option<Mount>,
    /// Further mounted folders, each at `/folders/NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<AddedFolder>,
    /// Worktree that is or contains the project.
    pub worktree: Option<SessionWorktree>,
    /// Grants for this session only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// Parent session and agent, for a subagent. Fixed at creation.
    pub parent: Option<Parent>,
    /// Agent of the session instead of the main agent. Models cannot transfer the session to another agent.
    pub agent: Option<String>,
    /// True if the session is never cleaned up, even if unused for a long time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Mode of the session, applied instead of defaults that would ask.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub mode: SessionMode,
    /// The user's rules, sent again whenever they are no longer visible to the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// Project folder on the machine from which the session was imported. This folder is not mounted. Fixed at
    /// creation.
    pub former_project: Option<Box<PathBuf>>,
    /// True if exchanges with models are recorded. `None` uses the daemon's setting.
    pub trace: Option<bool>,
    /// Origin of an imported session. Fixed at creation.
    pub imported: Option<Box<ImportOrigin>>,
}

/// Maximum number of pinned rules in a session.
pub const MAX_PINS: usize = 30;
/// Maximum length of a pinned rule, in characters.
pub const MAX_PIN: usize = 500;

names! {
    /// Mode of a session. The mode applies only if the defaults are the only reason to ask. Rules that deny and rules
    /// that ask still apply.
    #[derive(Default, Hash)]
    pub enum SessionMode {
        /// Asks according to the session's `confirm_write` and `confirm_exec`.
        #[default]
        Ask = "ask",
        /// Changes files without approval; commands require approval.
        AcceptEdits = "accept-edits",
        /// Allows only calls that read, even if a change was allowed before.
        Plan = "plan",
        /// Changes files, and runs commands without approval if the sandbox can contain them. Everything else requires
        /// approval.
        Auto = "auto",
    }
}

impl SessionMode {
    /// Returns a one-line description for users.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ask => "asks before changing files and running commands",
            Self::AcceptEdits => "changes files without asking; commands ask",
            Self::Plan => "read-only; changes nothing",
            Self::Auto => "runs what the sandbox confines; asks for the rest",
        }
    }

    /// Returns the next mode in order. The last mode is followed by the first.
    #[must_use]
    pub fn following(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    /// Returns the next mode in order during a turn. Skips `auto`, because modes take effect at once and users must not
    /// pass through `auto` to reach another mode.
    #[must_use]
    pub fn next_during_turn(self) -> Self {
        match self.following() {
            Self::Auto => Self::Ask,
            next => next,
        }
    }
}

impl FromStr for SessionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let normalized = text.trim().to_ascii_lowercase().replace(['_', ' '], "-");
        Self::from_name(&normalized)
            .ok_or_else(|| format!("no such mode: {text:?}; the modes are ask, accept-edits, plan and auto"))
    }
}

impl SessionSettings {
    /// Returns the session whose files are used, which is the parent session for a subagent.
    pub fn files_of(&self, own: SessionId) -> SessionId {
        self.parent.as_ref().map_or(own, |parent| parent.session)
    }

    /// Returns the user's folders that are mounted in the session.
    pub fn mounts(&self) -> Mounts {
        Mounts { project: self.project.clone(), folders: self.folders.clone() }
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            confirm_write: true,
            confirm_exec: true,
            slot: None,
            model: None,
            project: None,
            folders: Vec::new(),
            worktree: None,
            grants: Vec::new(),
            parent: None,
            agent: None,
            pinned: false,
            mode: SessionMode::Ask,
            pins: Vec::new(),
            former_project: None,
            trace: None,
            imported: None,
        }
    }
}

/// One entry of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Id of the entry, generated if the model provided none.
    pub id: String,
    /// Text of the task.
    pub content: String,
    /// Status of the task.
    pub status: TodoStatus,
    /// Priority of the task.
    #[serde(default)]
    pub priority: TodoPriority,
}

/// Status of a todo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// The task has not begun.
    Pending,
    /// The task is in progress. At most one task is in progress at a time.
    InProgress,
    /// The task is completed.
    Completed,
}

/// Priority of a todo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    /// The task should be done first.
    High,
    /// The task has the default priority.
    #[default]
    Medium,
    /// The task should be done last.
    Low,
}
