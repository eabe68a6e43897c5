//! One daemon for a data folder: two would both believe that the journal is theirs.
//!
//! - [`take`]: a file that one process holds and that names it.
//! - [`FolderLock`]: the data folder's. The folder itself is locked too, so that a removed lock file admits
//!   no second daemon; and it is made anew, because clients find the daemon by it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use agentd_proto::lock_file::{self, LOCK_FILE, LockRecord};

use crate::failure::Failure;

/// Hint for a lock that cannot be taken for want of a disk.
const HINT: &str = "the folder must be writable and its disk not full; AGENTD_DATA_DIR names another one";

/// Takes a lock and writes the process id into its file.
///
/// It is held as long as the file is open. The kernel releases it when the process ends, however it ends, so a stale lock
/// file means nothing. The file itself stays: removing it would let two daemons lock two files of one name.
///
/// # Errors
/// Another daemon holds it, or the file cannot be written.
pub fn take(path: &Path) -> Result<File, Failure> {
    let lock = take_unnamed(path)?;
    write(&lock, None).map_err(|error| broken(path, error))?;
    Ok(lock)
}

/// Takes the lock and leaves what its file says.
fn take_unnamed(path: &Path) -> Result<File, Failure> {
    let file = open(path, false).map_err(|error| broken(path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(held(path, LockRecord::read(&file))),
        Err(TryLockError::Error(error)) => Err(broken(path, error)),
    }
}

/// Writes the holder. The new words overwrite the old ones before the rest is truncated: concurrent readers see
/// whole lines, and a full disk has had room for them before.
fn write(lock: &File, socket: Option<&Path>) -> io::Result<()> {
    let record = LockRecord { pid: std::process::id(), socket: socket.map(Path::to_owned) }.to_bytes();
    lock.write_all_at(&record, 0)?;
    lock.set_len(record.len() as u64)
}

/// Returns whether what was found is this file.
fn is_at(file: &File, found: io::Result<fs::Metadata>) -> bool {
    match (file.metadata(), found) {
        (Ok(ours), Ok(found)) => (ours.dev(), ours.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// The lock of the data folder.
#[derive(Debug)]
pub struct FolderLock {
    /// The data folder.
    path: PathBuf,
    folder: File,
    lock: File,
    socket: Option<PathBuf>,
}

/// State of the lock file.
#[derive(Debug, PartialEq, Eq)]
pub enum LockState {
    /// It is where it belongs.
    There,
    /// It was gone and is there again.
    Renewed,
    /// The data folder itself is no longer at its place.
    FolderGone,
}

impl FolderLock {
    /// Takes the lock of a data folder, and of its file.
    ///
    /// # Errors
    /// Another daemon holds one of the two, or they cannot be had.
    pub fn take(data: &Path) -> Result<Self, Failure> {
        let path = data.join(LOCK_FILE);
        let lock = take_unnamed(&path)?;
        let folder = File::open(data).map_err(|error| broken(data, error))?;
        match folder.try_lock() {
            Ok(()) => {}
            // Its lock file was removed: ours is another one.
            Err(TryLockError::WouldBlock) => return Err(held(data, None)),
            // Some network file systems lock no folders. The file's lock is held.
            Err(TryLockError::Error(error)) => tracing::warn!("could not lock the data folder itself: {error}"),
        }
        name_holder(&lock);
        write(&lock, None).map_err(|error| broken(&path, error))?;
        Ok(Self { path: data.to_owned(), folder, lock, socket: None })
    }

    /// Publishes the daemon's socket path to clients.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn tell_socket(&mut self, socket: &Path) -> io::Result<()> {
        self.socket = Some(socket.to_owned());
        write(&self.lock, Some(socket))
    }

    /// Looks whether the lock file is there, and makes it anew where it is not.
    ///
    /// # Errors
    /// When it cannot be made: it is looked for again later.
    pub fn look(&mut self) -> io::Result<LockState> {
        if !is_at(&self.folder, fs::metadata(&self.path)) {
            return Ok(LockState::FolderGone);
        }
        let path = self.path.join(LOCK_FILE);
        if is_at(&self.lock, fs::symlink_metadata(&path)) {
            return Ok(LockState::There);
        }
        // It is held and whole before it has its name.
        let made = self.path.join(format!("{LOCK_FILE}.{}", std::process::id()));
        let renewed = make(&made, self.socket.as_deref()).and_then(|lock| fs::rename(&made, &path).map(|()| lock));
        if renewed.is_err() {
            // It may not have come to be.
            let _ = fs::remove_file(&made);
        }
        self.lock = renewed?;
        Ok(LockState::Renewed)
    }
}

fn make(path: &Path, socket: Option<&Path>) -> io::Result<File> {
    let lock = open(path, true)?;
    lock.try_lock()?;
    name_holder(&lock);
    write(&lock, socket)?;
    Ok(lock)
}

/// Makes the kernel name us to clients. Without it they find the socket as they did before there were lock files.
fn name_holder(lock: &File) {
    if let Err(error) = lock_file::hold(lock) {
        tracing::warn!("could not write the daemon's pid into the lock file: {error}");
    }
}

fn open(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(truncate)
        .read(true)
        .write(true)
        .mode(0o600)
        // A link could lead to a file that is worth something.
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path)
}

fn broken(path: &Path, error: io::Error) -> Failure {
    Failure::broken(format!("could not lock {}", path.display())).with_source(error).with_hint(HINT)
}

/// The other daemon may be between locking and writing; then its number is simply not known.
fn held(path: &Path, record: Option<LockRecord>) -> Failure {
    let who = record.map(|record| format!("(pid {}) ", record.pid)).unwrap_or_default();
    Failure::broken(format!("agentd is already running {who}with the lock {}", path.display()))
        .with_hint("`agentctl status` shows it and `agentctl stop` ends it; AGENTD_DATA_DIR and AGENTD_SOCKET make room for a second one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_folder_in_the_place_of_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        let mut lock = FolderLock::take(&data).unwrap();
        fs::rename(&data, folder.path().join("moved")).unwrap();
        assert_eq!(lock.look().unwrap(), LockState::FolderGone);
        fs::create_dir(&data).unwrap();
        assert_eq!(lock.look().unwrap(), LockState::FolderGone);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    }
}
