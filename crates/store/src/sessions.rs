//! The tables `sessions`, `session_state` and `queued_turns`.

use agentd_core::{
    context::Window,
    event::{EventKind, StateChange},
    files::PendingAttachments,
    folder::Mounts,
    ids::{SessionId, TurnId},
    session::{SessionPage, SessionSettings, SessionStatus, SessionSummary, StoredSession},
    turn::QueuedTurn,
    usage::Usage,
    worktree::SessionWorktree,
};
use jiff::Timestamp;
use rusqlite::{Connection, Row, named_params, params};
use serde::Serialize;

use crate::{
    codec::{
        Fault, bound, changed, first, id_from, id_text, json, json_from, number, number_from, rows, run, text, time,
        time_from, value,
    },
    projection::Projection,
};

/// Row of the table `sessions`.
pub(crate) struct SessionRow {
    /// Key of the session in events and interrupts.
    pub(crate) key: i64,
    pub(crate) projection: Projection,
    id: SessionId,
    created_at: Timestamp,
    /// True if a turn is open and an interrupt is pending.
    waiting: bool,
    /// ID of the parent session, if this is a subagent's session.
    parent: Option<SessionId>,
}

/// SQL for all columns read by [`SessionRow::read`]. The caller appends the clauses after `FROM sessions`.
macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT key, id, used, title, created_at, updated_at, turns, last_seq, reset_seq, window_after,
                window_summary, window_held, open_turn, open_turn_seq, interrupted, usage, open_turn IS NOT NULL AND EXISTS
                    (SELECT 1 FROM interrupts WHERE resolved_at IS NULL AND (session = sessions.key
                        OR session IN (SELECT child.key FROM sessions AS child WHERE child.parent = sessions.key)))
                    AS waiting,
                (SELECT parent.id FROM sessions AS parent WHERE parent.key = sessions.parent) AS parent_id
             FROM sessions ",
            $rest
        )
    };
}

/// SQL for the next position in the order of use, after the positions of all listed sessions.
macro_rules! next_use {
    () => {
        "coalesce((SELECT used FROM sessions WHERE parent IS NULL ORDER BY used DESC LIMIT 1), 0) + 1"
    };
}

impl SessionRow {
    fn read(row: &Row<'_>) -> Result<Self, Fault> {
        let open_turn = match row.get::<_, Option<String>>("open_turn")? {
            Some(turn) => Some((id_from(&turn)?, number_from(row.get("open_turn_seq")?)?)),
            None => None,
        };
        Ok(Self {
            key: row.get("key")?,
            id: id_from(text(row, "id")?)?,
            created_at: time_from(row.get("created_at")?)?,
            waiting: row.get("waiting")?,
            parent: row.get::<_, Option<String>>("parent_id")?.as_deref().map(id_from).transpose()?,
            projection: Projection {
                title: row.get("title")?,
                updated_at: time_from(row.get("updated_at")?)?,
                uses: 0,
                turns: number_from(row.get("turns")?)?,
                last_seq: number_from(row.get("last_seq")?)?,
                reset_seq: number_from(row.get("reset_seq")?)?,
                window: Window {
                    after: number_from(row.get("window_after")?)?,
                    summary: number_from(row.get("window_summary")?)?,
                    held: number_from(row.get("window_held")?)?,
                },
                open_turn,
                interrupted: row.get("interrupted")?,
                // A damaged counter must not make the session unreadable.
                usage: text(row, "usage").and_then(json_from).unwrap_or_else(|fault| {
                    tracing::warn!(?fault, "the usage of a session is damaged and is counted again");
                    Usage::default()
                }),
            },
        })
    }

    fn into_summary(self, Mounts { project, folders }: Mounts) -> SessionSummary {
        let status = match (&self.projection.open_turn, self.waiting, self.projection.interrupted) {
            (Some(_), true, _) => SessionStatus::Waiting,
            (Some(_), false, _) => SessionStatus::Running,
            (None, _, true) => SessionStatus::Interrupted,
            (None, _, false) => SessionStatus::Idle,
        };
        SessionSummary {
            id: self.id,
            title: self.projection.title,
            created_at: self.created_at,
            updated_at: self.projection.updated_at,
            turns: self.projection.turns,
            last_seq: self.projection.last_seq,
            status,
            usage: self.projection.usage,
            parent: self.parent,
            project,
            folders,
            worktree: None,
        }
    }
}

