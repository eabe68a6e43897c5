//! Python environments for skills, with the packages that a skill declares. They are created once, with the user's
//! consent, and shared by all sessions.
//!
//! The name of an environment is derived from its content, so each list of packages has a separate environment. An
//! environment is valid only with its mark, which is written last, so an environment left incomplete by a crash is
//! created again. Only wheels are installed, because building a package would run its code unseen. The installer is
//! confined like commands: it has no access to the user's files, writes only to the environment, and reaches only the
//! hosts of the user's index, through a proxy in the daemon (`route`).

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    ports::{CallProgress, SkillPackages},
};
use agentd_sandbox::{
    config::{SandboxConfig, SandboxMode},
    process::CommandEnd,
};
use agentd_workspace::{private, remove, text::hex};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    installer::{self, Installer, Network, refused},
    package_index::PackageIndex,
};
use crate::files::{agreed_folder::lock, requirements};

/// Name of the file that marks a complete environment.
const MARK_FILE: &str = ".agentd-ready";
/// Folder that only contains the interpreters of an environment. Other programs from packages must not precede the
/// system's programs.
const FRONT: &str = "front";
/// Interpreters in the front folder.
const INTERPRETERS: [&str; 3] = ["python", "python3", "pip"];
/// Folder with `python`, for scripts that need this name on a system with only `python3`.
const PLAIN: &str = "plain";
/// List of packages, written before the mark.
const LIST_FILE: &str = "agentd-requirements.txt";

/// Temporary folder for installers, removed when they are done.
const SCRATCH: &str = "tmp";
/// Daemon variables that are passed to installers, besides those for the index.
const PASSED_VARIABLES: [&str; 6] = ["PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];

/// Preferred interpreters: commands can run them in the sandbox.
const SYSTEM_PYTHONS: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];

/// Python environments for all skills.
#[derive(Debug, Default)]
pub(crate) struct Environments {
    pub(super) folder: PathBuf,
    /// Variables for finding programs and the user's index.
    pub(super) variables: BTreeMap<String, String>,
    /// Sandbox in which the installer runs.
    pub(super) sandbox: Option<SandboxConfig>,
    /// Hosts that serve files for the user's index, besides the hosts in the index URLs.
    pub(super) hosts: Vec<String>,
    /// One lock per environment, so that two turns never create the same environment concurrently.
    pub(super) in_progress: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Environments {
    /// Returns the name of the environment with these packages.
    pub(crate) fn name(skill: &str, packages: &[String]) -> String {
        let mut sorted: Vec<&str> = packages.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        format!("{skill}-{}", hex(&Sha256::digest(sorted.join("\n"))[..8]))
    }

    /// Returns the folder of an environment, if it is complete.
    pub(crate) fn ready(&self, name: &str) -> Option<PathBuf> {
        let root = self.folder.join(name);
        let is_whole = root.join(MARK_FILE).is_file() && root.join("bin/python").exists();
        is_whole.then_some(root)
    }

    /// Returns the folder that only contains the interpreters of an environment. Creates the folder if it is missing,
    /// because older versions of the daemon did not create it.
    pub(crate) fn front(&self, root: &Path) -> Option<PathBuf> {
        let front = root.join(FRONT);
        for name in INTERPRETERS {
            let (link, program) = (front.join(name), root.join("bin").join(name));
            if link.exists() || !program.exists() {
                continue;
            }
            private::folder(&front).ok()?;
            // Another call may create the link concurrently.
            let _ = std::os::unix::fs::symlink(Path::new("../bin").join(name), &link);
        }
        front.join(INTERPRETERS[0]).exists().then_some(front)
    }

    /// Returns a folder in which `python` is a system interpreter, for the end of `PATH`: skill scripts are run as
    /// `python`, but many systems only have `python3`. Returns `None` if there is no interpreter.
    pub(crate) fn plain(&self) -> Option<PathBuf> {
        let bin = self.folder.join(PLAIN).join("bin");
        let link = bin.join("python");
        if !link.exists() {
            let python = self.interpreters().into_iter().next()?;
            private::folder(&bin).ok()?;
            // Removes a dangling link. Another call may create the link concurrently.
            let _ = fs::remove_file(&link);
            let _ = std::os::unix::fs::symlink(python, &link);
        }
        link.exists().then_some(bin)
    }

    /// Creates an environment, unless it already exists.
    ///
    /// # Errors
    /// Fails if the environment cannot be created. In this case, no part of the environment remains.
    pub(crate) async fn make(
        &self,
        wanted: &SkillPackages,
        progress: &CallProgress,
        cancel: &CancellationToken,
    ) -> Result<(), WorkspaceError> {
        let lock = {
            let mut in_progress = lock(&self.in_progress);
            in_progress.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(in_progress.entry(wanted.environment.clone()).or_default())
        };
        let alone = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(installer::cancelled(&wanted.skill)),
            alone = lock.lock() => alone,
        };
        if self.ready(&wanted.environment).is_some() {
            return Ok(());
        }
        let made = self.install(wanted, progress, cancel).await;
        if made.is_err() {
            let root = self.folder.join(&wanted.environment);
            let _ = tokio::task::spawn_blocking(move || fs::remove_dir_all(root)).await;
        }
        drop(alone);
        made
    }

