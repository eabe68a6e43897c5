//! The daemon's side: one worker a folder, shared by all who ask, ended when nobody does. A task for each folder starts its worker, asks,
//! and learns from how one ended.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use agentd_core::{
    code::{CodeProgress, CodeQuestion, CodeReply},
    error::{CodeError, ErrorKind},
    ports::{CodeReader, OnCodeProgress},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{mpsc, oneshot},
    time::{Duration, Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    WORKER_ARGUMENT,
    frame::{self, Job, Request, Response, checked, plain},
};
use crate::walk::outer_rules;

/// Questions that wait for one folder.
const WAITING: usize = 64;

/// Settings of the workers.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Program that calls [`run_worker`](super::run_worker) when its first argument is
    /// [`WORKER_ARGUMENT`].
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

/// Workers that one question may cost: one that dies, one that tells of what, and one that leaves it out.
const ATTEMPTS: usize = 3;
/// Workers that died one after the other, after which the folder is left alone for a while.
const MAX_DEATHS: u32 = 6;
/// Time for which it is left alone.
const REST: Duration = Duration::from_secs(300);
/// Time limit for one answer, the making of the index included.
const LONGEST: Duration = Duration::from_secs(900);
/// Pause between words about progress that are passed on.
const PROGRESS: Duration = Duration::from_millis(200);
/// Bytes that are read of a worker's standard error.
const STDERR_BYTES: u64 = 2048;

/// Question on its way to a worker.
struct Order {
    question: CodeQuestion,
    /// Gone with whoever asked.
    progress: Weak<dyn Fn(CodeProgress) + Send + Sync>,
    reply: oneshot::Sender<Result<CodeReply, CodeError>>,
}

/// Task of one folder.
#[derive(Debug)]
struct FolderProcess {
    folder: PathBuf,
    config: PoolConfig,
    worker: Option<Worker>,
    last_id: u64,
    /// Files that a worker died of.
    excluded: Vec<String>,
    /// Workers that died since the last answer.
    deaths: u32,
    died: Option<Instant>,
}

/// Reason why there is no answer.
enum Trouble {
    /// The worker said so, and lives.
    Refused(String),
    /// The worker is gone, or has to go.
    Dead(String),
    /// Another folder is at the path, for another worker.
    Replaced,
}

impl FolderProcess {
    fn new(folder: PathBuf, config: PoolConfig) -> Self {
        Self { folder, config, worker: None, last_id: 0, excluded: Vec::new(), deaths: 0, died: None }
    }

