//! Which sessions a caller gets at, which sessions and turns this server began, and the turns that wait for an answer. The protocol
//! does not tell who began a session, so what was begun is known for as long as this process lives.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, PoisonError},
};

use agentd_core::{
    error::ErrorKind,
    ids::{InterruptId, SessionId, TurnId},
    interrupt::Interrupt,
};
use agentd_proto::client::Client;
use clap::ValueEnum;

use super::shown;
use crate::{cmd::interrupts::bare, failure::Failure};

/// Which sessions callers get at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sessions {
    /// Those that were begun through this server since it was started
    Own,
    /// All of yours, each with its folder and what you allowed in it: the caller may there what the session may
    All,
}

/// Sessions that a caller can reach.
#[derive(Debug)]
pub(super) struct Reach {
    sessions: Sessions,
    begun: Mutex<OwnTurns>,
}

/// Sessions and turns begun here. An id for each session is little beside what the daemon keeps of it; turns are
/// forgotten when they end.
#[derive(Debug, Default)]
struct OwnTurns {
    /// The newest last: the ids are made in the order of time.
    sessions: BTreeSet<SessionId>,
    turns: BTreeSet<TurnId>,
}

impl Reach {
    /// A reach of a server that has begun nothing yet.
    pub(super) fn new(sessions: Sessions) -> Self {
        Self { sessions, begun: Mutex::default() }
    }

    /// Notes that a turn was begun here, and that its session was, if it was.
    pub(super) fn began(&self, session: Option<SessionId>, turn: TurnId) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.sessions.extend(session);
        begun.turns.insert(turn);
    }

    /// Notes that a turn has ended.
    pub(super) fn ended(&self, turn: TurnId) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).turns.remove(&turn);
    }

    /// Returns whether a session was begun here.
    pub(super) fn has_begun(&self, session: SessionId) -> bool {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).sessions.contains(&session)
    }

    /// Returns whether a turn that has not ended was begun here.
    pub(super) fn has_turn(&self, turn: TurnId) -> bool {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).turns.contains(&turn)
    }

    /// The sessions that may be listed, the newest first; none where all may be.
    pub(super) fn listed(&self) -> Option<Vec<SessionId>> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        (self.sessions == Sessions::Own).then(|| begun.sessions.iter().rev().copied().collect())
    }

    /// The session that a caller named, by its id or the start of it. Where callers get at their own only, what is not theirs
    /// and what is not there are told in the same words, and the daemon is not asked about either.
    pub(super) async fn session(&self, client: &Client, named: &str) -> anyhow::Result<SessionId> {
        let Some(own) = self.listed() else { return Ok(client.find_session(named).await?) };
        let wanted = bare(named.trim());
        let mut fitting = own.into_iter().filter(|id| bare(&id.to_string()).starts_with(&wanted));
        match (fitting.next(), fitting.next()) {
            (Some(one), None) if !wanted.is_empty() => Ok(one),
            (Some(_), Some(_)) => Err(Failure::usage("more than one session has an id that starts like this")
                .hint("write more of the session_id; list_sessions shows all")
                .into()),
            _ => Err(Failure::new(ErrorKind::NotFound, "no session of this caller has this session_id")
                .hint(
                    "list_sessions shows the sessions started through this server; the user can give it all sessions \
                     with `agentctl mcp serve --sessions all`",
                )
                .into()),
        }
    }

    /// Those of the interrupts that hold up a session that callers get at.
    pub(super) async fn within(&self, client: &Client, pending: Vec<Interrupt>) -> Vec<Interrupt> {
        if self.sessions == Sessions::All {
            return pending;
        }
        let mut within = Vec::new();
        for interrupt in pending {
            // A session that is gone by now is nobody's.
            let is_own = self.has_begun(interrupt.session_id)
                || shown::top(client, &interrupt).await.is_ok_and(|top| self.has_begun(top));
            if is_own {
                within.push(interrupt);
            }
        }
        within
    }
}

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
