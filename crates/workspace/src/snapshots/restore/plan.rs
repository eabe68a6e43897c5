//! Examines every path of an undo, and plans the possible steps.

use std::{fs::File, io, io::Read as _};

use agentd_core::{
    ports::Workspace,
    tool::{FileChange, FileKind, FileState},
};

use super::Verdict;
use crate::{diff, text};
use crate::{
    path::PathPlace,
    snapshots::{
        blobs::{self, Blobs},
        root::{Kind, Root, SafePath, Stamp},
    },
};

/// Contents above this size are not shown as a diff.
const MAX_SHOWN: u64 = 2 * 1024 * 1024;

/// Maximum size of the diffs of one undo, in bytes.
const MAX_DIFFS: usize = 1024 * 1024;

/// The steps of an undo, sorted by path.
pub(super) struct Plan<'a> {
    pub(super) steps: Vec<Step<'a>>,
    workspace: &'a Workspace,
    roots: &'a [Root],
    blobs: &'a Blobs,
    /// Size that diffs may still have.
    room: usize,
}

/// Step for one path.
pub(super) struct Step<'a> {
    pub(super) change: FileChange,
    pub(super) spot: SafePath,
    /// The tree that it is in; none where it cannot be reached.
    pub(super) root: Option<&'a Root>,
    /// State when it was looked at.
    pub(super) stamp: Option<Stamp>,
    pub(super) verdict: Verdict,
    pub(super) diff: Option<String>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(workspace: &'a Workspace, roots: &'a [Root], blobs: &'a Blobs, changes: Vec<FileChange>) -> Self {
        let mut plan = Self { steps: Vec::new(), workspace, roots, blobs, room: MAX_DIFFS };
        for change in changes {
            let step = plan.step(change);
            plan.steps.push(step);
        }
        plan.steps.sort_by(|left, right| left.spot.cmp(&right.spot));
        plan
    }

    fn step(&mut self, change: FileChange) -> Step<'a> {
        let Some(spot) = SafePath::read(&change.path) else {
            let spot = SafePath { place: PathPlace::Own, below: change.path.clone().into_bytes() };
            let verdict = Verdict::Failed("its path cannot be read".to_owned());
            return Step { change, spot, root: None, stamp: None, verdict, diff: None };
        };
        let mut step = Step { change, spot, root: None, stamp: None, verdict: Verdict::Already, diff: None };
        step.verdict = match self.root_of(&step) {
            Ok(root) => {
                step.root = Some(root);
                self.judge(&mut step, root).unwrap_or_else(|error| Verdict::Failed(format!("could not look: {error}")))
            }
            Err(reason) => Verdict::Failed(reason),
        };
        step
    }

    /// The tree that a change is in, if it may be changed.
    fn root_of(&self, step: &Step<'_>) -> Result<&'a Root, String> {
        if !step.change.is_recorded() {
            return Err("what it held before was not recorded, or something else changed it in between".to_owned());
        }
        let was = step.change.project.as_deref();
        let shown = || was.map(|was| format!(" ({})", was.display())).unwrap_or_default();
        match step.spot.place {
            PathPlace::Project => match &self.workspace.project {
                Some(mount) if Some(mount.path.as_path()) != was => {
                    return Err(format!("it is in another project folder{} than the one that is mounted now", shown()));
                }
                Some(mount) if !mount.writable => return Err("the project is mounted read-only".to_owned()),
                Some(_) => {}
                None => return Err("its project folder is not mounted any more".to_owned()),
            },
            PathPlace::Folder(name) => match self.workspace.folder(name.as_str()) {
                Some(folder) if Some(folder.path.as_path()) != was => {
                    return Err(format!("it is in another folder{} than {} is now", shown(), folder.at));
                }
                Some(folder) if !folder.writable => return Err(format!("{} is mounted read-only", folder.at)),
                Some(_) => {}
                None => return Err(format!("its folder{} is not one of the session any more", shown())),
            },
            PathPlace::Own | PathPlace::Memories | PathPlace::State => {}
        }
        let root = self.roots.iter().find(|root| root.place == step.spot.place);
        root.ok_or_else(|| "its folder cannot be opened".to_owned())
    }

    fn judge(&mut self, step: &mut Step<'_>, root: &Root) -> io::Result<Verdict> {
        let (state, stamp) = current(root, &step.spot)?;
        step.stamp = stamp;
        let (goal, expected) = (step.goal().cloned(), step.expected().cloned());
        if state == goal {
            return Ok(Verdict::Already);
        }
        let now = self.content_now(root, &step.spot, stamp);
        if state != expected {
            let left = self.content_kept(expected.as_ref());
            step.diff = self.diff(&step.change.path, left.as_deref(), now.as_deref());
            return Ok(Verdict::Conflict(conflict(expected.as_ref(), state.as_ref())));
        }
        if step.change.late {
            let was = self.content_kept(goal.as_ref());
            step.diff = self.diff(&step.change.path, was.as_deref(), now.as_deref());
            let reason = "it may have been changed by something else: after agentd was ended and before it was back, or by a \
                          command of another subagent";
            return Ok(Verdict::Conflict(reason.to_owned()));
        }
        let wanted = match goal.as_ref().filter(|goal| goal.kind != FileKind::Folder) {
            Some(goal) => match self.blobs.read(&goal.hash)? {
                Some(content) => Some(content),
                None => return Ok(Verdict::Failed("what it held before is no longer kept".to_owned())),
            },
            None => None,
        };
        step.diff = self.diff(&step.change.path, now.as_deref(), wanted.as_deref());
        if step.diff.is_none()
            && let (Some(goal), Some(expected)) = (&goal, &expected)
            && goal.mode != expected.mode
        {
            step.diff = Some(format!("mode {:04o} → {:04o}\n", expected.mode, goal.mode));
        }
        Ok(Verdict::Do)
    }

    fn content_kept(&self, state: Option<&FileState>) -> Option<Vec<u8>> {
        let state = state.filter(|state| state.kind != FileKind::Folder && state.size <= MAX_SHOWN)?;
        self.blobs.read(&state.hash).ok().flatten()
    }

    fn content_now(&self, root: &Root, spot: &SafePath, stamp: Option<Stamp>) -> Option<Vec<u8>> {
        match stamp?.kind {
            Kind::File => {
                let (file, stamp) = root.file(&spot.below).ok()?;
                let mut content = Vec::new();
                if stamp.size <= MAX_SHOWN {
                    file.take(MAX_SHOWN).read_to_end(&mut content).ok()?;
                    return Some(content);
                }
                None
            }
            Kind::Link => root.link(&spot.below).ok(),
            Kind::Folder | Kind::Special => None,
        }
    }

    /// The way from one content to the other, while there is room for it.
    fn diff(&mut self, path: &str, from: Option<&[u8]>, to: Option<&[u8]>) -> Option<String> {
        let shown = match (from, to) {
            (None, None) => return None,
            (Some(from), Some(to)) if from == to => return None,
            _ if self.room == 0 => return None,
            (from, Some(to)) => diff::unified(path, from, to),
            (Some([]), None) => {
                format!("--- a/{}\n+++ /dev/null\n(an empty file goes)\n", path.trim_start_matches('/'))
            }
            (Some(from), None) => without_new_name(&diff::unified(path, Some(from), b"")),
        };
        let shown = text::without_nul(shown);
        self.room = self.room.saturating_sub(shown.len());
        Some(shown)
    }
}

