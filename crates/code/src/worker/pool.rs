//! Daemon side: one worker per folder, which all callers share and which ends when idle. Each folder has a task that
//! starts the worker, forwards questions, and handles crashes.

use std::{
    collections::HashMap,
    fmt, io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use agentd_core::{
    code::{CodeIndexState, CodeProgress, CodeQuestion, CodeReply},
    embedding::group_name,
    error::{CodeError, ErrorKind},
    ports::{CodeReader, Models, OnCodeProgress},
};
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{mpsc, oneshot},
    time::{Duration, Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    WORKER_ARGUMENT,
    frame::{self, Job, Request, Response, restrict, sanitised_line},
};
use crate::walk::outer_rules;

/// Maximum number of queued questions per folder.
const MAX_WAITING: usize = 64;

/// Settings of the workers.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Program that calls [`run_worker`](super::run_worker) if its first argument is [`WORKER_ARGUMENT`].
    pub program: PathBuf,
    /// Idle time after which a worker ends.
    pub idle: Duration,
    /// Maximum time between two messages from a worker while it answers.
    pub silence_timeout: Duration,
    /// Maximum number of concurrent workers. At the limit, the least recently used worker is ended to start another.
    pub workers: usize,
    /// Limit on the address space of a worker in bytes, including the binary.
    pub memory: u64,
}

impl PoolConfig {
    /// Creates the default settings: ten minutes of idle time and four workers.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            idle: Duration::from_secs(600),
            silence_timeout: Duration::from_secs(60),
            workers: 4,
            memory: 2 << 30,
        }
    }
}

/// Answers questions about code with one worker per folder. Starts no process before the first question.
pub struct CodePool {
    config: PoolConfig,
    folders: Mutex<HashMap<PathBuf, OpenFolder>>,
    models: Option<Arc<dyn Models>>,
}

#[derive(Debug)]
struct OpenFolder {
    code_jobs: mpsc::Sender<CodeJob>,
    last_used: Instant,
}

impl CodePool {
    /// Creates a pool without workers.
    pub fn new(config: PoolConfig) -> Self {
        Self { config, folders: Mutex::default(), models: None }
    }

    /// Also finds code by meaning, with the embeddings of these models.
    pub fn with_embeddings(self, models: Arc<dyn Models>) -> Self {
        Self { models: Some(models), ..self }
    }

    /// Adds the chunks that are similar to the query of a search. Returns a note for the answer.
    async fn add_similar(&self, folder: &Path, question: &mut CodeQuestion) -> Option<String> {
        let CodeQuestion::Search { query, similar, .. } = question else { return None };
        // A single word is mostly the name of a symbol.
        let is_name = query.is_ascii() && !query.trim().contains(char::is_whitespace);
        let embeddings = self.models.as_ref()?.embeddings().filter(|it| !is_name && it.covers(folder))?;
        let (nearest, note) = embeddings.nearest(query, &[group_name("code", &folder.to_string_lossy())]).await;
        *similar = nearest.into_iter().map(|(_, digest)| digest).collect();
        note
    }

    /// Returns the queue of a folder's task, and starts the task if necessary.
    fn code_jobs(&self, folder: &PathBuf) -> mpsc::Sender<CodeJob> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|_, open| !open.code_jobs.is_closed());
        if let Some(open) = folders.get_mut(folder) {
            open.last_used = Instant::now();
            return open.code_jobs.clone();
        }
        while folders.len() >= self.config.workers.max(1) {
            let oldest = folders.iter().min_by_key(|(_, open)| open.last_used).map(|(folder, _)| folder.clone());
            // The task still answers its pending questions before it ends.
            let Some(_) = oldest.and_then(|oldest| folders.remove(&oldest)) else { break };
        }
        let (code_jobs, incoming) = mpsc::channel(MAX_WAITING);
        tokio::spawn(FolderProcess::new(folder.clone(), self.config.clone()).run(incoming));
        folders.insert(folder.clone(), OpenFolder { code_jobs: code_jobs.clone(), last_used: Instant::now() });
        code_jobs
    }

    async fn answer(
        &self,
        folder: PathBuf,
        question: CodeQuestion,
        progress: OnCodeProgress,
    ) -> Result<CodeReply, CodeError> {
        // An idle task may end before it receives the question.
        for _ in 0..2 {
            let (reply, answer) = oneshot::channel();
            let code_job = CodeJob { question: question.clone(), progress: Arc::downgrade(&progress), reply };
            match self.code_jobs(&folder).try_send(code_job) {
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return Err(CodeError::new(ErrorKind::Busy, "too many pending requests for this folder"));
                }
                Err(mpsc::error::TrySendError::Closed(_)) => continue,
                Ok(()) => {}
            }
            if let Ok(answer) = answer.await {
                return answer;
            }
        }
        Err(CodeError::new(ErrorKind::Internal, "the task that reads this folder ended"))
    }
}

