//! The table `state_files`.

use agentd_core::{
    Timestamp,
    ids::SessionId,
    state_files::{StateFile, StateFileChange, StateFiles},
};
use rusqlite::{Connection, params};

use crate::{
    codec::{rows, run, text, time, time_from},
    error::Fault,
    sessions,
};

/// A file was written or removed. Only its own row is touched.
pub(crate) fn change(
    connection: &Connection,
    session: i64,
    at: Timestamp,
    change: &StateFileChange,
) -> Result<(), Fault> {
    let put = "INSERT INTO state_files (session, path, content, changed) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET content = excluded.content, changed = excluded.changed";
    let remove = "DELETE FROM state_files WHERE session = ?1 AND path = ?2";
    match &change.content {
        Some(content) => run(connection, put, params![session, change.path, content, time(at)?])?,
        None => run(connection, remove, params![session, change.path])?,
    };
    Ok(())
}

/// All files of a session are gone.
pub(crate) fn clear(connection: &Connection, session: i64) -> Result<(), Fault> {
    run(connection, "DELETE FROM state_files WHERE session = ?1", [session])?;
    Ok(())
}

pub(crate) fn of(connection: &Connection, id: SessionId) -> Result<StateFiles, Fault> {
    let Some(session) = sessions::key(connection, id)? else { return Ok(StateFiles::default()) };
    let sql = "SELECT path, content, changed FROM state_files WHERE session = ?1";
    let files = rows(connection, sql, [session], |row| {
        let changed = time_from(row.get("changed")?)?;
        Ok((row.get("path")?, StateFile { content: text(row, "content")?.to_owned(), changed }))
    })?;
    Ok(files.into_iter().collect())
}
