//! The table `queued_turns`.

use agentd_core::{ids::TurnId, turn::QueuedTurn};
use rusqlite::{Connection, params};

use crate::{
    codec::{id_from, id_text, json, json_from, rows, run, text},
    error::Fault,
};

/// A turn joins the queue of its session.
pub(crate) fn join(connection: &Connection, session: i64, turn: &QueuedTurn) -> Result<(), Fault> {
    let QueuedTurn { turn_id, start } = turn;
    let sql = "INSERT INTO queued_turns (session, turn, start) VALUES (?1, ?2, ?3)";
    run(connection, sql, params![session, id_text(turn_id.as_uuid()), json(start)?])?;
    Ok(())
}

/// A turn has begun. Most never waited.
pub(crate) fn leave(connection: &Connection, session: i64, turn: TurnId) -> Result<(), Fault> {
    let sql = "DELETE FROM queued_turns WHERE session = ?1 AND turn = ?2";
    run(connection, sql, params![session, id_text(turn.as_uuid())])?;
    Ok(())
}

/// The turns that wait in a session, first come first.
pub(crate) fn of(connection: &Connection, session: i64) -> Result<Vec<QueuedTurn>, Fault> {
    rows(connection, "SELECT turn, start FROM queued_turns WHERE session = ?1 ORDER BY key", [session], |row| {
        Ok(QueuedTurn { turn_id: id_from(text(row, "turn")?)?, start: json_from(text(row, "start")?)? })
    })
}
