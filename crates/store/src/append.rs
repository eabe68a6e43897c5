//! Appending events: encoded in the caller's task, then checked and applied by the writer.
//!
//! Also contains the writer's cache of recently written sessions, which saves the writer from reading back its own
//! writes.

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

/// Encoded events of one session, ready to be written.
pub(crate) struct Append {
    session: SessionId,
    events: Vec<EncodedEvent>,
}

struct EncodedEvent {
    event: Arc<Event>,
    payload: String,
}

impl Append {
    /// Encodes the events in the caller's task, so that the single writer thread only writes. Returns `None` if there
    /// are no events.
    pub(crate) fn encode(events: Vec<Arc<Event>>) -> Result<Option<Self>, Fault> {
        let Some(session) = events.first().map(|event| event.session_id) else { return Ok(None) };
        if events.iter().any(|event| event.session_id != session) {
            return Err(Fault::invalid("one append cannot contain events of several sessions"));
        }
        let events = events.into_iter().map(EncodedEvent::new).collect::<Result<_, _>>()?;
        Ok(Some(Self { session, events }))
    }

    /// Same as [`Self::encode`], but fails unless the events belong to session `id`.
    pub(crate) fn of_session(id: SessionId, events: Vec<Arc<Event>>) -> Result<Option<Self>, Fault> {
        match Self::encode(events)? {
            Some(append) if append.session != id => Err(Fault::invalid("the first events belong to another session")),
            append => Ok(append),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.events.len()
    }

    /// Returns the size of the events' payloads in bytes.
    pub(crate) fn size(&self) -> usize {
        self.events.iter().map(|encoded| encoded.payload.len()).sum()
    }

    /// Writes the events and the resulting changes. On an error, the caller must roll back the whole change.
    pub(crate) fn apply(&self, connection: &Connection, rows: &mut Rows) -> Result<(), Fault> {
        let CachedRow { key, owner, mut projection } = rows.get(connection, self.session)?;
        let before = projection.clone();
        for EncodedEvent { event, payload } in &self.events {
            projection.apply(event)?;
            events::insert(connection, key, event, payload)?;
            apply_to_tables(connection, key, event)?;
            sessions::apply_handed_over(connection, key, &event.kind)?;
            count(connection, rows, owner, event)?;
            usage::count(connection, &rows.time_zone(), event)?;
        }
        sessions::save(connection, key, &before, &projection)?;
        rows.put(self.session, CachedRow { key, owner, projection });
        Ok(())
    }
}

impl EncodedEvent {
    fn new(event: Arc<Event>) -> Result<Self, Fault> {
        let payload = json(&event.kind)?;
        // A model's value may be nested exactly to the JSON reader's limit. Inside an event, the value exceeds the
        // limit, so the event could be stored but never read. Such an event is rejected here, while the caller can
        // still react.
        let has_model_values =
            matches!(event.kind, EventKind::InterruptRaised { .. } | EventKind::InterruptResolved { .. });
        if has_model_values && json_from::<EventKind>(&payload).is_err() {
            return Err(Fault::invalid("the arguments are nested too deeply for the journal"));
        }
        Ok(Self { event, payload })
    }
}

/// Counts a model call. Delegated usage is skipped, because it was already counted in the subagents' sessions.
fn count(connection: &Connection, rows: &Rows, owner: i64, event: &Event) -> Result<(), Fault> {
    let EventKind::UsageUpdated { slot, model, usage: call_usage, delegated: false, .. } = &event.kind else {
        return Ok(());
    };
    let call = CountedCall { at: event.at, session: Some(owner), slot: *slot, model, usage: call_usage };
    usage::add(connection, &rows.time_zone(), &call)
}

/// Updates the tables outside of the narrow projection.
fn apply_to_tables(connection: &Connection, session: i64, event: &Event) -> Result<(), Fault> {
    match &event.kind {
        EventKind::InterruptRaised { interrupt } => interrupts::raise(connection, session, event, interrupt),
        EventKind::InterruptResolved { interrupt_id, answer, by, .. } => {
            interrupts::resolve(connection, session, event, *interrupt_id, answer)?;
            interrupts::store_answered_grants(connection, event, *interrupt_id, answer, by)
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

/// Maximum number of cached sessions. Exceeds the number of sessions that write at the same time, but needs little
/// memory.
const MAX_CACHED: usize = 256;

/// Row of a session, in its state after the open transaction.
pub(crate) struct CachedRow {
    pub(crate) key: i64,
    /// Key of the top-level session for which this session works. The session's own key if it is a top-level session.
    pub(crate) owner: i64,
    pub(crate) projection: Projection,
}

/// Cached rows by session, used by the writer thread only. After a rollback, the cache must be cleared.
pub(crate) struct Rows {
    time_zone: fn() -> TimeZone,
    cached: HashMap<SessionId, CachedRow>,
    /// Keys of removed sessions, including those removed by a transaction that was rolled back.
    removed: Vec<i64>,
}

impl Rows {
    pub(crate) fn new(time_zone: fn() -> TimeZone) -> Self {
        Self { time_zone, cached: HashMap::new(), removed: Vec::new() }
    }

    /// Returns the time zone for counting usage by day.
    pub(crate) fn time_zone(&self) -> TimeZone {
        (self.time_zone)()
    }

    /// Takes a row from the cache, or reads it from the table. The row stays out of the cache until the caller
    /// [puts](Self::put) it back, so that a change that fails halfway leaves no stale row.
    pub(crate) fn get(&mut self, connection: &Connection, session: SessionId) -> Result<CachedRow, Fault> {
        match self.cached.remove(&session) {
            Some(cached) => Ok(cached),
            None => {
                let row = sessions::load(connection, session)?;
                let owner = sessions::top_level_key(connection, row.key)?;
                Ok(CachedRow { key: row.key, owner, projection: row.projection })
            }
        }
    }

    pub(crate) fn put(&mut self, session: SessionId, cached: CachedRow) {
        if self.cached.len() >= MAX_CACHED {
            self.cached.clear();
        }
        self.cached.insert(session, cached);
    }

    /// Records that sessions were removed.
    pub(crate) fn remove(&mut self, keys: Vec<i64>) {
        self.clear();
        self.removed.extend(keys);
    }

    /// Returns the keys of the sessions removed since the last call. After a rollback, these sessions still exist.
    pub(crate) fn take_removed(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.removed)
    }

    /// Clears the cache, because a whole transaction was rolled back, or because a session and its subagents' sessions
    /// were deleted.
    pub(crate) fn clear(&mut self) {
        self.cached.clear();
    }
}
