//! The daemon's side: one worker a folder, shared by all who ask, ended when nobody does.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentd_core::{
    code::{CodeQuestion, CodeReply},
    error::{CodeError, ErrorKind},
    ports::{CodeReader, OnCodeProgress},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::process::{FolderProcess, Order};

/// Questions that wait for one folder.
const WAITING: usize = 64;

/// Settings of the workers.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Program that calls [`run_worker`](super::run_worker) when its first argument is
    /// [`WORKER_ARGUMENT`](super::WORKER_ARGUMENT).
    pub program: PathBuf,
    /// Time after the last question at which a worker ends.
    pub idle: Duration,
    /// Time without a word from a worker that was asked, after which it is given up.
    pub patience: Duration,
    /// Workers at the same time. For one more, the one ends that was asked longest ago.
    pub workers: usize,
    /// Bytes of address space of a worker, its program included.
    pub memory: u64,
}

impl PoolConfig {
    /// The defaults: ten minutes, four folders.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program, idle: Duration::from_secs(600), patience: Duration::from_secs(60), workers: 4, memory: 2 << 30 }
    }
}

/// Answers questions about code, by a worker for each folder. Nothing runs before the first question.
#[derive(Debug)]
pub struct CodePool {
    config: PoolConfig,
    folders: Mutex<HashMap<PathBuf, OpenFolder>>,
}

#[derive(Debug)]
struct OpenFolder {
    orders: mpsc::Sender<Order>,
    asked: Instant,
}

impl CodePool {
    /// A pool without workers.
    #[must_use]
    pub fn new(config: PoolConfig) -> Self {
        Self { config, folders: Mutex::default() }
    }

    /// The way to a folder's task, which is started where there is none.
    fn orders(&self, folder: &PathBuf) -> mpsc::Sender<Order> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|_, open| !open.orders.is_closed());
        if let Some(open) = folders.get_mut(folder) {
            open.asked = Instant::now();
            return open.orders.clone();
        }
        while folders.len() >= self.config.workers.max(1) {
            let oldest = folders.iter().min_by_key(|(_, open)| open.asked).map(|(folder, _)| folder.clone());
            // It answers what it was asked, and ends.
            let Some(_) = oldest.and_then(|oldest| folders.remove(&oldest)) else { break };
        }
        let (orders, incoming) = mpsc::channel(WAITING);
        tokio::spawn(FolderProcess::new(folder.clone(), self.config.clone()).run(incoming));
        folders.insert(folder.clone(), OpenFolder { orders: orders.clone(), asked: Instant::now() });
        orders
    }

    async fn answer(
        &self,
        folder: PathBuf,
        question: CodeQuestion,
        progress: OnCodeProgress,
    ) -> Result<CodeReply, CodeError> {
        // The task may end, because it was idle, while the question is on its way.
        for _ in 0..2 {
            let (reply, answer) = oneshot::channel();
            let order = Order { question: question.clone(), progress: Arc::downgrade(&progress), reply };
            match self.orders(&folder).try_send(order) {
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return Err(CodeError::new(ErrorKind::Busy, "too many questions about this folder wait already"));
                }
                Err(mpsc::error::TrySendError::Closed(_)) => continue,
                Ok(()) => {}
            }
            if let Ok(answer) = answer.await {
                return answer;
            }
        }
        Err(CodeError::new(ErrorKind::Internal, "the task of this folder ended"))
    }
}

impl CodeReader for CodePool {
    fn ask(
        &self,
        folder: PathBuf,
        question: CodeQuestion,
        progress: OnCodeProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<CodeReply, CodeError>> {
        async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(CodeError::new(ErrorKind::Conflict, "it was cancelled")),
                answer = self.answer(folder, question, progress) => answer,
            }
        }
        .boxed()
    }
}
