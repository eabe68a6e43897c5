//! Files that a session has read or changed, as the session knows them, and what others have changed in them since.
//!
//! The states are stored in the form of a scan, so that they outlive the daemon. A check compares stamps, and opens only
//! files whose stamp differs.

use std::io;

use agentd_core::{ports::Workspace, tool::FileChange, undo::ForeignChange};

use super::{
    blobs, record,
    root::{Kind, Root, SafePath},
    session::SessionRecord,
    tree::{Content, Entry, Tree},
    tree_scan::needs_reread,
};
use crate::diff;

/// Maximum number of files in each tree. Further files are not compared.
const MAX_FILES: usize = 500;

/// Maximum size of a file whose changed lines are counted, in bytes.
const MAX_COMPARED: u64 = 1 << 20;

impl SessionRecord {
    /// Stores the current state of a file that a call has read.
    pub(super) fn note_read(&self, workspace: &Workspace, path: SafePath) -> io::Result<()> {
        let roots = Root::readable(workspace)?;
        self.update(&roots, self.known_files(&roots)?, &[path]).map(drop)
    }

    /// Stores the current state of files that the session has changed itself. A command only changes files that are known
    /// already.
    pub(super) fn note_own(&self, workspace: &Workspace, changes: &[FileChange], is_command: bool) -> io::Result<()> {
        let roots = Root::readable(workspace)?;
        let known = self.known_files(&roots)?;
        // If others changed a file before the session did, its known state stays, so that their change is reported.
        let is_own = |path: &SafePath, change: &FileChange| {
            let tree = known.iter().find(|tree| tree.place == path.place);
            tree.and_then(|tree| tree.entries.get(&path.below)).map_or(!is_command, |entry| {
                entry.state().zip(change.before.as_ref()).is_none_or(|(was, now)| was.hash == now.hash)
            })
        };
        let files = changes.iter().filter(|change| !change.is_folder());
        let own = files.filter_map(|change| SafePath::read(&change.path).filter(|path| is_own(path, change)));
        let mut paths: Vec<SafePath> = own.collect();
        for root in Root::of_commands(Root::all(workspace)?).iter().filter(|_| is_command) {
            // What a command changes in folders that git ignores is not recorded.
            let scan = self.known(root);
            let is_recorded =
                |path: &SafePath| scan.as_ref().is_some_and(|scan| scan.entries.contains_key(&path.below));
            let trees = known.iter().filter(|tree| tree.place == root.place);
            paths.extend(trees.flat_map(|tree| stale(root, tree)).filter(|path| !is_recorded(path)));
        }
        self.update(&roots, known, &paths).map(drop)
    }

    /// Returns the files that others have changed, and makes their current state the known one.
    pub(super) fn changed_by_others(&self, workspace: &Workspace) -> io::Result<Vec<ForeignChange>> {
        let roots = Root::readable(workspace)?;
        let known = self.known_files(&roots)?;
        let paths: Vec<SafePath> = roots.iter().zip(&known).flat_map(|(root, tree)| stale(root, tree)).collect();
        let mut changes = self.update(&roots, known, &paths)?;
        changes.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(changes)
    }

    /// Returns the known states below each root.
    fn known_files(&self, roots: &[Root]) -> io::Result<Vec<Tree>> {
        let stored =
            record::read(&self.folder.join(record::KNOWN_FILES))?.map(|record| record.trees).unwrap_or_default();
        let of_root = |root: &Root| {
            let tree = stored.iter().find(|tree| tree.place == root.place && tree.path == root.path);
            tree.cloned().unwrap_or_else(|| Tree::new(root.place, root.path.clone()))
        };
        Ok(roots.iter().map(of_root).collect())
    }

    /// Stores the current state of these files, and returns the files whose content differs from the known one.
    fn update(&self, roots: &[Root], mut known: Vec<Tree>, paths: &[SafePath]) -> io::Result<Vec<ForeignChange>> {
        let mut changes = Vec::new();
        if paths.is_empty() {
            return Ok(changes);
        }
        let _gate = self.store.blobs.gate();
        let scans = self.scan_paths_up_to(roots, paths, MAX_COMPARED)?;
        for (tree, scan) in known.iter_mut().zip(&scans) {
            for path in paths.iter().filter(|path| path.place == tree.place) {
                let was = tree.entries.remove(&path.below);
                let Some(now) = scan.entries.get(&path.below) else { continue };
                let is_gone = now.content == Content::Absent;
                if let Some(was) = was.as_ref().filter(|was| has_changed(was, now)) {
                    changes.push(ForeignChange { path: path.shown(false), is_gone, lines: self.lines(was, now) });
                }
                let is_file = now.stamp.kind == Kind::File || is_gone && was.is_some();
                if is_file && tree.entries.len() < MAX_FILES {
                    tree.entries.insert(path.below.clone(), now.clone());
                }
            }
        }
        record::write(&self.folder.join(record::KNOWN_FILES), true, &known)?;
        Ok(changes)
    }

    /// Counts the added and removed lines between two states.
    fn lines(&self, was: &Entry, now: &Entry) -> Option<(usize, usize)> {
        let content = |entry: &Entry| match &entry.content {
            Content::Stored(hash, _) => self.store.blobs.read(&blobs::text(hash)).ok().flatten(),
            Content::Absent => Some(Vec::new()),
            Content::Folder | Content::Unstored(_) => None,
        };
        let diff = diff::unified("", Some(&content(was)?), &content(now)?);
        let count = |sign: char| diff.lines().skip(2).filter(|line| line.starts_with(sign)).count();
        Some((count('+'), count('-'))).filter(|lines| *lines != (0, 0))
    }
}

/// Returns the files of a tree whose stamp is not the known one.
fn stale<'a>(root: &'a Root, tree: &'a Tree) -> impl Iterator<Item = SafePath> + 'a {
    let is_stale = move |(below, entry): &(&Vec<u8>, &Entry)| match root.stamp_of(below) {
        Ok(Some(stamp)) => stamp != entry.stamp || needs_reread(entry),
        Ok(None) => entry.content != Content::Absent,
        Err(_) => false,
    };
    tree.entries.iter().filter(is_stale).map(move |(below, _)| SafePath { place: tree.place, below: below.clone() })
}

/// Returns true if the content differs; of a file without stored content, the size or the time.
fn has_changed(was: &Entry, now: &Entry) -> bool {
    match (&was.content, &now.content) {
        (Content::Stored(was, _), Content::Stored(now, _)) => was != now,
        _ => (was.stamp.size, was.stamp.modified) != (now.stamp.size, now.stamp.modified),
    }
}
