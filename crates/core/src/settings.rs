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
    /// Default slot of its turns.
    pub slot: Option<Slot>,
    /// Id of the model for turns with that slot, on the slot's server and in place of the slot's own model.
    pub model: Option<String>,
    /// The folder that the session sees as `/project`.
    pub project: Option<Mount>,
    /// Further folders that the session sees, each at `/folders/NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<AddedFolder>,
    /// Worktree that is or contains the project.
    pub worktree: Option<SessionWorktree>,
    /// Grants for this session only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// Parent session and agent, for a subagent. Fixed at creation.
    pub parent: Option<Parent>,
    /// Agent of the session in place of the main one. Models cannot leave it.
    pub agent: Option<String>,
    /// True if the session is never cleaned up, however long it is unused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Mode of the session, which decides in place of defaults that would ask.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub mode: SessionMode,
    /// Rules of the user that the model is sent again whenever they are no longer visible to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// Project folder on the machine that the session was imported from. It is not mounted. Fixed at creation.
    pub former_project: Option<Box<PathBuf>>,
    /// True if exchanges with models are recorded. `None` uses the setting of the daemon.
    pub trace: Option<bool>,
    /// Origin of an imported session. Fixed at creation.
    pub imported: Option<Box<ImportOrigin>>,
}

/// Maximum number of pinned rules in a session.
pub const MAX_PINS: usize = 30;
/// Maximum length of a pinned rule, in characters.
pub const MAX_PIN: usize = 500;

names! {
    /// Mode of a session. It decides only if nothing but the defaults would ask. Rules that deny and rules that ask
    /// stay in force.
    #[derive(Default, Hash)]
    pub enum SessionMode {
        /// Asks according to the session's `confirm_write` and `confirm_exec`.
        #[default]
        Ask = "ask",
        /// Changes files without approval; commands require it.
        AcceptEdits = "accept-edits",
        /// Reads only: nothing is changed, even if it was allowed before.
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

    /// Returns the next mode in order. The last one is followed by the first.
    #[must_use]
    pub fn following(self) -> Self {
        match self {
            Self::Ask => Self::AcceptEdits,
            Self::AcceptEdits => Self::Plan,
            Self::Plan => Self::Auto,
            Self::Auto => Self::Ask,
        }
    }

    /// Returns the next mode in order during a turn. It skips `auto`, because modes take effect at once and users must
    /// not pass through `auto` to reach another one.
    #[must_use]
    pub fn following_live(self) -> Self {
        match self.following() {
            Self::Auto => Self::Ask,
            next => next,
        }
    }
}

impl FromStr for SessionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.trim().to_ascii_lowercase().replace(['_', ' '], "-");
        Self::from_name(&wanted)
            .ok_or_else(|| format!("no such mode: {text:?}; the modes are ask, accept-edits, plan and auto"))
    }
}

impl SessionSettings {
    /// Returns the session whose files are used: for a subagent, that of its parent.
    pub fn files_of(&self, own: SessionId) -> SessionId {
        self.parent.as_ref().map_or(own, |parent| parent.session)
    }

    /// Returns the folders of the user that the session sees.
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
    /// Id of the entry, generated if the model gave none.
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
    /// The task is in progress; at most one is.
    InProgress,
    /// The task is completed.
    Completed,
}

/// Priority of a todo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    /// To be done first.
    High,
    /// Between the others; the default.
    #[default]
    Medium,
    /// To be done last.
    Low,
}
