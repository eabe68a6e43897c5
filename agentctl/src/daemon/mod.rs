//! The way to the daemon: where it is, how it is reached, and how it is started when none runs.
//!
//! - [`launch`]: starts the program `agentd`.
//! - [`place`]: where it is, and the built-in model's file.
//! - [`shell`]: what this shell's environment says, beside what it was started with.

mod launch;
mod place;
mod shell;

use std::{
    collections::HashMap,
    env, io,
    path::{Path, PathBuf, absolute},
    time::{Duration, Instant},
};

use agentd_core::{
    environment::ClientEnvironment,
    model::Slot,
    turn::{OnInterrupt, StartTurn},
};
use agentd_proto::client::{Client, ClientError, ClientErrorKind};

use crate::{failure::Failure, flags::Global};

pub(crate) use launch::program;
pub(crate) use place::{DaemonPlace, Sight, Versions, Weights, is_same_folder, silent};
pub(crate) use shell::ShellNote;

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
        match env::current_dir().and_then(std::fs::canonicalize) {
            Ok(folder) => self.environment_in(&folder),
            Err(_) => self.environment_in_no_folder(),
        }
    }

    /// The same with this folder in place of the client's.
    pub(crate) fn environment_in(&self, folder: &Path) -> ClientEnvironment {
        self.environment_in_no_folder().in_folder(&self.client.hello().environment, folder)
    }

    fn environment_in_no_folder(&self) -> ClientEnvironment {
        let wanted = &self.client.hello().environment;
        let variables =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let variables = variables.filter(|(name, _)| ClientEnvironment::is_wanted(wanted, name));
        ClientEnvironment::unjudged(variables)
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
        match place.look(Versions::Ours).await {
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

/// Starts the daemon again that a client has lost, if nobody else does.
///
/// # Errors
/// When it cannot be started.
pub(crate) async fn start_again(place: &DaemonPlace) -> Result<(), Failure> {
    start(place.clone()).await.map(drop)
}

/// Starts a daemon and waits until it answers. Two clients may do so at once: the daemon's lock lets one of the two
/// live, and both clients reach that one. The lock may also be that of a daemon which is ending: then nobody answers,
/// and another one is started.
async fn start(place: DaemonPlace) -> Result<Daemon, Failure> {
    let program = launch::program()?;
    let mut launched = launch::launch(&program, place.named(), log_file()?)?;
    let begun = Instant::now();
    let mut pause = PAUSES.0;
    let mut ended = None;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
        match place.look(Versions::Ours).await {
            Sight::Reached(client, socket) => return Ok(Daemon { client, place, socket, started: true }),
            Sight::Unusable(error) if is_permanent(&error) => return Err(error.into()),
            _ => {}
        }
        if ended.is_none() {
            ended = launched.ended().map(|status| (status, Instant::now()));
        }
        match ended {
            // It says so, with this code, also when another daemon holds the lock.
            Some((status, _)) if status.code() != Some(1) || begun.elapsed() > race_limit(&launched) => {
                return Err(launched.failure("the daemon failed to start", Some(status)));
            }
            Some((_, at)) if at.elapsed() > NEXT_LAUNCH => {
                launched = launch::launch(&program, place.named(), log_file()?)?;
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

/// One that lives, and whose lock file and socket were removed, is found again when it has made them anew.
fn race_limit(launched: &launch::LaunchedDaemon) -> Duration {
    if launched.lost_to_another() { FOUND_AGAIN } else { RACE_LIMIT }
}

/// Returns whether waiting does not help. A connection that is lost while the daemon comes up does not count: it may be
/// that of a daemon that lost the race.
fn is_permanent(error: &ClientError) -> bool {
    matches!(error.kind, ClientErrorKind::OtherVersion | ClientErrorKind::Refused)
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
}
