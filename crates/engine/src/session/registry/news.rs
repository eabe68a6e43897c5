//! News of all sessions in one place, for those who watch them together. Nothing is done for them while nobody watches, and
//! nobody waits for a watcher: one that is too slow hears how much it has missed.

use std::sync::Arc;

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
};
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};

/// News that wait for a slow watcher at the most.
const QUEUE: usize = 1024;

/// Something that happened, as watchers of all sessions hear of it.
#[derive(Debug, Clone)]
pub enum SessionNews {
    /// There is a new session.
    Created(SessionId),
    /// A session is gone for good.
    Deleted {
        /// The session.
        session: SessionId,
        /// Set if it worked for another one.
        is_child: bool,
    },
    /// A stored fact that changes what lists show, a turn that began or ended, or a question and its answer. Only its place is
    /// told: the fact itself may be long, and watchers that do not read would hold it.
    Fact {
        /// The session.
        session: SessionId,
        /// The number of its event.
        seq: u64,
        /// Set if it is more than a change of what lists show.
        is_event: bool,
        /// Set if the session works for another one.
        is_child: bool,
    },
    /// The configuration was read again.
    Reconfigured,
}

/// Place at which news are told.
#[derive(Debug)]
pub(crate) struct NewsSender(broadcast::Sender<SessionNews>);

impl Default for NewsSender {
    fn default() -> Self {
        Self(broadcast::Sender::new(QUEUE))
    }
}

impl NewsSender {
    pub(crate) fn tell(&self, news: SessionNews) {
        // Without watchers it goes nowhere.
        let _ = self.0.send(news);
    }

    /// Tells of stored facts, as far as they are news.
    pub(crate) fn tell_facts(&self, stored: &[Arc<Event>], is_child: bool) {
        if self.0.receiver_count() == 0 {
            return;
        }
        for event in stored {
            let is_event = is_event(&event.kind);
            if is_event || changes_lists(&event.kind) {
                self.tell(SessionNews::Fact { session: event.session_id, seq: event.seq, is_event, is_child });
            }
        }
    }

    pub(crate) fn watch(&self) -> NewsReader {
        NewsReader(self.0.subscribe())
    }
}

/// A watcher's end.
#[derive(Debug)]
pub struct NewsReader(broadcast::Receiver<SessionNews>);

/// Number of news that a watcher has missed, because it did not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissedNews(pub u64);

impl NewsReader {
    /// The next news; none where the engine is gone.
    pub async fn next(&mut self) -> Option<Result<SessionNews, MissedNews>> {
        match self.0.recv().await {
            Ok(news) => Some(Ok(news)),
            Err(RecvError::Lagged(missed)) => Some(Err(MissedNews(missed))),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next news, if there is any already.
    pub fn try_next(&mut self) -> Option<Result<SessionNews, MissedNews>> {
        match self.0.try_recv() {
            Ok(news) => Some(Ok(news)),
            Err(TryRecvError::Lagged(missed)) => Some(Err(MissedNews(missed))),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// Returns whether a fact is news by itself: what is said and done in a turn is not.
fn is_event(fact: &EventKind) -> bool {
    matches!(
        fact,
        EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::InterruptRaised { .. }
            | EventKind::InterruptResolved { .. }
    )
}

/// Returns whether lists show a session otherwise after a fact that is no news by itself.
fn changes_lists(fact: &EventKind) -> bool {
    match fact {
        EventKind::StateChanged { change } => matches!(
            change,
            StateChange::Title { .. }
                | StateChange::Settings { .. }
                | StateChange::Queue { .. }
                | StateChange::Reset
                | StateChange::Agent { .. }
                | StateChange::Undone { .. }
                | StateChange::Withdrawn { .. }
        ),
        EventKind::TurnStarted { .. }
        | EventKind::TurnEnded { .. }
        | EventKind::InterruptRaised { .. }
        | EventKind::InterruptResolved { .. }
        | EventKind::ItemStarted { .. }
        | EventKind::ItemDelta { .. }
        | EventKind::ItemCompleted { .. }
        | EventKind::UsageUpdated { .. }
        | EventKind::IntentClassified { .. }
        | EventKind::ModelChosen { .. }
        | EventKind::Warning { .. } => false,
    }
}
