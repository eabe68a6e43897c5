//! Changes that the writer applies, and batches of changes that share one commit.

use agentd_core::{audit::AuditHead, grant::Grant, ids::SessionId, session::SessionSettings, spending::SideUsage};
use jiff::Timestamp;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{
    append::{Append, Rows},
    codec::{Fault, run},
    draft::{Fork, ImportStep},
    interrupts,
    search::MissingPage,
    sessions, upkeep,
    usage::{self, CountedCall},
};

/// A change requested by a caller.
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
    /// Records that the files of these deleted sessions have been removed.
    FilesGone(Vec<SessionId>),
    AddGrant(Grant),
    Revoke(String),
    Index(MissingPage),
    /// Counts a model call outside of sessions.
    Count(SideUsage),
    /// Stores the head of the audit log, as found on disk.
    NoteAudit(AuditHead),
    /// Rewrites the schema version, to test that the journal is writable.
    TestWrite,
}

impl Change {
    /// Returns the text that completes the sentence "could not …".
    pub(crate) fn action(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create the session",
            Self::Fork(_) => "fork the session",
            Self::Import(_) => "import the session",
            Self::Append(_) => "store events",
            Self::Delete(_) => "delete the session",
            Self::FilesGone(_) => "record removed files",
            Self::AddGrant(_) => "store the grant",
            Self::Revoke(_) => "revoke the grant",
            Self::Index(_) => "update the index",
            Self::Count(_) => "count a model call",
            Self::NoteAudit(_) => "store the audit position",
            Self::TestWrite => "store anything",
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
                // The sessions of subagents are also removed.
                rows.remove(upkeep::remove(connection, *id)?);
                Ok(())
            }
            Self::FilesGone(ids) => upkeep::forget_files(connection, ids),
            Self::AddGrant(grant) => interrupts::add_grant(connection, grant),
            Self::Revoke(rule) => run(connection, "DELETE FROM grants WHERE rule = ?1", [rule]),
            Self::Index(missing) => missing.add(connection),
            Self::Count(SideUsage { at, slot, model, usage: call_usage }) => {
                let call = CountedCall { at: *at, session: None, slot: *slot, model, usage: call_usage };
                usage::add(connection, &rows.time_zone(), &call)
            }
            Self::NoteAudit(head) => usage::note_audit(connection, head),
            Self::TestWrite => {
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
            _ => 0,
        }
    }

    /// Returns the number of events stored by the change, or `None` for kinds of changes that store no events.
    pub(crate) fn events(&self) -> Option<usize> {
        match self {
            Self::Append(append) | Self::Create { first: Some(append), .. } => Some(append.count()),
            Self::Fork(fork) => Some(fork.count()),
            Self::Import(step) => step.events(),
            _ => None,
        }
    }
}

/// Maximum number of changes in one commit.
const MAX_CHANGES: usize = 256;
/// Payload size in bytes from which a batch accepts no more changes.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Channel for the outcome of a change.
pub(crate) type Reply = oneshot::Sender<Result<(), Fault>>;

/// Command to the writer.
pub(crate) enum Command {
    Write {
        change: Change,
        reply: Reply,
    },
    /// Update the search index, because a search needs the part that is not indexed yet.
    CatchUp,
    /// Rewrite the whole file, so that the file can shrink.
    Rewrite(Reply),
    Close(Reply),
}

/// Changes in one commit, in order of arrival, and other commands received in the meantime.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) changes: Vec<Change>,
    replies: Vec<Reply>,
    size: usize,
    pub(crate) wants_index: bool,
    pub(crate) rewrite: Option<Reply>,
    pub(crate) close: Option<Reply>,
}

impl Batch {
    /// Creates a batch with a single change and no reply channel.
    pub(crate) fn of(change: Change) -> Self {
        Self { changes: vec![change], ..Self::default() }
    }

    /// Adds a command and the following commands in the queue, up to the limit of one commit.
    pub(crate) fn gather(&mut self, first: Command, commands: &mut mpsc::Receiver<Command>) {
        let mut next = Some(first);
        while let Some(command) = next {
            self.push(command);
            next = if self.is_full() { None } else { commands.try_recv().ok() };
        }
    }

    fn push(&mut self, command: Command) {
        match command {
            Command::Write { change, reply } => {
                self.size += change.size();
                self.changes.push(change);
                self.replies.push(reply);
            }
            Command::CatchUp => self.wants_index = true,
            Command::Rewrite(reply) => self.rewrite = Some(reply),
            Command::Close(reply) => self.close = Some(reply),
        }
    }

    fn is_full(&self) -> bool {
        self.close.is_some() || self.rewrite.is_some() || self.changes.len() >= MAX_CHANGES || self.size >= MAX_BYTES
    }

    /// Returns true if a change removes a session or a draft, or records that removed files have freed space. These
    /// changes leave work for later.
    pub(crate) fn removes(&self) -> bool {
        let removes = |change: &Change| match change {
            Change::Delete(_) | Change::FilesGone(_) => true,
            Change::Import(step) => matches!(step, ImportStep::Abandon(_)),
            _ => false,
        };
        self.changes.iter().any(removes)
    }

    /// Sends the outcomes to the callers.
    pub(crate) fn answer(&mut self, outcomes: Vec<Result<(), Fault>>) {
        for (reply, outcome) in self.replies.drain(..).zip(outcomes) {
            // The caller may have stopped waiting.
            let _ = reply.send(outcome);
        }
    }
}
