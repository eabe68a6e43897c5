//! Opens a path as it is written: not through a link anywhere on the way.
//!
//! The paths of workspaces and projects were resolved when they were made or given. Where one leads through a link
//! now, somebody has put it there since: perhaps a command of another session whose project lies around this one. Below
//! them, what is opened is what was named, because the rules judged that name.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path},
};

use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat},
    io::Errno,
};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens what an absolute path names, which must not lead through a link.
///
/// # Errors
/// When it does, or cannot be opened.
pub fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match at_once(CWD, path, flags, false) {
        Err(Errno::NOSYS) => step_by_step(openat(CWD, "/", FOLDER, Mode::empty())?, path, flags),
        opened => Ok(opened?),
    }
}

/// Opens a folder in the same way, so that its entries can be listed.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens what a path below an open folder names, which must neither climb nor lead through a link. `.` is the folder.
///
/// # Errors
/// When it does, or cannot be opened.
pub(crate) fn open_below(folder: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match at_once(folder.as_fd(), path, flags, true) {
        Err(Errno::NOSYS) => step_by_step(openat(folder, ".", FOLDER, Mode::empty())?, path, flags),
        opened => Ok(opened?),
    }
}

/// Opens a folder below an open one in the same way, and makes those on the way that are missing.
///
/// # Errors
/// When there is something else on the way, a link among it, or a folder cannot be made or opened.
pub(crate) fn make_folders(folder: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let mut folder = openat(folder, ".", FOLDER, Mode::empty())?;
    for name in names(path) {
        let name = name?;
        folder = match openat(&folder, name, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                    // Somebody else has just made it, or put something else there; the opening tells.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&folder, name, FOLDER, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok(folder)
}

/// Gives a folder of the daemon's own back its mode, unless its owner can use it. No link is followed.
///
/// # Errors
/// If it is no folder, or belongs to another user.
#[cfg(target_os = "linux")]
pub(crate) fn let_in(folder: &Path) -> io::Result<()> {
    use std::{
        fs::{Permissions, set_permissions},
        os::{fd::AsRawFd as _, unix::fs::PermissionsExt as _},
    };
    const OWNERS: u32 = 0o700;
    // It cannot be read perhaps, and its mode is not a matter of reading.
    let opened = open(folder, OFlags::PATH | OFlags::DIRECTORY)?;
    if rustix::fs::fstat(&opened)?.st_mode & OWNERS == OWNERS {
        return Ok(());
    }
    set_permissions(format!("/proc/self/fd/{}", opened.as_raw_fd()), Permissions::from_mode(OWNERS))
}

/// Elsewhere no command can have closed it in a sandbox.
#[cfg(not(target_os = "linux"))]
pub(crate) fn let_in(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn at_once(start: BorrowedFd<'_>, path: &Path, flags: OFlags, beneath: bool) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let within = if beneath { ResolveFlags::BENEATH } else { ResolveFlags::empty() };
    rustix::fs::openat2(start, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | within)
}

#[cfg(not(target_os = "linux"))]
fn at_once(_: BorrowedFd<'_>, _: &Path, _: OFlags, _: bool) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Fallback if the kernel cannot do it at once.
fn step_by_step(start: OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut folder = start;
    let mut names = names(path).peekable();
    if names.peek().is_none() {
        return Ok(openat(&folder, ".", flags, Mode::empty())?);
    }
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        folder = openat(&folder, name?, if is_last { flags } else { FOLDER }, Mode::empty())?;
    }
    Ok(folder)
}

/// The names on the way, none of which climbs.
fn names(path: &Path) -> impl Iterator<Item = io::Result<&std::ffi::OsStr>> {
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    parts.map(|part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed_anywhere() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("real/inner")).unwrap();
        std::fs::write(base.join("real/file"), "x").unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("file", base.join("real/last")).unwrap();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = || openat(CWD, "/", FOLDER, Mode::empty()).unwrap();
        let below = openat(CWD, &base, FOLDER, Mode::empty()).unwrap();
        for (path, opens) in [
            ("real", true),
            ("real/inner", true),
            ("real/file", true),
            ("link", false),
            ("link/inner", false),
            ("real/last", false),
            ("gone", false),
        ] {
            assert_eq!(open(&base.join(path), OFlags::RDONLY).is_ok(), opens, "{path}");
            assert_eq!(step_by_step(root(), &base.join(path), flags).is_ok(), opens, "{path}, step by step");
            let path = Path::new(path);
            assert_eq!(open_below(&below, path, OFlags::RDONLY).is_ok(), opens, "{path:?}, from a folder");
            let again = below.try_clone().unwrap();
            assert_eq!(step_by_step(again, path, flags).is_ok(), opens, "{path:?}, from a folder, step by step");
        }
        assert!(step_by_step(root(), &base.join("real/../real"), flags).is_err());
        assert!(open_below(&below, Path::new("real/../.."), OFlags::RDONLY).is_err());
        assert!(open_below(&below, Path::new("."), OFlags::RDONLY).is_ok());
        assert!(open_folder(&base.join("real/file")).is_err());
    }

    #[test]
    fn folders_are_made_where_they_are_named() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("none", base.join("dangling")).unwrap();
        std::fs::write(base.join("file"), "x").unwrap();
        let folder = open_folder(&base).unwrap();
        for (path, made) in [
            (".", true),
            ("real/a/b", true),
            ("real/a/b", true),
            ("new/c", true),
            ("link/d", false),
            ("dangling/d", false),
            ("file/d", false),
            ("../d", false),
        ] {
            assert_eq!(make_folders(&folder, Path::new(path)).is_ok(), made, "{path}");
            assert_eq!(base.join(path).is_dir(), made, "{path}");
        }
        assert!(!base.join("real/d").exists() && !base.join("none").exists());
    }
}
