//! A session that goes on from a copy of another's events.
//!
//! What the copied events add up to is worked out by a reader, so that the one thread that writes only copies rows. Events
//! are never changed, so what was read is what is copied.

use agentd_core::{
    event::{EventKind, StateChange},
    files::PendingAttachments,
    ids::SessionId,
    session::{NewFork, SessionSettings, Todo},
    state_files::{StateFileChange, StateFiles},
    surroundings::Surroundings,
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::{
    append::Append,
    codec::{number, text},
    damage,
    error::Fault,
    projection::Projection,
    rows::Rows,
    sessions, state_files,
};

/// A fork, ready to be written.
pub(crate) struct Fork {
    id: SessionId,
    at: Timestamp,
    from: SessionId,
    past: Past,
    first: Option<Append>,
}

/// Sum of the copied events.
struct Past {
    projection: Projection,
    todos: Vec<Todo>,
    files: StateFiles,
    handed_over: PendingAttachments,
    tools: Vec<String>,
    surroundings: Option<Surroundings>,
}

impl Fork {
    /// Reads what is to be copied.
    pub(crate) fn prepare(connection: &Connection, fork: NewFork) -> Result<Self, Fault> {
        let NewFork { id, at, from, through, first } = fork;
        let past = past(connection, from, through, at)?;
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
        sessions::save(connection, key, &Projection::new(*at), &past.projection)?;
        sessions::save_todos(connection, key, &past.todos)?;
        sessions::save_handed_over(connection, key, &past.handed_over)?;
        sessions::save_tools(connection, key, &past.tools)?;
        sessions::save_surroundings(connection, key, past.surroundings.as_ref())?;
        for (path, file) in past.files.iter() {
            let change = StateFileChange { path: path.to_owned(), content: Some(file.content.clone()) };
            state_files::change(connection, key, file.changed, &change)?;
        }
        first.as_ref().map_or(Ok(()), |append| append.apply(connection, rows))
    }
}

/// Copies rows, with their numbers. What names the session inside of an event names the new one.
fn copy(connection: &Connection, source: i64, key: i64, through: u64, id: SessionId) -> Result<(), Fault> {
    let copied = connection
        .prepare_cached(
            "INSERT INTO events (session, seq, at, turn, kind, payload)
             SELECT ?1, seq, at, turn, kind,
                CASE WHEN kind = 'interrupt_raised' AND json_valid(payload)
                    THEN json_set(payload, '$.interrupt.session_id', ?4) ELSE payload END
             FROM events WHERE session = ?2 AND seq <= ?3 ORDER BY seq",
        )?
        .execute(params![key, source, number(through)?, id.to_string()])?;
    if copied as u64 == through { Ok(()) } else { Err(Fault::Damaged("an event of the session is missing".to_owned())) }
}

fn past(connection: &Connection, from: SessionId, through: u64, at: Timestamp) -> Result<Past, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let session = sessions::key(&snapshot, from)?.ok_or_else(|| sessions::unknown(from))?;
    let mut past = Past {
        projection: Projection::new(at),
        todos: Vec::new(),
        files: StateFiles::default(),
        handed_over: PendingAttachments::default(),
        tools: Vec::new(),
        surroundings: None,
    };
    let mut statement = snapshot.prepare_cached(
        "SELECT seq, at, turn, kind, payload FROM events WHERE session = ?1 AND seq <= ?2 ORDER BY seq",
    )?;
    let mut rows = statement.query(params![session, number(through)?])?;
    while let Some(row) = rows.next()? {
        let event = damage::read(row, from)?;
        if event.is_damaged() {
            past.projection.apply_damaged(&event, text(row, "kind").unwrap_or_default())?;
            continue;
        }
        past.projection.apply(&event)?;
        past.handed_over.apply(&event.kind);
        match event.kind {
            EventKind::StateChanged { change: StateChange::Todos { todos } } => past.todos = todos,
            EventKind::StateChanged { change: StateChange::File(change) } => past.files.apply(&change, event.at),
            EventKind::StateChanged { change: StateChange::Tools { names } } => past.tools = names,
            EventKind::StateChanged { change: StateChange::Surroundings(found) } => past.surroundings = Some(found),
            EventKind::StateChanged { change: StateChange::Reset } => {
                past.files = StateFiles::default();
                past.tools.clear();
                past.surroundings = None;
            }
            _ => {}
        }
    }
    if past.projection.last_seq != through {
        return Err(Fault::not_found(format!("session {from} has no event {through}")));
    }
    if past.projection.open_turn.is_some() {
        return Err(Fault::conflict(format!("a turn of session {from} is open at event {through}")));
    }
    Ok(past)
}