pub(crate) fn insert(
    connection: &Connection,
    id: SessionId,
    at: Timestamp,
    settings: &SessionSettings,
) -> Result<(), Fault> {
    let projection = Projection::new(at);
    // Fails if the parent was deleted, because the sessions of its subagents were deleted together with it.
    let parent = parent(connection, settings)?;
    let sql = concat!(
        "INSERT INTO sessions (id, created_at, updated_at, usage, parent, used) VALUES (?1, ?2, ?2, ?3, ?4, ",
        next_use!(),
        ") ON CONFLICT DO NOTHING"
    );
    let added = changed(connection, sql, params![id_text(id.as_uuid()), time(at)?, json(&projection.usage)?, parent])?;
    if added == 0 {
        return Err(Fault::conflict(format!("session {id} already exists")));
    }
    let sql = "INSERT INTO session_state (session, settings, todos) VALUES (?1, ?2, '[]')";
    run(connection, sql, params![connection.last_insert_rowid(), json(settings)?])
}

/// Loads the row of the session to which events are appended.
pub(crate) fn load(connection: &Connection, id: SessionId) -> Result<SessionRow, Fault> {
    row(connection, id)?.ok_or_else(|| unknown(id))
}

/// Writes the changes to the row. Most events only increase the number of the last event, so that only this number is
/// written for them.
pub(crate) fn save(connection: &Connection, key: i64, before: &Projection, now: &Projection) -> Result<(), Fault> {
    let counted = Projection { last_seq: now.last_seq, ..before.clone() };
    if counted == *now {
        let sql = "UPDATE sessions SET last_seq = ?2 WHERE key = ?1";
        return run(connection, sql, params![key, number(now.last_seq)?]);
    }
    save_all(connection, key, now)?;
    if before.uses == now.uses { Ok(()) } else { move_to_front(connection, key) }
}

pub(crate) fn move_to_front(connection: &Connection, key: i64) -> Result<(), Fault> {
    run(connection, concat!("UPDATE sessions SET used = ", next_use!(), " WHERE key = ?1"), [key])
}

fn save_all(connection: &Connection, key: i64, projection: &Projection) -> Result<(), Fault> {
    let (open_turn, open_turn_seq) = match projection.open_turn {
        Some((turn, seq)) => (Some(id_text(turn.as_uuid())), Some(number(seq)?)),
        None => (None, None),
    };
    let sql = "UPDATE sessions SET title = :title, updated_at = :updated_at, turns = :turns, last_seq = :last_seq,
                reset_seq = :reset_seq, window_after = :window_after, window_summary = :window_summary,
                window_held = :window_held, open_turn = :open_turn, open_turn_seq = :open_turn_seq,
                interrupted = :interrupted, usage = :usage
             WHERE key = :key";
    let values = named_params! {
        ":key": key,
        ":title": projection.title,
        ":updated_at": time(projection.updated_at)?,
        ":turns": number(projection.turns)?,
        ":last_seq": number(projection.last_seq)?,
        ":reset_seq": number(projection.reset_seq)?,
        ":window_after": number(projection.window.after)?,
        ":window_summary": number(projection.window.summary)?,
        ":window_held": number(projection.window.held)?,
        ":open_turn": open_turn,
        ":open_turn_seq": open_turn_seq,
        ":interrupted": projection.interrupted,
        ":usage": json(&projection.usage)?,
    };
    run(connection, sql, values)
}

/// Writes one column of a session's state.
pub(crate) fn save_state(
    connection: &Connection,
    key: i64,
    column: &'static str,
    value: &(impl Serialize + ?Sized),
) -> Result<(), Fault> {
    let sql = format!("UPDATE session_state SET {column} = ?2 WHERE session = ?1");
    run(connection, &sql, params![key, json(value)?])
}

/// Updates the list of uploaded files. Reads the row only for events that may change the list.
pub(crate) fn apply_handed_over(connection: &Connection, key: i64, fact: &EventKind) -> Result<(), Fault> {
    let may_change = match fact {
        EventKind::TurnStarted { handed_over, .. } => !handed_over.is_empty(),
        EventKind::StateChanged { change } => matches!(change, StateChange::HandedOver { .. }),
        _ => false,
    };
    if !may_change {
        return Ok(());
    }
    let stored: String = value(connection, "SELECT handed_over FROM session_state WHERE session = ?1", [key])?;
    let mut handed_over: PendingAttachments = json_from(&stored)?;
    if handed_over.apply(fact) { save_state(connection, key, "handed_over", &handed_over) } else { Ok(()) }
}

