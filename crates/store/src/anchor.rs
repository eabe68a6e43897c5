//! Whether the journal's files are still those that were opened.
//!
//! A file that was removed or replaced takes what is written to it along when the daemon ends. So the writer looks after each
//! commit, before anybody hears that it is stored. Two looks at names cost some microseconds, a commit a thousand times that.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

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
