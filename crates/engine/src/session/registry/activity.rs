//! What all sessions do, in one place: how many sessions and turns there are, and news for those who watch them together. Nothing
//! is done for watchers while nobody watches, and nobody waits for one: one that is too slow hears how much it has missed.

use std::sync::Arc;

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
};
use tokio::sync::{
    broadcast::{
        self,
        error::{RecvError, TryRecvError},
    },
    watch,
};

use crate::recovery::RecoveredTurn;

/// Activity of the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Sessions in memory.
    pub sessions: usize,
    /// Turns that are open.
    pub open_turns: usize,
    /// Those of them that wait for a person.
    pub waiting_turns: usize,
}

impl Activity {
    /// Returns whether no turn is at work: each that is open waits for a person, with one of its calls at least.
    pub fn is_quiet(&self) -> bool {
        self.open_turns == self.waiting_turns
    }
}

/// Figures about what is going on.
#[derive(Debug, Clone, Default)]
pub struct EngineStats {
    /// Sessions and turns.
    pub activity: Activity,
    /// Turns that the last stop of the daemon had left behind.
    pub recovered: Vec<RecoveredTurn>,
}

/// The figures that sessions keep.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    activity: watch::Sender<Activity>,
}

/// One session's share of the figures; given back when the session is unloaded, however that comes.
#[derive(Debug)]
pub(crate) struct GaugeGuard {
    activity: watch::Sender<Activity>,
    open: bool,
    waiting: bool,
}

impl Gauges {
    /// Counts a session.
    pub(crate) fn enter(&self) -> GaugeGuard {
        self.activity.send_modify(|activity| activity.sessions += 1);
        GaugeGuard { activity: self.activity.clone(), open: false, waiting: false }
    }

    /// Current activity, and every change.
    pub(crate) fn follow(&self) -> watch::Receiver<Activity> {
        self.activity.subscribe()
    }

    /// Current activity.
    pub(crate) fn read(&self) -> Activity {
        *self.activity.borrow()
    }
}

impl GaugeGuard {
    /// Says whether the session has an open turn, and whether it waits for a person.
    pub(crate) fn set(&mut self, open: bool, waiting: bool) {
        let before = (self.open, self.waiting);
        if before == (open, waiting) {
            return;
        }
        self.activity.send_modify(|activity| {
            activity.open_turns = activity.open_turns - usize::from(before.0) + usize::from(open);
            activity.waiting_turns = activity.waiting_turns - usize::from(before.1) + usize::from(waiting);
        });
        (self.open, self.waiting) = (open, waiting);
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.set(false, false);
        self.activity.send_modify(|activity| activity.sessions -= 1);
    }
}

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
