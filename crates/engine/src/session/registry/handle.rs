//! How everybody speaks to a session: a cloneable handle, and the commands behind it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use agentd_core::{
    catalogue::ToolStanding,
    context::{CompactionReport, ContextView, Window},
    error::ErrorKind,
    files::{Picture, SessionTree},
    grant::Grant,
    ids::{InterruptId, SessionId, TurnId},
    interrupt::{Answer, Interrupt},
    model::{Slot, SlotInfo},
    session::{Mount, SessionMode, SessionSettings, StoredSession},
    state_files::StateFileChange,
    undo::{UndoReport, UndoRequest},
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    error::EngineError,
    grants::SessionPermissions,
    recovery::RecoveredTurn,
    session::{
        registry::{
            orders::{CleanOrder, HoldMark, Lease, Retirement, SessionCleaned},
            subscribers::Subscription,
        },
        turns::turn_start::TurnStart,
    },
};

/// Commands that wait for a session at the most.
pub(crate) const QUEUE: usize = 64;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, EngineError>>;

/// Commands of a session. What is large is boxed, because a queue has room for many commands whatever is in it.
pub(crate) enum Command {
    Start { start: Box<TurnStart>, reply: Reply<StartedTurn> },
    Steer { turn: Option<TurnId>, text: String, reply: Reply<()> },
    Cancel { turn: Option<TurnId>, reply: Reply<()> },
    Leave { turn: TurnId, reply: Reply<()> },
    Answer { id: InterruptId, answer: Box<Answer>, client: String, reply: Reply<()> },
    Subscribe { after: u64, reply: Reply<Subscription> },
    Uploaded { path: String, picture: Option<Box<Picture>>, reply: Reply<()> },
    Show { reply: Reply<SessionView> },
    Rename { title: String, reply: Reply<()> },
    Grant { grant: Box<Grant>, reply: Reply<()> },
    Revoke { rule: String, reply: Reply<()> },
    TakePermissions { permissions: Box<SessionPermissions>, reply: Reply<()> },
    SetMode { mode: SessionMode, client: String, reply: Reply<()> },
    SetModel { slot: Option<Slot>, model: Option<String>, reply: Reply<SlotInfo> },
    SetPins { pins: Vec<String>, reply: Reply<()> },
    Adopt { settings: Box<SessionSettings>, reply: Reply<()> },
    Configure { settings: Box<SessionSettings>, only_these_folders: bool, reply: Reply<()> },
    AddFolders { added: Vec<Mount>, reply: Reply<()> },
    Pin { pinned: bool, reply: Reply<()> },
    Clean { order: Box<CleanOrder>, reply: Reply<Option<SessionCleaned>> },
    Reset { reply: Reply<()> },
    Context { reply: Reply<ContextView> },
    Tools { reply: Reply<Vec<ToolStanding>> },
    UndoCompaction { reply: Reply<(Window, CompactionReport)> },
    Tree { reply: Reply<(SessionId, SessionTree)> },
    StateFile { change: StateFileChange, reply: Reply<()> },
    Undo { request: Box<UndoRequest>, reply: Reply<UndoReport> },
    Recovered { reply: Reply<Option<RecoveredTurn>> },
    Drain { deadline: Duration, reply: Reply<()> },
    Lease { reply: Reply<Lease> },
    Retire { order: Box<Retirement>, reply: Reply<bool> },
    Close { reply: Reply<()> },
}

impl Command {
    /// Returns whether it changes nothing of the session.
    pub(crate) fn only_looks(&self) -> bool {
        match self {
            Self::Subscribe { .. }
            | Self::Show { .. }
            | Self::Context { .. }
            | Self::Tools { .. }
            | Self::Tree { .. }
            | Self::Recovered { .. }
            | Self::Drain { .. }
            | Self::Close { .. } => true,
            Self::Undo { request, .. } => request.preview,
            // A person can remove a session whose journal cannot be written: on a full disk that makes room.
            Self::Retire { order, .. } => order.last_used.is_none(),
            _ => false,
        }
    }

