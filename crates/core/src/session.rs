//! Sessions: durable conversations.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agent::Parent,
    context::Window,
    event::Event,
    files::HandedOver,
    grant::Grant,
    ids::{SessionId, TurnId},
    model::Slot,
    turn::QueuedTurn,
    usage::Usage,
};

/// What a person can set for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// Ask before a file is changed.
    pub confirm_write: bool,
    /// Ask before a command is run.
    pub confirm_exec: bool,
    /// The slot that turns use where they name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// The folder that the session sees as `/project`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Mount>,
    /// The rules that are kept for this session alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// For whom the session works, where another one made it. It is born with that, and nobody changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Whether nothing of it is ever cleaned, however long nobody uses it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

impl SessionSettings {
    /// The session whose files a session with that id works on: a subagent's are its parent's.
    #[must_use]
    pub fn files_of(&self, own: SessionId) -> SessionId {
        self.parent.as_ref().map_or(own, |parent| parent.session)
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            confirm_write: true,
            confirm_exec: true,
            slot: None,
            project: None,
            grants: Vec::new(),
            parent: None,
            pinned: false,
        }
    }
}

/// A folder of the person that a session may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Its absolute path.
    pub path: PathBuf,
    /// Whether tools may change it.
    pub writable: bool,
}

/// One entry of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Its id; made up where the model gave none.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// How much it matters.
    #[serde(default)]
    pub priority: TodoPriority,
}

/// How far a todo is.
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

/// How much a todo matters.
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

/// What lists show of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// Its name: given, or the start of its first input.
    pub title: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last used: a turn began or ended, a person was asked or answered, or something was set.
    pub updated_at: Timestamp,
    /// How many turns were started.
    pub turns: u64,
    /// The number of its last stored event.
    pub last_seq: u64,
    /// What it is doing.
    pub status: SessionStatus,
    /// What its turns took in all.
    pub usage: Usage,
    /// The session for which it works, where another one made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// No turn runs.
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for an answer.
    Waiting,
    /// The last turn was ended by a stop of the daemon and can be continued.
    Interrupted,
}

/// A session as the journal's projections have it: enough to go on without reading the whole log.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSession {
    /// What lists show.
    pub summary: SessionSummary,
    /// Its settings.
    pub settings: SessionSettings,
    /// Its todo list.
    pub todos: Vec<Todo>,
    /// The turn that has begun and not ended, and the number of its first event.
    pub open_turn: Option<(TurnId, u64)>,
    /// The turns that wait behind it, first come first.
    pub queue: Vec<QueuedTurn>,
    /// The number of the last [`crate::event::StateChange::Reset`], or 0: no model sees what came before.
    pub reset_seq: u64,
    /// Which part of the history a model sees.
    pub window: Window,
    /// What people handed over, as far as a model is still to be told of it.
    pub handed_over: HandedOver,
    /// Whom the session was handed to, one by the other; empty where the main agent works.
    pub agents: Vec<String>,
}

/// Where a turn stands among the events of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnSpan {
    /// The number of its first event.
    pub began: u64,
    /// The number of its last event, if it has ended.
    pub ended: Option<u64>,
}

/// A session to be, whose first events are a copy of another's.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// Its id.
    pub id: SessionId,
    /// When it is made.
    pub at: Timestamp,
    /// The session whose events are copied.
    pub from: SessionId,
    /// The number of the last one that is. No turn may be open there.
    pub through: u64,
    /// The first events of its own. What its settings are is one of them.
    pub first: Vec<Arc<Event>>,
}
