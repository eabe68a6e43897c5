//! Real daemons and clients in folders of their own, ended with the test.
//!
//! - [`TempHome`]: the folders and the environment; it runs `agentctl` and leaves no process behind.
//! - [`TempDaemon`]: a home with a daemon that was started in it, and can be killed, stopped and started again.
//! - [`Output`]: what a program said and how it ended; [`Running`]: one that is still running.
//! - [`until`]: how tests wait. Nothing sleeps for something to happen.

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

/// How long anything may take before a test gives up on it. Nothing waits that long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Between two looks at something that is waited for.
const GLANCE: Duration = Duration::from_millis(3);

/// Looks again and again until there is something.
///
/// # Panics
/// Where that takes longer than [`PATIENCE`].
#[expect(clippy::panic, reason = "the test has failed")]
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        if start.elapsed() > PATIENCE {
            panic!("waited in vain until {what}");
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Looks again and again until it is so.
///
/// # Panics
/// Where that takes longer than [`PATIENCE`].
pub async fn until_true(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, || std::future::ready(is_so().then_some(()))).await;
}

/// A program of the workspace, built in the same profile as the running test.
///
/// # Panics
/// Where it was not built.
#[expect(clippy::panic, reason = "a test cannot go on without its programs")]
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    // The test is in `deps`, and the programs are beside that folder.
    let program = test.parent().and_then(Path::parent).unwrap_or(Path::new("/")).join(name);
    if !program.is_file() {
        panic!("{} is not built; run \"make test\", which builds it first", program.display());
    }
    program
}

/// What a program said and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Output {
    /// Makes sure that it ended with this code.
    ///
    /// # Panics
    /// Where it did not.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Makes sure that standard error holds all of these words.
    ///
    /// # Panics
    /// Where one is missing.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is missing in:\n{}", self.stderr);
        }
        self
    }

    /// Makes sure that it ended with an error.
    ///
    /// # Panics
    /// Where it did not.
    #[track_caller]
    pub fn fails(self) -> Self {
        assert_ne!(self.code, Some(0), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Makes sure that standard output holds all of these words.
    ///
    /// # Panics
    /// Where one is missing.
    #[track_caller]
    pub fn shows(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stdout.contains(word), "{word:?} is missing in:\n{}", self.stdout);
        }
        self
    }

    /// Standard output as one JSON value.
    ///
    /// # Panics
    /// Where it is none.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test has failed")]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("{error} in:\n{}\nstderr:\n{}", self.stdout, self.stderr),
        }
    }

    /// The id of the session that standard output names, as JSON.
    ///
    /// # Panics
    /// Where it names none.
    #[track_caller]
    #[expect(clippy::panic, reason = "the test has failed")]
    pub fn session(&self) -> String {
        let lines = self.json_lines();
        let named = lines.iter().find_map(|line| line["session_id"].as_str());
        named.unwrap_or_else(|| panic!("no session is named in:\n{}", self.stdout)).to_owned()
    }

    /// Standard output as one JSON value a line.
    ///
    /// # Panics
    /// Where a line is none.
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

