//! Restores a file that has several names: in place, so that it comes back under all of them. A new file would take
//! one name, and leave the change under the others.

use std::{
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

use agentd_core::tool::{FileState, SharedFile};
use rustix::fs::{Mode, OFlags, openat};

use super::{
    super::{
        blobs,
        root::{self, Stamp},
    },
    Verdict,
    plan::Step,
};

/// The mode that its owner needs to write to a file.
const OWNER: u32 = 0o600;

/// Returns whether this was seen of that file.
pub(super) fn is_of(stamp: Stamp, shared: SharedFile) -> bool {
    (stamp.device, stamp.inode) == (shared.device, shared.inode)
}

/// Writes a content into the file itself. None if there is another file by now, or it has no other name any more: then
/// nothing is done.
pub(super) fn write(
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
