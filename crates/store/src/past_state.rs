//! The state after a sequence of stored events, for a session that starts with these events.
//!
//! A reader computes the state, so that the writer thread only writes.

use std::collections::BTreeMap;

use agentd_core::{
    event::{Event, EventKind, StateChange},
    files::PendingAttachments,
    ids::SessionId,
    model::Slot,
    session::Todo,
    state_files::{StateFileChange, StateFiles},
    surroundings::Surroundings,
    usage::Usage,
};
use jiff::{Timestamp, tz::TimeZone};
use rusqlite::{Connection, params};

use crate::{
    codec::{Fault, number, text},
    damage, interrupts,
    projection::Projection,
    sessions,
    usage::{self, CountedCall},
};

/// State after the first events of a session.
#[derive(Default)]
pub(crate) struct PastState {
    pub(crate) projection: Projection,
    pub(crate) agents: Vec<String>,
    todos: Vec<Todo>,
    files: StateFiles,
    handed_over: PendingAttachments,
    tools: Vec<String>,
    /// Surroundings of the session, with the number of the event that set them.
    surroundings: Option<(u64, Surroundings)>,
    /// Number of the last event whose model calls have already been counted.
    counted: u64,
    /// Model calls by quarter of an hour, slot and model, with the time of one of the calls. A new day never begins
    /// within a quarter of an hour.
    calls: BTreeMap<(i64, Slot, String), (Timestamp, Usage)>,
}

impl PastState {
    /// Reads the events of `key` up to number `through`, as events of session `id`.
    pub(crate) fn read(
        connection: &Connection,
        key: i64,
        id: SessionId,
        through: u64,
        at: Timestamp,
    ) -> Result<Self, Fault> {
        let mut state =
            Self { counted: usage::through(connection, id)?, projection: Projection::new(at), ..Self::default() };
        let mut statement = connection.prepare_cached(
            "SELECT seq, at, turn, kind, payload FROM events WHERE session = ?1 AND seq <= ?2 ORDER BY seq",
        )?;
        let mut rows = statement.query(params![key, number(through)?])?;
        while let Some(row) = rows.next()? {
            let event = damage::read(row, id)?;
            if event.is_damaged() {
                state.projection.apply_damaged(&event, text(row, "kind").unwrap_or_default())?;
                continue;
            }
            state.apply(event)?;
        }
        if state.projection.last_seq != through {
            return Err(Fault::not_found(format!("session {id} has no event {through}")));
        }
        if state.projection.open_turn.is_some() {
            return Err(Fault::conflict(format!("a turn of session {id} is open at event {through}")));
        }
        Ok(state)
    }

    fn apply(&mut self, event: Event) -> Result<(), Fault> {
        self.projection.apply(&event)?;
        self.handed_over.apply(&event.kind);
        match event.kind {
            EventKind::StateChanged { change: StateChange::Todos { todos } } => self.todos = todos,
            EventKind::StateChanged { change: StateChange::File(change) } => self.files.apply(&change, event.at),
            EventKind::StateChanged { change: StateChange::Agent { stack } } => self.agents = stack,
            EventKind::StateChanged { change: StateChange::Tools { names } } => self.tools = names,
            EventKind::StateChanged { change: StateChange::Surroundings(found) } => {
                self.surroundings = Some((event.seq, found));
            }
            EventKind::StateChanged { change: StateChange::Reset } => {
                self.files = StateFiles::default();
                self.agents.clear();
                self.tools.clear();
                self.surroundings = None;
            }
            // The usage of copied turns is counted in the source session.
            EventKind::StateChanged { change: StateChange::Forked { .. } } => self.calls.clear(),
            EventKind::UsageUpdated { slot, model, usage, delegated: false, .. } if event.seq > self.counted => {
                let quarter = event.at.as_second().div_euclid(900);
                self.calls.entry((quarter, slot, model)).or_insert((event.at, Usage::default())).1 += usage;
            }
            _ => {}
        }
        Ok(())
    }

    /// Marks the surroundings as outdated, so that the session determines them again before its next turn.
    pub(crate) fn with_stale_surroundings(mut self) -> Self {
        if let Some((_, surroundings)) = &mut self.surroundings {
            surroundings.project.get_or_insert_with(|| "/".into());
        }
        self
    }

    /// Same as [`Self::with_stale_surroundings`], but only if the surroundings come from an event up to `imported`.
    pub(crate) fn without_imported_surroundings(self, imported: u64) -> Self {
        if self.surroundings.as_ref().is_some_and(|(seq, _)| *seq <= imported) {
            return self.with_stale_surroundings();
        }
        self
    }

    /// Writes the state to the session with this key.
    pub(crate) fn save(&self, connection: &Connection, key: i64, at: Timestamp) -> Result<(), Fault> {
        sessions::save(connection, key, &Projection::new(at), &self.projection)?;
        sessions::save_state(connection, key, "todos", &self.todos)?;
        sessions::save_state(connection, key, "handed_over", &self.handed_over)?;
        sessions::save_state(connection, key, "tools", &self.tools)?;
        sessions::save_state(connection, key, "surroundings", &self.surroundings.as_ref().map(|(_, found)| found))?;
        for (path, file) in self.files.iter() {
            let change = StateFileChange { path: path.to_owned(), content: Some(file.content.clone()) };
            interrupts::change_file(connection, key, file.changed, &change)?;
        }
        Ok(())
    }

    /// Adds the session's model calls to the usage of a top-level session.
    pub(crate) fn count(&self, connection: &Connection, zone: &TimeZone, owner: i64) -> Result<(), Fault> {
        for ((_, slot, model), (at, usage)) in &self.calls {
            usage::add(connection, zone, &CountedCall { at: *at, session: Some(owner), slot: *slot, model, usage })?;
        }
        Ok(())
    }
}
