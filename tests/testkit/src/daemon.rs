//! Real daemons and clients in temporary folders, ended when the test ends.
//!
//! - [`TempHome`]: folders and environment; runs `agentctl` and leaves no process behind.
//! - [`TempDaemon`]: a home with a daemon, which can be killed, stopped and restarted.
//! - [`Output`]: output and exit code of a process; [`Running`]: a process that is still running.
//! - [`until`]: waits for a condition. No test sleeps to wait.

use std::{
    ffi::OsStr,
    fs,
    future::Future,
    ops::{Deref, DerefMut},
    os::unix::net::UnixStream,
    panic::Location,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    family,
    model_server::{ModelServer, chat_view},
};

/// Time limit for every wait in a test. Successful tests never take that long.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Interval between two checks of an awaited condition.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// Polls until `condition` yields a value.
///
/// # Panics
/// Panics if no value is available within [`PATIENCE`].
#[expect(clippy::panic, reason = "the test has failed")]
pub async fn until<T, F: Future<Output = Option<T>>>(condition: &str, mut look: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        if start.elapsed() > PATIENCE {
            panic!("timed out waiting until {condition}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Polls until the condition is true.
///
/// # Panics
/// Panics if the condition is not true within [`PATIENCE`].
pub async fn until_true(condition: &str, mut predicate: impl FnMut() -> bool) {
    until(condition, || std::future::ready(predicate().then_some(()))).await;
}

/// Returns the path of a binary in the workspace, built in the same profile as the running test.
///
/// # Panics
/// Panics if the binary was not built.
#[expect(clippy::panic, reason = "a test cannot continue without its programs")]
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    // The test is in `deps`, next to the binaries.
    let program = test.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join(name);
    if !program.is_file() {
        panic!("{} is not built; run \"make test\", which builds it first", program.display());
    }
    program
}

/// Output and exit code of a finished process.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit code, or `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Everything that the process wrote to standard output.
    pub stdout: String,
    /// Everything that the process wrote to standard error.
    pub stderr: String,
}

impl Output {
    /// Asserts that the process ended with this code.
    ///
    /// # Panics
    /// Panics if the code differs.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that standard error contains all of these strings.
    ///
    /// # Panics
    /// Panics if a string is missing.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for word in parts {
            assert!(self.stderr.contains(word), "{word:?} is missing in:\n{}", self.stderr);
        }
        self
    }

    /// Asserts that the process ended with an error.
    ///
    /// # Panics
    /// Panics if the process succeeded.
    #[track_caller]
    pub fn fails(self) -> Self {
        assert_ne!(self.code, Some(0), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that standard output contains all of these strings.
    ///
    /// # Panics
    /// Panics if a string is missing.
    #[track_caller]
    pub fn shows(self, parts: &[&str]) -> Self {
        for word in parts {
            assert!(self.stdout.contains(word), "{word:?} is missing in:\n{}", self.stdout);
        }
        self
    }

    /// Parses standard output as one JSON value.
    ///
    /// # Panics
    /// Panics if standard output is not valid JSON.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test has failed")]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("{error} in:\n{}\nstderr:\n{}", self.stdout, self.stderr),
        }
    }

    /// Returns the session ID in the JSON lines on standard output.
    ///
    /// # Panics
    /// Panics if the output contains no session ID.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test has failed")]
    pub fn session(&self) -> String {
        let lines = self.json_lines();
        let named = lines.iter().find_map(|line| line["session_id"].as_str());
        named.unwrap_or_else(|| panic!("no session ID in:\n{}", self.stdout)).to_owned()
    }

    /// Parses each line of standard output as a JSON value.
    ///
    /// # Panics
    /// Panics if a line is not valid JSON.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test has failed")]
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| match serde_json::from_str(line) {
            Ok(value) => value,
            Err(error) => panic!("{error} in the line:\n{line}\nstderr:\n{}", self.stderr),
        };
        self.stdout.lines().map(parse).collect()
    }
}