    /// Answers what cannot be done now.
    pub(crate) fn refuse(self, error: EngineError) {
        // Whoever does not wait for the answer does not need it.
        match self {
            Self::Start { reply, .. } => drop(reply.send(Err(error))),
            Self::Subscribe { reply, .. } => drop(reply.send(Err(error))),
            Self::Show { reply } => drop(reply.send(Err(error))),
            Self::Context { reply } => drop(reply.send(Err(error))),
            Self::Tools { reply } => drop(reply.send(Err(error))),
            Self::UndoCompaction { reply } => drop(reply.send(Err(error))),
            Self::Tree { reply } => drop(reply.send(Err(error))),
            Self::Undo { reply, .. } => drop(reply.send(Err(error))),
            Self::Clean { reply, .. } => drop(reply.send(Err(error))),
            Self::Lease { reply } => drop(reply.send(Err(error))),
            Self::Retire { reply, .. } => drop(reply.send(Err(error))),
            Self::Recovered { reply } => drop(reply.send(Err(error))),
            Self::SetModel { reply, .. } => drop(reply.send(Err(error))),
            Self::Steer { reply, .. }
            | Self::Cancel { reply, .. }
            | Self::Answer { reply, .. }
            | Self::Uploaded { reply, .. }
            | Self::Rename { reply, .. }
            | Self::Grant { reply, .. }
            | Self::Revoke { reply, .. }
            | Self::TakePermissions { reply, .. }
            | Self::SetMode { reply, .. }
            | Self::SetPins { reply, .. }
            | Self::Adopt { reply, .. }
            | Self::Configure { reply, .. }
            | Self::AddFolders { reply, .. }
            | Self::Leave { reply, .. }
            | Self::Pin { reply, .. }
            | Self::Reset { reply }
            | Self::StateFile { reply, .. }
            | Self::Drain { reply, .. }
            | Self::Close { reply } => drop(reply.send(Err(error))),
        }
    }
}

/// A turn that was accepted.
pub struct StartedTurn {
    /// Its id.
    pub turn_id: TurnId,
    /// Its events, from the first. A turn that waits behind another has none until its time comes.
    pub events: Subscription,
    /// It ran before, and the input was added to it.
    pub joined: bool,
}

