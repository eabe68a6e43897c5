//! The names by which commands reach the session's folders: those that the file tools use, so that a file has one name
//! everywhere. The project and added folders are mounted at their names, so that a program which asks where it is hears it;
//! the other folders are links, so that a file can still be moved from one to the other. A worktree or submodule of the person
//! is a link, too: the way between it and its repository can be a relative one.

use std::path::{Path, PathBuf};

use agentd_core::{folder::FOLDERS, ports::Workspace};

use crate::{
    config::Name,
    places::Places,
    repository::{is_linked, repository_of},
};

/// The name of the project.
pub(crate) const PROJECT: &str = "/project";
/// The name of what all sessions share.
pub(crate) const MEMORIES: &str = "/memories";

/// Names of the worktrees and submodules of the person among the folders of a workspace, each with its repository, if that
/// names it in turn.
pub(super) fn linked(workspace: &Workspace) -> Vec<(String, Option<PathBuf>)> {
    // One that was made for the session has a record.
    let recorded = workspace.worktree.as_ref().map(|_| PROJECT);
    let mounts = workspace.mounts();
    let linked = mounts.names().filter(|(name, tree)| Some(*name) != recorded && is_linked(tree));
    linked.map(|(name, tree)| (name.to_owned(), repository_of(tree))).collect()
}

/// The names of a workspace's folders. One that the machine uses for something that the command may reach is left to
/// it.
pub(super) fn names(workspace: &Workspace, places: &Places) -> Vec<Name> {
    let linked = linked(workspace);
    let is_linked = |name: &str| linked.iter().any(|(known, repository)| known == name && repository.is_some());
    let mount = |name: &str, path: &Path| Name { mounted: !is_linked(name), ..Name::mounted(name, path) };
    let project = workspace.project.as_ref().map(|project| mount(PROJECT, &project.path));
    let memories = workspace.memories.clone().map(|path| Name::link(MEMORIES, path));
    let areas =
        agentd_workspace::path::AREAS.iter().map(|area| Name::link(&format!("/{area}"), workspace.root.join(area)));
    let reached = || places.read.iter().chain(&places.write).chain(places.trees.iter().map(|tree| &tree.path));
    let is_free = |name: &Name| name.path == name.name || !reached().any(|path| path.starts_with(&name.name));
    // A folder of the machine with that name would lose all that is not put below it again.
    let is_unused = !reached().any(|path| path.starts_with(FOLDERS));
    let folders = workspace.folders.iter().filter(|_| is_unused);
    let folders = folders.map(|folder| mount(&folder.at, &folder.path));
    project.into_iter().chain(memories).chain(areas).filter(is_free).chain(folders).collect()
}

/// The path by which a command knows a real one, where that lies in what is mounted at a name.
pub(super) fn named(names: &[Name], path: &Path) -> Option<PathBuf> {
    let mut mounted = names.iter().filter(|name| name.mounted);
    mounted.find_map(|name| {
        let below = path.strip_prefix(&name.path).ok()?;
        Some(if below.as_os_str().is_empty() { name.name.clone() } else { name.name.join(below) })
    })
}

#[cfg(test)]
mod tests {
    use agentd_core::{folder::AddedFolder, session::Mount};

    use super::*;

    fn of(project: &str, read: &[&str]) -> Vec<String> {
        let workspace = Workspace {
            root: "/data/workspace/1".into(),
            project: Some(Mount { path: project.into(), writable: true }),
            folders: vec![AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false }],
            memories: Some("/data/memories".into()),
            worktree: None,
        };
        let read: Vec<PathBuf> = read.iter().map(PathBuf::from).collect();
        let places = super::super::places::places(&workspace, &read, &[], &[]);
        names(&workspace, &places)
            .iter()
            .map(|name| format!("{}={}", name.name.display(), name.path.display()))
            .collect()
    }

    #[test]
    fn a_file_has_the_name_that_file_tools_use() {
        let names = of("/home/p/code", &[]);
        for name in [
            "/project=/home/p/code",
            "/memories=/data/memories",
            "/uploads=/data/workspace/1/uploads",
            "/folders/lib=/srv/lib",
        ] {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
        assert_eq!(names.len(), 9);
    }

    #[test]
    fn names_that_the_machine_needs_are_left_to_it() {
        let names = of("/project/of/mine", &["/temp/tools"]);
        assert!(!names.iter().any(|name| name.starts_with("/project=") || name.starts_with("/temp=")), "{names:?}");
        assert!(!of("/folders/a/code", &[]).iter().any(|name| name.starts_with("/folders")));
        assert!(of("/project", &[]).contains(&"/project=/project".to_owned()));
    }

    #[test]
    fn what_lies_in_the_project_is_known_by_its_name() {
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
