//! `agentctl doctor`: checks the installation, and says what to do about what is wrong.

mod models;

use std::{
    env,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::Command,
};

use agentd_core::{error::ErrorKind, model::Slot};
use agentd_proto::{
    client::{Finding, LanguageServer},
    packaged,
};
use clap::Args;
use serde::Serialize;

use crate::{
    cmd::service::logout_note,
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report,
    terminal::sanitize,
};

/// The size of what is written to see whether a disk takes it, in bytes: about what a small turn needs.
const TRIAL_BYTES: usize = 64 << 10;

/// The arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl doctor
  agentctl doctor --json | jq '.[] | select(.state != \"ok\")'

The exit code is 0 if nothing failed, 3 if the daemon cannot be reached, otherwise 2. \
Starts the daemon if it is not running.")]
pub(crate) struct DoctorArgs {}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Fail,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, state: State::Ok, message: message.into(), hint: None }
    }

    fn warn(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, state: State::Warn, message: message.into(), hint: Some(hint.into()) }
    }

    fn fail(name: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { state: State::Fail, ..Self::warn(name, message, hint) }
    }

    fn failure(name: &'static str, failure: &Failure) -> Self {
        Self { name, state: State::Fail, message: failure.message.clone(), hint: failure.hint.clone() }
    }
}

/// Checks. What can be known without the daemon comes first, because it tells why there may be none.
pub(crate) async fn handle(global: &Global, _: DoctorArgs) -> anyhow::Result<Exit> {
    let mut checks = vec![bash(), configuration(), data_folder(), log_folder()];
    let daemon = daemon::connect(global).await;
    match &daemon {
        Ok(daemon) => {
            checks.push(reached(daemon));
            checks.extend([socket(&daemon.socket)]);
            let shell = daemon.shell_notes(is_builtin(daemon).await);
            checks.extend(shell.into_iter().map(|note| Check::warn("environment", note.message, note.hint)));
            let is_told = checks.iter().any(|check| check.name == "data" && check.state == State::Fail);
            checks.extend(kept(daemon, is_told).await);
            checks.extend(sandbox(daemon).await);
            checks.extend(recognition(daemon));
            checks.extend(logout_note().map(|(note, hint)| Check::warn("service", note, hint)));
            checks.extend(language_servers(daemon).await);
            checks.extend(models::checks(daemon).await);
        }
        Err(failure) => checks.push(Check::failure("daemon", failure)),
    }
    report::show(global.json, &checks, || print(&checks))?;
    Ok(match daemon {
        Err(failure) => failure.exit,
        Ok(_) if checks.iter().any(|check| check.state == State::Fail) => Exit::Usage,
        Ok(_) => Exit::Done,
    })
}

fn print(checks: &[Check]) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    for check in checks {
        let state = match check.state {
            State::Ok => "\x1b[32mok  \x1b[0m",
            State::Warn => "\x1b[33mwarn\x1b[0m",
            State::Fail => "\x1b[31mfail\x1b[0m",
        };
        let message = sanitize::clean(&check.message);
        let mut lines = message.lines();
        writeln!(out, "{state} {:<13} {}", check.name, lines.next().unwrap_or_default())?;
        for line in lines {
            writeln!(out, "     {:<13} {line}", "")?;
        }
        for line in check.hint.iter().flat_map(|hint| hint.lines()) {
            writeln!(out, "     {:<13} hint: {}", "", sanitize::clean(line))?;
        }
    }
    Ok(())
}

fn bash() -> Check {
    let found = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join("bash"))
        .find(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0));
    match found {
        Some(path) => Check::ok("bash", path.display().to_string()),
        None => Check::warn("bash", "bash is not in PATH", "install bash, or run_bash_command cannot run commands"),
    }
}

/// Has the daemon's own program read the configuration: it knows best what is wrong with it.
fn configuration() -> Check {
    const NAME: &str = "config";
    let program = match daemon::program() {
        Ok(program) => program,
        Err(failure) => return Check::failure(NAME, &failure),
    };
    let folder = daemon::config_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
    match Command::new(&program).arg("--check-config").output() {
        Ok(output) if output.status.success() && !output.stderr.trim_ascii().is_empty() => Check::warn(
            NAME,
            String::from_utf8_lossy(&output.stderr).trim(),
            format!("everything else works; correct it in {folder}, then `agentctl reload`"),
        ),
        Ok(output) if output.status.success() => Check::ok(NAME, format!("no errors ({folder})")),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Check::fail(
                NAME,
                said.trim(),
                format!("correct it, then look again with `agentd --check-config` ({folder})"),
            )
        }
        Err(error) => Check::fail(NAME, format!("cannot run {}: {error}", program.display()), "install it again"),
    }
}

