//! Content of one tree at its last scan, and the differences of two scans.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use agentd_core::tool::{FileChange, FileChangeKind, FileKind, FileState, SharedFile};
use ignore::gitignore::Gitignore;

use super::{
    blobs::{self, Hash},
    root::{Kind, Root, SafePath, Stamp},
};
use crate::path::PathPlace;

/// Content of one tree when it was last looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub(super) place: PathPlace,
    /// Path of its root.
    pub(super) path: PathBuf,
    /// Reason why nothing of it is recorded, if so.
    pub(super) unseen: Option<String>,
    /// By path below the root.
    pub(super) entries: HashMap<Vec<u8>, Entry>,
    /// The digest of the look that it came from, where a look that sees the same can find nothing else.
    pub(super) seen: Option<Hash>,
    /// Folders that git takes for repositories. They stay such while a command takes them apart.
    pub(super) stores: HashSet<Vec<u8>>,
    /// Ignore files that were read, so that they are not read again while they stay as they are.
    pub(super) ignores: HashMap<Vec<u8>, (Stamp, Arc<Gitignore>)>,
}

/// Content of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    pub(super) content: Content,
    /// It had changed so shortly before that a further change might have left the same stamp: its content is to be
    /// looked at again.
    pub(super) fresh: bool,
}

/// Stored content of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// A folder has none besides its entries.
    Folder,
    /// Hash and size of a stored file, or of a link's target.
    Kept(Hash, u64),
    /// Nothing.
    Unkept(Why),
    /// There is nothing at a path that was looked for by name.
    Absent,
}

/// Reason why nothing is stored of a file. The numbers are on the disk, in records: none may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// It is larger than is kept of one file.
    Large = 0,
    /// There is no room for more.
    Full = 1,
    /// It may not be read.
    Unreadable = 2,
    /// It changed all the while.
    Busy = 3,
}

impl Entry {
    pub(super) fn folder(stamp: Stamp) -> Self {
        Self { stamp, content: Content::Folder, fresh: false }
    }

    /// Entry of a missing path.
    pub(super) fn absent() -> Self {
        Self { stamp: Stamp::default(), content: Content::Absent, fresh: false }
    }

    /// The state for a record of a change.
    pub(super) fn state(&self) -> Option<FileState> {
        let mode = self.stamp.mode;
        let (hash, size) = match &self.content {
            Content::Folder => return Some(FileState { kind: FileKind::Folder, hash: String::new(), size: 0, mode }),
            Content::Kept(hash, size) => (blobs::text(hash), *size),
            Content::Unkept(_) | Content::Absent => return None,
        };
        let kind = if self.stamp.kind == Kind::Link { FileKind::Link } else { FileKind::File };
        Some(FileState { kind, hash, size, mode })
    }
}

/// A path that is other than it was, and why it is not recorded, where it is not.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) change: FileChange,
    /// Its path below the root, and its state before and now.
    pub(super) below: Vec<u8>,
    pub(super) was: Option<Stamp>,
    pub(super) now: Option<Stamp>,
    pub(super) unkept: Option<Why>,
}

impl Tree {
    /// A tree of which nothing is known.
    pub(super) fn new(place: PathPlace, path: PathBuf) -> Self {
        Self { place, path, ..Self::default() }
    }

    /// Differences in a later look, sorted by path.
    pub(super) fn differences(&self, later: &Self) -> Vec<Difference> {
        if self.unseen.is_some() || later.unseen.is_some() {
            return Vec::new();
        }
        let is_same = |was: &Entry, now: &Entry| match (&was.content, &now.content) {
            (Content::Unkept(_), _) | (_, Content::Unkept(_)) => was.stamp == now.stamp,
            (old, new) => (old, was.stamp.kind, was.stamp.mode) == (new, now.stamp.kind, now.stamp.mode),
        };
        let mut differences = Vec::new();
        for (below, now) in later.present() {
            let was = self.entries.get(below).filter(|entry| entry.content != Content::Absent);
            if !was.is_some_and(|was| is_same(was, now)) {
                differences.push(self.difference(below, was, Some(now)));
            }
        }
        for (below, was) in self.present() {
            if later.entries.get(below).is_none_or(|entry| entry.content == Content::Absent) {
                differences.push(self.difference(below, Some(was), None));
            }
        }
        differences.sort_by(|left, right| left.change.path.cmp(&right.change.path));
        differences
    }

    fn present(&self) -> impl Iterator<Item = (&Vec<u8>, &Entry)> {
        self.entries.iter().filter(|(_, entry)| entry.content != Content::Absent)
    }

    fn difference(&self, below: &[u8], was: Option<&Entry>, now: Option<&Entry>) -> Difference {
        let change = match (was, now) {
            (None, _) => FileChangeKind::Created,
            (Some(_), Some(_)) => FileChangeKind::Modified,
            (Some(_), None) => FileChangeKind::Deleted,
        };
        let both = || was.into_iter().chain(now);
        let is_folder = both().all(|entry| entry.content == Content::Folder);
        let unkept = both().find_map(|entry| match entry.content {
            Content::Unkept(why) => Some(why),
            _ => None,
        });
        let (before, after) = match unkept {
            Some(_) => (None, None),
            None => (was.and_then(Entry::state), now.and_then(Entry::state)),
        };
        let spot = SafePath { place: self.place, below: below.to_vec() };
        let path = spot.shown(is_folder);
        let project = self.place.is_mounted().then(|| self.path.clone());
        let shared = was.zip(now).and_then(|(was, now)| shared(&was.stamp, &now.stamp));
        let change = FileChange { path, change, before, after, project, late: false, shared };
        let stamp = |entry: Option<&Entry>| entry.map(|entry| entry.stamp);
        Difference { change, below: spot.below, was: stamp(was), now: stamp(now), unkept }
    }

    /// The contents that are needed to undo what happens from here on, with their sizes.
    pub(super) fn contents(&self) -> impl Iterator<Item = (Hash, u64)> {
        self.entries.values().filter_map(|entry| match entry.content {
            Content::Kept(hash, size) => Some((hash, size)),
            _ => None,
        })
    }
}

/// The tree that was seen at this root.
pub(super) fn tree_of(trees: &[Arc<Tree>], root: &Root) -> Option<Arc<Tree>> {
    trees.iter().find(|tree| tree.place == root.place && tree.path == root.path).cloned()
}

/// Identifies the file, if it is the same one as before and has other names.
fn shared(was: &Stamp, now: &Stamp) -> Option<SharedFile> {
    let is_same = (was.kind, was.device, was.inode) == (now.kind, now.device, now.inode);
    let is_shared = is_same && now.kind == Kind::File && now.links > 1;
    is_shared.then_some(SharedFile { device: now.device, inode: now.inode })
}
