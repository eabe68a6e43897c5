//! How everybody speaks to a session: a cloneable handle, with what is said over it.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use agentd_core::{
    Timestamp,
    catalogue::ToolStanding,
    context::{CompactionReport, ContextView, Window},
    error::ErrorKind,
    event::StateChange,
    files::{FilesRemoved, Picture, SessionTree},
    grant::Grant,
    ids::{InterruptId, SessionId, TurnId},
    interrupt::Answer,
    model::{Slot, SlotInfo},
    ports::WorkspaceArea,
    session::{Mount, SessionMode, SessionSettings},
    state_files::StateFileChange,
    undo::{UndoReport, UndoRequest},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    client::TurnStart,
    error::EngineError,
    grants::SessionPermissions,
    large_input::UserInput,
    recovery::RecoveredTurn,
    session::{
        actor::{Access, Actor, Command, Fault, Next, RunCommand, SessionView, StartedTurn},
        journal::Subscription,
    },
};

/// The answer to everybody else while a session is being removed.
pub(crate) fn being_deleted(id: SessionId) -> EngineError {
    EngineError::new(ErrorKind::NotFound, format!("session {id} is being deleted"))
        .with_hint("begin a new one; agentctl sessions list shows all that are left")
}

/// The trace that a hold leaves on a session: as long as the hold is there, it keeps the session from everybody but whoever removes
/// it.
pub(crate) type HoldMark = Weak<()>;

/// Order to clean a session.
#[derive(Debug, Clone, Default)]
pub struct CleanOrder {
    /// The folders of its workspace, each where nothing in it was changed since that moment.
    pub areas: Vec<(WorkspaceArea, Timestamp)>,
    /// Set if what is needed to undo changes of files goes.
    pub undo: bool,
    /// When the session, or one that works for it, was used last, as far as is known: where one was used since, it stays as
    /// it is. None where nobody looked.
    pub last_used: Option<Timestamp>,
    /// Nothing is removed: it is only told what would be.
    pub trial: bool,
}

/// Parts of a session that were removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionCleaned {
    /// Of its workspace.
    pub areas: Vec<(WorkspaceArea, FilesRemoved)>,
    /// Set if what is needed to undo changes of files went.
    pub undo: bool,
}

/// Commands that wait for a session at the most.
pub(crate) const COMMANDS: usize = 64;

/// Outcome of a command, and the actor's next move.
type CommandWork<'a, T> = BoxFuture<'a, (Result<T, Fault>, Next)>;

/// The front of a session. Cloneable; all clones speak to the same actor.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) id: SessionId,
    pub(crate) commands: mpsc::Sender<Command>,
    /// Why the actor is gone, where there was a reason.
    pub(crate) fate: Arc<OnceLock<EngineError>>,
    /// Hold on the session, once it is to be removed.
    pub(crate) held: Arc<OnceLock<HoldMark>>,
    /// Cancelled once the actor is gone, however it went.
    pub(crate) ended: CancellationToken,
}

impl SessionHandle {
    /// The session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Starts a turn; it is stored when this returns. It lives on its own: nothing that happens to the caller
    /// ends it. One that waits behind another ([`agentd_core::turn::IfBusy::Queue`]) is stored too, and begins in its
    /// time, with the next daemon if this one is gone by then.
    ///
    /// # Errors
    /// When the input makes no sense, a turn is running (see [`agentd_core::turn::IfBusy`]), or the journal
    /// cannot be written.
    pub async fn start_turn(&self, start: impl Into<TurnStart>) -> Result<StartedTurn, EngineError> {
        let start = start.into();
        self.ask(Access::ChangesFiles, move |actor| actor.start(start).boxed()).await
    }

