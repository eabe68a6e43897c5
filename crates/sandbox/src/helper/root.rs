//! A root of its own for a command: all that the machine's root holds, and the session's folders under their names.
//!
//! No name can be added to the machine's root, so a new one is put together in memory from what is mounted by then, and
//! takes its place.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use agentd_workspace::exact;
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::pivot_root,
};
use rustix::fs::OFlags;

use super::{
    Step,
    raw::{self, Below},
    step,
};
use crate::policy::Name;

/// The place at which the new root is put together. Its content has been taken along by then.
const SITE: &str = "/tmp";

/// The new root holds places for mounts, and links.
const OPTIONS: &str = "mode=0755,size=256k,nr_inodes=4k";

/// An entry of the new root.
enum Entry {
    Link { to: PathBuf },
    Mount { tree: OwnedFd, folder: bool },
}

/// Exchanges the root for one that has these names too. All else is to be mounted already: what a name stands for is
/// taken as it is seen at its real path, with what is hidden or read-only there.
pub(super) fn exchange(names: &[Name]) -> Step<()> {
    if names.is_empty() {
        return Ok(());
    }
    let mut entries = entries(names).map_err(step("look at the root"))?;
    for name in names {
        let entry = if name.mounted {
            let opened = exact::open(&name.path, OFlags::PATH | OFlags::DIRECTORY);
            let tree = opened.and_then(|opened| raw::clone_tree(&opened));
            let tree = tree.map_err(|error| format!("could not give {} its name: {error}", name.path.display()))?;
            Entry::Mount { tree, folder: true }
        } else {
            Entry::Link { to: name.path.clone() }
        };
        entries.push((name.name.clone(), entry));
    }
    build(&entries).map_err(step("put the root together"))?;
    std::env::set_current_dir(SITE).map_err(step("enter the root"))?;
    pivot_root(".", ".").map_err(step("exchange the root"))?;
    // The old root lies on the new one now.
    umount2(".", MntFlags::MNT_DETACH).map_err(step("leave the old root"))?;
    std::env::set_current_dir("/").map_err(step("enter the root"))?;
    raw::make_read_only(Path::new("/"), Below::AsItIs).map_err(step("make the root read-only"))
}

/// The entries of the machine's root, but for those that have one of these names, or hold one.
fn entries(names: &[Name]) -> io::Result<Vec<(PathBuf, Entry)>> {
    let mut entries = Vec::new();
    for found in fs::read_dir("/")? {
        let found = found?;
        let (path, kind) = (found.path(), found.file_type()?);
        if names.iter().any(|name| name.name.starts_with(&path)) {
            continue;
        }
        let entry = if kind.is_symlink() {
            Entry::Link { to: fs::read_link(&path)? }
        } else if kind.is_dir() || kind.is_file() {
            let tree = raw::clone_tree(&exact::open(&path, OFlags::PATH)?)?;
            Entry::Mount { tree, folder: kind.is_dir() }
        } else {
            continue;
        };
        entries.push((path, entry));
    }
    Ok(entries)
}

fn build(entries: &[(PathBuf, Entry)]) -> io::Result<()> {
    mount(Some("tmpfs"), SITE, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(OPTIONS))?;
    for (path, entry) in entries {
        let below = path.strip_prefix("/").map_err(|_| io::ErrorKind::InvalidFilename)?;
        let place = Path::new(SITE).join(below);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        match entry {
            Entry::Link { to } => symlink(to, place)?,
            Entry::Mount { tree, folder } => {
                if *folder {
                    fs::create_dir(&place)?;
                } else {
                    fs::File::create(&place)?;
                }
                raw::attach(tree, &place)?;
            }
        }
    }
    Ok(())
}