impl CodeReader for CodePool {
    fn ask(
        &self,
        folder: PathBuf,
        mut question: CodeQuestion,
        progress: OnCodeProgress,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<CodeReply, CodeError>> {
        Box::pin(async move {
            let answer = async {
                let note = self.add_similar(&folder, &mut question).await;
                let reply = self.answer(folder, question, progress).await;
                reply.map(|reply| CodeReply { index: CodeIndexState { note, ..reply.index }, ..reply })
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(CodeError::new(ErrorKind::Conflict, "it was cancelled")),
                answer = answer => answer,
            }
        })
    }
}

impl fmt::Debug for CodePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodePool").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Maximum number of workers per question: one that crashes, one that announces its files, and one that skips the file
/// that caused the crash.
const ATTEMPTS: usize = 3;
/// Number of consecutive crashes after which the folder is disabled for [`CRASH_PAUSE`].
const MAX_CRASHES: u32 = 6;
/// Time for which a folder is disabled.
const CRASH_PAUSE: Duration = Duration::from_secs(300);
/// Time limit for one answer, including indexing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(900);
/// Minimum interval between forwarded progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of bytes read from a worker's standard error.
const STDERR_BYTES: u64 = 2048;

struct CodeJob {
    question: CodeQuestion,
    /// Weak, so that the callback is dropped with its caller.
    progress: Weak<dyn Fn(CodeProgress) + Send + Sync>,
    reply: oneshot::Sender<Result<CodeReply, CodeError>>,
}

#[derive(Debug)]
struct FolderProcess {
    folder: PathBuf,
    config: PoolConfig,
    worker: Option<Worker>,
    last_id: u64,
    /// Files on which a worker crashed.
    excluded: Vec<String>,
    /// Number of crashes since the last answer.
    crashes: u32,
    crashed_at: Option<Instant>,
}

/// Error while a worker answers a question.
enum AskError {
    /// The worker returned an error and continues.
    Refused(String),
    /// The worker crashed or must be killed. Contains the reason.
    Dead(String),
    /// The path leads to another folder, for which a new worker is needed.
    Replaced,
}

impl FolderProcess {
    fn new(folder: PathBuf, config: PoolConfig) -> Self {
        Self { folder, config, worker: None, last_id: 0, excluded: Vec::new(), crashes: 0, crashed_at: None }
    }

    /// Answers questions until the folder is idle or the queue is closed.
    async fn run(mut self, mut code_jobs: mpsc::Receiver<CodeJob>) {
        while let Ok(Some(code_job)) = timeout(self.config.idle, code_jobs.recv()).await {
            if code_job.reply.is_closed() {
                continue;
            }
            let answer = self.answer(&code_job).await;
            // The caller may have stopped waiting.
            let _ = code_job.reply.send(answer);
        }
        // Questions that are still queued are sent to a new task.
        code_jobs.close();
    }

    async fn answer(&mut self, code_job: &CodeJob) -> Result<CodeReply, CodeError> {
        if self.crashes >= MAX_CRASHES && self.crashed_at.is_some_and(|crashed_at| crashed_at.elapsed() < CRASH_PAUSE) {
            return Err(failed("its reader crashed repeatedly; paused for five minutes"));
        }
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            match self.send(code_job).await {
                Ok(reply) => {
                    self.crashes = 0;
                    return Ok(reply);
                }
                Err(AskError::Refused(why)) => return Err(failed(&why)),
                Err(AskError::Replaced) => {
                    self.worker = None;
                    "the folder was replaced repeatedly".clone_into(&mut last);
                }
                Err(AskError::Dead(why)) => {
                    tracing::warn!(folder = %self.folder.display(), why, "a code worker ended");
                    (self.crashes, self.crashed_at) = (self.crashes + 1, Some(Instant::now()));
                    // Excludes the file that the worker announced before the crash.
                    self.excluded.extend(self.worker.take().and_then(|worker| worker.reading));
                    last = why;
                }
            }
        }
        Err(failed(&last))
    }

