//! Real paths of what tools name, and the names that tools have for files of the editor.

use std::path::{Component, Path, PathBuf};

use agentd_core::{
    folder::{AddedFolder, Mounts},
    path,
    session::Mount,
};

/// Folders of a session's workspace; what else is relative lies in the project, if there is one.
const AREAS: [&str; 6] = ["uploads", "outputs", "temp", "skills", "large_tool_results", "conversation_history"];

/// The folders of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The folder that tools see as `/project`.
    pub(super) project: Option<PathBuf>,
    /// The folders that tools see below `/folders`.
    pub(super) folders: Vec<AddedFolder>,
    /// The folder that holds the session's own files.
    pub(super) workspace: PathBuf,
}

impl Places {
    /// The folder that an editor takes for the session's.
    pub(super) fn folder(&self) -> &Path {
        self.project.as_deref().unwrap_or(&self.workspace)
    }

    /// The folders of the person among them.
    pub(super) fn mounts(&self) -> Mounts {
        let project = self.project.clone().map(|path| Mount { path, writable: false });
        Mounts { project, folders: self.folders.clone() }
    }

    /// The real path of what a tool names; none of what lies nowhere on the disk, or whose name has two meanings.
    pub(super) fn real(&self, named: &str) -> Option<PathBuf> {
        let named = path::read(named).unwrap_or(named.into());
        let path = Path::new(&*named);
        let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
        let parts: Option<Vec<&str>> = parts.map(|part| part.as_os_str().to_str()).collect();
        let parts = parts.filter(|parts| !parts.is_empty() && !parts.contains(&".."))?;
        let below = |base: &Path, parts: &[&str]| parts.iter().fold(base.to_owned(), |path, part| path.join(part));
        match parts[0] {
            "project" => Some(below(self.project.as_ref()?, &parts[1..])),
            area if AREAS.contains(&area) => Some(below(&self.workspace, &parts)),
            _ if path.is_absolute() => {
                let named = self.folders.iter().find_map(|folder| Some((folder, path.strip_prefix(&folder.at).ok()?)));
                if let Some((folder, rest)) = named {
                    return Some(if rest.as_os_str().is_empty() {
                        folder.path.clone()
                    } else {
                        folder.path.join(rest)
                    });
                }
                let folders = self.folders.iter().map(|folder| &folder.path);
                self.project.iter().chain(folders).any(|mount| path.starts_with(mount)).then(|| path.to_owned())
            }
            _ => Some(below(self.folder(), &parts)),
        }
    }

    /// The path by which tools know a file; none of one outside of the person's folders.
    pub(super) fn of_tools(&self, real: &Path) -> Option<String> {
        self.mounts().names().find_map(|(name, mount)| {
            let below = real.strip_prefix(mount).ok()?.to_str()?;
            let is_plain = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
            is_plain.then(|| format!("{name}/{below}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_tools_have_real_ones() {
        let lib = AddedFolder { at: "/folders/lib".into(), path: "/srv/lib".into(), writable: false };
        let with =
            Places { project: Some("/home/me/shop".into()), folders: vec![lib], workspace: "/data/workspace/s".into() };
        let without = Places { project: None, ..with.clone() };
        let check = |places: &Places, named: &str, expected: Option<&str>| {
            assert_eq!(places.real(named), expected.map(PathBuf::from), "{named}");
        };
        check(&with, "/project/src/main.rs", Some("/home/me/shop/src/main.rs"));
        check(&with, "project/src/main.rs", Some("/home/me/shop/src/main.rs"));
        check(&with, "src/./main.rs", Some("/home/me/shop/src/main.rs"));
        check(&with, "/home/me/shop/a.txt", Some("/home/me/shop/a.txt"));
        check(&with, "/project", Some("/home/me/shop"));
        check(&with, "outputs/a.txt", Some("/data/workspace/s/outputs/a.txt"));
        check(&with, "/uploads/a.txt", Some("/data/workspace/s/uploads/a.txt"));
        check(&with, "/folders/lib/a.rs", Some("/srv/lib/a.rs"));
        check(&with, "/folders/lib", Some("/srv/lib"));
        check(&with, "/srv/lib/a.rs", Some("/srv/lib/a.rs"));
        check(&with, "/folders/other/a.rs", None);
        check(&with, "folders/lib/a.rs", Some("/home/me/shop/folders/lib/a.rs"));
        check(&with, "/memories/me.md", None);
        check(&with, "/etc/passwd", None);
        check(&with, "/project/../x", None);
        check(&with, "", None);
        check(&without, "a.txt", Some("/data/workspace/s/a.txt"));
        check(&without, "/project/a.txt", None);
    }

    #[test]
    fn files_of_the_project_have_names_for_tools() {
        let places = Places { project: Some("/home/me/shop".into()), workspace: "/data".into(), ..Places::default() };
        assert_eq!(places.of_tools(Path::new("/home/me/shop/src/a b.rs")), Some("/project/src/a b.rs".to_owned()));
        assert_eq!(places.of_tools(Path::new("/home/me/shop/../x")), None);
        assert_eq!(places.of_tools(Path::new("/home/me/other")), None);
        let at = "/folders/lib".to_owned();
        let lib = AddedFolder { at, path: "/srv/lib".into(), writable: false };
        let places = Places { folders: vec![lib], ..places };
        assert_eq!(places.of_tools(Path::new("/srv/lib/a.rs")), Some("/folders/lib/a.rs".to_owned()));
        assert_eq!(Places::default().of_tools(Path::new("/x")), None);
    }
}
