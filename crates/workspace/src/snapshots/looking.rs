//! Looks at the trees of a session: what is there now, and what others run or obey of it.

use std::{
    collections::{HashMap, hash_map},
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    sync::{Arc, RwLockReadGuard},
};

use super::{
    capture::{CapturedTree, capture, capture_one},
    guard::{CallGuard, GuardedPaths},
    leads::makes_repository,
    root::{Root, SafePath},
    scan::{ScanResult, scan},
    session::SessionRecord,
    store::{Store, without_lost},
    tree::{Content, Tree, Why},
};
use crate::path::PathPlace;

impl SessionRecord {
    /// Looks at all there is. Where there is no room for something new, room is made, and it is looked at again.
    /// Nothing is removed while what comes back is held, and nothing that the trees of a call hold.
    pub(super) fn look_with_room<'s>(
        &mut self,
        store: &'s Store,
        roots: &[Root],
        held: &[Arc<Tree>],
    ) -> io::Result<(Vec<String>, RwLockReadGuard<'s, ()>)> {
        let gate = store.blobs.gate();
        self.forget_lost();
        let notes = self.look(roots)?;
        if !self.lacks_room {
            return Ok((notes, gate));
        }
        drop(gate);
        store.make_room(self.trees.iter().chain(held).flat_map(|tree| tree.hashes()).collect())?;
        let gate = store.blobs.gate();
        self.forget_lost();
        Ok((self.look(roots)?, gate))
    }

    /// Forgets what is no longer kept, so that it is read again.
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

    /// Brings the trees up to date with what there is, and says what is not seen of them.
    fn look(&mut self, roots: &[Root]) -> io::Result<Vec<String>> {
        let (mut notes, mut trees) = (Vec::new(), Vec::with_capacity(roots.len()));
        self.lacks_room = false;
        self.left_out.clear();
        let (seen, guarded) = self.scan_all(roots, &self.around)?;
        self.guarded = guarded;
        for (root, mut seen) in roots.iter().zip(seen) {
            let left_out = std::mem::take(&mut seen.left_out);
            self.left_out.extend(left_out.into_iter().map(|below| SafePath { place: root.place, below }));
            let (tree, changed) = self.take_in(root, seen, &mut notes)?;
            self.saved &= root.place.is_mounted() || self.known(root).is_some() && !changed;
            trees.push(tree);
        }
        self.trees = trees;
        Ok(notes)
    }

    /// Scans all trees and finds what others run or obey there. A tree that was too large is not scanned again: it rarely shrinks
    /// during a session, and scanning it costs more than everything else.
    fn scan_all(&self, roots: &[Root], around: &[PathBuf]) -> io::Result<(Vec<ScanResult>, GuardedPaths)> {
        let seen = roots.iter().map(|root| match self.known(root) {
            Some(known) if known.unseen.is_some() => Ok(ScanResult::of(Tree::clone(&known), 0)),
            known => scan(root, &known.unwrap_or_else(|| new_tree(root)), self.config.max_files, &self.names),
        });
        let mut seen = seen.collect::<io::Result<Vec<ScanResult>>>()?;
        let mut guarded = GuardedPaths::default();
        guarded.take_in(roots, &mut seen, around, (&self.config, &self.names))?;
        Ok((seen, guarded))
    }

    /// Captures what a scan found in one tree. Returns the tree, and true if it changed.
    fn take_in(&mut self, root: &Root, seen: ScanResult, notes: &mut Vec<String>) -> io::Result<(Arc<Tree>, bool)> {
        let place = match root.place {
            PathPlace::Own => "the workspace".to_owned(),
            place => place.to_string(),
        };
        if seen.too_deep > 0 {
            notes.push(format!("what lies very deep in {place} is not recorded"));
        }
        let known = self.known(root).unwrap_or_else(|| new_tree(root));
        let captured = match known.unseen {
            Some(_) => CapturedTree { tree: Arc::clone(&known), changed: false },
            None => capture(root, seen, &known, &self.store.blobs, self.config.max_file_bytes)?,
        };
        let is_full = |tree: &Tree| tree.entries.values().any(|entry| entry.content == Content::Unkept(Why::Full));
        self.lacks_room |= is_full(&captured.tree) && !is_full(&known);
        if let Some(why) = &captured.tree.unseen {
            notes.push(format!("changes of {place} are not recorded, because {why}"));
        }
        Ok((captured.tree, captured.changed))
    }

    /// Returns why a person must approve writing these paths: others run or obey them, although their names do not show it. In a
    /// tree too large to scan, only links in the folders above a path count.
    pub(super) fn obeyed(&self, roots: &[Root], paths: &[String]) -> io::Result<Option<String>> {
        let placed = paths.iter().filter_map(|path| {
            let spot = SafePath::read(path)?;
            let root = roots.iter().find(|root| root.place == spot.place)?;
            Some((path, root, root.path.join(OsStr::from_bytes(&spot.below)), spot.below))
        });
        let written: Vec<(&String, &Root, PathBuf, Vec<u8>)> = placed.collect();
        let real: Vec<PathBuf> = written.iter().map(|(_, _, real, _)| real.clone()).collect();
        let (_, now) = self.scan_all(roots, &[&self.around[..], &real].concat())?;
        if now.is_unread {
            return Ok(Some(
                "whether other programs run or obey it is not known: git has too many configurations".into(),
            ));
        }
        let guard = CallGuard::default();
        for (path, root, real_path, below) in &written {
            if guard.covers(&new_tree(root), below, &self.names, &now) {
                return Ok(Some(format!("other programs run or obey {path}: a link, git or an editor leads there")));
            }
            if root.place.is_mounted() && makes_repository(real_path, &real) {
                return Ok(Some(format!("{path} would make its folder a repository of git")));
            }
        }
        Ok(None)
    }

    pub(super) fn known(&self, root: &Root) -> Option<Arc<Tree>> {
        self.trees.iter().find(|tree| tree.place == root.place && tree.path == root.path).cloned()
    }

    /// Known trees at these roots; the earlier ones where there is nothing newer.
    pub(super) fn trees_for(&self, roots: &[Root], before: &[Arc<Tree>]) -> Vec<Arc<Tree>> {
        let of = |trees: &[Arc<Tree>], root: &Root| {
            trees.iter().find(|tree| tree.place == root.place && tree.path == root.path).cloned()
        };
        roots.iter().filter_map(|root| of(before, root).or_else(|| of(&self.trees, root))).collect()
    }

    /// Looks at single paths and the folders that they are in.
    pub(super) fn look_at(&self, roots: &[Root], spots: &[SafePath]) -> io::Result<Vec<Arc<Tree>>> {
        let mut trees = Vec::new();
        for root in roots {
            let mut entries = HashMap::new();
            let meant = spots.iter().filter(|spot| spot.place == root.place);
            for spot in meant.flat_map(|spot| spot.folders().chain([spot.clone()])) {
                if let hash_map::Entry::Vacant(vacant) = entries.entry(spot.below) {
                    let entry = capture_one(root, vacant.key(), &self.store.blobs, self.config.max_file_bytes)?;
                    vacant.insert(entry);
                }
            }
            trees.push(Arc::new(Tree { entries, ..Tree::new(root.place, root.path.clone()) }));
        }
        Ok(trees)
    }
}

fn new_tree(root: &Root) -> Arc<Tree> {
    Arc::new(Tree::new(root.place, root.path.clone()))
}
