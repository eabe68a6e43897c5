//! Skills: folders with a `SKILL.md`, in the format of many agents.
//!
//! - `source`: sources of skills and the selection for a session: the user's own, those in plugins, the bundled ones,
//!   and those of the project.
//! - `link`: copy of a skill in a session's `skills/`, made on demand and replaced when the skill has changed.
//! - `environment`: Python environments with the packages that a skill declares. `package_index`: index from which
//!   packages are installed. `installer`: runs pip or uv, with network access to that index only.
//! - `commands`: finds the skills that a command uses, and the package for a module that a failed command lacked.
//! - `check`: reports on a skill folder for the user, and adds it to the user's own skills.
//!
//! A project's skills are untrusted: they cannot replace other skills, do not follow links that lead outside, and are
//! marked as the project's in the catalogue.

mod check;
mod commands;
mod environment;
mod installer;
mod link;
mod package_index;
pub(crate) mod source;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    guide::{Skill, SkillOrigin, SkillReport},
    ports::{CallProgress, SkillPackages, Skills, Workspace},
};
use agentd_sandbox::config::SandboxConfig;
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio_util::sync::CancellationToken;

pub use self::commands::Programs;
use self::{
    environment::Environments,
    source::{FoundSkill, Source},
};
use crate::{
    files::{
        agreed_folder::lock,
        disk::{DiskAccess, GuideCache, NotCached},
    },
    plugins::PluginStore,
    project::{ProjectStore, SKILLS},
};

/// Settings for skills, by name.
pub type SkillSettings = BTreeMap<String, SkillSetting>;

/// Settings for one skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillSetting {
    /// True to list the skill for models even if it is not mentioned. `None` means true, except for bundled skills.
    pub enabled: Option<bool>,
    /// File extensions that activate the skill, without the dot.
    pub file_types: Vec<String>,
    /// Description for models, replacing the skill's own.
    pub description: Option<String>,
}

/// Folders for skills and their environments.
#[derive(Debug, Clone, Default)]
pub struct SkillConfig {
    /// Folder of the user's own skills.
    pub person: PathBuf,
    /// Skills bundled with agentd.
    pub bundled: Option<PathBuf>,
    /// Folder for environments. Sandboxed commands must be able to read it.
    pub environments: PathBuf,
    /// User's home folder, to shorten displayed paths.
    pub home: Option<PathBuf>,
    /// Plugins added by the user.
    pub plugins: Option<PluginStore>,
    /// Projects whose `.agentd/skills` the user trusts. With `None` no project's skills are used.
    pub projects: Option<ProjectStore>,
    /// Environment variables for finding the installers, and for the settings of the user's package index.
    pub variables: BTreeMap<String, String>,
    /// Sandbox for commands, if any. Installers also run in it, with access to the hosts of the index.
    pub sandbox: Option<SandboxConfig>,
    /// Hosts that serve files for the user's index, besides the hosts in the index URLs: `HOST` or `HOST:PORT`.
    pub package_hosts: Vec<String>,
}

/// All skills. Clones share one store.
#[derive(Debug, Clone)]
pub struct SkillStore(Arc<StoreInner>);

#[derive(Debug)]
struct StoreInner {
    config: SkillConfig,
    settings: RwLock<Arc<SkillSettings>>,
    cache: GuideCache,
    /// Bundled skills, with the settings under which they were read.
    bundled: Mutex<Option<(Arc<SkillSettings>, Vec<FoundSkill>)>>,
    environments: Environments,
    /// Serialises copies, since two calls in one step may need the same skill.
    linking: Mutex<()>,
}

impl SkillStore {
    /// Creates the store. Reads nothing yet.
    pub fn new(config: SkillConfig, settings: SkillSettings) -> Self {
        let SkillConfig { environments: folder, variables, sandbox, package_hosts: hosts, .. } = config.clone();
        let environments = Environments { folder, variables, sandbox, hosts, ..Environments::default() };
        let settings = RwLock::new(Arc::new(settings));
        Self(Arc::new(StoreInner {
            config,
            settings,
            cache: GuideCache::default(),
            bundled: Mutex::default(),
            environments,
            linking: Mutex::default(),
        }))
    }

    /// Applies other settings, from the next turn on.
    pub fn follow_settings(&self, settings: SkillSettings) {
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Loads the skills of a session in this workspace.
    pub(crate) fn load(&self, workspace: Option<&Workspace>, access: DiskAccess) -> Result<Vec<Skill>, NotCached> {
        Ok(self.skills(workspace, access)?.into_iter().map(|(skill, _)| skill).collect())
    }

    /// Runs file work on a blocking thread.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WorkspaceError>> {
        let store = self.clone();
        let failed = |error| WorkspaceError::new(ErrorKind::Internal, "could not read the skills").with_source(error);
        async move { tokio::task::spawn_blocking(move || work(&store)).await.map_err(failed) }.boxed()
    }

