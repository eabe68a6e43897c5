//! A server that is a program of this machine: started behind a [guard](crate::guard), in a clean environment.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
};

use crate::{config::ConfigText, guard::GUARD_ARGUMENT, log::Log};

/// Time for a server to end after its input has ended, before its guard is told that it has to. The guard itself tells
/// it sooner.
const ENDING: Duration = Duration::from_secs(3);
/// Time limit for its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Time limit for the guard to clean up. It takes less unless a disk does not answer.
const CLEANING: Duration = Duration::from_secs(6);

/// Ingredients of a start.
pub(super) struct Start<'a> {
    /// The program that becomes the guard.
    pub(super) guard: &'a Path,
    pub(super) command: &'a str,
    pub(super) args: &'a [ConfigText],
    pub(super) environment: &'a BTreeMap<String, String>,
    /// Environment variables of the configuration.
    pub(super) env: &'a BTreeMap<String, SecretString>,
    pub(super) cwd: &'a PathBuf,
}

/// A server that runs, behind its guard.
#[derive(Debug)]
pub(super) struct Process {
    guard: Child,
    /// The guard leads the group that the server is in.
    group: Option<Pid>,
    /// Reads its last words.
    draining: JoinHandle<()>,
    log: Arc<Log>,
}

impl Process {
    /// Starts it. Where the program is not found, it ends at once and its log says why.
    pub(super) fn start(start: &Start<'_>, log: &Arc<Log>) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut command = Command::new(start.guard);
        command
            .arg(GUARD_ARGUMENT)
            .arg(start.command)
            .args(start.args.iter().map(|arg| &arg.value))
            .env_clear()
            .envs(start.environment)
            .envs(start.env.iter().map(|(name, value)| (name, value.expose_secret())))
            .current_dir(start.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut guard = command.spawn()?;
        let taken = || io::Error::other("a pipe is missing");
        let stdout = guard.stdout.take().ok_or_else(taken)?;
        let stdin = guard.stdin.take().ok_or_else(taken)?;
        let stderr = guard.stderr.take().ok_or_else(taken)?;
        let draining = tokio::spawn(drain(stderr, Arc::clone(log)));
        let group = guard.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1).map(Pid::from_raw);
        Ok((Self { guard, group, draining, log: Arc::clone(log) }, stdout, stdin))
    }

    /// The guard's number, for people who look for it.
    pub(super) fn id(&self) -> Option<u32> {
        self.guard.id()
    }

    /// Waits until nothing of it is left, its input having been closed, and says how it ended.
    pub(super) async fn gone(mut self) -> Option<ExitStatus> {
        let status = match self.ended_within(ENDING).await {
            Some(status) => status,
            None => {
                // Its input may be open still: a message that it does not read cannot be taken back.
                self.signal(Signal::SIGTERM);
                match self.ended_within(CLEANING).await {
                    Some(status) => status,
                    None => {
                        self.log.note("it did not end, and was killed");
                        self.kill();
                        self.ended_within(CLEANING).await.flatten()
                    }
                }
            }
        };
        // Where the guard itself was killed, the group may have members.
        self.kill();
        // Nobody writes any more, so that its last words are there at once.
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.draining).await;
        self.log.end();
        status
    }

    async fn ended_within(&mut self, limit: Duration) -> Option<Option<ExitStatus>> {
        tokio::time::timeout(limit, self.guard.wait()).await.ok().map(Result::ok)
    }

    /// Signals the guard alone.
    fn signal(&self, signal: Signal) {
        if let Some(guard) = self.group {
            let _ = kill(guard, signal);
        }
    }

    fn kill(&self) {
        if let Some(group) = self.group {
            // There may be nobody left.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Reads what the server writes to its standard error, as long as it is open, so that it never waits for us; but not
/// faster than it is worth.
async fn drain(mut stderr: ChildStderr, log: Arc<Log>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        log.take(&buffer[..read]);
        if read == buffer.len() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    log.end();
}

/// Describes how a server ended.
pub(super) fn told(status: Option<ExitStatus>) -> String {
    match status.and_then(|status| status.code()) {
        Some(0) => "it ended".to_owned(),
        Some(127) => "its program was not found".to_owned(),
        Some(code @ 129..=192) => format!("it was ended by signal {}", code - 128),
        Some(code) => format!("it ended with exit code {code}"),
        None => "it was killed".to_owned(),
    }
}
