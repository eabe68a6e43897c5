//! Files of a folder: which of them belong to its code.

mod outer;
mod refresh;

use std::{
    fs::Metadata,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use ignore::{DirEntry, WalkBuilder};

pub use outer::OuterRules;
pub(crate) use outer::{OuterIgnore, outer_rules};
pub use refresh::{RefreshReport, RefreshStep};
pub(crate) use refresh::{SkippedFiles, refresh, update};

use crate::{file_kind::is_generated_name, index::FileStamp, text::MAX_BYTES};

/// Files that are listed at most.
pub const MAX_FILES: usize = 100_000;
/// Bytes of all files together at most. What of them is in memory is about a third more.
pub const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// Depth down to which folders are listed.
const MAX_DEPTH: usize = 64;

/// Predicate on paths below the folder, with slashes: which files may be read.
pub type MayRead = dyn Fn(&str) -> bool + Send + Sync;

/// A folder, and what of it may be read.
#[derive(Clone, Copy)]
pub(crate) struct FileTree<'a> {
    pub(crate) root: &'a Path,
    pub(crate) outer: &'a OuterIgnore,
    pub(crate) may_read: &'a MayRead,
}

/// File of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    /// Path below the folder, with slashes.
    pub(crate) path: String,
    pub(crate) stamp: FileStamp,
}

/// Files of a folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) files: Vec<ListedFile>,
    /// Folders that were listed, as paths below the root; the root is the empty one.
    pub(crate) folders: Vec<String>,
    /// Set if there are more files than the caller or the limits of this module allow.
    pub(crate) is_truncated: bool,
    /// Set if a folder could not be listed.
    pub(crate) is_partial: bool,
}

/// Lists the files that may belong to the index. Links are not followed; what is hidden or git-ignored is left out, also
/// outside of a repository.
pub(crate) fn list(tree: &FileTree<'_>, max_files: usize) -> Listing {
    let FileTree { root, outer, may_read } = *tree;
    let mut listing = Listing::default();
    let mut total = 0;
    let mut walk = walk(root);
    let outer = outer.clone();
    walk.filter_entry(move |entry| is_wanted(entry, &outer));
    for entry in walk.build() {
        let Ok(entry) = entry else {
            listing.is_partial = true;
            continue;
        };
        let kind = entry.file_type();
        if kind.is_some_and(|kind| kind.is_dir()) {
            listing.folders.extend(if entry.depth() == 0 { Some(String::new()) } else { relative(root, entry.path()) });
        }
        if !kind.is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let Some(path) = relative(root, entry.path()) else { continue };
        if !belongs(&path, may_read) {
            continue;
        }
        // Gone since it was listed: the next look will tell.
        let Ok(metadata) = entry.metadata() else { continue };
        let stamp = stamp(&metadata);
        // Larger ones are not read.
        total += if stamp.size > MAX_BYTES as u64 { 0 } else { stamp.size };
        if listing.files.len() >= max_files.min(MAX_FILES) || total > MAX_TOTAL_BYTES {
            listing.is_truncated = true;
            break;
        }
        listing.files.push(ListedFile { path, stamp });
    }
    listing
}

fn walk(root: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(root);
    // What lies above is not for the worker to read.
    walk.follow_links(false).require_git(false).parents(false).git_global(false).max_depth(Some(MAX_DEPTH));
    walk
}

fn is_wanted(entry: &DirEntry, outer: &OuterIgnore) -> bool {
    let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
    entry.file_name() != "node_modules" && !(entry.depth() > 0 && outer.ignores(entry.path(), is_folder))
}

/// Looks whether one file may belong to the index, by the rules of [`list`].
pub(crate) fn is_listed(tree: &FileTree<'_>, path: &str) -> bool {
    let FileTree { root, outer, may_read } = *tree;
    let Some(place) = absolute(root, path).filter(|_| belongs(path, may_read)) else { return false };
    let mut way = walk(root);
    let (target, outer) = (place.clone(), outer.clone());
    way.filter_entry(move |entry| is_wanted(entry, &outer) && target.starts_with(entry.path()));
    let mut found = way.build().filter_map(Result::ok);
    found.any(|entry| entry.path() == place && entry.file_type().is_some_and(|kind| kind.is_file()))
}

/// Returns whether a path may be in the index as far as its name tells.
pub(crate) fn belongs(path: &str, may_read: &MayRead) -> bool {
    !is_generated_name(path) && may_read(path)
}

/// Path below a folder, with slashes; none for names that are no text.
fn relative(root: &Path, path: &Path) -> Option<String> {
    let below = path.strip_prefix(root).ok()?;
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    parts.map(|parts| parts.join("/")).filter(|path| !path.is_empty())
}

/// Place of a file of the index; none for paths that would lead out of the folder.
pub(crate) fn absolute(root: &Path, path: &str) -> Option<PathBuf> {
    is_below(path).then(|| root.join(path))
}

/// Returns whether a path names something below a folder, and in one way.
pub(crate) fn is_below(path: &str) -> bool {
    path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Place of a file that is one, in the folder itself: no link leads to it, none lies on the way.
pub(crate) fn regular_file(root: &Path, path: &str) -> Option<(PathBuf, Metadata)> {
    let place = absolute(root, path)?;
    let metadata = place.symlink_metadata().ok().filter(Metadata::is_file)?;
    let is_direct = place.canonicalize().is_ok_and(|real| real == place);
    is_direct.then_some((place, metadata))
}

pub(crate) fn stamp(metadata: &Metadata) -> FileStamp {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    FileStamp { modified: modified.map_or(0, |since| since.as_nanos()), size: metadata.len() }
}
