//! Ensures that only one daemon uses a data folder, because two daemons would both write the journal.
//!
//! - [`take`]: a lock file that only one process can hold, and that names this process.
//! - [`FolderLock`]: the lock of the data folder. The folder itself is also locked, so that removing the lock file does
//!   not admit a second daemon. A removed lock file is created again, because clients use it to find the daemon.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use agentd_proto::lock_file::{self, LOCK_FILE, LockRecord};

use crate::failure::Failure;

/// Hint if locking fails because the folder is not writable.
const HINT: &str = "make the folder writable and free some disk space, or set AGENTD_DATA_DIR to another one";

/// Takes a lock and writes the process ID into the lock file.
///
/// The lock is held as long as the file is open. The kernel releases the lock when the process ends for any reason, so
/// a stale lock file is harmless. The file is never removed: otherwise, two daemons could lock two files with the same
/// name.
///
/// # Errors
/// Fails if another daemon holds the lock, or if the file cannot be written.
pub fn take(path: &Path) -> Result<File, Failure> {
    let lock = take_unnamed(path)?;
    write(&lock, None).map_err(|error| broken(path, error))?;
    Ok(lock)
}

/// Takes the lock without writing to the file.
fn take_unnamed(path: &Path) -> Result<File, Failure> {
    let file = open(path, false).map_err(|error| broken(path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(already_running(path, LockRecord::read(&file))),
        Err(TryLockError::Error(error)) => Err(broken(path, error)),
    }
}

/// Writes the record of the lock's holder. The new record overwrites the old one before the remaining bytes are
/// truncated: concurrent readers always read whole lines, and a full disk needs no additional space.
fn write(lock: &File, socket: Option<&Path>) -> io::Result<()> {
    let record = LockRecord { pid: std::process::id(), socket: socket.map(Path::to_owned) }.to_bytes();
    lock.write_all_at(&record, 0)?;
    lock.set_len(record.len() as u64)
}

/// Returns true if `found` is the metadata of this file.
fn is_at(file: &File, found: io::Result<fs::Metadata>) -> bool {
    match (file.metadata(), found) {
        (Ok(ours), Ok(found)) => (ours.dev(), ours.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Lock on the data folder and its lock file.
#[derive(Debug)]
pub struct FolderLock {
    /// Path of the data folder.
    path: PathBuf,
    folder: File,
    lock: File,
    socket: Option<PathBuf>,
}

/// State of the lock file.
#[derive(Debug, PartialEq, Eq)]
pub enum LockState {
    /// The lock file is in place.
    InPlace,
    /// The lock file was missing and has been created again.
    Recreated,
    /// The data folder itself was moved or removed.
    FolderGone,
}

impl FolderLock {
    /// Locks a data folder and its lock file.
    ///
    /// # Errors
    /// Fails if another daemon holds one of the two locks, or if the folder or the file cannot be locked.
    pub fn take(data: &Path) -> Result<Self, Failure> {
        let path = data.join(LOCK_FILE);
        let lock = take_unnamed(&path)?;
        let folder = File::open(data).map_err(|error| broken(data, error))?;
        match folder.try_lock() {
            Ok(()) => {}
            // The other daemon's lock file was removed, so the locked file is a new one.
            Err(TryLockError::WouldBlock) => return Err(already_running(data, None)),
            // Some network file systems cannot lock folders. The lock on the file is sufficient.
            Err(TryLockError::Error(error)) => tracing::warn!("could not lock the data folder itself: {error}"),
        }
        name_holder(&lock);
        write(&lock, None).map_err(|error| broken(&path, error))?;
        Ok(Self { path: data.to_owned(), folder, lock, socket: None })
    }

    /// Publishes the daemon's socket path to clients.
    ///
    /// # Errors
    /// Fails if the lock file cannot be written.
    pub fn publish_socket(&mut self, socket: &Path) -> io::Result<()> {
        self.socket = Some(socket.to_owned());
        write(&self.lock, Some(socket))
    }

    /// Checks that the lock file is in place, and creates it again if it is missing.
    ///
    /// # Errors
    /// Fails if the lock file cannot be created. The next check retries.
    pub fn check(&mut self) -> io::Result<LockState> {
        if !is_at(&self.folder, fs::metadata(&self.path)) {
            return Ok(LockState::FolderGone);
        }
        let path = self.path.join(LOCK_FILE);
        if is_at(&self.lock, fs::symlink_metadata(&path)) {
            return Ok(LockState::InPlace);
        }
        // The file is locked and complete before it gets its final name.
        let temporary = self.path.join(format!("{LOCK_FILE}.{}", std::process::id()));
        let recreated = create_locked(&temporary, self.socket.as_deref())
            .and_then(|lock| fs::rename(&temporary, &path).map(|()| lock));
        if recreated.is_err() {
            // The file may not exist if creating it failed.
            let _ = fs::remove_file(&temporary);
        }
        self.lock = recreated?;
        Ok(LockState::Recreated)
    }
}

fn create_locked(path: &Path, socket: Option<&Path>) -> io::Result<File> {
    let lock = open(path, true)?;
    lock.try_lock()?;
    name_holder(&lock);
    write(&lock, socket)?;
    Ok(lock)
}

/// Makes the kernel report the daemon's process ID to clients. On failure, clients fall back to the well-known socket
/// paths.
fn name_holder(lock: &File) {
    if let Err(error) = lock_file::hold(lock) {
        tracing::warn!("clients cannot read the daemon's pid from the kernel: {error}");
    }
}

fn open(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(truncate)
        .read(true)
        .write(true)
        .mode(0o600)
        // Following a symbolic link could overwrite another file.
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path)
}

fn broken(path: &Path, error: io::Error) -> Failure {
    Failure::broken(format!("could not lock {}", path.display())).with_source(error).with_hint(HINT)
}

/// Builds the error for a lock that another daemon holds. The process ID is unknown if that daemon has not written it
/// yet.
fn already_running(path: &Path, record: Option<LockRecord>) -> Failure {
    let holder = record.map(|record| format!("(pid {}) ", record.pid)).unwrap_or_default();
    Failure::broken(format!("agentd is already running {holder}with the lock {}", path.display()))
        .with_hint("`agentctl status` shows it and `agentctl stop` ends it; set AGENTD_DATA_DIR and AGENTD_SOCKET to run a second one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_data_folder_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        let mut lock = FolderLock::take(&data).unwrap();
        fs::rename(&data, folder.path().join("moved")).unwrap();
        assert_eq!(lock.check().unwrap(), LockState::FolderGone);
        fs::create_dir(&data).unwrap();
        assert_eq!(lock.check().unwrap(), LockState::FolderGone);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }
}
