//! The table `grants`: rules that are kept for good. Those of one session stand in its settings.

use agentd_core::{
    event::Event,
    grant::{Grant, GrantScope, HeldGrant},
    ids::InterruptId,
    interrupt::{Answer, AnsweredBy},
    session::SessionSettings,
};
use rusqlite::{Connection, params};

use crate::{
    codec::{id_from, json_from, text, time, time_from},
    error::Fault,
    interrupts,
};

pub(crate) fn keep(connection: &Connection, grant: &Grant) -> Result<(), Fault> {
    connection
        .prepare_cached("INSERT INTO grants (rule, at, by) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
        .execute(params![grant.rule, grant.at.map(time).transpose()?, grant.by])?;
    Ok(())
}

/// Keeps what an answer says is to be kept for good, in the transaction that stores the answer.
pub(crate) fn keep_answered(
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
    let Some(stored) = interrupts::one(connection, id)? else { return Ok(()) };
    let Some((rules, GrantScope::ForGood)) = answer.kept(&stored.interrupt.ask) else { return Ok(()) };
    let grant = |rule: &String| Grant { rule: rule.clone(), at: Some(event.at), by: by.client().map(str::to_owned) };
    rules.iter().try_for_each(|rule| keep(connection, &grant(rule)))
}

pub(crate) fn revoke(connection: &Connection, rule: &str) -> Result<(), Fault> {
    connection.prepare_cached("DELETE FROM grants WHERE rule = ?1")?.execute([rule])?;
    Ok(())
}

/// All that are kept for good, oldest first.
pub(crate) fn all(connection: &Connection) -> Result<Vec<Grant>, Fault> {
    let mut statement = connection.prepare_cached("SELECT rule, at, by FROM grants ORDER BY key")?;
    let mut rows = statement.query([])?;
    let mut grants = Vec::new();
    while let Some(row) = rows.next()? {
        let at = row.get::<_, Option<i64>>("at")?.map(time_from).transpose()?;
        grants.push(Grant { rule: row.get("rule")?, at, by: row.get("by")? });
    }
    Ok(grants)
}

/// Grants of sessions; sessions without any are left out.
pub(crate) fn of_sessions(connection: &Connection) -> Result<Vec<HeldGrant>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT sessions.id AS id, settings FROM session_state JOIN sessions ON sessions.key = session \
         WHERE settings LIKE '%\"grants\":[%' AND sessions.parent IS NOT sessions.key ORDER BY sessions.key",
    )?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let settings: SessionSettings = match text(row, "settings").and_then(json_from) {
            Ok(settings) => settings,
            // What cannot be read allows nothing.
            Err(fault) => {
                tracing::error!(?fault, "the rules of a session are damaged and do not hold");
                continue;
            }
        };
        let session_id = Some(id_from(text(row, "id")?)?);
        all.extend(settings.grants.into_iter().map(|grant| HeldGrant { session_id, grant }));
    }
    Ok(all)
}
