//! How a session leaves memory: unloaded when nobody needs it, drained when the daemon stops, or retired, so that it can be removed
//! for good; and how it is cleaned of what nobody has used for long.
//!
//! The actor decides whether it is retired or cleaned, so that no turn can begin meanwhile: what came before keeps the session, what
//! comes later is refused. Whoever removes the session has a `HoldMark` on it until that is done. As long as the hold is there,
//! everybody else is told that the session is being deleted; once it is dropped, whatever came of the removal, the session is
//! found anew, or not any more.
//!
//! The history tells of a cleaning before anything is removed: a crash in between leaves files that were told to be gone, which the
//! next cleaning removes, and never a model that looks for files of which it was told nothing.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    Timestamp,
    event::EventKind,
    files::FilesRemoved,
    ids::TurnId,
    item::{Item, ItemBody},
    ports::WorkspaceArea,
    turn::StopReason,
};
use tokio::time::Instant;

use crate::{
    error::EngineError,
    session::{
        actor::{Actor, Drain, Fault, Next},
        registry::orders::{CleanOrder, Lease, Retirement, SessionCleaned, being_deleted},
    },
    turn::recorder::whole,
};

impl Actor {
    /// Takes no more commands, where the session may go.
    pub(crate) async fn retire(&mut self, order: &Retirement) -> Result<bool, Fault> {
        match order.last_used {
            None => self.check_free()?,
            Some(last_used) => {
                let is_pinned = self.state.settings.pinned && self.state.settings.parent.is_none();
                if is_pinned || self.is_in_use() || !self.commands.is_empty() || self.was_used_after(last_used).await? {
                    return Ok(false);
                }
            }
        }
        // Before anybody can find that nothing answers.
        let _ = order.held.set(order.mark.clone());
        let _ = order.fate.set(being_deleted(self.id));
        self.commands.close();
        Ok(true)
    }

    /// Asks the journal for its last use, and tells that it was after that moment.
    pub(crate) async fn was_used_after(&self, last_used: Timestamp) -> Result<bool, EngineError> {
        let stored = self.shared.ports.store.session(self.id).await?;
        Ok(stored.is_some_and(|stored| stored.summary.updated_at > last_used))
    }

    /// Refuses to end where something is under way.
    fn check_free(&self) -> Result<(), EngineError> {
        if self.open.is_some() {
            let hint = "cancel it first: agentctl attach and Ctrl-C, or answer what it waits for";
            return Err(EngineError::busy("a turn of this session is open", hint));
        }
        if self.is_leased() {
            return Err(EngineError::busy("a file is being written into this session", "try again when it is there"));
        }
        Ok(())
    }

    pub(crate) fn close(&mut self) -> (Result<(), Fault>, Next) {
        if let Err(busy) = self.check_free() {
            return (Err(busy.into()), Next::Go);
        }
        self.commands.close();
        (Ok(()), Next::Leave)
    }

    pub(crate) fn let_out(&self) -> Lease {
        Lease { _keeps: Arc::clone(&self.lease) }
    }

    /// Tells that somebody brings the session files.
    pub(crate) fn is_leased(&self) -> bool {
        Arc::strong_count(&self.lease) > 1
    }

    /// Tells that the session could be unloaded as far as it knows itself: nothing runs, nothing is due.
    pub(crate) fn is_idle(&self) -> bool {
        let runs = self.open.as_ref().is_some_and(|open| open.running.is_some());
        !runs && self.queue.is_empty() && self.interrupts.next_deadline().is_none()
    }

    /// Leaves, unless somebody needs the session. A reader that leaves wakes nobody, nor does whoever brought files, so it is
    /// also asked while there is one.
    pub(crate) fn unload(&mut self) -> Next {
        if !self.is_idle() || self.journal.has_readers() || self.is_leased() || !self.commands.is_empty() {
            return Next::Go;
        }
        // What slips in from here on is refused when the channel is dropped. It must not be carried out: a turn that it
        // began could be reached by nobody.
        self.commands.close();
        Next::Leave
    }
}

