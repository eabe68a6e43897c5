//! Reverts changes to guarded files after a call that was not reviewed.

use std::{ffi::OsStr, io, os::unix::ffi::OsStrExt as _, sync::Arc};

use agentd_core::{
    ports::{Changes, Workspace},
    tool::{FileChange, FileChangeKind, FileKind, FileState},
    undo::{FilesReverted, UndoOutcome, UndoneFile, inverse_change},
};
use rustix::fs::{AtFlags, unlinkat};

use super::{
    base::BaseState,
    config::SnapshotConfig,
    guard::GuardedPaths,
    ignored_folders::runs_no_more,
    record::LastSign,
    restore,
    root::{Kind, Root, SafePath},
    scan::{ScanResult, scan},
    session::SessionRecord,
    tree::Tree,
};
use crate::exact::{if_present, split};

/// Maximum number of rounds of scanning and reverting. An unreadable folder may hide another unreadable folder.
const MAX_ROUNDS: usize = 4;

impl SessionRecord {
    /// Returns the changes since the scan before a call, after reverting changes to guarded files. Each round scans
    /// again to find more changes to guarded files.
    pub(super) fn changes_checked(
        &mut self,
        before: &BaseState,
        workspace: &Workspace,
        sign: Option<&LastSign>,
    ) -> io::Result<Changes> {
        let (mut changes, mut due) = self.changes_since(before, workspace, sign)?;
        let roots = Root::of_commands(Root::all(workspace)?);
        changes.files.extend(due.extract_if(.., |change| self.is_acceptable(&roots, change)));
        for _ in 0..MAX_ROUNDS {
            due.retain(|change| !self.is_acceptable(&roots, change) && !has_failed(&changes.set_aside, change));
            if due.iter().all(is_open_folder) {
                changes.files.append(&mut due);
                break;
            }
            // Late changes are also reverted, because the user has not reviewed them.
            due.iter_mut().for_each(|change| change.late = false);
            let (recorded, unrecorded): (Vec<_>, Vec<_>) = due.into_iter().partition(FileChange::is_recorded);
            let back = {
                let _gate = self.store.blobs.gate();
                restore::undo(workspace, &roots, &self.store.blobs, recorded, false)
            };
            changes.set_aside.files.extend(back.files);
            changes.set_aside.changes.extend(back.changes);
            changes.set_aside.files.extend(unrecorded.into_iter().map(|change| remove_unstored(&roots, change)));
            due = self.changes_since(before, workspace, None)?.1;
        }
        due.retain(|change| {
            !is_open_folder(change) && !self.is_acceptable(&roots, change) && !has_failed(&changes.set_aside, change)
        });
        let again = |change| undone_file(change, UndoOutcome::Failed, "it was written again".to_owned());
        changes.set_aside.files.extend(due.into_iter().map(again));
        Ok(changes)
    }

    /// Removes new guarded files without storing them, if nothing can be stored any more: a full disk must not prevent
    /// the removal of a guarded file.
    pub(super) fn remove_planted(&self, before: &BaseState, workspace: &Workspace) -> io::Result<()> {
        // If the first scan was incomplete, an unknown file is not necessarily new.
        let Some(guard) = before.guard.as_ref().filter(|_| before.unchecked.is_none()) else { return Ok(()) };
        // The call itself may have made the tree exceed the limit.
        let max_files = self.config.max_files.saturating_mul(10);
        let (config, mut removed) = (SnapshotConfig { max_files, ..self.config.clone() }, Ok(()));
        let (mut roots, mut now) = (Root::of_commands(Root::all(workspace)?), GuardedPaths::default());
        let known =
            |root: &Root| before.trees.iter().find(|tree| tree.place == root.place && tree.skip_reason.is_none());
        roots.retain(|root| known(root).is_some());
        let trees: Vec<&Arc<Tree>> = roots.iter().filter_map(known).collect();
        let seen = roots.iter().zip(&trees).map(|(root, tree)| scan(root, tree, max_files, &self.names));
        let mut seen = seen.collect::<io::Result<Vec<ScanResult>>>()?;
        now.add_scan(&roots, &mut seen, &self.around, (&config, &self.names))?;
        for ((root, tree), seen) in roots.iter().zip(trees).zip(seen) {
            for (below, stamp) in seen.entries {
                let is_new =
                    stamp.kind != Kind::Folder && !tree.entries.contains_key(&below) && before.is_new(tree, &below);
                let decided = before.external.get(&root.path.join(OsStr::from_bytes(&below)));
                let is_kept = decided.is_some_and(Option::is_some);
                let scanned = before.scanned.iter().find(|scanned| scanned.path == tree.path);
                let is_of_another =
                    scanned.and_then(|scanned| scanned.entries.get(&below)).is_some_and(|was| was.stamp == stamp);
                if is_new && !is_kept && !is_of_another && guard.covers(tree, &below, &self.names, &now) {
                    removed = removed.and(remove(root, &SafePath { place: root.place, below }));
                }
            }
        }
        removed
    }

