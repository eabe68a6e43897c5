//! A session that goes on from a copy of another's events.
//!
//! What the copied events add up to is worked out by a reader, so that the one thread that writes only copies rows. Events
//! are never changed, so what was read is what is copied.

use std::sync::Arc;

use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
    session::{NewFork, SessionSettings},
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::{
    append::Append,
    codec::{number, run},
    error::Fault,
    past::Past,
    rows::Rows,
    sessions,
};

/// A fork, ready to be written.
pub(crate) struct Fork {
    id: SessionId,
    at: Timestamp,
    from: SessionId,
    past: Past,
    first: Option<Append>,
}

impl Fork {
    /// Reads what is to be copied.
    pub(crate) fn prepare(connection: &Connection, fork: NewFork) -> Result<Self, Fault> {
        let NewFork { id, at, from, through, first } = fork;
        let past = past(connection, from, through, at)?.of_this_machine(imported(&first));
        Ok(Self { id, at, from, past, first: Append::of_session(id, first)? })
    }

    /// Number of events that it stores, the copied ones included.
    pub(crate) fn count(&self) -> usize {
        let copied = usize::try_from(self.past.projection.last_seq).unwrap_or(usize::MAX);
        copied.saturating_add(self.first.as_ref().map_or(0, Append::count))
    }

    /// The bytes of its own events.
    pub(crate) fn size(&self) -> usize {
        self.first.as_ref().map_or(0, Append::size)
    }

    /// Writes all of it. The caller undoes everything where this fails.
    pub(crate) fn apply(&self, connection: &Connection, rows: &mut Rows) -> Result<(), Fault> {
        let Self { id, at, from, past, first } = self;
        let source = sessions::key(connection, *from)?.ok_or_else(|| sessions::unknown(*from))?;
        sessions::insert(connection, *id, *at, &SessionSettings::default())?;
        let key = sessions::key(connection, *id)?.ok_or(Fault::Lost)?;
        copy(connection, source, key, past.projection.last_seq, *id)?;
        past.save(connection, key, *at)?;
        first.as_ref().map_or(Ok(()), |append| append.apply(connection, rows))
    }
}

/// Number of the last event that came from another machine, as the first events of the fork tell; 0 where none did.
fn imported(first: &[Arc<Event>]) -> u64 {
    let told = first.iter().find_map(|event| match &event.kind {
        EventKind::StateChanged { change: StateChange::Settings { settings } } => settings.imported.as_ref(),
        _ => None,
    });
    told.map_or(0, |origin| origin.events)
}

/// Copies rows, with their numbers. What names the session inside of an event names the new one.
fn copy(connection: &Connection, source: i64, key: i64, through: u64, id: SessionId) -> Result<(), Fault> {
    let sql = "INSERT INTO events (session, seq, at, turn, kind, payload)
             SELECT ?1, seq, at, turn, kind,
                CASE WHEN kind = 'interrupt_raised' AND json_valid(payload)
                    THEN json_set(payload, '$.interrupt.session_id', ?4) ELSE payload END
             FROM events WHERE session = ?2 AND seq <= ?3 ORDER BY seq";
    let copied = run(connection, sql, params![key, source, number(through)?, id.to_string()])?;
    if copied as u64 == through { Ok(()) } else { Err(Fault::Damaged("an event of the session is missing".to_owned())) }
}

fn past(connection: &Connection, from: SessionId, through: u64, at: Timestamp) -> Result<Past, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let session = sessions::key(&snapshot, from)?.ok_or_else(|| sessions::unknown(from))?;
    Past::read(&snapshot, session, from, through, at)
}
