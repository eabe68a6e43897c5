//! Reverts changes.
//!
//! First, every path is checked. A path whose state differs from the state after the change is a conflict, and the
//! contents to restore must be stored completely. Then the steps are carried out, each file atomically: removals from
//! the innermost folder outwards, restorations from the outermost folder inwards, and finally the permissions of
//! folders, which might block the other steps. Each path is checked again immediately before it is changed.

mod act;

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
};

use agentd_core::{
    ports::Workspace,
    tool::{FileChange, FileKind, FileState},
    undo::{FilesReverted, UndoOutcome, UndoneFile, inverse_change},
};

use super::{
    blobs::{self, Blobs},
    root::{Kind, Root, SafePath, Stamp},
};
use crate::{diff, path::PathPlace, text};

/// Note on a file that was restored under only one of its names.
const OTHER_NAMES: &str = "it had other names (hard links) and is a different file now: those names keep the change";

/// Reverts changes, or returns a preview.
pub(super) fn undo(
    workspace: &Workspace,
    roots: &[Root],
    blobs: &Blobs,
    changes: Vec<FileChange>,
    preview: bool,
) -> FilesReverted {
    let mut plan = Plan { steps: Vec::new(), workspace, roots, blobs, diff_bytes_left: MAX_DIFFS };
    plan.steps = changes.into_iter().map(|change| plan.step(change)).collect();
    plan.steps.sort_by(|left, right| left.safe_path.cmp(&right.safe_path));
    plan.retain_used_folders();
    if !preview {
        act::apply_steps(&mut plan.steps, blobs, &workspace.root);
    }
    plan.into_report(preview)
}

/// Result of checking or carrying out one step.
enum Verdict {
    /// The step can be carried out, or was carried out.
    Do,
    /// The step was carried out under this name. The file had other names, which may not be restored.
    DoHere,
    Already,
    Conflict(String),
    Failed(String),
    /// Other processes use the folder that the change created. The folder is left in place and not reported.
    Leave,
}

impl Plan<'_> {
    fn into_report(self, preview: bool) -> FilesReverted {
        let mut undone = FilesReverted::default();
        for Step { change, verdict, diff, .. } in self.steps {
            let inverse = inverse_change(&change);
            let (outcome, reason) = match verdict {
                Verdict::Do => (UndoOutcome::Done, None),
                Verdict::DoHere => (UndoOutcome::Done, Some(OTHER_NAMES.to_owned())),
                Verdict::Already => (UndoOutcome::Already, None),
                Verdict::Conflict(reason) => (UndoOutcome::Conflict, Some(reason)),
                Verdict::Failed(reason) => (UndoOutcome::Failed, Some(reason)),
                Verdict::Leave => continue,
            };
            undone.files.push(UndoneFile { path: change.path, change: inverse.change, outcome, reason, diff });
            if outcome == UndoOutcome::Done && !preview {
                undone.changes.push(inverse);
            }
        }
        undone
    }

    /// Cancels the removal of created folders that would not be empty.
    fn retain_used_folders(&mut self) {
        let goes = |step: &Step<'_>| matches!(step.verdict, Verdict::Do) && step.goal().is_none();
        let mut removed_paths: BTreeSet<SafePath> =
            self.steps.iter().filter(|step| goes(step)).map(|step| step.safe_path.clone()).collect();
        // Iterates from the inside out, because a remaining inner folder keeps the folders around it.
        for step in self.steps.iter_mut().rev() {
            let is_made_folder = step.expected().is_some_and(|state| state.kind == FileKind::Folder)
                && step.goal().is_none_or(|goal| goal.kind != FileKind::Folder);
            let Some(root) = step.root.filter(|_| is_made_folder && matches!(step.verdict, Verdict::Do)) else {
                continue;
            };
            let stays = act::names(root, &step.safe_path).is_ok_and(|names| {
                names.iter().any(|name| {
                    let below = [&step.safe_path.below, b"/".as_slice(), name].concat();
                    !removed_paths.contains(&SafePath { place: step.safe_path.place, below })
                })
            });
            if stays {
                removed_paths.remove(&step.safe_path);
                step.verdict = match step.goal() {
                    None => Verdict::Leave,
                    Some(_) => Verdict::Conflict("a folder that is in use is now in its place".to_owned()),
                };
            }
        }
    }
}

