//! Files of others that the person has agreed to: the record of them in the data folder, which only the daemon's user reads and
//! writes, and what has changed in them since.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use agentd_core::project::{ProjectChange, ProjectChangeKind, ProjectFile};
use serde::{Serialize, de::DeserializeOwned};

/// Maximum size of a record, in bytes.
const MAX_RECORD: u64 = 64 << 20;

/// Reads a record.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_RECORD {
        return Err(io::Error::other("it is no plain file, or too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Stores a record in its folder: durable when it returns, and never half of it.
///
/// # Errors
/// When the disk does not take it.
pub fn store(folder: &Path, name: &str, record: &impl Serialize) -> io::Result<()> {
    private_folder(folder)?;
    let draft = folder.join(format!(".draft-{}", uuid::Uuid::new_v4().simple()));
    let written = write_private(&draft, &serde_json::to_vec_pretty(record)?, false)
        .and_then(|()| fs::rename(&draft, folder.join(name)))
        .and_then(|()| fs::File::open(folder)?.sync_all());
    if written.is_err() {
        // Nobody reads it.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Differences of files from those that were agreed to, sorted by path.
pub fn changes(agreed: &[ProjectFile], now: &[ProjectFile]) -> Vec<ProjectChange> {
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

/// Makes a folder that only its owner can use.
pub fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a new file that only its owner can use.
pub fn write_private(path: &Path, content: &[u8], runs: bool) -> io::Result<()> {
    let mode = if runs { 0o700 } else { 0o600 };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
