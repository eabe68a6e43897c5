//! Folders of a session: `-C DIR[:ro|:rw]` or the default folder, and `--add-dir DIR[:ro|:rw]`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use agentd_core::{
    folder::{AddedFolder, Mounts},
    session::{Mount, SessionSettings},
};

use crate::{failure::Failure, terminal::clean_line};

/// A folder to mount, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectChoice {
    /// No folder: `-C none`.
    Nothing,
    /// A folder. A folder named `none` is written `./none`.
    Folder(MountArg),
}

impl FromStr for ProjectChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::Nothing) } else { text.parse().map(Self::Folder) }
    }
}

impl ProjectChoice {
    /// Resolves the folder to its absolute path.
    ///
    /// # Errors
    /// As for [`MountArg::resolve`].
    pub(crate) fn resolve(&self, host: Option<&str>) -> Result<Option<Mount>, Failure> {
        match self {
            Self::Nothing => Ok(None),
            Self::Folder(folder) => folder.resolve(host).map(Some),
        }
    }
}

/// Changes by `--add-dir` to the session's folders other than its project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FolderChanges {
    /// True if `--add-dir none` removes all other folders.
    pub(crate) only_these: bool,
    /// Added folders, with absolute paths.
    pub(crate) added: Vec<Mount>,
}

impl FolderChanges {
    /// Resolves the choices in order.
    ///
    /// # Errors
    /// As for [`MountArg::resolve`].
    pub(crate) fn resolve(choices: &[ProjectChoice], host: Option<&str>) -> Result<Self, Failure> {
        let mut changes = Self::default();
        for choice in choices {
            match choice {
                ProjectChoice::Nothing => changes = Self { only_these: true, added: Vec::new() },
                ProjectChoice::Folder(folder) => changes.added.push(folder.resolve_for("--add-dir", host)?),
            }
        }
        Ok(changes)
    }

    /// Applies the changes to the settings of a session.
    pub(crate) fn apply(&self, settings: &mut SessionSettings) {
        if self.only_these {
            settings.folders.retain(|folder| self.added.iter().any(|added| added.path == folder.path));
        }
        for mount in &self.added {
            match settings.folders.iter_mut().find(|folder| folder.path == mount.path) {
                Some(folder) => folder.writable = mount.writable,
                None => settings.folders.push(AddedFolder::unnamed(mount.clone())),
            }
        }
    }
}

/// Returns the current folder, read-only, as the default project of a new session. Returns `None` if the folder is or
/// contains the home folder or one of `of_daemon`: that would expose too much.
pub(crate) fn current_folder(of_daemon: impl IntoIterator<Item = PathBuf>) -> Option<Mount> {
    let path = env::current_dir().and_then(fs::canonicalize).ok()?;
    editor_folder(&path, of_daemon).map(|mount| Mount { writable: false, ..mount })
}

/// Returns the folder of an editor, writable. Returns `None` in the same cases as [`current_folder`].
pub(crate) fn editor_folder(path: &Path, of_daemon: impl IntoIterator<Item = PathBuf>) -> Option<Mount> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let excluded = home.into_iter().chain(of_daemon);
    is_project(path, excluded).then(|| Mount { path: path.to_owned(), writable: true })
}

/// Returns an additional folder named by an editor. It is writable if no part of its path is hidden and it is in the
/// home folder or under `beside`.
pub(crate) fn further_folder(
    path: &Path,
    beside: Option<&Path>,
    of_daemon: impl IntoIterator<Item = PathBuf>,
) -> Option<Mount> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| path.starts_with(home));
    let is_hidden = path.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
    let is_near = home.is_some() || beside.is_some_and(|beside| beside.parent().is_some() && path.starts_with(beside));
    editor_folder(path, of_daemon).map(|mount| Mount { writable: is_near && !is_hidden, ..mount })
}

/// Returns true if the path is valid UTF-8 and the folder neither is nor contains any of `excluded`.
fn is_project(path: &Path, mut excluded: impl Iterator<Item = PathBuf>) -> bool {
    let holds = |folder: PathBuf| fs::canonicalize(&folder).unwrap_or(folder).starts_with(path);
    path.to_str().is_some() && path.parent().is_some() && !excluded.any(holds)
}

/// Returns a short description of a mounted folder.
pub(crate) fn shown_mount(mount: &Mount) -> String {
    format!("{} ({})", folder_name(mount), if mount.writable { "writable" } else { "read-only" })
}

