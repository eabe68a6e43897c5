//! Files available to a session's command. Files in the user's home folder are only readable if they are listed.
//!
//! Commands access the session's folders by the names that the file tools use, so that a file has the same name
//! everywhere. The project and added folders are mounted at their names, so that a program that queries its working
//! folder gets this name. The other folders are links, so that files can be moved between them. The user's worktrees
//! and submodules are also links, because the path between such a tree and its repository can be relative.

use std::path::{Path, PathBuf};

use agentd_core::{
    folder::{AddedFolder, FOLDERS},
    policy::Confinement,
    ports::Workspace,
    worktree::{BRANCH_PREFIX, WorktreeAccess},
};

use agentd_workspace::path::{AREAS, WRITABLE, read_only};

use crate::{
    config::{Name, Tree},
    repository::{is_linked, repository_of},
};

/// Parts of the system that every program needs.
pub(super) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/var/lib/dpkg",
];

/// Parts of `/etc` that programs need for loading, name resolution, locales and encryption. Other files in `/etc` may
/// contain passwords.
const SYSTEM_SETTINGS: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "gai.conf",
    "gitconfig",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "inputrc",
    "java",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld.so.preload",
    "libreoffice",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki",
    "profile",
    "protocols",
    "python3",
    "resolv.conf",
    "services",
    "shells",
    "ssl",
    "terminfo",
    "timezone",
];

/// Devices that store nothing. Commands may also write to these.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Folders that are empty and private for each command, if there are namespaces.
pub(super) const FRESH: &[&str] = &["/tmp", "/dev/shm"];

/// Parts of the file system that a command may reach.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AccessPaths {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) trees: Vec<Tree>,
}

impl AccessPaths {
    /// Removes write access according to the confinement. `guarded` contains paths that other programs run or obey.
    pub(super) fn confine(&mut self, workspace: &Workspace, confinement: Confinement, guarded: &[PathBuf]) {
        match confinement {
            // Nothing can be changed, but all paths remain readable.
            Confinement::ReadOnly => {
                self.read.append(&mut self.write);
                self.trees.iter_mut().for_each(|tree| tree.writable = false);
            }
            Confinement::Guarded => self.guard(workspace, guarded),
            Confinement::GuardedGit | Confinement::Usual => {}
        }
    }

    /// Makes paths in the user's writable folders read-only if programs run or obey them automatically.
    fn guard(&mut self, workspace: &Workspace, guarded: &[PathBuf]) {
        // An added folder at a hidden path, such as `~/.config` or `.github`, is made read-only as a whole.
        let is_hidden =
            |path: &Path| path.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
        let hidden = workspace.folders.iter().filter(|folder| folder.writable && is_hidden(&folder.path));
        let guarded = guarded.iter().cloned().chain(hidden.map(|folder| folder.path.clone()));
        self.trees.extend(guarded.map(|path| Tree { path, writable: false }));
        // The repository is read-only, like `.git` in a project, because its content could be lost.
        if let Some(worktree) = &workspace.worktree {
            let trees = self.trees.iter_mut().filter(|tree| tree.path.starts_with(&worktree.common));
            trees.for_each(|tree| tree.writable = false);
        }
    }
}

/// Returns the paths that must not have been replaced by links since they were created or added.
pub(super) fn exact(workspace: &Workspace) -> Vec<PathBuf> {
    let project = workspace.project.as_ref().map(|project| &project.path);
    let folders = workspace.folders.iter().map(|folder| &folder.path);
    let common = workspace.worktree.as_ref().map(|worktree| &worktree.common);
    [&workspace.root]
        .into_iter()
        .chain(project)
        .chain(folders)
        .chain(&workspace.memories)
        .chain(common)
        .cloned()
        .collect()
}

