//! Sessions with events that cannot be read.

use agentd_core::ids::SessionId;
use rusqlite::Connection;

use crate::{
    codec::{id_from, rows, text},
    error::Fault,
    events, sessions,
};

/// Events that are looked at at once.
const PAGE: usize = 500;

/// Damaged events that are named of one session.
const NAMED: usize = 100;

/// A session with events that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedSession {
    /// The session; none where its own row cannot be read.
    pub id: Option<SessionId>,
    /// The numbers of the first of them; none where it cannot be read at all.
    pub events: Vec<u64>,
}

/// The sessions of which something cannot be read.
pub(crate) fn all(connection: &Connection) -> Result<Vec<DamagedSession>, Fault> {
    let sql = "SELECT id FROM sessions WHERE parent IS NOT key ORDER BY key";
    let ids = rows(connection, sql, [], |row| Ok(text(row, "id").and_then(id_from).ok()))?;
    let unnamed = || Some(DamagedSession { id: None, events: Vec::new() });
    Ok(ids.into_iter().filter_map(|id| id.map_or_else(unnamed, |id| of(connection, id))).collect())
}

fn of(connection: &Connection, id: SessionId) -> Option<DamagedSession> {
    let unreadable = DamagedSession { id: Some(id), events: Vec::new() };
    if sessions::one(connection, id).is_err() {
        return Some(unreadable);
    }
    let mut events = Vec::new();
    let mut after = 0;
    while events.len() < NAMED {
        let Ok(page) = events::page(connection, id, after, PAGE) else { return Some(unreadable) };
        let Some(last) = page.last() else { break };
        after = last.seq;
        events.extend(page.iter().filter(|event| event.is_damaged()).map(|event| event.seq));
    }
    (!events.is_empty()).then_some(DamagedSession { id: Some(id), events })
}
