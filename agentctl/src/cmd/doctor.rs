//! `agentctl doctor`: checks the installation and the models, with a hint for each problem.

use std::{env, io::Write as _, os::unix::fs::MetadataExt as _, path::Path, process::Command};

use agentd_core::{
    error::ErrorKind,
    model::{CheckState, ModelCheck, ROUTE_FIGURE, SlotInfo, WindowSource},
};
use agentd_proto::{
    client::{Finding, LanguageServer},
    packaged,
};
use clap::Args;

use super::{models::check_lines, service::logout_note};
use crate::{
    daemon::{self, Daemon, Weights},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report,
};

/// Size of a test write in bytes, roughly what a small turn stores.
const TRIAL_BYTES: usize = 64 << 10;

/// The arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl doctor
  agentctl doctor --json | jq '.[] | select(.state != \"ok\")'

The exit code is 0 if nothing failed, 3 if the daemon cannot be reached, otherwise 2. \
Starts the daemon if it is not running.")]
pub(crate) struct DoctorArgs {}

fn ok(message: impl Into<String>) -> ModelCheck {
    ModelCheck { name: String::new(), state: CheckState::Ok, message: message.into(), hint: None }
}

fn warn(message: impl Into<String>, hint: impl Into<String>) -> ModelCheck {
    ModelCheck { state: CheckState::Warn, hint: Some(hint.into()), ..ok(message) }
}

fn fail(message: impl Into<String>, hint: impl Into<String>) -> ModelCheck {
    ModelCheck { state: CheckState::Fail, ..warn(message, hint) }
}

fn failed(failure: &Failure) -> ModelCheck {
    ModelCheck { state: CheckState::Fail, hint: failure.hint.clone(), ..ok(&failure.message) }
}

fn with_name(name: &str, check: ModelCheck) -> ModelCheck {
    ModelCheck { name: name.to_owned(), ..check }
}

/// Runs `agentctl doctor`. Checks without the daemon come first, because they may explain why the daemon is
/// unreachable. For a daemon of another machine, nothing of this machine is checked.
pub(crate) async fn handle(global: &Global, _: DoctorArgs) -> anyhow::Result<Exit> {
    let is_here = daemon::named_host(global).is_none();
    let mut checks = if is_here { checks_of_machine() } else { Vec::new() };
    let daemon = daemon::connect(global).await;
    match &daemon {
        Ok(daemon) => {
            checks.push(with_name("daemon", reached(daemon)));
            checks.extend(is_here.then(|| with_name("socket", socket(&daemon.socket))));
            let shell = daemon.shell_notes(daemon.is_builtin().await);
            checks.extend(shell.into_iter().map(|note| with_name("environment", warn(note.message, note.hint))));
            let disk_reported = checks.iter().any(|check| check.name == "data" && check.state == CheckState::Fail);
            checks.extend(stored_data_checks(daemon, disk_reported).await);
            checks.extend(sandbox(daemon).await.map(|check| with_name("sandbox", check)));
            if is_here {
                checks.extend(recognition(daemon).map(|check| with_name("recognition", check)));
                checks.extend(logout_note().map(|(note, hint)| with_name("service", warn(note, hint))));
            }
            checks.extend(language_servers(daemon).await.map(|check| with_name("languages", check)));
            checks.extend(model_checks(daemon).await);
        }
        Err(failure) => checks.push(with_name("daemon", failed(failure))),
    }
    report::show(global.json, &checks, || report::lines(checks.iter().flat_map(|check| check_lines(check, 13))))?;
    Ok(match daemon {
        Err(failure) => failure.exit,
        Ok(_) if checks.iter().any(|check| check.state == CheckState::Fail) => Exit::Usage,
        Ok(_) => Exit::Done,
    })
}

/// Checks the programs and folders of this machine.
fn checks_of_machine() -> Vec<ModelCheck> {
    let mut checks = vec![with_name("bash", bash()), with_name("config", configuration())];
    let log = daemon::log_file().map(|file| file.parent().map_or(file.clone(), Path::to_path_buf));
    checks.extend([("data", daemon::data_dir()), ("log", log)].map(|(name, folder)| {
        with_name(name, folder.map_or_else(|failure| failed(&failure), |folder| folder_check(&folder)))
    }));
    checks
}

