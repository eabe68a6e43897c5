//! Starts a command, reads its output, waits for it, and kills its remaining processes.
//!
//! In the sandbox, the keeper ends a command on a request over the control socket. Without a sandbox, the command is a
//! process group, and processes that left the group are searched for.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_core::{
    policy::Confinement,
    ports::{CallProgress, Workspace},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::AsyncRead,
    process::{Child, Command},
};
use tokio_util::sync::CancellationToken;

use super::capture::{Capture, CapturedOutput, OutputForm};
use crate::{
    config::Report,
    environment::MARK,
    host::{Isolation, Sandbox},
};

/// Time for a command to clean up after it was requested to end.
const TERM_GRACE: Duration = Duration::from_secs(1);

/// Time for which pipes are read after the command has ended, while a child still holds them open.
const PIPE_GRACE: Duration = Duration::from_millis(200);

/// A command to run.
#[derive(Debug)]
pub struct Script {
    /// Program and its arguments. A program without a slash is looked up in the `PATH` of the environment.
    pub command: Vec<OsString>,
    /// Working folder, passed as an open descriptor so that no rename can change it.
    pub folder: OwnedFd,
    /// Complete environment of the command.
    pub environment: BTreeMap<OsString, OsString>,
    /// Time limit after which the command is ended.
    pub timeout: Duration,
    /// Maximum number of captured bytes per stream.
    pub output_cap: usize,
    /// Form of the standard output. Standard error is always text.
    pub output: OutputForm,
    /// Limits on what the command may change. A read-only command does not run without a sandbox.
    pub confinement: Confinement,
    /// Paths that a guarded command cannot change.
    pub closed: Arc<[PathBuf]>,
    /// Receives the command's last lines while it runs.
    pub progress: CallProgress,
}

/// Returns the command line to run `text` with bash, without start-up files.
pub fn bash(text: String) -> Vec<OsString> {
    let mut command: Vec<OsString> = ["bash", "--noprofile", "--norc", "-c"].map(OsString::from).into();
    command.push(text.into());
    command
}

/// Reason why a command did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command could not be started.
    #[error("could not start the command: {0}")]
    Io(#[from] io::Error),
    /// The sandbox could not confine the command, and did not run it.
    #[error("the sandbox refused to run the command: {0}")]
    Refused(String),
}

/// Outcome of a command that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command exited with this code.
    Code(i32),
    /// The command was ended by a signal that agentd did not send.
    Signal(i32),
    /// The command was ended at its time limit.
    TimedOut,
    /// The command was ended because the turn was cancelled.
    Cancelled,
    /// The sandbox's helper was killed by another process, which ended the command.
    Lost,
}

/// Command that has ended, together with all processes that it started.
#[derive(Debug)]
pub struct FinishedCommand {
    /// Outcome of the command.
    pub ended: CommandEnd,
    /// Captured standard output of the command.
    pub stdout: CapturedOutput,
    /// Captured standard error of the command.
    pub stderr: CapturedOutput,
    /// Time from start to end of the command.
    pub duration: Duration,
    /// Number of processes that the command left running and that were killed.
    pub strays: usize,
}

