//! Which sessions are in memory: an actor that owns the map. It never waits for a session, so that one slow load
//! holds nobody else up.

pub(crate) mod closed;
pub(crate) mod gauges;
pub(crate) mod handle;
pub(crate) mod news;
pub(crate) mod orders;
pub(crate) mod shared;
pub(crate) mod siblings;
pub(crate) mod subscribers;
pub(crate) mod worktree;

use std::{collections::HashMap, sync::Arc, time::Duration};

use agentd_core::ids::SessionId;
use futures_util::future::join_all;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::session::{
    SessionHandle,
    actor::run,
    registry::{
        orders::HoldMark,
        shared::Shared,
        siblings::{Command, RegistryHandle, WeakRegistry},
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
                Command::Get(id, reply) => {
                    let _ = reply.send(self.get(id));
                }
                Command::Newborn(id, settings, reply) => {
                    self.sweep();
                    let (handle, task) = run::spawn_newborn(id, *settings, Arc::clone(&self.shared));
                    self.sessions.insert(id, (handle.clone(), task));
                    let _ = reply.send(handle);
                }
                Command::Live(id, reply) => {
                    let handle = self.sessions.get(&id).map(|(handle, _)| handle);
                    let _ = reply.send(handle.filter(|handle| !handle.is_gone()).cloned());
                }
                Command::Withhold(id, mark, reply) => {
                    let _ = reply.send(self.withhold(id, mark));
                }
                Command::Drain(deadline, reply) => {
                    self.commands.close();
                    self.drain(deadline).await;
                    let _ = reply.send(());
                    return;
                }
            }
        }
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
