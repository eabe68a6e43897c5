//! Opens paths without following links. For paths that may contain links, [`follow`] resolves the links first, and the
//! result is then opened by name.
//!
//! The paths of workspaces and projects were resolved when they were created or configured. If such a path contains a
//! link now, the link was created since then, perhaps by a command of another session whose project contains this one.
//! Below these roots, the opened file must be the named one, because the rules were applied to that name.

use std::{
    ffi::OsString,
    fs::{Permissions, set_permissions},
    io,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::{Component, Path, PathBuf},
};

use cap_std::fs::Dir;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2},
    io::Errno,
};

use crate::failure::fail_if;

pub(crate) const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens an absolute path.
///
/// # Errors
/// Fails if the path contains a link or cannot be opened.
pub fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match open_at_once(CWD, path, flags, false) {
        Err(Errno::NOSYS) => step_by_step(openat(CWD, "/", FOLDER, Mode::empty())?, path, flags),
        opened => Ok(opened?),
    }
}

/// Opens a folder like [`open`], for listing its entries.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a path below an open folder. `.` refers to the folder itself.
///
/// # Errors
/// Fails if the path contains `..` or a link, or cannot be opened.
pub(crate) fn open_below(folder: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match open_at_once(folder.as_fd(), path, flags, true) {
        Err(Errno::NOSYS) => step_by_step(openat(folder, ".", FOLDER, Mode::empty())?, path, flags),
        opened => Ok(opened?),
    }
}

/// Opens a folder below an open folder and creates missing folders on the way.
///
/// # Errors
/// Fails if an entry on the way is not a folder (a link, for example), or a folder cannot be created or opened.
pub(crate) fn make_folders(folder: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let mut folder = openat(folder, ".", FOLDER, Mode::empty())?;
    for name in names(path) {
        let name = name?;
        folder = match openat(&folder, name, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                    // The folder was created concurrently. If the entry is not a folder, the next open fails.
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

/// Restores the mode of one of the daemon's folders, unless its owner can already use the folder. Does not follow
/// links.
///
/// # Errors
/// Fails if the path is not a folder, or the folder belongs to another user.
pub(crate) fn restore_access(folder: &Path) -> io::Result<()> {
    const OWNERS: u32 = 0o700;
    // The folder may be unreadable, so it is opened with `O_PATH`.
    let opened = open(folder, OFlags::PATH | OFlags::DIRECTORY)?;
    if fstat(&opened)?.st_mode & OWNERS == OWNERS {
        return Ok(());
    }
    set_permissions(format!("/proc/self/fd/{}", opened.as_raw_fd()), Permissions::from_mode(OWNERS))
}

fn open_at_once(start: BorrowedFd<'_>, path: &Path, flags: OFlags, beneath: bool) -> Result<OwnedFd, Errno> {
    let resolve_flags = if beneath { ResolveFlags::BENEATH } else { ResolveFlags::empty() };
    openat2(start, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | resolve_flags)
}

/// Opens a path step by step, on kernels without `openat2`.
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

/// Returns the names in a path, with an error for `..`.
fn names(path: &Path) -> impl Iterator<Item = io::Result<&std::ffi::OsStr>> {
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    parts.map(|part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    })
}

/// Returns true if the error means that the path, or a folder on the way, does not exist.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Converts the error for a [missing](is_missing) entry to `None`.
pub(crate) fn if_present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if is_missing(&error) => Ok(None),
        other => other.map(Some),
    }
}

/// Splits a path into its folder and its name.
pub(crate) fn split(below: &[u8]) -> (&[u8], &[u8]) {
    match below.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&below[..slash], &below[slash + 1..]),
        None => (b"", below),
    }
}

/// Maximum number of links in a path, the same as in the kernel.
const MAX_LINKS: usize = 40;

/// Resolves the links in a path below `root`. Missing parts are retained, so a path without links is returned
/// unchanged.
///
/// # Errors
/// Fails if a link leads out of the folder, links form a cycle, or a link cannot be read.
pub(super) fn follow(root: &Dir, path: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::new();
    let mut left = Vec::new();
    prepend_parts(&mut left, path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        let Some(name) = part else {
            fail_if(!real.pop(), outside_error)?;
            continue;
        };
        real.push(name);
        let Some(target) = link(root, &real)? else { continue };
        links += 1;
        fail_if(links > MAX_LINKS, || Errno::LOOP)?;
        fail_if(target.is_absolute(), outside_error)?;
        real.pop();
        prepend_parts(&mut left, &target);
    }
    Ok(real)
}

/// Prepends the parts of a path to `left`, which is in reverse order. `None` is `..`.
fn prepend_parts(left: &mut Vec<Option<OsString>>, path: &Path) {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(Some(name.to_owned())),
        Component::ParentDir => Some(None),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    left.extend(path.components().rev().filter_map(part));
}

