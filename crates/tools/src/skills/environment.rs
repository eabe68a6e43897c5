//! Python environments of skills, each with the packages that a skill declares: made once, with a person's consent, and used
//! by every session.
//!
//! An environment is named by what is in it, so that another list of packages is another environment, and skills that need the
//! same share one. It counts once its mark stands in it, which is written last: what a crash left half made is made anew.
//! Only wheels are installed: building a package would run its code, outside of the sandbox, before anybody has seen it.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    ports::{CallProgress, SkillPackages, Workspace},
};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::process::{self, Ended, Finished, RunError, Script};

/// How long an installation may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of what an installer says that are kept.
const SAID: usize = 64 << 10;
/// Lines of them that a person is told.
const TOLD_LINES: usize = 8;
/// The mark of an environment that is whole.
const MARK: &str = ".agentd-ready";
/// Where `python` is, for scripts that say so on a system that has only `python3`.
const PLAIN: &str = "plain";
/// What is made before the mark.
const LIST: &str = "agentd-requirements.txt";

/// Where interpreters are looked for first: those that commands can run in the sandbox.
const SYSTEM: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];

/// All environments.
#[derive(Debug)]
pub(crate) struct Environments {
    folder: PathBuf,
    /// All that installers see of the environment of the daemon.
    variables: BTreeMap<String, String>,
    /// One lock an environment, so that two turns never make the same at once.
    under_way: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Environments {
    pub(crate) fn new(folder: PathBuf, variables: BTreeMap<String, String>) -> Self {
        Self { folder, variables, under_way: Mutex::default() }
    }

    /// The name of the environment with these packages.
    pub(crate) fn name(skill: &str, packages: &[String]) -> String {
        let mut sorted: Vec<&str> = packages.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let digest = Sha256::digest(sorted.join("\n"));
        let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{skill}-{digest}")
    }

    /// The folder of an environment that is whole.
    pub(crate) fn ready(&self, name: &str) -> Option<PathBuf> {
        let place = self.folder.join(name);
        let is_whole = place.join(MARK).is_file() && place.join("bin/python").exists();
        is_whole.then_some(place)
    }

    /// A folder in which `python` is an interpreter of the system, to be looked in last: scripts of skills are run as `python`,
    /// and many systems know it as `python3` only. None where there is no interpreter.
    pub(crate) fn plain(&self) -> Option<PathBuf> {
        let bin = self.folder.join(PLAIN).join("bin");
        let link = bin.join("python");
        if !link.exists() {
            let python = self.interpreters().into_iter().next()?;
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&bin).ok()?;
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
            let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            under_way.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(under_way.entry(wanted.environment.clone()).or_default())
        };
        let alone = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled(&wanted.skill)),
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
        let place = self.folder.join(environment);
        let failed = |error: io::Error| {
            WorkspaceError::new(
                ErrorKind::Storage,
                format!("could not make the environment of the skill {skill}: {error}"),
            )
            .with_hint("look at the data folder of the daemon")
        };
        prepare(&self.folder, &place).map_err(failed)?;
        progress.tell(&format!("making a Python environment for the skill {skill}"));
        let uv = self.program("uv");
        self.make_empty(skill, uv.as_deref(), &place, cancel).await?;
        let list = place.join(LIST);
        fs::write(&list, packages.join("\n") + "\n").map_err(failed)?;
        progress.tell(&format!("installing {} for the skill {skill}", packages.join(", ")));
        let python = place.join("bin/python");
        let command = match &uv {
            Some(uv) => {
                let head =
                    [uv.as_os_str(), "pip".as_ref(), "install".as_ref(), "--python".as_ref(), python.as_os_str()];
                let tail: [&std::ffi::OsStr; 4] =
                    ["--only-binary".as_ref(), ":all:".as_ref(), "-r".as_ref(), list.as_os_str()];
                head.into_iter().chain(tail).map(OsString::from).collect()
            }
            None => {
                let head: [&std::ffi::OsStr; 8] = [
                    python.as_os_str(),
                    "-m".as_ref(),
                    "pip".as_ref(),
                    "install".as_ref(),
                    "--disable-pip-version-check".as_ref(),
                    "--no-input".as_ref(),
                    "--progress-bar=off".as_ref(),
                    "--only-binary=:all:".as_ref(),
                ];
                head.into_iter().chain(["-r".as_ref(), list.as_os_str()]).map(OsString::from).collect()
            }
        };
        let finished = self.run(skill, command, cancel).await?;
        if finished.ended != Ended::Code(0) {
            return Err(refused(skill, "could not install the packages of", &finished));
        }
        let mark = packages.join("\n");
        let marked = tokio::task::spawn_blocking(move || {
            fs::write(place.join(MARK), mark)?;
            fs::File::open(&place)?.sync_all()
        });
        marked.await.map_err(io::Error::other).flatten().map_err(failed)
    }

    /// An environment without packages, of the first interpreter that can make one.
    async fn make_empty(
        &self,
        skill: &str,
        uv: Option<&Path>,
        place: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), WorkspaceError> {
        let mut last = None;
        for python in self.interpreters() {
            let left = place.to_owned();
            let _ = tokio::task::spawn_blocking(move || fs::remove_dir_all(left)).await;
            let command: Vec<OsString> = match uv {
                Some(uv) => vec![uv.into(), "venv".into(), "--python".into(), python.into(), place.into()],
                None => vec![python.into(), "-m".into(), "venv".into(), place.into()],
            };
            let finished = self.run(skill, command, cancel).await?;
            if finished.ended == Ended::Code(0) {
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

    async fn run(
        &self,
        skill: &str,
        command: Vec<OsString>,
        cancel: &CancellationToken,
    ) -> Result<Finished, WorkspaceError> {
        let failed = |error: String| {
            WorkspaceError::new(ErrorKind::Internal, format!("could not prepare the skill {skill}: {error}"))
        };
        let folder = fs::File::open(&self.folder).map_err(|error| failed(error.to_string()))?;
        let script = Script {
            command,
            folder: folder.into(),
            environment: self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            timeout: PATIENCE,
            output_cap: SAID,
        };
        let nowhere = Workspace { root: self.folder.clone(), project: None, memories: None };
        let finished = process::run(script, &nowhere, None, cancel).await;
        let finished = finished.map_err(|error| match error {
            RunError::Io(error) => failed(error.to_string()),
            RunError::Refused(why) => failed(why),
        })?;
        match finished.ended {
            Ended::Cancelled => Err(cancelled(skill)),
            Ended::TimedOut => {
                let minutes = PATIENCE.as_secs() / 60;
                let message = format!("the packages of the skill {skill} were not installed within {minutes} minutes");
                Err(WorkspaceError::new(ErrorKind::Timeout, message).with_hint("look at the network, and try again"))
            }
            Ended::Code(_) | Ended::Signal(_) => Ok(finished),
        }
    }
}

/// Makes the folder of all environments, and takes away what is half made.
fn prepare(folder: &Path, place: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn cancelled(skill: &str) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Conflict, format!("the packages of the skill {skill} were not installed: cancelled"))
}

/// The last that the installer said is why.
fn refused(skill: &str, what: &str, finished: &Finished) -> WorkspaceError {
    let said = format!("{}\n{}", finished.stdout.text, finished.stderr.text);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = lines[lines.len().saturating_sub(TOLD_LINES)..].join("; ");
    WorkspaceError::new(ErrorKind::InvalidInput, format!("{what} the skill {skill}: {told}"))
        .with_hint("only packages that come as wheels are installed; look at the network and at the names and versions")
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
        let environments = Environments::new(folder.path().join("environments"), variables);
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
}
