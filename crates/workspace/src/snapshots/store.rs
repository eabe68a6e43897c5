//! Storage shared by all sessions: blobs, and the last scan of each project. Determines which blobs are needed, and
//! removes the others.
//!
//! Blobs are needed, in this order, by running calls, by the changes of sessions, and by the last scans, which would
//! otherwise have to read the files again. There are no reference counts: each user of blobs has a file that lists
//! them, and all of these files are read before any blob is removed. Blobs left over from a crash are therefore removed
//! by the next collection.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use agentd_core::{folder::MAX_FOLDERS, mutex::lock};

use super::{
    blobs::{self, Blobs, Hash},
    record,
    tree::{Content, Tree},
};
use crate::{failure::if_there, private};

/// Extensions of scans before calls that have ended, while their results may not be in the journal yet.
pub(super) const ENDED: &str = "ended";
pub(super) const ENDED_OF_PROJECT: &str = "ended-project";

/// Name of the folder with blobs.
const CONTENTS: &str = "contents";
/// Folder for project scans.
const PROJECTS: &str = "projects";

/// Share of unneeded blobs above which a pack is rewritten, in percent.
const MIN_UNNEEDED_PERCENT: u64 = 25;

/// Time after which the result of an ended call is assumed to be in the journal, in seconds.
const LOST_AFTER: i64 = 7 * 24 * 60 * 60;

/// Needed blobs, by purpose.
#[derive(Debug, Default)]
struct Needs {
    /// Blobs needed by calls that are running or were interrupted.
    calls: HashSet<Hash>,
    /// Blobs needed by changes: most recently changed session first, latest changes first.
    changes: Vec<(Hash, u64)>,
    /// Blobs needed by scans.
    stored_trees: Vec<(Hash, u64)>,
}

/// Blobs and scans of all sessions.
#[derive(Debug)]
pub(super) struct Store {
    base: PathBuf,
    pub(super) blobs: Blobs,
    pub(super) projects: Projects,
}

impl Store {
    /// Opens the folder of all sessions, creating it if it is missing.
    pub(super) fn open(base: PathBuf, limit: u64) -> io::Result<Self> {
        let blobs = Blobs::open(base.join(CONTENTS), limit)?;
        let projects = Projects::open(base.join(PROJECTS))?;
        Ok(Self { base, blobs, projects })
    }

    /// Removes unneeded blobs. Returns the number of freed bytes.
    pub(super) fn collect(&self) -> io::Result<u64> {
        let _exclusive = self.blobs.exclusive();
        let needs = Needs::read(&self.base, &self.projects)?;
        let mut wanted = needs.calls;
        wanted.extend(needs.changes.iter().chain(&needs.stored_trees).map(|(hash, _)| *hash));
        self.blobs.remove_unwanted(|hash| wanted.contains(hash), MIN_UNNEEDED_PERCENT)
    }

    /// Frees space by removing blobs that are not needed right now. The most recently recorded blobs stay, up to
    /// nine tenths of the limit. Afterwards, old turns cannot be undone completely, but new turns can. `needed`
    /// contains the blobs in use by the caller.
    pub(super) fn free_space(&self, needed: HashSet<Hash>) -> io::Result<()> {
        let _exclusive = self.blobs.exclusive();
        let needs = Needs::read(&self.base, &self.projects)?;
        let mut wanted = needed;
        wanted.extend(needs.calls);
        let mut budget = self.blobs.limit - self.blobs.limit / 10;
        for hash in &wanted {
            budget = budget.saturating_sub(self.blobs.size(hash).unwrap_or_default());
        }
        for (hash, size) in needs.changes.into_iter().chain(needs.stored_trees) {
            if wanted.contains(&hash) {
                continue;
            }
            let Some(left) = budget.checked_sub(size) else { break };
            budget = left;
            wanted.insert(hash);
        }
        self.blobs.remove_unwanted(|hash| wanted.contains(hash), 1).map(drop)
    }
}

