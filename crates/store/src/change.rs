//! What the writer can be asked to change.

use agentd_core::{audit::AuditHead, grant::Grant, ids::SessionId, session::SessionSettings, spending::SideUsage};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::{
    append::Append,
    audit_head,
    draft::ImportStep,
    error::Fault,
    fork::Fork,
    grants, removal,
    rows::Rows,
    search::Missing,
    sessions,
    usage::{self, CountedCall},
};

/// Changes that callers ask for.
pub(crate) enum Change {
    Create {
        id: SessionId,
        at: Timestamp,
        settings: Box<SessionSettings>,
        first: Option<Append>,
    },
    Fork(Box<Fork>),
    Import(ImportStep),
    Append(Append),
    Delete(SessionId),
    /// The files of these removed sessions are gone.
    FilesGone(Vec<SessionId>),
    Keep(Grant),
    Revoke(String),
    Index(Missing),
    /// Counts a model call of no session.
    Count(SideUsage),
    /// Stores the head of the audit log, as it is on the disk.
    NoteAudit(AuditHead),
    /// Writes the version again, as a trial.
    Trial,
}

impl Change {
    /// Completes the sentence "could not …".
    pub(crate) fn action(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create the session",
            Self::Fork(_) => "fork the session",
            Self::Import(_) => "import the session",
            Self::Append(_) => "store events",
            Self::Delete(_) => "delete the session",
            Self::FilesGone(_) => "note that files are gone",
            Self::Keep(_) => "keep the rule",
            Self::Revoke(_) => "take the rule back",
            Self::Index(_) => "bring the index up to date",
            Self::Count(_) => "count a model call",
            Self::NoteAudit(_) => "note the end of the audit log",
            Self::Trial => "store anything",
        }
    }

    pub(crate) fn apply(&self, connection: &Connection, rows: &mut Rows) -> Result<(), Fault> {
        match self {
            Self::Create { id, at, settings, first } => {
                sessions::insert(connection, *id, *at, settings)?;
                first.as_ref().map_or(Ok(()), |append| append.apply(connection, rows))
            }
            Self::Fork(fork) => fork.apply(connection, rows),
            Self::Import(step) => step.apply(connection, rows),
            Self::Append(append) => append.apply(connection, rows),
            Self::Delete(id) => {
                // Those that worked for it go, too.
                rows.remove(removal::remove(connection, *id)?);
                Ok(())
            }
            Self::FilesGone(ids) => removal::forget_files(connection, ids),
            Self::Keep(grant) => grants::keep(connection, grant),
            Self::Revoke(rule) => grants::revoke(connection, rule),
            Self::Index(missing) => missing.add(connection),
            Self::Count(SideUsage { at, slot, model, usage: took }) => {
                let call = CountedCall { at: *at, session: None, slot: *slot, model, usage: took };
                usage::add(connection, &rows.time_zone(), &call)
            }
            Self::NoteAudit(head) => audit_head::note(connection, head),
            Self::Trial => {
                let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
                Ok(connection.pragma_update(None, "user_version", version)?)
            }
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Append(append) | Self::Create { first: Some(append), .. } => append.size(),
            Self::Fork(fork) => fork.size(),
            Self::Import(step) => step.size(),
            Self::Index(missing) => missing.size(),
            Self::Create { first: None, .. }
            | Self::Delete(_)
            | Self::FilesGone(_)
            | Self::Keep(_)
            | Self::Revoke(_)
            | Self::Count(_)
            | Self::NoteAudit(_)
            | Self::Trial => 0,
        }
    }

    /// The events that it stores; none where it stores none whatever it holds.
    pub(crate) fn events(&self) -> Option<usize> {
        match self {
            Self::Append(append) | Self::Create { first: Some(append), .. } => Some(append.count()),
            Self::Fork(fork) => Some(fork.count()),
            Self::Import(step) => step.events(),
            _ => None,
        }
    }
}
