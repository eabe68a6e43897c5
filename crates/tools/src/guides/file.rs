//! One file: opened safely, read in part, and not read again while it is as it was.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use nix::unistd::geteuid;
use rustix::fs::{CWD, Mode, OFlags, openat};
use sha2::{Digest as _, Sha256};

use crate::{
    encoding::{Document, detect},
    workspace::exact,
};

/// Files that are remembered at the most.
const MAX_KNOWN: usize = 512;
/// A file that was changed less than this before it was looked at may be changed again without its time's telling.
const SETTLED: Duration = Duration::from_secs(2);

/// What was read before, by path.
#[derive(Debug, Default)]
pub(super) struct Known {
    files: Mutex<HashMap<PathBuf, (Stamp, Arc<Read>)>>,
}

/// What was read of a file.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) text: String,
    /// Its whole size.
    pub(super) bytes: u64,
    pub(super) digest: String,
    /// The same for the same file, whatever its name.
    pub(super) identity: (u64, u64),
}

/// What changes when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    identity: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    most: usize,
    /// Whether all that can be trusted.
    settled: bool,
}

impl Known {
    /// The first `most` bytes of a plain file of this user. None where there is no such file. Nobody waits for somebody
    /// else's disk: what is known is locked only while it is looked at.
    pub(super) fn read(&self, path: &Path, follow: bool, most: usize) -> Option<Arc<Read>> {
        match self.refreshed(path, follow, most) {
            Ok(read) => Some(read),
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                    tracing::info!("{} is left out: {error}", path.display());
                }
                None
            }
        }
    }

    fn refreshed(&self, path: &Path, follow: bool, most: usize) -> io::Result<Arc<Read>> {
        let file = open(path, follow)?;
        let stamp = stamp(&file, most)?;
        if let Some((known, read)) = self.files().get(path)
            && *known == stamp
            && stamp.settled
        {
            return Ok(Arc::clone(read));
        }
        let read = Arc::new(read(file, stamp)?);
        let mut files = self.files();
        if files.len() >= MAX_KNOWN {
            files.clear();
        }
        files.insert(path.to_path_buf(), (stamp, Arc::clone(&read)));
        Ok(read)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, (Stamp, Arc<Read>)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens it without waiting for anybody, as opening a pipe would.
fn open(path: &Path, follow: bool) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = if follow { openat(CWD, path, flags, Mode::empty())? } else { exact::open(path, flags)? };
    Ok(File::from(opened))
}

fn stamp(file: &File, most: usize) -> io::Result<Stamp> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    if found.uid() != geteuid().as_raw() {
        return Err(io::Error::other("it belongs to somebody else"));
    }
    let age = found.modified().ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    Ok(Stamp {
        identity: (found.dev(), found.ino()),
        size: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
        most,
        settled: age.is_some_and(|age| age > SETTLED),
    })
}

fn read(file: File, stamp: Stamp) -> io::Result<Read> {
    let mut bytes = Vec::new();
    let most = u64::try_from(stamp.most).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut bytes)?;
    let whole = stamp.size <= most;
    let charset = detect(&bytes, whole).map_err(|what| io::Error::other(format!("it is {what}")))?;
    let digest = Sha256::digest(&bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut text = Document::decode(bytes, charset).text().to_owned();
    // The last character may have been cut in two.
    while !whole && text.ends_with(char::REPLACEMENT_CHARACTER) {
        text.pop();
    }
    text.retain(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    Ok(Read { text, bytes: stamp.size, digest, identity: stamp.identity })
}
