//! Undoing the file changes of a turn: requests and reports.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::{Deserialize, Serialize};

use crate::{
    ids::TurnId,
    tool::{FileChange, FileChangeKind},
};

/// Request for an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoRequest {
    /// Turn to undo. `None` for the last turn that changed files and has not been undone.
    pub turn: Option<TurnChoice>,
    /// True to redo an undone turn instead. If no turn is named, the turn that was undone last is redone.
    pub redo: bool,
    /// True to report the changes without making them.
    pub preview: bool,
    /// Name of the requesting client, for the audit log.
    pub client: String,
}

/// Change by others to a file that a session has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignChange {
    /// Path of the file, as in the changes of calls.
    pub path: String,
    /// True if the file was removed.
    pub is_gone: bool,
    /// Number of added and of removed lines, or `None` for other content than text, or if the old content is not stored.
    pub lines: Option<(usize, usize)>,
}

/// Choice of the turns to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnChoice {
    /// By number in the session, from 1, in the order of the turns.
    Number(u64),
    /// By id of the turn.
    Id(TurnId),
    /// The turn with this number and all later turns together. Files return to their state before this turn.
    Since(u64),
    /// All turns together, from the first to the last. Allowed in previews only.
    All,
}

/// Result of an undo, or of its preview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// Turn that was undone.
    pub turn_id: TurnId,
    /// Number of the turn in the session, from 1.
    pub turn: u64,
    /// True if an undone turn was redone.
    pub redo: bool,
    /// True if nothing was changed, because this report is a preview.
    pub preview: bool,
    /// Files of the turn, first in the session's own tree and then in the project, each sorted by path.
    pub files: Vec<UndoneFile>,
}

impl UndoReport {
    /// Returns true if every file has the desired state, or would have it after the undo.
    pub fn is_whole(&self) -> bool {
        self.files.iter().all(|file| !matches!(file.outcome, UndoOutcome::Conflict | UndoOutcome::Failed))
    }
}

/// One file in an undo.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneFile {
    /// Path, as in the change that is undone.
    pub path: String,
    /// Effect of the undo on the file: a created file is deleted, a deleted file created, and a modified file modified.
    pub change: FileChangeKind,
    /// Outcome of the undo for the file.
    pub outcome: UndoOutcome,
    /// Reason why the undo was not done, or the remaining difference from the earlier state.
    pub reason: Option<String>,
    /// The change as a unified diff. For a conflict, the diff of the changes made since.
    pub diff: Option<String>,
}

/// Outcome for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoOutcome {
    /// The file was restored, or would be restored.
    Done,
    /// The file already had its earlier state.
    Already,
    /// Something else has, or may have, changed the file since, so the file was left unchanged.
    Conflict,
    /// The earlier content was not recorded or no longer exists, or the file is not writable.
    Failed,
}

/// Effect of an undo on the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesReverted {
    /// All requested files, first in the session's own tree and then in the project.
    pub files: Vec<UndoneFile>,
    /// Changes made by the undo. Undoing these changes is the redo.
    pub changes: Vec<FileChange>,
}

/// Combines several changes into one per path, from the first state to the last. A path that is back in its first state
/// is left out. A path is treated as unrecorded if a part of its changes is unrecorded or if something else changed it
/// in between, because an undo would not follow the actual changes.
pub fn folded<'a>(changes: impl IntoIterator<Item = &'a FileChange>) -> Vec<FileChange> {
    let mut paths: BTreeMap<&str, Fold> = BTreeMap::new();
    for change in changes {
        match paths.entry(change.path.trim_end_matches('/')) {
            Entry::Vacant(entry) => {
                entry.insert(Fold { change: change.clone(), recorded: change.is_recorded() });
            }
            Entry::Occupied(mut entry) => entry.get_mut().follow(change),
        }
    }
    let is_change = |fold: &Fold| !fold.recorded || fold.change.before != fold.change.after;
    paths.into_values().filter(is_change).map(|fold| fold.change).collect()
}