/// Runs a command to its end, in the sandbox if there is one. Dropping the future kills the command and its children.
///
/// # Errors
/// Returns an error if the command cannot be started.
pub async fn run(
    script: Script,
    workspace: &Workspace,
    sandbox: Option<&Sandbox>,
    cancel: &CancellationToken,
) -> Result<FinishedCommand, RunError> {
    let Some(sandbox) = sandbox.filter(|sandbox| sandbox.is_on()) else {
        if script.confinement == Confinement::ReadOnly {
            let reason = "this system cannot make the command's folders read-only";
            return Err(RunError::Refused(reason.to_owned()));
        }
        return Ok(run_unconfined(script, cancel).await?);
    };
    let started = Instant::now();
    let Script { command, folder, environment, timeout, output_cap, output, confinement, closed, progress } = script;
    let isolation = Isolation { confinement, closed, ..Isolation::default() };
    let (mut child, mut guard) = sandbox.run(workspace, command, &environment, &folder, isolation).await?;
    let (out_pipe, err_pipe) = (child.stdout.take(), child.stderr.take());
    let (mut stdout, mut stderr) = (Capture::new(output_cap, progress.clone()), Capture::new(output_cap, progress));
    let (report, stopped) = {
        let mut pipe_reader = PipeReader::new(drain(&mut stdout, out_pipe), drain(&mut stderr, err_pipe));
        let (report, stopped) = match pipe_reader.wait(guard.report(), timeout, cancel).await {
            Ok(report) => (report, None),
            Err(stopped) => (pipe_reader.until(guard.end(TERM_GRACE)).await, Some(stopped)),
        };
        // All writers have closed the pipes, so the read ends once the remaining output has been read.
        pipe_reader.read_for(PIPE_GRACE).await;
        (report, stopped)
    };
    let (ended, strays) = match (report, stopped) {
        (Ok(Report::Failed(reason)), _) => return Err(RunError::Refused(reason)),
        (Ok(Report::Ended { strays, .. }), Some(stopped)) => (stopped, strays),
        (_, Some(stopped)) => (stopped, 0),
        (Ok(Report::Ended { code, signal, strays }), None) => {
            (code.map_or(CommandEnd::Signal(signal.unwrap_or_default()), CommandEnd::Code), strays)
        }
        (Ok(Report::Ready(_) | Report::Begun), None) => {
            return Err(RunError::Refused("no command".to_owned()));
        }
        (Err(_), None) if guard.has_begun => (CommandEnd::Lost, 0),
        (Err(error), None) => return Err(RunError::Refused(format!("its helper failed: {error}"))),
    };
    let (stdout, stderr) = (stdout.finish(output), stderr.finish(OutputForm::Text));
    Ok(FinishedCommand { ended, stdout, stderr, duration: started.elapsed(), strays })
}

/// Runs a command without a sandbox.
async fn run_unconfined(script: Script, cancel: &CancellationToken) -> io::Result<FinishedCommand> {
    let started = Instant::now();
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let (timeout, cap, output, progress) = (script.timeout, script.output_cap, script.output, script.progress.clone());
    let mut child = spawn(script, &mark)?;
    // The child has called `setsid`, so its process ID is that of its group.
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1).map(Pid::from_raw);
    let group = Group { leader };
    let (out_pipe, err_pipe) = (child.stdout.take(), child.stderr.take());
    let (mut stdout, mut stderr) = (Capture::new(cap, progress.clone()), Capture::new(cap, progress));
    let (ended, strays) = {
        let mut pipe_reader = PipeReader::new(drain(&mut stdout, out_pipe), drain(&mut stderr, err_pipe));
        let ended = match pipe_reader.wait(child.wait(), timeout, cancel).await {
            Ok(status) => {
                let status = status?;
                status.code().map_or_else(|| CommandEnd::Signal(status.signal().unwrap_or(0)), CommandEnd::Code)
            }
            Err(stopped) => {
                pipe_reader.until(end(&mut child, &group)).await;
                stopped
            }
        };
        // The pipes still contain output written before the end. Background children may keep them open.
        pipe_reader.read_for(PIPE_GRACE).await;
        let strays = tokio::task::spawn_blocking(move || kill_strays(&mark)).await.unwrap_or_default();
        // Processes that removed the mark but stayed in the group are also killed.
        group.kill();
        pipe_reader.read_for(PIPE_GRACE).await;
        (ended, strays)
    };
    let (stdout, stderr) = (stdout.finish(output), stderr.finish(OutputForm::Text));
    Ok(FinishedCommand { ended, stdout, stderr, duration: started.elapsed(), strays })
}

async fn drain(capture: &mut Capture, pipe: Option<impl AsyncRead + Unpin>) {
    if let Some(pipe) = pipe {
        capture.drain(pipe).await;
    }
}

/// Reads both pipes while waiting for another future.
struct PipeReader<'a> {
    pipes: BoxFuture<'a, ()>,
    is_done: bool,
}

impl<'a> PipeReader<'a> {
    fn new(stdout: impl Future<Output = ()> + Send + 'a, stderr: impl Future<Output = ()> + Send + 'a) -> Self {
        let pipes = async {
            tokio::join!(stdout, stderr);
        };
        Self { pipes: pipes.boxed(), is_done: false }
    }

