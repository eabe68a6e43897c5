//! Python environments of skills, each with the packages that a skill declares: made once, with a person's consent, and
//! used by every session.
//!
//! An environment is named by what is in it, so that another list of packages is another environment, and skills that need the
//! same share one. It counts once its mark stands in it, which is written last: what a crash left half made is made anew.
//! Only wheels are installed: building a package would run its code before anybody has seen it. What installs them is locked
//! in as commands are: it sees nothing of the person's files, writes to the environment alone, and reaches the hosts of the
//! person's index and no others, by a proxy of the daemon (`route`).

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
use crate::files::{agreed::lock, requirements};

/// The mark of an environment that is whole.
const MARK: &str = ".agentd-ready";
/// Folder of the interpreter of an environment, and of nothing else of it: programs of a package must not precede those
/// of the system.
const FRONT: &str = "front";
/// Programs in it.
const INTERPRETERS: [&str; 3] = ["python", "python3", "pip"];
/// Folder with `python`, for scripts that need that name on a system with only `python3`.
const PLAIN: &str = "plain";
/// File that is made before the mark.
const LIST: &str = "agentd-requirements.txt";

/// The folder for what installers need for a moment. It goes when they are done.
const SCRATCH: &str = "tmp";
/// Variables of the daemon that installers see, besides the index.
const PASSED: [&str; 6] = ["PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];

/// Preferred interpreters: those that commands can run in the sandbox.
const SYSTEM: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];

