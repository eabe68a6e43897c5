//! The skills of sessions.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{CallProgress, Workspace};
use crate::{
    error::WorkspaceError,
    guide::{Skill, SkillReport},
};

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