/// Returns the paths that a command in this workspace may access, including the configured paths.
pub(super) fn access_paths(
    workspace: &Workspace,
    read: &[PathBuf],
    write: &[PathBuf],
    hidden: &[PathBuf],
) -> AccessPaths {
    let mut paths = AccessPaths::default();
    paths.read.extend(SYSTEM.iter().map(PathBuf::from));
    paths.read.extend(SYSTEM_SETTINGS.iter().map(|name| Path::new("/etc").join(name)));
    paths.read.extend(read.iter().cloned());
    paths.read.push(workspace.root.clone());
    paths.read.extend(workspace.memories.clone());
    paths.write.extend(write.iter().cloned());
    paths.write.extend(WRITABLE.iter().map(|area| workspace.root.join(area)));
    // A single mount for the whole workspace allows moving a file from `uploads/` to `outputs/`.
    paths.trees.push(Tree { path: workspace.root.clone(), writable: true });
    paths.trees.extend(read_only().map(|area| Tree { path: workspace.root.join(area), writable: false }));
    paths.trees.extend(write.iter().map(|path| Tree { path: path.clone(), writable: true }));
    for mount in workspace.project.iter().cloned().chain(workspace.folders.iter().map(AddedFolder::mount)) {
        if mount.writable {
            paths.write.push(mount.path.clone());
            paths.trees.push(Tree { path: mount.path, writable: true });
        } else {
            paths.read.push(mount.path);
        }
    }
    if let Some(worktree) = &workspace.worktree {
        let is_writable = workspace.project.as_ref().is_some_and(|mount| mount.writable);
        add_repository(&mut paths, worktree, is_writable);
    }
    // Paths below a fresh or hidden folder would be hidden, so they are mounted again.
    let covered = |path: &Path| {
        let covers = |cover: &Path| path != cover && path.starts_with(cover);
        FRESH.iter().any(|fresh| covers(Path::new(fresh))) || hidden.iter().any(|hidden| covers(hidden))
    };
    let hidden_paths =
        paths.read.iter().filter(|path| covered(path) && !paths.trees.iter().any(|tree| tree.path == **path));
    let remounted: Vec<Tree> = hidden_paths.map(|path| Tree { path: path.clone(), writable: false }).collect();
    paths.trees.extend(remounted);
    paths
}

/// Adds the repository of a worktree. The whole repository is readable, and the parts that a commit on the worktree's
/// branch needs are writable. Settings, hooks, other branches, packs and the files that locate the repository stay
/// read-only.
fn add_repository(paths: &mut AccessPaths, worktree: &WorktreeAccess, is_writable: bool) {
    let (common, admin) = (&worktree.common, &worktree.admin);
    paths.read.push(common.clone());
    paths.trees.push(Tree { path: common.clone(), writable: false });
    if !is_writable {
        return;
    }
    let branches = BRANCH_PREFIX.trim_end_matches('/');
    let changed = [
        admin.clone(),
        common.join("objects"),
        common.join("refs/heads").join(branches),
        common.join("logs/refs/heads").join(branches),
    ];
    paths.write.extend(changed.iter().cloned());
    paths.trees.extend(changed.into_iter().map(|path| Tree { path, writable: true }));
    let protected = [
        common.join("objects/pack"),
        common.join("objects/info"),
        admin.join("commondir"),
        admin.join("gitdir"),
        admin.join("config.worktree"),
        worktree.top.join(".git"),
    ];
    paths.trees.extend(protected.into_iter().map(|path| Tree { path, writable: false }));
}

/// Name of the project folder.
pub(crate) const PROJECT: &str = "/project";
/// Name of the folder shared by all sessions.
pub(crate) const MEMORIES: &str = "/memories";

/// Returns the names of the user's worktrees and submodules among a workspace's folders, each with its repository if
/// the repository refers back to the folder.
pub(super) fn linked(workspace: &Workspace) -> Vec<(String, Option<PathBuf>)> {
    // A worktree created for the session is recorded in the workspace and is not included.
    let recorded = workspace.worktree.as_ref().map(|_| PROJECT);
    let mounts = workspace.mounts();
    let linked = mounts.names().filter(|(name, tree)| Some(*name) != recorded && is_linked(tree));
    linked.map(|(name, tree)| (name.to_owned(), repository_of(tree))).collect()
}

