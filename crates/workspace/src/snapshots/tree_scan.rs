//! Scans the trees of a session, including the files that other programs run or obey. Stores the contents of entries
//! that are new since the last scan.

use std::{
    collections::{HashMap, hash_map},
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    sync::{Arc, RwLockReadGuard},
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::fstat;

use super::{
    blobs::{BlobWriter, Blobs},
    config::SnapshotConfig,
    guard::{CallGuard, GuardedPaths},
    leads::makes_repository,
    root::{Kind, Root, SafePath, Stamp},
    scan::{ScanResult, scan},
    session::SessionRecord,
    store::{Store, without_lost},
    tree::{Content, Entry, SkipReason, Tree, tree_of},
};
use crate::{exact::is_missing, path::PathPlace, text};

impl SessionRecord {
    /// Scans everything. If there is no space for a new blob, frees space and scans again. While the returned guard
    /// is held, nothing is removed; the blobs of the call's `in_use` trees are never removed.
    pub(super) fn scan_with_space<'s>(
        &mut self,
        store: &'s Store,
        roots: &[Root],
        in_use: &[Arc<Tree>],
    ) -> io::Result<(Vec<String>, RwLockReadGuard<'s, ()>)> {
        let gate = store.blobs.gate();
        self.forget_lost();
        let notes = self.update_trees(roots)?;
        if !self.lacks_space {
            return Ok((notes, gate));
        }
        drop(gate);
        store.free_space(
            self.trees.iter().chain(in_use).flat_map(|tree| tree.contents()).map(|(hash, _)| hash).collect(),
        )?;
        let gate = store.blobs.gate();
        self.forget_lost();
        Ok((self.update_trees(roots)?, gate))
    }

    /// Drops entries whose contents were removed from the store, so that these contents are read again.
    fn forget_lost(&mut self) {
        let removals = self.store.blobs.removals();
        if self.removals == Some(removals) {
            return;
        }
        self.removals = Some(removals);
        for tree in &mut self.trees {
            if let Some(left) = without_lost(tree, &self.store.blobs) {
                self.saved &= tree.place.is_mounted();
                *tree = Arc::new(left);
            }
        }
    }

    /// Updates the trees, and returns notes about unrecorded parts.
    fn update_trees(&mut self, roots: &[Root]) -> io::Result<Vec<String>> {
        let (mut notes, mut trees) = (Vec::new(), Vec::with_capacity(roots.len()));
        self.lacks_space = false;
        self.left_out.clear();
        let (seen, guarded) = self.scan_all(roots, &self.around)?;
        self.guarded = guarded;
        for (root, mut seen) in roots.iter().zip(seen) {
            let left_out = std::mem::take(&mut seen.left_out);
            self.left_out.extend(left_out.into_iter().map(|below| SafePath { place: root.place, below }));
            let (tree, changed) = self.add_scan(root, seen, &mut notes)?;
            self.saved &= root.place.is_mounted() || self.known(root).is_some() && !changed;
            trees.push(tree);
        }
        self.trees = trees;
        Ok(notes)
    }

    /// Scans all trees, and finds files that other programs run or obey. A tree that was too large is not scanned
    /// again: it rarely shrinks during a session, and scanning it is expensive.
    fn scan_all(&self, roots: &[Root], around: &[PathBuf]) -> io::Result<(Vec<ScanResult>, GuardedPaths)> {
        let seen = roots.iter().map(|root| match self.known(root) {
            Some(known) if known.skip_reason.is_some() => Ok(ScanResult::of(Tree::clone(&known), 0)),
            known => scan(root, &known.unwrap_or_else(|| new_tree(root)), self.config.max_files, &self.names),
        });
        let mut seen = seen.collect::<io::Result<Vec<ScanResult>>>()?;
        let mut guarded = GuardedPaths::default();
        guarded.add_scan(roots, &mut seen, around, (&self.config, &self.names))?;
        Ok((seen, guarded))
    }

    /// Merges the result of a scan into one tree. Returns the tree, and true if it changed.
    fn add_scan(&mut self, root: &Root, seen: ScanResult, notes: &mut Vec<String>) -> io::Result<(Arc<Tree>, bool)> {
        let place = match root.place {
            PathPlace::Own => "the workspace".to_owned(),
            place => place.to_string(),
        };
        if seen.too_deep > 0 {
            notes.push(format!("files nested too deeply in {place} are not recorded"));
        }
        let known = self.known(root).unwrap_or_else(|| new_tree(root));
        let (tree, changed) = match known.skip_reason {
            Some(_) => (Arc::clone(&known), false),
            None => capture(&self.capture_of(root), seen, &known)?,
        };
        let is_full =
            |tree: &Tree| tree.entries.values().any(|entry| entry.content == Content::Unstored(SkipReason::Full));
        self.lacks_space |= is_full(&tree) && !is_full(&known);
        if let Some(reason) = &tree.skip_reason {
            notes.push(format!("changes in {place} are not recorded, because {reason}"));
        }
        Ok((tree, changed))
    }

    /// Returns the reason why the user must approve writing to these paths: other programs run or obey the files,
    /// although their names do not show it. In a tree too large to scan, only links in the folders above a path are
    /// considered.
    pub(super) fn approval_reason(&self, roots: &[Root], paths: &[String]) -> io::Result<Option<String>> {
        let placed = paths.iter().filter_map(|path| {
            let safe_path = SafePath::read(path)?;
            let root = roots.iter().find(|root| root.place == safe_path.place)?;
            Some((path, root, root.path.join(OsStr::from_bytes(&safe_path.below)), safe_path.below))
        });
        let written: Vec<(&String, &Root, PathBuf, Vec<u8>)> = placed.collect();
        let real: Vec<PathBuf> = written.iter().map(|(_, _, real, _)| real.clone()).collect();
        let (_, now) = self.scan_all(roots, &[&self.around[..], &real].concat())?;
        if now.is_unread {
            return Ok(Some("unknown whether other programs run or obey it: git has too many configurations".into()));
        }
        let guard = CallGuard::default();
        for (path, root, real_path, below) in &written {
            if guard.covers(&new_tree(root), below, &self.names, &now) {
                return Ok(Some(format!("other programs run or obey {path}: a link, git or an editor leads there")));
            }
            if root.place.is_mounted() && makes_repository(real_path, &real) {
                return Ok(Some(format!("{path} would make its folder a git repository")));
            }
        }
        Ok(None)
    }

    fn capture_of<'a>(&'a self, root: &'a Root) -> FileCapture<'a> {
        FileCapture { root, blobs: &self.store.blobs, max_file: self.config.max_file_bytes }
    }

    pub(super) fn known(&self, root: &Root) -> Option<Arc<Tree>> {
        tree_of(&self.trees, root)
    }

    /// Scans single paths and the folders above them.
    pub(super) fn scan_paths(&self, roots: &[Root], safe_paths: &[SafePath]) -> io::Result<Vec<Arc<Tree>>> {
        self.scan_paths_up_to(roots, safe_paths, self.config.max_file_bytes)
    }

    /// Like [`Self::scan_paths`], but stores no content of files above a size.
    pub(super) fn scan_paths_up_to(
        &self,
        roots: &[Root],
        safe_paths: &[SafePath],
        max_file: u64,
    ) -> io::Result<Vec<Arc<Tree>>> {
        let mut trees = Vec::new();
        for root in roots {
            let mut entries = HashMap::new();
            let paths_in_root = safe_paths.iter().filter(|safe_path| safe_path.place == root.place);
            for safe_path in paths_in_root.flat_map(|safe_path| safe_path.folders().chain([safe_path.clone()])) {
                let hash_map::Entry::Vacant(vacant) = entries.entry(safe_path.below) else { continue };
                let entry = match root.stamp_of(vacant.key())? {
                    Some(stamp) if stamp.kind == Kind::Folder => Some(Entry::folder(stamp)),
                    Some(stamp) if stamp.kind != Kind::Special => FileCapture { max_file, ..self.capture_of(root) }
                        .capture_one(vacant.key(), stamp, &mut self.store.blobs.blob_writer(false))?,
                    _ => None,
                };
                vacant.insert(entry.unwrap_or_else(Entry::absent));
            }
            trees.push(Arc::new(Tree { entries, ..Tree::new(root.place, root.path.clone()) }));
        }
        Ok(trees)
    }
}

