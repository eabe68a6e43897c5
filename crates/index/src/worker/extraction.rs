//! Daemon side: starts workers and validates everything that they send.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::{fs::FileExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdout, Command},
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{ReadingPass, WORKER_ARGUMENT, WorkerTurn};
use crate::{
    extract::clean,
    failure::{Failure, Limits, fail_if},
    frame::{FRAME_BYTES, Frame, Job, PRIVATE_BYTES, Piece, PrivateData, Tally, WantedParts},
    kind::Kind,
    recognition::{MEMORY, Recognition, RecognitionConfig},
};

/// Maximum number of bytes read from a worker's standard error.
const STDERR_BYTES: u64 = 4096;

/// Reads documents, each in a separate worker, with limited concurrency.
#[derive(Debug, Clone)]
pub struct Extractor {
    program: PathBuf,
    limits: Limits,
    recognition: Option<RecognitionConfig>,
    /// Permits for workers that read, limited because a worker may use much memory.
    reading: Arc<Semaphore>,
    /// Permits for workers that run OCR.
    recognising: Arc<Semaphore>,
}

/// Number of documents that are recognised concurrently. One document uses several processors.
const MAX_RECOGNITIONS: usize = 1;

impl Extractor {
    /// Creates an extractor without starting anything. `program` must call [`run_worker`](super::run_worker) if the
    /// first argument is [`WORKER_ARGUMENT`]. `/proc/self/exe` refers to the daemon's executable even after the file
    /// has been replaced. At most `at_once` workers read concurrently, and one more may run recognition.
    pub fn new(program: PathBuf, limits: Limits, at_once: usize) -> Self {
        let turns = |count: usize| Arc::new(Semaphore::new(count.max(1)));
        Self { program, limits, recognition: None, reading: turns(at_once), recognising: turns(MAX_RECOGNITIONS) }
    }

    /// Enables recognition of pages that are images.
    pub fn recognising(self, config: RecognitionConfig) -> Self {
        Self { recognition: Some(config), ..self }
    }

    /// Returns the current availability of recognition.
    pub fn recognition(&self) -> Recognition {
        self.recognition.as_ref().map(RecognitionConfig::now).unwrap_or_default()
    }

    /// Returns the limits on the cost of reading one document.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Waits for a turn and starts reading the requested parts of an open file. [`Extraction::next`] returns the
    /// results; dropping the extraction kills the worker.
    ///
    /// # Errors
    /// Fails if the file is not regular or is too large, if no worker can be started, or if cancelled.
    pub async fn extract(
        &self,
        file: File,
        wanted: impl Into<WantedParts>,
        cancel: CancellationToken,
    ) -> Result<Extraction, Failure> {
        let turn = self.turn(ReadingPass::Full, &cancel).await?;
        self.extract_in(turn, file, wanted.into(), cancel)
    }

    /// Waits until a worker for this pass may run.
    ///
    /// # Errors
    /// Fails if the wait is cancelled.
    pub async fn turn(&self, pass: ReadingPass, cancel: &CancellationToken) -> Result<WorkerTurn, Failure> {
        let (turns, recognition) = match (pass, self.recognition()) {
            (ReadingPass::Full, ready @ Recognition::Ready { .. }) => (&self.recognising, ready),
            (ReadingPass::Quick, Recognition::Ready { .. }) => (&self.reading, Recognition::Deferred),
            (_, missing) => (&self.reading, missing),
        };
        let permit = tokio::select! {
            permit = Arc::clone(turns).acquire_owned() => permit.map_err(|_| Failure::Cancelled)?,
            () = cancel.cancelled() => return Err(Failure::Cancelled),
        };
        Ok(WorkerTurn { recognition, _permit: permit })
    }

    /// Starts reading the requested parts of a document, in a turn obtained from [`turn`](Self::turn).
    ///
    /// # Errors
    /// Fails if the file is not regular or is too large, or if no worker can be started.
    pub fn extract_in(
        &self,
        turn: WorkerTurn,
        file: File,
        wanted: WantedParts,
        cancel: CancellationToken,
    ) -> Result<Extraction, Failure> {
        let metadata = file.metadata().map_err(|error| Failure::Worker(format!("it cannot be accessed: {error}")))?;
        fail_if(!metadata.is_file(), || Failure::Foreign { found: "it is not a regular file".to_owned() })?;
        fail_if(metadata.len() > self.limits.bytes_in, || Failure::too_large("its size", self.limits.bytes_in))?;
        let mut limits = self.limits;
        // Recognition takes longer and needs more memory.
        if let Some(budget) = turn.recognition.budget() {
            limits.time = limits.time.saturating_add(budget.time);
            limits.memory = limits.memory.saturating_add(MEMORY);
        }
        let mut child = self
            .start(file, wanted, limits, turn.recognition.clone())
            .map_err(|error| Failure::Worker(format!("could not start a worker: {error}")))?;
        let (Some(out), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Failure::Worker("its streams could not be opened".to_owned()));
        };
        Ok(Extraction {
            child,
            stderr,
            out: BufReader::with_capacity(64 * 1024, out),
            recognised: None,
            checks: Checks::default(),
            limits,
            deadline: Instant::now() + limits.time,
            cancel,
            is_over: false,
            _turn: turn,
        })
    }

    fn start(&self, file: File, wanted: WantedParts, limits: Limits, recognition: Recognition) -> io::Result<Child> {
        let private = wanted.inner.is_some() || wanted.password.is_some();
        let wanted = WantedParts { first: wanted.first.max(1), ..wanted };
        let stdin = if private {
            let password = wanted.password.as_ref().map(|password| password.reveal().to_owned());
            let private = PrivateData { password, inner: wanted.inner.clone() };
            Stdio::from(pipe_with_private_data(file, &private, self.limits.bytes_in)?)
        } else {
            // Another worker may have moved the position.
            (&file).rewind()?;
            Stdio::from(file)
        };
        let job = Job { wanted, limits, private, recognition };
        command(&self.program, WORKER_ARGUMENT, &job)?.envs(THREAD_LIMITS).stdin(stdin).stderr(Stdio::piped()).spawn()
    }
}