/// Returns the names of a workspace's folders. A name is skipped if the host has a path with that name that the command
/// may reach.
pub(super) fn names(workspace: &Workspace, paths: &AccessPaths) -> Vec<Name> {
    let linked = linked(workspace);
    let is_linked = |name: &str| linked.iter().any(|(known, repository)| known == name && repository.is_some());
    let mount = |name: &str, path: &Path| Name { mounted: !is_linked(name), ..Name::mounted(name, path) };
    let project = workspace.project.as_ref().map(|project| mount(PROJECT, &project.path));
    let memories = workspace.memories.clone().map(|path| Name::link(MEMORIES, path));
    let areas = AREAS.iter().map(|area| Name::link(&format!("/{area}"), workspace.root.join(area)));
    let accessible = || paths.read.iter().chain(&paths.write).chain(paths.trees.iter().map(|tree| &tree.path));
    let is_free = |name: &Name| name.path == name.name || !accessible().any(|path| path.starts_with(&name.name));
    // A host folder with that name would be hidden, except for paths that are mounted below it again.
    let is_unused = !accessible().any(|path| path.starts_with(FOLDERS));
    let folders = workspace.folders.iter().filter(|_| is_unused);
    let folders = folders.map(|folder| mount(&folder.at, &folder.path));
    project.into_iter().chain(memories).chain(areas).filter(is_free).chain(folders).collect()
}

/// Converts a real path to the name that a command uses, if the path is inside a mount with a name.
pub(super) fn named(names: &[Name], path: &Path) -> Option<PathBuf> {
    let mut mounted = names.iter().filter(|name| name.mounted);
    mounted.find_map(|name| {
        let below = path.strip_prefix(&name.path).ok()?;
        Some(if below.as_os_str().is_empty() { name.name.clone() } else { name.name.join(below) })
    })
}

#[cfg(test)]
mod tests {
    use agentd_core::session::Mount;

    use super::*;

