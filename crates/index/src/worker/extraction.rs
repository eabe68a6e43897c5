//! The daemon's side: starts workers, and believes nothing that they say before it is checked.

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    os::unix::{fs::FileExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use agentd_core::knowledge::Password;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdout, Command},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    WORKER_ARGUMENT,
    turn::{ReadingPass, WorkerTurn, WorkerTurns},
};
use crate::{
    extract::{clean, too_large},
    failure::Failure,
    frame::{FRAME_BYTES, Frame, Job, PRIVATE_BYTES, Piece, Private, Summary, Window},
    kind::Kind,
    limits::Limits,
    recognition::{MEMORY, Recognition, RecognitionConfig},
};

/// Bytes that are read of a worker's standard error.
const STDERR_BYTES: u64 = 4096;

/// Reads documents, each in a worker of its own, a few at a time.
#[derive(Debug, Clone)]
pub struct Extractor {
    program: PathBuf,
    limits: Limits,
    recognition: Option<RecognitionConfig>,
    /// A worker may take much memory, so there are never more than this many.
    turns: WorkerTurns,
}

impl Extractor {
    /// An extractor. Nothing is started. `program` calls [`run_worker`](super::run_worker) when its first argument is
    /// [`WORKER_ARGUMENT`]; `/proc/self/exe` is the daemon's own even after its file was replaced. At most `at_once` workers
    /// read at a time; one more may recognise letters.
    pub fn new(program: PathBuf, limits: Limits, at_once: usize) -> Self {
        Self { program, limits, recognition: None, turns: WorkerTurns::new(at_once) }
    }

    /// The same, with recognition of pages that are pictures.
    #[must_use]
    pub fn recognising(self, config: RecognitionConfig) -> Self {
        Self { recognition: Some(config), ..self }
    }

    /// Recognition as it can be had now.
    pub fn recognition(&self) -> Recognition {
        self.recognition.as_ref().map(RecognitionConfig::now).unwrap_or_default()
    }

    /// Limits on the cost of reading one document.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Begins to read an open file, as soon as fewer than the allowed number are being read. `named` is what its name says:
    /// [`Kind::of_name`]. What is told is told by [`Extraction::next`]; dropping that ends the worker.
    ///
    /// # Errors
    /// When it is no regular file or too large, and when no worker can be started.
    pub async fn extract(
        &self,
        file: File,
        named: Option<Kind>,
        cancel: CancellationToken,
    ) -> Result<Extraction, Failure> {
        self.extract_wanted(file, WantedParts { named, ..WantedParts::default() }, cancel).await
    }

    /// The same for what is wanted of a document.
    ///
    /// # Errors
    /// When it is no regular file or too large, and when no worker can be started.
    pub async fn extract_wanted(
        &self,
        file: File,
        wanted: WantedParts,
        cancel: CancellationToken,
    ) -> Result<Extraction, Failure> {
        let turn = self.turn(ReadingPass::Full, &cancel).await?;
        self.extract_in(turn, file, wanted, cancel)
    }

    /// The next turn of this kind, as soon as fewer than the allowed number of workers run.
    ///
    /// # Errors
    /// When it was cancelled.
    pub async fn turn(&self, pass: ReadingPass, cancel: &CancellationToken) -> Result<WorkerTurn, Failure> {
        self.turns.next(pass, self.recognition(), cancel).await
    }

    /// Begins to read what is wanted of a document, in a turn that was waited for.
    ///
    /// # Errors
    /// When it is no regular file or too large, and when no worker can be started.
    pub fn extract_in(
        &self,
        turn: WorkerTurn,
        file: File,
        wanted: WantedParts,
        cancel: CancellationToken,
    ) -> Result<Extraction, Failure> {
        let metadata = file.metadata().map_err(|error| Failure::Worker(format!("it cannot be looked at: {error}")))?;
        if !metadata.is_file() {
            return Err(Failure::Foreign { found: "it is not a regular file".to_owned() });
        }
        if metadata.len() > self.limits.bytes_in {
            return Err(too_large("its size", self.limits.bytes_in));
        }
        let limits = with_recognition(self.limits, &turn.recognition);
        let child = self
            .start(file, wanted, limits, turn.recognition.clone())
            .map_err(|error| Failure::Worker(format!("no worker could be started: {error}")))?;
        Extraction::of(child, limits, cancel, turn)
    }

