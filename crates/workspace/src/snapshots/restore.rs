//! Takes changes back.
//!
//! First every path is looked at: what is not as the change had left it is a conflict, and what is wanted must be kept
//! whole. Then the rest is done, each file whole or not at all: what goes away first, from the inside out, then what
//! comes back, from the outside in, and at last the permissions of folders, which might stand in the way before. Each
//! path is looked at once more in the moment before it is touched.

mod act;
mod plan;
mod shared;

use std::collections::BTreeSet;

use agentd_core::{
    ports::Workspace,
    tool::{FileChange, FileKind, FileState},
    undo::{FilesReverted, UndoOutcome, UndoneFile, reversed},
};

use self::plan::{Plan, Step};
use super::{blobs::Blobs, root::Root, spot::SafePath};

/// The note on a file that came back under one of its names.
const OTHER_NAMES: &str = "it had other names (hard links), and is another file by now: those names keep the change";

/// Takes changes back, or tells what would be done.
pub(super) fn undo(
    workspace: &Workspace,
    roots: &[Root],
    blobs: &Blobs,
    changes: Vec<FileChange>,
    preview: bool,
) -> FilesReverted {
    let mut plan = Plan::new(workspace, roots, blobs, changes);
    plan.keep_folders_that_are_in_use();
    if !preview {
        act::carry_out(&mut plan.steps, blobs, &workspace.root);
    }
    plan.told(preview)
}

/// Verdict on one change.
pub(super) enum Verdict {
    /// It can be done, or was.
    Do,
    /// It was done under this name, and the file had other names, which are not known to be back.
    DoHere,
    Already,
    Conflict(String),
    Failed(String),
    /// A folder that the change had made and that others use now: nothing to do and nothing to tell.
    Leave,
}

impl Verdict {
    fn is_done(&self) -> bool {
        matches!(self, Self::Do | Self::DoHere)
    }
}

impl Plan<'_> {
    fn told(self, preview: bool) -> FilesReverted {
        let mut undone = FilesReverted::default();
        for Step { change, verdict, diff, .. } in self.steps {
            let back = reversed(&change);
            let (outcome, reason) = match verdict {
                Verdict::Do => (UndoOutcome::Done, None),
                Verdict::DoHere => (UndoOutcome::Done, Some(OTHER_NAMES.to_owned())),
                Verdict::Already => (UndoOutcome::Already, None),
                Verdict::Conflict(reason) => (UndoOutcome::Conflict, Some(reason)),
                Verdict::Failed(reason) => (UndoOutcome::Failed, Some(reason)),
                Verdict::Leave => continue,
            };
            undone.files.push(UndoneFile { path: change.path, change: back.change, outcome, reason, diff });
            if outcome == UndoOutcome::Done && !preview {
                undone.changes.push(back);
            }
        }
        undone
    }

    /// A folder that the change had made goes only if nothing stays in it.
    fn keep_folders_that_are_in_use(&mut self) {
        let goes = |step: &Step<'_>| matches!(step.verdict, Verdict::Do) && step.goal().is_none();
        let mut going: BTreeSet<SafePath> =
            self.steps.iter().filter(|step| goes(step)).map(|step| step.spot.clone()).collect();
        // From the inside out: what keeps an inner folder keeps those around it.
        for step in self.steps.iter_mut().rev() {
            let is_made_folder = step.expected().is_some_and(|state| state.kind == FileKind::Folder)
                && step.goal().is_none_or(|goal| goal.kind != FileKind::Folder);
            let Some(root) = step.root.filter(|_| is_made_folder && matches!(step.verdict, Verdict::Do)) else {
                continue;
            };
            let stays = act::names(root, &step.spot).is_ok_and(|names| {
                names.iter().any(|name| {
                    let below = [&step.spot.below, b"/".as_slice(), name].concat();
                    !going.contains(&SafePath { place: step.spot.place, below })
                })
            });
            if stays {
                going.remove(&step.spot);
                step.verdict = match step.goal() {
                    None => Verdict::Leave,
                    Some(_) => Verdict::Conflict("there is now a folder in its place, which is in use".to_owned()),
                };
            }
        }
    }
}

impl Step<'_> {
    /// Wanted state.
    fn goal(&self) -> Option<&FileState> {
        self.change.before.as_ref()
    }

    /// State that must be there now.
    fn expected(&self) -> Option<&FileState> {
        self.change.after.as_ref()
    }
}
