//! The mark file next to an open journal, which contains a lower bound for the length of the write-ahead log.
//!
//! SQLite treats a missing log as a clean stop. After an unclean stop, the log contains the last changes, and in a
//! young journal all changes. Without the mark, the loss of the log would not be detected. The bound is written before
//! a change is acknowledged, and reset before the log is emptied, so that the bound is never too high, whenever the
//! process ends. The bound is not updated on each commit; an update when the log has doubled is precise enough.
//!
//! Another program that opens the journal after a crash, such as SQLite's shell, moves the log into the database and
//! removes it. Nothing is lost in that case. The mark therefore also contains the keys of the newest event in the log
//! and of the newest event before the log. A database that contains the newest event in the log has received the log.
//!
//! A detected loss is recorded in a separate file until a user removes that file.
//!
//! This module also checks that the journal's files are still the files that were opened, and reserves disk space for
//! removals on a full disk, because removals also write. Writes to a file that was removed or replaced are lost when
//! the daemon ends, so the writer checks the files after each commit, before it acknowledges the commit. Checking two
//! names takes a few microseconds; a commit takes about a thousand times as long.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use jiff::Timestamp;
use rusqlite::Connection;
use rustix::fs::statvfs;

use crate::codec::Fault;

/// Size in bytes to which SQLite may truncate the log once its whole content is in the database.
pub(crate) const LOG_LIMIT: u64 = 64 << 20;

/// Maximum number of bytes read from the file that records a loss.
const NOTE_BYTES: u64 = 1_000;

/// Returns a path in the journal's folder whose name begins with the journal's name.
fn beside(journal: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(journal);
    path.push(suffix);
    path.into()
}

pub(crate) fn log_of(journal: &Path) -> PathBuf {
    beside(journal, "-wal")
}

/// Returns the size of the log in bytes, or `None` if there is no log.
pub(crate) fn log_length(journal: &Path) -> Option<u64> {
    fs::metadata(log_of(journal)).ok().map(|log| log.len())
}

/// Mark of the journal that this process has open.
pub(crate) struct Mark {
    path: PathBuf,
    log: PathBuf,
    /// Mark file. `None` if it could not be created.
    file: Option<File>,
    /// Log length recorded in the mark, in bytes.
    noted: u64,
    /// Key of the newest event when the log was last empty, or when the journal was opened.
    base: i64,
    /// True once the mark contains the key of an event after `base`.
    has_newer: bool,
    /// True once a failure to write was logged.
    is_logged: bool,
}

impl Mark {
    /// Marks a journal that was just opened and whose newest event has the key `newest`. On an error, the journal is
    /// used without a mark.
    pub(crate) fn set(journal: &Path, newest: i64) -> Self {
        let mut mark = Self {
            path: beside(journal, "-open"),
            log: log_of(journal),
            file: None,
            noted: log_length(journal).unwrap_or_default().min(LOG_LIMIT),
            base: newest,
            has_newer: false,
            is_logged: false,
        };
        match mark.create() {
            Ok(file) => mark.file = Some(file),
            Err(error) => mark.log_failure(&error),
        }
        mark
    }

    fn create(&self) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        write(&file, self.noted, self.base, self.base)?;
        file.sync_all()?;
        // Also syncs the name, if the file system supports it. Otherwise, a power loss may remove the mark, and the
        // loss of a log is not reported.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(file)
    }

    /// Updates the log's length if it has changed enough, and the key of the newest event. Must be called after each
    /// commit, before the commit is acknowledged.
    pub(crate) fn note(&mut self, newest: impl FnOnce() -> i64) {
        let Some(file) = &self.file else { return };
        let length = fs::metadata(&self.log).map_or(0, |log| log.len()).min(LOG_LIMIT);
        let is_near = self.noted > 0 && length < self.noted.saturating_mul(2);
        if length == 0 || (is_near && self.has_newer) {
            return;
        }
        let newest = newest();
        if is_near && newest <= self.base {
            return;
        }
        // A bound that is too low is only less precise, but 0 would mean that nothing can be lost, so the first bound
        // is synced.
        let must_sync = self.noted == 0;
        match write(file, length, newest, self.base).and_then(|()| if must_sync { file.sync_data() } else { Ok(()) }) {
            Ok(()) => (self.noted, self.has_newer) = (length, newest > self.base),
            Err(error) => self.log_failure(&error),
        }
    }

    /// Records that the whole log is in the database. `newest` is the key of the newest event in the database. Must be
    /// called before the log is emptied.
    pub(crate) fn clear(&mut self, newest: i64) -> Result<(), Fault> {
        if let Some(file) = self.file.as_ref().filter(|_| self.noted > 0) {
            write(file, 0, newest, newest)?;
            file.sync_data()?;
            self.noted = 0;
        }
        (self.base, self.has_newer) = (newest, false);
        Ok(())
    }

    /// Removes the mark after a clean close.
    pub(crate) fn remove(self) {
        let inode = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let own_inode = self.file.and_then(|file| file.metadata().ok()).map(inode);
        // If the folder was moved, another journal's mark may now be at this path.
        if own_inode.is_some() && fs::metadata(&self.path).ok().map(inode) == own_inode {
            // A remaining mark only records that nothing can be lost.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn log_failure(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_logged, true) {
            let path = self.path.display();
            tracing::warn!(%error, "could not write {path}: a loss of agentd.db-wal after a crash will not be reported");
        }
    }
}

