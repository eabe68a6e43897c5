//! The way to the daemon: how it is reached, and how it is started when none runs, so that it outlives us: its own session,
//! nothing of our terminal, a small environment, a log file.
//!
//! - [`place`]: where it is, the built-in model's file, and what this shell's environment says of models.

mod place;

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

pub(crate) use place::{DaemonPlace, ShellNote, Sight, Weights, is_same_folder, silent};

/// Our name in the daemon's audit.
pub(crate) const CLIENT: &str = "agentctl";

/// Time limit for a daemon to become ready. It is ready in well under a second; a large journal after a crash, or a
/// slow disk, takes longer.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Time for which daemons that lose the race against another one are forgiven: the other one is about to be ready, or
/// gone.
const RACE_LIMIT: Duration = Duration::from_secs(3);

/// The time that a daemon which holds the data folder may take to be found: it looks after its socket every five seconds.
const FOUND_AGAIN: Duration = Duration::from_secs(10);

/// Delay after such a loss before another one is started: the winner may have been on its way out.
const NEXT_LAUNCH: Duration = Duration::from_millis(700);

/// The pauses between two tries to reach it, growing from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// The daemon, reached.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    /// The connection.
    pub(crate) client: Client,
    /// The place at which it is looked for, after a restart too.
    pub(crate) place: DaemonPlace,
    /// The socket at which it answered.
    pub(crate) socket: PathBuf,
    /// Set if this client had to start it.
    pub(crate) started: bool,
}

impl Daemon {
    /// Variables of the client's environment that the daemon asks for, and the client's folder: tools of our turns see
    /// them, and nothing else of it leaves us.
    pub(crate) fn environment(&self) -> ClientEnvironment {
        let folder = env::current_dir().and_then(fs::canonicalize);
        folder.map_or_else(|_| self.environment_in_no_folder(), |folder| self.environment_in(&folder))
    }

    /// The same with this folder in place of the client's.
    pub(crate) fn environment_in(&self, folder: &Path) -> ClientEnvironment {
        self.environment_in_no_folder().in_folder(&self.client.hello().environment, folder)
    }

    fn environment_in_no_folder(&self) -> ClientEnvironment {
        let wanted = &self.client.hello().environment;
        ClientEnvironment::unjudged(variables().filter(|(name, _)| ClientEnvironment::is_wanted(wanted, name)))
    }

    /// A turn of this client that asks for nothing but an answer to this.
    pub(crate) fn turn(&self, text: Option<String>) -> StartTurn {
        StartTurn {
            text,
            on_interrupt: OnInterrupt::Deny,
            client: CLIENT.to_owned(),
            environment: self.environment(),
            ..StartTurn::default()
        }
    }

    /// Returns whether the built-in model serves turns that name no other. A daemon that does not list its models says nothing.
    pub(crate) async fn is_builtin(&self) -> bool {
        let slots = self.client.models().await.unwrap_or_default();
        slots.iter().any(|info| info.slot == Slot::default() && info.model.embedded)
    }

    /// The variables that the daemon's configuration names and only we have, such as keys of MCP servers.
    pub(crate) fn variables(&self) -> HashMap<String, String> {
        let wanted = self.client.hello().variables.iter();
        wanted.filter_map(|name| Some((name.clone(), env::var(name).ok()?))).collect()
    }
}

/// The variables of this shell that are text.
pub(crate) fn variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Where the daemon keeps its data, as far as we can know without asking it.
pub(crate) fn data_dir() -> Result<PathBuf, Failure> {
    folder("AGENTD_DATA_DIR", "XDG_DATA_HOME", ".local/share")
}

/// Where the person's configuration is.
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

/// The file that a daemon which we start logs to.
pub(crate) fn log_file() -> Result<PathBuf, Failure> {
    Ok(data_dir()?.join("logs").join("agentd.log"))
}

/// Reaches the daemon, and starts it when none runs.
///
/// # Errors
/// When it cannot be reached or started, or is of another version.
pub(crate) async fn connect(global: &Global) -> Result<Daemon, Failure> {
    let place = DaemonPlace::of(global)?;
    match reach(&place).await? {
        Some(daemon) => Ok(daemon),
        None => start(place).await,
    }
}

/// Reaches the daemon if one runs.
///
/// # Errors
/// When what is there cannot be used, or is of another version.
pub(crate) async fn connect_running(global: &Global) -> Result<Option<Daemon>, Failure> {
    reach(&DaemonPlace::of(global)?).await
}