    fn start(&self, file: File, wanted: WantedParts, limits: Limits, recognition: Recognition) -> io::Result<Child> {
        let WantedParts { named, first, last, window, listing, inner, password } = wanted;
        let private = inner.is_some() || password.is_some();
        let job = Job { named, limits, first: first.max(1), last, window, listing, private, recognition };
        let stdin = if private {
            let password = password.map(|password| password.reveal().to_owned());
            Stdio::from(with_preface(file, &Private { password, inner }, self.limits.bytes_in)?)
        } else {
            // Another worker may have read it before.
            (&file).rewind()?;
            Stdio::from(file)
        };
        command(&self.program, WORKER_ARGUMENT, &job)?.envs(FEW_THREADS).stdin(stdin).stderr(Stdio::piped()).spawn()
    }
}

/// The command that starts a program as a worker with this job.
pub(crate) fn command(program: &Path, argument: &str, job: &impl Serialize) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.arg(argument).arg(serde_json::to_string(job)?).env_clear().current_dir("/").stdout(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    Ok(command)
}

/// Settings of the libraries of a worker: it starts the threads that it needs, and each that lies idle takes address space.
const FEW_THREADS: [(&str, &str); 2] = [("RTEN_NUM_THREADS", "1"), ("MALLOC_ARENA_MAX", "4")];

/// Limits on reading with this recognition, which takes longer and needs more memory.
fn with_recognition(limits: Limits, recognition: &Recognition) -> Limits {
    match recognition.budget() {
        Some(budget) => {
            let time = limits.time.saturating_add(budget.time);
            Limits { time, memory: limits.memory.saturating_add(MEMORY), ..limits }
        }
        None => limits,
    }
}

/// Parts of a document that are wanted, and in which form.
#[derive(Debug, Clone, Default)]
pub struct WantedParts {
    /// Kind by its name: [`Kind::of_name`].
    pub named: Option<Kind>,
    /// The first page or sheet, counted from 1; 0 the same. Pages of a PDF before it are not read. Other documents are told
    /// from their beginning, as nothing but reading them tells where a part of them begins.
    pub first: u32,
    /// The last page of a PDF, counted from 1; all pages where it is not said.
    pub last: Option<u32>,
    /// Rows that are told; all of them where it is not said.
    pub window: Option<Window>,
    /// Set if of an archive only the names of its files are wanted.
    pub listing: bool,
    /// Path of the document in the archive that the file is.
    pub inner: Option<String>,
    /// The password that may open it.
    pub password: Option<Password>,
}

/// A pipe with what is private, and then the file: unlike arguments nobody else sees it. A thread fills it; it ends with
/// whoever reads.
fn with_preface(file: File, private: &Private, most: u64) -> io::Result<io::PipeReader> {
    let preface = serde_json::to_vec(private)?;
    let length = u32::try_from(preface.len()).ok().filter(|length| *length <= PRIVATE_BYTES);
    let length = length.ok_or_else(|| io::Error::other("the password or the path is too long"))?;
    let (reader, mut writer) = io::pipe()?;
    tokio::task::spawn_blocking(move || {
        let mut fill = || -> io::Result<()> {
            writer.write_all(&length.to_le_bytes())?;
            writer.write_all(&preface)?;
            // From its beginning, wherever others read it.
            let mut buffer = vec![0; 64 * 1024];
            let mut at = 0;
            while at <= most {
                let read = file.read_at(&mut buffer, at)?;
                if read == 0 {
                    break;
                }
                writer.write_all(buffer.get(..read).unwrap_or_default())?;
                at += read as u64;
            }
            Ok(())
        };
        // A worker that reads no more has said why.
        drop(fill());
    });
    Ok(reader)
}

/// A document that is being read. Dropping it ends the worker.
#[derive(Debug)]
pub struct Extraction {
    worker: Worker,
    out: BufReader<ChildStdout>,
    recognised: Option<Kind>,
    checks: Checks,
    limits: Limits,
    deadline: Instant,
    cancel: CancellationToken,
    is_over: bool,
    /// Given back when this is dropped, after the worker was killed.
    _turn: WorkerTurn,
}

