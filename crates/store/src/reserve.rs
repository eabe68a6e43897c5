//! Room on the disk that is kept back, so that something can be removed when the disk is full: removing writes, too.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::statvfs;

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
