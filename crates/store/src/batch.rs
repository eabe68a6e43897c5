//! What one commit holds.

use tokio::sync::{mpsc, oneshot};

use crate::{change::Change, draft::ImportStep, error::Fault};

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