/// A daemon that lives and has lost its socket notices it in a few seconds, and one that starts or ends takes no longer: it
/// is waited for.
async fn reach(place: &DaemonPlace) -> Result<Option<Daemon>, Failure> {
    let begun = Instant::now();
    let mut pause = PAUSES.0;
    loop {
        match place.look(Client::of_our_version).await {
            Sight::Reached(client, socket) => {
                return Ok(Some(Daemon { client, place: place.clone(), socket, started: false }));
            }
            Sight::Nobody => return Ok(None),
            Sight::Unusable(error) => return Err(error.into()),
            Sight::Silent(holder, error) => {
                let may_come = error.as_ref().is_none_or(|error| error.kind == ClientErrorKind::NotRunning);
                if !may_come || begun.elapsed() > FOUND_AGAIN {
                    return Err(silent(&holder, error.as_ref()));
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Starts a daemon and waits until it answers. Two clients may do so at once: the daemon's lock lets one of the two
/// live, and both clients reach that one. The lock may also be that of a daemon which is ending: then nobody answers,
/// and another one is started.
///
/// # Errors
/// When it cannot be started.
pub(crate) async fn start(place: DaemonPlace) -> Result<Daemon, Failure> {
    let program = program()?;
    let mut launched = launch(&program, place.named(), log_file()?)?;
    let begun = Instant::now();
    let mut pause = PAUSES.0;
    let mut ended = None;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
        match place.look(Client::of_our_version).await {
            Sight::Reached(client, socket) => return Ok(Daemon { client, place, socket, started: true }),
            // Waiting does not help. A connection that is lost while the daemon comes up does not count: it may be that of a
            // daemon that lost the race.
            Sight::Unusable(error)
                if matches!(error.kind, ClientErrorKind::OtherVersion | ClientErrorKind::Refused) =>
            {
                return Err(error.into());
            }
            _ => {}
        }
        if ended.is_none() {
            ended = launched.ended().map(|status| (status, Instant::now()));
        }
        match ended {
            // It says so, with this code, also when another daemon holds the lock.
            Some((status, _)) if status.code() != Some(1) || begun.elapsed() > launched.race_limit() => {
                return Err(launched.failure("the daemon failed to start", Some(status)));
            }
            Some((_, at)) if at.elapsed() > NEXT_LAUNCH => {
                launched = launch(&program, place.named(), log_file()?)?;
                ended = None;
            }
            Some(_) => {}
            None if begun.elapsed() > START_LIMIT => {
                return Err(launched.failure("the daemon was started and does not answer", None));
            }
            None => {}
        }
    }
}

/// Returns true while a process exists and has not ended. In a container an ended one may stay until its parent asks for it.
fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state comes after the name, which may have any letters.
    if stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['Z', 'X'])) {
        return false;
    }
    // The null signal asks only; "not permitted" still means that somebody is there.
    !matches!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None), Err(nix::errno::Errno::ESRCH))
}

/// Waits until a process is gone.
///
/// # Errors
/// When the time runs out.
pub(crate) async fn wait_gone(pid: u32, limit: Duration) -> io::Result<()> {
    let begun = Instant::now();
    let mut pause = PAUSES.0;
    while is_alive(pid) {
        if begun.elapsed() > limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
    Ok(())
}

/// Lines of the log that are shown when a start fails.
const LAST_LINES: usize = 15;

/// Bytes of the log that are read for that.
const LAST_BYTES: u64 = 16 * 1024;

/// Variables that the daemon inherits by name. Everything else of this terminal stays here, because the daemon
/// lives longer than it and serves other clients too.
const INHERITED: [&str; 23] = [
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "MAX_MESSAGE_HISTORY",
    "CANDLE_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "no_proxy",
];

/// Variables that the daemon inherits by the start of their names.
const INHERITED_PREFIXES: [&str; 6] = ["AGENTD_", "MODEL_", "OTEL_", "XDG_", "LC_", "NO_PROXY"];

/// Variables that the daemon inherits by the end of their names: the keys that configuration files refer to.
const INHERITED_SUFFIXES: [&str; 2] = ["_API_KEY", "_BASE_URL"];

/// Variables that hold a path.
const ABSOLUTE: [&str; 2] = ["AGENTD_CONFIG_DIR", "AGENTD_DATA_DIR"];

/// A daemon that is coming up.
#[derive(Debug)]
struct LaunchedDaemon {
    /// None once it was left to itself.
    child: Option<Child>,
    log: PathBuf,
    /// Where the log ended before the start.
    log_start: u64,
}

/// The daemon's program: beside ours, because the two belong together, or else in the search path.
///
/// # Errors
/// When it is in neither place.
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

/// Returns true for a file that can be run.
pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Starts it, at that socket or at the usual one. It is not ready yet when this returns.
///
/// # Errors
/// When the log file cannot be opened or the program cannot be run.
fn launch(program: &Path, socket: Option<&Path>, log: PathBuf) -> Result<LaunchedDaemon, Failure> {
    let failed = |what: &str, error: &io::Error| {
        Failure::unreachable(format!("cannot start the daemon: {what}: {error}"))
            .hint("run `agentctl doctor` to see what is wrong")
    };
    let folder_made =
        log.parent().map_or(Ok(()), |folder| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder));
    let opened = folder_made.and_then(|()| OpenOptions::new().append(true).create(true).mode(0o600).open(&log));
    let file = opened.map_err(|error| {
        failed(&format!("cannot open {}", log.display()), &error)
            .hint("the folder must be writable and its disk not full; AGENTD_DATA_DIR names another one")
    })?;
    let log_start = file.metadata().map_or(0, |meta| meta.len());
    let copy = file.try_clone().map_err(|error| failed("cannot share the log file", &error))?;
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
        // The daemon does not share our current folder, so that relative paths would mean others there.
        .envs(ABSOLUTE.iter().filter_map(|name| Some((name, absolute(env::var_os(name)?).ok()?))))
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy);
    own_session(&mut command);
    let child = command.spawn().map_err(|error| failed(&format!("cannot run {}", program.display()), &error))?;
    Ok(LaunchedDaemon { child: Some(child), log, log_start })
}

