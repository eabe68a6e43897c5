//! Skills: folders with a `SKILL.md`, as many agents know them.
//!
//! - `source`: where skills are, and which of them a session has: the person's own, those of plugins, those that came with agentd,
//!   those of the project.
//! - `link`: the copy that a session has below `skills/`, made when it is needed and made anew when the skill has changed.
//! - `environment`: Python environments with the packages that a skill declares. `package_index`: where the packages come from.
//!   `installer`: pip or uv, with the way to there, and nowhere else.
//! - `commands`: which skills a command is about; the module that a failed command lacked, and its package.
//! - `check`: all that is known of a folder, for people; and how one is taken into the person's own.
//!
//! A project's skills are untrusted: they take no other skill's name, follow no links out, and are marked as the
//! project's in the catalogue.

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
        agreed::lock,
        disk::{GuideCache, NotAtHand, Pace},
    },
    plugins::PluginStore,
    project::{ProjectStore, SKILLS},
};

/// Settings of skills, by their names.
pub type SkillSettings = BTreeMap<String, SkillSetting>;

/// Settings of one skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillSetting {
    /// Set if models are told of it without a mention; they are where nothing is said.
    pub enabled: Option<bool>,
    /// Endings of files that bring it, without the dot.
    pub file_types: Vec<String>,
    /// Description for models, in place of its own.
    pub description: Option<String>,
}

/// Folders of skills, and of their environments.
#[derive(Debug, Clone, Default)]
pub struct SkillConfig {
    /// The person's own.
    pub person: PathBuf,
    /// Those that came with agentd.
    pub bundled: Option<PathBuf>,
    /// The folder of environments. Commands in the sandbox must be able to read it.
    pub environments: PathBuf,
    /// The person's home, for paths that they are shown.
    pub home: Option<PathBuf>,
    /// The plugins that the person has added.
    pub plugins: Option<PluginStore>,
    /// The projects whose `.agentd/skills` the person trusts; without them no project's is used.
    pub projects: Option<ProjectStore>,
    /// The environment in which programs that install packages are found, and the person's index is named.
    pub variables: BTreeMap<String, String>,
    /// The sandbox of commands, if there is one: programs that install packages run in it too, with the hosts of the index.
    pub sandbox: Option<SandboxConfig>,
    /// Hosts that serve files of the person's index, besides those in its addresses: `HOST` or `HOST:PORT`.
    pub package_hosts: Vec<String>,
}

/// All skills. Cloneable; all clones are one.
#[derive(Debug, Clone)]
pub struct SkillStore(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    config: SkillConfig,
    settings: RwLock<Arc<SkillSettings>>,
    known: GuideCache,
    /// The skills that came with agentd, under the settings that were passed for them.
    bundled: Mutex<Option<(Arc<SkillSettings>, Vec<FoundSkill>)>>,
    environments: Environments,
    /// One skill is copied at a time: two calls of one step may ask for the same.
    linking: Mutex<()>,
}

impl SkillStore {
    /// Skills that lie there. Nothing is read yet.
    pub fn new(config: SkillConfig, settings: SkillSettings) -> Self {
        let environments = Environments::new(
            config.environments.clone(),
            config.variables.clone(),
            config.sandbox.clone(),
            config.package_hosts.clone(),
        );
        let settings = RwLock::new(Arc::new(settings));
        Self(Arc::new(Shelf {
            config,
            settings,
            known: GuideCache::default(),
            bundled: Mutex::default(),
            environments,
            linking: Mutex::default(),
        }))
    }

    /// Follows other settings, from the next turn on.
    pub fn follow_settings(&self, settings: SkillSettings) {
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// The skills of a session that works there.
    pub(crate) fn look(&self, workspace: Option<&Workspace>, pace: Pace) -> Result<Vec<Skill>, NotAtHand> {
        Ok(self.skills(workspace, pace)?.into_iter().map(|(skill, _)| skill).collect())
    }

    /// Runs file work on a thread that may block.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WorkspaceError>> {
        let store = self.clone();
        let failed =
            |error| WorkspaceError::new(ErrorKind::Internal, "could not look at the skills").with_source(error);
        async move { tokio::task::spawn_blocking(move || work(&store)).await.map_err(failed) }.boxed()
    }

    fn sources(&self, workspace: Option<&Workspace>, pace: Pace) -> Result<Vec<Source>, NotAtHand> {
        let project = workspace.and_then(|workspace| workspace.project.as_ref()).map(|mount| mount.path.as_path());
        let mut trusted = None;
        if let (Some(projects), Some(project)) = (&self.0.config.projects, project) {
            trusted = projects.0.now(project, pace)?.content.map(|content| content.folder.join(SKILLS));
        }
        let plugins = self.0.config.plugins.as_ref().map(PluginStore::installed);
        let plugins = plugins.as_deref().unwrap_or_default();
        Ok(source::sources(&self.0.config.person, plugins, self.0.config.bundled.as_deref(), project, trusted))
    }

    fn settings(&self) -> Arc<SkillSettings> {
        Arc::clone(&self.0.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn skills(&self, workspace: Option<&Workspace>, pace: Pace) -> Result<Vec<FoundSkill>, NotAtHand> {
        let settings = self.settings();
        let mut found = Vec::new();
        for source in self.sources(workspace, pace)? {
            found.extend(self.of_source(&source, &settings, pace)?);
        }
        Ok(source::chosen(found))
    }

    /// The skills of one source. Those that came with agentd lie in a folder that is named by what it holds, so one
    /// look at it is enough: they are most of what there is to be looked at before a turn.
    fn of_source(
        &self,
        source: &Source,
        settings: &Arc<SkillSettings>,
        pace: Pace,
    ) -> Result<Vec<FoundSkill>, NotAtHand> {
        let look = || source::skills(source, settings, self.0.config.home.as_deref(), &self.0.known, pace);
        if source.origin != SkillOrigin::Bundled {
            return look();
        }
        let bundled = || lock(&self.0.bundled);
        if let Some((under, found)) = &*bundled()
            && Arc::ptr_eq(under, settings)
        {
            return Ok(found.clone());
        }
        let found = look()?;
        // A patient look leaves out what cannot be read just now; this one would not have ended well then.
        if pace == Pace::AtOnce {
            *bundled() = Some((Arc::clone(settings), found.clone()));
        }
        Ok(found)
    }
}

impl Skills for SkillStore {
    fn usable<'a>(&'a self, workspace: Option<&'a Workspace>) -> BoxFuture<'a, Vec<Skill>> {
        if let Ok(skills) = self.look(workspace, Pace::AtOnce) {
            return std::future::ready(skills).boxed();
        }
        let workspace = workspace.cloned();
        let looked = self.work(move |store| store.look(workspace.as_ref(), Pace::Patient).unwrap_or_default());
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
        let Some(module) = commands::lacking(output) else { return std::future::ready(None).boxed() };
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
