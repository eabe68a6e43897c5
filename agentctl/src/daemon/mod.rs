//! Connects to the daemon, and starts it if none runs. A started daemon must outlive this client, so it gets a new
//! session, a reduced environment, a log file, and no access to the client's terminal.
//!
//! - [`location`]: locates the daemon and the built-in model's file, and checks this shell's model variables.
//! - [`ssh`]: daemons of other machines.

mod location;
mod ssh;

use std::{
    collections::HashMap,
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::{
        fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf, absolute},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use agentd_core::{
    environment::ClientEnvironment,
    error::ErrorKind,
    model::Slot,
    turn::{OnInterrupt, StartTurn},
};
use agentd_proto::client::{Client, ClientErrorKind};

use crate::{exit::Exit, failure::Failure, flags::Global};

use self::ssh::Dial;
pub(crate) use location::{DaemonLocation, SearchResult, ShellNote, Weights, is_same_folder, silent_error};
pub(crate) use ssh::{named_host, refuse_host};

/// Name of this client in the daemon's audit log.
pub(crate) const CLIENT: &str = "agentctl";

/// Time limit for a daemon to become ready. It normally takes well under a second, but longer on a slow disk or with a
/// large journal after a crash.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Time during which a launched daemon may lose the start race. The winner is either about to be ready, or about to
/// exit.
const RACE_LIMIT: Duration = Duration::from_secs(3);

/// Time to wait for a daemon that holds the data folder. The daemon checks its socket every five seconds.
const HOLDER_LIMIT: Duration = Duration::from_secs(10);

/// Delay after a lost race before the next launch: the winner may have been exiting.
const RELAUNCH_DELAY: Duration = Duration::from_millis(700);

/// Shortest and longest delay between connection attempts.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// A daemon that this client is connected to.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    /// Connection to the daemon.
    pub(crate) client: Client,
    /// Locations to search for the daemon, also after a restart.
    pub(crate) location: DaemonLocation,
    /// Socket at which the daemon answered, or the address of its machine if it is another one.
    pub(crate) socket: PathBuf,
    /// True if this client started the daemon.
    pub(crate) started: bool,
}

impl Daemon {
    /// Returns the variables of the client's environment that the daemon requests, and the client's folder. Tools in
    /// this client's turns get these variables; no others are sent, and none to another machine, which has its own
    /// programs and need not be trusted with keys.
    pub(crate) fn environment(&self) -> ClientEnvironment {
        let folder = env::current_dir().and_then(fs::canonicalize);
        folder.map_or_else(|_| self.environment_in_no_folder(), |folder| self.environment_in(&folder))
    }

    /// Like [`Self::environment`], with `folder` instead of the client's folder.
    pub(crate) fn environment_in(&self, folder: &Path) -> ClientEnvironment {
        self.environment_in_no_folder().in_folder(self.requested(), folder)
    }

    fn environment_in_no_folder(&self) -> ClientEnvironment {
        let is_wanted = |name: &str| ClientEnvironment::is_wanted(self.requested(), name);
        ClientEnvironment::unchecked(variables().filter(|(name, _)| is_wanted(name)))
    }

    /// Returns the names of the variables that the daemon requests and gets.
    fn requested(&self) -> &[String] {
        if self.client.host().is_some() { &[] } else { &self.client.hello().environment }
    }

    /// Builds a turn of this client with default settings.
    pub(crate) fn turn(&self, text: Option<String>) -> StartTurn {
        StartTurn {
            text,
            on_interrupt: OnInterrupt::Deny,
            client: CLIENT.to_owned(),
            environment: self.environment(),
            ..StartTurn::default()
        }
    }

    /// Returns true if the built-in model serves the default slot. Returns false if the models cannot be listed.
    pub(crate) async fn is_builtin(&self) -> bool {
        let slots = self.client.models().await.unwrap_or_default();
        slots.iter().any(|info| info.slot == Slot::default() && info.model.embedded)
    }

    /// Returns variables named in the daemon's configuration that only this client has, such as keys of MCP servers.
    /// Another machine gets none.
    pub(crate) fn variables(&self) -> HashMap<String, String> {
        let requested = self.client.hello().variables.iter().filter(|_| self.client.host().is_none());
        requested.filter_map(|name| Some((name.clone(), env::var(name).ok()?))).collect()
    }
}

/// Returns the variables of this shell that are valid UTF-8.
pub(crate) fn variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Returns the data folder of the daemon, as known without a request to the daemon.
pub(crate) fn data_dir() -> Result<PathBuf, Failure> {
    folder("AGENTD_DATA_DIR", "XDG_DATA_HOME", ".local/share")
}

