//! Takes changes back.
//!
//! First every path is looked at: what is not as the change had left it is a conflict, and what is wanted must be kept
//! whole. Then the rest is done, each file whole or not at all: what goes away first, from the inside out, then what
//! comes back, from the outside in, and at last the permissions of folders, which might stand in the way before. Each
//! path is looked at once more in the moment before it is touched.

mod act;
mod plan;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{File, Permissions},
    io::{self, Read as _, Seek as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, PermissionsExt as _},
        },
    },
};

use agentd_core::{
    ports::Workspace,
    tool::{FileChange, FileKind, FileState, SharedFile},
    undo::{FilesReverted, UndoOutcome, UndoneFile, reversed},
};
use rustix::fs::{Mode, OFlags, openat};

use self::plan::{Plan, Step};
use super::{
    blobs::{self, Blobs},
    root::{self, Root, SafePath, Stamp},
};

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

/// The mode that its owner needs to write to a file.
const OWNER: u32 = 0o600;

/// Returns whether this was seen of that file.
pub(super) fn is_of(stamp: Stamp, shared: SharedFile) -> bool {
    (stamp.device, stamp.inode) == (shared.device, shared.inode)
}

/// Writes a content into the file itself. None if there is another file by now, or it has no other name any more: then
/// nothing is done.
fn write(
    parent: &OwnedFd,
    name: &[u8],
    shared: SharedFile,
    step: &Step<'_>,
    goal: &FileState,
    content: &[u8],
) -> io::Result<Option<Verdict>> {
    let is_it = |file: &File| {
        let found = file.metadata()?;
        io::Result::Ok(found.dev() == shared.device && found.ino() == shared.inode && found.nlink() > 1)
    };
    // Of a file that may not be read, its owner can still change the mode.
    let Ok((readable, stamp)) = root::file_in(parent, name) else { return Ok(None) };
    if !is_it(&readable)? {
        return Ok(None);
    }
    readable.set_permissions(Permissions::from_mode(stamp.mode | OWNER))?;
    let written = (|| {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut file = File::from(openat(parent, OsStr::from_bytes(name), flags, Mode::empty())?);
        if !is_it(&file)? {
            return Ok(None);
        }
        let mut now = Vec::new();
        (&mut file).take(step.expected().map_or(0, |state| state.size).max(goal.size) + 1).read_to_end(&mut now)?;
        let hash = blobs::text(&blobs::hash(&now));
        // Another of its names may have been brought back before.
        if hash == goal.hash {
            return Ok(Some(Verdict::Do));
        }
        if step.expected().is_none_or(|state| state.hash != hash) {
            return Ok(Some(Verdict::Conflict("it was changed by something else just now".to_owned())));
        }
        // What was there is kept, too: whoever finds half of it after a crash can say so, and go on either way.
        file.rewind()?;
        file.write_all(content)?;
        file.set_len(content.len() as u64)?;
        file.sync_all()?;
        Ok(Some(Verdict::Do))
    })();
    let mode = if matches!(written, Ok(Some(Verdict::Do))) { goal.mode } else { stamp.mode };
    readable.set_permissions(Permissions::from_mode(mode))?;
    written
}