impl Step<'_> {
    /// Returns the state to restore, or `None` if the path must not exist afterwards.
    fn goal(&self) -> Option<&FileState> {
        self.change.before.as_ref()
    }

    /// Returns the state that the path must have before the step.
    fn expected(&self) -> Option<&FileState> {
        self.change.after.as_ref()
    }
}

/// Maximum size of contents that are shown as a diff, in bytes.
const MAX_SHOWN: u64 = 2 * 1024 * 1024;

/// Maximum total size of the diffs in one undo, in bytes.
const MAX_DIFFS: usize = 1024 * 1024;

/// Steps of an undo, sorted by path.
struct Plan<'a> {
    steps: Vec<Step<'a>>,
    workspace: &'a Workspace,
    roots: &'a [Root],
    blobs: &'a Blobs,
    /// Number of bytes left for diffs.
    diff_bytes_left: usize,
}

/// Step for one path.
struct Step<'a> {
    change: FileChange,
    safe_path: SafePath,
    /// Tree of the path, or `None` if it cannot be reached.
    root: Option<&'a Root>,
    /// Stamp of the path when it was checked.
    stamp: Option<Stamp>,
    verdict: Verdict,
    diff: Option<String>,
}

impl<'a> Plan<'a> {
    fn step(&mut self, change: FileChange) -> Step<'a> {
        let Some(safe_path) = SafePath::read(&change.path) else {
            let safe_path = SafePath { place: PathPlace::Own, below: change.path.clone().into_bytes() };
            let verdict = Verdict::Failed("its path cannot be read".to_owned());
            return Step { change, safe_path, root: None, stamp: None, verdict, diff: None };
        };
        let mut step = Step { change, safe_path, root: None, stamp: None, verdict: Verdict::Already, diff: None };
        step.verdict = match self.root_of(&step) {
            Ok(root) => {
                step.root = Some(root);
                self.judge(&mut step, root)
                    .unwrap_or_else(|error| Verdict::Failed(format!("could not check it: {error}")))
            }
            Err(reason) => Verdict::Failed(reason),
        };
        step
    }

    /// Returns the tree that contains the changed path, or the reason why the path must not be changed.
    fn root_of(&self, step: &Step<'_>) -> Result<&'a Root, String> {
        if !step.change.is_recorded() {
            return Err("its earlier content was not recorded, or something else changed it in between".to_owned());
        }
        let was = step.change.project.as_deref();
        let shown = || was.map(|was| format!(" ({})", was.display())).unwrap_or_default();
        match step.safe_path.place {
            PathPlace::Project => match &self.workspace.project {
                Some(mount) if Some(mount.path.as_path()) != was => {
                    return Err(format!("it is in another project folder{}, which is not mounted", shown()));
                }
                Some(mount) if !mount.writable => return Err("the project is mounted read-only".to_owned()),
                Some(_) => {}
                None => return Err("its project folder is no longer mounted".to_owned()),
            },
            PathPlace::Folder(name) => match self.workspace.folder(name.as_str()) {
                Some(folder) if Some(folder.path.as_path()) != was => {
                    return Err(format!("it is in another folder{}, which is no longer {}", shown(), folder.at));
                }
                Some(folder) if !folder.writable => return Err(format!("{} is mounted read-only", folder.at)),
                Some(_) => {}
                None => return Err(format!("its folder{} no longer belongs to the session", shown())),
            },
            PathPlace::Own | PathPlace::Memories | PathPlace::State => {}
        }
        let root = self.roots.iter().find(|root| root.place == step.safe_path.place);
        root.ok_or_else(|| "its folder cannot be opened".to_owned())
    }

    fn judge(&mut self, step: &mut Step<'_>, root: &Root) -> io::Result<Verdict> {
        let (state, stamp) = current_state(root, &step.safe_path)?;
        step.stamp = stamp;
        let (goal, expected) = (step.goal().cloned(), step.expected().cloned());
        if state == goal {
            return Ok(Verdict::Already);
        }
        let now = Self::current_content(root, &step.safe_path, stamp);
        if state != expected {
            let left = self.stored_content(expected.as_ref());
            step.diff = self.diff(&step.change.path, left.as_deref(), now.as_deref());
            return Ok(Verdict::Conflict(conflict(expected.as_ref(), state.as_ref())));
        }
        if step.change.late {
            let was = self.stored_content(goal.as_ref());
            step.diff = self.diff(&step.change.path, was.as_deref(), now.as_deref());
            let reason = "it may have been changed by another program while agentd was not running, or by a command of \
                          another subagent";
            return Ok(Verdict::Conflict(reason.to_owned()));
        }
        let file = goal.as_ref().filter(|goal| goal.kind != FileKind::Folder);
        let wanted = file.map(|goal| self.blobs.read(&goal.hash)).transpose()?.flatten();
        if file.is_some() && wanted.is_none() {
            return Ok(Verdict::Failed("its earlier content is no longer stored".to_owned()));
        }
        step.diff = self.diff(&step.change.path, now.as_deref(), wanted.as_deref());
        if step.diff.is_none()
            && let (Some(goal), Some(expected)) = (&goal, &expected)
            && goal.mode != expected.mode
        {
            step.diff = Some(format!("mode {:04o} → {:04o}\n", expected.mode, goal.mode));
        }
        Ok(Verdict::Do)
    }

    fn stored_content(&self, state: Option<&FileState>) -> Option<Vec<u8>> {
        let state = state.filter(|state| state.kind != FileKind::Folder && state.size <= MAX_SHOWN)?;
        self.blobs.read(&state.hash).ok().flatten()
    }

    fn current_content(root: &Root, safe_path: &SafePath, stamp: Option<Stamp>) -> Option<Vec<u8>> {
        match stamp?.kind {
            Kind::File => {
                let (file, _) = root.file(&safe_path.below).ok().filter(|(_, stamp)| stamp.size <= MAX_SHOWN)?;
                let mut content = Vec::new();
                file.take(MAX_SHOWN).read_to_end(&mut content).ok()?;
                Some(content)
            }
            Kind::Link => root.link(&safe_path.below).ok(),
            Kind::Folder | Kind::Special => None,
        }
    }

    /// Returns the diff between two versions of a file, as long as the size limit allows.
    fn diff(&mut self, path: &str, from: Option<&[u8]>, to: Option<&[u8]>) -> Option<String> {
        let shown = match (from, to) {
            (None, None) => return None,
            (Some(from), Some(to)) if from == to => return None,
            _ if self.diff_bytes_left == 0 => return None,
            (from, Some(to)) => diff::unified(path, from, to),
            (Some([]), None) => {
                format!("--- a/{}\n+++ /dev/null\n(an empty file goes)\n", path.trim_start_matches('/'))
            }
            // A diff to an empty file gets `/dev/null` as its new file.
            (Some(from), None) => match diff::unified(path, Some(from), b"").splitn(3, '\n').collect::<Vec<_>>()[..] {
                [old, new, rest] if new.starts_with("+++ ") => format!("{old}\n+++ /dev/null\n{rest}"),
                ref lines => lines.join("\n"),
            },
        };
        let shown = text::without_nul(shown);
        self.diff_bytes_left = self.diff_bytes_left.saturating_sub(shown.len());
        Some(shown)
    }
}

