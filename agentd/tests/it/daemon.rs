//! Daemon with temporary folders, which is stopped when the test ends.

use std::{
    fs,
    io::Read,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Time limit for every wait. Not reached in a passing test.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Home {
    folder: tempfile::TempDir,
    /// Receives the daemon's notifications to its supervisor. The test plays the supervisor.
    notify: UnixDatagram,
}

pub(crate) struct Daemon {
    child: Child,
}

/// Exit status and output of a daemon.
pub(crate) struct ExitOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        // Not in `TMPDIR`, because socket paths must be short.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let notify = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        notify.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { folder, notify }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("run/agentd.sock")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn configure(&self, name: &str, text: &str) {
        let file = self.path().join("config").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Returns the daemon's command line with a clean environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentd"));
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path())
            .env("XDG_CONFIG_DIRS", self.path().join("system"))
            .env("AGENTD_CONFIG_DIR", self.path().join("config"))
            .env("AGENTD_DATA_DIR", self.data())
            .env("AGENTD_SOCKET", self.socket())
            .env("NOTIFY_SOCKET", self.path().join("notify"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a daemon that logs to a file, and waits until it is ready.
    pub(crate) fn start(&self) -> Daemon {
        self.start_with(&mut self.command())
    }

    pub(crate) fn start_with(&self, command: &mut Command) -> Daemon {
        command.arg("--log-file").arg(self.path().join("log"));
        let mut daemon = self.spawn(command);
        wait_until("the daemon is ready", || {
            assert!(daemon.child.try_wait().unwrap().is_none(), "the daemon exited: {}", daemon.stderr());
            self.next_notification_within(Duration::from_millis(50)).is_some_and(|message| message.contains("READY=1"))
        });
        daemon
    }

    /// Starts a daemon without waiting for it to become ready.
    pub(crate) fn spawn(&self, command: &mut Command) -> Daemon {
        Daemon { child: command.spawn().unwrap() }
    }

    /// Runs a daemon that is expected to exit.
    pub(crate) fn run(&self, command: &mut Command) -> ExitOutput {
        self.spawn(command).wait()
    }

    /// Waits for the daemon's next notification to its supervisor.
    pub(crate) fn next_notification(&self) -> String {
        self.next_notification_within(TIMEOUT).expect("no notification from the daemon")
    }

    fn next_notification_within(&self, limit: Duration) -> Option<String> {
        self.notify.set_read_timeout(Some(limit)).unwrap();
        let mut message = [0; 4096];
        let length = self.notify.recv(&mut message).ok()?;
        Some(String::from_utf8_lossy(&message[..length]).into_owned())
    }
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) fn wait(mut self) -> ExitOutput {
        let mut status = None;
        wait_until("the daemon ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let stderr = self.stderr();
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        ExitOutput { status: status.unwrap(), stdout, stderr }
    }

    pub(crate) fn stop(self) -> ExitOutput {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).unwrap();
        }
        text
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ExitOutput {
    /// Checks the exit code, and that standard error contains every string in `parts`.
    #[track_caller]
    pub(crate) fn assert_exit(&self, code: i32, parts: &[&str]) {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is missing in:\n{}", self.stderr);
        }
        assert_eq!(self.status.code(), Some(code), "{}", self.stderr);
    }
}

#[track_caller]
pub(crate) fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "timed out waiting until {condition}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
