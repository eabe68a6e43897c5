//! The table `interrupts`.

use agentd_core::{
    event::Event,
    ids::{InterruptId, SessionId},
    interrupt::{Answer, Interrupt},
    ports::StoredInterrupt,
};
use rusqlite::{Connection, params};

use crate::{
    codec::{id_text, json, json_from, number, text, time},
    error::Fault,
    sessions,
};

pub(crate) fn raise(connection: &Connection, session: i64, event: &Event, interrupt: &Interrupt) -> Result<(), Fault> {
    if interrupt.session_id != event.session_id {
        // A session that works for this one asks, and has it in its own journal; here it is only told.
        return Ok(());
    }
    let added = connection
        .prepare_cached(
            "INSERT INTO interrupts (id, session, raised_seq, interrupt) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute(params![id_text(interrupt.id.as_uuid()), session, number(event.seq)?, json(interrupt)?])?;
    if added == 0 {
        return Err(Fault::conflict(format!("interrupt {} was raised before", interrupt.id)));
    }
    Ok(())
}

/// Gives a pending interrupt its one answer.
pub(crate) fn resolve(
    connection: &Connection,
    session: i64,
    event: &Event,
    id: InterruptId,
    answer: &Answer,
) -> Result<(), Fault> {
    let resolved = connection
        .prepare_cached(
            "UPDATE interrupts SET answer = ?3, resolved_at = ?4 WHERE id = ?1 AND session = ?2 AND resolved_at IS NULL",
        )?
        .execute(params![id_text(id.as_uuid()), session, json(answer)?, time(event.at)?])?;
    if resolved == 0 && !is_of_child(connection, session, id)? {
        return Err(Fault::conflict(format!("interrupt {id} does not wait for an answer in this session")));
    }
    Ok(())
}

/// Returns whether a subagent of this session has raised it: then its outcome is only told here.
fn is_of_child(connection: &Connection, session: i64, id: InterruptId) -> Result<bool, Fault> {
    let found = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM interrupts JOIN sessions ON sessions.key = interrupts.session
                WHERE interrupts.id = ?1 AND sessions.parent = ?2)",
        )?
        .query_row(params![id_text(id.as_uuid()), session], |row| row.get(0))?;
    Ok(found)
}

pub(crate) fn pending(connection: &Connection, session: Option<SessionId>) -> Result<Vec<Interrupt>, Fault> {
    let key = match session {
        Some(id) => match sessions::key(connection, id)? {
            Some(key) => Some(key),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let mut statement = connection.prepare_cached(
        "SELECT interrupt FROM interrupts WHERE resolved_at IS NULL AND (?1 IS NULL OR session = ?1
            OR session IN (SELECT key FROM sessions WHERE parent = ?1))
            AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.key = session AND parent = sessions.key) ORDER BY key",
    )?;
    let mut rows = statement.query([key])?;
    let mut pending = Vec::new();
    while let Some(row) = rows.next()? {
        // One that cannot be read keeps nobody from the others.
        match text(row, "interrupt").and_then(json_from) {
            Ok(interrupt) => pending.push(interrupt),
            Err(fault) => tracing::warn!(?fault, "an interrupt is damaged and is left out"),
        }
    }
    Ok(pending)
}

pub(crate) fn one(connection: &Connection, id: InterruptId) -> Result<Option<StoredInterrupt>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT interrupt, answer FROM interrupts JOIN sessions ON sessions.key = interrupts.session
         WHERE interrupts.id = ?1 AND sessions.parent IS NOT sessions.key",
    )?;
    let mut rows = statement.query([id_text(id.as_uuid())])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let answer = row.get::<_, Option<String>>("answer")?.map(|answer| json_from(&answer)).transpose()?;
    Ok(Some(StoredInterrupt { interrupt: json_from(text(row, "interrupt")?)?, answer }))
}
