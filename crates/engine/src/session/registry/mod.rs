//! Which sessions are in memory: an actor that owns the map. It never waits for a session, so that one slow load
//! holds nobody else up. The way to sessions is its handle, and the same for sessions, which keeps nothing alive.

pub(crate) mod activity;
pub(crate) mod handle;
pub(crate) mod orders;
pub(crate) mod shared;
pub(crate) mod worktree;

use std::{collections::HashMap, sync::Arc, time::Duration};

use agentd_core::{ids::SessionId, session::SessionSettings};
use futures_util::future::join_all;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    error::EngineError,
    session::{
        actor::run,
        registry::{handle::SessionHandle, orders::HoldMark, shared::Shared},
    },
};

/// Requests that wait for the registry at the most.
const QUEUE: usize = 256;
/// Entries after which those of unloaded sessions are looked for and forgotten.
const SWEEP_AT: usize = 64;

/// Channel halves of a registry that is not running yet.
pub(crate) struct RegistryBuilder {
    sender: mpsc::Sender<Command>,
    commands: mpsc::Receiver<Command>,
}

impl RegistryBuilder {
    pub(crate) fn new() -> Self {
        let (sender, commands) = mpsc::channel(QUEUE);
        Self { sender, commands }
    }

    pub(crate) fn siblings(&self) -> WeakRegistry {
        WeakRegistry(self.sender.downgrade())
    }

    pub(crate) fn spawn(self, shared: Arc<Shared>) -> RegistryHandle {
        let Self { sender, commands } = self;
        tokio::spawn(Registry { shared, commands, sessions: HashMap::new(), sweep_at: SWEEP_AT }.run());
        RegistryHandle { commands: sender }
    }
}

struct Registry {
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    sessions: HashMap<SessionId, (SessionHandle, JoinHandle<()>)>,
    sweep_at: usize,
}

impl Registry {
    async fn run(mut self) {
        while let Some(command) = self.commands.recv().await {
            match command {
                Command::Run(work) => work(&mut self),
                Command::Drain(deadline, reply) => {
                    self.commands.close();
                    self.drain(deadline).await;
                    let _ = reply.send(());
                    return;
                }
            }
        }
    }

    fn newborn(&mut self, id: SessionId, settings: SessionSettings) -> SessionHandle {
        self.sweep();
        let (handle, task) = run::spawn_newborn(id, settings, Arc::clone(&self.shared));
        self.sessions.insert(id, (handle.clone(), task));
        handle
    }

    fn live(&self, id: SessionId) -> Option<SessionHandle> {
        self.sessions.get(&id).map(|(handle, _)| handle).filter(|handle| !handle.is_gone()).cloned()
    }

    fn get(&mut self, id: SessionId) -> SessionHandle {
        self.sweep();
        let predecessor = match self.sessions.remove(&id) {
            // What is being removed answers that it is.
            Some((handle, task)) if !handle.is_gone() || handle.is_withheld() => {
                self.sessions.insert(id, (handle.clone(), task));
                return handle;
            }
            Some((_, task)) => Some(task),
            None => None,
        };
        let (handle, task) = run::spawn(id, Arc::clone(&self.shared), predecessor);
        self.sessions.insert(id, (handle.clone(), task));
        handle
    }

    fn withhold(&mut self, id: SessionId, mark: HoldMark) -> bool {
        let task = match self.sessions.remove(&id) {
            Some((handle, task)) if !handle.is_gone() || handle.is_withheld() => {
                self.sessions.insert(id, (handle, task));
                return false;
            }
            // Whoever loads it next waits for what is left of it.
            Some((_, task)) => task,
            None => tokio::spawn(async {}),
        };
        self.sessions.insert(id, (SessionHandle::withheld(id, mark), task));
        true
    }

    /// Forgets sessions that are unloaded. The map is looked through only after it has doubled, so that the cost
    /// of a request does not grow with it.
    fn sweep(&mut self) {
        if self.sessions.len() >= self.sweep_at {
            self.sessions.retain(|_, (handle, task)| !task.is_finished() || handle.is_withheld());
            self.sweep_at = (2 * self.sessions.len()).max(SWEEP_AT);
        }
    }

    async fn drain(&mut self, deadline: Duration) {
        let sessions = std::mem::take(&mut self.sessions);
        join_all(sessions.into_values().map(|(handle, task)| async move {
            // A session that is gone already has nothing to drain.
            let _ = handle.drain(deadline).await;
            let _ = task.await;
        }))
        .await;
    }
}

enum Command {
    Run(Box<dyn FnOnce(&mut Registry) + Send>),
    Drain(Duration, oneshot::Sender<()>),
}

/// The front of the registry.
#[derive(Clone)]
pub(crate) struct RegistryHandle {
    commands: mpsc::Sender<Command>,
}

impl RegistryHandle {
    pub(crate) async fn get(&self, id: SessionId) -> Result<SessionHandle, EngineError> {
        self.ask(move |registry| registry.get(id)).await
    }

    /// A session that is not in the journal yet.
    pub(crate) async fn newborn(&self, id: SessionId, settings: SessionSettings) -> Result<SessionHandle, EngineError> {
        self.ask(move |registry| registry.newborn(id, settings)).await
    }

    /// The session, if it is in memory.
    pub(crate) async fn live(&self, id: SessionId) -> Result<Option<SessionHandle>, EngineError> {
        self.ask(move |registry| registry.live(id)).await
    }

    /// Keeps a session that is not in memory from everybody else, and says whether it is not.
    pub(crate) async fn withhold(&self, id: SessionId, mark: HoldMark) -> Result<bool, EngineError> {
        self.ask(move |registry| registry.withhold(id, mark)).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Registry) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move |registry: &mut Registry| drop(reply.send(work(registry))));
        self.commands.send(Command::Run(work)).await.map_err(|_| EngineError::stopping())?;
        answer.await.map_err(|_| EngineError::stopping())
    }

    /// Drains all sessions at once; afterwards the registry is gone.
    pub(crate) async fn drain(&self, deadline: Duration) {
        let (reply, done) = oneshot::channel();
        if self.commands.send(Command::Drain(deadline, reply)).await.is_ok() {
            let _ = done.await;
        }
    }
}

/// The way of sessions to other sessions. It keeps nothing alive: a session must not hold the map that holds it.
#[derive(Clone)]
pub(crate) struct WeakRegistry(mpsc::WeakSender<Command>);

impl WeakRegistry {
    /// The registry.
    ///
    /// # Errors
    /// When the daemon is stopping.
    pub(crate) fn registry(&self) -> Result<RegistryHandle, EngineError> {
        self.0.upgrade().map(|commands| RegistryHandle { commands }).ok_or_else(EngineError::stopping)
    }
}
