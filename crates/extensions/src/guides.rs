//! Users' guides for models: `AGENTS.md` files and skills, checked before each turn.
//!
//! `AGENTS.md` files may be in the user's configuration folder, in the folders above a project, in the project and in
//! its subfolders. The skill catalogue comes from [`crate::skills`], which reads files in the same way.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    guarded::{GuardedNames, NameKind},
    guide::{GuideFile, GuideLimits, GuideOrigin, Guides},
    ports::Workspace,
    worktree::WorktreeAccess,
};

use crate::{
    files::disk::{DiskAccess, GuideCache, NotCached, shown},
    project::ProjectStore,
    skills::{SkillConfig, SkillStore},
};

/// Name of guide files.
const NAME: &str = "AGENTS.md";
/// Name of the guide file that is used without an `AGENTS.md`.
const OTHER_NAME: &str = "CLAUDE.md";
/// Maximum number of memory names passed to models.
const MAX_MEMORIES: usize = 40;

/// Finds and reads guides.
#[derive(Debug, Clone)]
pub struct GuideReader {
    /// The user's configuration folder.
    config: PathBuf,
    /// The user's home folder, the last folder searched above a project.
    home: Option<PathBuf>,
    /// Cache of files that were read.
    cache: Arc<GuideCache>,
    /// Store that finds a session's skills.
    pub skill_store: SkillStore,
    /// Projects whose instructions the user trusts. With `None` no project's instructions are used.
    pub projects: Option<ProjectStore>,
}

impl GuideReader {
    /// Creates a reader for the configuration folder, and for the folders from this home down to a project.
    pub fn new(config: &Path, home: Option<&Path>) -> Self {
        // Resolved, because the path is compared with real paths of projects.
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_path_buf()));
        let skill_config = SkillConfig { person: config.join("skills"), home: home.clone(), ..SkillConfig::default() };
        let skill_store = SkillStore::new(skill_config, Default::default());
        Self { config: config.to_path_buf(), home, cache: Arc::default(), skill_store, projects: None }
    }

    /// Collects all guides, and reads changed files.
    ///
    /// # Errors
    /// Fails with [`DiskAccess::CachedOnly`] if excluding a change since the last scan requires waiting for the disk.
    pub fn load(&self, workspace: &Workspace, limits: GuideLimits, access: DiskAccess) -> Result<Guides, NotCached> {
        let mut guides = Guides::default();
        if limits.memory {
            guides.files = self.files(workspace, limits, access)?;
            if let Some(folder) = &workspace.memories {
                (guides.memories, guides.more_memories) = self.memories(folder, access)?;
            }
        }
        if limits.skills {
            guides.skills = self.skill_store.load(Some(workspace), access)?;
        }
        Ok(guides)
    }

    fn files(
        &self,
        workspace: &Workspace,
        limits: GuideLimits,
        access: DiskAccess,
    ) -> Result<Vec<GuideFile>, NotCached> {
        let project = workspace.project.as_ref().map(|mount| mount.path.as_path());
        let home = self.home.as_deref();
        let places = match (&workspace.worktree, project) {
            (Some(worktree), Some(project)) => places_in_worktree(&self.config, worktree, project, home),
            _ => places(&self.config, project, home),
        };
        let mut files = self.read(places, limits, access)?;
        if let (Some(projects), Some(project)) = (&self.projects, project) {
            let content = projects.0.now(project, access)?.content;
            files.extend(content.and_then(|content| content.guide(limits.max_file_bytes)));
        }
        Ok(files)
    }

    /// Reads the guides in a project's folders that contain these paths. Blocks on the disk.
    pub fn in_folders(&self, project: &Path, limits: GuideLimits, paths: &[String]) -> Vec<GuideFile> {
        // A blocking read skips unreadable files.
        self.read(places_below(project, paths), limits, DiskAccess::Blocking).unwrap_or_default()
    }

    /// Reads the guides at these locations.
    fn read(
        &self,
        places: Vec<GuidePlace>,
        limits: GuideLimits,
        access: DiskAccess,
    ) -> Result<Vec<GuideFile>, NotCached> {
        let (mut seen, mut files) = (Vec::new(), Vec::new());
        for place in places {
            let limit = limits.max_file_bytes;
            let (read, name) = match self.cache.read(&place.path, place.follow, limit, access)? {
                Some(read) => (Some(read), place.name),
                None => {
                    let path = place.path.with_file_name(OTHER_NAME);
                    let folder = place.name.strip_suffix(NAME).unwrap_or_default();
                    (self.cache.read(&path, place.follow, limit, access)?, format!("{folder}{OTHER_NAME}"))
                }
            };
            // A project can be the configuration folder under another name.
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
        Ok(files)
    }

    /// Returns the first names of the shared memories, and the number of further names.
    fn memories(&self, folder: &Path, access: DiskAccess) -> Result<(Vec<String>, usize), NotCached> {
        let entries = self.cache.entries(folder, access)?;
        let mut names: Vec<String> =
            entries.iter().map(|entry| format!("{}{}", entry.name, if entry.is_folder { "/" } else { "" })).collect();
        let more = names.len().saturating_sub(MAX_MEMORIES);
        names.truncate(MAX_MEMORIES);
        Ok((names, more))
    }
}

