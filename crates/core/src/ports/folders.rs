//! Folders beside the session: projects, skills, worktrees, and programs that run confined.

use std::{collections::BTreeMap, ffi::OsString, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{CallProgress, Workspace};
use crate::{
    agent::Agents,
    error::WorkspaceError,
    guide::{Skill, SkillReport},
    ids::SessionId,
    project::{ProjectReport, ProjectTrust},
    worktree::{KnownWorktree, MadeWorktree, NewWorktree, WorktreeApplied, WorktreeDiff, WorktreeReport},
};

/// Starts programs inside the walls of commands: no network, a clean environment, nothing to be written but temporary files
/// of their own.
pub trait Confiner: Send + Sync {
    /// Starts a program. It reads its input and writes its output until it ends.
    ///
    /// # Errors
    /// The walls cannot be had, and nothing runs without them.
    fn start(&self, program: ConfinedProgram) -> BoxFuture<'_, Result<ConfinedProcess, ConfineError>>;

    /// Files of secrets and folders of them below a folder, as they are now.
    ///
    /// # Errors
    /// The folder has too many files to be searched.
    fn secrets(&self, folder: PathBuf) -> BoxFuture<'_, Result<Vec<SecretFile>, ConfineError>>;
}

/// A file or folder that holds secrets. One that took the place of another one at its path is a different one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// Its device and its number there.
    pub inode: (u64, u64),
}

/// A program to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfinedProgram {
    /// Absolute path of its file, or its name, which is looked for inside the walls.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Absolute path of the folder that it may read.
    pub folder: PathBuf,
    /// Files and folders in it that it may not read.
    pub hidden: Vec<PathBuf>,
    /// Further variables of its environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Memory that each of its processes may write to, in bytes.
    pub memory_bytes: Option<u64>,
}

/// A program that runs. Dropping `ended` kills it with all that it started.
pub struct ConfinedProcess {
    /// The folder under the name by which the program knows it.
    pub folder: PathBuf,
    /// Write end of its standard input.
    pub input: OwnedFd,
    /// Read end of its standard output.
    pub output: OwnedFd,
    /// Resolves when it has ended.
    pub ended: BoxFuture<'static, ProgramEnd>,
}

/// End of a program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Manner of it, in words: `exit code 1`.
    pub how: String,
    /// Set if it never ran, and no later try can help while the settings stay.
    pub lasting: bool,
}

/// Reason why a program did not start, in one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfineError {
    /// The sentence.
    pub message: String,
    /// Set if no later try can help while the settings stay.
    pub lasting: bool,
}

/// The part of a project's `.agentd/` that sessions take their agents from.
#[derive(Debug, Clone, Default)]
pub struct ProjectStanding {
    /// The trust in it now.
    pub trust: ProjectTrust,
    /// Its agents; none unless it is trusted. The same value as long as nothing has changed.
    pub agents: Option<Arc<Agents>>,
}

/// Knows the `.agentd/` folders of projects, and which of them the person trusts. No tool reaches this port.
pub trait Projects: Send + Sync {
    /// All that is known of a project. Texts of commands are told only where it is trusted.
    ///
    /// # Errors
    /// When there is no such folder, or it cannot be read.
    fn show(&self, project: PathBuf) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;

    /// Trusts a project as long as its content has this hash, on behalf of a client.
    ///
    /// # Errors
    /// When its content has another hash, there is nothing to trust, or the trust cannot be stored.
    fn trust(
        &self,
        project: PathBuf,
        hash: String,
        client: String,
    ) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;

    /// Trusts a project no longer. The project need not be there any more.
    ///
    /// # Errors
    /// When it is not trusted, or that cannot be stored.
    fn distrust(&self, project: PathBuf) -> BoxFuture<'_, Result<ProjectReport, WorkspaceError>>;
}

/// Knows the skills that there are, and brings them into sessions.
pub trait Skills: Send + Sync {
    /// Every skill that a session there can use, sorted by name, those included that the catalogue leaves out; without a
    /// workspace, those of all sessions.
    fn usable<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<Skill>>;