/// A session, as a person wants to see it.
#[derive(Debug, Clone)]
pub struct SessionView {
    /// State in the journal.
    pub session: StoredSession,
    /// Pending interrupts.
    pub pending: Vec<Interrupt>,
    /// The turn that runs or waits.
    pub live_turn: Option<TurnId>,
}

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
    #[must_use]
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
        let start = Box::new(start.into());
        self.ask(|reply| Command::Start { start, reply }).await
    }

    /// Adds to the running turn, or to the one named if it still runs.
    ///
    /// # Errors
    /// When no such turn runs.
    pub async fn steer(&self, turn: Option<TurnId>, text: String) -> Result<(), EngineError> {
        self.ask(|reply| Command::Steer { turn, text, reply }).await
    }

    /// Cancels the running turn, or the one named if it still runs or waits. Returns when the turn was told;
    /// its `TurnEnded` follows.
    ///
    /// # Errors
    /// When no such turn runs.
    pub async fn cancel(&self, turn: Option<TurnId>) -> Result<(), EngineError> {
        self.ask(|reply| Command::Cancel { turn, reply }).await
    }

    /// Tells that whoever started this turn is gone. Where its start said so, it waits for answers from here on
    /// (`while_connected`). One that has ended is none the wiser.
    ///
    /// # Errors
    /// When the session is gone.
    pub async fn client_left(&self, turn: TurnId) -> Result<(), EngineError> {
        self.ask(|reply| Command::Leave { turn, reply }).await
    }

    /// Answers an interrupt, once. The answer is stored when this returns, and the turn goes on with it, also
    /// when the daemon was started anew since it asked.
    ///
    /// # Errors
    /// When there is no such interrupt, it was answered before, or the answer does not fit.
    pub async fn answer(&self, id: InterruptId, answer: Answer, client: String) -> Result<(), EngineError> {
        let answer = Box::new(answer);
        self.ask(|reply| Command::Answer { id, answer, client, reply }).await
    }

    /// All files of the session, where they are now, and the session whose they are.
    ///
    /// # Errors
    /// When the session cannot be loaded, or its project is gone.
    pub(crate) async fn tree(&self) -> Result<(SessionId, SessionTree), EngineError> {
        self.ask(|reply| Command::Tree { reply }).await
    }

    /// Stores a change of the files in the session's own state; a turn that runs sees it with its next call.
    ///
    /// # Errors
    /// When it may not be made, or the journal cannot be written.
    pub async fn change_state_file(&self, change: StateFileChange) -> Result<(), EngineError> {
        self.ask(|reply| Command::StateFile { change, reply }).await
    }

    /// A reader of all events with numbers above `after`, those to come included.
    ///
    /// # Errors
    /// When the session cannot be loaded.
    pub async fn subscribe(&self, after: u64) -> Result<Subscription, EngineError> {
        self.ask(|reply| Command::Subscribe { after, reply }).await
    }

    /// Tells the model of a file with its next turn.
    pub(crate) async fn uploaded(&self, path: String, picture: Option<Picture>) -> Result<(), EngineError> {
        let picture = picture.map(Box::new);
        self.ask(|reply| Command::Uploaded { path, picture, reply }).await
    }

    /// View of the session.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn show(&self) -> Result<SessionView, EngineError> {
        self.ask(|reply| Command::Show { reply }).await
    }

    /// Names the session.
    ///
    /// # Errors
    /// When the name is empty or the journal cannot be written.
    pub async fn rename(&self, title: String) -> Result<(), EngineError> {
        self.ask(|reply| Command::Rename { title, reply }).await
    }

    /// Keeps a rule for this session. It holds for the next call of a running turn.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub(crate) async fn grant(&self, grant: Grant) -> Result<(), EngineError> {
        let grant = Box::new(grant);
        self.ask(|reply| Command::Grant { grant, reply }).await
    }

    /// Takes a rule of this session back. It no longer holds for the next call of a running turn.
    ///
    /// # Errors
    /// When the session keeps no such rule, or the journal cannot be written.
    pub(crate) async fn revoke(&self, rule: String) -> Result<(), EngineError> {
        self.ask(|reply| Command::Revoke { rule, reply }).await
    }

    /// Takes over the rules and the mode of the session for which this one works.
    pub(crate) async fn take_permissions(&self, permissions: SessionPermissions) -> Result<(), EngineError> {
        let permissions = Box::new(permissions);
        self.ask(|reply| Command::TakePermissions { permissions, reply }).await
    }

    /// Sets the session's mode, in that client's name. It holds for the next call, also of a turn that runs.
    ///
    /// # Errors
    /// When the session works for another one, or the audit log or the journal cannot be written.
    pub async fn set_mode(&self, mode: SessionMode, client: String) -> Result<(), EngineError> {
        self.ask(|reply| Command::SetMode { mode, client, reply }).await
    }

    /// Sets the rules that the model is told again whenever it no longer sees them. They hold from the next turn on.
    ///
    /// # Errors
    /// When they are too many, too long or blank, or the journal cannot be written.
    pub async fn set_pins(&self, pins: Vec<String>) -> Result<(), EngineError> {
        self.ask(|reply| Command::SetPins { pins, reply }).await
    }

    /// Sets the slot that turns use where they name none, and the model on its server; where no model is given, the slot's
    /// own, and where neither is, what the configuration says. A model without a slot is one of the slot that is set. They
    /// hold from the next turn on, and for agents of it that use the same slot. Returns the model.
    ///
    /// # Errors
    /// When the session works for another one, the slot has no server that is told which model is meant, or the journal
    /// cannot be written.
    pub async fn set_model(&self, slot: Option<Slot>, model: Option<String>) -> Result<SlotInfo, EngineError> {
        self.ask(|reply| Command::SetModel { slot, model, reply }).await
    }

    /// Takes over the settings of the session for which this one works, its rules included, for later turns.
    ///
    /// # Errors
    /// When a turn is open, or the journal cannot be written.
    pub(crate) async fn adopt(&self, settings: SessionSettings) -> Result<(), EngineError> {
        let settings = Box::new(settings);
        self.ask(|reply| Command::Adopt { settings, reply }).await
    }

    /// Changes the settings, for later turns. The rules that the session keeps stay as they are, and its folders are added to
    /// those that it has.
    ///
    /// # Errors
    /// When a turn is open, a folder cannot be added, or the journal cannot be written.
    pub async fn configure(&self, settings: SessionSettings) -> Result<(), EngineError> {
        let (settings, only_these_folders) = (Box::new(settings), false);
        self.ask(|reply| Command::Configure { settings, only_these_folders, reply }).await
    }

    /// The same; the session has the added folders of these settings then, and no others.
    ///
    /// # Errors
    /// As of [`Self::configure`].
    pub async fn configure_with_folders(&self, settings: SessionSettings) -> Result<(), EngineError> {
        let (settings, only_these_folders) = (Box::new(settings), true);
        self.ask(|reply| Command::Configure { settings, only_these_folders, reply }).await
    }

    /// Adds folders to those that the session sees, for later turns. One that it has takes the mode that is given now.
    ///
    /// # Errors
    /// When that changes something and a turn is open, a folder cannot be added, or the journal cannot be written.
    pub async fn add_folders(&self, added: Vec<Mount>) -> Result<(), EngineError> {
        self.ask(|reply| Command::AddFolders { added, reply }).await
    }

    /// Keeps the session from being cleaned however long nobody uses it, or no longer.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub async fn pin(&self, pinned: bool) -> Result<(), EngineError> {
        self.ask(|reply| Command::Pin { pinned, reply }).await
    }

    /// Removes what was not used for long, and tells of it in the history. None where the session is in use.
    pub(crate) async fn clean(&self, order: CleanOrder) -> Result<Option<SessionCleaned>, EngineError> {
        let order = Box::new(order);
        self.ask(|reply| Command::Clean { order, reply }).await
    }

    /// Sets the history aside and empties `temp/`; the other files stay.
    ///
    /// # Errors
    /// When a turn is running or the journal cannot be written.
    pub async fn reset(&self) -> Result<(), EngineError> {
        self.ask(|reply| Command::Reset { reply }).await
    }

    /// Takes back what a turn did to files, byte for byte; files that something else changed since are left alone and
    /// told of. A preview changes nothing.
    ///
    /// # Errors
    /// When a turn is open, no such turn changed files, or the files or the journal cannot be written.
    pub async fn undo(&self, request: UndoRequest) -> Result<UndoReport, EngineError> {
        let request = Box::new(request);
        self.ask(|reply| Command::Undo { request, reply }).await
    }

    /// Content of the window of the model that would be asked next.
    ///
    /// # Errors
    /// When the session cannot be loaded.
    pub async fn context(&self) -> Result<ContextView, EngineError> {
        self.ask(|reply| Command::Context { reply }).await
    }

    /// Every tool, and why the next turn would show it or not.
    ///
    /// # Errors
    /// When the session cannot be loaded.
    pub async fn tools(&self) -> Result<Vec<ToolStanding>, EngineError> {
        self.ask(|reply| Command::Tools { reply }).await
    }

    /// Takes the last compaction back: the model sees what it had replaced. Returns what it sees now, and what was
    /// taken back.
    ///
    /// # Errors
    /// When a turn is open, nothing was compacted, or the journal cannot be read or written.
    pub async fn undo_compaction(&self) -> Result<(Window, CompactionReport), EngineError> {
        self.ask(|reply| Command::UndoCompaction { reply }).await
    }

    /// Turn that a crash had left behind when the session was loaded.
    pub(crate) async fn recovered(&self) -> Result<Option<RecoveredTurn>, EngineError> {
        self.ask(|reply| Command::Recovered { reply }).await
    }

    /// Takes no more turns, gives the running one until the deadline, leaves what waits for a person as it is.
    pub(crate) async fn drain(&self, deadline: Duration) -> Result<(), EngineError> {
        self.ask(|reply| Command::Drain { deadline, reply }).await
    }

    /// Unloads the session, unless a turn is open.
    pub(crate) async fn close(&self) -> Result<(), EngineError> {
        self.ask(|reply| Command::Close { reply }).await
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.commands.is_closed()
    }

    pub(crate) async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, EngineError> {
        let gone = || self.fate.get().cloned().unwrap_or_else(EngineError::unloaded);
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| gone())?;
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

