//! Cloneable handle of a session's actor, with the commands that the actor accepts.

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
    error::{EngineError, Result},
    grants::SessionPermissions,
    large_input::UserInput,
    recovery::RecoveredTurn,
    session::{
        actor::{Access, Actor, Command, Fault, NextMove, RunCommand, SessionView, StartedTurn},
        journal::Subscription,
    },
    turn::aside::SideAnswer,
};

/// Creates the error for callers that access a session while the session is being removed.
pub(crate) fn being_deleted_error(id: SessionId) -> EngineError {
    EngineError::new(ErrorKind::NotFound, format!("session {id} is being deleted"))
        .with_hint("start a new session; list all with `agentctl sessions list`")
}

/// Marks a session as held by its remover. While the hold is alive, the session is closed to all other callers.
pub(crate) type HoldMark = Weak<()>;

/// Parameters for cleaning a session.
#[derive(Debug, Clone, Default)]
pub struct CleanOrder {
    /// Workspace folders to clean, each cleaned only if nothing in the folder was changed since the given time.
    pub areas: Vec<(WorkspaceArea, Timestamp)>,
    /// True to remove the data needed to undo file changes.
    pub undo: bool,
    /// Last known use of the session or of its subagents. A session that was used later stays unchanged. `None` skips
    /// this check.
    pub last_used: Option<Timestamp>,
    /// True to report what would be removed without removing it.
    pub trial: bool,
}

/// Parts of a session that a cleaning removed or, in a trial, would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionCleaned {
    /// Removed files per workspace area.
    pub areas: Vec<(WorkspaceArea, FilesRemoved)>,
    /// True if the data needed to undo file changes was removed.
    pub undo: bool,
}

/// Capacity of a session's command queue.
pub(crate) const COMMAND_QUEUE: usize = 64;

/// Outcome of a command, and the actor's next move.
type CommandWork<'a, T> = BoxFuture<'a, (Result<T, Fault>, NextMove)>;

/// Handle of a session. All clones share the same actor.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) id: SessionId,
    pub(crate) commands: mpsc::Sender<Command>,
    /// Error that ended the actor, if any.
    pub(crate) end_error: Arc<OnceLock<EngineError>>,
    /// Mark of the hold on the session, set when the session is to be removed.
    pub(crate) hold: Arc<OnceLock<HoldMark>>,
    /// Cancelled when the actor has ended for any reason.
    pub(crate) ended: CancellationToken,
}

/// Defines requests that the session's actor answers with its method of the same name. Each row names the type of the
/// answer and the access that the request needs.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty, $access:ident;
    )*) => {$(
        $(#[$doc])*
        $visibility async fn $name(&self, $($argument: $kind),*) -> Result<$answer> {
            self.ask(Access::$access, move |actor| actor.$name($($argument),*).boxed()).await
        }
    )*};
}

impl SessionHandle {
    /// Returns the ID of the session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Starts a turn. The turn is stored when this method returns, and is independent of the caller. A queued turn
    /// ([`agentd_core::turn::IfBusy::Queue`]) is also stored, and starts when all earlier turns have ended, even after
    /// a daemon restart.
    ///
    /// # Errors
    /// Fails if the input is invalid, a turn is running (see [`agentd_core::turn::IfBusy`]), or the journal cannot be
    /// written.
    pub async fn start_turn(&self, start: impl Into<TurnStart>) -> Result<StartedTurn> {
        let start = start.into();
        self.ask(Access::ChangesFiles, move |actor| actor.start(start).boxed()).await
    }