fn bash() -> ModelCheck {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).map(|folder| folder.join("bash"));
    match places.find(|path| daemon::is_program(path)) {
        Some(path) => ok(path.display().to_string()),
        None => warn("bash is not in PATH", "install bash, or run_bash_command cannot run commands"),
    }
}

/// Runs the daemon's own check of the configuration.
fn configuration() -> ModelCheck {
    let program = match daemon::program() {
        Ok(program) => program,
        Err(failure) => return failed(&failure),
    };
    let folder = daemon::config_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
    match Command::new(&program).arg("--check-config").output() {
        Ok(output) if output.status.success() && !output.stderr.trim_ascii().is_empty() => warn(
            String::from_utf8_lossy(&output.stderr).trim(),
            format!("correct the configuration in {folder}, then run `agentctl reload`; everything else works"),
        ),
        Ok(output) if output.status.success() => ok(format!("no errors ({folder})")),
        Ok(output) => {
            let output = String::from_utf8_lossy(&output.stderr);
            fail(
                output.trim(),
                format!("correct the configuration, then check with `agentd --check-config` ({folder})"),
            )
        }
        Err(error) => fail(format!("could not run {}: {error}", program.display()), "reinstall agentd"),
    }
}

fn folder_check(folder: &Path) -> ModelCheck {
    let shown = folder.display();
    let unsuitable = |problem: &str, hint: &str| fail(format!("{shown} {problem}"), hint);
    let chmod_hint = format!("restrict access to it: chmod 700 {shown}");
    let Ok(meta) = folder.metadata() else {
        return ok(format!("{shown} does not exist yet; it is created when needed"));
    };
    if !meta.is_dir() {
        return unsuitable("is not a folder", "move it away, or set AGENTD_DATA_DIR");
    }
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        return unsuitable("belongs to another user", "set AGENTD_DATA_DIR to a folder of yours");
    }
    if nix::unistd::access(folder, nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK).is_err() {
        return unsuitable("is not writable", &format!("make it writable: chmod u+rwx {shown}"));
    }
    if let Err(error) = try_to_write(folder) {
        return unsuitable(
            &format!("cannot be written to: {error}"),
            "free some space on its disk; `agentctl sessions delete` works on a full disk too, and sessions can be read",
        );
    }
    if meta.mode() & 0o002 != 0 || meta.mode() & 0o020 != 0 && meta.gid() != nix::unistd::getegid().as_raw() {
        return fail(format!("other users can write to {shown}, so it is not used"), chmod_hint);
    }
    if meta.mode() & 0o077 != 0 {
        return warn(format!("other users can read {shown}"), chmod_hint);
    }
    ok(shown.to_string())
}

/// Writes a small temporary file.
fn try_to_write(folder: &Path) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".trial-").tempfile_in(folder)?;
    file.write_all(&[0; TRIAL_BYTES])?;
    file.as_file().sync_data()
}

fn socket(path: &Path) -> ModelCheck {
    let shown = path.display();
    let Ok(meta) = path.symlink_metadata() else {
        return fail(format!("{shown} is gone"), "the daemon recreates it in a few seconds");
    };
    let folder_mode = path.parent().and_then(|folder| folder.metadata().ok()).map(|meta| meta.mode() & 0o7777);
    if meta.mode() & 0o177 != 0 {
        return fail(format!("other users can use {shown}"), format!("chmod 600 {shown}"));
    }
    match folder_mode {
        Some(mode) if mode & 0o022 != 0 && mode & 0o1000 == 0 => {
            fail(format!("other users can replace {shown}"), "its folder must not be writable by others")
        }
        _ => ok(shown.to_string()),
    }
}

/// Returns problems that the daemon finds in its stored data, without disk problems if `disk_reported`. Returns nothing
/// for older daemons, which do not support this check.
async fn stored_data_checks(daemon: &Daemon, disk_reported: bool) -> Vec<ModelCheck> {
    let findings = match daemon.client.examine().await {
        Ok(findings) => findings,
        Err(error) if error.answered() == Some(ErrorKind::Protocol) => return Vec::new(),
        Err(error) => return vec![with_name("journal", failed(&error.into()))],
    };
    let other_findings = findings.into_iter().filter(|finding| !disk_reported || finding.subject != "disk");
    let checks: Vec<ModelCheck> = other_findings
        .map(|Finding { subject, message, hint, is_failure }| {
            let name = ["audit", "disk", "session"].into_iter().find(|name| *name == subject).unwrap_or("journal");
            with_name(name, if is_failure { fail(message, hint) } else { warn(message, hint) })
        })
        .collect();
    if checks.is_empty() { vec![with_name("journal", ok("all sessions can be read"))] } else { checks }
}