    /// Adds to the running turn, or to the one named if it still runs.
    ///
    /// # Errors
    /// When no such turn runs.
    pub async fn steer(&self, turn: Option<TurnId>, text: String) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.steer(turn, UserInput::whole(text, None), false).boxed()).await
    }

    /// Cancels the running turn, or the one named if it still runs or waits. Returns when the turn was told;
    /// its `TurnEnded` follows.
    ///
    /// # Errors
    /// When no such turn runs.
    pub async fn cancel(&self, turn: Option<TurnId>) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.cancel(turn).boxed()).await
    }

    /// Tells that whoever started this turn is gone. Where its start said so, it waits for answers from here on
    /// (`while_connected`). One that has ended is none the wiser.
    ///
    /// # Errors
    /// When the session is gone.
    pub async fn client_left(&self, turn: TurnId) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.client_left(turn).boxed()).await
    }

    /// Answers an interrupt, once. The answer is stored when this returns, and the turn goes on with it, also
    /// when the daemon was started anew since it asked.
    ///
    /// # Errors
    /// When there is no such interrupt, it was answered before, or the answer does not fit.
    pub async fn answer(&self, id: InterruptId, answer: Answer, client: String) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.answer(id, answer, client).boxed()).await
    }

    /// All files of the session, where they are now, and the session whose they are.
    ///
    /// # Errors
    /// When the session cannot be loaded, or its project is gone.
    pub(crate) async fn tree(&self) -> Result<(SessionId, SessionTree), EngineError> {
        self.ask(Access::Looks, move |actor| actor.tree().boxed()).await
    }

    /// Stores a change of the files in the session's own state; a turn that runs sees it with its next call.
    ///
    /// # Errors
    /// When it may not be made, or the journal cannot be written.
    pub async fn change_state_file(&self, change: StateFileChange) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.change_state_file(change).boxed()).await
    }

    /// A reader of all events with numbers above `after`, those to come included.
    ///
    /// # Errors
    /// When the session cannot be loaded.
    pub async fn subscribe(&self, after: u64) -> Result<Subscription, EngineError> {
        self.ask(Access::Looks, move |actor| actor.subscribe(after).boxed()).await
    }

    /// Tells the model of a file with its next turn.
    pub(crate) async fn uploaded(&self, path: String, picture: Option<Picture>) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.change(StateChange::HandedOver { path, picture }).boxed()).await
    }

    /// View of the session.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn show(&self) -> Result<SessionView, EngineError> {
        self.ask(Access::Looks, move |actor| actor.show().boxed()).await
    }

    /// Names the session.
    ///
    /// # Errors
    /// When the name is empty or the journal cannot be written.
    pub async fn rename(&self, title: String) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.rename(title).boxed()).await
    }

    /// Keeps a rule for this session. It holds for the next call of a running turn.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub(crate) async fn grant(&self, grant: Grant) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.grant(grant).boxed()).await
    }

    /// Takes a rule of this session back. It no longer holds for the next call of a running turn.
    ///
    /// # Errors
    /// When the session keeps no such rule, or the journal cannot be written.
    pub(crate) async fn revoke(&self, rule: String) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.revoke(rule).boxed()).await
    }

    /// Takes over the rules and the mode of the session for which this one works.
    pub(crate) async fn take_permissions(&self, permissions: SessionPermissions) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.take_permissions(permissions).boxed()).await
    }

    /// Sets the session's mode, in that client's name. It holds for the next call, also of a turn that runs.
    ///
    /// # Errors
    /// When the session works for another one, or the audit log or the journal cannot be written.
    pub async fn set_mode(&self, mode: SessionMode, client: String) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.set_mode(mode, client).boxed()).await
    }

    /// Sets the rules that the model is told again whenever it no longer sees them. They hold from the next turn on.
    ///
    /// # Errors
    /// When they are too many, too long or blank, or the journal cannot be written.
    pub async fn set_pins(&self, pins: Vec<String>) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.set_pins(pins).boxed()).await
    }

    /// Sets the slot that turns use where they name none, and the model on its server; where no model is given, the slot's
    /// own, and where neither is, what the configuration says. A model without a slot is one of the slot that is set. They
    /// hold from the next turn on, and for agents of it that use the same slot. Returns the model.
    ///
    /// # Errors
    /// When the session works for another one, the slot has no server that is told which model is meant, or the journal
    /// cannot be written.
    pub async fn set_model(&self, slot: Option<Slot>, model: Option<String>) -> Result<SlotInfo, EngineError> {
        self.ask(Access::Changes, move |actor| actor.set_model(slot, model).boxed()).await
    }

    /// Takes over the settings of the session for which this one works, its rules included, for later turns.
    ///
    /// # Errors
    /// When a turn is open, or the journal cannot be written.
    pub(crate) async fn adopt(&self, settings: SessionSettings) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.adopt(settings).boxed()).await
    }

    /// Changes the settings, for later turns. The rules that the session keeps stay as they are, and its folders are added to
    /// those that it has.
    ///
    /// # Errors
    /// When a turn is open, a folder cannot be added, or the journal cannot be written.
    pub async fn configure(&self, settings: SessionSettings) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.configure(settings, false).boxed()).await
    }

    /// The same; the session has the added folders of these settings then, and no others.
    ///
    /// # Errors
    /// As of [`Self::configure`].
    pub async fn configure_with_folders(&self, settings: SessionSettings) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.configure(settings, true).boxed()).await
    }

    /// Adds folders to those that the session sees, for later turns. One that it has takes the mode that is given now.
    ///
    /// # Errors
    /// When that changes something and a turn is open, a folder cannot be added, or the journal cannot be written.
    pub async fn add_folders(&self, added: Vec<Mount>) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.add_folders(added).boxed()).await
    }

    /// Keeps the session from being cleaned however long nobody uses it, or no longer.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub async fn pin(&self, pinned: bool) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.pin(pinned).boxed()).await
    }

    /// Removes what was not used for long, and tells of it in the history. None where the session is in use.
    pub(crate) async fn clean(&self, order: CleanOrder) -> Result<Option<SessionCleaned>, EngineError> {
        self.order(Access::Changes, |actor| {
            async move {
                let cleaned = actor.clean(order).await;
                // It was loaded for this alone.
                (cleaned, actor.unload())
            }
            .boxed()
        })
        .await
    }

    /// Sets the history aside and empties `temp/`; the other files stay.
    ///
    /// # Errors
    /// When a turn is running or the journal cannot be written.
    pub async fn reset(&self) -> Result<(), EngineError> {
        self.ask(Access::Changes, move |actor| actor.reset().boxed()).await
    }

    /// Takes back what a turn did to files, byte for byte; files that something else changed since are left alone and
    /// told of. A preview changes nothing.
    ///
    /// # Errors
    /// When a turn is open, no such turn changed files, or the files or the journal cannot be written.
    pub async fn undo(&self, request: UndoRequest) -> Result<UndoReport, EngineError> {
        let access = if request.preview { Access::Looks } else { Access::ChangesFiles };
        self.ask(access, move |actor| actor.undo(request).boxed()).await
    }

    /// Content of the window of the model that would be asked next.
    ///
    /// # Errors
    /// When the session cannot be loaded.
    pub async fn context(&self) -> Result<ContextView, EngineError> {
        self.ask(Access::Looks, move |actor| actor.context().boxed()).await
    }

    /// Every tool, and why the next turn would show it or not.
    ///
    /// # Errors
    /// When the session cannot be loaded.
    pub async fn tools(&self) -> Result<Vec<ToolStanding>, EngineError> {
        self.ask(Access::Looks, move |actor| actor.tools().boxed()).await
    }

    /// Takes the last compaction back: the model sees what it had replaced. Returns what it sees now, and what was
    /// taken back.
    ///
    /// # Errors
    /// When a turn is open, nothing was compacted, or the journal cannot be read or written.
    pub async fn undo_compaction(&self) -> Result<(Window, CompactionReport), EngineError> {
        self.ask(Access::Changes, move |actor| actor.undo_compaction().boxed()).await
    }

    /// Turn that a crash had left behind when the session was loaded.
    pub(crate) async fn recovered(&self) -> Result<Option<RecoveredTurn>, EngineError> {
        self.ask(Access::Looks, |actor| async move { Ok(actor.recovered.clone()) }.boxed()).await
    }

    /// Takes no more turns, gives the running one until the deadline, leaves what waits for a person as it is.
    pub(crate) async fn drain(&self, deadline: Duration) -> Result<(), EngineError> {
        self.ask(Access::Looks, move |actor| actor.drain(deadline).boxed()).await
    }

    /// Unloads the session, unless a turn is open.
    pub(crate) async fn close(&self) -> Result<(), EngineError> {
        self.order(Access::Looks, |actor| async move { actor.close() }.boxed()).await
    }

    /// Ends the session for good, so that it can be removed, and says whether it did. A session that is needed, or was used
    /// since `last_used`, stays; without that only one stays in which something is under way.
    ///
    /// # Errors
    /// Why it stays, where a person has it removed.
    pub(crate) async fn retire(&self, mark: HoldMark, last_used: Option<Timestamp>) -> Result<bool, EngineError> {
        let (fate, held) = (Arc::clone(&self.fate), Arc::clone(&self.held));
        // A person can remove a session whose journal cannot be written: on a full disk that makes room.
        let access = if last_used.is_none() { Access::Looks } else { Access::Changes };
        self.order(access, move |actor| {
            async move {
                let retired = actor.retire(last_used, mark, &fate, &held).await;
                let next = if matches!(retired, Ok(true)) { Next::Leave } else { actor.unload() };
                (retired, next)
            }
            .boxed()
        })
        .await
    }

    /// Keeps the session from being retired and cleaned until the lease is dropped.
    pub(crate) async fn lease(&self) -> Result<Arc<()>, EngineError> {
        self.ask(Access::Changes, |actor| async move { Ok(Arc::clone(&actor.lease)) }.boxed()).await
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
        self.held.get().is_some_and(|mark| mark.strong_count() > 0)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.commands.is_closed()
    }

    /// Has the actor do this, and returns what comes of it.
    async fn ask<T: Send + 'static>(
        &self,
        access: Access,
        work: impl for<'a> FnOnce(&'a mut Actor) -> BoxFuture<'a, Result<T, Fault>> + Send + 'static,
    ) -> Result<T, EngineError> {
        self.order(access, |actor| async move { (work(actor).await, Next::Go) }.boxed()).await
    }

    /// The same of what may end the session.
    async fn order<T: Send + 'static>(
        &self,
        access: Access,
        work: impl for<'a> FnOnce(&'a mut Actor) -> CommandWork<'a, T> + Send + 'static,
    ) -> Result<T, EngineError> {
        let unloaded = || {
            EngineError::new(ErrorKind::ShuttingDown, "the session was closed while it was asked")
                .with_hint("try again")
        };
        let gone = || self.fate.get().cloned().unwrap_or_else(unloaded);
        let (reply, answer) = oneshot::channel();
        let run: Box<RunCommand> = Box::new(move |actor| {
            async move {
                let (outcome, next) = match actor {
                    Ok(actor) => work(actor).await,
                    Err(refused) => (Err(refused.into()), Next::Go),
                };
                let (answer, next) = match outcome {
                    Ok(value) => (Ok(value), Ok(next)),
                    Err(Fault::Request(error)) => (Err(error), Ok(next)),
                    Err(Fault::Fatal(error)) => (Err(error.clone()), Err(error)),
                };
                // A caller that went away does not need the answer.
                let _ = reply.send(answer);
                next
            }
            .boxed()
        });
        self.commands.send(Command { access, run }).await.map_err(|_| gone())?;
        self.answered(answer).await.unwrap_or_else(|| Err(gone()))
    }

    /// Answer of the actor. None where it went without one: a command that is sent just when the receiver is dropped stays in
    /// the channel as long as there is a sender, and its reply with it.
    async fn answered<T>(&self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = &mut answer => return answer.ok(),
            () = self.ended.cancelled() => {}
        }
        // It may have come between the two looks.
        answer.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn handle() -> (SessionHandle, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let (fate, held) = (Arc::default(), Arc::default());
        (SessionHandle { id: SessionId::generate(), commands, fate, held, ended: CancellationToken::new() }, receiver)
    }

    #[tokio::test]
    async fn a_command_that_slips_in_as_the_actor_leaves_is_answered() {
        let (handle, receiver) = handle();
        // What a sender has reserved may come when the receiver has looked for the last time.
        let slot = handle.commands.reserve().await.unwrap();
        drop(receiver);
        handle.ended.cancel();
        let (reply, answer) = oneshot::channel::<()>();
        let run: Box<RunCommand> = Box::new(move |_| {
            drop(reply);
            async { Ok(Next::Go) }.boxed()
        });
        slot.send(Command { access: Access::Looks, run });
        let answered = tokio::time::timeout(Duration::from_secs(20), handle.answered(answer)).await;
        assert!(answered.expect("nobody waits for ever").is_none());

        // An answer holds though the actor is gone by then.
        let (reply, answer) = oneshot::channel();
        reply.send(1).unwrap();
        assert_eq!(handle.answered(answer).await, Some(1));
    }
}
