//! Imported sessions and forks.
//!
//! The events of an import are stored in small pieces, so that other writes are not delayed. These events belong to a
//! row that is its own parent, like the row of a removed session, so that no list, search or load finds the draft. At
//! the end, one small change replaces the row's placeholder by its ID. Drafts left by an earlier process are removed
//! like deleted sessions.
//!
//! A fork continues from a copy of another session's events. A reader computes the combined state of the copied events,
//! so that the writer thread only copies rows. Events never change, so the copied events are the events that the reader
//! has seen.

use std::sync::Arc;

use agentd_core::{
    archive::{DraftId, SessionDraft},
    event::{Event, EventKind, StateChange},
    ids::SessionId,
    session::{NewFork, SessionSettings},
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

use crate::{
    append::{Append, Rows},
    codec::{Fault, changed, first, id_text, json, number, number_from, run, time},
    events,
    past_state::PastState,
    sessions,
};

/// One change to drafts.
pub(crate) enum ImportStep {
    Begin(DraftId),
    Add { draft: DraftId, events: Vec<(Arc<Event>, String)> },
    Finish(Vec<PreparedDraft>),
    Abandon(Vec<DraftId>),
}

/// Draft that is ready to become a session.
pub(crate) struct PreparedDraft {
    pub(crate) session: SessionDraft,
    pub(crate) past_state: PastState,
}

impl ImportStep {
    pub(crate) fn apply(&self, connection: &Connection, rows: &mut Rows) -> Result<(), Fault> {
        match self {
            Self::Begin(draft) => begin(connection, *draft),
            Self::Add { draft, events } => add(connection, *draft, events),
            Self::Finish(drafts) => drafts.iter().try_for_each(|draft| finish(connection, rows, draft)),
            Self::Abandon(drafts) => abandon(connection, rows, drafts),
        }
    }

    /// Returns the size in bytes of the events stored by this step.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Add { events, .. } => events.iter().map(|(_, payload)| payload.len()).sum(),
            _ => 0,
        }
    }

    /// Returns the number of events made searchable by this step.
    pub(crate) fn events(&self) -> Option<usize> {
        match self {
            Self::Finish(drafts) => {
                let events = drafts.iter().map(|draft| draft.past_state.projection.last_seq).sum::<u64>();
                Some(usize::try_from(events).unwrap_or(usize::MAX))
            }
            _ => None,
        }
    }
}

/// Returns the placeholder for the ID, which matches no ID prefix or suffix that a user can type.
fn name(draft: DraftId) -> String {
    format!("import {} draft", id_text(draft.0.as_uuid()))
}

fn begin(connection: &Connection, draft: DraftId) -> Result<(), Fault> {
    let now = time(Timestamp::UNIX_EPOCH)?;
    let sql = "INSERT INTO sessions (id, created_at, updated_at, usage, last_seq) VALUES (?1, ?2, ?2, '{}', 0)";
    run(connection, sql, params![name(draft), now])?;
    run(connection, "UPDATE sessions SET parent = key WHERE id = ?1", [name(draft)])
}