/// Returns the folder of the user's configuration.
pub(crate) fn config_dir() -> Result<PathBuf, Failure> {
    folder("AGENTD_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
}

fn folder(own: &str, xdg: &str, below_home: &str) -> Result<PathBuf, Failure> {
    let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given(own)
        .and_then(|path| absolute(path).ok())
        .or_else(|| given(xdg).filter(|path| path.is_absolute()).map(|base| base.join("agentd")))
        .or_else(|| Some(given("HOME")?.join(below_home).join("agentd")))
        .ok_or_else(|| Failure::usage("HOME is not set").hint(format!("set HOME, or name the folder with {own}")))
}

/// Returns the log file of a daemon started by this client.
pub(crate) fn log_file() -> Result<PathBuf, Failure> {
    Ok(data_dir()?.join("logs").join("agentd.log"))
}

/// Connects to the daemon, and starts it if none runs.
///
/// # Errors
/// Fails if the daemon cannot be reached or started, or has another version.
pub(crate) async fn connect(global: &Global) -> Result<Daemon, Failure> {
    connect_at(DaemonLocation::of(global)?).await
}

/// Connects to the daemon at this location, and starts it if none runs.
///
/// # Errors
/// As for [`connect`].
pub(crate) async fn connect_at(location: DaemonLocation) -> Result<Daemon, Failure> {
    if let Some(connected) = location.connect_host(Dial { starts: true, asks: true }).await {
        return Ok(daemon_of_host(location, connected?));
    }
    match connect_existing(&location).await? {
        Some(daemon) => Ok(daemon),
        None => start(location).await,
    }
}

/// Connects to the daemon if one runs.
///
/// # Errors
/// Fails if the process at the socket cannot be used, or has another version.
pub(crate) async fn connect_running(global: &Global) -> Result<Option<Daemon>, Failure> {
    connect_existing(&DaemonLocation::of(global)?).await
}

/// Connects to a running daemon. Waits for a daemon that starts, stops, or has lost its socket; a lost socket is
/// restored within a few seconds.
pub(crate) async fn connect_existing(location: &DaemonLocation) -> Result<Option<Daemon>, Failure> {
    let started_at = Instant::now();
    let mut retry_delay = RETRY_DELAYS.0;
    loop {
        match location.search(Client::of_our_version).await {
            SearchResult::Reached(client, socket) => {
                return Ok(Some(Daemon { client, location: location.clone(), socket, started: false }));
            }
            SearchResult::NotRunning => return Ok(None),
            SearchResult::Unusable(error) => return Err(error.into()),
            SearchResult::Silent(holder, error) => {
                let may_appear = error.as_ref().is_none_or(|error| error.kind == ClientErrorKind::NotRunning);
                if !may_appear || started_at.elapsed() > HOLDER_LIMIT {
                    return Err(silent_error(&holder, error.as_ref()));
                }
            }
        }
        tokio::time::sleep(retry_delay).await;
        retry_delay = (retry_delay * 2).min(RETRY_DELAYS.1);
    }
}

fn daemon_of_host(location: DaemonLocation, client: Client) -> Daemon {
    Daemon { client, socket: location.socket(), location, started: false }
}

/// Starts a daemon and waits until it responds. Another machine starts its own. If two clients start daemons at once,
/// the lock lets only one of them run, and both clients connect to that one. If the lock belongs to a daemon that is
/// exiting, another daemon is launched.
///
/// # Errors
/// Fails if the daemon cannot be started.
pub(crate) async fn start(location: DaemonLocation) -> Result<Daemon, Failure> {
    if let Some(connected) = location.connect_host(Dial { starts: true, asks: false }).await {
        return Ok(daemon_of_host(location, connected?));
    }
    let program = program()?;
    let mut launched = launch(&program, location.named(), log_file()?)?;
    let started_at = Instant::now();
    let mut retry_delay = RETRY_DELAYS.0;
    let mut exit_status = None;
    loop {
        tokio::time::sleep(retry_delay).await;
        retry_delay = (retry_delay * 2).min(RETRY_DELAYS.1);
        match location.search(Client::of_our_version).await {
            SearchResult::Reached(client, socket) => return Ok(Daemon { client, location, socket, started: true }),
            // Retrying does not help. A lost connection during the start is not an error: it may belong to a daemon
            // that lost the race.
            SearchResult::Unusable(error)
                if matches!(error.kind, ClientErrorKind::OtherVersion | ClientErrorKind::Refused) =>
            {
                return Err(error.into());
            }
            _ => {}
        }
        if exit_status.is_none() {
            exit_status = launched.exit_status().map(|status| (status, Instant::now()));
        }
        match exit_status {
            // Exit code 1 also means that another daemon holds the lock.
            Some((status, _)) if status.code() != Some(1) || started_at.elapsed() > launched.race_limit() => {
                return Err(launched.failure("the daemon failed to start", Some(status)));
            }
            Some((_, at)) if at.elapsed() > RELAUNCH_DELAY => {
                launched = launch(&program, location.named(), log_file()?)?;
                exit_status = None;
            }
            Some(_) => {}
            None if started_at.elapsed() > START_LIMIT => {
                return Err(launched.failure("the daemon was started but does not answer", None));
            }
            None => {}
        }
    }
}

/// Returns true if the process exists and is not a zombie. In a container, an exited process may remain until it is
/// reaped.
fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may contain any characters.
    if stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['Z', 'X'])) {
        return false;
    }
    // Signal 0 only checks for existence. "Not permitted" also means that the process exists.
    !matches!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None), Err(nix::errno::Errno::ESRCH))
}

