//! The files of the index as the library reads them: by calls, and never as memory.
//!
//! The library would map them into memory. A mapped file that is cut short under whoever reads it ends the whole process
//! (`SIGBUS`), and no error is told; a read that comes up short is an error, after which the index is begun anew. What lies
//! where queries look often is kept by the library itself, and the rest by the system.

use std::{fs::File, io, ops::Range, path::Path, path::PathBuf, sync::Arc};

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
            Ok(ReadFile { file, length })
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

/// An open file of which parts are read.
#[derive(Debug)]
struct ReadFile {
    file: File,
    /// Bytes when it was opened: it is never written after that.
    length: usize,
}

impl HasLen for ReadFile {
    fn len(&self) -> usize {
        self.length
    }
}

impl FileHandle for ReadFile {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let beyond = || io::Error::new(io::ErrorKind::InvalidData, "a part beyond the end of a file was asked for");
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= self.length).ok_or_else(beyond)?;
        Ok(OwnedBytes::new(read_at(&self.file, length, range.start as u64)?))
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
