//! What people can set for a session.
//!
//! The todo list of a session.

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
    /// Ask before a file is changed.
    pub confirm_write: bool,
    /// Ask before a command is run.
    pub confirm_exec: bool,
    /// The slot that turns use where they name none.
    pub slot: Option<Slot>,
    /// Id of the model that turns with that slot ask, on the slot's server and in place of its own model.
    pub model: Option<String>,
    /// The folder that the session sees as `/project`.
    pub project: Option<Mount>,
    /// Further folders that the session sees, each at `/folders/NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<AddedFolder>,
    /// The worktree that the project is, or lies in.
    pub worktree: Option<SessionWorktree>,
    /// The rules that are kept for this session alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// For whom the session works, where another one made it. It is born with that, and nobody changes it.
    pub parent: Option<Parent>,
    /// The agent as which it works instead of the main one, which no model leaves.
    pub agent: Option<String>,
    /// Set if nothing of it is ever cleaned, however long nobody uses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Mode, which answers where nothing but the defaults would ask.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub mode: SessionMode,
    /// Rules in the person's words that the model is told again whenever it no longer sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// Folder that its project was on the machine that it was imported from. Nothing is mounted for it. It is born with that, and
    /// nobody changes it.
    pub former_project: Option<Box<PathBuf>>,
    /// Says whether requests and answers are kept as they are on the wire; the daemon's own setting decides where absent.
    pub trace: Option<bool>,
    /// Origin of it, where it was imported. It is born with that, and nobody changes it.
    pub imported: Option<Box<ImportOrigin>>,
}

/// Pinned rules of a session at the most.
pub const MAX_PINS: usize = 30;
/// Characters of a pinned rule at the most.
pub const MAX_PIN: usize = 500;

names! {
    /// A session's mode: it answers where nothing but the defaults would ask. No rule that denies, and no rule that asks, is
    /// weakened by it.
    #[derive(Default, Hash)]
    pub enum SessionMode {
        /// Ask as the session's `confirm_write` and `confirm_exec` say.
        #[default]
        Ask = "ask",
        /// Files are changed unasked, commands ask.
        AcceptEdits = "accept-edits",
        /// Look only: nothing is changed, whatever was allowed before.
        Plan = "plan",
        /// Files are changed, and commands run unasked if the sandbox holds them; the rest asks.
        Auto = "auto",
    }
}

impl SessionMode {
    /// One line for people.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Ask => "asks before files change and commands run",
            Self::AcceptEdits => "changes files without asking; commands ask",
            Self::Plan => "looks only; changes nothing",
            Self::Auto => "runs what the sandbox holds; the rest asks",
        }
    }

    /// The next mode in order, from the last the first.
    #[must_use]
    pub fn following(self) -> Self {
        match self {
            Self::Ask => Self::AcceptEdits,
            Self::AcceptEdits => Self::Plan,
            Self::Plan => Self::Auto,
            Self::Auto => Self::Ask,
        }
    }

    /// The next mode in order while a turn runs, in which each holds at once: nobody goes through `auto` on the way to
    /// another one.
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
            .ok_or_else(|| format!("there is no mode {text:?}; the modes are ask, accept-edits, plan and auto"))
    }
}

impl SessionSettings {
    /// The session whose files a session with that id works on: a subagent's are its parent's.
    pub fn files_of(&self, own: SessionId) -> SessionId {
        self.parent.as_ref().map_or(own, |parent| parent.session)
    }

    /// The folders of the person that it sees.
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
    /// Its id; made up where the model gave none.
    pub id: String,
    /// The task.
    pub content: String,
    /// Its status.
    pub status: TodoStatus,
    /// Its priority.
    #[serde(default)]
    pub priority: TodoPriority,
}

/// Status of a todo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Under way; at most one is.
    InProgress,
    /// Done.
    Completed,
}

/// Priority of a todo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    /// First.
    High,
    /// In between.
    #[default]
    Medium,
    /// Last.
    Low,
}