    /// Returns true if a change to a guarded file does not cause any additional program to run.
    pub(super) fn is_acceptable(&self, roots: &[Root], change: &FileChange) -> bool {
        self.is_harmless(change) || self.was_deleted_with_folder(roots, change)
    }

    /// Returns true for a guarded file that was deleted together with the folder that contained its guarded name. No
    /// program obeys files there any more, and undo can restore them.
    fn was_deleted_with_folder(&self, roots: &[Root], change: &FileChange) -> bool {
        let Some(safe_path) = SafePath::read(&change.path).filter(|_| change.change == FileChangeKind::Deleted) else {
            return false;
        };
        let Some(end) = self.names.topmost(&safe_path.below) else { return false };
        let around = split(&safe_path.below[..end]).0;
        let root = roots.iter().find(|root| root.place == safe_path.place);
        !around.is_empty() && root.is_some_and(|root| matches!(root.stamp_of(around), Ok(None)))
    }

    /// Returns true for harmless changes made by git itself: a new repository, or a new upstream branch.
    fn is_harmless(&self, change: &FileChange) -> bool {
        let Some(name) = change.path.rsplit_once("/.git/").map(|(_, name)| name) else { return false };
        let is_new = change.change == FileChangeKind::Created;
        let content = |state: &Option<FileState>| {
            let state = state.as_ref().filter(|state| state.kind == FileKind::File)?;
            self.store.blobs.read(&state.hash).ok().flatten()
        };
        match name {
            "info/exclude" => is_new && content(&change.after).is_some(),
            "config" => content(&change.after).is_some_and(|after| match content(&change.before) {
                Some(before) => runs_no_more(Some(&before), &after),
                None => is_new && runs_no_more(None, &after),
            }),
            _ => false,
        }
    }
}

/// Returns true for a new readable folder, which has no effect without a file in it.
fn is_open_folder(change: &FileChange) -> bool {
    let is_open = |state: &FileState| state.kind == FileKind::Folder && state.mode & 0o500 == 0o500;
    change.change == FileChangeKind::Created && change.after.as_ref().is_some_and(is_open)
}

/// Returns true if reverting this file has failed before.
fn has_failed(reverted: &FilesReverted, change: &FileChange) -> bool {
    let is_failure = |outcome| matches!(outcome, UndoOutcome::Conflict | UndoOutcome::Failed);
    reverted.files.iter().any(|file| file.path == change.path && is_failure(file.outcome))
}

/// Removes a new guarded file whose content could not be stored. Changes of other kinds cannot be reverted.
fn remove_unstored(roots: &[Root], change: FileChange) -> UndoneFile {
    let safe_path = SafePath::read(&change.path);
    let root = safe_path.as_ref().and_then(|safe_path| roots.iter().find(|root| root.place == safe_path.place));
    let removed = match (change.change, safe_path.as_ref().zip(root)) {
        (FileChangeKind::Created, Some((safe_path, root))) => remove(root, safe_path),
        _ => Err(io::Error::other("its earlier content is not stored")),
    };
    match removed {
        Ok(()) => undone_file(change, UndoOutcome::Done, "it was too large to store, and was removed".to_owned()),
        Err(error) => undone_file(change, UndoOutcome::Failed, error.to_string()),
    }
}

fn undone_file(change: FileChange, outcome: UndoOutcome, reason: String) -> UndoneFile {
    let back = inverse_change(&change).change;
    UndoneFile { path: change.path, change: back, outcome, reason: Some(reason), diff: None }
}

fn remove(root: &Root, safe_path: &SafePath) -> io::Result<()> {
    let (folder, name) = split(&safe_path.below);
    let removed = unlinkat(root.folder(folder)?, OsStr::from_bytes(name), AtFlags::empty());
    if_present(removed.map_err(io::Error::from)).map(drop)
}