fn new_tree(root: &Root) -> Arc<Tree> {
    Arc::new(Tree::new(root.place, root.path.clone()))
}

/// Number of blobs above which two threads read them.
const PARALLEL_FROM: usize = 64;

/// Maximum number of paths named in a note.
const MAX_NAMED: usize = 3;

/// Maximum number of attempts to read a file that changes while it is read.
const MAX_ATTEMPTS: usize = 3;

/// Upper bound on the tick of file timestamps, in nanoseconds. A change within one tick may leave the timestamps
/// unchanged.
const TICK_NANOS: i128 = 20_000_000;
/// Tick for file systems with a resolution of one or two seconds, in nanoseconds.
const COARSE_TICK_NANOS: i128 = 2_000_000_000;

/// Stores the new blobs in a scan. Returns the tree, and true if it differs from `known`.
fn capture(files: &FileCapture<'_>, seen: ScanResult, known: &Arc<Tree>) -> io::Result<(Arc<Tree>, bool)> {
    let digest = seen.digest();
    if seen.tree.skip_reason.is_none() && known.skip_reason.is_none() && known.seen == Some(digest) {
        return Ok((Arc::clone(known), false));
    }
    let ScanResult { entries: paths, mut tree, .. } = seen;
    let mut changed = tree.skip_reason != known.skip_reason || paths.len() != known.entries.len();
    let mut entries: HashMap<Vec<u8>, Entry> = HashMap::with_capacity(paths.len());
    let (mut new, all) = (Vec::new(), paths.len());
    for (path, stamp) in paths {
        match known.entries.get(&path) {
            Some(entry) if entry.stamp == stamp && !needs_reread(entry) => {
                entries.insert(path, entry.clone());
            }
            _ if stamp.kind == Kind::Folder => {
                changed = true;
                entries.insert(path, Entry::folder(stamp));
            }
            _ => new.push((path, stamp)),
        }
    }
    // The digest is set only for a settled tree: if no entry needs another read, an equal scan has the same result.
    let stamps: HashMap<Vec<u8>, Stamp> = new.iter().cloned().collect();
    let mut is_settled = true;
    for (path, entry) in files.capture_all(&new)? {
        is_settled &= stamps.get(&path) == Some(&entry.stamp);
        changed |= known
            .entries
            .get(&path)
            .is_none_or(|known| (&known.stamp, &known.content) != (&entry.stamp, &entry.content));
        entries.insert(path, entry);
    }
    is_settled &= entries.len() == all && !entries.values().any(needs_reread);
    tree.seen = is_settled.then_some(digest);
    tree.entries = entries;
    Ok((Arc::new(tree), changed))
}

