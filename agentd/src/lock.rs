//! One daemon for a data folder: two would both believe that the journal is theirs.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use crate::failure::Failure;

/// Held as long as the daemon lives. The kernel lets go of it when the process ends, however it ends, so a lock file
/// that was left behind means nothing. The file itself stays: removing it would let two daemons lock two files of one
/// name.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock and writes the process id into its file.
    ///
    /// # Errors
    /// Another daemon holds it, or the file cannot be written.
    pub fn take(path: &Path) -> Result<Self, Failure> {
        let refuse = |error| {
            Failure::broken(format!("could not lock {}", path.display()))
                .with_source(error)
                .with_hint("the folder must be writable and its disk not full; AGENTD_DATA_DIR names another one")
        };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            // A link could lead to a file that is worth something.
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(path)
            .map_err(refuse)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path, &mut file)),
            Err(TryLockError::Error(error)) => return Err(refuse(error)),
        }
        write_pid(&mut file).map_err(refuse)?;
        Ok(Self { _file: file })
    }
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn held(path: &Path, file: &mut File) -> Failure {
    let mut pid = String::new();
    // The other daemon may be between locking and writing; then its number is simply not known.
    let known = file.take(32).read_to_string(&mut pid).is_ok_and(|_| pid.trim().parse::<u32>().is_ok());
    let who = if known { format!("(pid {}) ", pid.trim()) } else { String::new() };
    Failure::broken(format!("agentd is already running {who}with the lock {}", path.display()))
        .with_hint("`agentctl status` shows it and `agentctl stop` ends it; AGENTD_DATA_DIR and AGENTD_SOCKET make room for a second one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_was_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agentd.lock");
        std::fs::write(&path, "99999999 left behind").unwrap();
        let first = Lock::take(&path).unwrap();
        let report = Lock::take(&path).unwrap_err().report();
        assert!(report.contains(&format!("already running (pid {})", std::process::id())), "{report}");
        assert!(report.contains("hint: "), "{report}");
        drop(first);
        Lock::take(&path).unwrap();
    }
}
