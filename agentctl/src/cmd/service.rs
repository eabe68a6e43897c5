//! `agentctl service`: runs the daemon as a socket-activated systemd user service. Uses systemd's own programs:
//! `systemctl`, `loginctl` and `journalctl`.
//!
//! - `units`: the two unit files, their state on disk, and the environment file with keys.

mod units;

use std::{
    env,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use clap::{Args, Subcommand};
use serde_json::json;

use self::units::{UnitFile, UnitState};
use crate::{
    daemon::{self, Daemon, DaemonLocation},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report,
    terminal::note,
};

/// Time limit for an idle daemon to exit.
const EXIT_LIMIT: Duration = Duration::from_secs(10);

/// Examples for the help of `service`.
pub(crate) const SERVICE_HELP: &str = "Examples:
  agentctl service install              start the daemon with its first client, from login on
  agentctl service install --linger     … and without a login
  agentctl service install --keys       … with the API keys of this shell
  agentctl service status
  agentctl service logs --follow
  agentctl service uninstall

Needs systemd. Put your own settings in a drop-in (`systemctl --user edit agentd`), which install leaves alone.";

/// The subcommands of `service`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the units, enable the socket and start it
    Install(InstallArgs),
    /// Stop the service and remove the units
    Uninstall {
        /// Remove units that were changed by hand, too
        #[arg(long)]
        force: bool,
    },
    /// Show whether it is installed and running
    Status,
    /// Show the log
    Logs {
        /// Follow the log
        #[arg(long, short)]
        follow: bool,
        /// Lines from the end
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
        lines: u32,
    },
    /// Restart the daemon; interrupted turns can be resumed
    Restart,
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Overwrite units that were changed by hand
    #[arg(long)]
    force: bool,
    /// Keep it running without a login
    #[arg(long, conflicts_with = "no_start")]
    linger: bool,
    /// Write the API keys of this shell into the environment file of the service
    #[arg(long)]
    keys: bool,
    /// Only write the units: nothing is enabled or started
    #[arg(long)]
    no_start: bool,
}

/// Runs the command `agentctl service`.
pub(crate) async fn handle(global: &Global, command: ServiceCommand) -> anyhow::Result<Exit> {
    daemon::refuse_host(global, "service")?;
    match command {
        ServiceCommand::Install(args) => install(global, &args).await,
        ServiceCommand::Uninstall { force } => uninstall(global, force),
        ServiceCommand::Status => status(global),
        ServiceCommand::Logs { follow, lines } => logs(follow, lines),
        ServiceCommand::Restart => restart(global),
    }
}

async fn install(global: &Global, args: &InstallArgs) -> anyhow::Result<Exit> {
    let location = DaemonLocation::of(global)?;
    let program = daemon::program()?;
    if is_in_cache(&program) {
        let hint = "install the programs permanently: uv tool install agentctl, or pipx install agentctl";
        anyhow::bail!(Failure::usage(format!("{} is in a cache, and may be deleted", program.display())).hint(hint));
    }
    let units = units::render(&program, location.named(), &units::environment_file()?)?;
    let folder = units::folder()?;
    if !args.force {
        units.iter().try_for_each(|unit| unit.refuse_changed(&folder))?;
    }
    if !args.no_start {
        check_manager()?;
        stop_unmanaged_daemon(global).await?;
    }
    let mut changed = Vec::new();
    for unit in &units {
        let is_new = unit.write(&folder)?;
        changed.extend(is_new.then_some(unit.name));
        let verb = if is_new { "wrote" } else { "unchanged:" };
        note(&format!("{verb} {}", folder.join(unit.name).display()));
    }
    let keys = if args.keys { units::write_keys()? } else { Vec::new() };
    if args.keys {
        note(&match keys.is_empty() {
            true => "no API key is set in this shell".to_owned(),
            false => format!("{} now in {}", keys.join(", "), units::environment_file()?.display()),
        });
    }
    let value = json!({
        "units": folder, "changed": changed, "keys": keys, "socket": location.socket(), "started": !args.no_start,
    });
    if args.no_start {
        let text = "nothing was started: systemctl --user daemon-reload, then enable --now agentd.socket";
        return report::note(global.json, &value, text);
    }
    control(&["daemon-reload"])?;
    start(&changed, !keys.is_empty())?;
    if args.linger {
        run("loginctl", &["enable-linger"])?;
    }
    note_logout();
    report::note(global.json, &value, "installed; the first client starts the daemon")
}

fn note_logout() {
    if let Some((text, hint)) = lingering_note() {
        note(&format!("{text}; {hint}"));
    }
}

/// Returns a note and a hint if the installed service stops at logout.
pub(crate) fn logout_note() -> Option<(&'static str, &'static str)> {
    let is_installed = check_manager().and_then(|()| has_unit(units::SOCKET)).unwrap_or_default();
    lingering_note().filter(|_| is_installed)
}