/// Returns the key of a draft, and the number of its last event.
pub(crate) fn head(connection: &Connection, draft: DraftId) -> Result<(i64, u64), Fault> {
    let sql = "SELECT key, last_seq FROM sessions WHERE id = ?1 AND parent = key";
    let found: Option<(i64, i64)> = first(connection, sql, [name(draft)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (key, last) = found.ok_or_else(|| Fault::not_found("the import was aborted"))?;
    Ok((key, number_from(last)?))
}

fn add(connection: &Connection, draft: DraftId, events: &[(Arc<Event>, String)]) -> Result<(), Fault> {
    let (key, mut last) = head(connection, draft)?;
    for (event, payload) in events {
        last += 1;
        if event.seq != last {
            return Err(Fault::invalid(format!("got event {}, expected event {last}", event.seq)));
        }
        if !event.kind.is_stored() {
            return Err(Fault::invalid("deltas are not stored"));
        }
        events::insert(connection, key, event, payload)?;
    }
    run(connection, "UPDATE sessions SET last_seq = ?2 WHERE key = ?1", params![key, number(last)?])
}

fn finish(connection: &Connection, rows: &mut Rows, draft: &PreparedDraft) -> Result<(), Fault> {
    let PreparedDraft { session, past_state } = draft;
    let SessionDraft { draft, id, created_at, at, settings, counts_usage } = session;
    let (key, last) = head(connection, *draft)?;
    if last != past_state.projection.last_seq {
        return Err(Fault::conflict("the import changed while it was read"));
    }
    if sessions::key(connection, *id)?.is_some() {
        return Err(Fault::conflict(format!("session {id} already exists")));
    }
    let parent = sessions::parent(connection, settings)?;
    let sql = "UPDATE sessions SET id = ?2, created_at = ?3, parent = ?4 WHERE key = ?1";
    run(connection, sql, params![key, id_text(id.as_uuid()), time(*created_at)?, parent])?;
    let sql = "INSERT INTO session_state (session, settings, todos) VALUES (?1, ?2, '[]')";
    run(connection, sql, params![key, json(settings)?])?;
    past_state.save(connection, key, *created_at)?;
    sessions::save_state(connection, key, "agents", &past_state.agents)?;
    run(connection, "UPDATE sessions SET updated_at = ?2 WHERE key = ?1", params![key, time(*at)?])?;
    sessions::move_to_front(connection, key)?;
    if *counts_usage {
        past_state.count(connection, &rows.time_zone(), sessions::top_level_key(connection, key)?)?;
    }
    Ok(())
}

/// Hides drafts permanently. Their content is then removed like the content of deleted sessions.
fn abandon(connection: &Connection, rows: &mut Rows, drafts: &[DraftId]) -> Result<(), Fault> {
    let mut keys = Vec::new();
    for draft in drafts {
        // A draft that was never started has left no data.
        let Ok((key, _)) = head(connection, *draft) else { continue };
        run(connection, "UPDATE sessions SET id = 'removed ' || key WHERE key = ?1", [key])?;
        keys.push(key);
    }
    rows.remove(keys);
    Ok(())
}

/// Abandons the unfinished imports of an earlier process.
pub(crate) fn abandon_all(connection: &Connection) -> Result<(), Fault> {
    connection.execute("UPDATE sessions SET id = 'removed ' || key WHERE parent = key AND id LIKE 'import %'", [])?;
    Ok(())
}

/// Fork that is ready to be written.
pub(crate) struct Fork {
    id: SessionId,
    at: Timestamp,
    from: SessionId,
    past_state: PastState,
    first: Option<Append>,
}

impl Fork {
    /// Reads the state of the events to be copied.
    pub(crate) fn prepare(connection: &Connection, fork: NewFork) -> Result<Self, Fault> {
        let NewFork { id, at, from, through, first } = fork;
        let past_state = past_state(connection, from, through, at)?.without_imported_surroundings(imported(&first));
        Ok(Self { id, at, from, past_state, first: Append::of_session(id, first)? })
    }

    /// Returns the number of events stored by the fork, including copied events.
    pub(crate) fn count(&self) -> usize {
        let copied = usize::try_from(self.past_state.projection.last_seq).unwrap_or(usize::MAX);
        copied.saturating_add(self.first.as_ref().map_or(0, Append::count))
    }

    /// Returns the size of the fork's own events in bytes.
    pub(crate) fn size(&self) -> usize {
        self.first.as_ref().map_or(0, Append::size)
    }

    /// Writes the whole fork. On an error, the caller must roll back the whole change.
    pub(crate) fn apply(&self, connection: &Connection, rows: &mut Rows) -> Result<(), Fault> {
        let Self { id, at, from, past_state, first } = self;
        let source = sessions::require_key(connection, *from)?;
        sessions::insert(connection, *id, *at, &SessionSettings::default())?;
        let key = sessions::key(connection, *id)?.ok_or(Fault::Lost)?;
        copy(connection, source, key, past_state.projection.last_seq, *id)?;
        past_state.save(connection, key, *at)?;
        first.as_ref().map_or(Ok(()), |append| append.apply(connection, rows))
    }
}

/// Returns the number of the last event from another machine, according to the settings in the fork's first events, or
/// 0 if there is no such event.
fn imported(first: &[Arc<Event>]) -> u64 {
    let origin = first.iter().find_map(|event| match &event.kind {
        EventKind::StateChanged { change: StateChange::Settings { settings } } => settings.imported.as_ref(),
        _ => None,
    });
    origin.map_or(0, |origin| origin.events)
}

/// Copies rows with their numbers. Session IDs inside events are replaced by the new ID.
fn copy(connection: &Connection, source: i64, key: i64, through: u64, id: SessionId) -> Result<(), Fault> {
    let sql = "INSERT INTO events (session, seq, at, turn, kind, payload)
             SELECT ?1, seq, at, turn, kind,
                CASE WHEN kind = 'interrupt_raised' AND json_valid(payload)
                    THEN json_set(payload, '$.interrupt.session_id', ?4) ELSE payload END
             FROM events WHERE session = ?2 AND seq <= ?3 ORDER BY seq";
    let copied = changed(connection, sql, params![key, source, number(through)?, id.to_string()])?;
    if copied as u64 == through { Ok(()) } else { Err(Fault::Damaged("an event of the session is missing".to_owned())) }
}

fn past_state(connection: &Connection, from: SessionId, through: u64, at: Timestamp) -> Result<PastState, Fault> {
    let snapshot = connection.unchecked_transaction()?;
    let session = sessions::require_key(&snapshot, from)?;
    PastState::read(&snapshot, session, from, through, at)
}
