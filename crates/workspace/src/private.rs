//! Files, folders and JSON records that only the daemon's user can access.

use std::{fs, io, io::Write as _, os::unix::fs as unix, path::Path};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, OpenOptions, OpenOptionsExt as _};
use serde::{Serialize, de::DeserializeOwned};

/// Maximum size of a record, in bytes.
const MAX_RECORD: u64 = 64 << 20;

/// Reads a record.
///
/// # Errors
/// Fails if the record is missing or cannot be read.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_RECORD {
        return Err(io::Error::other("not a regular file, or too large"));
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Stores a record in a folder. The write is atomic, and durable once this function returns.
///
/// # Errors
/// Fails if writing fails.
pub fn store(folder: &Path, name: &str, record: &impl Serialize) -> io::Result<()> {
    self::folder(folder)?;
    let draft = folder.join(format!(".draft-{}", uuid::Uuid::new_v4().simple()));
    let written = write(&draft, &serde_json::to_vec_pretty(record)?, false)
        .and_then(|()| fs::rename(&draft, folder.join(name)))
        .and_then(|()| fs::File::open(folder)?.sync_all());
    if written.is_err() {
        // Leftover drafts are not read.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Creates a folder, and its parents, that only its owner can access.
pub fn folder(path: &Path) -> io::Result<()> {
    unix::DirBuilderExt::mode(fs::DirBuilder::new().recursive(true), 0o700).create(path)
}

/// Creates a folder in an open folder. Only its owner can access the new folder.
pub fn folder_in(parent: &Dir, name: impl AsRef<Path>) -> io::Result<()> {
    parent.create_dir_with(name, DirBuilder::new().mode(0o700))
}

/// Creates a file in an open folder for writing.
pub fn file_in(folder: &Dir, name: impl AsRef<Path>, mode: u32) -> io::Result<fs::File> {
    Ok(folder.open_with(name, OpenOptions::new().write(true).create_new(true).mode(mode))?.into_std())
}

/// Writes a new file that only its owner can access; `runs` makes the file executable.
pub fn write(path: &Path, content: &[u8], runs: bool) -> io::Result<()> {
    let mode = if runs { 0o700 } else { 0o600 };
    let mut options = fs::OpenOptions::new();
    let mut file = unix::OpenOptionsExt::mode(options.write(true).create_new(true), mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}
