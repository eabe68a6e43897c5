//! The projects that the person trusts, in one file of the data folder. Only the daemon's user reads and writes it; no tool sees
//! the data folder.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use agentd_core::{
    Timestamp,
    project::{ProjectChange, ProjectChangeKind, ProjectFile},
};
use serde::{Deserialize, Serialize};

/// The file.
const FILE: &str = "trusted.json";
/// Maximum size of it, in bytes.
const MAX_FILE: u64 = 64 << 20;

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
        private_folder(folder)?;
        let draft = folder.join(format!(".draft-{}", uuid::Uuid::new_v4().simple()));
        let written = write_private(&draft, &serde_json::to_vec_pretty(self)?, false)
            .and_then(|()| fs::rename(&draft, folder.join(FILE)))
            .and_then(|()| fs::File::open(folder)?.sync_all());
        if written.is_err() {
            // Nobody reads it.
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

impl TrustRecord {
    /// Differences of these files from the trusted ones, sorted by path.
    pub(crate) fn changes(&self, now: &[ProjectFile]) -> Vec<ProjectChange> {
        let known = |files: &[ProjectFile], path: &str| files.iter().find(|file| file.path == path).cloned();
        let change = |path: &str, kind| ProjectChange { path: path.to_owned(), kind };
        let mut changes: Vec<ProjectChange> = now
            .iter()
            .filter_map(|file| match known(&self.files, &file.path) {
                None => Some(change(&file.path, ProjectChangeKind::Added)),
                Some(before) => (before != *file).then(|| change(&file.path, ProjectChangeKind::Changed)),
            })
            .collect();
        let gone = self.files.iter().filter(|file| known(now, &file.path).is_none());
        changes.extend(gone.map(|file| change(&file.path, ProjectChangeKind::Removed)));
        changes.sort_by(|left, right| left.path.cmp(&right.path));
        changes
    }
}

fn read(path: &Path) -> io::Result<TrustRecords> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(io::Error::other("it is no plain file, or too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Makes a folder that only its owner can use.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a new file that only its owner can use.
pub(crate) fn write_private(path: &Path, content: &[u8], runs: bool) -> io::Result<()> {
    let mode = if runs { 0o700 } else { 0o600 };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