impl Needs {
    fn read(base: &Path, projects: &Projects) -> io::Result<Self> {
        let mut needs = Self::default();
        let mut known = HashSet::new();
        let mut sessions = Vec::new();
        for entry in fs::read_dir(base)? {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() && name != CONTENTS && name != PROJECTS {
                sessions.push((record::age(&entry.path()), entry.path()));
            }
        }
        sessions.sort();
        for (_, session) in sessions.into_iter().rev() {
            needs.changes.extend(record::read_manifest(&session)?.into_iter().rev());
            known.extend(needs.add_scan(&session.join("look"))?.iter().map(|project| projects.file(project)));
            needs.add_scan(&session.join(record::KNOWN_FILES))?;
            for call in if_there(fs::read_dir(session.join("calls")))?.into_iter().flatten() {
                needs.call(&call?.path())?;
            }
        }
        for entry in fs::read_dir(&projects.folder)? {
            let entry = entry?;
            let age = entry.metadata()?.modified().ok().and_then(|used| SystemTime::now().duration_since(used).ok());
            // A scan is useless once no session refers to its project.
            if age.is_none_or(|age| age < UNUSED) && known.contains(&entry.path()) {
                needs.add_scan(&entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(needs)
    }

    /// Adds the blobs of a scan before a call. The scan before an ended call is needed only if a crash lost the
    /// call's result.
    fn call(&mut self, file: &Path) -> io::Result<()> {
        let ending = file.extension().and_then(OsStr::to_str).unwrap_or_default();
        if ending != ENDED && !ending.starts_with(ENDED_OF_PROJECT) {
            for tree in record::read(file)?.into_iter().flat_map(|record| record.trees) {
                self.calls.extend(tree.contents().map(|(hash, _)| hash));
            }
            return Ok(());
        }
        let age = fs::metadata(file).ok().map(|metadata| jiff::Timestamp::now().as_second() - metadata.ctime());
        if age.is_some_and(|age| age > LOST_AFTER) {
            return fs::remove_file(file);
        }
        self.add_scan(file).map(drop)
    }

    /// Adds the blobs of a scan. Returns the projects that the scan names.
    fn add_scan(&mut self, file: &Path) -> io::Result<Vec<PathBuf>> {
        let mut named = Vec::new();
        for tree in record::read(file)?.into_iter().flat_map(|record| record.trees) {
            self.stored_trees.extend(tree.contents());
            if tree.place.is_mounted() {
                named.push(tree.path);
            }
        }
        Ok(named)
    }
}

/// Number of projects whose scans are cached. Other scans are read from disk again.
const IN_MEMORY: usize = MAX_FOLDERS + 1;

/// Time without use after which a scan is dropped, together with the blobs that only this scan needs.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Last scans of projects.
#[derive(Debug)]
pub(super) struct Projects {
    folder: PathBuf,
    /// Cached scans, least recently used first.
    stored_trees: Mutex<Vec<StoredTree>>,
}

#[derive(Debug)]
struct StoredTree {
    tree: Arc<Tree>,
    /// True if the file on disk describes this tree.
    saved: bool,
    /// Number of removals when all blobs were known to be stored.
    removals: u64,
}

impl Projects {
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        private::folder(&folder)?;
        Ok(Self { folder, stored_trees: Mutex::default() })
    }

    /// Returns the path of the file with the scan of a project.
    pub(super) fn file(&self, project: &Path) -> PathBuf {
        let name = blobs::text(&blobs::hash(project.as_os_str().as_bytes()));
        self.folder.join(name).with_extension("look")
    }

    /// Returns the last scan of a project, without entries whose contents were removed. The caller holds the gate.
    pub(super) fn last(&self, project: &Path, blobs: &Blobs) -> io::Result<Option<Arc<Tree>>> {
        let mut stored_trees = lock(&self.stored_trees);
        let (mut stored, is_complete) = match take(&mut stored_trees, project) {
            Some(stored) => (StoredTree { removals: blobs.removals(), ..stored }, stored.removals == blobs.removals()),
            None => {
                let read = record::read(&self.file(project))?.and_then(|record| record.trees.into_iter().next());
                let Some(tree) = read.filter(|tree| tree.path == project) else { return Ok(None) };
                (StoredTree { tree: Arc::new(tree), saved: true, removals: blobs.removals() }, false)
            }
        };
        // Entries without their content are read again in the next scan.
        if !is_complete && let Some(left) = without_lost(&stored.tree, blobs) {
            (stored.tree, stored.saved) = (Arc::new(left), false);
        }
        let tree = Arc::clone(&stored.tree);
        insert(&mut stored_trees, stored);
        Ok(Some(tree))
    }

    /// Makes `tree` the last scan of its project, and links the scan's file as `name`. Later scans do not affect the
    /// link. The caller holds the gate.
    pub(super) fn keep(&self, tree: &Arc<Tree>, blobs: &Blobs, name: &Path) -> io::Result<()> {
        let mut stored_trees = lock(&self.stored_trees);
        let known = take(&mut stored_trees, &tree.path);
        let is_same = known.is_some_and(|stored| stored.saved && Arc::ptr_eq(&stored.tree, tree));
        let file = self.file(&tree.path);
        // The modification time marks an unchanged scan as used, so that it does not expire.
        let touched = is_same
            && File::options().write(true).open(&file).is_ok_and(|file| file.set_modified(SystemTime::now()).is_ok());
        if !touched {
            record::write(&file, false, [tree.as_ref()])?;
        }
        insert(&mut stored_trees, StoredTree { tree: Arc::clone(tree), saved: true, removals: blobs.removals() });
        record::link(&file, name, [tree.as_ref()])
    }

    /// Caches a scan that is not yet on disk. The caller holds the gate.
    pub(super) fn note(&self, tree: &Arc<Tree>, blobs: &Blobs) {
        let mut stored_trees = lock(&self.stored_trees);
        if !stored_trees.iter().any(|stored| Arc::ptr_eq(&stored.tree, tree)) {
            stored_trees.retain(|stored| stored.tree.path != tree.path);
            insert(&mut stored_trees, StoredTree { tree: Arc::clone(tree), saved: false, removals: blobs.removals() });
        }
    }
}

/// Removes the scan of a project from the cache, and returns it.
fn take(stored_trees: &mut Vec<StoredTree>, project: &Path) -> Option<StoredTree> {
    let index = stored_trees.iter().position(|stored| stored.tree.path == project)?;
    Some(stored_trees.remove(index))
}

fn insert(stored_trees: &mut Vec<StoredTree>, stored: StoredTree) {
    stored_trees.push(stored);
    if stored_trees.len() > IN_MEMORY {
        stored_trees.remove(0);
    }
}

/// Returns the tree without the entries whose contents were removed, or `None` if all contents are stored.
pub(super) fn without_lost(tree: &Tree, blobs: &Blobs) -> Option<Tree> {
    let is_lost = |content: &Content| matches!(content, Content::Stored(hash, size) if !blobs.has(hash, *size));
    if !tree.entries.values().any(|entry| is_lost(&entry.content)) {
        return None;
    }
    let mut left = tree.clone();
    left.entries.retain(|_, entry| !is_lost(&entry.content));
    left.seen = None;
    Some(left)
}
