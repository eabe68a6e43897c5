//! The contents that changes of one session go between, in the order in which they were recorded: as long as they are
//! listed here, they are kept.
//!
//! ```text
//! {session}/kept     hash and size of each, 40 bytes
//! ```

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use agentd_core::tool::FileChange;

use super::blobs::{self, Hash};

const NAME: &str = "kept";
const RECORD: usize = 40;

/// Adds contents, and returns when that is on the disk.
pub(super) fn add(session: &Path, contents: &[(Hash, u64)]) -> io::Result<()> {
    if contents.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(contents.len() * RECORD);
    for (hash, size) in contents {
        bytes.extend_from_slice(hash);
        bytes.extend_from_slice(&size.to_le_bytes());
    }
    let mut file = File::options().append(true).create(true).mode(0o600).open(session.join(NAME))?;
    // A crash may have left half a record.
    let torn = file.metadata()?.len() % RECORD as u64;
    if torn > 0 {
        file.set_len(file.metadata()?.len() - torn)?;
    }
    file.write_all(&bytes)?;
    file.sync_data()
}

/// All of them, the oldest first.
pub(super) fn read(session: &Path) -> io::Result<Vec<(Hash, u64)>> {
    let bytes = match fs::read(session.join(NAME)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let record = |record: &[u8]| {
        let size = record[32..].try_into().map(u64::from_le_bytes).unwrap_or_default();
        (record[..32].try_into().unwrap_or_default(), size)
    };
    Ok(bytes.chunks_exact(RECORD).map(record).collect())
}

/// When something was added last, in seconds; long ago where nothing was.
pub(super) fn age(session: &Path) -> i64 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(session.join(NAME)).map_or(i64::MIN, |metadata| metadata.mtime())
}

/// The contents that changes go between.
pub(super) fn contents_of(changes: &[FileChange]) -> Vec<(Hash, u64)> {
    let states = changes.iter().flat_map(|change| change.before.iter().chain(&change.after));
    states.filter_map(|state| Some((blobs::read_hash(&state.hash)?, state.size))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_read_also_behind_half_a_record() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), []);
        add(folder.path(), &[([1; 32], 7)]).unwrap();
        let mut file = File::options().append(true).open(folder.path().join(NAME)).unwrap();
        file.write_all(b"torn").unwrap();
        assert_eq!(read(folder.path()).unwrap(), [([1; 32], 7)]);
        add(folder.path(), &[([2; 32], 8)]).unwrap();
        assert_eq!(read(folder.path()).unwrap(), [([1; 32], 7), ([2; 32], 8)]);
    }
}
