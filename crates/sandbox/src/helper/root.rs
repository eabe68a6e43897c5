//! Namespaces for a command: a file system that is read-only except for a few folders, with a fresh `/tmp`, and a new
//! root that contains the entries of the host's root and the session's folders under their names.
//!
//! The host's root cannot be extended, so a new root is built in memory from the current mounts and replaces the old
//! root. Some files are replaced: settings by a copy without keys, and git by a wrapper.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use agentd_workspace::exact;
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{getegid, geteuid, pivot_root},
};
use rustix::fs::OFlags;

use super::{
    Step,
    calls::{self, Submounts},
    step,
};
use crate::{
    config::{Name, Policy},
    environment::GIT_CONFIG,
    places::FRESH,
};

/// Folder in which the new root is built. Its content is already part of the new root at that time.
const BUILD_FOLDER: &str = "/tmp";

/// Mount options of the new root, which contains only mount points and links.
const OPTIONS: &str = "mode=0755,size=256k,nr_inodes=4k";

/// An entry of the new root.
enum Entry {
    Link { to: PathBuf },
    Mount { tree: OwnedFd, folder: bool },
}

/// Replaces the root with a root that also contains these names. All other mounts must already exist, because a name
/// shows what is visible at its real path, including hidden and read-only parts.
pub(super) fn replace_root(names: &[Name]) -> Step<()> {
    if names.is_empty() {
        return Ok(());
    }
    let mut entries = entries(names).map_err(step("read the root folder"))?;
    for name in names {
        let entry = if name.mounted {
            let opened = exact::open(&name.path, OFlags::PATH | OFlags::DIRECTORY);
            let tree = opened.and_then(|opened| calls::clone_tree(&opened));
            let tree =
                tree.map_err(|error| format!("could not mount {} under its name: {error}", name.path.display()))?;
            Entry::Mount { tree, folder: true }
        } else {
            Entry::Link { to: name.path.clone() }
        };
        entries.push((name.name.clone(), entry));
    }
    build(&entries).map_err(step("build the new root"))?;
    std::env::set_current_dir(BUILD_FOLDER).map_err(step("enter the root"))?;
    pivot_root(".", ".").map_err(step("switch the root"))?;
    // The old root is now mounted on the new one.
    umount2(".", MntFlags::MNT_DETACH).map_err(step("leave the old root"))?;
    std::env::set_current_dir("/").map_err(step("enter the root"))?;
    calls::make_read_only(Path::new("/"), Submounts::Exclude).map_err(step("make the root read-only"))
}

/// Returns the entries of the host's root, except those that are or contain one of these names.
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
            let tree = calls::clone_tree(&exact::open(&path, OFlags::PATH)?)?;
            Entry::Mount { tree, folder: kind.is_dir() }
        } else {
            continue;
        };
        entries.push((path, entry));
    }
    Ok(entries)
}

fn build(entries: &[(PathBuf, Entry)]) -> io::Result<()> {
    mount_memory(Path::new(BUILD_FOLDER), OPTIONS)?;
    for (path, entry) in entries {
        let below = path.strip_prefix("/").map_err(|_| io::ErrorKind::InvalidFilename)?;
        let target = Path::new(BUILD_FOLDER).join(below);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        match entry {
            Entry::Link { to } => symlink(to, target)?,
            Entry::Mount { tree, folder } => {
                if *folder {
                    fs::create_dir(&target)?;
                } else {
                    fs::File::create(&target)?;
                }
                calls::attach(tree, &target)?;
            }
        }
    }
    Ok(())
}

/// Mount options of a fresh folder in memory.
const FRESH_OPTIONS: &str = "mode=1777,size=512m,nr_inodes=100k";

/// Mount options of a hidden folder, which only contains mount points for paths that are mounted again inside it.
const HIDDEN_OPTIONS: &str = "mode=0755,size=64k";

/// Features of the namespaces that were created.
#[derive(Debug, Clone, Copy)]
pub(super) struct Namespaces {
    /// True if `/proc` was mounted again. Mounting fails if the system hides parts of its own `/proc`.
    pub(super) own_proc: bool,
    /// True if processes of the same user outside the namespaces are counted separately.
    pub(super) own_user: bool,
    /// True if the size of the process table is limited to the configured number.
    pub(super) own_limit: bool,
}

/// Content to mount at a path.
enum MountContent {
    /// An empty folder in memory.
    Fresh,
    /// The tree that was visible at the path before.
    Tree { tree: OwnedFd, writable: bool },
    /// Nothing: the path is hidden.
    Hidden { folder: bool },
}