    fn workspace(project: Option<Mount>) -> Workspace {
        Workspace {
            root: "/home/p/data/workspace/1".into(),
            project,
            folders: vec![AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false }],
            memories: Some("/home/p/data/memories".into()),
            worktree: None,
        }
    }

    fn of(project: Option<Mount>) -> AccessPaths {
        let read = ["/tmp/tools".into(), "/home/p/.rustup".into()];
        access_paths(&workspace(project), &read, &["/home/p/cache".into()], &["/home/p/data".into()])
    }

    #[test]
    fn only_areas_and_a_writable_project_are_writable() {
        let written =
            |paths: AccessPaths| paths.write.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let own = ["/home/p/cache", "/home/p/data/workspace/1/uploads", "/home/p/data/workspace/1/outputs"];
        let own: Vec<&str> = own.into_iter().chain(["/home/p/data/workspace/1/temp"]).collect();
        assert_eq!(written(of(None)), own);
        let mount = |writable| Some(Mount { path: "/code".into(), writable });
        assert_eq!(written(of(mount(false))), own);
        assert_eq!(written(of(mount(true))).last().map(String::as_str), Some("/code"));
        assert!(["/code", "/srv/lib"].iter().all(|path| of(mount(false)).read.contains(&path.into())));
    }

    #[test]
    fn read_only_confinement_leaves_nothing_writable() {
        let mut paths = of(Some(Mount { path: "/code".into(), writable: true }));
        paths.confine(&workspace(None), Confinement::ReadOnly, &[]);
        assert!(paths.write.is_empty() && paths.trees.iter().all(|tree| !tree.writable), "{paths:?}");
        for path in ["/code", "/home/p/cache", "/home/p/data/workspace/1/outputs"] {
            assert!(paths.read.contains(&path.into()), "{path}");
        }
    }

    #[test]
    fn worktree_repository_is_writable_only_for_commits() {
        let common = Path::new("/home/p/app/.git");
        let worktree = WorktreeAccess {
            name: "fix".to_owned(),
            project: "/home/p/app".into(),
            top: "/home/p/data/worktrees/fix".into(),
            common: common.into(),
            admin: common.join("worktrees/fix"),
        };
        let of = |writable| {
            let workspace = Workspace {
                root: "/home/p/data/workspace/1".into(),
                project: Some(Mount { path: worktree.top.clone(), writable }),
                folders: Vec::new(),
                memories: None,
                worktree: Some(worktree.clone()),
            };
            (access_paths(&workspace, &[], &[], &[]), workspace)
        };
        let writable = |paths: &AccessPaths| -> Vec<PathBuf> {
            let trees = paths.trees.iter().filter(|tree| tree.writable && tree.path.starts_with(common));
            trees.map(|tree| tree.path.clone()).collect()
        };
        let (mut found, workspace) = of(true);
        let expected = ["worktrees/fix", "objects", "refs/heads/agentd", "logs/refs/heads/agentd"];
        assert_eq!(writable(&found), expected.map(|path| common.join(path)));
        for protected in ["objects/pack", "worktrees/fix/commondir"].map(|path| common.join(path)) {
            assert!(found.trees.contains(&Tree { path: protected, writable: false }));
        }
        found.guard(&workspace, &[]);
        assert!(writable(&found).is_empty());
        let (found, _) = of(false);
        assert!(writable(&found).is_empty() && found.read.contains(&common.into()));
    }

    #[test]
    fn only_listed_paths_of_a_home_are_readable() {
        let paths = of(None);
        let home: Vec<_> =
            paths.read.iter().filter(|path| path.starts_with("/home") || path.starts_with("/root")).collect();
        let own = ["/home/p/data/workspace/1", "/home/p/data/memories"].map(Path::new);
        assert_eq!(home, [&[Path::new("/home/p/.rustup")], &own[..]].concat());
        assert!(
            !paths
                .read
                .iter()
                .any(|path| ["/", "/etc", "/home", "/dev", "/run", "/var"].map(Path::new).contains(&path.as_path()))
        );
    }

    #[test]
    fn trees_below_a_private_folder_are_remounted() {
        let trees = of(None).trees;
        assert!(trees.contains(&Tree { path: "/tmp/tools".into(), writable: false }));
        // The shared folder is inside a hidden folder. It is visible there, but not writable.
        assert!(trees.contains(&Tree { path: "/home/p/data/memories".into(), writable: false }));
        assert!(!trees.iter().any(|tree| tree.path == Path::new("/home/p/.rustup")));
    }

    fn names_of(project: &str, read: &[&str]) -> Vec<String> {
        let workspace = workspace(Some(Mount { path: project.into(), writable: true }));
        let read: Vec<PathBuf> = read.iter().map(PathBuf::from).collect();
        let paths = access_paths(&workspace, &read, &[], &[]);
        names(&workspace, &paths)
            .iter()
            .map(|name| format!("{}={}", name.name.display(), name.path.display()))
            .collect()
    }

    #[test]
    fn sandbox_paths_match_the_file_tools() {
        let names = names_of("/home/p/code", &[]);
        for name in [
            "/project=/home/p/code",
            "/memories=/home/p/data/memories",
            "/uploads=/home/p/data/workspace/1/uploads",
            "/folders/lib=/srv/lib",
        ] {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
        assert_eq!(names.len(), 9);
    }

    #[test]
    fn system_path_names_are_not_shadowed() {
        let names = names_of("/project/of/mine", &["/temp/tools"]);
        assert!(!names.iter().any(|name| name.starts_with("/project=") || name.starts_with("/temp=")), "{names:?}");
        assert!(!names_of("/folders/a/code", &[]).iter().any(|name| name.starts_with("/folders")));
        assert!(names_of("/project", &[]).contains(&"/project=/project".to_owned()));
    }

    #[test]
    fn project_paths_map_to_their_alias() {
        let names = [Name::mounted(PROJECT, Path::new("/home/p/code")), Name::link("/temp", "/w/temp".into())];
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(named(&names, Path::new(path)), expected.map(PathBuf::from), "{path}");
        };
        check("/home/p/code", Some("/project"));
        check("/home/p/code/src", Some("/project/src"));
        check("/home/p/codex", None);
        check("/w/temp/a", None);
    }
}
