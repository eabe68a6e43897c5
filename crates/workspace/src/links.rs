//! Resolution of paths that go through links.
//!
//! The links are read and put together here; nothing is opened through them. What is then opened is opened by the name
//! that came out, and not through a link, so that a link which is swapped meanwhile leads nowhere.

use std::{
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
};

use cap_std::fs::Dir;

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;

/// The path below `root` that a path below it leads to. What is not there is taken for no link. It is the same path
/// where no link is on the way.
///
/// # Errors
/// When a link leads out of the folder, links lead in a circle, or one cannot be read.
pub(super) fn follow(root: &Dir, path: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::new();
    let mut left = Vec::new();
    put_before(&mut left, path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        match part {
            Part::Up if real.pop() => {}
            Part::Up => return Err(leads_out()),
            Part::Down(name) => {
                real.push(name);
                let Some(target) = link(root, &real)? else { continue };
                links += 1;
                if links > MAX_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                if target.is_absolute() {
                    return Err(leads_out());
                }
                real.pop();
                put_before(&mut left, &target);
            }
        }
    }
    Ok(real)
}

/// A part of a path that is still to be gone.
enum Part {
    Down(OsString),
    Up,
}

/// Puts the parts of a path before all that are left, which lie in reverse order.
fn put_before(left: &mut Vec<Part>, path: &Path) {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(Part::Down(name.to_owned())),
        Component::ParentDir => Some(Part::Up),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    left.extend(path.components().rev().filter_map(part));
}

/// Returns the target of the link, if it is one.
fn link(root: &Dir, path: &Path) -> io::Result<Option<PathBuf>> {
    use rustix::io::Errno;
    match root.read_link_contents(path) {
        Ok(target) => Ok(Some(target)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Error of opening a path that leads out, which has no number of the system's.
fn leads_out() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the path leads out of its folder")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use proptest::prelude::*;

    use super::*;

    fn opened(path: &Path) -> Dir {
        Dir::open_ambient_dir(path, cap_std::ambient_authority()).unwrap()
    }

    #[test]
    fn links_are_followed_to_their_end_and_never_out() {
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
        /// Whatever links there are, what comes out is what the kernel finds, and has no link on the way.
        #[test]
        fn what_comes_out_is_what_the_kernel_finds(
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
            for (at, to, way) in links {
                let target = match way {
                    0 => name(to),
                    1 => format!("../{}", name(to)),
                    _ => format!("{}/../{}", name(to % 4), name(at)),
                };
                let place = if way == 1 { root.join(name(at % 4)).join(name(at)) } else { root.join(name(at)) };
                let _ = symlink(target, place);
            }
            let path: PathBuf = steps.into_iter().map(name).collect();
            let folder = opened(&root);
            if let (Ok(found), Ok(real)) = (root.join(&path).canonicalize(), follow(&folder, &path)) {
                // Gathered part by part, an empty path adds nothing.
                let named: PathBuf = root.canonicalize().unwrap().components().chain(real.components()).collect();
                prop_assert_eq!(named, found);
                let exact = super::super::exact::open_below(&folder, if real.as_os_str().is_empty() { Path::new(".") } else { &real }, rustix::fs::OFlags::RDONLY);
                prop_assert!(exact.is_ok(), "{} leads to {}", path.display(), real.display());
            }
        }
    }
}
