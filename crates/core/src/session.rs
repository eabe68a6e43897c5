//! Sessions: durable conversations.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    context::Window,
    event::Event,
    files::PendingAttachments,
    folder::AddedFolder,
    ids::{SessionId, TurnId},
    surroundings::Surroundings,
    turn::QueuedTurn,
    usage::Usage,
    worktree::SessionWorktree,
};
pub use crate::{
    folder::Mount,
    session_filter::SessionFilter,
    settings::{MAX_PIN, MAX_PINS, SessionMode, SessionSettings, UnknownMode},
    todo::{Todo, TodoPriority, TodoStatus},
};

/// A part of the list of sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionPage {
    /// Sessions, last used first.
    pub sessions: Vec<SessionSummary>,
    /// Beginning of the next part; none where there is none.
    pub next: Option<u64>,
}

/// Summary of a session, for lists.
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
    /// Number of turns that were started.
    pub turns: u64,
    /// The number of its last stored event.
    pub last_seq: u64,
    /// Its status.
    pub status: SessionStatus,
    /// Usage of all its turns.
    pub usage: Usage,
    /// The session for which it works, where another one made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The folder of the person that it sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Mount>,
    /// Further folders that it sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<AddedFolder>,
    /// The worktree that the project is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<SessionWorktree>,
}

/// Status of a session.
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
    /// Its summary.
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
    /// Files that people handed over, as far as a model is still to be told of them.
    pub handed_over: PendingAttachments,
    /// Whom the session was handed to, one by the other; empty where the main agent works.
    pub agents: Vec<String>,
    /// Tools that were mentioned or found, in the order in which they came.
    pub tools: Vec<String>,
    /// Where it works, as its instructions tell; none where no turn has begun yet.
    pub surroundings: Option<Surroundings>,
}

/// Where a turn stands among the events of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnSpan {
    /// The number of its first event.
    pub began: u64,
    /// The number of its last event, if it has ended.
    pub ended: Option<u64>,
}

/// Ended turns of people's sessions, in the order in which they were stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedTurns {
    /// The turns.
    pub turns: Vec<EndedTurn>,
    /// The place behind all that was stored when it was asked.
    pub end: u64,
}

/// A turn that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedTurn {
    /// Place of its end in the journal. It grows, but for ends whose session was removed: their places may be given again.
    pub place: u64,
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// Number of its last event.
    pub seq: u64,
    /// Time of its end.
    pub at: Timestamp,
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
