//! How many sessions and turns there are, kept by the sessions themselves.

use tokio::sync::watch;

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
    #[must_use]
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