/// Returns the target of a link, or `None` if the path is not a link.
fn link(root: &Dir, path: &Path) -> io::Result<Option<PathBuf>> {
    match root.read_link_contents(path) {
        Ok(target) => Ok(Some(target)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Creates the error for a path that leads outside. Unlike other errors, it has no OS error code.
fn outside_error() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the path leads outside its folder")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exact_open_follows_no_links() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("real/inner")).unwrap();
        fs::write(base.join("real/file"), "x").unwrap();
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
            let cloned = below.try_clone().unwrap();
            assert_eq!(step_by_step(cloned, path, flags).is_ok(), opens, "{path:?}, from a folder, step by step");
        }
        assert!(step_by_step(root(), &base.join("real/../real"), flags).is_err());
        assert!(open_below(&below, Path::new("real/../.."), OFlags::RDONLY).is_err());
        assert!(open_below(&below, Path::new("."), OFlags::RDONLY).is_ok());
        assert!(open_folder(&base.join("real/file")).is_err());
    }

    #[test]
    fn created_folders_never_go_through_links() {
        let folder = tempfile::tempdir().unwrap();
        // Uses a subfolder, so that nothing else is created next to `base`.
        let base = folder.path().canonicalize().unwrap().join("base");
        fs::create_dir_all(base.join("real")).unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("none", base.join("dangling")).unwrap();
        fs::write(base.join("file"), "x").unwrap();
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

    fn opened(path: &Path) -> Dir {
        Dir::open_ambient_dir(path, cap_std::ambient_authority()).unwrap()
    }

    #[test]
    fn links_are_resolved_inside_the_root_only() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("root/real/inner")).unwrap();
        fs::write(base.path().join("root/real/file"), "x").unwrap();
        fs::write(base.path().join("outside"), "x").unwrap();
        for (target, name) in [
            ("real", "link"),
            ("real/file", "to-file"),
            ("to-file", "chain"),
            ("../to-file", "real/up"),
            ("../link/inner/../file", "real/round"),
            ("none/at/all", "dangling"),
            ("dangling", "to-dangling"),
            (".", "here"),
            ("circle-b", "circle-a"),
            ("circle-a", "circle-b"),
            ("../outside", "out"),
            ("real/../../outside", "out-later"),
            ("/etc/passwd", "absolute"),
            ("out", "to-out"),
        ] {
            symlink(target, base.path().join("root").join(name)).unwrap();
        }
        let root = opened(&base.path().join("root"));
        for (path, expected) in [
            (".", Some("")),
            ("real/file", Some("real/file")),
            ("gone/a/b", Some("gone/a/b")),
            ("real/file/below", Some("real/file/below")),
            ("link", Some("real")),
            ("link/file", Some("real/file")),
            ("link/new/file", Some("real/new/file")),
            ("to-file", Some("real/file")),
            ("chain", Some("real/file")),
            ("link/up", Some("real/file")),
            ("link/round", Some("real/file")),
            ("dangling", Some("none/at/all")),
            ("to-dangling/x", Some("none/at/all/x")),
            ("here/here/link", Some("real")),
            ("here", Some("")),
            ("circle-a", None),
            ("circle-a/x", None),
            ("out", None),
            ("out-later", None),
            ("absolute", None),
            ("to-out", None),
            ("link/inner/../../../outside", None),
        ] {
            assert_eq!(follow(&root, Path::new(path)).ok(), expected.map(PathBuf::from), "{path}");
        }
    }

    proptest! {
        /// For all combinations of links, the result is the path that the kernel resolves to, and contains no link.
        #[test]
        fn resolution_matches_the_kernel(
            links in proptest::collection::vec((0_usize..12, 0_usize..12, 0_usize..3), 0..8),
            steps in proptest::collection::vec(0_usize..12, 1..4),
        ) {
            let base = tempfile::tempdir().unwrap();
            let root = base.path().join("root");
            fs::create_dir_all(&root).unwrap();
            let name = |index: usize| format!("n{index}");
            for index in 0..4 {
                fs::create_dir_all(root.join(name(index)).join("n0")).unwrap();
                fs::write(root.join(name(index)).join("n11"), name(index)).unwrap();
            }
            for (at, to, form) in links {
                let target = match form {
                    0 => name(to),
                    1 => format!("../{}", name(to)),
                    _ => format!("{}/../{}", name(to % 4), name(at)),
                };
                let location = if form == 1 { root.join(name(at % 4)).join(name(at)) } else { root.join(name(at)) };
                let _ = symlink(target, location);
            }
            let path: PathBuf = steps.into_iter().map(name).collect();
            let folder = opened(&root);
            if let (Ok(found), Ok(real)) = (root.join(&path).canonicalize(), follow(&folder, &path)) {
                // Chained by components, because an empty path has none.
                let named: PathBuf = root.canonicalize().unwrap().components().chain(real.components()).collect();
                prop_assert_eq!(named, found);
                let exact = open_below(&folder, if real.as_os_str().is_empty() { Path::new(".") } else { &real }, OFlags::RDONLY);
                prop_assert!(exact.is_ok(), "{} leads to {}", path.display(), real.display());
            }
        }
    }
}