    fn sources(&self, workspace: Option<&Workspace>, access: DiskAccess) -> Result<Vec<Source>, NotCached> {
        let project = workspace.and_then(|workspace| workspace.project.as_ref()).map(|mount| mount.path.as_path());
        let mut trusted = None;
        if let (Some(projects), Some(project)) = (&self.0.config.projects, project) {
            trusted = projects.0.now(project, access)?.content.map(|content| content.folder.join(SKILLS));
        }
        let plugins = self.0.config.plugins.as_ref().map(PluginStore::installed);
        let plugins = plugins.as_deref().unwrap_or_default();
        Ok(source::sources(&self.0.config.person, plugins, self.0.config.bundled.as_deref(), project, trusted))
    }

    fn settings(&self) -> Arc<SkillSettings> {
        Arc::clone(&self.0.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn skills(&self, workspace: Option<&Workspace>, access: DiskAccess) -> Result<Vec<FoundSkill>, NotCached> {
        let settings = self.settings();
        let mut found = Vec::new();
        for source in self.sources(workspace, access)? {
            found.extend(self.of_source(&source, &settings, access)?);
        }
        Ok(source::select(found))
    }

    /// Returns the skills from one source. The folder of the bundled skills is named after its content, so the skills
    /// are read only once. Bundled skills are the largest part of the check before a turn.
    fn of_source(
        &self,
        source: &Source,
        settings: &Arc<SkillSettings>,
        access: DiskAccess,
    ) -> Result<Vec<FoundSkill>, NotCached> {
        let load = || source::skills(source, settings, self.0.config.home.as_deref(), &self.0.cache, access);
        if source.origin != SkillOrigin::Bundled {
            return load();
        }
        let bundled = || lock(&self.0.bundled);
        if let Some((under, found)) = &*bundled()
            && Arc::ptr_eq(under, settings)
        {
            return Ok(found.clone());
        }
        let found = load()?;
        // A blocking read skips files that are currently unreadable, so its result is not cached.
        if access == DiskAccess::CachedOnly {
            *bundled() = Some((Arc::clone(settings), found.clone()));
        }
        Ok(found)
    }
}

impl Skills for SkillStore {
    fn usable<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<Skill>> {
        if let Ok(skills) = self.load(workspace, DiskAccess::CachedOnly) {
            return std::future::ready(skills).boxed();
        }
        let workspace = workspace.cloned();
        let looked = self.work(move |store| store.load(workspace.as_ref(), DiskAccess::Blocking).unwrap_or_default());
        looked.map(Result::unwrap_or_default).boxed()
    }

    fn link<'a>(&'a self, workspace: &'a Workspace, name: &'a str) -> BoxFuture<'a, Result<bool, WorkspaceError>> {
        let (workspace, name) = (workspace.clone(), name.to_owned());
        self.work(move |store| store.copy_into(&workspace, &name)).map(Result::flatten).boxed()
    }

    fn missing<'a>(&'a self, workspace: &'a Workspace, command: &'a str) -> BoxFuture<'a, Vec<SkillPackages>> {
        if !commands::may_need(command) {
            return std::future::ready(Vec::new()).boxed();
        }
        let (workspace, command) = (workspace.clone(), command.to_owned());
        let looked = self.work(move |store| store.missing_packages(&workspace, &command));
        looked.map(Result::unwrap_or_default).boxed()
    }

    fn import_failed<'a>(
        &'a self,
        workspace: &'a Workspace,
        command: &'a str,
        output: &'a str,
    ) -> BoxFuture<'a, Option<String>> {
        let Some(module) = commands::missing_module(output) else { return std::future::ready(None).boxed() };
        let (workspace, command, module) = (workspace.clone(), command.to_owned(), module.to_owned());
        let noted = self.work(move |store| store.note_import(&workspace, &command, &module));
        noted.map(|noted| noted.ok().flatten()).boxed()
    }

    fn install<'a>(
        &'a self,
        wanted: &'a SkillPackages,
        progress: &'a CallProgress,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), WorkspaceError>> {
        self.0.environments.make(wanted, progress, cancel).boxed()
    }

    fn reports<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<SkillReport>> {
        let workspace = workspace.cloned();
        self.work(move |store| store.all_reports(workspace.as_ref())).map(Result::unwrap_or_default).boxed()
    }
}