    requests! {
        /// Cancels the running turn, or `turn` if that turn is running or queued. Returns once the turn is notified;
        /// its `TurnEnded` follows.
        ///
        /// # Errors
        /// Fails if no such turn is running or queued.
        pub fn cancel(turn: Option<TurnId>) -> (), Changes;

        /// Reports that the client that started this turn has disconnected. From then on, a turn started with
        /// `while_connected` waits for answers. Has no effect on a turn that has ended.
        ///
        /// # Errors
        /// Fails if the session is gone.
        pub fn client_left(turn: TurnId) -> (), Changes;

        /// Answers an interrupt, once. The answer is stored when this method returns, and the turn continues with the
        /// answer, even if the daemon was restarted after the question.
        ///
        /// # Errors
        /// Fails if there is no such interrupt, it was already answered, or the answer does not fit.
        pub fn answer(id: InterruptId, answer: Answer, client: String) -> (), Changes;

        /// Returns the session's current file tree, and the session that owns the files.
        ///
        /// # Errors
        /// Fails if the session cannot be loaded, or its project is gone.
        pub(crate) fn tree() -> (SessionId, SessionTree), ReadOnly;

        /// Stores a change to a state file. The change is visible to the next call of a running turn.
        ///
        /// # Errors
        /// Fails if the change is rejected, or the journal cannot be written.
        pub fn change_state_file(change: StateFileChange) -> (), Changes;

        /// Subscribes to all events with sequence numbers above `after`, including future ones.
        ///
        /// # Errors
        /// Fails if the session cannot be loaded.
        pub fn subscribe(after: u64) -> Subscription, ReadOnly;

        /// Returns the state of the session, its pending interrupts and its live turn.
        ///
        /// # Errors
        /// Fails if the journal cannot be read.
        pub fn show() -> SessionView, ReadOnly;

        /// Sets the title of the session.
        ///
        /// # Errors
        /// Fails if the title is blank or the journal cannot be written.
        pub fn rename(title: String) -> (), Changes;

        /// Stores a grant for this session. The grant applies from the next call in a running turn.
        ///
        /// # Errors
        /// Fails if the journal cannot be written.
        pub(crate) fn grant(grant: Grant) -> (), Changes;

        /// Revokes a grant of this session. The grant no longer applies to the next call in a running turn.
        ///
        /// # Errors
        /// Fails if the session has no such grant, or the journal cannot be written.
        pub(crate) fn revoke(rule: String) -> (), Changes;

        /// Copies the grants and the mode of the parent session.
        pub(crate) fn take_permissions(permissions: SessionPermissions) -> (), Changes;

        /// Sets the session's mode on behalf of `client`. The mode applies from the next call, even in a running turn.
        ///
        /// # Errors
        /// Fails if the session is a subagent, or the audit log or the journal cannot be written.
        pub fn set_mode(mode: SessionMode, client: String) -> (), Changes;

        /// Sets the rules that are repeated to the model whenever they are no longer visible to it. The rules apply
        /// from the next turn.
        ///
        /// # Errors
        /// Fails if there are too many rules, a rule is too long or blank, or the journal cannot be written.
        pub fn set_pins(pins: Vec<String>) -> (), Changes;

        /// Sets the default slot of turns and the model on its server. Without a model, the slot's own model is used,
        /// and without either, the configured default. A model without a slot applies to the slot that is already set.
        /// Takes effect with the next turn, including for the session's agents that use the same slot. Returns the new
        /// model.
        ///
        /// # Errors
        /// Fails if the session is a subagent, the slot's server does not accept a model name, or the journal
        /// cannot be written.
        pub fn set_model(slot: Option<Slot>, model: Option<String>) -> SlotInfo, Changes;

        /// Copies the settings of the parent session, including its grants, for later turns.
        ///
        /// # Errors
        /// Fails if a turn is open, or the journal cannot be written.
        pub(crate) fn adopt(settings: SessionSettings) -> (), Changes;

        /// Adds folders to the session for later turns. A folder that is already added gets the new mode.
        ///
        /// # Errors
        /// Fails if a folder would change while a turn is open, a folder cannot be added, or the journal cannot be
        /// written.
        pub fn add_folders(added: Vec<Mount>) -> (), Changes;

        /// Sets whether the session is exempt from cleaning, even if it is unused for a long time.
        ///
        /// # Errors
        /// Fails if the journal cannot be written.
        pub fn pin(pinned: bool) -> (), Changes;

        /// Hides the history from the model and empties `temp/`; other files stay.
        ///
        /// # Errors
        /// Fails if a turn is open or the journal cannot be written.
        pub fn reset() -> (), Changes;

        /// Describes the context window of the model for the next request.
        ///
        /// # Errors
        /// Fails if the session cannot be loaded.
        pub fn context() -> ContextView, ReadOnly;

        /// Lists every tool with the reason why the next turn would offer it or not.
        ///
        /// # Errors
        /// Fails if the session cannot be loaded.
        pub fn tools() -> Vec<ToolStanding>, ReadOnly;

        /// Undoes the last compaction, so that the replaced items are visible to the model again. Returns the new
        /// window, and the report on the undone compaction.
        ///
        /// # Errors
        /// Fails if a turn is open, nothing was compacted, or the journal cannot be read or written.
        pub fn undo_compaction() -> (Window, CompactionReport), Changes;

        /// Accepts no more turns and lets the running turn continue until the deadline. Calls waiting for the user stay
        /// pending.
        pub(crate) fn drain(deadline: Duration) -> (), ReadOnly;
    }

