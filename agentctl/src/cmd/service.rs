//! `agentctl service`: the daemon as a user service of systemd, started by its socket.
//!
//! - `units`: the two units, and what became of them on the disk; `systemd`: its programs; `environment`: the file of keys that the
//!   service reads.

mod environment;
mod systemd;
mod units;

use std::{path::Path, time::Duration};

use clap::{Args, Subcommand};
use serde_json::json;

use self::{
    systemd::{Property, UserUnits},
    units::{UnitFile, UnitState},
};
use crate::{
    daemon::{self, Daemon, DaemonPlace},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report,
};

/// Time limit for a daemon without work to be gone.
const ENDING: Duration = Duration::from_secs(10);

/// The arguments of `service`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl service install              start the daemon with its first client, from login on
  agentctl service install --linger     … and without a login
  agentctl service install --keys       … with the API keys of this shell
  agentctl service status
  agentctl service logs --follow
  agentctl service uninstall

Needs systemd. Own settings belong into a drop-in (`systemctl --user edit agentd`), which install leaves alone.")]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Write the units, enable the socket and start it
    Install(InstallArgs),
    /// Stop the service and remove the units
    Uninstall(UninstallArgs),
    /// Show whether it is installed and running
    Status,
    /// Show the log
    Logs(LogsArgs),
    /// Restart the daemon; interrupted turns can be resumed
    Restart,
}

#[derive(Debug, Args)]
struct InstallArgs {
    /// Overwrite units that were changed by hand
    #[arg(long)]
    force: bool,
    /// Run it also while nobody is logged in
    #[arg(long)]
    linger: bool,
    /// Write the API keys of this shell into the environment file of the service
    #[arg(long)]
    keys: bool,
    /// Only write the units: nothing is enabled or started
    #[arg(long)]
    no_start: bool,
}

