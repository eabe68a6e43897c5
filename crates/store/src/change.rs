//! Changes that the writer can be asked for, and the batch of them that one commit holds.

use agentd_core::{audit::AuditHead, grant::Grant, ids::SessionId, session::SessionSettings, spending::SideUsage};
use jiff::Timestamp;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{
    append::{Append, Rows},
    codec::{Fault, run},
    draft::{Fork, ImportStep},
    interrupts,
    search::Missing,
    sessions, upkeep,
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
                rows.remove(upkeep::remove(connection, *id)?);
                Ok(())
            }
            Self::FilesGone(ids) => upkeep::forget_files(connection, ids),
            Self::Keep(grant) => interrupts::keep(connection, grant),
            Self::Revoke(rule) => run(connection, "DELETE FROM grants WHERE rule = ?1", [rule]),
            Self::Index(missing) => missing.add(connection),
            Self::Count(SideUsage { at, slot, model, usage: took }) => {
                let call = CountedCall { at: *at, session: None, slot: *slot, model, usage: took };
                usage::add(connection, &rows.time_zone(), &call)
            }
            Self::NoteAudit(head) => usage::note_audit(connection, head),
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
            _ => 0,
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

/// Maximum number of changes in one commit.
const MAX_CHANGES: usize = 256;
/// Payload of a batch, in bytes, above which it takes no more changes.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Where the outcome of a change is told.
pub(crate) type Reply = oneshot::Sender<Result<(), Fault>>;

/// Commands of the writer.
pub(crate) enum Command {
    Write {
        change: Change,
        reply: Reply,
    },
    /// The index is behind, and somebody searches.
    CatchUp,
    /// To write the whole file anew, so that it can shrink.
    Rewrite(Reply),
    Close(Reply),
}

/// The changes of one commit, in the order in which they came, and what else was asked meanwhile.
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
    /// One change alone, whose outcome is told by whoever tries it.
    pub(crate) fn of(change: Change) -> Self {
        Self { changes: vec![change], ..Self::default() }
    }

    /// Takes in a command and all that wait behind it, up to what one commit may hold.
    pub(crate) fn gather(&mut self, first: Command, commands: &mut mpsc::Receiver<Command>) {
        let mut next = Some(first);
        while let Some(command) = next {
            self.take(command);
            next = if self.is_full() { None } else { commands.try_recv().ok() };
        }
    }

    fn take(&mut self, command: Command) {
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

    /// Returns whether it removes a session, of which more is left to do, or reports that its files have made room.
    pub(crate) fn removes(&self) -> bool {
        let removes = |change: &Change| match change {
            Change::Delete(_) | Change::FilesGone(_) => true,
            Change::Import(step) => matches!(step, ImportStep::Abandon(_)),
            _ => false,
        };
        self.changes.iter().any(removes)
    }

    /// Tells each who asked what became of it.
    pub(crate) fn answer(&mut self, outcomes: Vec<Result<(), Fault>>) {
        for (reply, outcome) in self.replies.drain(..).zip(outcomes) {
            // Whoever stopped waiting needs no answer.
            let _ = reply.send(outcome);
        }
    }
}
