//! Folders of others that are used only as the person has agreed to them: the hash over their files, the record of what was
//! agreed to, and what becomes of the daemon's copies. `trusted.json` and `installed.json` are such records; no tool sees them.

use std::{fs, io, path::Path};

pub(crate) use agentd_core::held::lock;
use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    project::{ProjectChange, ProjectChangeKind, ProjectFile, ProjectProblem},
};
use agentd_workspace::{exact, jail, private, remove, text::hex};
use cap_std::fs::Dir;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Prefix of copies that are not whole yet.
pub(crate) const DRAFT: &str = ".draft-";

/// Record of a person's consent to one folder.
pub(crate) trait Agreement: Clone + Serialize + DeserializeOwned {
    /// Name of the file that lists all of them, and of its list.
    const FILE: [&'static str; 2];
    /// Type by which one is found.
    type Key: PartialEq + ?Sized;

    /// The path or name that it is about.
    fn key(&self) -> &Self::Key;

    /// Name of the daemon's copy, beside the file.
    fn folder(&self) -> &str;

    /// The files as they were then.
    fn files(&self) -> &[ProjectFile];

    /// Differences of these files from the recorded ones, sorted by path.
    fn changes(&self, now: &[ProjectFile]) -> Vec<ProjectChange> {
        let agreed = self.files();
        let known = |files: &[ProjectFile], path: &str| files.iter().find(|file| file.path == path).cloned();
        let change = |path: &str, kind| ProjectChange { path: path.to_owned(), kind };
        let new = now.iter().filter_map(|file| match known(agreed, &file.path) {
            None => Some(change(&file.path, ProjectChangeKind::Added)),
            Some(before) => (before != *file).then(|| change(&file.path, ProjectChangeKind::Changed)),
        });
        let gone = agreed.iter().filter(|file| known(now, &file.path).is_none());
        let gone = gone.map(|file| change(&file.path, ProjectChangeKind::Removed));
        let mut changes: Vec<ProjectChange> = new.chain(gone).collect();
        changes.sort_by(|left, right| left.path.cmp(&right.path));
        changes
    }
}

/// All agreements of one kind, in the order in which they were made.
#[derive(Debug, Clone)]
pub(crate) struct Agreements<A>(pub(crate) Vec<A>);

impl<A> Default for Agreements<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A: Agreement> Agreements<A> {
    /// Those that are stored in this folder.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub(crate) fn load(folder: &Path) -> io::Result<Self> {
        let [file, list] = A::FILE;
        match private::read::<Map<String, Value>>(&folder.join(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            read => Ok(Self(serde_json::from_value(read?.remove(list).unwrap_or_default())?)),
        }
    }

    /// That about this path or name.
    pub(crate) fn of(&self, key: &A::Key) -> Option<&A> {
        self.0.iter().find(|known| known.key() == key)
    }

    /// These and another one, which takes the place of an earlier one.
    pub(crate) fn with(mut self, agreement: A) -> Self {
        match self.0.iter_mut().find(|known| known.key() == agreement.key()) {
            Some(known) => *known = agreement,
            None => self.0.push(agreement),
        }
        self
    }

    /// These without one.
    pub(crate) fn without(mut self, key: &A::Key) -> Self {
        self.0.retain(|known| known.key() != key);
        self
    }

    /// Returns whether any has this copy.
    pub(crate) fn need(&self, folder: &str) -> bool {
        self.0.iter().any(|known| known.folder() == folder)
    }

    /// Stores them: durable when it returns, and never half of them.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub(crate) fn store(&self, folder: &Path) -> io::Result<()> {
        let [file, list] = A::FILE;
        private::store(folder, file, &Map::from_iter([(list.to_owned(), serde_json::to_value(&self.0)?)]))
    }

    /// Removes copies that none needs: what an end of the daemon cut off, and what was there before. What cannot be removed
    /// only takes room.
    pub(crate) fn sweep(&self, folder: &Path) {
        // A link on the way to the data folder is the person's own.
        let Ok(folder) = &folder.canonicalize() else { return };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !self.need(&name) {
                remove_below(folder, &name);
            } else if name.starts_with(DRAFT) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Removes a folder with all that is in it. What cannot be removed only takes room.
pub(crate) fn remove_below(parent: &Path, name: &str) {
    let Ok(opened) = exact::open_folder(parent) else { return };
    let parent = Dir::from_std_file(opened.into());
    if let Ok(folder) = jail::open_real_folder(&parent, name) {
        let removed = remove::empty(&folder).and_then(|()| parent.remove_dir(name));
        if let Err(error) = removed {
            tracing::warn!("what is left of the folder {name} cannot be removed: {error}");
        }
    }
}

/// A file that is hashed: its path, whether its owner may run it, its size, and what stands for its content.
pub(crate) type HashedFile<'a> = (&'a str, bool, u64, &'a [u8]);

/// Hash over files, in hexadecimal digits. Lengths stand before what varies, so that no two sets of files have the same input;
/// the order in which the disk lists them makes no difference. `form` marks what is hashed.
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

/// Hash of one file's content.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Problems of the files of a folder.
pub(crate) trait ProblemList {
    /// Adds one for which a part is not used.
    fn refuse(&mut self, file: &str, message: impl Into<String>);

    /// Adds one that does no harm.
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

/// A failure of the disk. `doing` completes the sentence "could not …".
pub(crate) fn storage(doing: &str, error: &io::Error) -> WorkspaceError {
    WorkspaceError::new(ErrorKind::Storage, format!("could not {doing}: {error}"))
        .with_hint("look at the data folder of the daemon: agentctl doctor")
}
