//! The last scan of each project, which all sessions continue from: what one has seen and stored, none after it reads
//! again.
//!
//! ```text
//! projects/{hash of the path}.look
//! ```

use std::{
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use agentd_core::folder::MAX_FOLDERS;

use super::{
    blobs::{self, Blobs},
    record,
    tree::{Content, Tree},
};

/// Number of projects whose scans are cached. Those of others are read again.
const IN_MEMORY: usize = MAX_FOLDERS + 1;

/// Time without use after which a scan is dropped, and with it the contents that only it needs.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The last looks at projects.
#[derive(Debug)]
pub(super) struct Projects {
    folder: PathBuf,
    /// Last used last.
    looks: Mutex<Vec<Look>>,
}

#[derive(Debug)]
struct Look {
    tree: Arc<Tree>,
    /// True if the file tells of this very tree.
    saved: bool,
    /// The number of removals when all of its contents were there.
    removals: u64,
}

impl Projects {
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Self { folder, looks: Mutex::default() })
    }

    /// The file of the look at a project.
    pub(super) fn file(&self, project: &Path) -> PathBuf {
        let name = blobs::text(&blobs::hash(project.as_os_str().as_bytes()));
        self.folder.join(name).with_extension("look")
    }

    /// The last look at a project, as far as it is still kept. The caller holds the gate.
    pub(super) fn last(&self, project: &Path, blobs: &Blobs) -> io::Result<Option<Arc<Tree>>> {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = looks.iter().position(|look| look.tree.path == project).map(|index| looks.remove(index));
        let mut look = match known {
            Some(look) if look.removals == blobs.removals() => look,
            Some(look) => look.checked(blobs),
            None => {
                let read = record::read(&self.file(project))?.and_then(|record| record.trees.into_iter().next());
                let Some(tree) = read.filter(|tree| tree.path == project) else { return Ok(None) };
                Look { tree: Arc::new(tree), saved: true, removals: 0 }.checked(blobs)
            }
        };
        look.removals = blobs.removals();
        let tree = Arc::clone(&look.tree);
        put(&mut looks, look);
        Ok(Some(tree))
    }

    /// Makes this the last scan of its project, and a file of it another name: its holder is not affected by later
    /// scans. The caller holds the gate.
    pub(super) fn keep(&self, tree: &Arc<Tree>, blobs: &Blobs, name: &Path) -> io::Result<()> {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = looks.iter().position(|look| look.tree.path == tree.path).map(|index| looks.remove(index));
        let is_same = known.is_some_and(|look| look.saved && Arc::ptr_eq(&look.tree, tree));
        let file = self.file(&tree.path);
        // One that lasts a month without a change was used all the while.
        let touched = is_same
            && File::options().write(true).open(&file).is_ok_and(|file| file.set_modified(SystemTime::now()).is_ok());
        if !touched {
            record::write(&file, false, [tree.as_ref()])?;
        }
        put(&mut looks, Look { tree: Arc::clone(tree), saved: true, removals: blobs.removals() });
        match fs::hard_link(&file, name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => record::write(name, false, [tree.as_ref()]),
            _ => Ok(()),
        }
    }

    /// Goes on from this look, which is not on the disk yet. The caller holds the gate.
    pub(super) fn note(&self, tree: &Arc<Tree>, blobs: &Blobs) {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if !looks.iter().any(|look| Arc::ptr_eq(&look.tree, tree)) {
            looks.retain(|look| look.tree.path != tree.path);
            put(&mut looks, Look { tree: Arc::clone(tree), saved: false, removals: blobs.removals() });
        }
    }

    /// The looks that are on the disk: each file, and whether it is still of use. `is_known` tells whether a session is
    /// left that has to do with the project.
    pub(super) fn files(&self, is_known: impl Fn(&Path) -> bool) -> io::Result<Vec<(PathBuf, bool)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let age = entry.metadata()?.modified().ok().and_then(|used| SystemTime::now().duration_since(used).ok());
            let path = entry.path();
            let of_use = age.is_none_or(|age| age < UNUSED) && is_known(&path);
            files.push((path, of_use));
        }
        Ok(files)
    }
}

impl Look {
    /// The same without what is no longer kept: it is read again when it is seen.
    fn checked(self, blobs: &Blobs) -> Self {
        match without_lost(&self.tree, blobs) {
            Some(tree) => Self { tree: Arc::new(tree), saved: false, ..self },
            None => self,
        }
    }
}

fn put(looks: &mut Vec<Look>, look: Look) {
    looks.push(look);
    if looks.len() > IN_MEMORY {
        looks.remove(0);
    }
}

/// A tree without the entries whose contents are not kept any more; none where all are.
pub(super) fn without_lost(tree: &Tree, blobs: &Blobs) -> Option<Tree> {
    let is_lost = |content: &Content| matches!(content, Content::Kept(hash, size) if !blobs.has(hash, *size));
    if !tree.entries.values().any(|entry| is_lost(&entry.content)) {
        return None;
    }
    let mut left = tree.clone();
    left.entries.retain(|_, entry| !is_lost(&entry.content));
    left.seen = None;
    Some(left)
}