/// All environments.
#[derive(Debug)]
pub(crate) struct Environments {
    folder: PathBuf,
    /// The variables by which programs and the person's index are found.
    variables: BTreeMap<String, String>,
    /// The sandbox of commands.
    sandbox: Option<SandboxConfig>,
    /// Hosts that serve files of the person's index, besides those in its addresses.
    hosts: Vec<String>,
    /// One lock an environment, so that two turns never make the same at once.
    under_way: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Environments {
    pub(crate) fn new(
        folder: PathBuf,
        variables: BTreeMap<String, String>,
        sandbox: Option<SandboxConfig>,
        hosts: Vec<String>,
    ) -> Self {
        Self { folder, variables, sandbox, hosts, under_way: Mutex::default() }
    }

    /// The name of the environment with these packages.
    pub(crate) fn name(skill: &str, packages: &[String]) -> String {
        let mut sorted: Vec<&str> = packages.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        format!("{skill}-{}", hex(&Sha256::digest(sorted.join("\n"))[..8]))
    }

    /// The folder of an environment that is whole.
    pub(crate) fn ready(&self, name: &str) -> Option<PathBuf> {
        let place = self.folder.join(name);
        let is_whole = place.join(MARK).is_file() && place.join("bin/python").exists();
        is_whole.then_some(place)
    }

    /// The folder in which the interpreters of an environment are, and they alone. An environment that has none yet,
    /// because it was made by an older daemon, is given one.
    pub(crate) fn front(&self, place: &Path) -> Option<PathBuf> {
        let front = place.join(FRONT);
        for name in INTERPRETERS {
            let (link, program) = (front.join(name), place.join("bin").join(name));
            if link.exists() || !program.exists() {
                continue;
            }
            private::folder(&front).ok()?;
            // Another call may make it at this moment.
            let _ = std::os::unix::fs::symlink(Path::new("../bin").join(name), &link);
        }
        front.join(INTERPRETERS[0]).exists().then_some(front)
    }

    /// A folder in which `python` is an interpreter of the system, to be looked in last: scripts of skills are run as
    /// `python`, and many systems know it as `python3` only. None where there is no interpreter.
    pub(crate) fn plain(&self) -> Option<PathBuf> {
        let bin = self.folder.join(PLAIN).join("bin");
        let link = bin.join("python");
        if !link.exists() {
            let python = self.interpreters().into_iter().next()?;
            private::folder(&bin).ok()?;
            // One that leads nowhere any more, or one that another call makes at this moment.
            let _ = fs::remove_file(&link);
            let _ = std::os::unix::fs::symlink(python, &link);
        }
        link.exists().then_some(bin)
    }

    /// Makes an environment, unless it is there.
    ///
    /// # Errors
    /// When it cannot be made; then nothing of it is left.
    pub(crate) async fn make(
        &self,
        wanted: &SkillPackages,
        progress: &CallProgress,
        cancel: &CancellationToken,
    ) -> Result<(), WorkspaceError> {
        let lock = {
            let mut under_way = lock(&self.under_way);
            under_way.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(under_way.entry(wanted.environment.clone()).or_default())
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
            let place = self.folder.join(&wanted.environment);
            let _ = tokio::task::spawn_blocking(move || fs::remove_dir_all(place)).await;
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
            let message = format!("could not make the environment of the skill {skill}: {error}");
            WorkspaceError::new(ErrorKind::Storage, message).with_hint("look at the data folder of the daemon")
        };
        let place = prepare(&self.folder, environment).map_err(failed)?;
        progress.tell(&format!("making a Python environment for the skill {skill}"));
        let uv = self.program("uv");
        let mut installer = self.installer(&place, uv.as_deref());
        self.make_empty(skill, &installer, cancel).await?;
        let mut pythons = vec![place.join("bin/python")];
        pythons.extend(self.interpreters());
        installer.name_index(skill, &pythons, cancel).await?;
        let list = place.join(LIST);
        fs::write(&list, packages.join("\n") + "\n").map_err(failed)?;
        progress.tell(&format!("installing {} for the skill {skill}", packages.join(", ")));
        let python = place.join("bin/python");
        let words: Vec<&OsStr> = match &uv {
            Some(uv) => {
                let head =
                    [uv.as_os_str(), "pip".as_ref(), "install".as_ref(), "--python".as_ref(), python.as_os_str()];
                head.into_iter().chain(["--only-binary", ":all:", "-r"].map(OsStr::new)).collect()
            }
            None => {
                // `-I`: no variable and no folder adds code to it.
                let pip = ["-I", "-m", "pip", "install", "--progress-bar=off", "--only-binary=:all:", "-r"];
                [python.as_os_str()].into_iter().chain(pip.map(OsStr::new)).collect()
            }
        };
        let command = words.into_iter().chain([list.as_os_str()]).map(OsString::from).collect();
        let finished = installer.run(skill, command, true, cancel).await?;
        if finished.ended != CommandEnd::Code(0) {
            return Err(refused(skill, "could not install the packages of", &finished));
        }
        let mark = packages.join("\n");
        let marked = tokio::task::spawn_blocking(move || {
            fs::remove_dir_all(place.join(SCRATCH))?;
            fs::write(place.join(MARK), mark)?;
            fs::File::open(&place)?.sync_all()
        });
        marked.await.map_err(io::Error::other).flatten().map_err(failed)
    }

    /// An environment without packages, of the first interpreter that can make one.
    async fn make_empty(
        &self,
        skill: &str,
        installer: &Installer,
        cancel: &CancellationToken,
    ) -> Result<(), WorkspaceError> {
        let mut last = None;
        for python in self.interpreters() {
            let place = installer.place.as_os_str().to_owned();
            let command: Vec<OsString> = match &installer.uv {
                Some(uv) => {
                    vec![uv.into(), "venv".into(), "--allow-existing".into(), "--python".into(), python.into(), place]
                }
                None => vec![python.into(), "-I".into(), "-m".into(), "venv".into(), "--clear".into(), place],
            };
            // `--clear` takes it away.
            let scratch = installer.place.join(SCRATCH);
            let _ = fs::create_dir_all(&scratch);
            let finished = installer.run(skill, command, false, cancel).await?;
            let _ = fs::create_dir_all(&scratch);
            if finished.ended == CommandEnd::Code(0) {
                return Ok(());
            }
            last = Some(finished);
        }
        let missing = || {
            WorkspaceError::new(ErrorKind::NotFound, format!("the skill {skill} needs Python, and there is no python3"))
                .with_hint("install python3 with its module venv, or uv")
        };
        Err(last.map_or_else(missing, |finished| {
            refused(skill, "could not make a Python environment for", &finished).with_hint(
                "install python3 with its module venv (on Debian and Ubuntu the package python3-venv), or uv",
            )
        }))
    }

    /// Interpreters, each once, those of the system first.
    fn interpreters(&self) -> Vec<PathBuf> {
        let system = SYSTEM.iter().map(PathBuf::from).filter(|path| path.exists());
        let mut found: Vec<PathBuf> = system.collect();
        found.extend(self.program("python3").filter(|python| !found.contains(python)));
        found
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.variables.get("PATH")?;
        let places = path.split(':').filter(|place| place.starts_with('/'));
        places.map(|place| Path::new(place).join(name)).find(|program| program.is_file())
    }

    /// A program that installs into an environment, locked in where commands are.
    fn installer(&self, place: &Path, uv: Option<&Path>) -> Installer {
        let index = PackageIndex::read(&self.variables);
        let passed = PASSED.iter().filter_map(|name| Some((OsString::from(name), self.variables.get(*name)?.into())));
        let mut environment: BTreeMap<OsString, OsString> = passed.collect();
        environment.extend(match uv {
            Some(_) => index.for_uv(&self.variables),
            None => index.for_pip(),
        });
        // Neither the person's home nor a `/tmp` that is too small for large wheels.
        environment.insert("HOME".into(), place.into());
        environment.insert("TMPDIR".into(), place.join(SCRATCH).into());
        let is_on = |config: &&SandboxConfig| cfg!(target_os = "linux") && config.mode != SandboxMode::Off;
        let sandbox = self.sandbox.as_ref().filter(is_on).map(|config| {
            let certificates = ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];
            let certificates = certificates.into_iter().filter_map(|name| self.variables.get(name));
            let programs =
                self.interpreters().into_iter().chain(uv.map(Path::to_path_buf)).filter_map(|path| home_of(&path));
            let read = index.places().into_iter().chain(certificates.map(PathBuf::from)).chain(programs).collect();
            SandboxConfig { network: false, read, write: vec![place.to_owned()], ..config.clone() }
        });
        let network = Network { variables: self.variables.clone(), hosts: self.hosts.clone() };
        Installer { place: place.to_owned(), uv: uv.map(Path::to_path_buf), environment, sandbox, network }
    }
}

