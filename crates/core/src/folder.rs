//! The user's folders in a session: the project, and added folders, which are mounted at `/folders/NAME`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, WorkspaceError};

/// Parent folder of the added folders inside the sandbox.
pub const FOLDERS: &str = "/folders";
/// Maximum number of added folders in a session.
pub const MAX_FOLDERS: usize = 16;
/// Maximum length of a folder's name, in bytes.
pub const MAX_FOLDER_NAME: usize = 40;

/// Number of bytes reserved for a numeric suffix of the name.
const SUFFIX: usize = 3;

/// Folder of the user that a session may access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute path on the host.
    pub path: PathBuf,
    /// True if tools may change the folder.
    pub writable: bool,
}

/// Folder that was added to a session in addition to its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedFolder {
    /// Path inside the sandbox, `/folders/NAME`. The name is that of the folder on the host if possible, and does not
    /// change while the session can access the folder.
    pub at: String,
    /// Absolute path on the host.
    pub path: PathBuf,
    /// True if tools may change the folder.
    pub writable: bool,
}

impl AddedFolder {
    /// Returns the folder's name in [`FOLDERS`].
    pub fn name(&self) -> &str {
        self.at.strip_prefix(FOLDERS).and_then(|name| name.strip_prefix('/')).unwrap_or_default()
    }

    /// Creates an added folder without a name.
    pub fn unnamed(Mount { path, writable }: Mount) -> Self {
        Self { at: String::new(), path, writable }
    }

    /// Returns the folder's path on the host and its mode.
    pub fn mount(&self) -> Mount {
        Mount { path: self.path.clone(), writable: self.writable }
    }

    /// Returns true if the text contains the path of the folder or a path inside it.
    pub fn is_named_in(&self, text: &str) -> bool {
        text.match_indices(&self.at).any(|(at, name)| !text[at + name.len()..].starts_with(is_name_character))
    }

    /// Returns true if `name` is a valid name for an added folder. Valid names have no special meaning in a path, a
    /// rule or a shell.
    pub fn is_name(name: &str) -> bool {
        !name.is_empty()
            && name.len() <= MAX_FOLDER_NAME
            && !name.starts_with(['.', '-'])
            && name.chars().all(is_name_character)
    }
}

/// Folders of the user that a session can access.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    /// The folder mounted at `/project`.
    pub project: Option<Mount>,
    /// The folders mounted in [`FOLDERS`].
    pub folders: Vec<AddedFolder>,
}

impl From<Option<Mount>> for Mounts {
    fn from(project: Option<Mount>) -> Self {
        Self { project, folders: Vec::new() }
    }
}

impl Mounts {
    /// Iterates over the folders' paths inside the sandbox, each with its path on the host.
    pub fn names(&self) -> impl Iterator<Item = (&str, &Path)> {
        let project = self.project.iter().map(|mount| ("/project", mount.path.as_path()));
        project.chain(self.folders.iter().map(|folder| (folder.at.as_str(), folder.path.as_path())))
    }

    /// Returns the added folders together with `added`, whose paths must be real. If a folder was added before, its
    /// name stays the same and its mode is updated.
    ///
    /// # Errors
    /// Fails with kind `InvalidInput` if a folder is the project, if a folder contains another folder, so that files
    /// would have two names, or if there are too many folders.
    pub fn with(&self, added: Vec<Mount>) -> Result<Vec<AddedFolder>, WorkspaceError> {
        let mut folders = self.folders.clone();
        for Mount { path, writable } in added {
            match folders.iter_mut().find(|folder| folder.path == path) {
                Some(known) => known.writable = writable,
                None => {
                    let at = format!("{FOLDERS}/{}", free_name(&path, &folders));
                    folders.push(AddedFolder { at, path, writable });
                }
            }
        }
        let mounts = Self { project: self.project.clone(), folders };
        mounts.check()?;
        Ok(mounts.folders)
    }

    /// Checks that no folder contains another folder, and that there are not too many folders.
    ///
    /// # Errors
    /// As [`Self::with`].
    pub fn check(&self) -> Result<(), WorkspaceError> {
        let refused = |message: String, hint: &str| {
            Err(WorkspaceError::new(ErrorKind::InvalidInput, message).with_hint(hint.to_owned()))
        };
        if self.folders.len() > MAX_FOLDERS {
            let message =
                format!("too many added folders ({}); a session can have at most {MAX_FOLDERS}", self.folders.len());
            return refused(message, "add a common parent folder, or remove all with `--add-dir none`");
        }
        for (at, folder) in self.folders.iter().enumerate() {
            let shown = folder.path.display();
            let project = self.project.as_ref().map(|project| project.path.as_path());
            if project == Some(folder.path.as_path()) {
                return refused(
                    format!("the folder {shown} is already the project"),
                    "omit the folder; `-C DIR:rw` makes the project writable",
                );
            }
            let others = self.folders.iter().take(at).map(|other| other.path.as_path());
            let overlaps = |other: &&Path| folder.path.starts_with(other) || other.starts_with(&folder.path);
            if let Some(project) = project.filter(overlaps) {
                return refused(
                    format!("the folder {shown} and the project {} overlap", project.display()),
                    "omit the folder, or choose another project with `-C DIR`",
                );
            }
            if let Some(other) = others.into_iter().find(overlaps) {
                return refused(
                    format!("the folders {shown} and {} overlap", other.display()),
                    "add only the outer one; `--add-dir none` removes those of the session",
                );
            }
        }
        Ok(())
    }
}