/// Writes text of a fixed length, so that no digits of an older number remain.
fn write(file: &File, length: u64, newest: i64, base: i64) -> io::Result<()> {
    file.write_all_at(format!("{length:020} {newest:020} {base:020}\n").as_bytes(), 0)
}

/// Returns the key of the newest event of a journal, or 0 if the journal has no events.
pub(crate) fn newest(connection: &Connection) -> i64 {
    connection.query_row("SELECT coalesce(max(key), 0) FROM events", [], |row| row.get(0)).unwrap_or_default()
}

/// A log that is shorter than the mark requires. Must be detected before the journal is opened, because opening may
/// change the log.
#[derive(Debug)]
pub(crate) struct ShortLog {
    description: String,
    newest: i64,
    base: i64,
}

impl ShortLog {
    /// Compares the log of a closed journal with its mark.
    pub(crate) fn detect(journal: &Path) -> Option<Self> {
        let text = fs::read_to_string(beside(journal, "-open")).ok()?;
        let mut numbers = text.split_whitespace();
        let noted = numbers.next()?.parse().ok()?;
        let description = compare(noted, log_length(journal))?;
        // Marks written by older versions have no keys.
        let mut key = || numbers.next().and_then(|key| key.parse().ok()).unwrap_or_default();
        Some(Self { description, newest: key(), base: key() })
    }

    /// Returns true if a database whose newest event has this key has received the log.
    fn is_in(&self, newest: i64) -> bool {
        self.newest > self.base && newest >= self.newest
    }
}

/// Loss of events, reported until a user has acknowledged it.
pub(crate) struct Loss {
    path: PathBuf,
    /// Report on the loss, if the loss file could not be written.
    unwritten: Option<String>,
}

impl Loss {
    /// Records a loss after opening the journal with a short log, or returns a loss that was recorded earlier.
    pub(crate) fn of(journal: &Path, short: Option<ShortLog>, newest: i64) -> Self {
        let mut loss = Self { path: beside(journal, "-lost"), unwritten: None };
        let Some(short) = short.filter(|short| !short.is_in(newest)) else { return loss };
        let log = log_of(journal);
        let log = log.file_name().unwrap_or_default().to_string_lossy();
        let description =
            format!("at the start of {}, {log} was {} after an unclean stop", Timestamp::now(), short.description);
        if let Err(error) = loss.write(&description) {
            tracing::warn!(%error, "could not write {}: the loss is reported until the next start only", loss.path.display());
            loss.unwritten = Some(description);
        }
        loss
    }

    fn write(&self, description: &str) -> io::Result<()> {
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path) {
            // An earlier loss has not been acknowledged yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.path.is_file() => return Ok(()),
            opened => opened?,
        };
        writeln!(file, "{description}")?;
        file.sync_all()
    }

    /// Returns the description of the loss, while the loss file exists.
    pub(crate) fn description(&self) -> Option<String> {
        let written = || {
            let mut text = Vec::new();
            File::open(&self.path).ok()?.take(NOTE_BYTES).read_to_end(&mut text).ok()?;
            let text = String::from_utf8_lossy(&text);
            Some(text.lines().next().unwrap_or_default().to_owned())
        };
        self.unwritten.clone().or_else(written)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Describes the difference if a log is shorter than the recorded size.
fn compare(noted: u64, found: Option<u64>) -> Option<String> {
    match found {
        _ if noted == 0 => None,
        None => Some("missing".to_owned()),
        Some(0) => Some("empty".to_owned()),
        Some(found) if found < noted => Some(format!("shorter than expected ({found} bytes of {noted})")),
        Some(_) => None,
    }
}

/// Device and inode number, which identify a file.
type Inode = (u64, u64);

/// Identity of the journal's files when it was opened.
pub(crate) struct Anchor {
    database: (PathBuf, Inode),
    log: PathBuf,
    /// Inode of the log, set by the first check that finds the log.
    log_inode: OnceLock<Inode>,
}

impl Anchor {
    /// Creates the anchor for a journal that was just opened.
    pub(crate) fn of(path: &Path) -> Result<Self, Fault> {
        let database = (path.to_owned(), inode(path)?);
        Ok(Self { database, log: log_of(path), log_inode: OnceLock::new() })
    }

    /// Checks that both files are still at their paths.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let (path, opened) = &self.database;
        check_inode(path, inode(path), *opened)?;
        if fs::metadata(path)?.len() == 0 {
            return Err(Fault::Gone(format!("{} was emptied", path.display())));
        }
        match (self.log_inode.get(), inode(&self.log)) {
            (Some(opened), found) => check_inode(&self.log, found, *opened),
            (None, Ok(found)) => {
                let _ = self.log_inode.set(found);
                Ok(())
            }
            // Without a log, all data is in the database.
            (None, Err(_)) => Ok(()),
        }
    }
}