/// Returns the name of a mounted folder.
pub(crate) fn folder_name(mount: &Mount) -> String {
    let name = mount.path.file_name().unwrap_or(mount.path.as_os_str()).to_string_lossy();
    format!("{}/", clean_line(&name))
}

/// Returns a short description of all mounted folders.
pub(crate) fn shown_mounts(mounts: &Mounts) -> Option<String> {
    let folders = mounts.folders.iter().map(AddedFolder::mount);
    let shown: Vec<String> = mounts.project.iter().cloned().chain(folders).map(|mount| shown_mount(&mount)).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// A folder argument. The folder is read-only unless marked `:rw`, because lost files are hard to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountArg {
    path: PathBuf,
    writable: bool,
}

impl FromStr for MountArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (path, writable) = match text.rsplit_once(':') {
            Some((path, "rw")) => (path, true),
            Some((path, "ro")) => (path, false),
            _ => (text, false),
        };
        if path.is_empty() {
            return Err("missing folder name; pass one, such as `.` or `src:rw`");
        }
        Ok(Self { path: path.into(), writable })
    }
}

impl MountArg {
    /// Resolves the folder to its absolute path. A folder of another machine, `host`, is checked by the daemon there.
    ///
    /// # Errors
    /// Fails if the folder does not exist or cannot be read, or is relative and of another machine.
    pub(crate) fn resolve(&self, host: Option<&str>) -> Result<Mount, Failure> {
        self.resolve_for("-C", host)
    }

    /// Like `resolve`, for the folder of another option.
    fn resolve_for(&self, option: &str, host: Option<&str>) -> Result<Mount, Failure> {
        if let Some(host) = host {
            return Ok(Mount { path: folder_of_host(host, &self.path, option)?, writable: self.writable });
        }
        let shown = self.path.display();
        let path = fs::canonicalize(&self.path).map_err(|error| {
            Failure::usage(format!("could not open the folder {shown}: {error}"))
                .hint(format!("pass an existing folder to {option}"))
        })?;
        if !path.is_dir() {
            return Err(Failure::usage(format!("{shown} is not a folder"))
                .hint(format!("{option} takes a folder; pass a single file with --file")));
        }
        if path.to_str().is_none() {
            return Err(Failure::usage(format!("the path of the folder {shown} is not UTF-8"))
                .hint("rename the folder, or mount one above it"));
        }
        Ok(Mount { path, writable: self.writable })
    }
}

/// Returns the path of a folder of another machine, which only the daemon there can resolve.
///
/// # Errors
/// Fails if the path is relative or not valid UTF-8. `option` is named in the message.
pub(crate) fn folder_of_host(host: &str, folder: &Path, option: &str) -> Result<PathBuf, Failure> {
    if folder.is_absolute() && folder.to_str().is_some() {
        return Ok(folder.to_owned());
    }
    let shown = clean_line(&folder.display().to_string());
    Err(Failure::usage(format!("{option} takes an absolute path of a folder of {host}, not {shown}"))
        .hint("folders of this machine cannot be seen there; attach single files with --file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_hosts_are_absolute_and_not_resolved() {
        let host = Some("ssh://box");
        let resolve = |text: &str| text.parse::<MountArg>().unwrap().resolve(host);
        let there = |path: &str, writable| Ok(Mount { path: path.into(), writable });
        assert_eq!(resolve("/no/such/../folder:rw"), there("/no/such/../folder", true));
        assert_eq!(resolve("/srv"), there("/srv", false));
        for relative in [".", "src:rw", "~/src"] {
            let failure = resolve(relative).unwrap_err();
            assert!(failure.message.contains("ssh://box"), "{failure}");
        }
    }

    #[test]
    fn home_and_its_parents_are_not_projects() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("home/app")).unwrap();
        let check = |path: &Path, expected: bool| {
            assert_eq!(is_project(path, [root.join("home"), root.join("data/none")].into_iter()), expected, "{path:?}");
        };
        check(&root.join("home/app"), true);
        check(&root.join("home"), false);
        check(&root.join("data"), false);
        check(&root, false);
        check(Path::new("/"), false);
        assert_eq!("none".parse(), Ok(ProjectChoice::Nothing));
        assert_eq!("./none".parse(), Ok(ProjectChoice::Folder("./none".parse().unwrap())));
    }
}