/// The folders of a daemon and its clients. Dropping the home kills every process that was started in these folders.
#[derive(Debug)]
pub struct TempHome {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl Default for TempHome {
    fn default() -> Self {
        Self::new()
    }
}

impl TempHome {
    /// Creates the folders. In the host's configuration, titles by models are off, so that a scripted model receives only
    /// the requests of turns.
    ///
    /// # Panics
    /// Panics if the folders cannot be created.
    #[expect(clippy::panic, reason = "a test cannot continue without its folders")]
    pub fn new() -> Self {
        // TMPDIR is not used, because the path of a socket must be short.
        let home = match tempfile::Builder::new().prefix("agentd-test-").tempdir_in("/tmp") {
            Ok(folder) => Self { folder, variables: Vec::new() },
            Err(error) => panic!("could not create a folder: {error}"),
        };
        home.write("system/agentd/agentd.yaml", "turns: {titles: false}\n");
        home
    }

    /// Like [`new`](Self::new), but uses the model at this URL for all slots.
    pub fn with_model(base_url: &str) -> Self {
        let mut home = Self::new();
        home.set("MODEL_BASIC_BASE_URL", base_url);
        if let Some(wire) = chat_view::wire() {
            home.set("MODEL_BASIC_WIRE", wire.name());
        }
        home
    }

    /// Starts a model server, and a home that uses it for all models.
    pub async fn with_server() -> (ModelServer, Self) {
        let model = ModelServer::start().await;
        let home = Self::with_model(&model.base_url());
        (model, home)
    }

    /// Sets an environment variable for all processes created from now on.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// Returns the folder that contains all other folders.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("run/agentd.sock")
    }

    /// Returns the path of the data folder.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Returns the path of the configuration folder.
    pub fn config(&self) -> PathBuf {
        self.path().join("config")
    }

    /// Writes a file in the home, and creates its parent folders.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    #[expect(clippy::panic, reason = "a test cannot continue without its files")]
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(path);
        let folder = path.parent().unwrap_or(Path::new("/"));
        match fs::create_dir_all(folder).and_then(|()| fs::write(&path, content)) {
            Ok(()) => path,
            Err(error) => panic!("could not write {}: {error}", path.display()),
        }
    }

    /// Reads a file in the home. Returns an empty string if the file is missing.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_default()
    }

    /// Returns the logs of daemons started by tests and by clients.
    pub fn log(&self) -> String {
        format!("{}{}", self.read("daemon.log"), self.read("data/logs/agentd.log"))
    }

    /// Creates a command whose whole environment consists of the home's variables and the search path.
    pub fn command(&self, program: impl AsRef<OsStr>) -> std::process::Command {
        let mut command = std::process::Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("XDG_CONFIG_DIRS", self.path().join("system"))
            .env("AGENTD_SOCKET", self.socket())
            .env("AGENTD_CONFIG_DIR", self.config())
            .env("AGENTD_DATA_DIR", self.data())
            .env("RUST_BACKTRACE", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path());
        command
    }

    /// Creates a command that runs `agentctl` with these arguments in this home's environment.
    pub fn agentctl_command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> std::process::Command {
        let mut command = self.command(program("agentctl"));
        command.args(args);
        command
    }

    /// Runs `agentctl` to its end, without standard input.
    pub async fn agentctl<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        Running::spawn(self.agentctl_command(args)).output(Vec::new()).await
    }

    /// Runs `agentctl` to its end, without standard input, and asserts success.
    ///
    /// # Panics
    /// Panics if the command fails.
    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> impl Future<Output = Output> {
        succeeds(self.agentctl_command(args), Location::caller())
    }

    /// Like [`ok`](Self::ok), but passes `--json` and parses the output.
    ///
    /// # Panics
    /// Panics if the command fails, or if its output is not valid JSON.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> impl Future<Output = Value> {
        let (mut command, caller) = (self.agentctl_command(args), Location::caller());
        command.arg("--json");
        async move { succeeds(command, caller).await.json() }
    }

    /// Runs `agentctl` with this text on standard input.
    pub async fn agentctl_with<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        stdin: impl Into<Vec<u8>>,
    ) -> Output {
        Running::spawn(self.agentctl_command(args)).output(stdin.into()).await
    }

    /// Starts `agentctl` without standard input, and does not wait for its end.
    pub fn spawn_agentctl<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        let mut running = Running::spawn(self.agentctl_command(args));
        running.end_input();
        running
    }

    /// Returns the processes that were started in these folders, and their descendants, even if they changed their
    /// environment.
    pub fn processes(&self) -> Vec<u32> {
        family::of_home(self.path())
    }
}