/// Starts the socket. A running daemon continues unless its unit was changed; it reads new keys only at its next start.
fn start(changed: &[&str], has_new_keys: bool) -> Result<(), Failure> {
    let runs = property(units::SERVICE, "ActiveState")? == "active";
    if changed.contains(&units::SOCKET) {
        // Stopped first, because an active socket remains bound to its old path.
        control(&["stop", units::SERVICE, units::SOCKET])?;
    } else if changed.contains(&units::SERVICE) && runs {
        control(&["restart", units::SERVICE])?;
    } else if has_new_keys && runs {
        note("the running daemon uses the keys after: agentctl service restart");
    }
    control(&["enable", "--now", units::SOCKET])
}

/// Returns true if a program is in the cache of a tool such as `uvx`, which may remove the program.
fn is_in_cache(program: &Path) -> bool {
    let caches = ["XDG_CACHE_HOME", "UV_CACHE_DIR"].into_iter().filter_map(|name| env::var_os(name).map(PathBuf::from));
    let default_cache = env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    caches.chain(default_cache).any(|cache| cache.is_absolute() && program.starts_with(cache))
}

/// Stops an idle daemon that was not started by systemd, because it blocks the socket. A busy daemon is an error.
async fn stop_unmanaged_daemon(global: &Global) -> anyhow::Result<()> {
    let Some(Daemon { client, .. }) = daemon::connect_running(global).await? else { return Ok(()) };
    let status = client.status().await?;
    if property(units::SERVICE, "MainPID")? == status.pid.to_string() {
        return Ok(());
    }
    if status.running_turns > 0 {
        return Err(Failure::usage(format!("a daemon not started by systemd is running (pid {})", status.pid))
            .hint("agentctl stop lets its turns finish; then install again")
            .into());
    }
    let pid = client.stop(Some(Duration::ZERO)).await?;
    if daemon::wait_for_exit(pid, EXIT_LIMIT).await.is_err() {
        return Err(Failure::unreachable(format!("the running daemon did not stop when requested (pid {pid})"))
            .hint("agentctl stop; then install again")
            .into());
    }
    note("stopped the daemon that ran without the service; pending questions stay open");
    Ok(())
}

fn uninstall(global: &Global, force: bool) -> anyhow::Result<Exit> {
    let folder = units::folder()?;
    let present: Vec<UnitFile> =
        UnitFile::all().into_iter().filter(|unit| unit.state(&folder) != UnitState::Absent).collect();
    if !force {
        present.iter().try_for_each(|unit| unit.refuse_foreign(&folder))?;
    }
    if present.is_empty() {
        return report::note(global.json, &json!({ "removed": false }), "no service was installed by agentctl");
    }
    let manager = check_manager();
    match &manager {
        Ok(()) => {
            let names: Vec<&str> = present.iter().map(|unit| unit.name).collect();
            control(&[&["disable", "--now"][..], &names].concat())?;
        }
        Err(error) if force => note(&format!("only the files are removed: {error}")),
        // The service may be running, and would continue without unit files.
        Err(error) => return Err(error.clone().hint("--force removes only the files").into()),
    }
    present.iter().try_for_each(|unit| unit.remove(&folder))?;
    if manager.is_ok() {
        control(&["daemon-reload"])?;
    }
    report::note(global.json, &json!({ "removed": true }), "removed; sessions, configuration and keys are unchanged")
}

fn status(global: &Global) -> anyhow::Result<Exit> {
    let folder = units::folder()?;
    let units: Vec<_> = UnitFile::all().iter().map(|unit| (unit.name, unit.state(&folder))).collect();
    let manager = check_manager();
    let of = |unit: &str, name: &str| manager.clone().and_then(|()| property(unit, name));
    let is_known = manager.is_ok() && has_unit(units::SOCKET).unwrap_or_default();
    if !is_known && units.iter().all(|(_, state)| *state == UnitState::Absent) {
        report::note(global.json, &json!({ "installed": false }), "no service is installed: agentctl service install")?;
        return Ok(Exit::Unreachable);
    }
    let value = |unit: &str, name: &str| of(unit, name).unwrap_or_else(|_| "unknown".to_owned());
    let (socket, enabled) = (value(units::SOCKET, "ActiveState"), value(units::SOCKET, "UnitFileState"));
    let (service, pid) = (value(units::SERVICE, "ActiveState"), value(units::SERVICE, "MainPID"));
    let pid = pid.parse::<u32>().ok().filter(|pid| *pid > 0);
    // Units from a package are installed in another folder.
    let path = |name: &str| of(name, "FragmentPath").unwrap_or_default();
    let files: Vec<_> =
        units.iter().map(|(name, state)| json!({ "name": name, "state": state, "path": path(name) })).collect();
    let value = json!({
        "installed": true, "units": files, "socket": socket, "enabled": enabled, "service": service, "pid": pid,
        "problem": manager.as_ref().err().map(ToString::to_string),
        "stops_at_logout": lingering_note().is_some(),
    });
    report::show(global.json, &value, || {
        let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        report::lines([format!("socket   {socket}, {enabled}"), format!("service  {service}{pid}")])?;
        report::lines(units.iter().map(|(name, state)| match (state, path(name)) {
            (UnitState::Absent, path) if !path.is_empty() => format!("unit     {}", display(Path::new(&path))),
            _ => format!("unit     {name}: {}", state.description()),
        }))?;
        if let Err(error) = &manager {
            note(&error.to_string());
        }
        note_logout();
        Ok(())
    })
}

