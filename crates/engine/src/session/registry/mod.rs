//! Actor that owns the map of sessions in memory. The actor never waits for a session, so that one slow load does not
//! block the others. Callers use `RegistryHandle`; sessions use `WeakRegistry`, which keeps nothing alive.
pub(crate) mod handle;
pub(crate) mod shared;
pub(crate) mod worktree;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use agentd_core::{ids::SessionId, session::SessionSettings};
use futures_util::future::join_all;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{EngineError, Result},
    session::{
        actor::{self, Actor, load},
        registry::{
            handle::{COMMAND_QUEUE, HoldMark, SessionHandle},
            shared::EngineState,
        },
    },
};

/// Capacity of the registry's command queue.
pub(crate) const QUEUE: usize = 256;
/// Minimum number of entries at which unloaded sessions are swept.
const SWEEP_AT: usize = 64;

pub(crate) struct Registry {
    shared: Arc<EngineState>,
    commands: mpsc::Receiver<Command>,
    sessions: HashMap<SessionId, (SessionHandle, JoinHandle<()>)>,
    sweep_at: usize,
}

impl Registry {
    /// Runs until the last handle is dropped or the registry is drained.
    async fn run(mut self) {
        while let Some(work) = self.commands.recv().await {
            work(&mut self);
            if self.commands.is_closed() {
                return;
            }
        }
    }

    fn new_session(&mut self, id: SessionId, settings: SessionSettings) -> SessionHandle {
        self.sweep();
        let shared = Arc::clone(&self.shared);
        let new_session = |commands| async move { Ok(load::new_session(id, settings, shared, commands)) };
        let (handle, task) = spawn_with(id, new_session);
        self.sessions.insert(id, (handle.clone(), task));
        handle
    }

    fn live(&self, id: SessionId) -> Option<SessionHandle> {
        self.sessions.get(&id).map(|(handle, _)| handle).filter(|handle| !handle.is_gone()).cloned()
    }

    fn get(&mut self, id: SessionId) -> SessionHandle {
        self.sweep();
        let predecessor = match self.sessions.remove(&id) {
            // A session that is being removed reports this itself.
            Some((handle, task)) if !handle.is_gone() || handle.is_withheld() => {
                self.sessions.insert(id, (handle.clone(), task));
                return handle;
            }
            Some((_, task)) => Some(task),
            None => None,
        };
        let shared = Arc::clone(&self.shared);
        let (handle, task) = spawn_with(id, |commands| async move {
            // Because there is one writer per session, wait until the previous actor has ended, even if it failed.
            if let Some(predecessor) = predecessor {
                let _ = predecessor.await;
            }
            load::load(id, shared, commands).await
        });
        self.sessions.insert(id, (handle.clone(), task));
        handle
    }

    fn withhold(&mut self, id: SessionId, mark: HoldMark) -> bool {
        let task = match self.sessions.remove(&id) {
            Some((handle, task)) if !handle.is_gone() || handle.is_withheld() => {
                self.sessions.insert(id, (handle, task));
                return false;
            }
            // The next load waits for the old task.
            Some((_, task)) => task,
            None => tokio::spawn(async {}),
        };
        self.sessions.insert(id, (SessionHandle::withheld(id, mark), task));
        true
    }

    /// Removes unloaded sessions from the map. Scans the map only after it has doubled, so that the amortised cost per
    /// request is constant.
    fn sweep(&mut self) {
        if self.sessions.len() >= self.sweep_at {
            self.sessions.retain(|_, (handle, task)| !task.is_finished() || handle.is_withheld());
            self.sweep_at = (2 * self.sessions.len()).max(SWEEP_AT);
        }
    }
}

type Command = Box<dyn FnOnce(&mut Registry) + Send>;

/// Spawns the actor that `actor` creates.
fn spawn_with<F: Future<Output = Result<Actor>> + Send + 'static>(
    id: SessionId,
    actor: impl FnOnce(mpsc::Receiver<actor::Command>) -> F,
) -> (SessionHandle, JoinHandle<()>) {
    let (sender, commands) = mpsc::channel(COMMAND_QUEUE);
    let end_error = Arc::new(OnceLock::new());
    let ended = CancellationToken::new();
    let handle = SessionHandle {
        id,
        commands: sender,
        end_error: Arc::clone(&end_error),
        hold: Arc::default(),
        ended: ended.clone(),
    };
    let actor = actor(commands);
    let task = tokio::spawn(async move {
        let _ended = ended.drop_guard();
        let ended = match actor.await {
            Ok(actor) => actor.run_to_end().await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::error!(session = %id, "the session was closed: {error}");
            let _ = end_error.set(error);
        }
    });
    (handle, task)
}

/// Cloneable handle of the registry.
#[derive(Clone)]
pub(crate) struct RegistryHandle(mpsc::Sender<Command>);

impl RegistryHandle {
    /// Spawns a registry that receives from `receiver`.
    pub(crate) fn spawn(
        commands: mpsc::Sender<Command>,
        receiver: mpsc::Receiver<Command>,
        shared: Arc<EngineState>,
    ) -> Self {
        tokio::spawn(Registry { shared, commands: receiver, sessions: HashMap::new(), sweep_at: SWEEP_AT }.run());
        Self(commands)
    }

    pub(crate) async fn get(&self, id: SessionId) -> Result<SessionHandle> {
        self.ask(move |registry| registry.get(id)).await
    }

    /// Creates a session that is not yet in the journal.
    pub(crate) async fn new_session(&self, id: SessionId, settings: SessionSettings) -> Result<SessionHandle> {
        self.ask(move |registry| registry.new_session(id, settings)).await
    }

    /// Returns the session if it is in memory.
    pub(crate) async fn live(&self, id: SessionId) -> Result<Option<SessionHandle>> {
        self.ask(move |registry| registry.live(id)).await
    }

    /// Blocks access to a session that is not in memory. Returns false, without an effect, if the session is in memory.
    pub(crate) async fn withhold(&self, id: SessionId, mark: HoldMark) -> Result<bool> {
        self.ask(move |registry| registry.withhold(id, mark)).await
    }

    async fn ask<T: Send + 'static>(&self, work: impl FnOnce(&mut Registry) -> T + Send + 'static) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move |registry: &mut Registry| drop(reply.send(work(registry))));
        self.0.send(work).await.map_err(|_| EngineError::stopping())?;
        answer.await.map_err(|_| EngineError::stopping())
    }

    /// Drains all sessions concurrently, and ends the registry.
    pub(crate) async fn drain(&self, deadline: Duration) {
        let sessions = self.ask(|registry| {
            registry.commands.close();
            std::mem::take(&mut registry.sessions)
        });
        let drained = sessions.await.unwrap_or_default().into_values().map(|(handle, task)| async move {
            // A session that has already ended needs no drain.
            let _ = handle.drain(deadline).await;
            let _ = task.await;
        });
        join_all(drained).await;
    }
}

/// Weak handle through which sessions reach other sessions. A session must not keep alive the map that contains it.
#[derive(Clone)]
pub(crate) struct WeakRegistry(pub(crate) mpsc::WeakSender<Command>);

impl WeakRegistry {
    /// Upgrades to a strong handle.
    ///
    /// # Errors
    /// Fails if the daemon is stopping.
    pub(crate) fn registry(&self) -> Result<RegistryHandle> {
        self.0.upgrade().map(RegistryHandle).ok_or_else(EngineError::stopping)
    }
}
