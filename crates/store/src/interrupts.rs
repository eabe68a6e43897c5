//! The tables `interrupts`, `grants` and `state_files`. `grants` contains the permanent grants; grants for a single
//! session are in its settings.

use agentd_core::{
    Timestamp,
    event::Event,
    grant::{Grant, GrantScope, ScopedGrant},
    ids::{InterruptId, SessionId},
    interrupt::{Answer, AnsweredBy, Interrupt},
    ports::StoredInterrupt,
    session::SessionSettings,
    state_files::{StateFile, StateFileChange, StateFiles},
};
use rusqlite::{Connection, params};

use crate::{
    codec::{
        Fault, changed, first, id_from, id_text, json, json_from, number, rows, run, text, time, time_from, value,
    },
    sessions,
};

pub(crate) fn raise(connection: &Connection, session: i64, event: &Event, interrupt: &Interrupt) -> Result<(), Fault> {
    if interrupt.session_id != event.session_id {
        // A subagent's session raised and stored the interrupt. This event only repeats it in the parent's session.
        return Ok(());
    }
    let sql =
        "INSERT INTO interrupts (id, session, raised_seq, interrupt) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
    let added = changed(
        connection,
        sql,
        params![id_text(interrupt.id.as_uuid()), session, number(event.seq)?, json(interrupt)?],
    )?;
    if added == 0 {
        return Err(Fault::conflict(format!("interrupt {} already exists", interrupt.id)));
    }
    Ok(())
}

/// Stores the answer to a pending interrupt. An interrupt is answered only once.
pub(crate) fn resolve(
    connection: &Connection,
    session: i64,
    event: &Event,
    id: InterruptId,
    answer: &Answer,
) -> Result<(), Fault> {
    let sql =
        "UPDATE interrupts SET answer = ?3, resolved_at = ?4 WHERE id = ?1 AND session = ?2 AND resolved_at IS NULL";
    let resolved = changed(connection, sql, params![id_text(id.as_uuid()), session, json(answer)?, time(event.at)?])?;
    if resolved == 0 && !is_of_child(connection, session, id)? {
        return Err(Fault::conflict(format!("interrupt {id} is not pending in this session")));
    }
    Ok(())
}

/// Returns true if a subagent of this session raised the interrupt, so that this session only repeats the outcome.
fn is_of_child(connection: &Connection, session: i64, id: InterruptId) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM interrupts JOIN sessions ON sessions.key = interrupts.session
            WHERE interrupts.id = ?1 AND sessions.parent = ?2)";
    value(connection, sql, params![id_text(id.as_uuid()), session])
}

pub(crate) fn pending(connection: &Connection, session: Option<SessionId>) -> Result<Vec<Interrupt>, Fault> {
    let key = session.map(|id| sessions::key(connection, id)).transpose()?;
    if key == Some(None) {
        return Ok(Vec::new());
    }
    let sql = "SELECT interrupt FROM interrupts WHERE resolved_at IS NULL AND (?1 IS NULL OR session = ?1
            OR session IN (SELECT key FROM sessions WHERE parent = ?1))
            AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.key = session AND parent = sessions.key) ORDER BY key";
    // A damaged interrupt must not hide the others.
    let pending = rows(connection, sql, [key.flatten()], |row| {
        let interrupt = text(row, "interrupt").and_then(json_from);
        Ok(interrupt.inspect_err(|fault| tracing::warn!(?fault, "skipping a damaged interrupt")).ok())
    })?;
    Ok(pending.into_iter().flatten().collect())
}

pub(crate) fn one(connection: &Connection, id: InterruptId) -> Result<Option<StoredInterrupt>, Fault> {
    let sql = "SELECT interrupt, answer FROM interrupts JOIN sessions ON sessions.key = interrupts.session
         WHERE interrupts.id = ?1 AND sessions.parent IS NOT sessions.key";
    first(connection, sql, [id_text(id.as_uuid())], |row| {
        let answer = row.get::<_, Option<String>>("answer")?.map(|answer| json_from(&answer)).transpose()?;
        Ok(StoredInterrupt { interrupt: json_from(text(row, "interrupt")?)?, answer })
    })
}