/// Returns true if the content must be read again although the stamp is unchanged.
pub(super) fn needs_reread(entry: &Entry) -> bool {
    entry.fresh || matches!(entry.content, Content::Unstored(SkipReason::Full | SkipReason::Busy))
}

struct FileCapture<'a> {
    root: &'a Root,
    blobs: &'a Blobs,
    max_file: u64,
}

impl FileCapture<'_> {
    fn capture_all(&self, new: &[(Vec<u8>, Stamp)]) -> io::Result<Vec<(Vec<u8>, Entry)>> {
        if new.len() < PARALLEL_FROM {
            return self.capture_chunk(new, false);
        }
        let (left, right) = new.split_at(new.len() / 2);
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().name("snapshot".to_owned());
            let other = other.spawn_scoped(scope, || self.capture_chunk(right, true))?;
            let mut captured = self.capture_chunk(left, true)?;
            captured.extend(other.join().map_err(|_| io::Error::other("the thread that reads files panicked"))??);
            Ok(captured)
        })
    }

    fn capture_chunk(&self, new: &[(Vec<u8>, Stamp)], many: bool) -> io::Result<Vec<(Vec<u8>, Entry)>> {
        let mut captured = Vec::with_capacity(new.len());
        let mut blob_writer = self.blobs.blob_writer(many);
        for (path, stamp) in new {
            if let Some(entry) = self.capture_one(path, *stamp, &mut blob_writer)? {
                captured.push((path.clone(), entry));
            }
        }
        blob_writer.finish()?;
        Ok(captured)
    }

    /// Captures the state of a path. Returns `None` if the path was removed in the meantime.
    fn capture_one(&self, path: &[u8], stamp: Stamp, blob_writer: &mut BlobWriter<'_>) -> io::Result<Option<Entry>> {
        let entry = |stamp, content, fresh| Ok(Some(Entry { stamp, content, fresh }));
        let unstored = |stamp, reason| entry(stamp, Content::Unstored(reason), false);
        let unread = |error| if is_missing(&error) { Ok(None) } else { unstored(stamp, SkipReason::Unreadable) };
        if stamp.kind == Kind::Link {
            let began = SystemTime::now();
            let leads = match self.root.link(path) {
                Ok(leads) => leads,
                Err(error) => return unread(error),
            };
            let Some(hash) = blob_writer.store(&leads)? else { return unstored(stamp, SkipReason::Full) };
            return entry(stamp, Content::Stored(hash, leads.len() as u64), is_fresh(&stamp, began));
        }
        if stamp.size > self.max_file {
            return unstored(stamp, SkipReason::Large);
        }
        for _ in 0..MAX_ATTEMPTS {
            let began = SystemTime::now();
            let (mut file, before) = match self.root.file(path) {
                Ok(opened) => opened,
                Err(error) => return unread(error),
            };
            if before.size > self.max_file {
                return unstored(before, SkipReason::Large);
            }
            let Some((hash, size)) = blob_writer.store_file(&mut file, before.size)? else {
                return unstored(stamp, SkipReason::Full);
            };
            if before == Stamp::of(&fstat(&file)?) && size == before.size {
                return entry(before, Content::Stored(hash, size), is_fresh(&before, began));
            }
        }
        unstored(stamp, SkipReason::Busy)
    }
}