/// Has the command leave our session, so that closing the terminal does not end it and Ctrl-C does not reach it.
#[allow(unsafe_code, reason = "a new session can only be made between fork and exec")]
fn own_session(command: &mut Command) {
    // SAFETY: between fork and exec only functions that are safe in signal handlers may be called. setsid is one of
    // them, and the closure calls nothing else: it neither allocates nor takes a lock, and its error is a number.
    unsafe {
        command
            .pre_exec(|| nix::unistd::setsid().map(drop).map_err(|errno| io::Error::from_raw_os_error(errno as i32)));
    }
}

fn is_inherited(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    INHERITED.contains(&name)
        || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || INHERITED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Leaves it to itself. While we live its end is noted, or it would be held to be there by whoever waits for that.
impl Drop for LaunchedDaemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Without the thread it is noted at our end.
            let _ = thread::Builder::new().name("agentctl-daemon".to_owned()).spawn(move || child.wait());
        }
    }
}

impl LaunchedDaemon {
    /// Exit status, once it has ended.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// The time for which it may have ended because another one holds the data folder. One that lives, and whose lock file and
    /// socket were removed, is found again when it has made them anew.
    fn race_limit(&self) -> Duration {
        let lines = last_lines(&self.log, self.log_start).unwrap_or_default();
        let is_held = lines.iter().any(|line| line.contains("agentd is already running"));
        if is_held { FOUND_AGAIN } else { RACE_LIMIT }
    }

    /// Why it did not come up, with the last lines of its log.
    fn failure(&self, what: &str, ended: Option<ExitStatus>) -> Failure {
        let lines = last_lines(&self.log, self.log_start).unwrap_or_default();
        let said = if lines.is_empty() { String::new() } else { format!("; it said:\n  {}", lines.join("\n  ")) };
        let mut failure = Failure::unreachable(format!("{what}{said}"))
            .hint(format!("the whole log is in {}; `agentctl doctor` may find the cause", self.log.display()));
        if ended.and_then(|status| status.code()) == Some(2) {
            // The daemon says so of wrong usage and wrong configuration, and so do we.
            failure.exit = Exit::Usage;
            failure.kind = ErrorKind::Configuration;
        }
        failure
    }
}

/// The last lines that were written to the log since `start`.
fn last_lines(log: &Path, start: u64) -> io::Result<Vec<String>> {
    let mut file = File::open(log)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.min(end).max(end.saturating_sub(LAST_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_ended_is_gone_though_nobody_asked_for_it() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(is_alive(child.id()));
        child.kill().unwrap();
        wait_gone(child.id(), Duration::from_secs(30)).await.expect("it is a zombie");
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
    }

    #[test]
    fn little_is_inherited() {
        for name in ["HOME", "MODEL_BASIC_BASE_URL", "AGENTD_DATA_DIR", "XDG_RUNTIME_DIR", "OPENAI_API_KEY", "LC_ALL"] {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
        for name in ["DISPLAY", "SSH_AUTH_SOCK", "TERM", "LD_PRELOAD", "PWD", "GITHUB_TOKEN", "VIRTUAL_ENV"] {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn only_the_last_lines_since_the_start_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let old = "old\n";
        let new: String = (0..40).map(|line| format!("line {line}\n")).collect();
        fs::write(&log, format!("{old}{new}")).unwrap();
        let lines = last_lines(&log, old.len() as u64).unwrap();
        assert_eq!(lines.len(), LAST_LINES);
        assert_eq!(lines.last().map(String::as_str), Some("line 39"));
        assert!(last_lines(&log, 10_000).unwrap().is_empty());
    }
}