/// Returns the file's device and inode. Follows links, as SQLite does.
fn inode(path: &Path) -> io::Result<Inode> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

fn check_inode(path: &Path, found: io::Result<Inode>, opened: Inode) -> Result<(), Fault> {
    match found {
        Ok(found) if found == opened => Ok(()),
        Ok(_) => Err(Fault::Gone(format!("{} was replaced by another file", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Fault::Gone(format!("{} was removed", path.display())))
        }
        Err(error) => Err(Fault::from(error)),
    }
}

/// Size of the reserve in bytes. Larger than the first step of a session removal can use.
const RESERVE_BYTES: u64 = 2 << 20;

/// Multiple of the reserve's size that must be free before the reserve is created.
const SPARE_FACTOR: u64 = 4;

/// File that reserves disk space.
pub(crate) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Returns the reserve for a journal.
    pub(crate) fn beside(journal: &Path) -> Self {
        Self { path: journal.with_extension("reserve") }
    }

    /// Creates the reserve if there is enough free space. Without the reserve, removals may fail when the disk is full.
    pub(crate) fn ensure(&self) {
        let Err(error) = self.fill() else { return };
        tracing::debug!(%error, "could not reserve space for a full disk");
        let _ = fs::remove_file(&self.path);
    }

    fn fill(&self) -> io::Result<()> {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.len() == RESERVE_BYTES) {
            return Ok(());
        }
        let disk = statvfs(self.path.parent().unwrap_or(&self.path))?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < (1 + SPARE_FACTOR) * RESERVE_BYTES {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let _ = fs::remove_file(&self.path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        // The zeros are written out, because a sparse file reserves nothing.
        let piece = vec![0; 64 << 10];
        let mut left = RESERVE_BYTES;
        while left > 0 {
            file.write_all(&piece)?;
            left -= piece.len() as u64;
        }
        Ok(())
    }

    /// Frees the reserve. Returns true if the reserve existed.
    pub(crate) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported_loss(journal: &Path) -> Option<String> {
        Loss::of(journal, ShortLog::detect(journal), 0).description()
    }

    fn set_log(journal: &Path, bytes: u64) {
        let log = OpenOptions::new().write(true).create(true).truncate(false).open(log_of(journal)).unwrap();
        log.set_len(bytes).unwrap();
    }

    #[test]
    fn mark_never_exceeds_the_journal_and_detects_loss() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal.db");
        let mark_file = folder.path().join("journal.db-open");
        let number = || fs::read_to_string(&mark_file).unwrap()[..20].parse::<u64>().unwrap();
        let mut mark = Mark::set(&journal, 0);
        mark.note(|| 0);
        assert_eq!((number(), reported_loss(&journal)), (0, None), "nothing was stored yet");
        for (bytes, noted) in [(5_000, 5_000), (9_000, 5_000), (10_000, 10_000), (LOG_LIMIT * 2, LOG_LIMIT)] {
            set_log(&journal, bytes);
            mark.note(|| 0);
            assert_eq!((number(), reported_loss(&journal)), (noted, None));
        }
        mark.clear(0).unwrap();
        assert_eq!(number(), 0);
        set_log(&journal, 0);
        assert_eq!(reported_loss(&journal), None, "the database contains all events");
        set_log(&journal, 4_000);
        mark.note(|| 0);
        assert_eq!(Mark::set(&journal, 0).noted, 4_000, "the next process continues from that mark");
        set_log(&journal, 3_999);
        assert!(reported_loss(&journal).unwrap().contains("journal.db-wal was shorter"));
        Mark::set(&journal, 0).remove();
        assert!(!mark_file.exists());
        assert!(reported_loss(&journal).is_some(), "a loss is reported until its file is removed");
        fs::remove_file(folder.path().join("journal.db-lost")).unwrap();
        assert_eq!(reported_loss(&journal), None);
    }

    #[test]
    fn missing_mark_file_does_not_block_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("journal.db");
        fs::create_dir_all(folder.path().join("journal.db-open/x")).unwrap();
        set_log(&journal, 4_000);
        let mut mark = Mark::set(&journal, 0);
        mark.note(|| 0);
        mark.clear(0).unwrap();
        mark.remove();
        fs::create_dir_all(folder.path().join("journal.db-lost/x")).unwrap();
        assert_eq!(reported_loss(&journal), None);
    }
}