/// Waits until a process has exited.
///
/// # Errors
/// Fails if the time limit is exceeded.
pub(crate) async fn wait_for_exit(pid: u32, limit: Duration) -> io::Result<()> {
    let started_at = Instant::now();
    let mut retry_delay = RETRY_DELAYS.0;
    while is_alive(pid) {
        if started_at.elapsed() > limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        tokio::time::sleep(retry_delay).await;
        retry_delay = (retry_delay * 2).min(RETRY_DELAYS.1);
    }
    Ok(())
}

/// Maximum number of log lines shown when a start fails.
const MAX_LOG_LINES: usize = 15;

/// Maximum bytes read from the end of the log for these lines.
const MAX_LOG_BYTES: u64 = 16 * 1024;

/// Variables that the daemon inherits by name. No other variables are passed on, because the daemon outlives this
/// terminal and also serves other clients.
const INHERITED: &str = "HOME USER LOGNAME PATH SHELL LANG LANGUAGE TZ TMPDIR MAX_MESSAGE_HISTORY CANDLE_NUM_THREADS \
    RAYON_NUM_THREADS RUST_LOG RUST_BACKTRACE SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY http_proxy https_proxy \
    ALL_PROXY all_proxy no_proxy";

/// Prefixes of variables that the daemon inherits.
const INHERITED_PREFIXES: [&str; 6] = ["AGENTD_", "MODEL_", "OTEL_", "XDG_", "LC_", "NO_PROXY"];

/// Suffixes of variables that the daemon inherits: keys that configuration files refer to.
pub(crate) const INHERITED_SUFFIXES: [&str; 2] = ["_API_KEY", "_BASE_URL"];

/// Variables with a path that must be made absolute.
const PATH_VARIABLES: [&str; 2] = ["AGENTD_CONFIG_DIR", "AGENTD_DATA_DIR"];

/// A launched daemon that is not ready yet.
#[derive(Debug)]
struct LaunchedDaemon {
    /// The process; `None` once it is detached.
    child: Option<Child>,
    log: PathBuf,
    /// Length of the log before the start, in bytes.
    log_start: u64,
}

/// Returns the path of the daemon's program: next to this program, which has the matching version, or else in `PATH`.
///
/// # Errors
/// Fails if the program is in neither of these places.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    let beside = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("agentd")));
    let in_path = env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(env::split_paths(&in_path).filter(|folder| folder.is_absolute()).map(|folder| folder.join("agentd")))
        .find(|candidate| is_program(candidate))
        .ok_or_else(|| {
            Failure::unreachable("no daemon is running, and the program agentd is neither beside agentctl nor in PATH")
                .hint("install agentd beside agentctl, or start it yourself and name its socket with --socket")
        })
}

/// Returns true if the path is an executable file.
pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Launches the daemon at `socket`, or at the default socket. It may not be ready when this returns.
///
/// # Errors
/// Fails if the log file cannot be opened, or the program cannot be run.
fn launch(program: &Path, socket: Option<&Path>, log: PathBuf) -> Result<LaunchedDaemon, Failure> {
    let failed = |problem: &str, error: &io::Error| {
        Failure::unreachable(format!("could not start the daemon: {problem}: {error}"))
            .hint("run `agentctl doctor` to see what is wrong")
    };
    let folder_made =
        log.parent().map_or(Ok(()), |folder| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder));
    let opened = folder_made.and_then(|()| OpenOptions::new().append(true).create(true).mode(0o600).open(&log));
    let file = opened.map_err(|error| {
        failed(&format!("could not open {}", log.display()), &error)
            .hint("the folder must be writable and its disk not full; AGENTD_DATA_DIR names another one")
    })?;
    let log_start = file.metadata().map_or(0, |meta| meta.len());
    let copy = file.try_clone().map_err(|error| failed("could not share the log file", &error))?;
    let mut command = Command::new(program);
    if let Some(socket) = socket {
        command.arg("--socket").arg(socket);
    }
    command
        .arg("--log-file")
        .arg(&log)
        .current_dir("/")
        .env_clear()
        .envs(env::vars_os().filter(|(name, value)| !value.is_empty() && is_inherited(name)))
        // The daemon's working folder is `/`, where relative paths would have another meaning.
        .envs(PATH_VARIABLES.iter().filter_map(|name| Some((name, absolute(env::var_os(name)?).ok()?))))
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy);
    start_session(&mut command);
    let child = command.spawn().map_err(|error| failed(&format!("could not run {}", program.display()), &error))?;
    Ok(LaunchedDaemon { child: Some(child), log, log_start })
}