/// Current state of a path. A file is read only as far as its hash needs.
pub(super) fn current(root: &Root, spot: &SafePath) -> io::Result<(Option<FileState>, Option<Stamp>)> {
    let Some(stamp) = root.look(&spot.below)? else { return Ok((None, None)) };
    let state = match stamp.kind {
        Kind::Folder => FileState { kind: FileKind::Folder, hash: String::new(), size: 0, mode: stamp.mode },
        Kind::Link => of_link(&root.link(&spot.below)?),
        Kind::File => {
            let (file, _) = root.file(&spot.below)?;
            of_file(file, stamp)?
        }
        Kind::Special => FileState { kind: FileKind::File, hash: "special".to_owned(), size: 0, mode: stamp.mode },
    };
    Ok((Some(state), Some(stamp)))
}

fn of_file(file: File, stamp: Stamp) -> io::Result<FileState> {
    let (hash, size) = blobs::hash_of(file)?;
    Ok(FileState { kind: FileKind::File, hash: blobs::text(&hash), size, mode: stamp.mode })
}

fn of_link(leads: &[u8]) -> FileState {
    FileState { kind: FileKind::Link, hash: blobs::text(&blobs::hash(leads)), size: leads.len() as u64, mode: 0 }
}

fn conflict(expected: Option<&FileState>, now: Option<&FileState>) -> String {
    match (expected, now) {
        (Some(_), None) => "it has been removed since",
        (None, Some(_)) => "something else is there now",
        (Some(expected), Some(now)) if expected.hash == now.hash && expected.kind == now.kind => {
            "its permissions have been changed since"
        }
        _ => "it has been changed since",
    }
    .to_owned()
}

/// A diff to nothing names nothing as what comes of it.
fn without_new_name(diff: &str) -> String {
    let mut lines = diff.splitn(3, '\n');
    match (lines.next(), lines.next(), lines.next()) {
        (Some(old), Some(new), Some(rest)) if new.starts_with("+++ ") => format!("{old}\n+++ /dev/null\n{rest}"),
        _ => diff.to_owned(),
    }
}
