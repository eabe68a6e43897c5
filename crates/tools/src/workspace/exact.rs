//! Opens a path as it is written: not through a link anywhere on the way.
//!
//! The paths of workspaces and projects were resolved when they were made or given. Where one leads through a link
//! now, somebody has put it there since: perhaps a command of another session whose project lies around this one.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Component, Path},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};

/// Opens what an absolute path names, which must not lead through a link.
///
/// # Errors
/// When it does, or cannot be opened.
pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match at_once(path, flags) {
        Err(Errno::NOSYS) => step_by_step(path, flags),
        opened => Ok(opened?),
    }
}

/// Opens a folder in the same way, so that its entries can be listed.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

#[cfg(target_os = "linux")]
fn at_once(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), rustix::fs::ResolveFlags::NO_SYMLINKS)
}

#[cfg(not(target_os = "linux"))]
fn at_once(_path: &Path, _flags: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Where the kernel cannot do it at once.
fn step_by_step(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let on_the_way = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = openat(CWD, "/", on_the_way, Mode::empty())?;
    let mut parts = path.components().filter(|part| !matches!(part, Component::RootDir)).peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        let is_last = parts.peek().is_none();
        folder = openat(&folder, name, if is_last { flags } else { on_the_way }, Mode::empty())?;
    }
    Ok(folder)
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
            assert_eq!(step_by_step(&base.join(path), flags).is_ok(), opens, "{path}, step by step");
        }
        assert!(step_by_step(&base.join("real/../real"), flags).is_err());
        assert!(open_folder(&base.join("real/file")).is_err());
    }
}