/// Moves the command to a new session, so that neither closing the terminal nor Ctrl-C ends it.
#[allow(unsafe_code, reason = "a new session can only be made between fork and exec")]
fn start_session(command: &mut Command) {
    // SAFETY: between fork and exec, only async-signal-safe functions may be called. setsid is one of them, and the
    // closure calls nothing else: it neither allocates nor locks, and its error is a number.
    unsafe {
        command
            .pre_exec(|| nix::unistd::setsid().map(drop).map_err(|errno| io::Error::from_raw_os_error(errno as i32)));
    }
}

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    INHERITED.split(' ').any(|variable| variable == name)
        || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || INHERITED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Detaches the daemon. A thread reaps it if it exits before this client; otherwise, waiting processes would see it as
/// alive.
impl Drop for LaunchedDaemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Without the thread, init reaps the daemon after this client has exited.
            let _ = thread::Builder::new().name("agentctl-daemon".to_owned()).spawn(move || child.wait());
        }
    }
}

impl LaunchedDaemon {
    /// Returns the exit status once the daemon has ended.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// Returns the time during which the daemon may have ended because another one holds the data folder. If the lock
    /// file and socket of the other daemon were removed, the other daemon is found once it has recreated them.
    fn race_limit(&self) -> Duration {
        let lines = last_lines(&self.log, self.log_start).unwrap_or_default();
        let is_held = lines.iter().any(|line| line.contains("agentd is already running"));
        if is_held { HOLDER_LIMIT } else { RACE_LIMIT }
    }

    /// Returns the failure of the start, with the last lines of the log.
    fn failure(&self, problem: &str, exit_status: Option<ExitStatus>) -> Failure {
        let lines = last_lines(&self.log, self.log_start).unwrap_or_default();
        let output = if lines.is_empty() { String::new() } else { format!("; its output:\n  {}", lines.join("\n  ")) };
        let mut failure = Failure::unreachable(format!("{problem}{output}"))
            .hint(format!("the full log is in {}; `agentctl doctor` may find the cause", self.log.display()));
        if exit_status.and_then(|status| status.code()) == Some(2) {
            // The daemon uses this code for invalid usage and configuration, and so does the client.
            failure.exit = Exit::Usage;
            failure.kind = ErrorKind::Configuration;
        }
        failure
    }
}

/// Returns the last lines written to the log since offset `start`.
fn last_lines(log: &Path, start: u64) -> io::Result<Vec<String>> {
    let mut file = File::open(log)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.min(end).max(end.saturating_sub(MAX_LOG_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(MAX_LOG_LINES)..].iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unreaped_process_counts_as_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(is_alive(child.id()));
        child.kill().unwrap();
        wait_for_exit(child.id(), Duration::from_secs(30)).await.expect("it is a zombie");
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }

    #[test]
    fn daemon_inherits_only_listed_variables() {
        for name in ["HOME", "MODEL_BASIC_BASE_URL", "AGENTD_DATA_DIR", "XDG_RUNTIME_DIR", "OPENAI_API_KEY", "LC_ALL"] {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
        for name in ["DISPLAY", "SSH_AUTH_SOCK", "TERM", "LD_PRELOAD", "PWD", "GITHUB_TOKEN", "VIRTUAL_ENV"] {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn only_last_log_lines_since_the_start_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let old = "old\n";
        let new: String = (0..40).map(|line| format!("line {line}\n")).collect();
        fs::write(&log, format!("{old}{new}")).unwrap();
        let lines = last_lines(&log, old.len() as u64).unwrap();
        assert_eq!(lines.len(), MAX_LOG_LINES);
        assert_eq!(lines.last().map(String::as_str), Some("line 39"));
        assert!(last_lines(&log, 10_000).unwrap().is_empty());
    }
}
