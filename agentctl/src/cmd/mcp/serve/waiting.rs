//! The turns that wait for an answer, and from where each is followed again.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use agentd_core::ids::{InterruptId, SessionId, TurnId};

/// Maximum number of remembered turns. Of older ones the daemon still knows all that is needed while they wait.
const REMEMBERED: usize = 256;

/// A turn that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitingTurn {
    /// Its session: of a subagent's question, the one that the subagent works for.
    pub(super) session: SessionId,
    /// The turn.
    pub(super) turn: TurnId,
    /// The number of the last event of the session that its caller was told of.
    pub(super) seen: u64,
}

/// Those that callers were told of, by what they wait for.
#[derive(Debug, Default)]
pub(super) struct WaitingTurns {
    known: Mutex<VecDeque<(InterruptId, WaitingTurn)>>,
}

impl WaitingTurns {
    /// Remembers what a turn waits for.
    pub(super) fn remember(&self, interrupt: InterruptId, waiting: WaitingTurn) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(id, _)| *id != interrupt);
        if known.len() == REMEMBERED {
            known.pop_front();
        }
        known.push_back((interrupt, waiting));
    }

    /// The turn that waits, or waited, for this.
    pub(super) fn of(&self, interrupt: InterruptId) -> Option<WaitingTurn> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(id, _)| *id == interrupt).map(|(_, waiting)| *waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let told = WaitingTurns::default();
        let waiting = WaitingTurn { session: SessionId::generate(), turn: TurnId::generate(), seen: 1 };
        let ids: Vec<InterruptId> = (0..=REMEMBERED).map(|_| InterruptId::generate()).collect();
        for id in &ids {
            told.remember(*id, waiting);
        }
        assert_eq!((told.of(ids[0]), told.of(ids[1])), (None, Some(waiting)));
        let later = WaitingTurn { seen: 2, ..waiting };
        told.remember(ids[1], later);
        assert_eq!((told.of(ids[1]), told.of(ids[2])), (Some(later), Some(waiting)));
    }
}