    /// Puts a skill where tools of the session read it, unless it is there as it is now. False where there is none of that
    /// name.
    ///
    /// # Errors
    /// When the skill cannot be used, with what is wrong with it; or the disk does not take it.
    fn link<'a>(&'a self, workspace: &'a Workspace, name: &'a str) -> BoxFuture<'a, Result<bool, WorkspaceError>>;

    /// Packages that must be installed before a command with this text does what it says: for skills of the session
    /// that it names and runs something of.
    fn missing<'a>(&'a self, workspace: &'a Workspace, command: &'a str) -> BoxFuture<'a, Vec<SkillPackages>>;

    /// Notes that a command failed because a script of a skill imports a module that is not there, as its output says. The
    /// package that is then among [`Self::missing`]; none where no skill of the session that the command names imports it.
    fn import_failed<'a>(
        &'a self,
        workspace: &'a Workspace,
        command: &'a str,
        output: &'a str,
    ) -> BoxFuture<'a, Option<String>>;

    /// Installs it, which may take minutes. What is there already is left as it is.
    ///
    /// # Errors
    /// When it cannot be installed; then nothing of it is left.
    fn install<'a>(
        &'a self,
        wanted: &'a SkillPackages,
        progress: &'a CallProgress,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>>;

    /// Everything that is known of all skills, those included that cannot be used.
    fn reports<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<SkillReport>>;
}

/// Packages that a skill's environment has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillPackages {
    /// The skill.
    pub skill: String,
    /// The packages, as they are installed.
    pub packages: Vec<String>,
    /// The name of the environment, the same for the same packages.
    pub environment: String,
}

/// Makes, shows, merges and removes worktrees. All are found again on the disk: each is recorded before it is made. No tool
/// reaches this port.
pub trait Worktrees: Send + Sync {
    /// Makes a worktree from the last commit of the project's repository.
    ///
    /// # Errors
    /// When the project is in no repository or in one without a commit, git is missing or fails, or the name is taken or
    /// none.
    fn make(&self, new: NewWorktree) -> BoxFuture<'_, Result<MadeWorktree, WorkspaceError>>;

    /// All worktrees, sorted by name.
    ///
    /// # Errors
    /// When the records cannot be read.
    fn known(&self) -> BoxFuture<'_, Result<Vec<KnownWorktree>, WorkspaceError>>;

    /// State of a worktree. What cannot be found out of it is told as its problem.
    ///
    /// # Errors
    /// When there is none of that name.
    fn report(&self, name: String) -> BoxFuture<'_, Result<WorktreeReport, WorkspaceError>>;

    /// Its difference from the newest commit that its main tree has as well: commits, changes that are not committed, and new files.
    ///
    /// # Errors
    /// When there is none of that name, or git fails.
    fn diff(&self, name: String) -> BoxFuture<'_, Result<WorktreeDiff, WorkspaceError>>;

    /// Commits what is not committed in it, with this message, and merges its branch into what the main tree has checked out:
    /// all of it, or nothing.
    ///
    /// # Errors
    /// Of kind `Conflict`, with the files, where they cannot be merged or are changed in the main tree.
    fn apply(&self, name: String, message: String) -> BoxFuture<'_, Result<WorktreeApplied, WorkspaceError>>;

    /// Removes a worktree and its branch; unless forced, one without changes that nothing else has.
    ///
    /// # Errors
    /// Of kind `Conflict` where it has such changes.
    fn remove(&self, name: String, force: bool) -> BoxFuture<'_, Result<(), WorkspaceError>>;

    /// Removes a worktree whose session is gone, where it has no changes that nothing else has. Says whether it did.
    ///
    /// # Errors
    /// When it cannot be looked at or removed.
    fn leave(&self, name: String) -> BoxFuture<'_, Result<bool, WorkspaceError>>;

    /// Gives a worktree to another session, which uses it too.
    ///
    /// # Errors
    /// When the record cannot be written.
    fn hand_over(&self, name: String, heir: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>>;

    /// Finishes or clears what a stop of the daemon cut off.
    ///
    /// # Errors
    /// When the records cannot be read.
    fn settle(&self) -> BoxFuture<'_, Result<(), WorkspaceError>>;
}