impl Extraction {
    fn of(mut child: Child, limits: Limits, cancel: CancellationToken, turn: WorkerTurn) -> Result<Self, Failure> {
        let (Some(out), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Failure::Worker("its streams could not be opened".to_owned()));
        };
        Ok(Self {
            worker: Worker { child, stderr },
            out: BufReader::with_capacity(64 * 1024, out),
            recognised: None,
            checks: Checks::new(&limits),
            limits,
            deadline: Instant::now() + limits.time,
            cancel,
            is_over: false,
            _turn: turn,
        })
    }

    /// Next piece: the head, the parts, the end; or, at any point, the reason why there is no more. Nothing comes after
    /// the end or a failure. A piece that is abandoned half-way is lost: the extraction is of no more use then.
    pub async fn next(&mut self) -> Option<Result<Piece, Failure>> {
        if self.is_over {
            return None;
        }
        let frame = loop {
            let frame = tokio::select! {
                frame = timeout_at(self.deadline, read_frame(&mut self.out)) => frame,
                () = self.cancel.cancelled() => return self.fail(Failure::Cancelled),
            };
            match frame {
                // One is all that it takes to know; a worker that goes on saying it runs into its deadline.
                Ok(Ok(Some(Frame::Recognised(kind)))) => self.recognised = Some(kind),
                frame => break frame,
            }
        };
        match frame {
            Ok(Ok(Some(Frame::Recognised(_)))) => None,
            Err(_) => self.fail(Failure::TookTooLong { limit: self.limits.time, parts: 0 }),
            Ok(Err(why)) => self.fail(Failure::Worker(why)),
            Ok(Ok(None)) => {
                let failure = self.worker.autopsy(self.recognised, &self.limits).await;
                self.fail(failure)
            }
            Ok(Ok(Some(Frame::Failed(failure)))) => self.fail(clean::failure(failure)),
            Ok(Ok(Some(Frame::Piece(piece)))) => match self.checks.check(piece) {
                Ok(piece) => {
                    self.is_over = matches!(piece, Piece::End(_));
                    Some(Ok(piece))
                }
                Err(failure) => self.fail(failure),
            },
        }
    }

    fn fail(&mut self, failure: Failure) -> Option<Result<Piece, Failure>> {
        self.is_over = true;
        self.worker.kill();
        Some(Err(failure.after(self.checks.parts)))
    }
}

/// The process, and what it says to people.
#[derive(Debug)]
struct Worker {
    child: Child,
    stderr: ChildStderr,
}

impl Worker {
    fn kill(&mut self) {
        // Only while it was not waited for: then its number, and so its group's, is still its own.
        let leader = self.child.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1);
        if let Some(leader) = leader {
            // There is nobody left to kill if it fails.
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
    }

