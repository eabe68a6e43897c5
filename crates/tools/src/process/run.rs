//! Starts a command, reads what it writes, waits for it, and ends what it leaves behind.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::{
    capture::{Capture, Captured},
    environment::MARK,
    group::Group,
    strays,
};

/// How long a command has to tidy up after it was asked to end.
const TERM_GRACE: Duration = Duration::from_secs(1);

/// How long pipes are read on after the command has ended, while some child still holds them.
const PIPE_GRACE: Duration = Duration::from_millis(200);

/// A command for bash.
#[derive(Debug)]
pub(crate) struct Script {
    /// What bash is given.
    pub(crate) text: String,
    /// Where it starts: a folder that is open, so that no rename can change what is meant.
    pub(crate) folder: OwnedFd,
    /// All that it sees of the environment.
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// When it is ended.
    pub(crate) timeout: Duration,
    /// How many bytes of each stream are kept.
    pub(crate) output_cap: usize,
}

/// How a command came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// At the time limit.
    TimedOut,
    /// With the turn.
    Cancelled,
}

/// A command that has ended, with everything that it started.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    pub(crate) duration: Duration,
    /// How many processes it left running; they were killed.
    pub(crate) strays: usize,
}

/// Why it is waited for no longer.
enum Wait {
    Over(io::Result<ExitStatus>),
    TimedOut,
    Cancelled,
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be started. Dropping the future kills its process group.
pub(crate) async fn run(script: Script, cancel: &CancellationToken) -> io::Result<Finished> {
    let began = Instant::now();
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let (timeout, cap) = (script.timeout, script.output_cap);
    let mut child = spawn(script, &mark)?;
    let group = Group::led_by(&child);
    let (out_pipe, err_pipe) = (child.stdout.take(), child.stderr.take());
    let (mut stdout, mut stderr) = (Capture::new(cap), Capture::new(cap));
    let (ended, strays) = {
        let reading = async {
            tokio::join!(
                async {
                    if let Some(pipe) = out_pipe {
                        stdout.drain(pipe).await
                    }
                },
                async {
                    if let Some(pipe) = err_pipe {
                        stderr.drain(pipe).await
                    }
                },
            );
        };
        tokio::pin!(reading);
        let mut reading = Reading { pipes: reading, over: false };
        let wait = tokio::select! {
            status = reading.until(child.wait()) => Wait::Over(status),
            () = tokio::time::sleep(timeout) => Wait::TimedOut,
            () = cancel.cancelled() => Wait::Cancelled,
        };
        let ended = match wait {
            Wait::Over(status) => ended_by_itself(status?),
            Wait::TimedOut => {
                reading.until(end(&mut child, &group)).await;
                Ended::TimedOut
            }
            Wait::Cancelled => {
                reading.until(end(&mut child, &group)).await;
                Ended::Cancelled
            }
        };
        // What was written before the end is still in the pipes; children in the background may hold them open.
        reading.for_at_most(PIPE_GRACE).await;
        let strays = tokio::task::spawn_blocking(move || strays::kill(&mark)).await.unwrap_or_default();
        // Whoever hid the mark but stayed in the group ends too.
        group.kill();
        reading.for_at_most(PIPE_GRACE).await;
        (ended, strays)
    };
    Ok(Finished { ended, stdout: stdout.finish(), stderr: stderr.finish(), duration: began.elapsed(), strays })
}

/// Both pipes, read on while something else is waited for.
struct Reading<F> {
    pipes: F,
    over: bool,
}

impl<F: Future<Output = ()> + Unpin> Reading<F> {
    async fn until<T>(&mut self, waited_for: impl Future<Output = T>) -> T {
        tokio::pin!(waited_for);
        loop {
            tokio::select! {
                value = &mut waited_for => return value,
                () = &mut self.pipes, if !self.over => self.over = true,
            }
        }
    }

    async fn for_at_most(&mut self, limit: Duration) {
        if !self.over && tokio::time::timeout(limit, &mut self.pipes).await.is_ok() {
            self.over = true;
        }
    }
}

fn ended_by_itself(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::Signal(0),
    }
}

/// Asks the group to end, and kills it if it does not.
async fn end(child: &mut Child, group: &Group) {
    group.signal(Signal::SIGTERM);
    if tokio::time::timeout(TERM_GRACE, child.wait()).await.is_err() {
        group.signal(Signal::SIGKILL);
        // After SIGKILL only the kernel can delay the end, on a disk that does not answer; that is not waited for.
        let _ = tokio::time::timeout(TERM_GRACE, child.wait()).await;
    }
}

fn spawn(script: Script, mark: &str) -> io::Result<Child> {
    let mut command = Command::new("bash");
    command
        .args(["--noprofile", "--norc", "-c"])
        .arg(script.text)
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
#[allow(unsafe_code, reason = "code between fork and exec; the proof is below")]
fn in_own_session(command: &mut Command, folder: OwnedFd) {
    let prepare = move || {
        nix::unistd::setsid()?;
        nix::unistd::fchdir(&folder)?;
        Ok(())
    };
    // SAFETY: the closure runs in the forked child, where only async-signal-safe functions may be called. `setsid`
    // and `fchdir` are, and on failure an `io::Error` from a bare number is made without allocating. The folder is
    // owned by the closure, which the command keeps until it is dropped, so its descriptor is open at that time.
    unsafe {
        command.pre_exec(prepare);
    }
}