    /// Adds input to the running turn, or to `turn` if that turn is running.
    ///
    /// # Errors
    /// Fails if no such turn is running.
    pub async fn steer(&self, turn: Option<TurnId>, text: String) -> Result<()> {
        self.ask(Access::Changes, move |actor| actor.steer(turn, UserInput::whole(text, None), false).boxed()).await
    }

    /// Announces an uploaded file to the model in the next turn.
    pub(crate) async fn uploaded(&self, path: String, picture: Option<Picture>) -> Result<()> {
        self.ask(Access::Changes, move |actor| actor.change(StateChange::HandedOver { path, picture }).boxed()).await
    }

    /// Changes the settings for later turns. The session's grants stay unchanged, and added folders are merged with the
    /// current ones.
    ///
    /// # Errors
    /// Fails if a turn is open, a folder cannot be added, or the journal cannot be written.
    pub async fn configure(&self, settings: SessionSettings) -> Result<()> {
        self.ask(Access::Changes, move |actor| actor.configure(settings, false).boxed()).await
    }

    /// Same as [`Self::configure`], but the added folders of these settings replace the current ones.
    ///
    /// # Errors
    /// Same as [`Self::configure`].
    pub async fn configure_with_folders(&self, settings: SessionSettings) -> Result<()> {
        self.ask(Access::Changes, move |actor| actor.configure(settings, true).boxed()).await
    }

    /// Removes unused data and records the removal in the history. Returns `None` if the session is in use.
    pub(crate) async fn clean(&self, order: CleanOrder) -> Result<Option<SessionCleaned>> {
        self.order(Access::Changes, |actor| {
            async move {
                let cleaned = actor.clean(order).await;
                // The session may have been loaded only for this cleaning.
                (cleaned, actor.unload())
            }
            .boxed()
        })
        .await
    }

    /// Reverts a turn's file changes byte for byte. Files that have changed since then are skipped and reported. A
    /// preview changes nothing.
    ///
    /// # Errors
    /// Fails if a turn is open, no such turn changed files, or the files or the journal cannot be written.
    pub async fn undo(&self, request: UndoRequest) -> Result<UndoReport> {
        let access = if request.preview { Access::ReadOnly } else { Access::ChangesFiles };
        self.ask(access, move |actor| actor.undo(request).boxed()).await
    }

    /// Asks the session's model a side question, on the history as of its last complete message, also while a turn runs
    /// or waits. Neither the question nor its answer is added to the history. Dropping the answer cancels the question.
    ///
    /// # Errors
    /// Fails if the question is empty or too long, too many others wait for their answers, or the session has no model
    /// that can answer.
    pub async fn ask_aside(&self, question: String, client: String) -> Result<SideAnswer> {
        self.ask(Access::Changes, move |actor| actor.side_question(question, client).boxed()).await
    }

    /// Returns the turn that was recovered from a crash when the session was loaded.
    pub(crate) async fn recovered(&self) -> Result<Option<RecoveredTurn>> {
        self.ask(Access::ReadOnly, |actor| async move { Ok(actor.recovered.clone()) }.boxed()).await
    }

    /// Unloads the session, unless a turn is open or a file is being written into the session.
    pub(crate) async fn close(&self) -> Result<()> {
        self.order(Access::ReadOnly, |actor| async move { actor.close() }.boxed()).await
    }

    /// Ends the session permanently, so that it can be removed. Returns false if the session is in use, pinned, or was
    /// used after `last_used`. Without `last_used`, only work in progress prevents the removal.
    ///
    /// # Errors
    /// Fails if `last_used` is `None` and work in progress prevents the removal, or if the journal cannot be read.
    pub(crate) async fn retire(&self, mark: HoldMark, last_used: Option<Timestamp>) -> Result<bool> {
        let (end_error, hold) = (Arc::clone(&self.end_error), Arc::clone(&self.hold));
        // The user can remove a session whose journal cannot be written. On a full disk, the removal frees space.
        let access = if last_used.is_none() { Access::ReadOnly } else { Access::Changes };
        self.order(access, move |actor| {
            async move {
                let retired = actor.retire(last_used, mark, &end_error, &hold).await;
                let next = if matches!(retired, Ok(true)) { NextMove::Exit } else { actor.unload() };
                (retired, next)
            }
            .boxed()
        })
        .await
    }

