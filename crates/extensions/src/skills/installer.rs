//! Program that installs packages into the Python environment of a skill: pip, or uv in its place.
//!
//! It runs locked in as commands do, sees the environment alone, and reaches the hosts of the index and no others.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    path::PathBuf,
    time::Duration,
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    policy::Confinement,
    ports::{CallProgress, Workspace},
};
use agentd_sandbox::{
    config::SandboxConfig,
    process::{self, CommandEnd, FinishedCommand, OutputForm, RunError, Script},
};
use tokio_util::sync::CancellationToken;

use super::{
    package_index::{self, without_passwords},
    route::{Network, Route},
};

/// Time limit of an installation.
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of an installer's output that are kept.
const SAID: usize = 64 << 10;
/// Lines of them that a person is shown.
const TOLD_LINES: usize = 8;
/// Prints the address of the index that pip uses if none is named, and the host of its files: the place where pip keeps
/// them since version 10.
const BUILT_IN_INDEX: &str = "from pip._internal.models.index import PyPI as index; \
                              print(index.simple_url, index.file_storage_domain)";

/// A program that installs packages into an environment.
#[derive(Debug)]
pub(super) struct Installer {
    /// The environment.
    pub(super) place: PathBuf,
    /// Program that installs in place of pip.
    pub(super) uv: Option<PathBuf>,
    /// All variables that it sees.
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) sandbox: Option<SandboxConfig>,
    pub(super) network: Network,
}

impl Installer {
    /// Names the index that pip has built in, if the person names none: then its hosts are known, and nothing else is
    /// reached.
    ///
    /// # Errors
    /// If none of the interpreters has a pip that says so.
    pub(super) async fn name_index(
        &mut self,
        skill: &str,
        interpreters: &[PathBuf],
        cancel: &CancellationToken,
    ) -> Result<(), WorkspaceError> {
        if package_index::is_named(&self.environment) {
            return Ok(());
        }
        for python in interpreters {
            let command = [python.as_os_str(), "-I".as_ref(), "-c".as_ref(), BUILT_IN_INDEX.as_ref()];
            let finished = self.run(skill, command.map(OsStr::to_owned).to_vec(), false, cancel).await?;
            let said = finished.stdout.text.trim();
            let Some((index, files)) = said.split_once(' ').filter(|_| finished.ended == CommandEnd::Code(0)) else {
                continue;
            };
            let variable = if self.uv.is_some() { "UV_DEFAULT_INDEX" } else { "PIP_INDEX_URL" };
            self.environment.insert(variable.into(), index.into());
            self.network.hosts.push(files.to_owned());
            return Ok(());
        }
        let message = format!("could not install the packages of the skill {skill}: no index of packages is named");
        Err(WorkspaceError::new(ErrorKind::Configuration, message)
            .with_hint("name it in PIP_INDEX_URL or pip.conf, or install pip, which knows one"))
    }

    /// Runs a program, with a way to the hosts of the index or without any network.
    ///
    /// # Errors
    /// If it cannot be started, takes too long or is cancelled, or asks for a host that is none of the index's.
    pub(super) async fn run(
        &self,
        skill: &str,
        command: Vec<OsString>,
        with_index: bool,
        cancel: &CancellationToken,
    ) -> Result<FinishedCommand, WorkspaceError> {
        let failed = |error: String| {
            WorkspaceError::new(ErrorKind::Internal, format!("could not prepare the skill {skill}: {error}"))
        };
        let folder = fs::File::open(&self.place).map_err(|error| failed(error.to_string()))?;
        let mut environment = self.environment.clone();
        let route = match with_index {
            true => Route::open(skill, &self.network, self.sandbox.as_ref(), &mut environment).await?,
            false => Route::closed(self.sandbox.as_ref()),
        };
        let script = Script {
            command,
            folder: folder.into(),
            environment,
            timeout: PATIENCE,
            output_cap: SAID,
            output: OutputForm::Text,
            confinement: Confinement::Usual,
            closed: Default::default(),
            progress: CallProgress::default(),
        };
        let only_here =
            Workspace { root: self.place.clone(), project: None, folders: Vec::new(), memories: None, worktree: None };
        let ending = cancel.child_token();
        let finished = {
            let running = process::run(script, &only_here, route.sandbox.as_ref(), &ending);
            tokio::pin!(running);
            tokio::select! {
                finished = &mut running => finished,
                () = route.until_strayed() => {
                    ending.cancel();
                    running.await
                }
            }
        };
        if let Some(strayed) = route.strayed(skill) {
            return Err(strayed);
        }
        let finished = finished.map_err(|error| match error {
            RunError::Io(error) => failed(error.to_string()),
            RunError::Refused(why) => failed(why),
        })?;
        match finished.ended {
            CommandEnd::Cancelled => Err(cancelled(skill)),
            CommandEnd::TimedOut => {
                let minutes = PATIENCE.as_secs() / 60;
                let message = format!("the packages of the skill {skill} were not installed within {minutes} minutes");
                Err(WorkspaceError::new(ErrorKind::Timeout, message).with_hint("look at the network, and try again"))
            }
            CommandEnd::Code(_) | CommandEnd::Signal(_) | CommandEnd::Lost => Ok(finished),
        }
    }
}

/// Error of an installation that was cancelled.
pub(super) fn cancelled(skill: &str) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Conflict, format!("the packages of the skill {skill} were not installed: cancelled"))
}

/// Error of an installer that failed, with the last lines that it printed.
pub(super) fn refused(skill: &str, what: &str, finished: &FinishedCommand) -> WorkspaceError {
    let said = without_passwords(&format!("{}\n{}", finished.stdout.text, finished.stderr.text));
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = lines[lines.len().saturating_sub(TOLD_LINES)..].join("; ");
    WorkspaceError::new(ErrorKind::InvalidInput, format!("{what} the skill {skill}: {told}"))
        .with_hint("only packages that come as wheels are installed; look at the network and at the names and versions")
}