pub(crate) fn one(connection: &Connection, id: SessionId) -> Result<Option<StoredSession>, Fault> {
    // Reads both tables in one snapshot. Otherwise, a commit between the reads would combine new todos with an old last
    // number.
    let snapshot = connection.unchecked_transaction()?;
    let Some(row) = row(&snapshot, id)? else { return Ok(None) };
    let sql = "SELECT settings, todos, handed_over, agents, tools, surroundings FROM session_state WHERE session = ?1";
    let stored = first(&snapshot, sql, [row.key], |state| {
        let settings: SessionSettings = json_from(text(state, "settings")?)?;
        Ok(StoredSession {
            todos: json_from(text(state, "todos")?)?,
            open_turn: row.projection.open_turn,
            queue: queued(&snapshot, row.key)?,
            reset_seq: row.projection.reset_seq,
            window: row.projection.window,
            handed_over: json_from(text(state, "handed_over")?)?,
            agents: json_from(text(state, "agents")?)?,
            tools: json_from(text(state, "tools")?)?,
            surroundings: json_from(text(state, "surroundings")?)?,
            summary: SessionSummary { worktree: settings.worktree.clone(), ..row.into_summary(settings.mounts()) },
            settings,
        })
    })?;
    stored.map(Some).ok_or_else(|| Fault::Damaged(format!("the settings of session {id} are missing")))
}

pub(crate) fn list(connection: &Connection, before: Option<u64>, limit: usize) -> Result<SessionPage, Fault> {
    let sql = select_sessions!("WHERE parent IS NULL AND used < ?2 ORDER BY used DESC LIMIT ?1");
    let before = before.map_or(i64::MAX, bound);
    let page = rows(connection, sql, params![bound(limit), before], |row| {
        Ok((number_from(row.get("used")?)?, summary(connection, row)))
    })?;
    let next = page.last().map(|(used, _)| *used).filter(|_| page.len() == limit);
    Ok(SessionPage { sessions: page.into_iter().filter_map(|(_, summary)| summary).collect(), next })
}

/// Returns the sessions of subagents, in creation order.
pub(crate) fn children(connection: &Connection, parent: SessionId) -> Result<Vec<SessionSummary>, Fault> {
    let Some(key) = key(connection, parent)? else { return Ok(Vec::new()) };
    let sql = select_sessions!("WHERE parent = ?1 ORDER BY key");
    Ok(rows(connection, sql, [key], |row| Ok(summary(connection, row)))?.into_iter().flatten().collect())
}

fn summary(connection: &Connection, row: &Row<'_>) -> Option<SessionSummary> {
    match SessionRow::read(row) {
        Ok(session) => {
            // A session with damaged settings is still listed.
            let (mounts, worktree) = mounts(connection, session.key).unwrap_or_default();
            Some(SessionSummary { worktree, ..session.into_summary(mounts) })
        }
        // A damaged session must not hide the others.
        Err(fault) => {
            tracing::error!(?fault, "could not list a session; see `agentctl doctor`");
            None
        }
    }
}

/// Returns the user's folders that are mounted in a session, and the worktree that is the session's project.
fn mounts(connection: &Connection, key: i64) -> Result<(Mounts, Option<SessionWorktree>), Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT json_extract(settings, '$.project'), json_extract(settings, '$.folders'), \
         json_extract(settings, '$.worktree') FROM session_state WHERE session = ?1",
    )?;
    let (project, folders, worktree): (Option<String>, Option<String>, Option<String>) =
        statement.query_row([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let project = project.as_deref().map(json_from).transpose()?;
    let folders = folders.as_deref().map(json_from).transpose()?.unwrap_or_default();
    let worktree = worktree.as_deref().map(json_from).transpose()?;
    Ok((Mounts { project, folders }, worktree))
}

/// Minimum length of an ID suffix that identifies a session. Shorter suffixes occur in too many IDs.
const MIN_SUFFIX: usize = 6;

pub(crate) fn find(connection: &Connection, name: &str, limit: usize) -> Result<Vec<SessionId>, Fault> {
    let by_id = find_by_id(connection, name, limit)?;
    if by_id.is_empty() { find_by_title(connection, name, limit) } else { Ok(by_id) }
}

/// Finds sessions by title, ignoring case. The titles are compared in Rust, because SQLite only ignores the case of
/// ASCII letters.
fn find_by_title(connection: &Connection, title: &str, limit: usize) -> Result<Vec<SessionId>, Fault> {
    let wanted = title.trim().to_lowercase();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, title FROM sessions WHERE parent IS NULL ORDER BY id DESC";
    let found = rows(connection, sql, [], |row| {
        let is_match = text(row, "title")?.trim().to_lowercase() == wanted;
        is_match.then(|| session_id(row)).transpose()
    })?;
    Ok(found.into_iter().flatten().take(limit).collect())
}

fn find_by_id(connection: &Connection, prefix: &str, limit: usize) -> Result<Vec<SessionId>, Fault> {
    let prefix: String = prefix.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
    if !prefix.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(Vec::new());
    }
    // All IDs with the prefix sort between the prefix and the prefix followed by 'g'. This is one range of the index,
    // and needs no pattern in which a user could type special characters.
    let sql = "SELECT id FROM sessions WHERE id >= ?1 AND id < ?1 || 'g' ORDER BY id DESC LIMIT ?2";
    let found = rows(connection, sql, params![prefix, bound(limit)], session_id)?;
    if !found.is_empty() || prefix.len() < MIN_SUFFIX {
        return Ok(found);
    }
    let sql = "SELECT id FROM sessions WHERE id LIKE '%' || ?1 ORDER BY id DESC LIMIT ?2";
    rows(connection, sql, params![prefix, bound(limit)], session_id)
}