    async fn install(
        &self,
        wanted: &SkillPackages,
        progress: &CallProgress,
        cancel: &CancellationToken,
    ) -> Result<(), WorkspaceError> {
        let SkillPackages { skill, packages, environment } = wanted;
        requirements::check(packages).map_err(|flaw| {
            let message = format!("could not install the packages of the skill {skill}: {}", flaw.message);
            WorkspaceError::new(ErrorKind::InvalidInput, message).with_hint("list names with versions only")
        })?;
        let failed = |error: io::Error| {
            let message = format!("could not create the environment of the skill {skill}: {error}");
            WorkspaceError::new(ErrorKind::Storage, message).with_hint("check the daemon's data folder")
        };
        let root = prepare(&self.folder, environment).map_err(failed)?;
        progress.report(&format!("creating a Python environment for the skill {skill}"));
        let uv = self.program("uv");
        let mut installer = self.installer(&root, uv.as_deref());
        self.make_empty(skill, &installer, cancel).await?;
        let mut pythons = vec![root.join("bin/python")];
        pythons.extend(self.interpreters());
        installer.name_index(skill, &pythons, cancel).await?;
        let list = root.join(LIST_FILE);
        fs::write(&list, packages.join("\n") + "\n").map_err(failed)?;
        progress.report(&format!("installing {} for the skill {skill}", packages.join(", ")));
        let python = root.join("bin/python");
        let args: Vec<&OsStr> = match &uv {
            Some(uv) => {
                let head =
                    [uv.as_os_str(), "pip".as_ref(), "install".as_ref(), "--python".as_ref(), python.as_os_str()];
                head.into_iter().chain(["--only-binary", ":all:", "-r"].map(OsStr::new)).collect()
            }
            None => {
                // `-I` isolates the interpreter from variables and folders that could add code.
                let pip = ["-I", "-m", "pip", "install", "--progress-bar=off", "--only-binary=:all:", "-r"];
                [python.as_os_str()].into_iter().chain(pip.map(OsStr::new)).collect()
            }
        };
        let command = args.into_iter().chain([list.as_os_str()]).map(OsString::from).collect();
        let finished = installer.run(skill, command, true, cancel).await?;
        if finished.ended != CommandEnd::Code(0) {
            return Err(refused(skill, "could not install the packages of", &finished));
        }
        let mark = packages.join("\n");
        let marked = tokio::task::spawn_blocking(move || {
            fs::remove_dir_all(root.join(SCRATCH))?;
            fs::write(root.join(MARK_FILE), mark)?;
            fs::File::open(&root)?.sync_all()
        });
        marked.await.map_err(io::Error::other).flatten().map_err(failed)
    }

    /// Creates an environment without packages, with the first interpreter that succeeds.
    async fn make_empty(
        &self,
        skill: &str,
        installer: &Installer,
        cancel: &CancellationToken,
    ) -> Result<(), WorkspaceError> {
        let mut last = None;
        for python in self.interpreters() {
            let root = installer.root.as_os_str().to_owned();
            let command: Vec<OsString> = match &installer.uv {
                Some(uv) => {
                    vec![uv.into(), "venv".into(), "--allow-existing".into(), "--python".into(), python.into(), root]
                }
                None => vec![python.into(), "-I".into(), "-m".into(), "venv".into(), "--clear".into(), root],
            };
            // `--clear` removes the scratch folder.
            let scratch = installer.root.join(SCRATCH);
            let _ = fs::create_dir_all(&scratch);
            let finished = installer.run(skill, command, false, cancel).await?;
            let _ = fs::create_dir_all(&scratch);
            if finished.ended == CommandEnd::Code(0) {
                return Ok(());
            }
            last = Some(finished);
        }
        let missing = || {
            WorkspaceError::new(
                ErrorKind::NotFound,
                format!("the skill {skill} requires Python, but python3 was not found"),
            )
            .with_hint("install python3 with its module venv, or uv")
        };
        Err(last.map_or_else(missing, |finished| {
            refused(skill, "could not create a Python environment for", &finished).with_hint(
                "install python3 with its module venv (on Debian and Ubuntu the package python3-venv), or uv",
            )
        }))
    }