/// The folders of one daemon and its clients. Dropping it ends every process that was given them.
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
    /// Empty folders.
    ///
    /// # Panics
    /// Where they cannot be made.
    #[expect(clippy::panic, reason = "a test cannot go on without its folders")]
    pub fn new() -> Self {
        // Not in TMPDIR: a socket's path must be short.
        match tempfile::Builder::new().prefix("agentd-test-").tempdir_in("/tmp") {
            Ok(folder) => Self { folder, variables: Vec::new() },
            Err(error) => panic!("could not make a folder: {error}"),
        }
    }

    /// The same, with the model at this address in the slot of all models.
    pub fn with_model(base_url: &str) -> Self {
        let mut home = Self::new();
        home.set("MODEL_BASIC_BASE_URL", base_url);
        if let Some(wire) = chat_view::wire() {
            home.set("MODEL_BASIC_WIRE", wire.name());
        }
        home
    }

    /// A model server, and a home with it in the slot of all models.
    pub async fn with_server() -> (ModelServer, Self) {
        let model = ModelServer::start().await;
        let home = Self::with_model(&model.base_url());
        (model, home)
    }

    /// Sets a variable for all programs from now on.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// The folder that holds all others.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.path().join("run/agentd.sock")
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The configuration folder.
    pub fn config(&self) -> PathBuf {
        self.path().join("config")
    }

    /// Writes a file below the home, with the folders that it needs.
    ///
    /// # Panics
    /// Where it cannot be written.
    #[expect(clippy::panic, reason = "a test cannot go on without its files")]
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(path);
        let folder = path.parent().unwrap_or(Path::new("/"));
        match fs::create_dir_all(folder).and_then(|()| fs::write(&path, content)) {
            Ok(()) => path,
            Err(error) => panic!("could not write {}: {error}", path.display()),
        }
    }

    /// What a file below the home holds; nothing where it is not there.
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap_or_default()
    }

    /// What daemons logged, started by tests and by clients.
    pub fn log(&self) -> String {
        format!("{}{}", self.read("daemon.log"), self.read("data/logs/agentd.log"))
    }

    /// A program in this home's environment, which holds nothing else but a search path.
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

    /// `agentctl` with these arguments, in this home's environment.
    pub fn agentctl_command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> std::process::Command {
        let mut command = self.command(program("agentctl"));
        command.args(args);
        command
    }

    /// Runs `agentctl` without standard input to its end.
    pub async fn agentctl<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        Running::spawn(self.agentctl_command(args)).output(Vec::new()).await
    }

    /// Runs `agentctl` without standard input to its end, which is a good one.
    ///
    /// # Panics
    /// Where it is none.
    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> impl Future<Output = Output> {
        succeeds(self.agentctl_command(args), Location::caller())
    }

    /// The same with `--json`: what it tells.
    ///
    /// # Panics
    /// Where it ends otherwise, or tells no JSON.
    #[track_caller]
    pub fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> impl Future<Output = Value> {
        let (mut command, caller) = (self.agentctl_command(args), Location::caller());
        command.arg("--json");
        async move { succeeds(command, caller).await.json() }
    }

    /// Runs `agentctl` with this on its standard input.
    pub async fn agentctl_with<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        stdin: impl Into<Vec<u8>>,
    ) -> Output {
        Running::spawn(self.agentctl_command(args)).output(stdin.into()).await
    }

    /// Starts `agentctl` without standard input and waits for nothing.
    pub fn spawn_agentctl<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        let mut running = Running::spawn(self.agentctl_command(args));
        running.end_input();
        running
    }

    /// Every process that was given these folders, with what they have started, whatever that made of its environment.
    pub fn processes(&self) -> Vec<u32> {
        family::of_home(self.path())
    }
}

impl Drop for TempHome {
    fn drop(&mut self) {
        let start = Instant::now();
        // Again and again, because one that is being started is not there at first.
        while start.elapsed() < Duration::from_secs(10) {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for pid in left {
                // It may be gone by now.
                let _ = send(pid, Signal::SIGKILL);
            }
            std::thread::sleep(GLANCE);
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

/// A program that is running. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Running {
    /// Starts it with pipes on all sides.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[expect(clippy::panic, reason = "a test cannot go on without its programs")]
    pub fn spawn(command: std::process::Command) -> Self {
        let mut command = Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        match command.spawn() {
            Ok(child) => Self { child, lines: None },
            Err(error) => panic!("could not run {command:?}: {error}"),
        }
    }

    /// Its process id; 0 once it has ended.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// Where it is gone.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        assert_eq!(send(self.pid(), signal), Ok(()));
    }

    /// The next line of standard output; none at its end.
    ///
    /// # Panics
    /// Where it does not come.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn line(&mut self) -> Option<String> {
        if self.lines.is_none() {
            self.lines = self.child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        }
        match tokio::time::timeout(PATIENCE, self.lines.as_mut()?.next_line()).await {
            Ok(Ok(line)) => line,
            other => panic!("no line came: {other:?}"),
        }
    }

