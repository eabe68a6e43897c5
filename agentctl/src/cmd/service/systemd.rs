//! The programs of systemd: its manager of this user's units, its logins and its journal.

use std::{
    io::{self, IsTerminal as _},
    process::{Command, Output},
};

use crate::{exit::Exit, failure::Failure};

const SYSTEMCTL: &str = "systemctl";

/// The units of this user, as systemd manages them.
pub(super) struct UserUnits(());

/// A property of a unit, in the words of systemd.
#[derive(Debug, Clone, Copy)]
pub(super) enum Property {
    ActiveState,
    FragmentPath,
    LoadState,
    MainPid,
    UnitFileState,
}

impl Property {
    fn name(self) -> &'static str {
        match self {
            Self::ActiveState => "ActiveState",
            Self::FragmentPath => "FragmentPath",
            Self::LoadState => "LoadState",
            Self::MainPid => "MainPID",
            Self::UnitFileState => "UnitFileState",
        }
    }
}

impl UserUnits {
    /// Connects to the manager.
    ///
    /// # Errors
    /// When this machine has no systemd, or this user no manager.
    pub(super) fn reach() -> Result<Self, Failure> {
        run(SYSTEMCTL, &["--user", "show", "--property=Version"])?;
        Ok(Self(()))
    }

    /// Runs `systemctl --user` with these arguments.
    ///
    /// # Errors
    /// When that failed, in its own words.
    pub(super) fn control(&self, args: &[&str]) -> Result<(), Failure> {
        run(SYSTEMCTL, &[&["--user"], args].concat()).map(drop)
    }

    /// Returns whether it knows a unit of that name.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub(super) fn knows(&self, unit: &str) -> Result<bool, Failure> {
        Ok(self.property(unit, Property::LoadState)? == "loaded")
    }

    /// Value of a property of a unit; empty where nothing is known.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub(super) fn property(&self, unit: &str, property: Property) -> Result<String, Failure> {
        let name = format!("--property={}", property.name());
        Ok(run(SYSTEMCTL, &["--user", "show", "--value", &name, unit])?.trim().to_owned())
    }

    /// Has it run also while the user is not logged in.
    ///
    /// # Errors
    /// When that is not allowed.
    pub(super) fn linger(&self) -> Result<(), Failure> {
        run("loginctl", &["enable-linger"]).map(drop)
    }
}

/// Note where the units of this user end at the last logout; none where they do not, or nothing says so.
pub(super) fn logout_note() -> Option<(&'static str, &'static str)> {
    let user = nix::unistd::getuid().to_string();
    let lingers = run("loginctl", &["show-user", &user, "--property=Linger", "--value"]).ok()?;
    (lingers.trim() == "no")
        .then_some(("the service stops when you log out", "loginctl enable-linger keeps it running"))
}

/// Shows the journal of a unit, in the terminal of the person.
///
/// # Errors
/// When there is no journal.
pub(super) fn show_log(unit: &str, follow: bool, lines: u32) -> anyhow::Result<Exit> {
    let mut command = Command::new("journalctl");
    command.args(["--user", "--unit", unit, "--lines", &lines.to_string()]);
    if follow {
        command.arg("--follow");
    } else if !io::stdout().is_terminal() {
        command.arg("--no-pager");
    }
    let status = command.status().map_err(|error| missing("journalctl", &error))?;
    Ok(match status.code() {
        Some(0) => Exit::Done,
        _ => Exit::Failed,
    })
}

fn run(program: &str, args: &[&str]) -> Result<String, Failure> {
    let Output { status, stdout, stderr } =
        Command::new(program).args(args).output().map_err(|error| missing(program, &error))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&stderr);
    let failure = Failure::unreachable(format!("{program} {}: {}", args.join(" "), said.trim()));
    let is_alone = said.contains("Failed to connect to") || said.contains("not been booted with systemd");
    Err(if is_alone {
        failure.hint(
            "this user has no systemd here: log in by a session of its own (ssh, `machinectl shell USER@`), or set \
             XDG_RUNTIME_DIR=/run/user/UID; in a container, `agentctl start` does without",
        )
    } else {
        failure.hint("agentctl service status; journalctl --user -u agentd")
    })
}

fn missing(program: &str, error: &io::Error) -> Failure {
    Failure::unreachable(format!("cannot run {program}: {error}"))
        .hint("a service needs systemd; without it, `agentctl start` starts the daemon")
}
