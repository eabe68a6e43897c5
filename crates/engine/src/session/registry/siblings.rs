//! The way to sessions: the handle of the registry, and the same for sessions, which keeps nothing alive.

use std::time::Duration;

use agentd_core::{ids::SessionId, session::SessionSettings};
use tokio::sync::{mpsc, oneshot};

use crate::{
    error::EngineError,
    session::registry::{handle::SessionHandle, orders::HoldMark},
};

pub(crate) enum Command {
    Get(SessionId, oneshot::Sender<SessionHandle>),
    Newborn(SessionId, Box<SessionSettings>, oneshot::Sender<SessionHandle>),
    Live(SessionId, oneshot::Sender<Option<SessionHandle>>),
    Withhold(SessionId, HoldMark, oneshot::Sender<bool>),
    Drain(Duration, oneshot::Sender<()>),
}

/// The front of the registry.
#[derive(Clone)]
pub(crate) struct RegistryHandle {
    pub(crate) commands: mpsc::Sender<Command>,
}

impl RegistryHandle {
    pub(crate) async fn get(&self, id: SessionId) -> Result<SessionHandle, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Get(id, reply)).await.map_err(|_| EngineError::stopping())?;
        answer.await.map_err(|_| EngineError::stopping())
    }

    /// A session that is not in the journal yet.
    pub(crate) async fn newborn(&self, id: SessionId, settings: SessionSettings) -> Result<SessionHandle, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(Command::Newborn(id, Box::new(settings), reply))
            .await
            .map_err(|_| EngineError::stopping())?;
        answer.await.map_err(|_| EngineError::stopping())
    }

    /// The session, if it is in memory.
    pub(crate) async fn live(&self, id: SessionId) -> Result<Option<SessionHandle>, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Live(id, reply)).await.map_err(|_| EngineError::stopping())?;
        answer.await.map_err(|_| EngineError::stopping())
    }

    /// Keeps a session that is not in memory from everybody else, and says whether it is not.
    pub(crate) async fn withhold(&self, id: SessionId, mark: HoldMark) -> Result<bool, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(Command::Withhold(id, mark, reply)).await.map_err(|_| EngineError::stopping())?;
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
pub(crate) struct WeakRegistry(pub(crate) mpsc::WeakSender<Command>);

impl WeakRegistry {
    /// The registry.
    ///
    /// # Errors
    /// When the daemon is stopping.
    pub(crate) fn registry(&self) -> Result<RegistryHandle, EngineError> {
        self.0.upgrade().map(|commands| RegistryHandle { commands }).ok_or_else(EngineError::stopping)
    }
}