    /// The next line of standard output as JSON; none at its end.
    ///
    /// # Panics
    /// Where it is no JSON, or does not come.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn json_line(&mut self) -> Option<Value> {
        let line = self.line().await?;
        match serde_json::from_str(&line) {
            Ok(value) => Some(value),
            Err(error) => panic!("{error} in the line:\n{line}"),
        }
    }

    /// Writes to its standard input.
    ///
    /// # Panics
    /// Where nobody reads it any more.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn write(&mut self, text: &str) {
        let Some(pipe) = self.child.stdin.as_mut() else { panic!("its standard input was ended") };
        let written = async {
            pipe.write_all(text.as_bytes()).await?;
            pipe.flush().await
        };
        if let Err(error) = written.await {
            panic!("could not write to it: {error}");
        }
    }

    /// Ends its standard input, for which it may be waiting.
    pub fn end_input(&mut self) {
        self.child.stdin = None;
    }

    /// The first line of standard output that is an event of this type, and all lines before it.
    ///
    /// # Panics
    /// Where none comes.
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
        panic!("no {name} came, but {before:?}\nstderr:\n{stderr}");
    }

    /// Hands it its standard input and waits for its end.
    ///
    /// # Panics
    /// Where it does not end.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn output(mut self, stdin: Vec<u8>) -> Output {
        let pipe = self.child.stdin.take();
        let write = async move {
            if let Some(mut pipe) = pipe {
                // It may have had enough before the end.
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

/// A home with a daemon.
#[derive(Debug)]
pub struct TempDaemon {
    home: TempHome,
    process: Option<Process>,
}

/// The daemon's process, waited for at once, so that it is gone when it has ended.
#[derive(Debug)]
struct Process {
    pid: u32,
    ended: watch::Receiver<Option<ExitStatus>>,
    _waiting: JoinHandle<()>,
}

impl TempDaemon {
    /// Starts a daemon whose only model is at this address, and waits until it is ready.
    pub async fn start(base_url: &str) -> Self {
        Self::start_in(TempHome::with_model(base_url)).await
    }

    /// Starts a daemon in these folders, and waits until it is ready.
    pub async fn start_in(home: TempHome) -> Self {
        let mut daemon = Self { home, process: None };
        daemon.restart().await;
        daemon
    }

    /// Starts a daemon with this command line, and waits until it is ready.
    pub async fn start_with(home: TempHome, command: std::process::Command) -> Self {
        let mut daemon = Self { home, process: None };
        daemon.launch(command).await;
        daemon
    }

    /// Starts the daemon again. Stops it first if it runs.
    ///
    /// # Panics
    /// If it does not stop in order.
    pub async fn restart(&mut self) {
        if self.process.as_ref().is_some_and(|process| process.ended.borrow().is_none()) {
            assert_eq!(self.sigterm().await, Some(0), "{}", self.home.log());
        }
        let command = self.home.command(program("agentd"));
        self.launch(command).await;
    }

    #[expect(clippy::panic, reason = "a test cannot go on without its daemon")]
    async fn launch(&mut self, command: std::process::Command) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.home.path().join("daemon.log"));
        let log = log.unwrap_or_else(|error| panic!("could not open the log: {error}"));
        let copy = log.try_clone().unwrap_or_else(|error| panic!("could not share the log: {error}"));
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
                panic!("the daemon ended while it started ({status}):\n{}", self.home.log());
            }
            UnixStream::connect(&socket).ok()
        })
        .await;
    }

    /// The daemon's process id.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, |process| process.pid)
    }

    /// Sends the daemon a signal.
    ///
    /// # Panics
    /// Where it is gone.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        assert_eq!(send(self.pid(), signal), Ok(()), "{}", self.home.log());
    }

    /// Kills the daemon as a power cut would, and waits until it is gone.
    pub async fn kill9(&self) {
        self.signal(Signal::SIGKILL);
        self.ended().await;
    }

    /// Kills the daemon as a power cut would, and starts it again.
    pub async fn crash(&mut self) {
        self.kill9().await;
        self.restart().await;
    }

    /// Tells the daemon to stop, waits for its end, and returns its exit code.
    pub async fn sigterm(&self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.ended().await
    }

    /// Waits for the daemon's end and returns its exit code; none where a signal ended it.
    ///
    /// # Panics
    /// Where it does not end.
    #[expect(clippy::panic, reason = "the test has failed")]
    pub async fn ended(&self) -> Option<i32> {
        let Some(process) = &self.process else { return None };
        let mut ended = process.ended.clone();
        match tokio::time::timeout(PATIENCE, ended.wait_for(Option::is_some)).await {
            Ok(Ok(status)) => status.and_then(|status| status.code()),
            _ => panic!("the daemon does not end:\n{}", self.home.log()),
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
