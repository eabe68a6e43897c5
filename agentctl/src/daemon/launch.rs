//! Starts a daemon that outlives us: its own session, nothing of our terminal, a small environment, a log file.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::{
        fs::{DirBuilderExt as _, OpenOptionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf, absolute},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
};

use crate::failure::Failure;

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
pub(crate) struct LaunchedDaemon {
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

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Starts it, at that socket or at the usual one. It is not ready yet when this returns.
///
/// # Errors
/// When the log file cannot be opened or the program cannot be run.
pub(crate) fn launch(program: &Path, socket: Option<&Path>, log: PathBuf) -> Result<LaunchedDaemon, Failure> {
    let failed = |what: &str, error: &io::Error| {
        Failure::unreachable(format!("cannot start the daemon: {what}: {error}"))
            .hint("run `agentctl doctor` to see what is wrong")
    };
    let file = open_log(&log).map_err(|error| {
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

fn open_log(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
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
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// True if it ended because another one holds the data folder.
    pub(crate) fn lost_to_another(&self) -> bool {
        let lines = last_lines(&self.log, self.log_start).unwrap_or_default();
        lines.iter().any(|line| line.contains("agentd is already running"))
    }

    /// Why it did not come up, with the last lines of its log.
    pub(crate) fn failure(&self, what: &str, ended: Option<ExitStatus>) -> Failure {
        let lines = last_lines(&self.log, self.log_start).unwrap_or_default();
        let failure = Failure::unreachable(if lines.is_empty() {
            what.to_owned()
        } else {
            format!("{what}; it said:\n  {}", lines.join("\n  "))
        });
        let log = self.log.display();
        let mut failure = failure.hint(format!("the whole log is in {log}; `agentctl doctor` may find the cause"));
        if ended.and_then(|status| status.code()) == Some(2) {
            // The daemon says so of wrong usage and wrong configuration, and so do we.
            failure.exit = crate::exit::Exit::Usage;
            failure.kind = agentd_core::error::ErrorKind::Configuration;
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

    #[test]
    fn a_daemon_that_dies_at_once_tells_why() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("agentd");
        fs::write(&program, "#!/bin/sh\necho agentd: error: bad key in models.yaml >&2\nexit 2\n").unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let log = folder.path().join("logs/agentd.log");
        let mut launched = launch(&program, Some(&folder.path().join("sock")), log).unwrap();
        let status = launched.child.as_mut().unwrap().wait().unwrap();
        assert!(launched.ended().is_some());
        let failure = launched.failure("the daemon ended", Some(status));
        assert_eq!(failure.exit, crate::exit::Exit::Usage);
        assert!(failure.message.contains("bad key in models.yaml"), "{failure}");
    }
}