    /// Returns the interpreters without duplicates, system interpreters first.
    fn interpreters(&self) -> Vec<PathBuf> {
        let system = SYSTEM_PYTHONS.iter().map(PathBuf::from).filter(|path| path.exists());
        let mut found: Vec<PathBuf> = system.collect();
        found.extend(self.program("python3").filter(|python| !found.contains(python)));
        found
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.variables.get("PATH")?;
        let folders = path.split(':').filter(|folder| folder.starts_with('/'));
        folders.map(|folder| Path::new(folder).join(name)).find(|program| program.is_file())
    }

    /// Creates an installer for an environment, confined like commands.
    fn installer(&self, root: &Path, uv: Option<&Path>) -> Installer {
        let index = PackageIndex::read(&self.variables);
        let passed =
            PASSED_VARIABLES.iter().filter_map(|name| Some((OsString::from(name), self.variables.get(*name)?.into())));
        let mut environment: BTreeMap<OsString, OsString> = passed.collect();
        environment.extend(match uv {
            Some(_) => index.for_uv(&self.variables),
            None => index.for_pip(),
        });
        // Keeps the installer out of the user's home, and out of a `/tmp` that may be too small for large wheels.
        environment.insert("HOME".into(), root.into());
        environment.insert("TMPDIR".into(), root.join(SCRATCH).into());
        let is_on = |config: &&SandboxConfig| cfg!(target_os = "linux") && config.mode != SandboxMode::Off;
        let sandbox = self.sandbox.as_ref().filter(is_on).map(|config| {
            let certificates = ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];
            let certificates = certificates.into_iter().filter_map(|name| self.variables.get(name));
            let programs =
                self.interpreters().into_iter().chain(uv.map(Path::to_path_buf)).filter_map(|path| home_of(&path));
            let read =
                index.readable_paths().into_iter().chain(certificates.map(PathBuf::from)).chain(programs).collect();
            SandboxConfig { network: false, read, write: vec![root.to_owned()], ..config.clone() }
        });
        let network = Network { variables: self.variables.clone(), hosts: self.hosts.clone() };
        Installer { root: root.to_owned(), uv: uv.map(Path::to_path_buf), environment, sandbox, network }
    }
}

/// Returns the folder of a program that is not part of the system, including its libraries.
fn home_of(program: &Path) -> Option<PathBuf> {
    let real = program.canonicalize().ok()?;
    let folder = real.parent()?;
    let home = if folder.ends_with("bin") { folder.parent()? } else { return Some(real) };
    // The user's `~/.local/bin`, and similar shared folders, contain more than the program needs.
    let is_own_folder = home.join("lib").is_dir() && home.components().count() > 2 && !home.ends_with(".local");
    Some(if is_own_folder { home.to_owned() } else { real })
}

/// Creates an empty folder for an environment, and returns its real path.
fn prepare(folder: &Path, name: &str) -> io::Result<PathBuf> {
    private::folder(folder)?;
    let root = folder.canonicalize()?.join(name);
    remove::ignore_missing(fs::remove_dir_all(&root))?;
    private::folder(&root.join(SCRATCH))?;
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_has_a_python_command() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("python3"), "").unwrap();
        let variables = BTreeMap::from([("PATH".to_owned(), bin.display().to_string())]);
        let root = folder.path().join("environments");
        let environments = Environments { folder: root, variables, ..Environments::default() };
        for _ in 0..2 {
            let plain = environments.plain().unwrap();
            assert_eq!(fs::read_link(plain.join("python")).unwrap(), environments.interpreters()[0]);
        }
        // A dangling interpreter is replaced.
        let link = environments.plain().unwrap().join("python");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(folder.path().join("gone"), &link).unwrap();
        assert!(environments.plain().unwrap().join("python").exists());
    }

    #[test]
    fn package_programs_never_shadow_system_programs() {
        let folder = tempfile::tempdir().unwrap();
        let environments = Environments { folder: folder.path().to_owned(), ..Environments::default() };
        let root = folder.path().join("skill-1");
        let made =
            std::process::Command::new(SYSTEM_PYTHONS[0]).args(["-m", "venv", "--without-pip"]).arg(&root).status();
        if !made.is_ok_and(|status| status.success()) {
            return;
        }
        fs::write(root.join("bin/ls"), "").unwrap();
        for _ in 0..2 {
            let front = environments.front(&root).unwrap();
            let mut names: Vec<_> = fs::read_dir(&front).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["python", "python3"]);
            // The link still leads to the interpreter of the environment.
            let mut command = std::process::Command::new(front.join("python"));
            let output = command.args(["-c", "import sys; print(sys.prefix)"]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), root.display().to_string());
        }
    }
}
