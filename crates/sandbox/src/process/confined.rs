//! Programs that run without approval: started in the sandbox, connected by pipes, and killed when their handle is
//! dropped.

use std::{collections::BTreeMap, ffi::OsString, io, path::PathBuf, sync::Arc};

use agentd_core::{
    environment::ClientEnvironment,
    ports::{ConfineError, ConfinedProcess, ConfinedProgram, Confiner, ProgramEnd, SecretFile, Workspace},
    session::Mount,
};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::{
    config::Report,
    environment,
    host::{Isolation, Sandbox},
    places::PROJECT,
    secrets::project_secrets,
};

/// Private folder of a confined program, which is empty at the start and removed with the program.
const HOME: &str = "/tmp";

/// Starts programs in the sandbox, where they cannot change anything and have no network.
#[derive(Debug)]
pub struct ConfinedPrograms {
    /// Sandbox in which the programs run.
    pub sandbox: Arc<Sandbox>,
    /// Additional variables, as for commands.
    pub environment: BTreeMap<String, String>,
    /// Basic variables, as for commands.
    pub base: BTreeMap<String, String>,
    /// Empty folder, used instead of the session's own folder. Created if necessary.
    pub root: PathBuf,
    /// Predicate for names of secret files. Names that this crate classifies as secret are secret in any case.
    pub is_secret: fn(&str) -> bool,
}

impl Confiner for ConfinedPrograms {
    fn start(&self, program: ConfinedProgram) -> BoxFuture<'_, Result<ConfinedProcess, ConfineError>> {
        async move {
            if !self.sandbox.is_on() {
                return Err(start_error(
                    "the sandbox is off, and unapproved programs run only inside it; set sandbox.mode in agentd.yaml",
                    true,
                ));
            }
            let ConfinedProgram { program, args, folder, hidden, environment: own, memory_bytes } = program;
            let io_failure = |action: &str| {
                let attempted = format!("could not {action}");
                move |error: io::Error| start_error(format!("{attempted}: {error}"), false)
            };
            let status = self.sandbox.status().await;
            if !status.runs {
                let reason = status.weaknesses.first().cloned().unwrap_or_default();
                return Err(start_error(format!("the sandbox is incomplete: {reason}; see `agentctl doctor`"), true));
            }
            let project = Some(Mount { path: folder.clone(), writable: false });
            let workspace = Workspace { root: self.root.clone(), project, ..Workspace::default() };
            let names = self.sandbox.names(&workspace).await;
            let client = ClientEnvironment::default();
            let mut variables = environment::build(&workspace, &names, &self.base, &self.environment, &client);
            variables.retain(|name, _| name != "WORKSPACE" && name != "PROJECT");
            variables.extend(["HOME", "TMPDIR"].map(|name| (name.into(), HOME.into())));
            variables.extend(own);
            let (root, project) = (self.root.clone(), folder.clone());
            let opened = tokio::task::spawn_blocking(move || {
                std::fs::create_dir_all(root)?;
                agentd_workspace::exact::open_folder(&project)
            });
            let opened = opened.await.map_err(|_| start_error("could not open its folder", false))?;
            let opened = opened.map_err(io_failure("open its folder"))?;
            let (stdin, input) = io::pipe().map_err(io_failure("create a pipe"))?;
            let command =
                std::iter::once(program.into_os_string()).chain(args.into_iter().map(OsString::from)).collect();
            let confinement = agentd_core::policy::Confinement::ReadOnly;
            let isolation =
                Isolation { confinement, closed: Default::default(), input: Some(stdin.into()), memory_bytes, hidden };
            let started = self.sandbox.run(&workspace, command, &variables, &opened, isolation).await;
            let (mut child, mut guard) = started.map_err(io_failure("start it"))?;
            let output = child.stdout.take().ok_or_else(|| start_error("could not read its output", false))?;
            let output = output.into_owned_fd().map_err(io_failure("read its output"))?;
            let ended = async move {
                let report = guard.report().await;
                drop(guard);
                let _ = child.wait().await;
                program_end(report)
            };
            let named = names.iter().any(|name| name.mounted && name.path == folder);
            let folder = if named { PROJECT.into() } else { folder };
            Ok(ConfinedProcess { folder, input: input.into(), output, ended: ended.boxed() })
        }
        .boxed()
    }

    fn secrets(&self, folder: PathBuf) -> BoxFuture<'_, Result<Vec<SecretFile>, ConfineError>> {
        let is_secret = self.is_secret;
        let search = tokio::task::spawn_blocking(move || project_secrets(&folder, is_secret));
        async move {
            let found = search.await.map_err(|_| start_error("could not search its folder", false))?;
            found.map_err(|reason| start_error(reason, true))
        }
        .boxed()
    }
}

fn start_error(message: impl Into<String>, lasting: bool) -> ConfineError {
    ConfineError { message: message.into(), lasting }
}

/// Describes the end of a program.
fn program_end(report: io::Result<Report>) -> ProgramEnd {
    let ended = |how: String| ProgramEnd { how, lasting: false };
    match report {
        Ok(Report::Failed(reason)) => ProgramEnd { how: format!("it did not start: {reason}"), lasting: true },
        Ok(Report::Ended { code: Some(code), .. }) => ended(format!("exit code {code}")),
        Ok(Report::Ended { signal: Some(signal), .. }) => ended(format!("signal {signal}")),
        Ok(Report::Ended { .. } | Report::Ready(_) | Report::Begun) => ended("it ended".to_owned()),
        Err(error) => ended(format!("its helper failed: {error}")),
    }
}
