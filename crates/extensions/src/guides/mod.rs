//! Guides that people wrote for models: `AGENTS.md` files and skills, checked before each turn.
//!
//! - `place`: where `AGENTS.md` files may be: the person's own, the folders above a project, the project, folders in it.
//!
//! The catalogue of skills is that of [`crate::skills`], which looks at files in the same way.

mod place;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    guide::{GuideFile, GuideLimits, Guides},
    ports::Workspace,
};

use self::place::GuidePlace;
use crate::{
    files::{
        disk::{NotAtHand, Pace},
        known::GuideCache,
    },
    project::ProjectStore,
    skills::{SkillConfig, SkillStore},
};

/// The name of the files.
const NAME: &str = "AGENTS.md";
/// The name of a file that serves where there is none of that name.
const OTHER_NAME: &str = "CLAUDE.md";
/// Maximum number of memory names passed to models.
const MAX_MEMORIES: usize = 40;

/// Finds and reads them.
#[derive(Debug, Clone)]
pub struct GuideReader {
    /// The person's configuration folder.
    config: PathBuf,
    /// The person's home: the folders above a project are looked at up to there.
    home: Option<PathBuf>,
    /// Files that were read before.
    known: Arc<GuideCache>,
    /// The skills.
    pub shelf: SkillStore,
    /// The projects whose instructions the person trusts; none where nobody keeps any.
    pub projects: Option<ProjectStore>,
}

impl GuideReader {
    /// A reader of the configuration folder and of projects up to this home.
    pub fn new(config: &Path, home: Option<&Path>) -> Self {
        // What a project's real path is compared with is real, too.
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_path_buf()));
        let person = SkillConfig { person: config.join("skills"), home: home.clone(), ..SkillConfig::default() };
        let shelf = SkillStore::new(person, Default::default());
        Self { config: config.to_path_buf(), home, known: Arc::default(), shelf, projects: None }
    }

    /// Looks at everything, and reads what is not as it was. It waits for the disk.
    pub fn look(&self, workspace: &Workspace, limits: GuideLimits) -> Guides {
        self.look_at(workspace, limits, Pace::Patient).unwrap_or_default()
    }

    /// The same if nothing has changed since the last scan, as far as is known without waiting. None if unknown.
    pub fn glance(&self, workspace: &Workspace, limits: GuideLimits) -> Option<Guides> {
        self.look_at(workspace, limits, Pace::AtOnce).ok()
    }

    fn look_at(&self, workspace: &Workspace, limits: GuideLimits, pace: Pace) -> Result<Guides, NotAtHand> {
        let mut guides = Guides::default();
        if limits.memory {
            guides.files = self.files(workspace, limits, pace)?;
            if let Some(folder) = &workspace.memories {
                (guides.memories, guides.more_memories) = self.memories(folder, pace)?;
            }
        }
        if limits.skills {
            guides.skills = self.shelf.look(workspace, pace)?;
        }
        Ok(guides)
    }

    fn files(&self, workspace: &Workspace, limits: GuideLimits, pace: Pace) -> Result<Vec<GuideFile>, NotAtHand> {
        let project = workspace.project.as_ref().map(|mount| mount.path.as_path());
        let mut files: Vec<GuideFile> = Vec::new();
        let home = self.home.as_deref();
        let places = match (&workspace.worktree, project) {
            (Some(worktree), Some(project)) => place::places_in_worktree(&self.config, worktree, project, home),
            _ => place::places(&self.config, project, home),
        };
        self.read(places, limits, pace, &mut files)?;
        if let (Some(projects), Some(project)) = (&self.projects, project) {
            let content = projects.now(project, pace)?.content;
            files.extend(content.and_then(|content| content.guide(limits.max_file_bytes)));
        }
        Ok(files)
    }

    /// The guides of the folders of a project in which these paths lie. It waits for the disk.
    pub fn in_folders(&self, project: &Path, limits: GuideLimits, paths: &[String]) -> Vec<GuideFile> {
        let mut files = Vec::new();
        // A patient look leaves out what it cannot read.
        let _ = self.read(place::places_below(project, paths), limits, Pace::Patient, &mut files);
        files
    }

    /// Adds the guides of these places to the files.
    fn read(
        &self,
        places: Vec<GuidePlace>,
        limits: GuideLimits,
        pace: Pace,
        files: &mut Vec<GuideFile>,
    ) -> Result<(), NotAtHand> {
        let mut seen = Vec::new();
        for place in places {
            let most = limits.max_file_bytes;
            let (read, name) = match self.known.read(&place.path, place.follow, most, pace)? {
                Some(read) => (Some(read), place.name),
                None => {
                    let path = place.path.with_file_name(OTHER_NAME);
                    let folder = place.name.strip_suffix(NAME).unwrap_or_default();
                    (self.known.read(&path, place.follow, most, pace)?, format!("{folder}{OTHER_NAME}"))
                }
            };
            // A project can be the folder of the configuration, under another name.
            let Some(read) = read.filter(|read| !read.text.trim().is_empty() && !seen.contains(&read.identity)) else {
                continue;
            };
            seen.push(read.identity);
            files.push(GuideFile {
                name,
                origin: place.origin,
                text: read.text.clone(),
                bytes: read.bytes,
                digest: read.digest.clone(),
            });
        }
        Ok(())
    }

    /// The first names of what sessions remember together, and how many more there are.
    fn memories(&self, folder: &Path, pace: Pace) -> Result<(Vec<String>, usize), NotAtHand> {
        let entries = self.known.entries(folder, pace)?;
        let mut names: Vec<String> =
            entries.iter().map(|entry| format!("{}{}", entry.name, if entry.is_folder { "/" } else { "" })).collect();
        let more = names.len().saturating_sub(MAX_MEMORIES);
        names.truncate(MAX_MEMORIES);
        Ok((names, more))
    }
}
