//! Undoing what a turn did to files: what is asked, and what came of it.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::{Deserialize, Serialize};

use crate::{
    ids::TurnId,
    tool::{FileChange, FileChangeKind},
};

/// Request for an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoRequest {
    /// The turn; where absent, the last one that changed files and is not undone.
    pub turn: Option<TurnChoice>,
    /// Bring back what was undone instead. Where no turn is named, the turn that was undone last.
    pub redo: bool,
    /// Only tell what would be done.
    pub preview: bool,
    /// The client that asks, by the name that it gave, for the audit.
    pub client: String,
}

/// Which turn is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnChoice {
    /// By its number in the session, from 1, in the order in which turns began.
    Number(u64),
    /// By its id.
    Id(TurnId),
    /// That turn, by its number, and all after it together: files come to be as they were before it.
    Since(u64),
    /// All turns together, from the first to the last. This can be foreseen only.
    All,
}

/// Result of an undo, or of its preview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoReport {
    /// The turn.
    pub turn_id: TurnId,
    /// Its number in the session, from 1.
    pub turn: u64,
    /// An undo was reverted.
    pub redo: bool,
    /// Nothing was changed: this is what would be done.
    pub preview: bool,
    /// Its files: those of the session's own tree, then those of the project, each sorted by path.
    pub files: Vec<UndoneFile>,
}

impl UndoReport {
    /// Returns whether every file is as it is wanted, or would be.
    pub fn is_whole(&self) -> bool {
        self.files.iter().all(|file| !matches!(file.outcome, UndoOutcome::Conflict | UndoOutcome::Failed))
    }
}

/// One file of an undo.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneFile {
    /// Its path, as in the change that is undone.
    pub path: String,
    /// Effect of undoing it: a file that was created is deleted, a deleted one created, a modified one modified.
    pub change: FileChangeKind,
    /// Its outcome.
    pub outcome: UndoOutcome,
    /// Why, where it was not done; where it was, what is still not as it was.
    pub reason: Option<String>,
    /// The change, as a unified diff. For a conflict: what was changed since.
    pub diff: Option<String>,
}

/// Outcome for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoOutcome {
    /// It is as it was, or would be.
    Done,
    /// It was already.
    Already,
    /// It was changed since by something else, or may have been, and is left alone.
    Conflict,
    /// It could not be done: what it held was not recorded or is gone, or it may not be written.
    Failed,
}

/// Effect of an undo on the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesReverted {
    /// Every file that was asked for: those of the session's own tree, then those of the project.
    pub files: Vec<UndoneFile>,
    /// The changes that were made: undoing them brings back what was undone.
    pub changes: Vec<FileChange>,
}

/// Sum of several changes: each path once, from its first state to its last. What came back to what it had been is left
/// out. A path of which a part is not recorded, or that something else changed in between, is not recorded: the way back would not be the
/// way it came.
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
        let known = &mut self.change;
        let linked = known.after == later.before && known.project == later.project;
        self.recorded = self.recorded && later.is_recorded() && linked;
        known.late |= later.late;
        // Only what was one file all the while can be taken back under all of its names.
        known.shared = known.shared.filter(|shared| later.shared == Some(*shared));
        known.path.clone_from(&later.path);
        if self.recorded {
            known.after.clone_from(&later.after);
            known.change = match (&known.before, &known.after) {
                (None, _) => Created,
                (Some(_), None) => Deleted,
                (Some(_), Some(_)) => Modified,
            };
        } else {
            known.change = match (known.change, later.change) {
                (Created, Modified) => Created,
                (Deleted, Created) => Modified,
                (_, change) => change,
            };
            (known.before, known.after) = (None, None);
        }
    }
}

/// The change that leads back.
pub fn reversed(change: &FileChange) -> FileChange {
    use FileChangeKind::{Created, Deleted, Modified};
    FileChange {
        path: change.path.clone(),
        change: match change.change {
            Created => Deleted,
            Modified => Modified,
            Deleted => Created,
        },
        before: change.after.clone(),
        after: change.before.clone(),
        project: change.project.clone(),
        late: false,
        shared: change.shared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{FileKind, FileState};

    fn state(hash: &str) -> Option<FileState> {
        (!hash.is_empty()).then(|| FileState { kind: FileKind::File, hash: hash.to_owned(), size: 1, mode: 0o644 })
    }

    /// Changes of one path, each written as `before>after`; `?` is a change that is only told of.
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
                let told = format!("{}>{}", hash(&change.before), hash(&change.after));
                (change.change, if change.is_recorded() { told } else { "?".to_owned() })
            })
            .collect();
        assert_eq!(shown, expected.map(|(kind, told)| (kind, told.to_owned())).into_iter().collect::<Vec<_>>());
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
    fn old_changes_can_be_read() {
        let old: FileChange = serde_json::from_str(r#"{"path":"a","change":"modified"}"#).unwrap();
        assert_eq!(old, FileChange::new("a", FileChangeKind::Modified));
        assert!(!old.is_recorded());
    }
}
