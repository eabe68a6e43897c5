//! Sessions that continue from a copy of another session's events.

use std::sync::Arc;

use agentd_core::{
    error::StoreError,
    event::{Event, EventKind},
    ids::SessionId,
    session::{NewFork, SessionSettings, TurnSpan},
};

use super::{State, conflict, invalid, unknown};

impl State {
    /// Returns all events except copies.
    pub(super) fn originals(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.log.iter().filter(|event| self.copied.get(&event.session_id).is_none_or(|copied| event.seq > *copied))
    }

    pub(super) fn turns(&self, session: SessionId) -> Vec<TurnSpan> {
        let started = self.events_of(session).filter(|event| matches!(event.kind, EventKind::TurnStarted { .. }));
        let ended = |of: &Arc<Event>| {
            let mut ends = self.events_of(session).filter(|event| matches!(event.kind, EventKind::TurnEnded { .. }));
            ends.find(|event| event.turn_id == of.turn_id).map(|event| event.seq)
        };
        started.map(|event| TurnSpan { began: event.seq, ended: ended(event) }).collect()
    }

    pub(super) fn fork(&mut self, fork: NewFork) -> Result<(), StoreError> {
        let NewFork { id, at, from, through, first } = fork;
        if !self.sessions.contains_key(&from) {
            return Err(unknown(from));
        }
        if first.iter().any(|event| event.session_id != id) {
            return Err(invalid("the first events belong to another session"));
        }
        let is_open = |span: &TurnSpan| span.began <= through && span.ended.is_none_or(|ended| ended > through);
        if self.turns(from).iter().any(is_open) {
            return Err(conflict("a turn is open there".to_owned()));
        }
        let copies: Vec<_> =
            self.events_of(from).take_while(|event| event.seq <= through).map(|e| copy(e, id)).collect();
        if copies.len() as u64 != through {
            return Err(unknown(from));
        }
        self.create(id, at, SessionSettings::default(), Vec::new())?;
        let length = self.log.len();
        self.log.extend(copies);
        self.copied.insert(id, through);
        let stored = self.append(first);
        if stored.is_err() {
            self.log.truncate(length);
            self.sessions.remove(&id);
            self.copied.remove(&id);
        }
        stored
    }
}

fn copy(event: &Arc<Event>, session_id: SessionId) -> Arc<Event> {
    let mut copy = Event { session_id, ..Event::clone(event) };
    if let EventKind::InterruptRaised { interrupt } = &mut copy.kind {
        interrupt.session_id = session_id;
    }
    Arc::new(copy)
}
