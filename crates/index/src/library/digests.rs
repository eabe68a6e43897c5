//! Which document a file is: the hash of its bytes, remembered while the file is as it was.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    num::NonZeroUsize,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use lru::LruCache;
use tokio_util::sync::CancellationToken;

use crate::index::{ContentHash, folder::private};

/// Files that are remembered at the most, of about 200 bytes each.
const MAX_KNOWN: NonZeroUsize = match NonZeroUsize::new(100_000) {
    Some(most) => most,
    None => NonZeroUsize::MIN,
};
/// A file that was changed less than this before it was looked at may be changed again without its time's telling.
const SETTLED: Duration = Duration::from_secs(2);

/// Hashes of files.
#[derive(Debug, Clone)]
pub(super) struct Digests(Arc<Mutex<Hashes>>);

impl Default for Digests {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(MAX_KNOWN))))
    }
}

/// By device and number of the file.
type Hashes = LruCache<(u64, u64), (Stamp, ContentHash)>;

/// Properties that change when a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &File) -> io::Result<((u64, u64), Self)> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let stamp = Self {
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        };
        Ok(((found.dev(), found.ino()), stamp))
    }

    /// Returns whether the next change will show.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let last = u64::try_from(self.modified.0.max(self.changed.0)).unwrap_or_default();
        now.saturating_sub(last) > SETTLED.as_secs()
    }
}

impl Digests {
    /// The hash of what a file holds, of which at most so many bytes are read. Blocks, until that is done or nobody waits for it.
    /// The position in the file stays where it was.
    pub(super) fn of(&self, file: &File, most: u64, cancel: &CancellationToken) -> Result<ContentHash, DigestError> {
        let (identity, stamp) = Stamp::of(file)?;
        if stamp.size > most {
            return Err(DigestError::TooLarge);
        }
        if let Some((known, hash)) = self.lock().peek(&identity)
            && *known == stamp
        {
            return Ok(*hash);
        }
        let is_settled = stamp.is_settled();
        // It may grow while it is read.
        let mut rest = AwaitedReader { inner: At { file, position: 0 }, cancel }.take(most.saturating_add(1));
        let hash = ContentHash::read(&mut rest)?;
        if rest.limit() == 0 {
            return Err(DigestError::TooLarge);
        }
        if is_settled && Stamp::of(file)?.1 == stamp {
            let mut known = self.lock();
            known.put(identity, (stamp, hash));
        }
        Ok(hash)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Hashes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy of a file without a name, in `folder`, of at most so many bytes and one more, and the hash of the copy. Blocks.
/// The bytes that are read are those that were hashed, whoever writes to the file meanwhile: the index is shared, and must not be told
/// lies of others' documents.
pub(super) fn copy(
    file: &File,
    folder: &Path,
    most: u64,
    cancel: &CancellationToken,
) -> io::Result<(ContentHash, File)> {
    Stamp::of(file)?;
    private(folder)?;
    let mut copy = tempfile::tempfile_in(folder)?;
    io::copy(&mut AwaitedReader { inner: At { file, position: 0 }, cancel }.take(most.saturating_add(1)), &mut copy)?;
    copy.flush()?;
    let hash = ContentHash::read(AwaitedReader { inner: At { file: &copy, position: 0 }, cancel })?;
    copy.rewind()?;
    Ok((hash, copy))
}

/// Why nobody knows which document a file is.
#[derive(Debug)]
pub(super) enum DigestError {
    /// It is longer than any document that is read.
    TooLarge,
    /// It could not be read, or nobody waited for it any more.
    Io(io::Error),
}

impl From<io::Error> for DigestError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A reader that fails once nobody waits for it.
struct AwaitedReader<'a, R> {
    inner: R,
    cancel: &'a CancellationToken,
}

impl<R: io::Read> io::Read for AwaitedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("nothing waits for it"));
        }
        self.inner.read(buffer)
    }
}

/// A file read from its beginning, wherever others read it.
struct At<'a> {
    file: &'a File,
    position: u64,
}

impl io::Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_however_soon_it_comes_and_a_copy_stays_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let digests = Digests::default();
        let file = File::open(&path).unwrap();
        let cancel = CancellationToken::new();
        assert_eq!(digests.of(&file, 100, &cancel).unwrap(), ContentHash::of(b"one"));
        let (hash, mut copied) = copy(&file, &folder.path().join("copies"), 100, &cancel).unwrap();
        // In place, so that it is the same file.
        std::fs::write(&path, "two").unwrap();
        assert_eq!(digests.of(&file, 100, &cancel).unwrap(), ContentHash::of(b"two"));
        let mut told = String::new();
        copied.read_to_string(&mut told).unwrap();
        assert_eq!((told.as_str(), hash), ("one", ContentHash::of(b"one")));
        assert!(digests.of(&File::open(folder.path()).unwrap(), 100, &cancel).is_err(), "a folder is no document");
        assert!(matches!(digests.of(&file, 2, &cancel), Err(DigestError::TooLarge)));
        cancel.cancel();
        std::fs::write(&path, "three").unwrap();
        assert!(matches!(digests.of(&file, 100, &cancel), Err(DigestError::Io(_))));
        assert!(copy(&file, &folder.path().join("copies"), 100, &cancel).is_err());
    }
}