pub(crate) fn with_open_turn(connection: &Connection) -> Result<Vec<SessionId>, Fault> {
    let sql = "SELECT id FROM sessions WHERE open_turn IS NOT NULL
         UNION SELECT sessions.id FROM queued_turns JOIN sessions ON sessions.key = queued_turns.session
            WHERE sessions.parent IS NOT sessions.key ORDER BY id";
    rows(connection, sql, [], session_id)
}

/// Returns the key of a session and the number of its last event, if the session exists.
pub(crate) fn head(connection: &Connection, id: SessionId) -> Result<Option<(i64, u64)>, Fault> {
    let sql = "SELECT key, last_seq FROM sessions WHERE id = ?1";
    let found: Option<(i64, i64)> =
        first(connection, sql, [id_text(id.as_uuid())], |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.map(|(key, last)| Ok((key, number_from(last)?))).transpose()
}

/// Returns the key of a session, if it exists.
pub(crate) fn key(connection: &Connection, id: SessionId) -> Result<Option<i64>, Fault> {
    let sql = "SELECT key FROM sessions WHERE id = ?1";
    let key = first(connection, sql, [id_text(id.as_uuid())], |row| Ok(row.get(0)?))?;
    Ok(key)
}

/// Returns the key of the top-level session of a subagent's session, or its own key.
pub(crate) fn top_level_key(connection: &Connection, key: i64) -> Result<i64, Fault> {
    let sql = "WITH RECURSIVE above (key, parent) AS (
                SELECT key, parent FROM sessions WHERE key = ?1
                UNION SELECT sessions.key, sessions.parent FROM sessions JOIN above ON sessions.key = above.parent)
             SELECT key FROM above WHERE parent IS NULL";
    let top = first(connection, sql, [key], |row| Ok(row.get(0)?))?;
    Ok(top.unwrap_or(key))
}

fn row(connection: &Connection, id: SessionId) -> Result<Option<SessionRow>, Fault> {
    first(connection, select_sessions!("WHERE id = ?1"), [id_text(id.as_uuid())], SessionRow::read)
}

fn session_id(row: &Row<'_>) -> Result<SessionId, Fault> {
    id_from(text(row, "id")?)
}

/// Returns the key of a session, or an error if it does not exist.
pub(crate) fn require_key(connection: &Connection, id: SessionId) -> Result<i64, Fault> {
    key(connection, id)?.ok_or_else(|| unknown(id))
}

/// Returns the key of the parent session in these settings.
pub(crate) fn parent(connection: &Connection, settings: &SessionSettings) -> Result<Option<i64>, Fault> {
    settings.parent.as_ref().map(|parent| require_key(connection, parent.session)).transpose()
}

fn unknown(id: SessionId) -> Fault {
    Fault::not_found(format!("no such session: {id}"))
}

/// Adds a turn to the queue of its session.
pub(crate) fn queue(connection: &Connection, session: i64, turn: &QueuedTurn) -> Result<(), Fault> {
    let QueuedTurn { turn_id, start } = turn;
    let sql = "INSERT INTO queued_turns (session, turn, start) VALUES (?1, ?2, ?3)";
    run(connection, sql, params![session, id_text(turn_id.as_uuid()), json(start)?])
}

/// Removes a turn that has begun from the queue. Most turns were never queued.
pub(crate) fn unqueue(connection: &Connection, session: i64, turn: TurnId) -> Result<(), Fault> {
    let sql = "DELETE FROM queued_turns WHERE session = ?1 AND turn = ?2";
    run(connection, sql, params![session, id_text(turn.as_uuid())])
}

/// Returns the queued turns of a session, in order of arrival.
pub(crate) fn queued(connection: &Connection, session: i64) -> Result<Vec<QueuedTurn>, Fault> {
    rows(connection, "SELECT turn, start FROM queued_turns WHERE session = ?1 ORDER BY key", [session], |row| {
        Ok(QueuedTurn { turn_id: id_from(text(row, "turn")?)?, start: json_from(text(row, "start")?)? })
    })
}
