//! The loop of a session: one `select!`, one `match`.

use std::sync::{Arc, OnceLock};

use agentd_core::{ids::SessionId, session::SessionSettings};
use tokio::{
    sync::mpsc,
    task::{JoinError, JoinHandle},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::EngineError,
    session::{
        actor::{Actor, BATCH, Next, OpenTurn, load},
        registry::{
            handle::{Command, QUEUE, SessionHandle},
            shared::Shared,
        },
    },
    turn::recorder::TurnMessage,
};

/// Input of the actor.
enum Input {
    Command(Option<Command>),
    Messages(Vec<TurnMessage>),
    TaskEnded(Result<(), JoinError>),
    Deadline,
    DrainDue,
    Idle,
}

/// Starts a session's actor. It first waits for its predecessor to be gone: there is one writer per session.
pub(crate) fn spawn(
    id: SessionId,
    shared: Arc<Shared>,
    predecessor: Option<JoinHandle<()>>,
) -> (SessionHandle, JoinHandle<()>) {
    spawn_with(id, |commands| async move {
        if let Some(predecessor) = predecessor {
            // Whether it ended well or not, it is gone.
            let _ = predecessor.await;
        }
        load::load(id, shared, commands).await
    })
}

/// Starts the actor of a session that its first facts will bring into the journal.
pub(crate) fn spawn_newborn(
    id: SessionId,
    settings: SessionSettings,
    shared: Arc<Shared>,
) -> (SessionHandle, JoinHandle<()>) {
    spawn_with(id, |commands| async move { Ok(load::newborn(id, settings, shared, commands)) })
}

fn spawn_with<F: Future<Output = Result<Actor, EngineError>> + Send + 'static>(
    id: SessionId,
    actor: impl FnOnce(mpsc::Receiver<Command>) -> F,
) -> (SessionHandle, JoinHandle<()>) {
    let (sender, commands) = mpsc::channel(QUEUE);
    let fate = Arc::new(OnceLock::new());
    let ended = CancellationToken::new();
    let handle =
        SessionHandle { id, commands: sender, fate: Arc::clone(&fate), held: Arc::default(), ended: ended.clone() };
    let actor = actor(commands);
    let task = tokio::spawn(async move {
        let _ended = ended.drop_guard();
        let ended = match actor.await {
            Ok(actor) => actor.live().await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::error!(session = %id, "the session was closed: {error}");
            let _ = fate.set(error);
        }
    });
    (handle, task)
}

impl Actor {
    /// Lives until nobody needs the session, or its journal cannot be written. Then readers are told why.
    async fn live(mut self) -> Result<(), EngineError> {
        let ended = self.run().await;
        if let Err(error) = &ended {
            if let Some(OpenTurn { running, children, .. }) = self.open.take() {
                if let Some(running) = running {
                    running.task.abort();
                }
                self.cancel_children(children);
            }
            self.journal.close(error.clone());
        } else if self.draining.is_some() {
            self.journal.close(EngineError::stopping());
        }
        self.shared.ports.languages.end_session(self.id);
        ended
    }

    async fn run(&mut self) -> Result<(), EngineError> {
        // It grows with what comes: room for a whole batch would be most of the memory of a quiet turn.
        let mut batch = Vec::new();
        loop {
            // The room that most of these take while they work is no part of a session that waits: there are hundreds of those.
            let next = match self.next_input(&mut batch).await {
                Input::Command(Some(command)) => self.command(command).await?,
                // Nobody can ask any more: the registry is gone, and the daemon with it.
                Input::Command(None) => Next::Leave,
                Input::Messages(messages) => self.turn_messages(messages).await?,
                Input::TaskEnded(ended) => Box::pin(self.task_ended(ended)).await?,
                Input::Deadline => Box::pin(self.deadline_passed()).await?,
                Input::DrainDue => self.drain_due(),
                Input::Idle => self.unload(),
            };
            self.share.set(self.open.is_some(), !self.interrupts.is_empty());
            if matches!(next, Next::Leave) || self.is_drained() {
                return Ok(());
            }
        }
    }

    async fn next_input(&mut self, batch: &mut Vec<TurnMessage>) -> Input {
        let deadline = self.interrupts.next_deadline().map(|at| self.until(at));
        let idle = self.is_idle().then(|| Instant::now() + self.shared.config().idle_unload);
        let drain = self.draining.as_ref().map(|drain| drain.until);
        let running = self.open.as_mut().and_then(|open| open.running.as_mut());
        let (messages, task) = running.map(|running| (&mut running.messages, &mut running.task)).unzip();
        tokio::select! {
            command = self.commands.recv() => Input::Command(command),
            count = receive(messages, batch) => match count {
                // The turn's end of the line is gone; its task says why.
                0 => Input::TaskEnded(match task { Some(task) => task.await, None => Ok(()) }),
                _ => Input::Messages(std::mem::take(batch)),
            },
            () = at(deadline) => Input::Deadline,
            () = at(drain) => Input::DrainDue,
            () = at(idle) => Input::Idle,
        }
    }

    async fn command(&mut self, command: Command) -> Result<Next, EngineError> {
        let admitted = Box::pin(self.admit(command.access)).await;
        (command.run)(admitted.map(|()| self)).await
    }
}

async fn receive(messages: Option<&mut mpsc::Receiver<TurnMessage>>, batch: &mut Vec<TurnMessage>) -> usize {
    match messages {
        Some(messages) => messages.recv_many(batch, BATCH).await,
        None => std::future::pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
