//! The files of the index as the library reads them: by calls, and never as memory.
//!
//! The library would map them into memory. A mapped file that is cut short under whoever reads it ends the whole process
//! (`SIGBUS`), and no error is told; a read that comes up short is an error, after which the index is begun anew. The terms are
//! kept by the library itself. What it asks for again with every query, as mapped it would cost nothing, is kept here, and
//! the rest by the system.

use std::{
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tantivy::{
    HasLen,
    directory::{
        Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, OwnedBytes, WatchCallback, WatchHandle, WritePtr,
        error::{DeleteError, LockError, OpenDirectoryError, OpenReadError, OpenWriteError},
    },
};

/// The library's own folder in everything but how files are read.
#[derive(Debug, Clone)]
pub(crate) struct ReadFolder {
    path: PathBuf,
    inner: MmapDirectory,
}

impl ReadFolder {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenDirectoryError> {
        Ok(Self { path: path.to_owned(), inner: MmapDirectory::open(path)? })
    }
}

impl Directory for ReadFolder {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let open = || {
            let file = File::open(self.path.join(path))?;
            let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            let is_kept = path.extension().is_some_and(|extension| extension == KEPT);
            Ok(ReadFile { file, length, is_kept, whole: OnceLock::new(), ahead: Mutex::default() })
        };
        let opened = open().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
            _ => OpenReadError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(Arc::new(opened))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.inner.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.inner.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        self.inner.open_write(path)
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.inner.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.inner.atomic_write(path, data)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.inner.acquire_lock(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.inner.watch(callback)
    }
}

/// Extension of the files with the length of each field of each chunk, a byte for each: every query reads most of
/// these, once for every word.
const KEPT: &str = "fieldnorm";
/// Parts that are shorter are read together with what is behind them, when they are asked for one after the other.
const SHORT: usize = 1024;
/// Bytes that are read ahead.
const AHEAD: usize = 16 * 1024;

/// An open file of which parts are read.
#[derive(Debug)]
struct ReadFile {
    file: File,
    /// Bytes when it was opened: it is never written after that.
    length: usize,
    /// Set if all of it stays in memory once a part was asked for that is not short, as long as it is open.
    is_kept: bool,
    whole: OnceLock<OwnedBytes>,
    ahead: Mutex<Ahead>,
}

/// Bytes that were read ahead. A query for words that begin in some way reads thousands of places that lie one after
/// the other, most of them a few bytes long.
#[derive(Debug)]
struct Ahead {
    /// Where the last short part ended.
    end: usize,
    /// Where the bytes begin in the file.
    start: usize,
    bytes: OwnedBytes,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { end: usize::MAX, start: 0, bytes: OwnedBytes::empty() }
    }
}

impl Ahead {
    fn get(&self, range: &Range<usize>) -> Option<OwnedBytes> {
        let (start, end) = (range.start.checked_sub(self.start)?, range.end.checked_sub(self.start)?);
        (end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

impl ReadFile {
    fn read(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        Ok(OwnedBytes::new(read_at(&self.file, range.len(), range.start as u64)?))
    }

    /// All of the file, read once.
    fn whole(&self) -> io::Result<&OwnedBytes> {
        match self.whole.get() {
            Some(whole) => Ok(whole),
            // Who is second keeps what the first one read.
            None => self.read(0..self.length).map(|whole| self.whole.get_or_init(|| whole)),
        }
    }

    fn read_short(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let ahead = || self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, follows) = {
            let mut ahead = ahead();
            (ahead.get(&range), std::mem::replace(&mut ahead.end, range.end) == range.start)
        };
        if let Some(bytes) = known {
            return Ok(bytes);
        }
        if !follows {
            return self.read(range);
        }
        let bytes = self.read(range.start..self.length.min(range.start + AHEAD))?;
        let part = bytes.slice(0..range.len());
        *ahead() = Ahead { end: range.end, start: range.start, bytes };
        Ok(part)
    }
}

impl HasLen for ReadFile {
    fn len(&self) -> usize {
        self.length
    }
}

impl FileHandle for ReadFile {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        if range.start > range.end || range.end > self.length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a part beyond the end of a file was asked for"));
        }
        if range.len() < SHORT {
            return self.read_short(range);
        }
        if self.is_kept { self.whole().map(|whole| whole.slice(range)) } else { self.read(range) }
    }
}

/// So many bytes of a file. Nothing is written where they will stand before they are read: a query reads megabytes.
#[cfg(unix)]
fn read_at(file: &File, length: usize, from: u64) -> io::Result<Vec<u8>> {
    use rustix::{
        buffer::spare_capacity,
        io::{Errno, pread},
    };
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let next = from + bytes.len() as u64;
        match pread(file, spare_capacity(&mut bytes), next) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // There may have been room for more.
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(not(unix))]
fn read_at(file: &File, length: usize, from: u64) -> io::Result<Vec<u8>> {
    use std::io::{Read as _, Seek as _};
    let (mut file, mut bytes) = (file.try_clone()?, vec![0; length]);
    file.seek(io::SeekFrom::Start(from))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
