//! A user, mount and process namespace: a file system that is read-only but for a few folders, with a fresh `/tmp`,
//! and a process table that ends with its first process.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use agentd_workspace::exact;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::{getegid, geteuid},
};
use rustix::fs::OFlags;

use super::{
    super::{places::FRESH, policy::Policy},
    Step,
    raw::{self, Below},
    root, stage, step,
};

/// Size of a fresh folder. It is memory.
const FRESH_OPTIONS: &str = "mode=1777,size=512m,nr_inodes=100k";

/// A folder in which nothing is to be seen holds at most the places of what is put back into it.
const HIDDEN_OPTIONS: &str = "mode=0755,size=64k";

/// We are in namespaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Namespaces {
    /// Set if `/proc` was mounted anew. Where the system hides parts of its own, it cannot be.
    pub(super) own_proc: bool,
    /// Set if processes of the same user elsewhere count apart from ours.
    pub(super) own_user: bool,
    /// Set if the process table takes no more than was wanted.
    pub(super) own_limit: bool,
}

/// Something to be mounted.
struct Layer {
    path: PathBuf,
    what: What,
}

enum What {
    /// A folder in memory.
    Fresh,
    /// A tree that was mounted there before.
    Tree { tree: OwnedFd, writable: bool },
    /// Nothing to be seen.
    Hidden { folder: bool },
}

/// Makes the namespaces and everything in them but `/proc`, which the first process in them has to mount.
pub(super) fn enter(policy: &Policy, reduced: &[(PathBuf, String)]) -> Step<Namespaces> {
    let mut own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    own.set(CloneFlags::CLONE_NEWNET, policy.gateway);
    let (user, group) = (geteuid(), getegid());
    // The system's administrator needs no user namespace, and without one files of all users keep their owners.
    let own_user = !(user.is_root() && unshare(own).is_ok());
    if own_user {
        unshare(own | CloneFlags::CLONE_NEWUSER).map_err(step("make namespaces"))?;
        fs::write("/proc/self/setgroups", "deny").map_err(step("fix the groups"))?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(step("map the user"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(step("map the group"))?;
    }
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(step("detach from the mounts"))?;
    let layers = layers(policy)?;
    raw::make_read_only(Path::new("/"), Below::Too).map_err(step("make the file system read-only"))?;
    for layer in &layers {
        place(layer).map_err(|error| format!("could not mount {}: {error}", layer.path.display()))?;
    }
    if Path::new(FRESH[0]).is_dir() {
        stage::set(reduced).map_err(step("put files in the place of others"))?;
    } else if !reduced.is_empty() {
        return Err(format!("there is no {}, which is needed to keep keys from commands", FRESH[0]));
    }
    // Only now: where the session's own tree lies below something hidden, it had to be placed there.
    for layer in layers.iter().filter(|layer| matches!(layer.what, What::Hidden { folder: true })) {
        raw::make_read_only(&layer.path, Below::AsItIs).map_err(step("make what is hidden read-only"))?;
    }
    // Last: a name stands for what is seen by now at the real path.
    root::exchange(&policy.names)?;
    Ok(Namespaces { own_proc: false, own_user, own_limit: false })
}

/// Mounts, parents first.
fn layers(policy: &Policy) -> Step<Vec<Layer>> {
    let mut layers: Vec<Layer> = FRESH
        .iter()
        .map(PathBuf::from)
        .filter(|path| path.is_dir())
        .map(|path| Layer { path, what: What::Fresh })
        .collect();
    for tree in &policy.trees {
        // A link is resolved now: what it points to is what Landlock allows later.
        let Ok(path) = fs::canonicalize(&tree.path) else { continue };
        if policy.is_exact(&tree.path) && path != tree.path {
            return Err(format!("{} has been replaced by a link to somewhere else", tree.path.display()));
        }
        let opened = exact::open(&path, OFlags::PATH);
        let cloned = opened
            .and_then(|opened| raw::clone_tree(&opened))
            .map_err(|error| format!("could not keep {}: {error}", path.display()))?;
        layers.push(Layer { path, what: What::Tree { tree: cloned, writable: tree.writable } });
    }
    let places: Vec<PathBuf> =
        policy.read.iter().chain(&policy.write).filter_map(|place| fs::canonicalize(place).ok()).collect();
    for hidden in &policy.hidden {
        let Ok(path) = fs::canonicalize(hidden) else { continue };
        // Only where it would be seen: all else is out of reach already. A place may have been listed by a link.
        let seen = places.iter().any(|place| path.starts_with(place));
        let fresh = FRESH.iter().any(|fresh| path.starts_with(fresh));
        if seen && (!fresh || policy.trees.iter().any(|tree| path.starts_with(&tree.path))) {
            let folder = path.is_dir();
            layers.push(Layer { path, what: What::Hidden { folder } });
        }
    }
    // Of two at one place the later one wins: what is hidden stays so.
    layers.sort_by_key(|layer| layer.path.components().count());
    Ok(layers)
}

fn place(layer: &Layer) -> io::Result<()> {
    let none: Option<&str> = None;
    let path = &layer.path;
    match &layer.what {
        What::Fresh => {
            mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(FRESH_OPTIONS))?
        }
        What::Tree { tree, writable } => {
            make_place(tree, path)?;
            raw::attach(tree, path)?;
            if !writable {
                raw::make_read_only(path, Below::Too)?;
            }
        }
        What::Hidden { folder: true } => {
            mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(HIDDEN_OPTIONS))?;
        }
        What::Hidden { folder: false } => mount(Some("/dev/null"), path, none, MsFlags::MS_BIND, none)?,
    }
    Ok(())
}

/// In a fresh or hidden folder there is nothing yet to mount on.
fn make_place(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let is_folder = fs::File::from(tree.try_clone()?).metadata()?.is_dir();
    let folder = if is_folder { Some(path) } else { path.parent() };
    if let Some(folder) = folder {
        fs::create_dir_all(folder)?;
    }
    if !is_folder {
        fs::File::create(path)?;
    }
    Ok(())
}

/// Shows only the processes of the namespace. Called by its first process.
pub(super) fn mount_proc() -> bool {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let none: Option<&str> = None;
    mount(Some("proc"), "/proc", Some("proc"), flags, none).is_ok()
}

/// From this version on `pid_max` belongs to the process table. Before, it is the machine's, and none of our business.
const OWN_PID_MAX: (u32, u32) = (6, 14);
/// The kernel takes no smaller one.
const LEAST_PID_MAX: u64 = 301;

/// Limits the number of processes and threads. Called by the first process, with its own `/proc`.
pub(super) fn limit_processes(most: u64) -> bool {
    if kernel() < OWN_PID_MAX {
        return false;
    }
    fs::write("/proc/sys/kernel/pid_max", most.max(LEAST_PID_MAX).to_string()).is_ok()
}

/// The kernel's version; 0 where it cannot be understood.
pub(super) fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or_default();
    (number(), number())
}