    async fn send(&mut self, code_job: &CodeJob) -> Result<CodeReply, AskError> {
        self.last_id += 1;
        let request = Request { id: self.last_id, question: code_job.question.clone() };
        let request = frame::encode(&request).map_err(|error| AskError::Refused(error.to_string()))?;
        let (id, silence_timeout) = (self.last_id, self.config.silence_timeout);
        let worker = match &mut self.worker {
            Some(worker) => worker,
            None => {
                let started = Worker::start(&self.config, self.job());
                let started =
                    started.map_err(|error| AskError::Refused(format!("could not start its reader: {error}")));
                self.worker.insert(started?)
            }
        };
        let sent = timeout(silence_timeout, worker.questions.write_all(&request)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return Err(AskError::Dead(worker.exit_reason().await));
        }
        let started_at = Instant::now();
        let mut reported: Option<(Instant, usize)> = None;
        loop {
            if started_at.elapsed() > ANSWER_TIMEOUT {
                return Err(AskError::Dead(format!("its reader took longer than {} s", ANSWER_TIMEOUT.as_secs())));
            }
            match timeout(silence_timeout, worker.next_message()).await {
                Err(_) => {
                    return Err(AskError::Dead(format!("its reader sent nothing for {} s", silence_timeout.as_secs())));
                }
                Ok(Err(error)) => return Err(AskError::Dead(format!("invalid data from its reader: {error}"))),
                Ok(Ok(None)) => return Err(AskError::Dead(worker.exit_reason().await)),
                Ok(Ok(Some(Response::Reading(file)))) => worker.reading = Some(file),
                Ok(Ok(Some(Response::Progress(progress)))) => {
                    let should_report =
                        reported.is_none_or(|(at, done)| at.elapsed() >= PROGRESS_INTERVAL && progress.done > done);
                    if let Some(on_progress) = code_job.progress.upgrade().filter(|_| should_report) {
                        reported = Some((Instant::now(), progress.done));
                        on_progress(progress);
                    }
                }
                Ok(Ok(Some(Response::Reply(of, reply)))) if of == id => {
                    worker.reading = None;
                    return Ok(restrict(reply, &code_job.question));
                }
                Ok(Ok(Some(Response::Failed(of, why)))) if of == id => {
                    return Err(AskError::Refused(sanitised_line(&why)));
                }
                Ok(Ok(Some(Response::Replaced(of)))) if of == id => return Err(AskError::Replaced),
                Ok(Ok(Some(Response::Reply(..) | Response::Failed(..) | Response::Replaced(_)))) => {
                    return Err(AskError::Dead("unexpected answer from its reader".to_owned()));
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
            // The previous worker may have crashed on a file.
            is_careful: self.crashes > 0,
        }
    }
}

fn failed(why: &str) -> CodeError {
    CodeError::new(ErrorKind::Internal, format!("could not read the code of this folder: {why}"))
        .with_hint("grep, find_files and read_file still work")
}

/// Worker process of a folder. Dropping this value kills the process.
#[derive(Debug)]
struct Worker {
    child: Child,
    questions: ChildStdin,
    output: BufReader<ChildStdout>,
    /// File that the worker announced last.
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
        let (Some(questions), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("its streams could not be opened"));
        };
        Ok(Self { child, questions, output: BufReader::new(output), reading: None })
    }

    /// Reads the next message. Returns `None` at the end of the stream.
    async fn next_message(&mut self) -> io::Result<Option<Response>> {
        let mut length = [0; 4];
        match self.output.read_exact(&mut length).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut body = vec![0; agentd_confine::frame_length(length, frame::MAX_FRAME)?];
        self.output.read_exact(&mut body).await?;
        Ok(Some(serde_json::from_slice(&body)?))
    }

    /// Describes why the worker ended. Includes the last line of its standard error.
    async fn exit_reason(&mut self) -> String {
        const EXIT_GRACE: Duration = Duration::from_secs(2);
        let mut stderr_text = Vec::new();
        let stderr = self.child.stderr.take();
        let waiting = async {
            if let Some(stderr) = stderr {
                let _ = stderr.take(STDERR_BYTES).read_to_end(&mut stderr_text).await;
            }
            self.child.wait().await
        };
        let status = match timeout(EXIT_GRACE, waiting).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "still running".to_owned(),
        };
        let stderr_text = String::from_utf8_lossy(&stderr_text);
        let stderr_text = sanitised_line(stderr_text.lines().last().unwrap_or_default());
        if stderr_text.is_empty() {
            format!("its reader ended ({status})")
        } else {
            format!("its reader ended ({status}): {stderr_text}")
        }
    }
}