/// Creates the namespaces and all mounts except `/proc`, which the first process in the namespaces has to mount.
pub(super) fn enter(policy: &Policy, reduced: &[(PathBuf, String)]) -> Step<Namespaces> {
    let mut own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    own.set(CloneFlags::CLONE_NEWNET, policy.gateway);
    let (user, group) = (geteuid(), getegid());
    // Root needs no user namespace. Without a user namespace, the files of all users keep their owners.
    let own_user = !(user.is_root() && unshare(own).is_ok());
    if own_user {
        unshare(own | CloneFlags::CLONE_NEWUSER).map_err(step("create namespaces"))?;
        fs::write("/proc/self/setgroups", "deny").map_err(step("deny group changes"))?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(step("map the user"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(step("map the group"))?;
    }
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(step("make the mounts private"))?;
    let layers = layers(policy)?;
    calls::make_read_only(Path::new("/"), Submounts::Include).map_err(step("make the file system read-only"))?;
    for (path, content) in &layers {
        mount_layer(path, content).map_err(|error| format!("could not mount {}: {error}", path.display()))?;
    }
    if Path::new(FRESH[0]).is_dir() {
        replace_files(reduced).map_err(step("replace files"))?;
    } else if !reduced.is_empty() {
        return Err(format!("there is no {}, which is needed to hide keys from commands", FRESH[0]));
    }
    // Done after the other mounts, because the session's own tree may have to be mounted below a hidden folder.
    for (path, _) in layers.iter().filter(|(_, content)| matches!(content, MountContent::Hidden { folder: true })) {
        calls::make_read_only(path, Submounts::Exclude).map_err(step("make hidden paths read-only"))?;
    }
    // Done last, because a name shows what is visible at the real path at this time.
    replace_root(&policy.names)?;
    Ok(Namespaces { own_proc: false, own_user, own_limit: false })
}

/// Returns the mounts, parents first.
fn layers(policy: &Policy) -> Step<Vec<(PathBuf, MountContent)>> {
    let fresh = FRESH.iter().map(PathBuf::from).filter(|path| path.is_dir());
    let mut layers: Vec<(PathBuf, MountContent)> = fresh.map(|path| (path, MountContent::Fresh)).collect();
    for tree in &policy.trees {
        // Links are resolved now, because Landlock later allows access to their targets.
        let Ok(path) = fs::canonicalize(&tree.path) else { continue };
        if policy.is_exact(&tree.path) && path != tree.path {
            return Err(format!("{} was replaced by a link", tree.path.display()));
        }
        let opened = exact::open(&path, OFlags::PATH);
        let cloned = opened
            .and_then(|opened| calls::clone_tree(&opened))
            .map_err(|error| format!("could not preserve {}: {error}", path.display()))?;
        layers.push((path, MountContent::Tree { tree: cloned, writable: tree.writable }));
    }
    let listed: Vec<PathBuf> =
        policy.read.iter().chain(&policy.write).filter_map(|path| fs::canonicalize(path).ok()).collect();
    for hidden in &policy.hidden {
        let Ok(path) = fs::canonicalize(hidden) else { continue };
        // Only hidden if it would be visible; all other paths are inaccessible anyway. The listed path may be a link.
        let is_visible = listed.iter().any(|listed| path.starts_with(listed));
        let fresh = FRESH.iter().any(|fresh| path.starts_with(fresh));
        if is_visible && (!fresh || policy.trees.iter().any(|tree| path.starts_with(&tree.path))) {
            let folder = path.is_dir();
            layers.push((path, MountContent::Hidden { folder }));
        }
    }
    // The sort is stable. If there are two mounts at one path, the later one wins, so hidden paths stay hidden.
    layers.sort_by_key(|(path, _)| path.components().count());
    Ok(layers)
}

fn mount_layer(path: &Path, content: &MountContent) -> io::Result<()> {
    match content {
        MountContent::Fresh => mount_memory(path, FRESH_OPTIONS)?,
        MountContent::Tree { tree, writable } => {
            create_mount_point(tree, path)?;
            calls::attach(tree, path)?;
            if !writable {
                calls::make_read_only(path, Submounts::Include)?;
            }
        }
        MountContent::Hidden { folder: true } => mount_memory(path, HIDDEN_OPTIONS)?,
        MountContent::Hidden { folder: false } => mount_over(Path::new("/dev/null"), path)?,
    }
    Ok(())
}

/// Creates the mount point in a fresh or hidden folder, which is still empty.
fn create_mount_point(tree: &OwnedFd, path: &Path) -> io::Result<()> {
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

/// Mounts a `/proc` with only the processes in the namespace. Called by the namespace's first process.
pub(super) fn mount_proc() -> bool {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let none: Option<&str> = None;
    mount(Some("proc"), "/proc", Some("proc"), flags, none).is_ok()
}

/// Kernel version since which `pid_max` belongs to the process table. In older versions, it belongs to the host and
/// must not be changed.
const OWN_PID_MAX: (u32, u32) = (6, 14);
/// Smallest value of `pid_max` that the kernel accepts.
const MIN_PID_MAX: u64 = 301;

/// Limits the number of processes and threads. Called by the namespace's first process, with its own `/proc`.
pub(super) fn limit_processes(limit: u64) -> bool {
    if kernel() < OWN_PID_MAX {
        return false;
    }
    fs::write("/proc/sys/kernel/pid_max", limit.max(MIN_PID_MAX).to_string()).is_ok()
}

/// Returns the kernel's major and minor version, or 0 if it cannot be read.
pub(super) fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or_default();
    (number(), number())
}

/// Name of the folder in `/tmp` for the replacement files. The folder is read-only for commands.
const NAME: &str = ".agentd";
const STAGE_OPTIONS: &str = "mode=0755,size=8m";

/// Locations of git on common systems. Git starts its subcommands through the git program in its own folder.
const GIT_LOCATIONS: [&str; 6] = [
    "/usr/bin/git",
    "/usr/local/bin/git",
    "/usr/lib/git-core/git",
    "/usr/libexec/git-core/git",
    "/usr/local/libexec/git-core/git",
    "/usr/local/lib/git-core/git",
];

/// Replaces files with these texts, and git with its wrapper. The file system is already mounted for the command and
/// read-only.
///
/// # Errors
/// Returns an error if a text could not be mounted in place of its file, because the key could then be read.
pub(super) fn replace_files(reduced: &[(PathBuf, String)]) -> io::Result<()> {
    let stage = Path::new(FRESH[0]).join(NAME);
    fs::create_dir(&stage)?;
    mount_memory(&stage, STAGE_OPTIONS)?;
    for (number, (path, text)) in reduced.iter().enumerate() {
        let source = stage.join(format!("settings{number}"));
        fs::write(&source, text)?;
        // A file under a hidden mount cannot be read anyway.
        if let Ok(target) = path.canonicalize() {
            mount_file(&source, &target)?;
        }
    }
    let mut wrapped = Vec::new();
    let is_program = |path: &Path| {
        let mut first = [0; 4];
        let read = fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut first));
        read.is_ok() && &first == b"\x7fELF"
    };
    for (number, git) in GIT_LOCATIONS.iter().enumerate() {
        // Scripts depend on their own location, so they are not replaced.
        let Some(git) = fs::canonicalize(git).ok().filter(|git| is_program(git) && !wrapped.contains(git)) else {
            continue;
        };
        let program = stage.join(format!("git{number}"));
        fs::write(&program, "")?;
        mount_over(&git, &program)?;
        let wrapper = stage.join(format!("front{number}"));
        fs::write(&wrapper, wrapper_script(&program))?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
        mount_file(&wrapper, &git)?;
        wrapped.push(git);
    }
    calls::make_read_only(&stage, Submounts::Exclude)
}