/// Builds the command that starts a program as a worker with this job.
pub(crate) fn command(program: &Path, argument: &str, job: &impl Serialize) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.arg(argument).arg(serde_json::to_string(job)?).env_clear().current_dir("/").stdout(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    Ok(command)
}

/// Environment of a worker. The worker itself starts the threads that it needs, and every idle thread or arena takes
/// address space.
const THREAD_LIMITS: [(&str, &str); 2] = [("RTEN_NUM_THREADS", "1"), ("MALLOC_ARENA_MAX", "4")];

/// Returns a pipe with the private data followed by the file. Arguments would be visible to other users. A thread fills
/// the pipe and ends when the reader closes the pipe.
fn pipe_with_private_data(file: File, private: &PrivateData, most: u64) -> io::Result<io::PipeReader> {
    let preface = agentd_confine::frame(&serde_json::to_vec(private)?, PRIVATE_BYTES)
        .map_err(|_| io::Error::other("the password or the path is too long"))?;
    let (reader, mut writer) = io::pipe()?;
    tokio::task::spawn_blocking(move || {
        let mut fill = || -> io::Result<()> {
            writer.write_all(&preface)?;
            let whole = CancellableReader { file: &file, position: 0, cancel: &CancellationToken::new() };
            io::copy(&mut whole.take(most.saturating_add(1)), &mut writer).map(drop)
        };
        // A worker that closes the pipe early has reported the reason.
        drop(fill());
    });
    Ok(reader)
}

/// Reader that starts at the beginning of a file, independent of the file's shared position, and fails once
/// cancelled.
pub(crate) struct CancellableReader<'a> {
    pub(crate) file: &'a File,
    pub(crate) position: u64,
    pub(crate) cancel: &'a CancellationToken,
}

impl io::Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        fail_if(self.cancel.is_cancelled(), || io::Error::other("cancelled"))?;
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

/// Document that is being read. Dropping the extraction kills the worker.
#[derive(Debug)]
pub struct Extraction {
    child: Child,
    stderr: ChildStderr,
    out: BufReader<ChildStdout>,
    recognised: Option<Kind>,
    checks: Checks,
    limits: Limits,
    deadline: Instant,
    cancel: CancellationToken,
    is_over: bool,
    /// Released when the extraction is dropped, after the worker has been killed.
    _turn: WorkerTurn,
}

impl Extraction {
    /// Returns the next piece: the head, the parts, then the end, or a failure at any point. Returns `None` after the
    /// end or a failure. Not cancel safe: if the future is dropped, a frame may be lost and the extraction must not be
    /// used further.
    pub async fn next(&mut self) -> Option<Result<Piece, Failure>> {
        if self.is_over {
            return None;
        }
        loop {
            let frame = tokio::select! {
                frame = timeout_at(self.deadline, read_frame(&mut self.out)) => frame,
                () = self.cancel.cancelled() => return self.fail(Failure::Cancelled),
            };
            return match frame {
                // Repeated frames are harmless: a worker that only sends such frames exceeds its deadline.
                Ok(Ok(Some(Frame::Recognised(kind)))) => {
                    self.recognised = Some(kind);
                    continue;
                }
                Err(_) => self.fail(Failure::TookTooLong { limit: self.limits.time, parts: 0 }),
                Ok(Err(reason)) => self.fail(Failure::Worker(reason)),
                Ok(Ok(None)) => {
                    let failure = self.exit_failure().await;
                    self.fail(failure)
                }
                Ok(Ok(Some(Frame::Failed(failure)))) => self.fail(clean::failure(failure)),
                Ok(Ok(Some(Frame::Piece(piece)))) => match self.checks.check(piece, &self.limits) {
                    Ok(piece) => {
                        self.is_over = matches!(piece, Piece::End { .. });
                        Some(Ok(piece))
                    }
                    Err(failure) => self.fail(failure),
                },
            };
        }
    }