fn reached(daemon: &Daemon) -> ModelCheck {
    let hello = daemon.client.hello();
    if daemon.client.host().is_none()
        && let Ok(ours) = daemon::data_dir()
        && !hello.data_dir.as_os_str().is_empty()
        && !daemon::is_same_folder(&ours, &hello.data_dir)
    {
        let theirs = hello.data_dir.display();
        return warn(
            format!("pid {} at the given socket uses {theirs}, not {}", hello.pid, ours.display()),
            "do not set a socket to reach the daemon of your own data folder",
        );
    }
    let host = daemon.client.host().map(|host| format!(" at {host}")).unwrap_or_default();
    let started = if daemon.started { ", started just now" } else { "" };
    let message = format!("agentd {}, pid {}{host}{started}", hello.version, hello.pid);
    if hello.version == env!("CARGO_PKG_VERSION") {
        return ok(message);
    }
    warn(
        format!("{message}; agentctl is {}", env!("CARGO_PKG_VERSION")),
        "they are compatible; after `agentctl stop` the next command starts the newer one",
    )
}

/// Checks the sandbox of commands. Returns `None` for older daemons, which do not report it.
async fn sandbox(daemon: &Daemon) -> Option<ModelCheck> {
    let state = match daemon.client.status().await {
        Ok(status) => status.sandbox?,
        Err(error) => return Some(failed(&error.into())),
    };
    let message = [&[report::sandbox(&state)], &*state.weaknesses].concat().join("\n");
    Some(if !state.runs {
        let hint =
            "use a kernel with Landlock (5.13 or newer), or less protection: sandbox.mode: best_effort in agentd.yaml";
        fail(message, hint)
    } else if state.mode == "off" {
        warn(message, "set sandbox.mode: enforce in agentd.yaml")
    } else if state.weaknesses.is_empty() {
        ok(message)
    } else {
        warn(message, "commands run with partial isolation; docs/security.md lists the gaps")
    })
}

/// Checks the text recognition models that are used for scanned pages.
fn recognition(daemon: &Daemon) -> Option<ModelCheck> {
    let data = &daemon.client.hello().data_dir;
    if data.as_os_str().is_empty() {
        return None;
    }
    Some(match packaged::recognition_models(data) {
        Some(folder) => ok(format!("text recognition for scanned pages: the models are in {}", folder.display())),
        None => warn(
            "no text recognition for scanned pages: the models are missing",
            format!("download them with `{}` if you have scans", packaged::recognition_command()),
        ),
    })
}

/// Checks the language servers. Returns `None` if the daemon does not report them, or if the status request failed;
/// another check reports that failure.
async fn language_servers(daemon: &Daemon) -> Option<ModelCheck> {
    let (missing, there): (Vec<LanguageServer>, Vec<LanguageServer>) =
        daemon.client.status().await.ok()?.language_servers?.into_iter().partition(|server| server.hint.is_some());
    let names =
        |servers: &[LanguageServer]| servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(", ");
    let installed = if there.is_empty() { "none installed".to_owned() } else { names(&there) };
    let installed = format!("language servers: {installed}");
    if missing.is_empty() {
        return Some(ok(installed));
    }
    let hints: Vec<String> = missing.iter().filter_map(|server| server.hint.clone()).collect();
    let message = format!("{installed}\n{} is not installed: there is only rustup's proxy for it", names(&missing));
    Some(warn(message, hints.join("\n")))
}