    async fn wait<T>(
        &mut self,
        end: impl Future<Output = T>,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<T, CommandEnd> {
        tokio::select! {
            value = self.until(end) => Ok(value),
            () = tokio::time::sleep(limit) => Err(CommandEnd::TimedOut),
            () = cancel.cancelled() => Err(CommandEnd::Cancelled),
        }
    }

    async fn until<T>(&mut self, future: impl Future<Output = T>) -> T {
        tokio::pin!(future);
        loop {
            tokio::select! {
                value = &mut future => return value,
                () = &mut self.pipes, if !self.is_done => self.is_done = true,
            }
        }
    }

    async fn read_for(&mut self, limit: Duration) {
        if !self.is_done && tokio::time::timeout(limit, &mut self.pipes).await.is_ok() {
            self.is_done = true;
        }
    }
}

/// Requests the group to end, and kills it if it does not end in time.
async fn end(child: &mut Child, group: &Group) {
    group.signal(Signal::SIGTERM);
    if tokio::time::timeout(TERM_GRACE, child.wait()).await.is_err() {
        group.signal(Signal::SIGKILL);
        // After SIGKILL, only a hung disk can delay the end, so there is no further wait.
        let _ = tokio::time::timeout(TERM_GRACE, child.wait()).await;
    }
}

fn spawn(script: Script, mark: &str) -> io::Result<Child> {
    let (program, arguments) = script.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(script.environment)
        .env(MARK, mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    in_own_session(&mut command, script.folder);
    command.spawn()
}

/// Makes the command the leader of a new session, without a terminal, in this folder.
#[allow(unsafe_code, reason = "`pre_exec` runs code between fork and exec")]
fn in_own_session(command: &mut Command, folder: OwnedFd) {
    let prepare = move || {
        nix::unistd::setsid()?;
        nix::unistd::fchdir(&folder)?;
        Ok(())
    };
    // SAFETY: the closure runs in the forked child, where only async-signal-safe functions may be called. `setsid` and
    // `fchdir` are async-signal-safe, and on failure an `io::Error` is created from an error number, without
    // allocating. The closure owns the folder and lives as long as the command, so the descriptor is open at that time.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Process group that is killed when this guard is dropped, so that a dropped call leaves no process running.
///
/// The group's ID stays in use while the group has a member. Once the group is empty, its ID could be reused for an
/// unrelated session, but only after the kernel has used all other IDs. A signal shortly after the leader has ended
/// therefore only reaches members of this group.
#[derive(Debug)]
struct Group {
    leader: Option<Pid>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // An error means that the group has no members left.
            let _ = killpg(leader, signal);
        }
    }

    /// Kills the remaining members and disarms the guard.
    fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.leader = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// Kills all processes that have the mark, and returns the number of killed processes. Reads `/proc`, so it may block.
fn kill_strays(mark: &str) -> usize {
    /// Maximum number of rounds. A process can fork during the search, but each round kills all processes that the last
    /// round found.
    const ROUNDS: usize = 20;
    /// Number of further rounds for processes without a visible environment. Most of them never had an environment.
    const EXTRA_ROUNDS: usize = 3;
    let mark = format!("{}={mark}", MARK);
    let mut killed = std::collections::BTreeSet::new();
    for round in 0..ROUNDS {
        let scan = scan_processes(mark.as_bytes());
        if scan.carriers.is_empty() && (!scan.undecided || round >= EXTRA_ROUNDS) {
            break;
        }
        for process in scan.carriers {
            killed.insert(process);
            // The process may have ended on its own.
            let _ = nix::sys::signal::kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        // Dying processes retain their mark briefly.
        std::thread::sleep(std::time::Duration::from_millis(1 + round as u64));
    }
    killed.len()
}

/// Result of one scan of all processes.
#[derive(Default)]
struct ProcessScan {
    carriers: Vec<i32>,
    /// True if the environment of a process is empty: it has none, or it is in the middle of an exec.
    undecided: bool,
}

fn scan_processes(mark: &[u8]) -> ProcessScan {
    let mut scan = ProcessScan::default();
    let Ok(processes) = std::fs::read_dir("/proc") else { return scan };
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    for process in processes.filter_map(|process| process.ok()?.file_name().to_str()?.parse::<i32>().ok()) {
        if process <= 1 || process == own {
            continue;
        }
        // Processes of other users cannot be read.
        let Ok(environment) = std::fs::read(format!("/proc/{process}/environ")) else { continue };
        if environment.is_empty() {
            // Kernel threads and processes that have ended have no executable either.
            scan.undecided |= std::fs::read_link(format!("/proc/{process}/exe")).is_ok();
        } else if environment.split(|byte| *byte == 0).any(|variable| variable == mark) {
            scan.carriers.push(process);
        }
    }
    scan
}