/// Maximum number of folders searched above a project.
const MAX_ABOVE: usize = 10;
/// Maximum number of folders searched in a project at once, and maximum depth of such a folder.
const MAX_BELOW: usize = 500;
const MAX_DEPTH: usize = 32;
/// Maximum length of a file name, in bytes.
const MAX_NAME: usize = 255;

/// Possible location of a guide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuidePlace {
    pub(crate) path: PathBuf,
    /// Path as shown to the user.
    pub(crate) name: String,
    pub(crate) origin: GuideOrigin,
    /// True to follow links: the user created the links in their own configuration.
    pub(crate) follow: bool,
}

/// Returns the locations in the configuration folder, in the folders above the project from the outermost one, and in
/// the project. The upward search ends at the user's home or the root.
pub(crate) fn places(config: &Path, project: Option<&Path>, home: Option<&Path>) -> Vec<GuidePlace> {
    let mut places = vec![place(config, GuideOrigin::Person, home)];
    let Some(project) = project else { return places };
    let mut above = Vec::new();
    let mut folder = project;
    while above.len() < MAX_ABOVE
        && Some(folder) != home
        && let Some(parent) = folder.parent()
    {
        above.push(place(parent, GuideOrigin::Above, home));
        folder = parent;
    }
    places.extend(above.into_iter().rev());
    let own = place(project, GuideOrigin::Project, home);
    places.push(GuidePlace { name: format!("/project/{NAME}"), ..own });
    places
}

/// Returns the locations for a worktree: those of its project in the main worktree, moved to the worktree if they are
/// in the repository.
pub(crate) fn places_in_worktree(
    config: &Path,
    worktree: &WorktreeAccess,
    project: &Path,
    home: Option<&Path>,
) -> Vec<GuidePlace> {
    let mut places = places(config, Some(&worktree.project), home);
    let below = project.strip_prefix(&worktree.top).map_or(0, |below| below.components().count());
    let Some(main) = worktree.project.ancestors().nth(below) else { return places };
    for place in places.iter_mut().filter(|place| place.origin != GuideOrigin::Person) {
        if let Ok(rest) = place.path.strip_prefix(main) {
            place.path = worktree.top.join(rest);
        }
    }
    places
}

/// Returns the locations in a project's folders that contain these paths, without duplicates, parents before
/// children. The disk is not consulted: a path may be a file, a folder, or missing. Fetched and generated folders are
/// excluded, because the project's authors did not write their contents.
pub(crate) fn places_below<'a>(project: &Path, paths: &'a [String]) -> Vec<GuidePlace> {
    let mut folders = BTreeSet::new();
    // `project/` is accepted without a leading slash, but may also be a folder in the project.
    let meanings = |path: &'a String| [Some(path.as_str()), path.strip_prefix("project/")].into_iter().flatten();
    for parts in paths.iter().flat_map(meanings).filter_map(|path| below(project, path)) {
        let is_own = |part: &&String| {
            let name = part.as_bytes();
            *part != "vendor" && GuardedNames::default().kind(name) != NameKind::Cache
        };
        let own = parts.iter().take_while(is_own).count();
        folders.extend((1..=own).map(|depth| parts[..depth].join("/")));
    }
    let place = |folder: &String| GuidePlace {
        path: project.join(folder).join(NAME),
        name: agentd_core::path::shown(&format!("/project/{folder}/{NAME}")).into_owned(),
        origin: GuideOrigin::Project,
        follow: false,
    };
    folders.iter().take(MAX_BELOW).map(place).collect()
}