    /// Prevents the session from being retired or cleaned until the returned lease is dropped.
    pub(crate) async fn lease(&self) -> Result<Arc<()>> {
        self.ask(Access::Changes, |actor| async move { Ok(Arc::clone(&actor.lease)) }.boxed()).await
    }

    /// Returns a handle of a session that is being removed and is not in memory.
    pub(crate) fn withheld(id: SessionId, mark: HoldMark) -> Self {
        let (commands, _) = mpsc::channel(1);
        let end_error = Arc::new(OnceLock::from(being_deleted_error(id)));
        // The channel is closed, so no caller waits for an answer.
        Self { id, commands, end_error, hold: Arc::new(OnceLock::from(mark)), ended: CancellationToken::new() }
    }

    /// Returns true if the session is being removed.
    pub(crate) fn is_withheld(&self) -> bool {
        self.hold.get().is_some_and(|mark| mark.strong_count() > 0)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.commands.is_closed()
    }

    /// Runs `work` on the actor and returns its result.
    async fn ask<T: Send + 'static>(
        &self,
        access: Access,
        work: impl for<'a> FnOnce(&'a mut Actor) -> BoxFuture<'a, Result<T, Fault>> + Send + 'static,
    ) -> Result<T> {
        self.order(access, |actor| async move { (work(actor).await, NextMove::Go) }.boxed()).await
    }

    /// Same as [`Self::ask`], for commands that may end the actor.
    async fn order<T: Send + 'static>(
        &self,
        access: Access,
        work: impl for<'a> FnOnce(&'a mut Actor) -> CommandWork<'a, T> + Send + 'static,
    ) -> Result<T> {
        let closed = "the session was closed during the request";
        let unloaded_error = || EngineError::new(ErrorKind::ShuttingDown, closed).with_hint("try again");
        let gone = || self.end_error.get().cloned().unwrap_or_else(unloaded_error);
        let (reply, answer) = oneshot::channel();
        let run: Box<RunCommand> = Box::new(move |actor| {
            async move {
                let (outcome, next) = match actor {
                    Ok(actor) => work(actor).await,
                    Err(refused) => (Err(refused.into()), NextMove::Go),
                };
                let (answer, next) = match outcome {
                    Ok(value) => (Ok(value), Ok(next)),
                    Err(Fault::Request(error)) => (Err(error), Ok(next)),
                    Err(Fault::Fatal(error)) => (Err(error.clone()), Err(error)),
                };
                // The caller may no longer be waiting for the answer.
                let _ = reply.send(answer);
                next
            }
            .boxed()
        });
        self.commands.send(Command { access, run }).await.map_err(|_| gone())?;
        self.answered(answer).await.unwrap_or_else(|| Err(gone()))
    }

    /// Waits for the actor's answer. Returns `None` if the actor ended without an answer. A command that is sent while
    /// the receiver is dropped stays in the channel until the last sender is dropped, together with the command's reply
    /// sender.
    async fn answered<T>(&self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            biased;
            answer = &mut answer => return answer.ok(),
            () = self.ended.cancelled() => {}
        }
        // The answer may have arrived just before the cancellation.
        answer.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn handle() -> (SessionHandle, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel(COMMAND_QUEUE);
        let (end_error, hold) = (Arc::default(), Arc::default());
        (
            SessionHandle { id: SessionId::generate(), commands, end_error, hold, ended: CancellationToken::new() },
            receiver,
        )
    }

    #[tokio::test]
    async fn command_sent_while_the_actor_exits_is_answered() {
        let (handle, receiver) = handle();
        // A message sent with a reserved permit may arrive after the receiver's last check.
        let slot = handle.commands.reserve().await.unwrap();
        drop(receiver);
        handle.ended.cancel();
        let (reply, answer) = oneshot::channel::<()>();
        let run: Box<RunCommand> = Box::new(move |_| {
            drop(reply);
            async { Ok(NextMove::Go) }.boxed()
        });
        slot.send(Command { access: Access::ReadOnly, run });
        let answered = tokio::time::timeout(Duration::from_secs(20), handle.answered(answer)).await;
        assert!(answered.expect("the wait should end").is_none());

        // An answer is returned even if the actor has ended by then.
        let (reply, answer) = oneshot::channel();
        reply.send(1).unwrap();
        assert_eq!(handle.answered(answer).await, Some(1));
    }
}