/// A session's name in one line, and not too long.
///
/// # Errors
/// When nothing is left of it.
pub(crate) fn plain_title(title: &str) -> Result<String, EngineError> {
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
    if title.is_empty() {
        return Err(EngineError::new(ErrorKind::InvalidInput, "a session's name cannot be empty"));
    }
    Ok(title)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_command_that_slips_in_as_the_actor_leaves_is_answered() {
        let (commands, receiver) = mpsc::channel(QUEUE);
        let (fate, held) = (Arc::default(), Arc::default());
        let handle = SessionHandle { id: SessionId::generate(), commands, fate, held, ended: CancellationToken::new() };
        // What a sender has reserved may come when the receiver has looked for the last time.
        let slot = handle.commands.reserve().await.unwrap();
        drop(receiver);
        handle.ended.cancel();
        let (reply, answer) = oneshot::channel();
        slot.send(Command::Close { reply });
        let answered = tokio::time::timeout(Duration::from_secs(20), handle.answered(answer)).await;
        assert!(answered.expect("nobody waits for ever").is_none());
    }

    #[tokio::test]
    async fn an_answer_holds_though_the_actor_is_gone_by_then() {
        let (commands, receiver) = mpsc::channel(QUEUE);
        let (fate, held) = (Arc::default(), Arc::default());
        let handle = SessionHandle { id: SessionId::generate(), commands, fate, held, ended: CancellationToken::new() };
        drop(receiver);
        let (reply, answer) = oneshot::channel();
        reply.send(1).unwrap();
        handle.ended.cancel();
        assert_eq!(handle.answered(answer).await, Some(1));
    }
}