/// Splits a path below the project into its parts. Returns `None` if the path leads elsewhere.
fn below(project: &Path, written: &str) -> Option<Vec<String>> {
    let path = agentd_core::path::read(written)?;
    let after = |root: &str| path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let relative = || Some(&*path).filter(|path| !path.starts_with('/'));
    let rest = after("/project").or_else(|| after(project.to_str()?)).or_else(relative)?;
    let mut parts: Vec<String> = Vec::new();
    for part in rest.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else if part.len() > MAX_NAME || parts.len() >= MAX_DEPTH {
            return None;
        } else {
            parts.push(part.to_owned());
        }
    }
    Some(parts)
}

fn place(folder: &Path, origin: GuideOrigin, home: Option<&Path>) -> GuidePlace {
    let path = folder.join(NAME);
    GuidePlace { name: shown(&path, home), path, origin, follow: origin == GuideOrigin::Person }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_guide_is_last_and_search_ends_at_home() {
        let check = |project: Option<&str>, home: Option<&str>, expected: &[&str]| {
            let places = places(Path::new("/home/p/.config/agentd"), project.map(Path::new), home.map(Path::new));
            let names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
            assert_eq!(names, expected, "{project:?}");
        };
        let own = "~/.config/agentd/AGENTS.md";
        check(None, Some("/home/p"), &[own]);
        check(
            Some("/home/p/code/app"),
            Some("/home/p"),
            &[own, "~/AGENTS.md", "~/code/AGENTS.md", "/project/AGENTS.md"],
        );
        check(Some("/home/p"), Some("/home/p"), &[own, "/project/AGENTS.md"]);
        check(Some("/srv/a"), Some("/home/p"), &[own, "/AGENTS.md", "/srv/AGENTS.md", "/project/AGENTS.md"]);
        check(Some("/"), None, &["/home/p/.config/agentd/AGENTS.md", "/project/AGENTS.md"]);
        check(
            Some("/a\n</memory>/b"),
            None,
            &[
                "/home/p/.config/agentd/AGENTS.md",
                "/AGENTS.md",
                "/a\\u{a}\\u{3c}/AGENTS.md",
                "/a\\u{a}\\u{3c}/memory>/AGENTS.md",
                "/project/AGENTS.md",
            ],
        );
    }

    #[test]
    fn project_guide_folders_are_outermost_first_and_unique() {
        let check = |paths: &[&str], expected: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            let places = places_below(Path::new("/home/p/app"), &paths);
            let names: Vec<&str> = places
                .iter()
                .map(|place| place.name.strip_prefix("/project/").and_then(|name| name.strip_suffix("/AGENTS.md")))
                .map(Option::unwrap)
                .collect();
            assert_eq!(names, expected, "{paths:?}");
            assert!(places.iter().all(|place| place.path.starts_with("/home/p/app") && !place.follow));
        };
        check(&["/project/a/b/c.rs", "a/b/d.rs", "/home/p/app/a/x"], &["a", "a/b", "a/b/c.rs", "a/b/d.rs", "a/x"]);
        check(&["project/a", "a/./../b//c", "/project"], &["a", "b", "b/c", "project", "project/a"]);
        check(
            &["..", "a/../../etc", "/etc/passwd", "/home/p/apple/x", "/projects/x", "https://a/b"],
            &["https:", "https:/a", "https:/a/b"],
        );
        check(&["web/node_modules/evil/index.js", "vendor/x/y.go"], &["web"]);
        check(&["a\\u{a}b", "a\\x", &"n".repeat(256), &"d/".repeat(40)], &["a\\u{a}b"]);
    }

    #[test]
    fn worktree_uses_project_guides_and_its_own_files() {
        let worktree = WorktreeAccess {
            name: "fix".to_owned(),
            project: "/home/p/code/app/sub".into(),
            top: "/home/p/data/worktrees/fix".into(),
            common: "/home/p/code/app/.git".into(),
            admin: "/home/p/code/app/.git/worktrees/fix".into(),
        };
        let project = Path::new("/home/p/data/worktrees/fix/sub");
        let places = places_in_worktree(Path::new("/home/p/.config"), &worktree, project, Some(Path::new("/home/p")));
        let paths: Vec<String> = places.iter().skip(1).map(|place| place.path.display().to_string()).collect();
        let own = ["/home/p/data/worktrees/fix/AGENTS.md", "/home/p/data/worktrees/fix/sub/AGENTS.md"];
        assert_eq!(paths, [&["/home/p/AGENTS.md", "/home/p/code/AGENTS.md"], &own[..]].concat());
    }

    #[test]
    fn guide_places_of_a_deep_project_are_bounded() {
        let deep = format!("/d{}", "/d".repeat(100));
        assert_eq!(places(Path::new("/c"), Some(Path::new(&deep)), None).len(), 2 + MAX_ABOVE);
    }
}