    /// Why it stopped telling without having told the end.
    async fn autopsy(&mut self, kind: Option<Kind>, limits: &Limits) -> Failure {
        let mut said = Vec::new();
        let mut stderr = (&mut self.stderr).take(STDERR_BYTES);
        // A worker that only closed its stream is given a moment to end, and then ended.
        let waiting = async {
            let _ = stderr.read_to_end(&mut said).await;
            self.child.wait().await
        };
        const MOMENT: std::time::Duration = std::time::Duration::from_secs(2);
        match tokio::time::timeout(MOMENT, waiting).await {
            Ok(Ok(status)) => examine(status, &clean::text(&String::from_utf8_lossy(&said)), kind, limits),
            Ok(Err(error)) => Failure::Worker(format!("its reader was lost: {error}")),
            Err(_) => Failure::Worker("its reader stopped telling and did not end".to_owned()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One frame; none where there are no more.
async fn read_frame(out: &mut BufReader<ChildStdout>) -> Result<Option<Frame>, String> {
    let nonsense = |why: String| format!("its reader returned invalid data: {why}");
    let mut length = [0; 4];
    match out.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(format!("its reader could not be heard: {error}")),
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES {
        return Err(nonsense(format!("{length} bytes at once")));
    }
    let mut frame = vec![0; length];
    match out.read_exact(&mut frame).await {
        Ok(_) => serde_json::from_slice(&frame).map(Some).map_err(|error| nonsense(error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(format!("its reader could not be heard: {error}")),
    }
}

/// Checks that hold for any document, whatever its worker says.
#[derive(Debug)]
struct Checks {
    limits: Limits,
    kind: Option<Kind>,
    parts: u32,
    bytes_left: u64,
    last: Option<crate::DocumentPlace>,
}

impl Checks {
    fn new(limits: &Limits) -> Self {
        Self { limits: *limits, bytes_left: limits.bytes_out, kind: None, parts: 0, last: None }
    }

    fn check(&mut self, piece: Piece) -> Result<Piece, Failure> {
        let nonsense = |why: &str| Err(Failure::Worker(format!("its reader returned invalid data: {why}")));
        match piece {
            Piece::Head(head) => {
                if self.kind.replace(head.kind).is_some() {
                    return nonsense("two beginnings");
                }
                Ok(Piece::Head(clean::head(head)))
            }
            Piece::Part(part) => {
                if self.kind.is_none() {
                    return nonsense("a part before the beginning");
                }
                let part = clean::part(part);
                if !clean::is_sound(&part) {
                    return nonsense("a place that cannot be");
                }
                let is_new = self.last.as_ref().is_none_or(|last| !last.is_same(&part.place));
                if is_new && self.parts == self.limits.parts {
                    return Err(Failure::too_many_parts(self.limits.parts));
                }
                let too_large = || too_large("its text", self.limits.bytes_out);
                self.bytes_left = self.bytes_left.checked_sub(part.size()).ok_or_else(too_large)?;
                self.parts += u32::from(is_new);
                self.last = Some(part.place.clone());
                Ok(Piece::Part(part))
            }
            Piece::End(_) => {
                if self.kind.is_none() {
                    return nonsense("an end before the beginning");
                }
                Ok(Piece::End(Summary { parts: self.parts }))
            }
        }
    }
}

/// The runtime's words when it gets no more memory, before it ends the process.
const NO_MEMORY: &str = "memory allocation of";
/// The runtime's words when a stack is used up.
const NO_STACK: &str = "has overflowed its stack";

/// Why a worker ended that did not say why. `stderr` is the last of what it said to people.
fn examine(status: ExitStatus, stderr: &str, kind: Option<Kind>, limits: &Limits) -> Failure {
    let broken = |why: &str| match kind {
        Some(kind) => Failure::Broken { kind, parts: 0, why: why.to_owned() },
        None => Failure::Worker(format!("its reader crashed: {why}")),
    };
    if stderr.contains(NO_MEMORY) {
        return Failure::OutOfMemory { limit: limits.memory, parts: 0 };
    }
    if stderr.contains(NO_STACK) {
        return broken("what it holds is nested too deeply");
    }
    match status.signal().map(Signal::try_from) {
        Some(Ok(Signal::SIGXCPU)) => Failure::TookTooLong { limit: limits.time, parts: 0 },
        // No limit of its own ends it so: an administrator, a service manager, or a machine without memory.
        Some(Ok(Signal::SIGKILL)) => Failure::Worker("its reader was ended by another program".to_owned()),
        Some(Ok(signal)) => broken(&format!("its reader crashed with {}", signal.as_str())),
        Some(Err(_)) => broken("its reader crashed"),
        None => {
            let said = stderr.lines().last().unwrap_or("it said nothing").trim();
            Failure::Worker(format!("its reader ended without a word ({said})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_worker_is_told_in_words() {
        let limits = Limits::default();
        let signal = |number: i32| ExitStatus::from_raw(number);
        let cases = [
            (signal(6), "memory allocation of 99 bytes failed", "out_of_memory"),
            (signal(6), "thread 'extract' has overflowed its stack", "broken"),
            (signal(6), "", "broken"),
            (signal(11), "", "broken"),
            (signal(24), "", "took_too_long"),
            (signal(9), "", "worker"),
            (ExitStatus::from_raw(1 << 8), "no rights to give up", "worker"),
        ];
        for (status, stderr, code) in cases {
            let told = match examine(status, stderr, Some(Kind::Pdf), &limits) {
                Failure::OutOfMemory { .. } => "out_of_memory",
                Failure::Broken { .. } => "broken",
                Failure::TookTooLong { .. } => "took_too_long",
                Failure::Worker(_) => "worker",
                other => panic!("{other}"),
            };
            assert_eq!(told, code, "{status:?} {stderr}");
        }
    }
}
