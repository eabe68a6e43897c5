//! Carries out the planned steps of an undo.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{File, Permissions},
    io::{self, Write as _},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    },
    path::Path,
};

use agentd_core::tool::{FileKind, FileState};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, symlinkat, unlinkat};

use super::{
    Verdict,
    plan::{self, Step},
};
use crate::snapshots::restore;
use crate::{
    drafts::Draft,
    snapshots::{
        blobs::Blobs,
        root::{self, Kind, Root, SafePath, Stamp, split},
    },
};

/// Permissions that a folder's owner needs to change its content.
const OWNER: u32 = 0o700;

/// Does the steps that can be done, and writes down those that could not. `session` is the path of the session's own tree.
pub(super) fn carry_out(steps: &mut [Step<'_>], blobs: &Blobs, session: &Path) {
    let steps_of = |steps: &mut [Step<'_>], fits: fn(&Step<'_>) -> bool| -> Vec<usize> {
        let due = |(index, step): (usize, &Step<'_>)| (step.verdict.is_done() && fits(step)).then_some(index);
        steps.iter().enumerate().filter_map(due).collect()
    };
    // Folders that forbid it are opened up; they get their own permissions at the end.
    for index in steps_of(steps, |step| is_folder(step.expected())) {
        attempt(&mut steps[index], open_up);
    }
    for index in steps_of(steps, goes_away).into_iter().rev() {
        attempt(&mut steps[index], remove);
    }
    for index in steps_of(steps, |step| step.goal().is_some()) {
        attempt(&mut steps[index], |root, step| bring_back(session, root, step, blobs));
    }
    // Each folder is made durable once, and not for each of its files: there may be thousands. Some can be opened only
    // until they have their own permissions.
    let mut durable = HashSet::new();
    for index in steps_of(steps, |_| true) {
        attempt(&mut steps[index], |root, step| settle(root, step, &mut durable));
    }
    for index in steps_of(steps, |step| is_folder(step.goal())).into_iter().rev() {
        attempt(&mut steps[index], set_folder_mode);
    }
}

/// Makes the names of the folder around a step durable, where they are not yet.
fn settle(root: &Root, step: &Step<'_>, durable: &mut HashSet<SafePath>) -> io::Result<Verdict> {
    let below = split(&step.spot.below).0.to_vec();
    if durable.insert(SafePath { place: step.spot.place, below: below.clone() }) {
        match root.folder(&below) {
            // It went away with what was in it, and the folder around it tells that.
            Err(error) if root::is_missing(&error) => {}
            folder => File::from(folder?).sync_all()?,
        }
    }
    Ok(if matches!(step.verdict, Verdict::DoHere) { Verdict::DoHere } else { Verdict::Do })
}

/// The names in a folder.
pub(super) fn names(root: &Root, spot: &SafePath) -> io::Result<Vec<Vec<u8>>> {
    let folder = root.folder(&spot.below)?;
    let mut names = Vec::new();
    for entry in root::entries(&folder)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.to_vec()),
        }
    }
    Ok(names)
}

fn attempt(step: &mut Step<'_>, act: impl FnOnce(&Root, &Step<'_>) -> io::Result<Verdict>) {
    let Some(root) = step.root else { return };
    step.verdict = act(root, step).unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Verdict::Failed("the disk is full".to_owned()),
        _ => Verdict::Failed(format!("could not change it: {error}")),
    });
}

fn is_folder(state: Option<&FileState>) -> bool {
    state.is_some_and(|state| state.kind == FileKind::Folder)
}

/// Returns whether what is there has to go before anything else can come.
fn goes_away(step: &Step<'_>) -> bool {
    step.expected().is_some() && (step.goal().is_none() || is_folder(step.goal()) != is_folder(step.expected()))
}

fn open_up(root: &Root, step: &Step<'_>) -> io::Result<Verdict> {
    if let Some(state) = step.expected()
        && state.mode & OWNER != OWNER
    {
        let (parent, name) = split(&step.spot.below);
        let parent = root.folder(parent)?;
        // A folder that may not be read cannot be opened to change its permissions; that it is no link was seen, and
        // is seen again by the call where the system can.
        chmod_folder(&parent, name, state.mode | OWNER)?;
    }
    Ok(Verdict::Do)
}

fn chmod_folder(parent: &OwnedFd, name: &[u8], mode: u32) -> io::Result<()> {
    match root::folder_in(parent, name) {
        Ok(folder) => File::from(folder).set_permissions(Permissions::from_mode(mode)),
        Err(_) if root::look_in(parent, name)?.kind == Kind::Folder => {
            Ok(rustix::fs::chmodat(parent, OsStr::from_bytes(name), Mode::from_raw_mode(mode), AtFlags::empty())?)
        }
        Err(error) => Err(error),
    }
}

fn remove(root: &Root, step: &Step<'_>) -> io::Result<Verdict> {
    let (parent, name) = split(&step.spot.below);
    let parent = root.folder(parent)?;
    if is_folder(step.expected()) {
        return match unlinkat(&parent, OsStr::from_bytes(name), AtFlags::REMOVEDIR).map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && step.goal().is_none() => {
                Ok(Verdict::Leave)
            }
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Ok(Verdict::Conflict("there is now a folder in its place, which is in use".to_owned()))
            }
            gone => gone.map(|()| Verdict::Do),
        };
    }
    if !is_unchanged(root, &parent, name, step)? {
        return Ok(changed_meanwhile());
    }
    unlinkat(&parent, OsStr::from_bytes(name), AtFlags::empty())?;
    Ok(Verdict::Do)
}