impl Drop for TempHome {
    fn drop(&mut self) {
        let start = Instant::now();
        // Repeats the search, because a process that is just starting is not visible at first.
        while start.elapsed() < Duration::from_secs(10) {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for pid in left {
                // The process may already have ended.
                let _ = send(pid, Signal::SIGKILL);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn send(pid: u32, signal: Signal) -> Result<(), Errno> {
    kill(Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::ESRCH)?), signal)
}

async fn succeeds(command: std::process::Command, caller: &Location<'_>) -> Output {
    let output = Running::spawn(command).output(Vec::new()).await;
    assert_eq!(output.code, Some(0), "{caller}\nstdout:\n{}\nstderr:\n{}", output.stdout, output.stderr);
    output
}

/// A running process, killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Running {
    /// Starts a process with pipes for all standard streams.
    ///
    /// # Panics
    /// Panics if the process cannot be started.
    #[expect(clippy::panic, reason = "a test cannot continue without its programs")]
    pub fn spawn(command: std::process::Command) -> Self {
        let mut command = Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        match command.spawn() {
            Ok(child) => Self { child, lines: None },
            Err(error) => panic!("could not run {command:?}: {error}"),
        }
    }

    /// Returns the process ID, or 0 once the process has ended.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Sends a signal to the process.
    ///
    /// # Panics
    /// Panics if the process has ended.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        assert_eq!(send(self.pid(), signal), Ok(()));
    }

    /// Reads the next line of standard output. Returns `None` at its end.
    ///
    /// # Panics
    /// Panics if no line arrives in time.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn line(&mut self) -> Option<String> {
        if self.lines.is_none() {
            self.lines = self.child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        }
        match tokio::time::timeout(PATIENCE, self.lines.as_mut()?.next_line()).await {
            Ok(Ok(line)) => line,
            other => panic!("no line received: {other:?}"),
        }
    }

    /// Reads the next line of standard output as JSON. Returns `None` at its end.
    ///
    /// # Panics
    /// Panics if the line is not valid JSON, or does not arrive in time.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn json_line(&mut self) -> Option<Value> {
        let line = self.line().await?;
        match serde_json::from_str(&line) {
            Ok(value) => Some(value),
            Err(error) => panic!("{error} in the line:\n{line}"),
        }
    }

    /// Writes to the standard input of the process.
    ///
    /// # Panics
    /// Panics if its standard input is closed.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn write(&mut self, text: &str) {
        let Some(pipe) = self.child.stdin.as_mut() else { panic!("standard input is closed") };
        let written = async {
            pipe.write_all(text.as_bytes()).await?;
            pipe.flush().await
        };
        if let Err(error) = written.await {
            panic!("could not write to standard input: {error}");
        }
    }

    /// Closes the standard input of the process, so that a read returns end of file.
    pub fn end_input(&mut self) {
        self.child.stdin = None;
    }

    /// Reads standard output up to an event of this type. Returns the event and all preceding lines.
    ///
    /// # Panics
    /// Panics if there is no such event.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn event(&mut self, name: &str) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        while let Some(line) = self.json_line().await {
            if line["type"] == name {
                return (line, before);
            }
            before.push(line);
        }
        let mut stderr = String::new();
        if let Some(pipe) = self.child.stderr.as_mut() {
            let _ = pipe.read_to_string(&mut stderr).await;
        }
        panic!("no {name} received, but {before:?}\nstderr:\n{stderr}");
    }

    /// Writes `stdin` to standard input, closes it, and waits until the process ends.
    ///
    /// # Panics
    /// Panics if the process does not end.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn output(mut self, stdin: Vec<u8>) -> Output {
        let pipe = self.child.stdin.take();
        let write = async move {
            if let Some(mut pipe) = pipe {
                // The process may close its input early.
                let _ = pipe.write_all(&stdin).await;
            }
        };
        let mut lines = self.lines.take();
        let rest = async move {
            let mut rest = String::new();
            if let Some(lines) = lines.as_mut() {
                while let Ok(Some(line)) = lines.next_line().await {
                    rest.push_str(&line);
                    rest.push('\n');
                }
            }
            rest
        };
        let pid = self.pid();
        let all = async { tokio::join!(write, rest, self.child.wait_with_output()) };
        match tokio::time::timeout(PATIENCE, all).await {
            Ok(((), rest, Ok(output))) => Output {
                code: output.status.code(),
                stdout: rest + &String::from_utf8_lossy(&output.stdout),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            },
            other => panic!("process {pid} did not end: {other:?}"),
        }
    }
}