impl Actor {
    /// Returns whether somebody uses the session, or it waits for somebody.
    pub(crate) fn is_in_use(&mut self) -> bool {
        self.open.is_some()
            || !self.queue.is_empty()
            || !self.interrupts.is_empty()
            || self.journal.has_readers()
            || self.is_leased()
    }

    /// Returns whether it, or one that works for it, was used since somebody found that nobody had for long.
    async fn is_used_since(&self, last_used: Option<Timestamp>) -> Result<bool, EngineError> {
        let Some(last_used) = last_used else { return Ok(false) };
        if !self.commands.is_empty() || self.was_used_after(last_used).await? {
            return Ok(true);
        }
        let children = self.shared.ports.store.children(self.id).await?;
        Ok(children.iter().any(|child| child.updated_at > last_used))
    }

    /// Removes what was not used for long. None where the session is needed.
    pub(crate) async fn clean(&mut self, order: CleanOrder) -> Result<Option<SessionCleaned>, Fault> {
        if self.is_in_use() || self.state.settings.pinned || self.is_used_since(order.last_used).await? {
            return Ok(None);
        }
        let parts = &self.shared.ports;
        let CleanOrder { areas, undo, trial, .. } = order;
        let mut found = parts.workspaces.clean(self.id, areas.clone(), true).await?;
        if found.is_empty() && !undo {
            return Ok(Some(SessionCleaned::default()));
        }
        if !trial {
            self.commit(None, notice(&found, undo).into()).await?;
            let parts = &self.shared.ports;
            if !found.is_empty() {
                // Something may have come meanwhile, and stays with all that lies beside it.
                found = parts.workspaces.clean(self.id, areas, false).await?;
            }
            if undo {
                parts.snapshots.remove(self.id).await?;
            }
        }
        Ok(Some(SessionCleaned { areas: found, undo }))
    }
}

/// Notice for the model and the person.
fn notice(found: &[(WorkspaceArea, FilesRemoved)], undo: bool) -> [EventKind; 2] {
    let mut removed: Vec<String> = found
        .iter()
        .map(|(area, removed)| {
            let files = if removed.files == 1 { "1 file".to_owned() } else { format!("{} files", removed.files) };
            format!("{}/ ({files})", area.folder())
        })
        .collect();
    if undo {
        removed.push("what is needed to undo earlier changes of files".to_owned());
    }
    let text = format!(
        "This session had been unused for long, and files of it were removed to save space: {}. The history is whole. Ask \
         for a file again if you need it.",
        removed.join(", ")
    );
    // It belongs to no turn.
    let item = Item::new(TurnId::generate(), ItemBody::notice(text));
    whole(item)
}

/// Time for a cancelled turn to tell its end.
const CANCEL_GRACE: Duration = Duration::from_secs(7);

impl Actor {
    /// Begins no more turns from here on. Those that wait are in the journal and begin with the next daemon.
    pub(crate) async fn drain(&mut self, deadline: Duration) -> Result<(), Fault> {
        self.draining = Some(Drain { until: Instant::now() + deadline, suspended: false });
        Ok(())
    }

    /// Patience has ended: the turn is suspended, and if it was before, it is dropped.
    pub(crate) fn drain_due(&mut self) -> Next {
        let Some(drain) = &mut self.draining else { return Next::Go };
        let Some(running) = self.open.as_mut().and_then(|open| open.running.as_mut()) else { return Next::Go };
        if drain.suspended {
            running.task.abort();
            return Next::Leave;
        }
        drain.suspended = true;
        drain.until = Instant::now() + CANCEL_GRACE;
        running.cancelled_for.get_or_insert(StopReason::Suspended);
        running.cancel.cancel();
        Next::Go
    }

    /// Returns whether a session on its way out may go: its turn has ended, or waits for a person. What waits for a
    /// person can wait for the next daemon, because nothing is under way.
    pub(crate) fn is_drained(&mut self) -> bool {
        if self.draining.is_none() {
            return false;
        }
        let Some(running) = self.open.as_ref().and_then(|open| open.running.as_ref()) else { return true };
        let parks = !self.interrupts.is_empty() && running.cancelled_for.is_none();
        if parks {
            running.task.abort();
        }
        parks
    }
}