fn logs(follow: bool, lines: u32) -> anyhow::Result<Exit> {
    if !check_manager().and_then(|()| has_unit(units::SERVICE)).unwrap_or_default() {
        let log = daemon::log_file()?;
        let hint = format!("a daemon that agentctl started logs to {}", display(&log));
        anyhow::bail!(Failure::usage("no service is installed").hint(hint));
    }
    let mut command = Command::new("journalctl");
    command.args(["--user", "--unit", units::SERVICE, "--lines", &lines.to_string()]);
    if follow {
        command.arg("--follow");
    } else if !io::stdout().is_terminal() {
        command.arg("--no-pager");
    }
    let status = command.status().map_err(|error| run_error("journalctl", &error))?;
    Ok(if status.success() { Exit::Done } else { Exit::Failed })
}

fn restart(global: &Global) -> anyhow::Result<Exit> {
    check_manager()?;
    if !has_unit(units::SERVICE)? {
        anyhow::bail!(Failure::usage("no service is installed").hint("agentctl service install"));
    }
    control(&["restart", units::SERVICE])?;
    report::note(global.json, &json!({ "restarted": true }), "restarted")
}

fn display(path: &Path) -> String {
    agentd_core::visible::line(&path.display().to_string())
}

const SYSTEMCTL: &str = "systemctl";

/// Checks that the systemd user manager can be reached.
///
/// # Errors
/// Fails if this machine has no systemd, or this user has no manager.
fn check_manager() -> Result<(), Failure> {
    run(SYSTEMCTL, &["--user", "show", "--property=Version"]).map(drop)
}

/// Runs `systemctl --user` with these arguments.
///
/// # Errors
/// Fails if the command fails. The message is the command's output.
fn control(args: &[&str]) -> Result<(), Failure> {
    run(SYSTEMCTL, &[&["--user"], args].concat()).map(drop)
}

/// Returns true if the manager has loaded a unit with this name.
///
/// # Errors
/// Fails if the manager cannot be reached.
fn has_unit(unit: &str) -> Result<bool, Failure> {
    Ok(property(unit, "LoadState")? == "loaded")
}

/// Returns the value of a unit's property, or an empty text if it is unknown.
///
/// # Errors
/// Fails if the manager cannot be reached.
fn property(unit: &str, property: &str) -> Result<String, Failure> {
    let name = format!("--property={property}");
    Ok(run(SYSTEMCTL, &["--user", "show", "--value", &name, unit])?.trim().to_owned())
}

/// Returns a note if this user's units stop at the last logout. Returns `None` if they do not, or if that is unknown.
fn lingering_note() -> Option<(&'static str, &'static str)> {
    let user = nix::unistd::getuid().to_string();
    let lingers = run("loginctl", &["show-user", &user, "--property=Linger", "--value"]).ok()?;
    (lingers.trim() == "no")
        .then_some(("the service stops when you log out", "loginctl enable-linger keeps it running"))
}

fn run(program: &str, args: &[&str]) -> Result<String, Failure> {
    let Output { status, stdout, stderr } =
        Command::new(program).args(args).output().map_err(|error| run_error(program, &error))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let output = String::from_utf8_lossy(&stderr);
    let failure = Failure::unreachable(format!("{program} {}: {}", args.join(" "), output.trim()));
    let has_no_session = output.contains("Failed to connect to") || output.contains("not been booted with systemd");
    Err(if has_no_session {
        failure.hint(
            "this user has no systemd session: log in as this user (ssh, `machinectl shell USER@`), or set \
             XDG_RUNTIME_DIR=/run/user/UID; in a container, use `agentctl start`",
        )
    } else {
        failure.hint("agentctl service status; journalctl --user -u agentd")
    })
}

fn run_error(program: &str, error: &io::Error) -> Failure {
    Failure::unreachable(format!("could not run {program}: {error}"))
        .hint("a service requires systemd; without it, `agentctl start` starts the daemon")
}
