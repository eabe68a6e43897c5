//! State of one tree in a scan, and the differences between two scans.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::tool::{FileChange, FileChangeKind, FileKind, FileState, SharedFile};
use ignore::gitignore::Gitignore;

use super::{
    blobs::{self, Hash},
    root::{Kind, Root, SafePath, Stamp},
};
use crate::path::PathPlace;

/// State of one tree in its last scan.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub(super) place: PathPlace,
    /// Path of the root.
    pub(super) path: PathBuf,
    /// Reason why nothing in the tree is recorded; `None` if the tree is recorded.
    pub(super) skip_reason: Option<String>,
    /// Entries by path below the root.
    pub(super) entries: HashMap<Vec<u8>, Entry>,
    /// Digest of the scan, set if a scan with the same digest must produce the same tree.
    pub(super) seen: Option<Hash>,
    /// Git repositories. A repository remains in this set while a command dismantles it.
    pub(super) stores: HashSet<Vec<u8>>,
    /// Parsed ignore files, reused while their stamps are unchanged.
    pub(super) ignores: HashMap<Vec<u8>, (Stamp, Arc<Gitignore>)>,
}

/// State of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) stamp: Stamp,
    pub(super) content: Content,
    /// True if the file was changed so recently that another change might leave the same stamp. The content must then
    /// be read again.
    pub(super) fresh: bool,
}

/// Stored content of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// Folder, which has no content besides its entries.
    Folder,
    /// Hash and size of a stored file, or of a link's target.
    Stored(Hash, u64),
    /// Content that is not stored, for this reason.
    Unstored(SkipReason),
    /// Missing path that was scanned by name.
    Absent,
}

/// Reason why the content of a file is not stored. The numbers are stored in records and must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SkipReason {
    /// The file exceeds the size limit.
    Large = 0,
    /// The storage limit is reached.
    Full = 1,
    /// The file cannot be read.
    Unreadable = 2,
    /// The file kept changing while it was read.
    Busy = 3,
}

impl Entry {
    pub(super) fn folder(stamp: Stamp) -> Self {
        Self { stamp, content: Content::Folder, fresh: false }
    }

    /// Creates the entry for a missing path.
    pub(super) fn absent() -> Self {
        Self { stamp: Stamp::default(), content: Content::Absent, fresh: false }
    }

    /// Creates the entry of a recorded state. Returns `None` if its hash is invalid.
    pub(super) fn of_state(state: &FileState) -> Option<Self> {
        let (kind, content) = match state.kind {
            FileKind::Folder => (Kind::Folder, Content::Folder),
            FileKind::Link => (Kind::Link, Content::Stored(blobs::read_hash(&state.hash)?, state.size)),
            FileKind::File => (Kind::File, Content::Stored(blobs::read_hash(&state.hash)?, state.size)),
        };
        Some(Self { stamp: Stamp { kind, mode: state.mode, ..Stamp::default() }, content, fresh: false })
    }

    /// Returns true if two scans found the same content, type and mode.
    pub(super) fn is_same(&self, later: &Self) -> bool {
        match (&self.content, &later.content) {
            (Content::Unstored(_), _) | (_, Content::Unstored(_)) => self.stamp == later.stamp,
            (old, new) => (old, self.stamp.kind, self.stamp.mode) == (new, later.stamp.kind, later.stamp.mode),
        }
    }

    /// Returns the state as recorded in a change.
    pub(super) fn state(&self) -> Option<FileState> {
        let mode = self.stamp.mode;
        let (hash, size) = match &self.content {
            Content::Folder => return Some(FileState { kind: FileKind::Folder, hash: String::new(), size: 0, mode }),
            Content::Stored(hash, size) => (blobs::text(hash), *size),
            Content::Unstored(_) | Content::Absent => return None,
        };
        let kind = if self.stamp.kind == Kind::Link { FileKind::Link } else { FileKind::File };
        Some(FileState { kind, hash, size, mode })
    }
}

/// Changed path, and the reason if its contents are not recorded.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) change: FileChange,
    /// Path below the root, and its stamps before and now.
    pub(super) below: Vec<u8>,
    pub(super) was: Option<Stamp>,
    pub(super) now: Option<Stamp>,
    pub(super) unstored: Option<SkipReason>,
}

impl Tree {
    /// Creates a tree without entries.
    pub(super) fn new(place: PathPlace, path: PathBuf) -> Self {
        Self { place, path, ..Self::default() }
    }

    /// Returns the differences to a later scan, sorted by path.
    pub(super) fn differences(&self, later: &Self) -> Vec<Difference> {
        if self.skip_reason.is_some() || later.skip_reason.is_some() {
            return Vec::new();
        }
        let mut differences = Vec::new();
        for (below, now) in later.present() {
            let was = self.entries.get(below).filter(|entry| entry.content != Content::Absent);
            if !was.is_some_and(|was| was.is_same(now)) {
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

    /// The part of the tree that is also below `path`, with paths below `path`. `None` if there is none.
    pub(super) fn below(&self, path: &Path) -> Option<Cow<'_, Self>> {
        if self.path == path {
            return Some(Cow::Borrowed(self));
        }
        let is_related = self.path.starts_with(path) || path.starts_with(&self.path);
        let moved = |(below, entry): (&Vec<u8>, &Entry)| {
            let real = self.path.join(OsStr::from_bytes(below));
            Some((real.strip_prefix(path).ok()?.as_os_str().as_bytes().to_vec(), entry.clone()))
        };
        is_related.then(|| {
            let entries = self.entries.iter().filter_map(moved).filter(|(below, _)| !below.is_empty()).collect();
            Cow::Owned(Self { entries, ..Self::new(self.place, path.to_owned()) })
        })
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
        let unstored = both().find_map(|entry| match entry.content {
            Content::Unstored(reason) => Some(reason),
            _ => None,
        });
        let (before, after) = match unstored {
            Some(_) => (None, None),
            None => (was.and_then(Entry::state), now.and_then(Entry::state)),
        };
        let safe_path = SafePath { place: self.place, below: below.to_vec() };
        let path = safe_path.shown(is_folder);
        let project = self.place.is_mounted().then(|| self.path.clone());
        let shared = was.zip(now).and_then(|(was, now)| shared(&was.stamp, &now.stamp));
        let change = FileChange { path, change, before, after, project, late: false, shared };
        let stamp = |entry: Option<&Entry>| entry.map(|entry| entry.stamp);
        Difference { change, below: safe_path.below, was: stamp(was), now: stamp(now), unstored }
    }

    /// Returns the blobs needed to undo changes to this tree, with their sizes.
    pub(super) fn contents(&self) -> impl Iterator<Item = (Hash, u64)> {
        self.entries.values().filter_map(|entry| match entry.content {
            Content::Stored(hash, size) => Some((hash, size)),
            _ => None,
        })
    }
}

/// Returns the tree with this root.
pub(super) fn tree_of(trees: &[Arc<Tree>], root: &Root) -> Option<Arc<Tree>> {
    trees.iter().find(|tree| tree.place == root.place && tree.path == root.path).cloned()
}

/// Returns the identity of the file, if it is still the same file and has other names.
fn shared(was: &Stamp, now: &Stamp) -> Option<SharedFile> {
    let is_same = (was.kind, was.device, was.inode) == (now.kind, now.device, now.inode);
    let is_shared = is_same && now.kind == Kind::File && now.links > 1;
    is_shared.then_some(SharedFile { device: now.device, inode: now.inode })
}
