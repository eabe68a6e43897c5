//! Where the command finds programs: not in folders that are closed to it. A shell takes the first program of a name, and where that
//! may not be run it says so and looks no further, though one that may be run is in the next folder.

use std::{
    env,
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::ErrorKind,
    os::unix::ffi::OsStringExt as _,
    path::Path,
};

use nix::unistd::{AccessFlags, access};

/// The environment of the command, for which this process is locked in already.
pub(super) fn environment() -> Vec<CString> {
    let variable = |(name, value): (OsString, OsString)| {
        let value = if name == "PATH" { open_ones(&value) } else { value };
        let mut line = name;
        line.push("=");
        line.push(value);
        // What we were started with has no zero in it.
        CString::new(line.into_vec()).ok()
    };
    env::vars_os().filter_map(variable).collect()
}

fn open_ones(path: &OsStr) -> OsString {
    let kept = env::split_paths(path).filter(|folder| !is_closed(folder));
    env::join_paths(kept).unwrap_or_else(|_| path.to_owned())
}

/// Whether we could read the folder and are not let: then it is the sandbox that closes it. Of one that nobody may read, programs
/// may still be run.
fn is_closed(folder: &Path) -> bool {
    let denied = File::open(folder).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    denied && access(folder, AccessFlags::R_OK | AccessFlags::X_OK).is_ok()
}