    fn fail(&mut self, failure: Failure) -> Option<Result<Piece, Failure>> {
        self.is_over = true;
        self.kill();
        Some(Err(failure.after(self.checks.tally.parts)))
    }

    fn kill(&mut self) {
        // Only before waiting for the child: until then, its process ID and its group ID cannot be reused.
        let leader = self.child.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1);
        if let Some(leader) = leader {
            // A failure means that the group is already gone.
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
    }

    /// Determines why the worker ended without sending the end.
    async fn exit_failure(&mut self) -> Failure {
        let mut stderr_bytes = Vec::new();
        let mut stderr = (&mut self.stderr).take(STDERR_BYTES);
        // A worker that only closed its output gets a moment to exit.
        let waiting = async {
            let _ = stderr.read_to_end(&mut stderr_bytes).await;
            self.child.wait().await
        };
        const EXIT_GRACE: std::time::Duration = std::time::Duration::from_secs(2);
        match tokio::time::timeout(EXIT_GRACE, waiting).await {
            Ok(Ok(status)) => {
                let stderr = clean::text(&String::from_utf8_lossy(&stderr_bytes));
                classify_exit(status, &stderr, self.recognised, &self.limits)
            }
            Ok(Err(error)) => Failure::Worker(format!("its reader was lost: {error}")),
            Err(_) => Failure::Worker("its reader stopped sending but did not exit".to_owned()),
        }
    }
}

impl Drop for Extraction {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads one frame. Returns `None` at the end of the stream.
async fn read_frame(out: &mut BufReader<ChildStdout>) -> Result<Option<Frame>, String> {
    let invalid = |reason: String| format!("its reader returned invalid data: {reason}");
    let (mut length, mut frame) = ([0; 4], Vec::new());
    let read = async {
        out.read_exact(&mut length).await?;
        frame.resize(agentd_confine::frame_length(length, FRAME_BYTES)?, 0);
        out.read_exact(&mut frame).await
    };
    match read.await {
        Ok(_) => serde_json::from_slice(&frame).map(Some).map_err(|error| invalid(error.to_string())),
        Err(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(None),
            io::ErrorKind::InvalidData => Err(invalid(format!("a frame of {} bytes", u32::from_le_bytes(length)))),
            _ => Err(format!("could not receive data from its reader: {error}")),
        },
    }
}

/// Validates what a worker sends, regardless of the document type.
#[derive(Debug, Default)]
struct Checks {
    has_head: bool,
    tally: Tally,
}

impl Checks {
    fn check(&mut self, piece: Piece, limits: &Limits) -> Result<Piece, Failure> {
        let invalid = |reason: &str| Err(Failure::Worker(format!("its reader returned invalid data: {reason}")));
        match piece {
            Piece::Head(_) if std::mem::replace(&mut self.has_head, true) => invalid("a second head"),
            Piece::Head(head) => Ok(Piece::Head(clean::head(head))),
            Piece::Part(_) if !self.has_head => invalid("a part before the head"),
            Piece::Part(part) => {
                let part = clean::part(part);
                if !clean::is_valid(&part) {
                    return invalid("an invalid location");
                }
                self.tally.take(&part, limits)?;
                Ok(Piece::Part(part))
            }
            Piece::End { .. } if !self.has_head => invalid("an end before the head"),
            Piece::End { .. } => Ok(Piece::End { parts: self.tally.parts }),
        }
    }
}

/// Message of the Rust runtime before it aborts for lack of memory.
const OUT_OF_MEMORY: &str = "memory allocation of";
/// Message of the Rust runtime on a stack overflow.
const STACK_OVERFLOW: &str = "has overflowed its stack";

/// Derives a failure from the exit of a worker that reported none. `stderr` contains the start of its standard error.
fn classify_exit(status: ExitStatus, stderr: &str, kind: Option<Kind>, limits: &Limits) -> Failure {
    let broken = |reason: &str| match kind {
        Some(kind) => Failure::Broken { kind, parts: 0, why: reason.to_owned() },
        None => Failure::Worker(format!("its reader crashed: {reason}")),
    };
    if stderr.contains(OUT_OF_MEMORY) {
        return Failure::OutOfMemory { limit: limits.memory, parts: 0 };
    }
    if stderr.contains(STACK_OVERFLOW) {
        return broken("its content is nested too deeply");
    }
    match status.signal().map(Signal::try_from) {
        Some(Ok(Signal::SIGXCPU)) => Failure::TookTooLong { limit: limits.time, parts: 0 },
        // None of our limits causes this signal: an administrator, a service manager, or the out-of-memory killer does.
        Some(Ok(Signal::SIGKILL)) => Failure::Worker("its reader was killed by another program".to_owned()),
        Some(Ok(signal)) => broken(&format!("its reader crashed with {}", signal.as_str())),
        Some(Err(_)) => broken("its reader crashed"),
        None => {
            let last_line = stderr.lines().last().unwrap_or("no output").trim();
            Failure::Worker(format!("its reader ended without a result ({last_line})"))
        }
    }
}
