//! Walks a folder through the jail, sorted by name. Skips hidden entries and does not follow links.
//!
//! Every folder is opened beneath the root again, so that a concurrent rename cannot lead outside. Ignore files are
//! also read through the jail, since a pipe of that name would block a reader forever.

use std::{io::Read as _, ops::ControlFlow, rc::Rc, time::SystemTime};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

pub use super::backend::Kind;
use crate::{
    backend::{Backend as _, Entries, Entry, ListedEntry},
    failure::Failure,
    job::Job,
    path::ToolPath,
};

const MAX_DEPTH: usize = 64;
const MAX_IGNORE_FILE: u64 = 256 * 1024;
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// Entry found by a walk.
#[derive(Debug, Clone)]
pub struct WalkEntry {
    /// Path from the root of the tree.
    pub path: ToolPath,
    /// Type of the entry.
    pub kind: Kind,
    /// Size in bytes; 0 for folders.
    pub size: u64,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
    /// Depth of the entry; 1 directly in the start folder.
    pub(crate) depth: usize,
}

/// Settings for a walk.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// Maximum depth of visited entries.
    pub max_depth: usize,
    /// True to visit entries that ignore files exclude.
    pub include_ignored: bool,
    /// True to visit the daemon's own areas in a walk from the workspace root.
    pub include_daemon_areas: bool,
}

/// Statistics about the entries skipped by a walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadEntries {
    /// Reason why the walk was stopped early.
    pub cut: Option<&'static str>,
    /// Number of entries excluded by ignore files.
    pub ignored: usize,
    /// Number of names that are not text and folders that cannot be opened.
    pub unreadable: usize,
    /// Number of hidden entries in the user's folders, not counting those of git.
    pub hidden: usize,
    /// Paths of the first hidden entries.
    pub hidden_names: Vec<String>,
}

impl UnreadEntries {
    fn add_hidden(&mut self, path: &ToolPath) {
        const NAMED: usize = 3;
        // In the session's own tree, only the daemon creates hidden files.
        if !path.place().is_mounted() || path.name() == ".git" || IGNORE_FILES.contains(&path.name()) {
            return;
        }
        self.hidden += 1;
        if self.hidden_names.len() < NAMED {
            self.hidden_names.push(path.to_string());
        }
    }
}

impl Walk {
    /// Creates options for a walk with the maximum depth.
    pub fn whole(include_ignored: bool) -> Self {
        Self { max_depth: MAX_DEPTH, include_ignored, include_daemon_areas: false }
    }

    /// Visits everything below `start`, until `visit` breaks or a limit is reached. Skipped entries are added to
    /// `left`.
    pub fn run(
        self,
        job: &Job,
        start: &ToolPath,
        left: &mut UnreadEntries,
        visit: &mut dyn FnMut(&WalkEntry) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        let mut walker = Walker { walk: self, job, left, budget: job.limits.walk_entries };
        let top = job.files.entries(start)?;
        let mut stack = walker.children(start, top, 1, &Rc::default());
        while let Some(PendingEntry { found, ignores }) = stack.pop() {
            job.check()?;
            if job.is_late() {
                walker.left.cut = Some("it took too long");
                return Ok(());
            }
            if visit(&found)?.is_break() {
                return Ok(());
            }
            let is_skipped_area = !self.include_daemon_areas && found.depth == 1 && found.path.is_daemon_area();
            if found.kind == Kind::Folder && found.depth < self.max_depth && !is_skipped_area {
                match job.files.entries(&found.path) {
                    Ok(folder) => stack.extend(walker.children(&found.path, folder, found.depth + 1, &ignores)),
                    // Folders that are unreadable or were removed in the meantime do not end the walk.
                    Err(_) => walker.left.unreadable += 1,
                }
            }
        }
        Ok(())
    }
}

/// Entry to be visited, with the ignore files that apply to it.
struct PendingEntry {
    found: WalkEntry,
    ignores: Rc<Vec<Gitignore>>,
}

struct Walker<'a> {
    walk: Walk,
    job: &'a Job,
    left: &'a mut UnreadEntries,
    /// Remaining number of entries that may be read.
    budget: usize,
}

impl Walker<'_> {
    /// Returns the entries of a folder in reverse order, for the stack.
    fn children(
        &mut self,
        folder: &ToolPath,
        entries: Entries,
        depth: usize,
        above: &Rc<Vec<Gitignore>>,
    ) -> Vec<PendingEntry> {
        let ignores =
            if self.walk.include_ignored { Rc::clone(above) } else { with_ignores_of(self.job, folder, above) };
        let mut children = Vec::new();
        for entry in entries {
            if self.budget == 0 {
                self.left.cut = Some("there are too many files");
                break;
            }
            self.budget -= 1;
            let Entry { name, kind, size, modified } = match entry {
                ListedEntry::Entry(entry) => entry,
                ListedEntry::Hidden(name) => {
                    self.left.add_hidden(&folder.entry(&name));
                    continue;
                }
                ListedEntry::Unreadable => {
                    self.left.unreadable += 1;
                    continue;
                }
            };
            let found = WalkEntry { path: folder.entry(&name), kind, size, modified, depth };
            if is_ignored(&ignores, &found.path, found.kind == Kind::Folder) {
                self.left.ignored += 1;
                continue;
            }
            children.push(PendingEntry { found, ignores: Rc::clone(&ignores) });
        }
        children.sort_by(|left, right| right.found.path.cmp(&left.found.path));
        children
    }
}

/// Returns the absolute path for matching ignore files; the root of the tree is `/`.
fn absolute(path: &ToolPath) -> String {
    format!("/{}", path.rest())
}

fn with_ignores_of(job: &Job, folder: &ToolPath, above: &Rc<Vec<Gitignore>>) -> Rc<Vec<Gitignore>> {
    let mut builder = GitignoreBuilder::new(absolute(folder));
    let mut lines = 0;
    for name in IGNORE_FILES {
        let Some(file) = job.files.open_optional(&folder.entry(name)) else { continue };
        let mut content = Vec::new();
        if file.take(MAX_IGNORE_FILE).read_to_end(&mut content).is_err() {
            continue;
        }
        for line in String::from_utf8_lossy(&content).lines() {
            // Invalid lines are ignored, as in git.
            if builder.add_line(None, line).is_ok() {
                lines += 1;
            }
        }
    }
    match builder.build() {
        Ok(ignore) if lines > 0 => {
            let mut all = above.as_ref().clone();
            all.push(ignore);
            Rc::new(all)
        }
        _ => Rc::clone(above),
    }
}

/// Returns true if a path is ignored. The nearest ignore file with a matching rule decides.
fn is_ignored(ignores: &[Gitignore], path: &ToolPath, is_folder: bool) -> bool {
    let path = absolute(path);
    let mut matches = ignores.iter().rev().map(|ignore| ignore.matched(&path, is_folder));
    matches.find(|matches| !matches.is_none()).is_some_and(|matches| matches.is_ignore())
}
