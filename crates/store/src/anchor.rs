//! The journal's files: whether they are still those that were opened, and the room that is kept back beside them, so that
//! something can be removed when the disk is full: removing writes, too.
//!
//! A file that was removed or replaced takes what is written to it along when the daemon ends. So the writer looks after each
//! commit, before anybody hears that it is stored. Two looks at names cost some microseconds, a commit a thousand times that.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::fs::statvfs;

use crate::error::Fault;

/// A file's device and number: the same as long as it is the same file.
type Inode = (u64, u64);

/// Identity of the journal's files when it was opened.
pub(crate) struct Anchor {
    database: (PathBuf, Inode),
    log: PathBuf,
    /// Known from the first look on at which it is there.
    log_inode: OnceLock<Inode>,
}

impl Anchor {
    /// Of a journal that was opened just now.
    pub(crate) fn of(path: &Path) -> Result<Self, Fault> {
        let mut log = OsString::from(path);
        log.push("-wal");
        let database = (path.to_owned(), inode(path)?);
        Ok(Self { database, log: log.into(), log_inode: OnceLock::new() })
    }

    /// Looks whether both files are in their place.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let (path, opened) = &self.database;
        same(path, inode(path), *opened)?;
        if fs::metadata(path)?.len() == 0 {
            return Err(Fault::Gone(format!("{} was emptied", path.display())));
        }
        match (self.log_inode.get(), inode(&self.log)) {
            (Some(opened), found) => same(&self.log, found, *opened),
            (None, Ok(found)) => {
                let _ = self.log_inode.set(found);
                Ok(())
            }
            // Where there is no log, everything is in the database.
            (None, Err(_)) => Ok(()),
        }
    }
}

/// A link is followed, as SQLite follows it.
fn inode(path: &Path) -> io::Result<Inode> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

fn same(path: &Path, found: io::Result<Inode>, opened: Inode) -> Result<(), Fault> {
    match found {
        Ok(found) if found == opened => Ok(()),
        Ok(_) => Err(Fault::Gone(format!("{} was replaced by another file", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Fault::Gone(format!("{} was removed", path.display())))
        }
        Err(error) => Err(Fault::from(error)),
    }
}

/// More than the first step of removing a session can take.
const BYTES: u64 = 2 << 20;

/// Multiple of that size that must be free before it is reserved.
const SPARE: u64 = 4;

/// The file that takes the room.
pub(crate) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Beside that journal.
    pub(crate) fn beside(journal: &Path) -> Self {
        Self { path: journal.with_extension("reserve") }
    }

    /// Takes the room where there is plenty. Without it, removing may fail when the disk is full.
    pub(crate) fn keep(&self) {
        let Err(error) = self.fill() else { return };
        tracing::debug!(%error, "no room is kept back for a full disk");
        let _ = fs::remove_file(&self.path);
    }

    fn fill(&self) -> io::Result<()> {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.len() == BYTES) {
            return Ok(());
        }
        let disk = statvfs(self.path.parent().unwrap_or(&self.path))?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < (1 + SPARE) * BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let _ = fs::remove_file(&self.path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        // Written, because a hole takes no room.
        let piece = vec![0; 64 << 10];
        let mut left = BYTES;
        while left > 0 {
            file.write_all(&piece)?;
            left -= piece.len() as u64;
        }
        Ok(())
    }

    /// Gives the room up, and says whether there was any.
    pub(crate) fn give_up(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}
