//! Folders from other authors, used only in the version that the user agreed to: the hash over their files, the stored
//! agreements, and the cleanup of the daemon's copies. The agreements are in `trusted.json` and `installed.json`, which
//! tools cannot access.

use std::{fs, io, path::Path};

pub(crate) use agentd_core::mutex::lock;
use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    project::{ProjectChange, ProjectChangeKind, ProjectFile, ProjectProblem},
};
use agentd_workspace::{exact, jail, private, remove, text::hex};
use cap_std::fs::Dir;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Name prefix of incomplete copies.
pub(crate) const DRAFT: &str = ".draft-";

/// Record of the user's consent to one folder.
pub(crate) trait Agreement: Clone + Serialize + DeserializeOwned {
    /// Name of the file with all records, and of the list in that file.
    const FILE: [&'static str; 2];
    /// Type of the key.
    type Key: PartialEq + ?Sized;

    /// Returns the path or name that identifies the record.
    fn key(&self) -> &Self::Key;

    /// Returns the name of the daemon's copy, which is next to the file.
    fn folder(&self) -> &str;

    /// Returns the files at the time of the agreement.
    fn files(&self) -> &[ProjectFile];

    /// Returns the differences between the files `now` and the recorded files, sorted by path.
    fn changes(&self, now: &[ProjectFile]) -> Vec<ProjectChange> {
        let agreed = self.files();
        let find = |files: &[ProjectFile], path: &str| files.iter().find(|file| file.path == path).cloned();
        let change = |path: &str, kind| ProjectChange { path: path.to_owned(), kind };
        let new = now.iter().filter_map(|file| match find(agreed, &file.path) {
            None => Some(change(&file.path, ProjectChangeKind::Added)),
            Some(before) => (before != *file).then(|| change(&file.path, ProjectChangeKind::Changed)),
        });
        let removed = agreed.iter().filter(|file| find(now, &file.path).is_none());
        let removed = removed.map(|file| change(&file.path, ProjectChangeKind::Removed));
        let mut changes: Vec<ProjectChange> = new.chain(removed).collect();
        changes.sort_by(|left, right| left.path.cmp(&right.path));
        changes
    }
}

/// All agreements of one kind, oldest first.
#[derive(Debug, Clone)]
pub(crate) struct Agreements<A>(pub(crate) Vec<A>);

impl<A> Default for Agreements<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A: Agreement> Agreements<A> {
    /// Loads the agreements in this folder.
    ///
    /// # Errors
    /// Fails if the file exists but cannot be read.
    pub(crate) fn load(folder: &Path) -> io::Result<Self> {
        let [file, list] = A::FILE;
        match private::read::<Map<String, Value>>(&folder.join(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            read => Ok(Self(serde_json::from_value(read?.remove(list).unwrap_or_default())?)),
        }
    }

    /// Returns the agreement with this key.
    pub(crate) fn of(&self, key: &A::Key) -> Option<&A> {
        self.0.iter().find(|record| record.key() == key)
    }

    /// Adds an agreement, replacing an earlier agreement with the same key.
    pub(crate) fn with(mut self, agreement: A) -> Self {
        match self.0.iter_mut().find(|record| record.key() == agreement.key()) {
            Some(record) => *record = agreement,
            None => self.0.push(agreement),
        }
        self
    }

    /// Removes the agreement with this key.
    pub(crate) fn without(mut self, key: &A::Key) -> Self {
        self.0.retain(|record| record.key() != key);
        self
    }

    /// Returns true if an agreement uses this copy.
    pub(crate) fn uses_copy(&self, folder: &str) -> bool {
        self.0.iter().any(|record| record.folder() == folder)
    }

    /// Stores the agreements. The write is atomic, and durable once this returns.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) fn store(&self, folder: &Path) -> io::Result<()> {
        let [file, list] = A::FILE;
        private::store(folder, file, &Map::from_iter([(list.to_owned(), serde_json::to_value(&self.0)?)]))
    }

    /// Removes unneeded copies: leftovers of a crash, and copies of earlier versions. Failures are ignored, because
    /// such copies only take up space.
    pub(crate) fn sweep(&self, folder: &Path) {
        // Links in the path of the data folder are followed, because the user created them.
        let Ok(folder) = &folder.canonicalize() else { return };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !self.uses_copy(&name) {
                remove_below(folder, &name);
            } else if name.starts_with(DRAFT) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Removes a folder with its contents. Failures are only logged, because leftovers only take up space.
pub(crate) fn remove_below(parent: &Path, name: &str) {
    let Ok(opened) = exact::open_folder(parent) else { return };
    let parent = Dir::from_std_file(opened.into());
    if let Ok(folder) = jail::open_real_folder(&parent, name) {
        let removed = remove::empty(&folder).and_then(|()| parent.remove_dir(name));
        if let Err(error) = removed {
            tracing::warn!("could not remove the folder {name} completely: {error}");
        }
    }
}

/// File to be hashed: its path, the executable bit of its owner, its size, and its content or a digest of the content.
pub(crate) type HashedFile<'a> = (&'a str, bool, u64, &'a [u8]);

/// Returns the hash over files, as hexadecimal digits. Variable parts are preceded by their lengths, so that no two
/// sets of files have the same input. The order of the files does not matter. `form` identifies the format of the
/// input.
pub(crate) fn hash<'a>(form: &[u8], files: impl Iterator<Item = HashedFile<'a>>) -> String {
    let mut files: Vec<HashedFile<'_>> = files.collect();
    files.sort_by_key(|(path, ..)| *path);
    let mut digest = Sha256::new();
    digest.update(form);
    for (path, runs, size, content) in files {
        digest.update((path.len() as u64).to_le_bytes());
        digest.update(path.as_bytes());
        digest.update([u8::from(runs)]);
        digest.update(size.to_le_bytes());
        digest.update(content);
    }
    hex(&digest.finalize())
}

/// Returns the hash of a file's content.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Problems with the files of a folder.
pub(crate) trait ProblemList {
    /// Adds a problem that prevents the use of a part.
    fn refuse(&mut self, file: &str, message: impl Into<String>);

    /// Adds a harmless problem.
    fn note(&mut self, file: &str, message: impl Into<String>);
}

impl ProblemList for Vec<ProjectProblem> {
    fn refuse(&mut self, file: &str, message: impl Into<String>) {
        self.push(ProjectProblem { file: file.to_owned(), message: message.into(), is_fatal: true });
    }

    fn note(&mut self, file: &str, message: impl Into<String>) {
        self.push(ProjectProblem { file: file.to_owned(), message: message.into(), is_fatal: false });
    }
}

/// Builds the error for a failed disk access. `doing` completes the sentence "could not …".
pub(crate) fn storage(doing: &str, error: &io::Error) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Storage, format!("could not {doing}: {error}"))
        .with_hint("check the daemon's data folder: agentctl doctor")
}
