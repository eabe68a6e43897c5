//! One append: encoded by the caller's task, checked and applied by the writer.
//!
//! What the writer knows of the sessions that it wrote to lately, so that it need not read what it has just written.

use std::{collections::HashMap, sync::Arc};

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
};
use jiff::tz::TimeZone;
use rusqlite::Connection;

use crate::{
    codec::{Fault, json, json_from},
    events, interrupts,
    projection::Projection,
    sessions,
    usage::{self, CountedCall},
};

/// Events of one session, ready to be written.
pub(crate) struct Append {
    session: SessionId,
    events: Vec<EncodedEvent>,
}

struct EncodedEvent {
    event: Arc<Event>,
    payload: String,
}

impl Append {
    /// Encodes on the caller's side, so that the one writer spends its time on writing. Nothing to append is nothing
    /// to do.
    pub(crate) fn encode(events: Vec<Arc<Event>>) -> Result<Option<Self>, Fault> {
        let Some(session) = events.first().map(|event| event.session_id) else { return Ok(None) };
        if events.iter().any(|event| event.session_id != session) {
            return Err(Fault::invalid("one append cannot hold events of two sessions"));
        }
        let events = events.into_iter().map(EncodedEvent::new).collect::<Result<_, _>>()?;
        Ok(Some(Self { session, events }))
    }

    /// Events that are said to be that session's.
    pub(crate) fn of_session(id: SessionId, events: Vec<Arc<Event>>) -> Result<Option<Self>, Fault> {
        match Self::encode(events)? {
            Some(append) if append.session != id => {
                Err(Fault::invalid("the first events of a session cannot be another's"))
            }
            append => Ok(append),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.events.len()
    }

    /// The bytes of its payloads.
    pub(crate) fn size(&self) -> usize {
        self.events.iter().map(|encoded| encoded.payload.len()).sum()
    }

    /// Writes the events and what follows from them. The caller undoes everything where this fails.
    pub(crate) fn apply(&self, connection: &Connection, rows: &mut Rows) -> Result<(), Fault> {
        let KnownRow { key, person, mut projection } = rows.get(connection, self.session)?;
        let before = projection.clone();
        for EncodedEvent { event, payload } in &self.events {
            projection.apply(event)?;
            events::insert(connection, key, event, payload)?;
            apply_to_tables(connection, key, event)?;
            sessions::apply_handed_over(connection, key, &event.kind)?;
            count(connection, rows, person, event)?;
            usage::count(connection, &rows.time_zone(), event)?;
        }
        sessions::save(connection, key, &before, &projection)?;
        rows.put(self.session, KnownRow { key, person, projection });
        Ok(())
    }
}

impl EncodedEvent {
    fn new(event: Arc<Event>) -> Result<Self, Fault> {
        let payload = json(&event.kind)?;
        // Arguments that a model nested to the limit of the JSON reader are beyond it once they stand inside an
        // event. Such an event would be stored and never read again, so it is refused while somebody can still act.
        let holds_values =
            matches!(event.kind, EventKind::InterruptRaised { .. } | EventKind::InterruptResolved { .. });
        if holds_values && json_from::<EventKind>(&payload).is_err() {
            return Err(Fault::invalid("the arguments are nested too deep for the journal"));
        }
        Ok(Self { event, payload })
    }
}

/// Counts a model call. What other sessions took for this one they have counted themselves.
fn count(connection: &Connection, rows: &Rows, person: i64, event: &Event) -> Result<(), Fault> {
    let EventKind::UsageUpdated { slot, model, usage: took, delegated: false, .. } = &event.kind else { return Ok(()) };
    let call = CountedCall { at: event.at, session: Some(person), slot: *slot, model, usage: took };
    usage::add(connection, &rows.time_zone(), &call)
}

/// The consequences of an event outside the narrow projection.
fn apply_to_tables(connection: &Connection, session: i64, event: &Event) -> Result<(), Fault> {
    match &event.kind {
        EventKind::InterruptRaised { interrupt } => interrupts::raise(connection, session, event, interrupt),
        EventKind::InterruptResolved { interrupt_id, answer, by, .. } => {
            interrupts::resolve(connection, session, event, *interrupt_id, answer)?;
            interrupts::keep_answered(connection, event, *interrupt_id, answer, by)
        }
        EventKind::StateChanged { change } => match change {
            StateChange::Settings { settings } => sessions::save_state(connection, session, "settings", settings),
            StateChange::Todos { todos } => sessions::save_state(connection, session, "todos", todos),
            StateChange::File(change) => interrupts::change_file(connection, session, event.at, change),
            StateChange::Agent { stack } => sessions::save_state(connection, session, "agents", stack),
            StateChange::Tools { names } => sessions::save_state(connection, session, "tools", names),
            StateChange::Surroundings(found) => sessions::save_state(connection, session, "surroundings", found),
            StateChange::Reset => {
                sessions::save_state(connection, session, "agents", &[""; 0])?;
                sessions::save_state(connection, session, "tools", &[""; 0])?;
                sessions::save_state(connection, session, "surroundings", &None::<()>)?;
                interrupts::clear_files(connection, session)
            }
            StateChange::Queue { added: Some(turn), .. } => sessions::queue(connection, session, turn),
            _ => Ok(()),
        },
        EventKind::TurnStarted { .. } => {
            event.turn_id.map_or(Ok(()), |turn| sessions::unqueue(connection, session, turn))
        }
        _ => Ok(()),
    }
}

/// Sessions that are known at once. More than write at the same time, and little memory.
const MAX_KNOWN: usize = 256;

/// A session's row, as the open transaction will leave it.
pub(crate) struct KnownRow {
    pub(crate) key: i64,
    /// Key of the session of a person for which it works, which may be itself.
    pub(crate) person: i64,
    pub(crate) projection: Projection,
}

/// Rows by session. Only the one thread that writes has them. What a transaction takes back must be forgotten.
pub(crate) struct Rows {
    time_zone: fn() -> TimeZone,
    known: HashMap<SessionId, KnownRow>,
    /// The keys of sessions that the open transaction removes, or one that was taken back.
    removed: Vec<i64>,
}

impl Rows {
    pub(crate) fn new(time_zone: fn() -> TimeZone) -> Self {
        Self { time_zone, known: HashMap::new(), removed: Vec::new() }
    }

    /// The time zone whose days usage is counted by.
    pub(crate) fn time_zone(&self) -> TimeZone {
        (self.time_zone)()
    }

    /// The row, out of the table where it is not known. It is no longer known until it is [put](Self::put) back, so that
    /// a change which fails half-way leaves nothing behind.
    pub(crate) fn get(&mut self, connection: &Connection, session: SessionId) -> Result<KnownRow, Fault> {
        match self.known.remove(&session) {
            Some(known) => Ok(known),
            None => {
                let row = sessions::load(connection, session)?;
                let person = sessions::of_person(connection, row.key)?;
                Ok(KnownRow { key: row.key, person, projection: row.projection })
            }
        }
    }

    pub(crate) fn put(&mut self, session: SessionId, known: KnownRow) {
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(session, known);
    }

    /// Takes note of sessions that are removed.
    pub(crate) fn remove(&mut self, keys: Vec<i64>) {
        self.clear();
        self.removed.extend(keys);
    }

    /// The keys of sessions that were removed since this was asked last. A transaction that was taken back has removed none
    /// of them.
    pub(crate) fn take_removed(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.removed)
    }

    /// Forgets all, because a whole transaction was taken back, or a session was deleted and with it all that worked for it.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}
