//! What people wrote for models to know: `AGENTS.md` files and skills, looked at before each turn.
//!
//! - `place`: where `AGENTS.md` files may be: the person's own, the folders above a project, the project.
//! - `file`: one file, opened safely, read in part, and not read again while it is as it was.
//! - `skills`: the catalogue of skills, from the front matter of each `SKILL.md`.
//!
//! A project may be anybody's, and so may the folders around it: what is not a plain file of this user, or lies behind a
//! link, is left out.

mod file;
mod place;
mod skills;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::{
    guide::{GuideFile, GuideLimits, Guides},
    ports::Workspace,
};

use self::file::Known;

/// The name of the files.
const NAME: &str = "AGENTS.md";
/// Names of memories that are told at the most.
const MAX_MEMORIES: usize = 40;
/// Entries of `/memories` that are counted at the most.
const MAX_ENTRIES: usize = 1000;

/// Finds and reads them.
#[derive(Debug, Clone)]
pub(crate) struct GuideReader {
    /// The person's configuration folder.
    config: PathBuf,
    /// The person's home: the folders above a project are looked at up to there.
    home: Option<PathBuf>,
    /// What was read before.
    known: Arc<Known>,
}

impl GuideReader {
    pub(crate) fn new(config: &Path, home: Option<&Path>) -> Self {
        // What a project's real path is compared with is real, too.
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_path_buf()));
        Self { config: config.to_path_buf(), home, known: Arc::default() }
    }

    /// Looks at everything, and reads what is not as it was.
    pub(crate) fn look(&self, workspace: &Workspace, limits: GuideLimits) -> Guides {
        let mut guides = Guides::default();
        if limits.memory {
            guides.files = self.files(workspace, limits);
            (guides.memories, guides.more_memories) = workspace.memories.as_deref().map(memories).unwrap_or_default();
        }
        if limits.skills {
            guides.skills = skills::catalogue(&self.config.join("skills"), self.home.as_deref(), &self.known);
        }
        guides
    }

    fn files(&self, workspace: &Workspace, limits: GuideLimits) -> Vec<GuideFile> {
        let project = workspace.project.as_ref().map(|mount| mount.path.as_path());
        let mut files: Vec<GuideFile> = Vec::new();
        let mut seen = Vec::new();
        for place in place::places(&self.config, project, self.home.as_deref()) {
            let Some(read) = self.known.read(&place.path, place.follow, limits.max_file_bytes) else { continue };
            // A project can be the folder of the configuration, under another name.
            if read.text.trim().is_empty() || seen.contains(&read.identity) {
                continue;
            }
            seen.push(read.identity);
            files.push(GuideFile {
                name: place.name,
                origin: place.origin,
                text: read.text.clone(),
                bytes: read.bytes,
                digest: read.digest.clone(),
            });
        }
        files
    }
}

/// The first names of what sessions remember together, and how many more there are.
fn memories(folder: &Path) -> (Vec<String>, usize) {
    let Ok(entries) = fs::read_dir(folder) else { return (Vec::new(), 0) };
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let plain = !name.starts_with('.') && !name.contains(char::is_control);
        let slash = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
        plain.then(|| format!("{name}{slash}"))
    };
    let mut names: Vec<String> = entries.take(MAX_ENTRIES).filter_map(|entry| name(entry.ok()?)).collect();
    names.sort();
    let more = names.len().saturating_sub(MAX_MEMORIES);
    names.truncate(MAX_MEMORIES);
    (names, more)
}
