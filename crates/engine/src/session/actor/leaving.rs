//! How a session leaves memory: unloaded when nobody needs it, or retired, so that it can be removed for good.
//!
//! The actor decides whether it is retired, so that no turn can begin meanwhile: what came before keeps the session, what
//! comes later is refused. Whoever removes the session has a [`HoldMark`] on it until that is done. As long as the hold is there,
//! everybody else is told that the session is being deleted; once it is dropped, whatever came of the removal, the session is
//! found anew, or not any more.

use std::sync::{Arc, OnceLock};

use agentd_core::{Timestamp, error::ErrorKind, ids::SessionId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    error::EngineError,
    session::{
        SessionHandle,
        actor::{Actor, Fault, Next},
        registry::{
            handle::{Command, Reply},
            orders::{HoldMark, Lease, Retirement},
        },
    },
};

impl SessionHandle {
    /// Ends the session for good, so that it can be removed, and says whether it did. A session that is needed, or was used
    /// since `last_used`, stays; without that only one stays in which something is under way.
    ///
    /// # Errors
    /// Why it stays, where a person has it removed.
    pub(crate) async fn retire(&self, mark: HoldMark, last_used: Option<Timestamp>) -> Result<bool, EngineError> {
        let (fate, held) = (Arc::clone(&self.fate), Arc::clone(&self.held));
        let order = Box::new(Retirement { last_used, mark, fate, held });
        self.ask(|reply| Command::Retire { order, reply }).await
    }

    /// Keeps the session from being retired and cleaned until the lease is dropped.
    pub(crate) async fn lease(&self) -> Result<Lease, EngineError> {
        self.ask(|reply| Command::Lease { reply }).await
    }

    /// The handle of a session that is not in memory and is being removed.
    pub(crate) fn withheld(id: SessionId, mark: HoldMark) -> Self {
        let (commands, _) = mpsc::channel(1);
        let fate = Arc::new(OnceLock::from(being_deleted(id)));
        // Its channel takes nothing, so nobody waits for an answer.
        Self { id, commands, fate, held: Arc::new(OnceLock::from(mark)), ended: CancellationToken::new() }
    }

    /// Tells that the session is being removed.
    pub(crate) fn is_withheld(&self) -> bool {
        self.held.get().is_some_and(HoldMark::is_held)
    }
}

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
        let stored = self.shared.parts.store.session(self.id).await?;
        Ok(stored.is_some_and(|stored| stored.summary.updated_at > last_used))
    }

    /// Refuses to end where something is under way.
    fn check_free(&self) -> Result<(), EngineError> {
        if self.open.is_some() {
            return Err(EngineError::new(ErrorKind::Busy, "a turn of this session is open")
                .with_hint("cancel it first: agentctl attach and Ctrl-C, or answer what it waits for"));
        }
        if self.is_leased() {
            return Err(EngineError::new(ErrorKind::Busy, "a file is being written into this session")
                .with_hint("try again when it is there"));
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, reply: Reply<()>) -> Next {
        if let Err(busy) = self.check_free() {
            let _ = reply.send(Err(busy));
            return Next::Go;
        }
        self.commands.close();
        let _ = reply.send(Ok(()));
        Next::Leave
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

fn being_deleted(id: SessionId) -> EngineError {
    EngineError::new(ErrorKind::NotFound, format!("session {id} is being deleted"))
        .with_hint("begin a new one; agentctl sessions list shows all that are left")
}