/// A home with a running daemon.
#[derive(Debug)]
pub struct TempDaemon {
    home: TempHome,
    process: Option<Process>,
}

/// The daemon's process, reaped as soon as it ends.
#[derive(Debug)]
struct Process {
    pid: u32,
    ended: watch::Receiver<Option<ExitStatus>>,
    _waiting: JoinHandle<()>,
}

impl TempDaemon {
    /// Starts a daemon whose only model is at this URL, and waits until it is ready.
    pub async fn start(base_url: &str) -> Self {
        Self::start_in(TempHome::with_model(base_url)).await
    }

    /// Starts a daemon in these folders, and waits until it is ready.
    pub async fn start_in(home: TempHome) -> Self {
        let mut daemon = Self { home, process: None };
        daemon.restart().await;
        daemon
    }

    /// Starts a daemon with this command, and waits until it is ready.
    pub async fn start_with(home: TempHome, command: std::process::Command) -> Self {
        let mut daemon = Self { home, process: None };
        daemon.launch(command).await;
        daemon
    }

    /// Restarts the daemon. A running daemon is stopped first.
    ///
    /// # Panics
    /// Panics if the daemon does not stop cleanly.
    pub async fn restart(&mut self) {
        if self.process.as_ref().is_some_and(|process| process.ended.borrow().is_none()) {
            assert_eq!(self.sigterm().await, Some(0), "{}", self.home.log());
        }
        let command = self.home.command(program("agentd"));
        self.launch(command).await;
    }

    #[expect(clippy::panic, reason = "a test cannot continue without its daemon")]
    async fn launch(&mut self, command: std::process::Command) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.home.path().join("daemon.log"));
        let log = log.unwrap_or_else(|error| panic!("could not open the log: {error}"));
        let copy = log.try_clone().unwrap_or_else(|error| panic!("could not clone the log handle: {error}"));
        let mut command = Command::from(command);
        command.stdin(Stdio::null()).stdout(log).stderr(copy).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("could not run {command:?}: {error}"));
        let pid = child.id().unwrap_or_default();
        let (sender, ended) = watch::channel(None);
        let waiting = tokio::spawn(async move {
            let status = child.wait().await.ok();
            sender.send_replace(status);
        });
        self.process = Some(Process { pid, ended: ended.clone(), _waiting: waiting });
        let socket = self.home.socket();
        until("the daemon is ready", || async {
            if let Some(status) = *ended.borrow() {
                panic!("the daemon exited during startup ({status}):\n{}", self.home.log());
            }
            UnixStream::connect(&socket).ok()
        })
        .await;
    }

    /// Returns the daemon's process ID.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, |process| process.pid)
    }

    /// Sends a signal to the daemon.
    ///
    /// # Panics
    /// Panics if the daemon has ended.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        assert_eq!(send(self.pid(), signal), Ok(()), "{}", self.home.log());
    }

    /// Kills the daemon, as a power cut would, and waits until it has ended.
    pub async fn kill9(&self) {
        self.signal(Signal::SIGKILL);
        self.ended().await;
    }

    /// Kills the daemon, as a power cut would, and restarts it.
    pub async fn crash(&mut self) {
        self.kill9().await;
        self.restart().await;
    }

    /// Asks the daemon to stop, waits until it ends, and returns its exit code.
    pub async fn sigterm(&self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.ended().await
    }

    /// Waits until the daemon ends and returns its exit code, or `None` if a signal ended it.
    ///
    /// # Panics
    /// Panics if the daemon does not end in time.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn ended(&self) -> Option<i32> {
        let Some(process) = &self.process else { return None };
        let mut ended = process.ended.clone();
        match tokio::time::timeout(PATIENCE, ended.wait_for(Option::is_some)).await {
            Ok(Ok(status)) => status.and_then(|status| status.code()),
            _ => panic!("the daemon does not exit:\n{}", self.home.log()),
        }
    }
}

impl Deref for TempDaemon {
    type Target = TempHome;

    fn deref(&self) -> &TempHome {
        &self.home
    }
}

impl DerefMut for TempDaemon {
    fn deref_mut(&mut self) -> &mut TempHome {
        &mut self.home
    }
}