struct Fold {
    change: FileChange,
    recorded: bool,
}

impl Fold {
    fn follow(&mut self, later: &FileChange) {
        use FileChangeKind::{Created, Deleted, Modified};
        let total = &mut self.change;
        let linked = total.after == later.before && total.project == later.project;
        self.recorded = self.recorded && later.is_recorded() && linked;
        total.late |= later.late;
        // A file can be restored under all of its names only if its inode stayed the same throughout.
        total.shared = total.shared.filter(|shared| later.shared == Some(*shared));
        total.path.clone_from(&later.path);
        if self.recorded {
            total.after.clone_from(&later.after);
            total.change = match (&total.before, &total.after) {
                (None, _) => Created,
                (Some(_), None) => Deleted,
                (Some(_), Some(_)) => Modified,
            };
        } else {
            total.change = match (total.change, later.change) {
                (Created, Modified) => Created,
                (Deleted, Created) => Modified,
                (_, change) => change,
            };
            (total.before, total.after) = (None, None);
        }
    }
}

/// Returns the inverse of a change.
pub fn inverse_change(change: &FileChange) -> FileChange {
    FileChange {
        change: change.change.inverse(),
        before: change.after.clone(),
        after: change.before.clone(),
        late: false,
        ..change.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{FileKind, FileState};

    fn state(hash: &str) -> Option<FileState> {
        (!hash.is_empty()).then(|| FileState { kind: FileKind::File, hash: hash.to_owned(), size: 1, mode: 0o644 })
    }

    /// Checks combined changes to one path, each written as `before>after`; `?` is an unrecorded change.
    #[track_caller]
    fn check(steps: &[&str], expected: Option<(FileChangeKind, &str)>) {
        let changes: Vec<FileChange> = steps
            .iter()
            .map(|step| match step.split_once('>') {
                Some((before, after)) => {
                    let change = match (before, after) {
                        ("", _) => FileChangeKind::Created,
                        (_, "") => FileChangeKind::Deleted,
                        _ => FileChangeKind::Modified,
                    };
                    FileChange { before: state(before), after: state(after), ..FileChange::new("a", change) }
                }
                None => FileChange::new("a", FileChangeKind::Modified),
            })
            .collect();
        let folded = folded(&changes);
        let shown: Vec<_> = folded
            .iter()
            .map(|change| {
                let hash = |state: &Option<FileState>| state.as_ref().map_or("", |state| &state.hash).to_owned();
                let hashes = format!("{}>{}", hash(&change.before), hash(&change.after));
                (change.change, if change.is_recorded() { hashes } else { "?".to_owned() })
            })
            .collect();
        assert_eq!(shown, expected.map(|(kind, hashes)| (kind, hashes.to_owned())).into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn changes_fold_from_first_to_last() {
        use FileChangeKind::{Created, Deleted, Modified};
        check(&["a>b"], Some((Modified, "a>b")));
        check(&["a>b", "b>c"], Some((Modified, "a>c")));
        check(&["a>b", "b>a"], None);
        check(&[">a", "a>b"], Some((Created, ">b")));
        check(&[">a", "a>"], None);
        check(&["a>", ">b"], Some((Modified, "a>b")));
        check(&["a>b", "b>"], Some((Deleted, "a>")));
        check(&["a>b", "x>c"], Some((Modified, "?")));
        check(&["a>b", "?"], Some((Modified, "?")));
        check(&["?", "a>b"], Some((Modified, "?")));
        check(&["a>b", "x>c", "c>a"], Some((Modified, "?")));
    }

    #[test]
    fn old_change_records_parse() {
        let old: FileChange = serde_json::from_str(r#"{"path":"a","change":"modified"}"#).unwrap();
        assert_eq!(old, FileChange::new("a", FileChangeKind::Modified));
        assert!(!old.is_recorded());
    }
}