/// Mounts a file over another file, read-only.
fn mount_file(source: &Path, target: &Path) -> io::Result<()> {
    mount_over(source, target)?;
    calls::make_read_only(target, Submounts::Exclude)
}

/// Mounts a file over another file.
fn mount_over(source: &Path, target: &Path) -> nix::Result<()> {
    let none: Option<&str> = None;
    mount(Some(source), target, none, MsFlags::MS_BIND, none)
}

/// Mounts a folder in memory.
fn mount_memory(path: &Path, options: &str) -> nix::Result<()> {
    mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some(options))
}

/// Returns the script of the wrapper for git. Git is also started by the names of its subcommands, which are links to
/// it.
fn wrapper_script(program: &Path) -> String {
    let settings: String = GIT_CONFIG.iter().map(|(key, value)| format!(" -c {key}={value}")).collect();
    format!(
        "#!/bin/sh\ncase ${{0##*/}} in git-*) n=${{0##*/}}; set -- \"${{n#git-}}\" \"$@\";; esac\n\
         exec {} --no-optional-locks{settings} \"$@\"\n",
        program.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_wrapper_adds_safe_options_and_passes_arguments() {
        let text = wrapper_script(Path::new("/tmp/.agentd/git0"));
        assert!(text.contains("exec /tmp/.agentd/git0 --no-optional-locks -c safe.bareRepository=explicit"), "{text}");
        assert!(text.contains(" -c core.fsmonitor=false ") && text.ends_with(" \"$@\"\n"), "{text}");
    }
}