    /// Answers until nobody asks for a while, or nobody can any more.
    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        while let Ok(Some(order)) = timeout(self.config.idle, orders.recv()).await {
            if order.reply.is_closed() {
                continue;
            }
            let answer = self.answer(&order).await;
            // Who asked may be gone.
            let _ = order.reply.send(answer);
        }
        // What is on its way is asked again elsewhere.
        orders.close();
    }

    async fn answer(&mut self, order: &Order) -> Result<CodeReply, CodeError> {
        if self.deaths >= MAX_DEATHS && self.died.is_some_and(|died| died.elapsed() < REST) {
            return Err(broken("its reader ended again and again, and is left alone for five minutes"));
        }
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match self.ask(order).await {
                Ok(reply) => {
                    self.deaths = 0;
                    return Ok(reply);
                }
                Err(Trouble::Refused(why)) => return Err(broken(&why)),
                Err(Trouble::Replaced) => {
                    self.worker = None;
                    "the folder was replaced again and again".clone_into(&mut last);
                }
                Err(Trouble::Dead(why)) => {
                    tracing::warn!(folder = %self.folder.display(), why, "a reader of code ended");
                    (self.deaths, self.died) = (self.deaths + 1, Some(Instant::now()));
                    // What the worker was at, where it told.
                    self.excluded.extend(self.worker.take().and_then(|worker| worker.reading));
                    last = why;
                }
            }
        }
        Err(broken(&last))
    }

    async fn ask(&mut self, order: &Order) -> Result<CodeReply, Trouble> {
        self.last_id += 1;
        let request = Request { id: self.last_id, question: order.question.clone() };
        let request = frame::encode(&request).map_err(|error| Trouble::Refused(error.to_string()))?;
        let (id, patience) = (self.last_id, self.config.patience);
        let worker = match &mut self.worker {
            Some(worker) => worker,
            None => {
                let started = Worker::start(&self.config, self.job());
                let started = started.map_err(|error| Trouble::Refused(format!("no reader could be started: {error}")));
                self.worker.insert(started?)
            }
        };
        let asked = timeout(patience, worker.questions.write_all(&request)).await;
        if !matches!(asked, Ok(Ok(()))) {
            return Err(Trouble::Dead(worker.epitaph().await));
        }
        let begun = Instant::now();
        let mut told: Option<(Instant, usize)> = None;
        loop {
            if begun.elapsed() > LONGEST {
                return Err(Trouble::Dead(format!("its reader took more than {} s", LONGEST.as_secs())));
            }
            match timeout(patience, worker.word()).await {
                Err(_) => return Err(Trouble::Dead(format!("its reader was silent for {} s", patience.as_secs()))),
                Ok(Err(error)) => return Err(Trouble::Dead(format!("its reader made no sense: {error}"))),
                Ok(Ok(None)) => return Err(Trouble::Dead(worker.epitaph().await)),
                Ok(Ok(Some(Response::Reading(file)))) => worker.reading = Some(file),
                Ok(Ok(Some(Response::Progress(progress)))) => {
                    let is_news = told.is_none_or(|(at, done)| at.elapsed() >= PROGRESS && progress.done > done);
                    if let Some(tell) = order.progress.upgrade().filter(|_| is_news) {
                        told = Some((Instant::now(), progress.done));
                        tell(progress);
                    }
                }
                Ok(Ok(Some(Response::Reply(of, reply)))) if of == id => {
                    worker.reading = None;
                    return Ok(checked(reply, &order.question));
                }
                Ok(Ok(Some(Response::Failed(of, why)))) if of == id => return Err(Trouble::Refused(plain(&why))),
                Ok(Ok(Some(Response::Replaced(of)))) if of == id => return Err(Trouble::Replaced),
                Ok(Ok(Some(Response::Reply(..) | Response::Failed(..) | Response::Replaced(_)))) => {
                    return Err(Trouble::Dead("its reader answered what was not asked".to_owned()));
                }
            }
        }
    }

    fn job(&self) -> Job {
        Job {
            root: self.folder.clone(),
            memory: self.config.memory,
            excluded: self.excluded.clone(),
            outer: outer_rules(&self.folder),
            // One that died may have died of a file.
            is_careful: self.deaths > 0,
        }
    }
}

fn broken(why: &str) -> CodeError {
    CodeError::new(ErrorKind::Internal, format!("the code of this folder could not be looked at: {why}"))
        .with_hint("grep, find_files and read_file work without it")
}

/// Process of a folder. Dropping it ends the process.
#[derive(Debug)]
struct Worker {
    child: Child,
    questions: ChildStdin,
    words: BufReader<ChildStdout>,
    /// File that it reads, where it tells.
    reading: Option<String>,
}

impl Worker {
    fn start(config: &PoolConfig, job: Job) -> io::Result<Self> {
        let mut child = Command::new(&config.program)
            .arg(WORKER_ARGUMENT)
            .arg(serde_json::to_string(&job)?)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(questions), Some(words)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("its streams could not be opened"));
        };
        Ok(Self { child, questions, words: BufReader::new(words), reading: None })
    }

    /// The next word; none at the end.
    async fn word(&mut self) -> io::Result<Option<Response>> {
        let mut length = [0; 4];
        match self.words.read_exact(&mut length).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut body = vec![0; agentd_confine::frame_length(length, frame::MAX_FRAME)?];
        self.words.read_exact(&mut body).await?;
        Ok(Some(serde_json::from_slice(&body)?))
    }

    /// The reason why it ended, as far as it is known.
    async fn epitaph(&mut self) -> String {
        const MOMENT: Duration = Duration::from_secs(2);
        let mut said = Vec::new();
        let stderr = self.child.stderr.take();
        let waiting = async {
            if let Some(stderr) = stderr {
                let _ = stderr.take(STDERR_BYTES).read_to_end(&mut said).await;
            }
            self.child.wait().await
        };
        let status = match timeout(MOMENT, waiting).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not end".to_owned(),
        };
        let said = String::from_utf8_lossy(&said);
        let said = plain(said.lines().last().unwrap_or_default());
        if said.is_empty() {
            format!("its reader ended ({status})")
        } else {
            format!("its reader ended ({status}): {said}")
        }
    }
}