fn data_folder() -> Check {
    match daemon::data_dir() {
        Ok(folder) => folder_check("data", &folder),
        Err(failure) => Check::failure("data", &failure),
    }
}

fn log_folder() -> Check {
    match daemon::log_file() {
        Ok(file) => folder_check("log", file.parent().unwrap_or(&file)),
        Err(failure) => Check::failure("log", &failure),
    }
}

fn folder_check(name: &'static str, folder: &Path) -> Check {
    let shown = folder.display();
    let fail = |what: &str, hint: &str| Check::fail(name, format!("{shown} {what}"), hint);
    let keep = format!("keep it to yourself: chmod 700 {shown}");
    let Ok(meta) = folder.metadata() else {
        return Check::ok(name, format!("{shown} does not exist yet; it is created when needed"));
    };
    if !meta.is_dir() {
        return fail("is not a folder", "move it away, or set AGENTD_DATA_DIR");
    }
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        return fail("belongs to another user", "set AGENTD_DATA_DIR to a folder of yours");
    }
    if nix::unistd::access(folder, nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK).is_err() {
        return fail("cannot be written", &format!("make it writable: chmod u+rwx {shown}"));
    }
    if let Err(error) = try_to_write(folder) {
        return fail(
            &format!("takes no write: {error}"),
            "free some space on its disk; `agentctl sessions delete` works on a full disk too, and sessions can be read",
        );
    }
    if meta.mode() & 0o002 != 0 || meta.mode() & 0o020 != 0 && meta.gid() != nix::unistd::getegid().as_raw() {
        return Check::fail(name, format!("others may write to {shown}, so it is not used"), keep);
    }
    if meta.mode() & 0o077 != 0 {
        return Check::warn(name, format!("others may look into {shown}"), keep);
    }
    Check::ok(name, shown.to_string())
}

/// Writes a little, and takes it away again.
fn try_to_write(folder: &Path) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".trial-").tempfile_in(folder)?;
    file.write_all(&[0; TRIAL_BYTES])?;
    file.as_file().sync_data()
}

fn socket(path: &Path) -> Check {
    const NAME: &str = "socket";
    let shown = path.display();
    let Ok(meta) = path.symlink_metadata() else {
        return Check::fail(NAME, format!("{shown} is gone"), "the daemon makes it again in a few seconds");
    };
    let folder_mode = path.parent().and_then(|folder| folder.metadata().ok()).map(|meta| meta.mode() & 0o7777);
    if meta.mode() & 0o177 != 0 {
        return Check::fail(NAME, format!("others may use {shown}"), format!("chmod 600 {shown}"));
    }
    match folder_mode {
        Some(mode) if mode & 0o022 != 0 && mode & 0o1000 == 0 => {
            Check::fail(NAME, format!("others may replace {shown}"), "its folder must not be writable for others")
        }
        _ => Check::ok(NAME, shown.to_string()),
    }
}

/// Faults that the daemon finds in what it keeps, but for the disk where that is told already. One that does not know is an
/// older one.
async fn kept(daemon: &Daemon, is_told: bool) -> Vec<Check> {
    let findings = match daemon.client.examine().await {
        Ok(findings) => findings,
        Err(error) if error.answered() == Some(ErrorKind::Protocol) => return Vec::new(),
        Err(error) => return vec![Check::failure("journal", &error.into())],
    };
    let checks: Vec<Check> =
        findings.into_iter().filter(|finding| !is_told || finding.subject != "disk").map(of_finding).collect();
    if checks.is_empty() { vec![Check::ok("journal", "all sessions can be read")] } else { checks }
}

fn of_finding(finding: Finding) -> Check {
    let name = ["audit", "disk", "session"].into_iter().find(|name| *name == finding.subject).unwrap_or("journal");
    let Finding { message, hint, is_failure, .. } = finding;
    if is_failure { Check::fail(name, message, hint) } else { Check::warn(name, message, hint) }
}

