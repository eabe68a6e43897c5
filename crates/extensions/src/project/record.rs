//! The projects that the person trusts, in one file of the data folder. Only the daemon's user reads and writes it; no tool sees
//! the data folder.

use std::{
    io,
    path::{Path, PathBuf},
};

use agentd_core::{
    Timestamp,
    project::{ProjectChange, ProjectFile},
};
use agentd_workspace::agreed_files::{changes, read, store};
use serde::{Deserialize, Serialize};

/// The file.
const FILE: &str = "trusted.json";

/// Trust in one project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrustRecord {
    /// Its real path.
    pub(crate) path: PathBuf,
    /// The hash of what is trusted.
    pub(crate) hash: String,
    /// When the person did it.
    pub(crate) at: Timestamp,
    /// The client through which they did.
    pub(crate) by: String,
    /// The files then, to tell later what has changed.
    pub(crate) files: Vec<ProjectFile>,
}

/// All of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TrustRecords {
    projects: Vec<TrustRecord>,
}

impl TrustRecords {
    /// Those that are stored in this folder. A file that cannot be read trusts nothing.
    pub(crate) fn load(folder: &Path) -> Self {
        let path = folder.join(FILE);
        match read(&path) {
            Ok(records) => records,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                tracing::error!("no project is trusted, because {} cannot be read: {error}", path.display());
                Self::default()
            }
        }
    }

    /// The trust in a project.
    pub(crate) fn of(&self, project: &Path) -> Option<&TrustRecord> {
        self.projects.iter().find(|record| record.path == project)
    }

    /// These and another one, which takes the place of an earlier one.
    pub(crate) fn with(&self, record: TrustRecord) -> Self {
        let mut changed = self.without(&record.path);
        changed.projects.push(record);
        changed.projects.sort_by(|left, right| left.path.cmp(&right.path));
        changed
    }

    /// These without that of a project.
    pub(crate) fn without(&self, project: &Path) -> Self {
        Self { projects: self.projects.iter().filter(|record| record.path != project).cloned().collect() }
    }

    /// Returns whether what has this hash is trusted anywhere.
    pub(crate) fn need(&self, hash: &str) -> bool {
        self.projects.iter().any(|record| record.hash == hash)
    }

    /// Stores them: durable when it returns, and never half of them.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub(crate) fn store(&self, folder: &Path) -> io::Result<()> {
        store(folder, FILE, self)
    }
}

impl TrustRecord {
    /// Differences of these files from the trusted ones, sorted by path.
    pub(crate) fn changes(&self, now: &[ProjectFile]) -> Vec<ProjectChange> {
        changes(&self.files, now)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn file(path: &str, sha256: &str) -> ProjectFile {
        ProjectFile { path: path.to_owned(), bytes: 1, sha256: sha256.to_owned() }
    }

    fn record(path: &str, hash: &str) -> TrustRecord {
        let files = vec![file("a", "1"), file("b", "1"), file("c", "1")];
        let (hash, by) = (hash.to_owned(), "agentctl".to_owned());
        TrustRecord { path: path.into(), hash, at: Timestamp::UNIX_EPOCH, by, files }
    }

    #[test]
    fn records_are_private_and_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("projects");
        assert!(TrustRecords::load(&folder).of(Path::new("/a")).is_none());
        let records = TrustRecords::default().with(record("/b", "2")).with(record("/a", "1")).with(record("/b", "3"));
        records.store(&folder).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(FILE))), (0o700, 0o600));
        let loaded = TrustRecords::load(&folder);
        assert_eq!(loaded.of(Path::new("/b")), Some(&record("/b", "3")));
        assert!(loaded.need("1") && loaded.need("3") && !loaded.need("2"));
        assert!(loaded.of(Path::new("/b/c")).is_none(), "what lies in it is another project");
        loaded.without(Path::new("/b")).store(&folder).unwrap();
        assert!(TrustRecords::load(&folder).of(Path::new("/b")).is_none());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
        fs::write(folder.join(FILE), "{").unwrap();
        assert!(TrustRecords::load(&folder).of(Path::new("/a")).is_none(), "what cannot be read trusts nothing");
    }

    #[test]
    fn changes_are_told_file_by_file() {
        let now = [file("a", "1"), file("b", "2"), file("d", "1")];
        let changes = record("/a", "1").changes(&now);
        let changes: Vec<_> = changes.iter().map(|change| (change.path.as_str(), change.kind.as_str())).collect();
        assert_eq!(changes, [("b", "changed"), ("c", "removed"), ("d", "added")]);
    }
}
