//! Sessions, which are durable conversations.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    context::Window,
    event::{Event, EventKind, StateChange},
    files::Picture,
    folder::AddedFolder,
    ids::{SessionId, TurnId},
    surroundings::Surroundings,
    turn::QueuedTurn,
    usage::Usage,
    worktree::SessionWorktree,
};
pub use crate::{
    folder::Mount,
    settings::{MAX_PIN, MAX_PINS, SessionMode, SessionSettings, Todo, TodoPriority, TodoStatus},
};

/// A page of the list of sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionPage {
    /// Sessions of the page, last used first.
    pub sessions: Vec<SessionSummary>,
    /// Position of the next page. `None` on the last page.
    pub next: Option<u64>,
}

/// Summary of a session, for lists.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Id of the session.
    pub id: SessionId,
    /// Title set by the user, or the start of the first input.
    pub title: String,
    /// Time of the session's creation.
    pub created_at: Timestamp,
    /// Time of the last use: a turn began or ended, a question was asked or answered, or a setting changed.
    pub updated_at: Timestamp,
    /// Number of turns that were started.
    pub turns: u64,
    /// Number of the session's last stored event.
    pub last_seq: u64,
    /// Current status of the session.
    pub status: SessionStatus,
    /// Usage of all turns in the session.
    pub usage: Usage,
    /// Parent session, if this session belongs to a subagent.
    pub parent: Option<SessionId>,
    /// User folder mounted as the project.
    pub project: Option<Mount>,
    /// Further mounted user folders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<AddedFolder>,
    /// Worktree that is the session's project, if any.
    pub worktree: Option<SessionWorktree>,
}

/// Status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// No turn is running.
    Idle,
    /// A turn is running.
    Running,
    /// A turn waits for an answer.
    Waiting,
    /// The last turn ended because the daemon stopped, and can be continued.
    Interrupted,
}

/// A session as stored in the projections of the journal: with enough data to continue without reading the whole log.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSession {
    /// Summary as shown in lists.
    pub summary: SessionSummary,
    /// Settings of the session.
    pub settings: SessionSettings,
    /// Todo list of the session.
    pub todos: Vec<Todo>,
    /// The turn that has begun but not ended, if any, with the number of its first event.
    pub open_turn: Option<(TurnId, u64)>,
    /// Queued turns, in the order in which they will run.
    pub queue: Vec<QueuedTurn>,
    /// Number of the last [`crate::event::StateChange::Reset`], or 0. Earlier events are hidden from models.
    pub reset_seq: u64,
    /// Part of the history that is visible to a model.
    pub window: Window,
    /// Uploaded files that no turn has reported to a model yet.
    pub handed_over: PendingAttachments,
    /// Stack of agents that the session was transferred to; empty if the main agent is active.
    pub agents: Vec<String>,
    /// Tools that were mentioned or discovered, in order of discovery.
    pub tools: Vec<String>,
    /// Surroundings described in the session's instructions. `None` before the first turn.
    pub surroundings: Option<Surroundings>,
}

/// Range of a turn's events in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnSpan {
    /// Number of the turn's first event.
    pub began: u64,
    /// Number of the turn's last event, if the turn has ended.
    pub ended: Option<u64>,
}

/// Ended turns, without those of subagents, in storage order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedTurns {
    /// Ended turns in storage order.
    pub turns: Vec<EndedTurn>,
    /// Position after everything that was stored at the time of the query.
    pub end: u64,
}

/// A turn that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedTurn {
    /// Position of the turn's end in the journal. Positions increase, but positions of removed sessions may be reused.
    pub place: u64,
    /// Session of the turn.
    pub session_id: SessionId,
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Number of the turn's last event.
    pub seq: u64,
    /// Time of the turn's end.
    pub at: Timestamp,
}

/// A session to be created with a copy of another session's events.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// Id of the new session.
    pub id: SessionId,
    /// Creation time of the new session.
    pub at: Timestamp,
    /// Session whose events are copied.
    pub from: SessionId,
    /// Number of the last copied event. No turn may be open at that point.
    pub through: u64,
    /// First events of the new session itself. One of these events contains the session's settings.
    pub first: Vec<Arc<Event>>,
}

/// Filter for sessions. Empty fields match all sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Folder that is or contains the session's project.
    pub project: Option<PathBuf>,
    /// Earliest time of the session's last use.
    pub since: Option<Timestamp>,
    /// Statuses to match; empty for all.
    pub statuses: Vec<SessionStatus>,
    /// Words that must all occur in the title or the project path, ignoring case.
    pub words: String,
}

impl SessionFilter {
    /// Returns true if the filter matches all sessions.
    pub fn is_empty(&self) -> bool {
        let Self { project, since, statuses, words } = self;
        project.is_none() && since.is_none() && statuses.is_empty() && words.trim().is_empty()
    }

    /// Returns true if the session matches.
    pub fn fits(&self, session: &SessionSummary) -> bool {
        let path = session.project.as_ref().map(|mount| mount.path.as_path());
        let is_in_project =
            self.project.as_ref().is_none_or(|project| path.is_some_and(|path| path.starts_with(project)));
        is_in_project
            && self.since.is_none_or(|since| session.updated_at >= since)
            && (self.statuses.is_empty() || self.statuses.contains(&session.status))
            && self.has_words(session)
    }

    fn has_words(&self, session: &SessionSummary) -> bool {
        let mut words = self.words.split_whitespace().peekable();
        if words.peek().is_none() {
            return true;
        }
        let path = session.project.as_ref().map(|mount| mount.path.display().to_string()).unwrap_or_default();
        let text = format!("{} {path}", session.title).to_lowercase();
        words.all(|word| text.contains(&word.to_lowercase()))
    }
}

/// Maximum number of uploaded files reported to a model. Beyond this number, the oldest files are dropped.
const MAX_HANDED_OVER: usize = 100;

/// Uploaded files that no turn has reported yet. Computed purely from a session's events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingAttachments {
    /// Paths of the files, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<String>,
    /// Pictures for models, by path, for uploaded picture files.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pictures: BTreeMap<String, Picture>,
}

impl PendingAttachments {
    /// Returns the paths that the next turn has to report, oldest first.
    pub fn next(&self) -> Vec<String> {
        self.waiting.clone()
    }

    /// Returns true if no file is waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the picture of a waiting file, if the file is a picture.
    pub fn picture(&self, path: &str) -> Option<&Picture> {
        self.pictures.get(path)
    }

    /// Applies an event, and returns true if anything changed.
    pub fn apply(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::StateChanged { change: StateChange::HandedOver { path, picture } } => {
                // A file that is uploaded again is reported once.
                self.waiting.retain(|known| known != path);
                self.waiting.push(path.clone());
                match picture {
                    Some(picture) => drop(self.pictures.insert(path.clone(), picture.clone())),
                    None => drop(self.pictures.remove(path)),
                }
                let count = MAX_HANDED_OVER.min(self.waiting.len());
                for dropped in self.waiting.drain(..self.waiting.len() - count) {
                    self.pictures.remove(&dropped);
                }
                true
            }
            // The report is stored with the turn's input. Turns that only compact the history or never run report
            // nothing.
            EventKind::TurnStarted { handed_over, .. } if !handed_over.is_empty() => {
                self.waiting.retain(|known| !handed_over.contains(known));
                self.pictures.retain(|known, _| !handed_over.contains(known));
                true
            }
            _ => false,
        }
    }
}