/// Returns true if names may contain the character.
fn is_name_character(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

/// Replaces the folders' paths inside the sandbox with their paths on the host. Returns `None` if the text does not
/// contain any of these paths.
pub fn with_real_paths(text: &str, folders: &[AddedFolder]) -> Option<String> {
    // Redundant slashes and dots that may precede a name.
    const REDUNDANT: [&str; 2] = ["//", "/./"];
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("folders/") {
        let (before, found) = rest.split_at(at);
        let mut below = &found["folders".len()..];
        while let Some(redundant) = REDUNDANT.iter().find(|redundant| below.starts_with(**redundant)) {
            below = &below[redundant.len() - 1..];
        }
        let name = &below[1..];
        let end = name.find(|letter| !is_name_character(letter)).unwrap_or(name.len());
        let is_start = before.is_empty() && out.is_empty();
        let folder = folders.iter().find(|folder| folder.name() == &name[..end] && (is_start || before.ends_with('/')));
        match folder {
            Some(folder) => {
                out.push_str(before.strip_suffix('/').unwrap_or(before));
                out.push_str(&folder.path.to_string_lossy());
            }
            None => out.push_str(&rest[..rest.len() - name.len() + end]),
        }
        rest = &name[end..];
    }
    (!out.is_empty()).then(|| out + rest)
}

/// Returns a name for a folder that no folder in `folders` uses, ignoring case.
fn free_name(path: &Path, folders: &[AddedFolder]) -> String {
    let name = safe_name(path);
    let is_free = |name: &String| !folders.iter().any(|folder| folder.name().to_lowercase() == name.to_lowercase());
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or(name)
}

/// Converts the last part of a path to characters that are valid in names.
fn safe_name(path: &Path) -> String {
    let base = path.file_name().unwrap_or_default().to_string_lossy();
    let safe: String = base.chars().map(|letter| if is_name_character(letter) { letter } else { '-' }).collect();
    let safe = safe.trim_matches(['-', '.']);
    let safe = &safe[..safe.floor_char_boundary(MAX_FOLDER_NAME - SUFFIX)];
    if safe.is_empty() { "folder".to_owned() } else { safe.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(path: &str, writable: bool) -> Mount {
        Mount { path: path.into(), writable }
    }

    fn added(paths: &[&str]) -> Vec<String> {
        let with = Mounts::default().with(paths.iter().map(|path| mount(path, false)).collect()).unwrap();
        with.into_iter().map(|folder| folder.at).collect()
    }

    #[test]
    fn mount_names_follow_folder_names_if_safe() {
        for (path, name) in [
            ("/a/lib", "/folders/lib"),
            ("/a/my notes", "/folders/my-notes"),
            ("/a/报告", "/folders/报告"),
            ("/a/x\ny", "/folders/x-y"),
            ("/a/.config", "/folders/config"),
            ("/a/-rf", "/folders/rf"),
            ("/a/$(id)", "/folders/id"),
            ("/a/...", "/folders/folder"),
            ("/", "/folders/folder"),
        ] {
            assert_eq!(added(&[path]), [name], "{path:?}");
        }
        assert_eq!(added(&["/a/lib", "/b/lib", "/c/Lib"]), ["/folders/lib", "/folders/lib-2", "/folders/Lib-3"]);
        let long = format!("/a/{}", "报".repeat(80));
        assert!(AddedFolder::is_name(added(&[&long, &long.replace("/a", "/b")])[1].trim_start_matches("/folders/")));
    }

    #[test]
    fn mount_names_in_text_become_real_paths() {
        let folders =
            Mounts::default().with(vec![mount("/home/me/.kube", false), mount("/srv/my lib", false)]).unwrap();
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(with_real_paths(text, &folders).as_deref(), expected, "{text}");
        };
        check("/folders/kube/config", Some("/home/me/.kube/config"));
        check("folders/kube/config", Some("/home/me/.kube/config"));
        check("/folders/.//kube", Some("/home/me/.kube"));
        check("--- a/folders/my-lib/x\n+++ b/folders/my-lib/x", Some("--- a/srv/my lib/x\n+++ b/srv/my lib/x"));
        check("a folders/kube", Some("a folders/kube"));
        check("/folders/kubeb /folders/kube", Some("/folders/kubeb /home/me/.kube"));
        check("/folders/", Some("/folders/"));
        check("/project/x", None);
        assert!(
            folders[0].is_named_in("x: cat /folders/kube/a") && !folders[0].is_named_in("x: cat /folders/kube-2/a")
        );
    }

    #[test]
    fn overlapping_or_too_many_mounts_are_rejected() {
        let check = |project: &str, added: &[&str], part: &str| {
            let mounts = Mounts::from(Some(mount(project, true)));
            let refused = mounts.with(added.iter().map(|path| mount(path, true)).collect()).unwrap_err();
            assert!(refused.to_string().contains(part), "{refused}");
            assert!(refused.hint().is_some());
        };
        check("/a", &["/a"], "is already the project");
        check("/a", &["/a/b"], "and the project /a overlap");
        check("/a/b", &["/a"], "and the project /a/b overlap");
        check("/a", &["/x", "/x/y"], "/x/y and /x overlap");
        check("/a", &["/x/y", "/x"], "/x and /x/y overlap");
        let many: Vec<String> = (0..=MAX_FOLDERS).map(|number| format!("/x/{number}")).collect();
        check("/a", &many.iter().map(String::as_str).collect::<Vec<_>>(), "at most 16");
        assert!(Mounts::from(Some(mount("/a", true))).with(vec![mount("/ab", true)]).is_ok());
    }
}
