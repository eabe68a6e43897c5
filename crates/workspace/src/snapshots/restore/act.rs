//! Carries out the planned steps of an undo.

use std::{
    collections::HashSet,
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
    path::Path,
};

use agentd_core::tool::{FileKind, FileState, SharedFile};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, symlinkat, unlinkat};

use super::{Step, Verdict, current_state};
use crate::{
    drafts::Draft,
    exact::{if_present, split},
    failure::if_there,
    snapshots::{
        blobs::{self, Blobs},
        root::{self, Kind, Root, SafePath, Stamp},
    },
};

/// Permissions that an owner needs to change the entries of a folder, or to write to a file.
const OWNER: u32 = 0o700;
const OWNER_OF_FILE: u32 = 0o600;

/// Carries out the possible steps, and records failures. `session` is the path of the session's own tree.
pub(super) fn apply_steps(steps: &mut [Step<'_>], blobs: &Blobs, session: &Path) {
    let steps_of = |steps: &mut [Step<'_>], fits: fn(&Step<'_>) -> bool| -> Vec<usize> {
        let due = |(index, step): (usize, &Step<'_>)| {
            (matches!(step.verdict, Verdict::Do | Verdict::DoHere) && fits(step)).then_some(index)
        };
        steps.iter().enumerate().filter_map(due).collect()
    };
    // Folders without write permission are made writable. Their final permissions are set at the end.
    for index in steps_of(steps, |step| is_folder(step.expected())) {
        attempt(&mut steps[index], open_up);
    }
    for index in steps_of(steps, must_be_removed).into_iter().rev() {
        attempt(&mut steps[index], remove);
    }
    for index in steps_of(steps, |step| step.goal().is_some()) {
        attempt(&mut steps[index], |root, step| restore_content(session, root, step, blobs));
    }
    // Each folder is synced once rather than once per file, of which there may be thousands. Folders are synced before
    // their final permissions are set, because some cannot be opened afterwards.
    let mut durable = HashSet::new();
    for index in steps_of(steps, |_| true) {
        attempt(&mut steps[index], |root, step| sync_folder(root, step, &mut durable));
    }
    for index in steps_of(steps, |step| is_folder(step.goal())).into_iter().rev() {
        attempt(&mut steps[index], |root, step| {
            if let Some(goal) = step.goal() {
                File::from(root.folder(&step.safe_path.below)?).set_permissions(Permissions::from_mode(goal.mode))?;
            }
            Ok(Verdict::Do)
        });
    }
}

/// Syncs the folder that contains a step's path, unless it has already been synced.
fn sync_folder(root: &Root, step: &Step<'_>, durable: &mut HashSet<SafePath>) -> io::Result<Verdict> {
    let below = split(&step.safe_path.below).0.to_vec();
    if durable.insert(SafePath { place: step.safe_path.place, below: below.clone() }) {
        // If the folder was removed with its contents, its parent is synced.
        if let Some(folder) = if_present(root.folder(&below))? {
            File::from(folder).sync_all()?;
        }
    }
    Ok(if matches!(step.verdict, Verdict::DoHere) { Verdict::DoHere } else { Verdict::Do })
}

/// Returns the names of the entries of a folder.
pub(super) fn names(root: &Root, safe_path: &SafePath) -> io::Result<Vec<Vec<u8>>> {
    let names = root::entries(&root.folder(&safe_path.below)?)?
        .map(|entry| io::Result::Ok(entry?.file_name().to_bytes().to_vec()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.retain(|name| !matches!(&name[..], b"." | b".."));
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

/// Returns true if the existing entry must be removed before anything else can be created at its path.
fn must_be_removed(step: &Step<'_>) -> bool {
    step.expected().is_some() && (step.goal().is_none() || is_folder(step.goal()) != is_folder(step.expected()))
}

fn open_up(root: &Root, step: &Step<'_>) -> io::Result<Verdict> {
    if let Some(state) = step.expected()
        && state.mode & OWNER != OWNER
    {
        let (parent, name) = split(&step.safe_path.below);
        let (parent, mode) = (root.folder(parent)?, state.mode | OWNER);
        match root::folder_in(&parent, name) {
            Ok(folder) => File::from(folder).set_permissions(Permissions::from_mode(mode))?,
            // An unreadable folder cannot be opened to change its permissions. The stamp shows that it is not a link,
            // and the system call checks that again where supported.
            Err(_) if root::stamp_in(&parent, name)?.kind == Kind::Folder => {
                rustix::fs::chmodat(&parent, OsStr::from_bytes(name), Mode::from_raw_mode(mode), AtFlags::empty())?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Verdict::Do)
}

fn remove(root: &Root, step: &Step<'_>) -> io::Result<Verdict> {
    let (parent, name) = split(&step.safe_path.below);
    let parent = root.folder(parent)?;
    if is_folder(step.expected()) {
        return match unlinkat(&parent, OsStr::from_bytes(name), AtFlags::REMOVEDIR).map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && step.goal().is_none() => {
                Ok(Verdict::Leave)
            }
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Ok(Verdict::Conflict("a folder that is in use is now in its place".to_owned()))
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

fn restore_content(session: &Path, root: &Root, step: &Step<'_>, blobs: &Blobs) -> io::Result<Verdict> {
    let Some(goal) = step.goal() else { return Ok(Verdict::Do) };
    let (parent, name) = split(&step.safe_path.below);
    let parent = make_folders(root, parent)?;
    if goal.kind == FileKind::Folder {
        return restore_folder(&parent, name, step);
    }
    let in_place = step.expected().is_some() && !must_be_removed(step);
    if in_place && step.expected().is_some_and(|state| (state.kind, &state.hash) == (goal.kind, &goal.hash)) {
        // An unreadable file is replaced below instead.
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
        return Ok(Verdict::Failed("its earlier content is no longer stored".to_owned()));
    };
    if let Some(shared) = step.change.shared.filter(|_| in_place && goal.kind == FileKind::File)
        && let Some(verdict) = write(&parent, name, shared, step, goal, &content)?
    {
        return Ok(verdict);
    }
    let draft = Draft::new(session, &parent);
    let result = write_draft(&parent, draft.name(), goal, &content).and_then(|()| {
        let unchanged = match in_place {
            true => is_unchanged(root, &parent, name, step)?,
            false => if_present(root::stamp_in(&parent, name))?.is_none(),
        };
        if !unchanged {
            return Ok(changed_meanwhile());
        }
        renameat(&parent, draft.name(), &parent, OsStr::from_bytes(name))?;
        let is_alone = |shared: SharedFile| {
            let has_identity = |stamp: Stamp| (stamp.device, stamp.inode) == (shared.device, shared.inode);
            step.stamp.is_some_and(|stamp| has_identity(stamp) && stamp.links == 1)
        };
        let shared_elsewhere = step.change.shared.filter(|shared| in_place && !is_alone(*shared));
        Ok(if shared_elsewhere.is_some() { Verdict::DoHere } else { Verdict::Do })
    });
    if !matches!(result, Ok(Verdict::Do | Verdict::DoHere)) {
        // The draft may never have been created.
        let _ = unlinkat(&parent, draft.name(), AtFlags::empty());
    }
    result
}

fn restore_folder(parent: &OwnedFd, name: &[u8], step: &Step<'_>) -> io::Result<Verdict> {
    if is_folder(step.expected()) {
        // The folder exists; its permissions are set last.
        return Ok(Verdict::Do);
    }
    match mkdirat(parent, OsStr::from_bytes(name), Mode::from_raw_mode(OWNER)).map_err(io::Error::from) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = root::stamp_in(parent, name)?;
            if found.kind == Kind::Folder { Ok(Verdict::Do) } else { Ok(changed_meanwhile()) }
        }
        made => made.map(|()| Verdict::Do),
    }
}

/// Opens a folder, creating missing folders on the way.
fn make_folders(root: &Root, below: &[u8]) -> io::Result<OwnedFd> {
    let mut folder = root.folder(b"")?;
    for name in below.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        folder = match if_there(root::folder_in(&folder, name))? {
            Some(inner) => inner,
            None => {
                mkdirat(&folder, OsStr::from_bytes(name), Mode::from_raw_mode(0o755))?;
                root::folder_in(&folder, name)?
            }
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

/// Returns true if a path is unchanged since it was checked.
fn is_unchanged(root: &Root, parent: &OwnedFd, name: &[u8], step: &Step<'_>) -> io::Result<bool> {
    let Some(now) = if_present(root::stamp_in(parent, name))? else { return Ok(false) };
    if Some(now) == step.stamp {
        return Ok(true);
    }
    // Removing one of a file's names changes the times under the other names.
    let without_times = |stamp: Stamp| Stamp { links: 0, modified: (0, 0), changed: (0, 0), ..stamp };
    Ok(Some(without_times(now)) == step.stamp.map(without_times)
        && current_state(root, &step.safe_path)?.0.as_ref() == step.expected())
}

fn changed_meanwhile() -> Verdict {
    Verdict::Conflict("it was changed while the undo was running".to_owned())
}

/// Writes content into the existing file. Returns `None`, without any change, if the path refers to another file by now
/// or the file no longer has other names.
fn write(
    parent: &OwnedFd,
    name: &[u8],
    shared: SharedFile,
    step: &Step<'_>,
    goal: &FileState,
    content: &[u8],
) -> io::Result<Option<Verdict>> {
    let is_expected_file = |file: &File| {
        let found = file.metadata()?;
        io::Result::Ok(found.dev() == shared.device && found.ino() == shared.inode && found.nlink() > 1)
    };
    // An unreadable file is replaced instead. A read-only file is made writable below.
    let Ok((readable, stamp)) = root::file_in(parent, name) else { return Ok(None) };
    if !is_expected_file(&readable)? {
        return Ok(None);
    }
    readable.set_permissions(Permissions::from_mode(stamp.mode | OWNER_OF_FILE))?;
    let written = (|| {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut file = File::from(openat(parent, OsStr::from_bytes(name), flags, Mode::empty())?);
        if !is_expected_file(&file)? {
            return Ok(None);
        }
        let mut now = Vec::new();
        (&mut file).take(step.expected().map_or(0, |state| state.size).max(goal.size) + 1).read_to_end(&mut now)?;
        let hash = blobs::text(&blobs::hash(&now));
        // The content may have been restored under another name of the file.
        if hash == goal.hash {
            return Ok(Some(Verdict::Do));
        }
        if step.expected().is_none_or(|state| state.hash != hash) {
            return Ok(Some(changed_meanwhile()));
        }
        // The old content is stored as well, so that a file left half-written by a crash can be detected, and restored
        // to either content.
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
