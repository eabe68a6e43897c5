//! Search path of the command, without folders that are closed to it. A shell takes the first program of a name; if
//! that may not be run it reports so and looks no further, though one that may be run is in the next folder.

use std::{
    env,
    ffi::{CString, OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::Mode,
    unistd::{AccessFlags, access, execve},
};

use super::Program;
use crate::environment::PATH;

/// Becomes the program, for which this process is locked in already. Returns why it did not. What lies below `own`,
/// where commands and strangers put files, is not found by its name alone.
pub(super) fn become_it(program: &Program, own: &[PathBuf]) -> Errno {
    let given = |name: &str| program.environment.iter().find(|(given, _)| given == name);
    let path = open_ones(given("PATH").map_or(OsStr::new(PATH), |(_, path)| path), own);
    let environment = environment(&program.environment, &path);
    let Some(file) = program.line.first() else { return Errno::ENOENT };
    if file.as_bytes().contains(&b'/') {
        return execve(file, &program.line, &environment).unwrap_err();
    }
    let mut why = Errno::ENOENT;
    for folder in env::split_paths(&path) {
        let Ok(whole) = CString::new(folder.join(OsStr::from_bytes(file.as_bytes())).into_os_string().into_vec())
        else {
            continue;
        };
        match execve(&whole, &program.line, &environment).unwrap_err() {
            Errno::ENOENT | Errno::ENOTDIR => {}
            error => why = error,
        }
    }
    why
}

fn environment(given: &[(OsString, OsString)], path: &OsStr) -> Vec<CString> {
    let variable = |(name, value): &(OsString, OsString)| {
        let mut line = name.clone();
        line.push("=");
        line.push(if name == "PATH" { path } else { value });
        // What we were started with has no zero in it.
        CString::new(line.into_vec()).ok()
    };
    given.iter().filter_map(variable).collect()
}

/// Leaves those of the system where no other is left: an empty list would be the folder in which the command runs. A
/// folder is looked at by its real path, for a link may lead to it.
fn open_ones(path: &OsStr, own: &[PathBuf]) -> OsString {
    let own: Vec<PathBuf> = own.iter().filter_map(|own| own.canonicalize().ok()).collect();
    let is_own = |folder: &Path| folder.canonicalize().is_ok_and(|real| own.iter().any(|own| real.starts_with(own)));
    let kept = env::split_paths(path).filter(|folder| !is_closed(folder) && !is_own(folder));
    let kept = env::join_paths(kept).unwrap_or_else(|_| path.to_owned());
    if kept.is_empty() { PATH.into() } else { kept }
}

/// Returns whether we could read the folder and are not let: then it is the sandbox that closes it. Of one that nobody
/// may read, programs may still be run.
fn is_closed(folder: &Path) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    open(folder, flags, Mode::empty()).is_err_and(|error| error == Errno::EACCES)
        && access(folder, AccessFlags::R_OK | AccessFlags::X_OK).is_ok()
}