#[derive(Debug, Args)]
struct UninstallArgs {
    /// Remove units that were changed by hand, too
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct LogsArgs {
    /// Go on with what is logged from now on
    #[arg(long, short)]
    follow: bool,
    /// Lines from the end
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    lines: u32,
}

/// Does it.
pub(crate) async fn handle(global: &Global, args: ServiceArgs) -> anyhow::Result<Exit> {
    match args.command {
        ServiceCommand::Install(args) => install(global, &args).await,
        ServiceCommand::Uninstall(args) => uninstall(global, &args),
        ServiceCommand::Status => status(global),
        ServiceCommand::Logs(LogsArgs { follow, lines }) => logs(follow, lines),
        ServiceCommand::Restart => restart(global),
    }
}

async fn install(global: &Global, args: &InstallArgs) -> anyhow::Result<Exit> {
    let place = DaemonPlace::of(global)?;
    let program = daemon::program()?;
    let units = units::rendered(&program, place.named(), &environment::path()?)?;
    let folder = units::folder()?;
    if !args.force {
        units.iter().try_for_each(|unit| unit.refuse_changed(&folder))?;
    }
    let manager = if args.no_start { None } else { Some(UserUnits::reach()?) };
    if let Some(manager) = &manager {
        make_way(global, manager).await?;
    }
    let mut changed = false;
    for unit in &units {
        let is_new = unit.write(&folder)?;
        changed |= is_new;
        let what = if is_new { "wrote" } else { "unchanged:" };
        crate::terminal::note(&format!("{what} {}", folder.join(unit.name).display()));
    }
    if args.keys {
        let kept = environment::keep()?;
        crate::terminal::note(&match kept.is_empty() {
            true => "no API key is set in this shell".to_owned(),
            false => format!("{} now in {}", kept.join(", "), environment::path()?.display()),
        });
    }
    let Some(manager) = manager else {
        crate::terminal::note("nothing was started: systemctl --user daemon-reload, then enable --now agentd.socket");
        return Ok(Exit::Done);
    };
    if args.linger {
        manager.linger()?;
    }
    manager.control(&["daemon-reload"])?;
    if changed && manager.property(units::SERVICE, Property::ActiveState)? == "active" {
        manager.control(&["restart", units::SERVICE])?;
    }
    manager.control(&["enable", "--now", units::SOCKET])?;
    report::note(
        global.json,
        &json!({ "units": folder, "changed": changed, "socket": place.socket(), "linger": args.linger }),
        "installed; the first client starts the daemon",
    )
}

/// Ends a daemon that systemd did not start: it has the socket. One that works is left alone.
async fn make_way(global: &Global, manager: &UserUnits) -> anyhow::Result<()> {
    let Some(Daemon { client, .. }) = daemon::connect_running(global).await? else { return Ok(()) };
    let status = client.status().await?;
    if manager.property(units::SERVICE, Property::MainPid)? == status.pid.to_string() {
        return Ok(());
    }
    if status.running_turns > 0 {
        return Err(Failure::usage(format!("a daemon that systemd did not start is at work (pid {})", status.pid))
            .hint("agentctl stop lets its turns finish; then install again")
            .into());
    }
    let pid = client.stop(Some(Duration::ZERO)).await?;
    if daemon::wait_gone(pid, ENDING).await.is_err() {
        return Err(Failure::unreachable(format!("the daemon that ran was asked to stop and did not (pid {pid})"))
            .hint("agentctl stop; then install again")
            .into());
    }
    crate::terminal::note("stopped the daemon that ran without the service; what waits for an answer waits on");
    Ok(())
}

fn uninstall(global: &Global, args: &UninstallArgs) -> anyhow::Result<Exit> {
    let folder = units::folder()?;
    let known = UnitFile::all();
    if !args.force {
        known.iter().try_for_each(|unit| unit.refuse_foreign(&folder))?;
    }
    if known.iter().all(|unit| unit.state(&folder) == UnitState::Absent) {
        return report::note(global.json, &json!({ "removed": false }), "no service is installed");
    }
    // Without systemd nothing runs that it would have to stop.
    match UserUnits::reach() {
        Ok(manager) => manager.control(&["disable", "--now", units::SOCKET, units::SERVICE])?,
        Err(error) => crate::terminal::note(&format!("only the files are removed: {error}")),
    }
    known.iter().try_for_each(|unit| unit.remove(&folder))?;
    if let Ok(manager) = UserUnits::reach() {
        manager.control(&["daemon-reload"])?;
    }
    report::note(
        global.json,
        &json!({ "removed": true }),
        "removed; sessions, configuration and keys are where they were",
    )
}

fn status(global: &Global) -> anyhow::Result<Exit> {
    let folder = units::folder()?;
    let units: Vec<_> = UnitFile::all().iter().map(|unit| (unit.name, unit.state(&folder))).collect();
    let manager = UserUnits::reach();
    let of = |unit: &str, property: Property| match &manager {
        Ok(manager) => manager.property(unit, property),
        Err(error) => Err(error.clone()),
    };
    let is_known = of(units::SOCKET, Property::LoadState).is_ok_and(|state| state == "loaded");
    let is_installed = is_known || units.iter().any(|(_, state)| *state != UnitState::Absent);
    if !is_installed {
        report::note(global.json, &json!({ "installed": false }), "no service is installed: agentctl service install")?;
        return Ok(Exit::Unreachable);
    }
    let told = |unit: &str, property| of(unit, property).unwrap_or_else(|_| "unknown".to_owned());
    let (socket, enabled) = (told(units::SOCKET, Property::ActiveState), told(units::SOCKET, Property::UnitFileState));
    let (service, pid) = (told(units::SERVICE, Property::ActiveState), told(units::SERVICE, Property::MainPid));
    let pid = pid.parse::<u32>().ok().filter(|pid| *pid > 0);
    let files: Vec<_> = units.iter().map(|(name, state)| json!({ "name": name, "state": state.word() })).collect();
    let value = json!({
        "installed": true, "units": files, "socket": socket, "enabled": enabled, "service": service, "pid": pid,
        "problem": manager.as_ref().err().map(ToString::to_string),
    });
    report::show(global.json, &value, || {
        let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        report::lines([format!("socket   {socket}, {enabled}"), format!("service  {service}{pid}")])?;
        report::lines(units.iter().map(|(name, state)| format!("unit     {}: {}", name, state.words())))?;
        if let Err(error) = &manager {
            crate::terminal::note(&error.to_string());
        }
        Ok(())
    })
}

fn logs(follow: bool, lines: u32) -> anyhow::Result<Exit> {
    let is_service =
        UnitFile::all().iter().any(|unit| units::folder().is_ok_and(|folder| unit.state(&folder) != UnitState::Absent));
    if !is_service {
        let log = daemon::log_file()?;
        return Err(Failure::usage("no service is installed")
            .hint(format!("a daemon that agentctl started logs to {}", display(&log)))
            .into());
    }
    systemd::show_log(units::SERVICE, follow, lines)
}

fn restart(global: &Global) -> anyhow::Result<Exit> {
    let manager = UserUnits::reach()?;
    if manager.property(units::SERVICE, Property::LoadState)? != "loaded" {
        return Err(Failure::usage("no service is installed").hint("agentctl service install").into());
    }
    manager.control(&["restart", units::SERVICE])?;
    report::note(global.json, &json!({ "restarted": true }), "restarted")
}

fn display(path: &Path) -> String {
    agentd_core::visible::line(&path.display().to_string())
}