impl SnapshotConfig {
    /// Returns a note about paths that are not recorded, with the reason.
    pub(super) fn note(&self, reason: SkipReason, paths: &[&str]) -> String {
        let named = paths.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
        let more =
            if paths.len() > MAX_NAMED { format!(" and {} more", paths.len() - MAX_NAMED) } else { String::new() };
        let because = match reason {
            SkipReason::Large => format!("larger than {}", text::size(self.max_file_bytes)),
            SkipReason::Full => format!("the limit of {} is reached", text::size(self.max_total_bytes)),
            SkipReason::Unreadable => "it is not readable".to_owned(),
            SkipReason::Busy => "it kept changing".to_owned(),
        };
        format!("{named}{more} ({because})")
    }
}

/// Returns true if the file can still change without getting another timestamp after a read that began at `began`.
fn is_fresh(stamp: &Stamp, began: SystemTime) -> bool {
    let began = began.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos().cast_signed());
    let latest = stamp.modified.max(stamp.changed);
    let tick = if stamp.changed.1 == 0 { COARSE_TICK_NANOS } else { TICK_NANOS };
    i128::from(latest.0) * 1_000_000_000 + i128::from(latest.1) + tick >= began
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn entries_changed_within_a_tick_are_reread() {
        let stamp = |changed| Stamp { changed, ..Stamp::default() };
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        assert!(!is_fresh(&stamp((100, 1)), at(100_021)));
        assert!(is_fresh(&stamp((100, 1)), at(100_019)));
        assert!(is_fresh(&stamp((100, 1)), at(90_000)), "a time in the future proves nothing");
        assert!(is_fresh(&stamp((100, 0)), at(101_999)), "whole seconds may be rounded");
        assert!(!is_fresh(&stamp((100, 0)), at(102_001)));
    }
}
