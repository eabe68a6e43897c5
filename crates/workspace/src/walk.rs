//! Visits what is below a folder: through the jail, sorted by name, hidden entries left out, links not followed.
//!
//! Every folder is opened beneath the root again, so that nothing swapped under way leads outside; ignore files are
//! read through the jail too, since a pipe of that name would stop a reader for ever.

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

/// An entry.
#[derive(Debug, Clone)]
pub struct WalkEntry {
    /// Path from the root of the tree.
    pub path: ToolPath,
    /// File, folder, or something else.
    pub kind: Kind,
    /// In bytes; 0 for folders.
    pub size: u64,
    /// When it was last changed.
    pub modified: Option<SystemTime>,
    /// 1 for the entries of the folder that the walk began at.
    pub(crate) depth: usize,
}

/// Settings of a walk.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// Entries deeper than this are not visited.
    pub max_depth: usize,
    /// Set if entries that ignore files exclude are visited.
    pub include_ignored: bool,
    /// Set if a walk from the workspace root visits what the daemon keeps there.
    pub include_kept: bool,
}

/// Entries that a walk could not show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadEntries {
    /// It ended early, and why.
    pub cut: Option<&'static str>,
    /// Entries that ignore files exclude.
    pub ignored: usize,
    /// Names that are no text, folders that may not be opened.
    pub unreadable: usize,
    /// Hidden entries of the person's folders, without those of git.
    pub hidden: usize,
    /// The first of them, as paths.
    pub hidden_names: Vec<String>,
}

impl UnreadEntries {
    fn add_hidden(&mut self, path: &ToolPath) {
        const NAMED: usize = 3;
        // In the session's own tree only the daemon has such.
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
    /// A walk as deep as any goes.
    pub fn whole(include_ignored: bool) -> Self {
        Self { max_depth: MAX_DEPTH, include_ignored, include_kept: false }
    }

    /// Visits everything below `start`, until `visit` breaks or a bound is met. What could not be shown is added to
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
        while let Some(Pending { found, ignores }) = stack.pop() {
            job.check()?;
            if job.is_late() {
                walker.left.cut = Some("it took too long");
                return Ok(());
            }
            if visit(&found)?.is_break() {
                return Ok(());
            }
            let aside = !self.include_kept && found.depth == 1 && found.path.is_kept_area();
            if found.kind == Kind::Folder && found.depth < self.max_depth && !aside {
                match job.files.entries(&found.path) {
                    Ok(folder) => stack.extend(walker.children(&found.path, folder, found.depth + 1, &ignores)),
                    // Folders without permission, or gone since they were seen, are no reason to end the walk.
                    Err(_) => walker.left.unreadable += 1,
                }
            }
        }
        Ok(())
    }
}

/// An entry that was seen and not visited yet, with the ignore files that speak of what is below it.
struct Pending {
    found: WalkEntry,
    ignores: Rc<Vec<Gitignore>>,
}

struct Walker<'a> {
    walk: Walk,
    job: &'a Job,
    left: &'a mut UnreadEntries,
    /// Number of entries that may still be looked at.
    budget: usize,
}

impl Walker<'_> {
    /// The entries of a folder, last first, as the stack wants them.
    fn children(
        &mut self,
        folder: &ToolPath,
        entries: Entries,
        depth: usize,
        above: &Rc<Vec<Gitignore>>,
    ) -> Vec<Pending> {
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
            children.push(Pending { found, ignores: Rc::clone(&ignores) });
        }
        children.sort_by(|left, right| right.found.path.cmp(&left.found.path));
        children
    }
}

/// Ignore files think in absolute paths; the place is their root.
fn absolute(path: &ToolPath) -> String {
    format!("/{}", path.rest())
}

fn with_ignores_of(job: &Job, folder: &ToolPath, above: &Rc<Vec<Gitignore>>) -> Rc<Vec<Gitignore>> {
    let mut builder = GitignoreBuilder::new(absolute(folder));
    let mut lines = 0;
    for name in IGNORE_FILES {
        let Some(file) = job.files.open_if_there(&folder.entry(name)) else { continue };
        let mut content = Vec::new();
        if file.take(MAX_IGNORE_FILE).read_to_end(&mut content).is_err() {
            continue;
        }
        for line in String::from_utf8_lossy(&content).lines() {
            // A line that makes no sense excludes nothing, as in git.
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

/// The ignore file that is nearest decides.
fn is_ignored(ignores: &[Gitignore], path: &ToolPath, is_folder: bool) -> bool {
    let path = absolute(path);
    let mut said = ignores.iter().rev().map(|ignore| ignore.matched(&path, is_folder));
    said.find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
}
