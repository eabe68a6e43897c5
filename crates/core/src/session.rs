//! Sessions: durable conversations.

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

/// A part of the list of sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionPage {
    /// Sessions, last used first.
    pub sessions: Vec<SessionSummary>,
    /// Beginning of the next part; none where there is none.
    pub next: Option<u64>,
}

/// Summary of a session, for lists.
#[serde_with::skip_serializing_none]
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
    pub parent: Option<SessionId>,
    /// The folder of the person that it sees.
    pub project: Option<Mount>,
    /// Further folders that it sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<AddedFolder>,
    /// The worktree that the project is.
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

/// Filter of sessions. What is empty fits all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Folder that their project is, or lies in.
    pub project: Option<PathBuf>,
    /// Moment since when they were used.
    pub since: Option<Timestamp>,
    /// Statuses, one of which they have.
    pub statuses: Vec<SessionStatus>,
    /// Words that all stand in their title or in the path of their project, in either case.
    pub words: String,
}

impl SessionFilter {
    /// Returns whether it fits all sessions.
    pub fn is_empty(&self) -> bool {
        let Self { project, since, statuses, words } = self;
        project.is_none() && since.is_none() && statuses.is_empty() && words.trim().is_empty()
    }

    /// Returns whether a session fits.
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

/// Files handed over that a model is still to be told of, at the most: of more the oldest are not named.
const MAX_HANDED_OVER: usize = 100;

/// Files that people handed over, as far as no turn has begun with them. Pure: the sum of a session's events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingAttachments {
    /// Their paths, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<String>,
    /// Pictures for models, of those that are pictures.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pictures: BTreeMap<String, Picture>,
}

impl PendingAttachments {
    /// Paths that the next turn is to tell, the oldest first.
    pub fn next(&self) -> Vec<String> {
        self.waiting.clone()
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Picture for models of a file that waits, where it is one.
    pub fn picture(&self, path: &str) -> Option<&Picture> {
        self.pictures.get(path)
    }

    /// Takes in a fact, and says whether it changed anything.
    pub fn apply(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::StateChanged { change: StateChange::HandedOver { path, picture } } => {
                // One that is written again is told once.
                self.waiting.retain(|known| known != path);
                self.waiting.push(path.clone());
                match picture {
                    Some(picture) => drop(self.pictures.insert(path.clone(), picture.clone())),
                    None => drop(self.pictures.remove(path)),
                }
                let most = MAX_HANDED_OVER.min(self.waiting.len());
                for forgotten in self.waiting.drain(..self.waiting.len() - most) {
                    self.pictures.remove(&forgotten);
                }
                true
            }
            // What is told of them is stored with the turn's input. Turns that only compact, or never run, tell nothing.
            EventKind::TurnStarted { handed_over, .. } if !handed_over.is_empty() => {
                self.waiting.retain(|known| !handed_over.contains(known));
                self.pictures.retain(|known, _| !handed_over.contains(known));
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::SessionId, usage::Usage};

    #[test]
    fn sessions_fit_by_project_use_status_and_words() {
        let session = SessionSummary {
            id: SessionId::generate(),
            title: "Steuer 2025: Größe".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: "2026-01-05T00:00:00Z".parse().unwrap(),
            turns: 1,
            last_seq: 9,
            status: SessionStatus::Idle,
            usage: Usage::default(),
            parent: None,
            project: Some(Mount { path: "/home/me/tax/2025".into(), writable: false }),
            folders: Vec::new(),
            worktree: None,
        };
        #[track_caller]
        fn check(session: &SessionSummary, filter: SessionFilter, fits: bool) {
            assert_eq!(filter.fits(session), fits, "{filter:?}");
        }
        let all = SessionFilter::default;
        check(&session, all(), true);
        check(&session, SessionFilter { project: Some("/home/me/tax".into()), ..all() }, true);
        check(&session, SessionFilter { project: Some("/home/me/tax/2025".into()), ..all() }, true);
        check(&session, SessionFilter { project: Some("/home/me/tax/20".into()), ..all() }, false);
        check(&session, SessionFilter { since: Some(session.updated_at), ..all() }, true);
        check(&session, SessionFilter { since: "2026-01-06T00:00:00Z".parse().ok(), ..all() }, false);
        check(&session, SessionFilter { statuses: vec![SessionStatus::Running, SessionStatus::Idle], ..all() }, true);
        check(&session, SessionFilter { statuses: vec![SessionStatus::Waiting], ..all() }, false);
        check(&session, SessionFilter { words: "GRÖSSE".into(), ..all() }, false);
        check(&session, SessionFilter { words: "GRÖßE steuer TAX".into(), ..all() }, true);
        check(&session, SessionFilter { words: "steuer 2024".into(), ..all() }, false);
    }
}