/// The folder of a program that is none of the system's, with the libraries beside it.
fn home_of(program: &Path) -> Option<PathBuf> {
    let real = program.canonicalize().ok()?;
    let folder = real.parent()?;
    let home = if folder.ends_with("bin") { folder.parent()? } else { return Some(real) };
    // A person's own `~/.local/bin`, and what lies in nobody's folder, has more beside it than the program needs.
    let is_its_own = home.join("lib").is_dir() && home.components().count() > 2 && !home.ends_with(".local");
    Some(if is_its_own { home.to_owned() } else { real })
}

/// Makes the folder of an environment anew, and says where it really is.
fn prepare(folder: &Path, name: &str) -> io::Result<PathBuf> {
    private::folder(folder)?;
    let place = folder.canonicalize()?.join(name);
    remove::gone(fs::remove_dir_all(&place))?;
    private::folder(&place.join(SCRATCH))?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_has_its_name_on_every_system() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("python3"), "").unwrap();
        let variables = BTreeMap::from([("PATH".to_owned(), bin.display().to_string())]);
        let environments = Environments::new(folder.path().join("environments"), variables, None, Vec::new());
        for _ in 0..2 {
            let plain = environments.plain().unwrap();
            assert_eq!(fs::read_link(plain.join("python")).unwrap(), environments.interpreters()[0]);
        }
        // An interpreter that is gone is looked for anew.
        let link = environments.plain().unwrap().join("python");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(folder.path().join("gone"), &link).unwrap();
        assert!(environments.plain().unwrap().join("python").exists());
    }

    #[test]
    fn what_a_package_brings_stands_in_front_of_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let environments = Environments::new(folder.path().to_owned(), BTreeMap::new(), None, Vec::new());
        let place = folder.path().join("skill-1");
        let made = std::process::Command::new(SYSTEM[0]).args(["-m", "venv", "--without-pip"]).arg(&place).status();
        if !made.is_ok_and(|status| status.success()) {
            return;
        }
        fs::write(place.join("bin/ls"), "").unwrap();
        for _ in 0..2 {
            let front = environments.front(&place).unwrap();
            let mut names: Vec<_> = fs::read_dir(&front).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["python", "python3"]);
            // It is still the interpreter of the environment.
            let mut command = std::process::Command::new(front.join("python"));
            let said = command.args(["-c", "import sys; print(sys.prefix)"]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), place.display().to_string());
        }
    }
}
