//! What the writer knows of the sessions that it wrote to lately, so that it need not read what it has just written.

use std::collections::HashMap;

use agentd_core::ids::SessionId;
use jiff::tz::TimeZone;
use rusqlite::Connection;

use crate::{error::Fault, projection::Projection, sessions};

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