/// Determines the current state of a path. Reads a file only to compute its hash.
fn current_state(root: &Root, safe_path: &SafePath) -> io::Result<(Option<FileState>, Option<Stamp>)> {
    let Some(stamp) = root.stamp_of(&safe_path.below)? else { return Ok((None, None)) };
    let (kind, hash, size) = match stamp.kind {
        Kind::Folder => (FileKind::Folder, String::new(), 0),
        Kind::Link => {
            let leads = root.link(&safe_path.below)?;
            (FileKind::Link, blobs::text(&blobs::hash(&leads)), leads.len() as u64)
        }
        Kind::File => {
            let (hash, size) = blobs::hash_of(root.file(&safe_path.below)?.0)?;
            (FileKind::File, blobs::text(&hash), size)
        }
        Kind::Special => (FileKind::File, "special".to_owned(), 0),
    };
    // The mode of a link is 0.
    Ok((Some(FileState { kind, hash, size, mode: stamp.mode }), Some(stamp)))
}

fn conflict(expected: Option<&FileState>, now: Option<&FileState>) -> String {
    match (expected, now) {
        (Some(_), None) => "it has been removed since",
        (None, Some(_)) => "another file or folder exists there now",
        (Some(expected), Some(now)) if expected.hash == now.hash && expected.kind == now.kind => {
            "its permissions have been changed since"
        }
        _ => "it has been changed since",
    }
    .to_owned()
}