/// Checks the model of each slot: its server must be reachable, or its weights must exist.
async fn model_checks(daemon: &Daemon) -> Vec<ModelCheck> {
    let slots = match daemon.client.models_looked_up().await {
        Ok(slots) => slots,
        Err(error) => return vec![with_name("models", failed(&error.into()))],
    };
    let mut checks = Vec::new();
    for slot in slots.into_iter().filter(|slot| slot.falls_back_to.is_none()) {
        let check = if slot.model.embedded { builtin(daemon, &slot).await } else { model(daemon, &slot).await };
        checks.push(with_name("model", check));
    }
    if checks.is_empty() {
        checks.push(with_name(
            "models",
            fail("no slot has a model", "name one in models.yaml, or set MODEL_BASIC_BASE_URL"),
        ));
    }
    checks
}

/// Checks a server through the daemon, which uses the same route and key as for a turn.
async fn model(daemon: &Daemon, slot: &SlotInfo) -> ModelCheck {
    let label = format!("{}: {}", slot.slot, slot.model.id);
    if slot.model.wire == "embedded" {
        return fail(
            format!("{}: this agentd was built without the built-in model", slot.slot),
            "name a model server in models.yaml or MODEL_BASIC_BASE_URL, or build with the feature `builtin-model`",
        );
    }
    let Some(url) = &slot.model.base_url else { return ok(label) };
    let route = slot.model.figures.iter().find(|figure| figure.name == ROUTE_FIGURE);
    let route = route.map_or_else(String::new, |route| format!(", {}", route.value));
    match daemon.client.listed_models(slot.slot).await {
        // The daemon has no key, or the server requires a client certificate.
        Err(error) if error.answered() == Some(ErrorKind::Auth) => failed(&error.into()),
        Err(error) if matches!(error.answered(), Some(ErrorKind::Unreachable | ErrorKind::Timeout)) => fail(
            format!("{label}: no response from {url}{route}: {error}"),
            error.hint.map(|hint| hint + "; ").unwrap_or_default()
                + "base_url is in models.yaml or MODEL_BASIC_BASE_URL, a proxy in the variables `https_proxy`, `http_proxy`, \
                   `all_proxy` and `no_proxy` of the daemon",
        ),
        // The server responded, even if it does not support listing models.
        Ok(_) | Err(_) => window(slot, format!("{label} at {url}{route}")),
    }
}

/// Warns if the window size is unknown, or if the server silently truncates requests.
fn window(slot: &SlotInfo, label: String) -> ModelCheck {
    let tokens = slot.model.context_window;
    let set_hint = "set context_window in models.yaml, or MODEL_BASIC_CONTEXT_WINDOW or that of the slot";
    match slot.model.window_source {
        WindowSource::Default => warn(
            format!("{label}; the size of its window is unknown, {tokens} tokens are assumed"),
            format!("{set_hint}; `agentctl models test` checks whether the server reads that many"),
        ),
        WindowSource::Cut => warn(
            format!("{label}; its server silently truncates requests to {tokens} tokens"),
            format!(
                "give it a larger window (Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx of the model), then `agentctl models \
                 test`; if this is wrong, {set_hint}"
            ),
        ),
        WindowSource::Configured | WindowSource::Catalogue | WindowSource::Server | WindowSource::Refusal => ok(label),
    }
}

/// Checks that the weights of the built-in model exist.
async fn builtin(daemon: &Daemon, slot: &SlotInfo) -> ModelCheck {
    let label = format!("{}: {}", slot.slot, slot.model.id);
    match Weights::find(daemon).await {
        Weights::File(file) => {
            // Settings of this shell that the daemon can use are already reported as `environment`.
            let hint = if daemon.shell_notes(true).is_empty() {
                "for a better one set MODEL_BASIC_BASE_URL, or name one in models.yaml"
            } else {
                "for a better one, see `environment`"
            };
            warn(format!("{label}: the small built-in model ({})", file.display()), hint)
        }
        Weights::Missing(path) => fail(
            format!("{label}: no weights at {}", path.display()),
            format!(
                "download them with `{}`, or name a model: MODEL_BASIC_BASE_URL or models.yaml",
                packaged::fetch_command()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folder_permissions_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let state = |path: &Path| folder_check(path).state;
        let mode =
            |mode: u32| fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        mode(0o700);
        assert_eq!(state(folder.path()), CheckState::Ok);
        mode(0o755);
        assert_eq!(state(folder.path()), CheckState::Warn);
        assert_eq!(state(&folder.path().join("none")), CheckState::Ok);
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(state(&file), CheckState::Fail);
    }
}