fn bring_back(session: &Path, root: &Root, step: &Step<'_>, blobs: &Blobs) -> io::Result<Verdict> {
    let Some(goal) = step.goal() else { return Ok(Verdict::Do) };
    let (parent, name) = split(&step.spot.below);
    let parent = make_folders(root, parent)?;
    if goal.kind == FileKind::Folder {
        return bring_folder_back(&parent, name, step);
    }
    let in_place = step.expected().is_some() && !goes_away(step);
    if in_place && step.expected().is_some_and(|state| (state.kind, &state.hash) == (goal.kind, &goal.hash)) {
        // Where it may not even be opened, it is written anew below.
        if let Ok((file, _)) = root::file_in(&parent, name) {
            if !is_unchanged(root, &parent, name, step)? {
                return Ok(changed_meanwhile());
            }
            file.set_permissions(Permissions::from_mode(goal.mode))?;
            file.sync_all()?;
            return Ok(Verdict::Do);
        }
    }
    let Some(content) = blobs.read(&goal.hash)? else {
        return Ok(Verdict::Failed("what it held before is no longer kept".to_owned()));
    };
    if let Some(shared) = step.change.shared.filter(|_| in_place && goal.kind == FileKind::File)
        && let Some(verdict) = restore::write(&parent, name, shared, step, goal, &content)?
    {
        return Ok(verdict);
    }
    let draft = Draft::new(session, &parent);
    let brought = write_draft(&parent, draft.name(), goal, &content).and_then(|()| {
        let unchanged = if in_place { is_unchanged(root, &parent, name, step)? } else { is_free(&parent, name)? };
        if !unchanged {
            return Ok(changed_meanwhile());
        }
        renameat(&parent, draft.name(), &parent, OsStr::from_bytes(name))?;
        let is_alone = |shared| step.stamp.is_some_and(|stamp| restore::is_of(stamp, shared) && stamp.links == 1);
        let elsewhere = step.change.shared.filter(|shared| in_place && !is_alone(*shared));
        Ok(if elsewhere.is_some() { Verdict::DoHere } else { Verdict::Do })
    });
    if !matches!(brought, Ok(Verdict::Do | Verdict::DoHere)) {
        // The draft may never have been made; what matters is that none stays.
        let _ = unlinkat(&parent, draft.name(), AtFlags::empty());
    }
    brought
}

fn bring_folder_back(parent: &OwnedFd, name: &[u8], step: &Step<'_>) -> io::Result<Verdict> {
    if is_folder(step.expected()) {
        // It is there; its permissions come last.
        return Ok(Verdict::Do);
    }
    match mkdirat(parent, OsStr::from_bytes(name), Mode::from_raw_mode(OWNER)).map_err(io::Error::from) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = root::look_in(parent, name)?;
            if found.kind == Kind::Folder { Ok(Verdict::Do) } else { Ok(changed_meanwhile()) }
        }
        made => made.map(|()| Verdict::Do),
    }
}

fn set_folder_mode(root: &Root, step: &Step<'_>) -> io::Result<Verdict> {
    let Some(goal) = step.goal() else { return Ok(Verdict::Do) };
    let folder = File::from(root.folder(&step.spot.below)?);
    folder.set_permissions(Permissions::from_mode(goal.mode))?;
    Ok(Verdict::Do)
}

/// Opens a folder, making it and those around it where they are missing.
fn make_folders(root: &Root, below: &[u8]) -> io::Result<OwnedFd> {
    let mut folder = root.folder(b"")?;
    for name in below.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        folder = match root::folder_in(&folder, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                mkdirat(&folder, OsStr::from_bytes(name), Mode::from_raw_mode(0o755))?;
                root::folder_in(&folder, name)?
            }
            opened => opened?,
        };
    }
    Ok(folder)
}

fn write_draft(parent: &OwnedFd, draft: &str, goal: &FileState, content: &[u8]) -> io::Result<()> {
    if goal.kind == FileKind::Link {
        return Ok(symlinkat(OsStr::from_bytes(content), parent, draft)?);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(parent, draft, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(goal.mode))?;
    file.sync_all()
}

/// Returns whether a path is still as it was when it was looked at.
fn is_unchanged(root: &Root, parent: &OwnedFd, name: &[u8], step: &Step<'_>) -> io::Result<bool> {
    let now = match root::look_in(parent, name) {
        Ok(stamp) => stamp,
        Err(error) if root::is_missing(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    if Some(now) == step.stamp {
        return Ok(true);
    }
    // Where a file has several names, taking one away shows in the times of the others.
    let but_for_times = |stamp: Stamp| Stamp { links: 0, modified: (0, 0), changed: (0, 0), ..stamp };
    Ok(Some(but_for_times(now)) == step.stamp.map(but_for_times)
        && plan::current(root, &step.spot)?.0.as_ref() == step.expected())
}

fn is_free(parent: &OwnedFd, name: &[u8]) -> io::Result<bool> {
    match root::look_in(parent, name) {
        Ok(_) => Ok(false),
        Err(error) if root::is_missing(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

fn changed_meanwhile() -> Verdict {
    Verdict::Conflict("it was changed by something else just now".to_owned())
}