fn reached(daemon: &Daemon) -> Check {
    let hello = daemon.client.hello();
    if let Ok(ours) = daemon::data_dir()
        && !hello.data_dir.as_os_str().is_empty()
        && !daemon::is_same_folder(&ours, &hello.data_dir)
    {
        let theirs = hello.data_dir.display();
        return Check::warn(
            "daemon",
            format!("pid {} at the named socket works on {theirs}, not on {}", hello.pid, ours.display()),
            "name no socket to reach the daemon of your own data folder",
        );
    }
    let started = if daemon.started { ", started just now" } else { "" };
    let message = format!("agentd {}, pid {}{started}", hello.version, hello.pid);
    if hello.version == env!("CARGO_PKG_VERSION") {
        return Check::ok("daemon", message);
    }
    Check::warn(
        "daemon",
        format!("{message}; agentctl is {}", env!("CARGO_PKG_VERSION")),
        "they understand each other; `agentctl stop` makes the next command start the newer one",
    )
}

/// Checks the sandbox of commands. A daemon that does not know is an older one.
async fn sandbox(daemon: &Daemon) -> Option<Check> {
    const NAME: &str = "sandbox";
    let state = match daemon.client.status().await {
        Ok(status) => status.sandbox?,
        Err(error) => return Some(Check::failure(NAME, &error.into())),
    };
    let message: Vec<String> = [report::sandbox(&state)].into_iter().chain(state.weaknesses.iter().cloned()).collect();
    let message = message.join("\n");
    Some(if !state.runs {
        let hint =
            "use a kernel with Landlock (5.13 or newer), or accept less: sandbox.mode: best_effort in agentd.yaml";
        Check::fail(NAME, message, hint)
    } else if state.mode == "off" {
        Check::warn(NAME, message, "set sandbox.mode: enforce in agentd.yaml")
    } else if state.weaknesses.is_empty() {
        Check::ok(NAME, message)
    } else {
        Check::warn(NAME, message, "commands run, and most is kept from them; docs/security.md says what is not")
    })
}

/// Checks the models that recognise the letters of scans.
fn recognition(daemon: &Daemon) -> Option<Check> {
    const NAME: &str = "recognition";
    let data = &daemon.client.hello().data_dir;
    if data.as_os_str().is_empty() {
        return None;
    }
    Some(match packaged::recognition_models(data) {
        Some(folder) => Check::ok(NAME, format!("letters of scanned pages: the models are in {}", folder.display())),
        None => Check::warn(
            NAME,
            "letters of scanned pages cannot be recognised: the models are missing",
            format!("bring them with `{}` if you have scans", packaged::recognition_command()),
        ),
    })
}

/// None where the daemon says nothing of them: an older one, or one whose answer another check reports.
async fn language_servers(daemon: &Daemon) -> Option<Check> {
    const NAME: &str = "languages";
    let (missing, there): (Vec<LanguageServer>, Vec<LanguageServer>) =
        daemon.client.status().await.ok()?.language_servers?.into_iter().partition(|server| server.hint.is_some());
    let names = |servers: &[LanguageServer]| -> String {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        names.join(", ")
    };
    let installed = if there.is_empty() { "none installed".to_owned() } else { names(&there) };
    let installed = format!("language servers: {installed}");
    if missing.is_empty() {
        return Some(Check::ok(NAME, installed));
    }
    let hints: Vec<String> = missing.iter().filter_map(|server| server.hint.clone()).collect();
    let message = format!("{installed}\n{} is not installed: rustup only stands in for it", names(&missing));
    Some(Check::warn(NAME, message, hints.join("\n")))
}

/// Returns whether the built-in model serves turns that name no other.
async fn is_builtin(daemon: &Daemon) -> bool {
    let slots = daemon.client.models().await.unwrap_or_default();
    slots.iter().any(|info| info.slot == Slot::default() && info.model.embedded)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folders_are_judged() {
        let folder = tempfile::tempdir().unwrap();
        let state = |path: &Path| folder_check("data", path).state;
        let mode =
            |mode: u32| fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        mode(0o700);
        assert_eq!(state(folder.path()), State::Ok);
        mode(0o755);
        assert_eq!(state(folder.path()), State::Warn);
        assert_eq!(state(&folder.path().join("none")), State::Ok);
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(state(&file), State::Fail);
    }
}