pub(crate) fn add_grant(connection: &Connection, grant: &Grant) -> Result<(), Fault> {
    let sql = "INSERT INTO grants (rule, at, by) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    run(connection, sql, params![grant.rule, grant.at.map(time).transpose()?, grant.by])
}

/// Stores the permanent grants of an answer in the same transaction as the answer.
pub(crate) fn store_answered_grants(
    connection: &Connection,
    event: &Event,
    id: InterruptId,
    answer: &Answer,
    by: &AnsweredBy,
) -> Result<(), Fault> {
    if !matches!(
        answer,
        Answer::Always { scope: GrantScope::ForGood } | Answer::Keep { scope: GrantScope::ForGood, .. }
    ) {
        return Ok(());
    }
    let Some(stored) = one(connection, id)? else { return Ok(()) };
    let Some((rules, GrantScope::ForGood)) = answer.kept(&stored.interrupt.ask) else { return Ok(()) };
    let grant = |rule: &String| Grant { rule: rule.clone(), at: Some(event.at), by: by.client().map(str::to_owned) };
    rules.iter().try_for_each(|rule| add_grant(connection, &grant(rule)))
}

/// Returns all permanent grants, oldest first.
pub(crate) fn grants(connection: &Connection) -> Result<Vec<Grant>, Fault> {
    rows(connection, "SELECT rule, at, by FROM grants ORDER BY key", [], |row| {
        let at = row.get::<_, Option<i64>>("at")?.map(time_from).transpose()?;
        Ok(Grant { rule: row.get("rule")?, at, by: row.get("by")? })
    })
}

/// Returns the grants for single sessions.
pub(crate) fn session_grants(connection: &Connection) -> Result<Vec<ScopedGrant>, Fault> {
    let sql = "SELECT sessions.id AS id, settings FROM session_state JOIN sessions ON sessions.key = session \
         WHERE settings LIKE '%\"grants\":[%' AND sessions.parent IS NOT sessions.key ORDER BY sessions.key";
    let grants = rows(connection, sql, [], |row| {
        let settings: SessionSettings = match text(row, "settings").and_then(json_from) {
            Ok(settings) => settings,
            // A damaged grant allows nothing.
            Err(fault) => {
                tracing::error!(?fault, "the grants of a session are damaged and ignored");
                return Ok(Vec::new());
            }
        };
        let session_id = Some(id_from(text(row, "id")?)?);
        Ok(settings.grants.into_iter().map(|grant| ScopedGrant { session_id, grant }).collect())
    })?;
    Ok(grants.into_iter().flatten().collect())
}

/// Stores or removes one file, by changing only its own row.
pub(crate) fn change_file(
    connection: &Connection,
    session: i64,
    at: Timestamp,
    change: &StateFileChange,
) -> Result<(), Fault> {
    let put = "INSERT INTO state_files (session, path, content, changed) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET content = excluded.content, changed = excluded.changed";
    let remove = "DELETE FROM state_files WHERE session = ?1 AND path = ?2";
    match &change.content {
        Some(content) => run(connection, put, params![session, change.path, content, time(at)?]),
        None => run(connection, remove, params![session, change.path]),
    }
}

/// Removes all files of a session.
pub(crate) fn clear_files(connection: &Connection, session: i64) -> Result<(), Fault> {
    run(connection, "DELETE FROM state_files WHERE session = ?1", [session])
}

pub(crate) fn files(connection: &Connection, id: SessionId) -> Result<StateFiles, Fault> {
    let Some(session) = sessions::key(connection, id)? else { return Ok(StateFiles::default()) };
    let sql = "SELECT path, content, changed FROM state_files WHERE session = ?1";
    let files = rows(connection, sql, [session], |row| {
        let changed = time_from(row.get("changed")?)?;
        Ok((row.get("path")?, StateFile { content: text(row, "content")?.to_owned(), changed }))
    })?;
    Ok(files.into_iter().collect())
}
