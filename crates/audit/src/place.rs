//! Opening, appending to and rotating the log files.
//!
//! After a crash, the last line may be incomplete or the witness slightly outdated; opening the log checks for both.
//! Any other difference was caused by another program. Such a difference is recorded in the log but never repaired: the
//! chain continues from the last known head, so that the break stays visible.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use agentd_core::{
    Timestamp,
    audit::{AuditFact, AuditHead, AuditProblem},
};
use nix::fcntl::OFlag;

use crate::{
    chain::{self, SealedLine, sha256},
    read::{self, CURRENT, MAX_LINE, WITNESS},
};

/// End of the log, open for appending.
pub(crate) struct LogEnd {
    folder: PathBuf,
    medium: Box<dyn Medium>,
    /// Device and inode of the current file, to detect a replacement.
    identity: (u64, u64),
    /// Size of the current file; bytes beyond it were written by another program.
    pub(crate) size: u64,
    /// Last line of the log.
    pub(crate) head: AuditHead,
    witness: File,
}

impl LogEnd {
    /// Opens the end of the log, and creates missing files. `known` is the last line in this process's memory, if any;
    /// `noted` is the last line stored elsewhere. Also returns detected damage.
    pub(crate) fn open(
        folder: &Path,
        known: Option<&AuditHead>,
        noted: Option<&AuditHead>,
        now: Timestamp,
    ) -> io::Result<(Self, Vec<AuditFact>)> {
        let mut found = Vec::new();
        let mut witness = open_file(&folder.join(WITNESS), false)?;
        let recorded = read_witness(&mut witness)?;
        let mut file = open_file(&folder.join(CURRENT), true)?;
        let tail = Tail::of(&mut file)?;
        if let Some(torn) = &tail.torn {
            found.push(save_torn(folder, torn, now)?);
            file.set_len(tail.complete)?;
        }
        let last = match &tail.last {
            Some(last) => Some(last.clone()),
            None if tail.complete > 0 => {
                found.push(damaged("the last line was not written by the audit log", None));
                last_valid_line(folder)?
            }
            None => last_valid_line(folder)?,
        };
        let damaged_witness = recorded.is_none() && witness.metadata()?.len() > 0;
        if known.is_none() && (damaged_witness || (recorded.is_none() && last.is_some())) {
            let message = format!(
                "{WITNESS}, which names the last line, is missing or damaged: lines may be missing from the end"
            );
            found.push(damaged(message, Some(AuditProblem::NoWitness)));
        }
        let is_new = recorded.is_none();
        let heads = recorded.into_iter().chain(noted.cloned());
        let head = match known.cloned().map_or_else(|| heads.collect(), |known| vec![known]) {
            heads if heads.is_empty() => last.unwrap_or_else(chain::beginning),
            heads => choose_head(heads, last, &tail, &mut found),
        };
        let metadata = file.metadata()?;
        let mut log = Self {
            folder: folder.to_path_buf(),
            medium: Box::new(file),
            identity: (metadata.dev(), metadata.ino()),
            size: tail.complete,
            head,
            witness,
        };
        log.sync()?;
        if is_new {
            // From here on, the witness is overwritten in place, so that a host crash leaves either the old or the new
            // witness.
            log.sync_witness()?;
        }
        sync_folder(folder)?;
        Ok((log, found))
    }

    /// Returns true if the current file is in place and no other process has written to it.
    pub(crate) fn is_unchanged(&self) -> bool {
        fs::symlink_metadata(self.folder.join(CURRENT))
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity && metadata.len() == self.size)
    }

    /// Appends lines, the last of which is `head`. After an error, some bytes may have been written: see
    /// [`Self::roll_back`].
    pub(crate) fn append(&mut self, lines: &str, head: AuditHead) -> io::Result<()> {
        self.medium.append(lines.as_bytes())?;
        self.size += lines.len() as u64;
        self.head = head;
        Ok(())
    }

    /// Removes bytes that were appended but not acknowledged. If the removal fails, the next check detects that the
    /// file is longer than expected.
    pub(crate) fn roll_back(&mut self, size: u64, head: AuditHead) {
        if let Err(error) = self.medium.cut_to(size) {
            tracing::error!("could not truncate a partial write to the audit log: {error}");
        }
        (self.size, self.head) = (size, head);
    }

    /// Syncs the file, then updates the witness. The witness may lag behind the log, but is never ahead of it.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.medium.sync()?;
        self.witness.write_all_at(chain::write_witness(&self.head).as_bytes(), 0)
    }

    /// Syncs the witness to disk.
    pub(crate) fn sync_witness(&self) -> io::Result<()> {
        self.witness.sync_all()
    }

    /// Rotates the current file and starts a new one. Returns the name of the rotated file.
    pub(crate) fn rotate(&mut self, now: Timestamp) -> io::Result<String> {
        self.sync()?;
        let name = free_name(&self.folder, now, "jsonl");
        fs::rename(self.folder.join(CURRENT), self.folder.join(&name))?;
        let file = open_file(&self.folder.join(CURRENT), true)?;
        let metadata = file.metadata()?;
        sync_folder(&self.folder)?;
        self.identity = (metadata.dev(), metadata.ino());
        self.medium = Box::new(file);
        self.size = 0;
        Ok(name)
    }

    #[cfg(test)]
    pub(crate) fn replace_medium(&mut self, make: impl FnOnce(File) -> Box<dyn Medium>) {
        self.medium = make(open_file(&self.folder.join(CURRENT), true).unwrap());
    }
}

/// Chooses the head from which to continue and reports heads that do not match the file. A remembered head was always
/// on disk, but may be older than the last line.
fn choose_head(heads: Vec<AuditHead>, last: Option<AuditHead>, tail: &Tail, found: &mut Vec<AuditFact>) -> AuditHead {
    let last = last.unwrap_or_else(chain::beginning);
    let (mut chosen, mut highest) = (last.clone(), last.n);
    for head in heads {
        let differs = |line: &AuditHead| line.n == head.n && line.hash != head.hash;
        if head.n > highest {
            highest = head.n;
            chosen = head;
        } else if differs(&last) || tail.heads.iter().any(differs) {
            found.push(damaged(format!("line {} differs from the one that was written", head.n), None));
            if head.n == highest {
                chosen = head;
            }
        }
    }
    if highest > last.n {
        let message = format!("lines {} to {highest} that were written are missing from the end", last.n + 1);
        found.push(damaged(message, None));
    }
    chosen
}

/// Creates the fact that the log differs from the state in which the daemon left it.
pub(crate) fn damaged(found: impl Into<String>, problem: Option<AuditProblem>) -> AuditFact {
    AuditFact::LogDamaged { found: found.into(), bytes: 0, sha256: None, kept_as: None, problem }
}

/// Opens a file for writing with mode 0600, creating it if missing.
fn open_file(path: &Path, append: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .append(append)
        .mode(0o600)
        // A link could point to a valuable file, and opening a pipe would block forever.
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if metadata.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

fn read_witness(file: &mut File) -> io::Result<Option<AuditHead>> {
    let mut text = Vec::new();
    file.take(256).read_to_end(&mut text)?;
    Ok(std::str::from_utf8(&text).ok().and_then(chain::read_witness))
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns an unused name for a new file next to the log, derived from the time.
fn free_name(folder: &Path, now: Timestamp, ending: &str) -> String {
    let stem = format!("audit-{}", now.strftime("%Y%m%dT%H%M%S%.6fZ"));
    let name = |n: u32| if n == 1 { format!("{stem}.{ending}") } else { format!("{stem}-{n}.{ending}") };
    (1..).map(name).find(|name| fs::symlink_metadata(folder.join(name)).is_err()).unwrap_or(stem)
}

/// Saves the bytes of an incomplete line, which was never acknowledged.
fn save_torn(folder: &Path, torn: &[u8], now: Timestamp) -> io::Result<AuditFact> {
    let name = free_name(folder, now, "torn");
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(folder.join(&name))?;
    file.write_all(torn)?;
    file.sync_all()?;
    sync_folder(folder)?;
    Ok(AuditFact::LogDamaged {
        found: "the last line is incomplete, as after a crash".to_owned(),
        bytes: torn.len() as u64,
        sha256: Some(sha256(torn)),
        kept_as: Some(name),
        problem: None,
    })
}

/// End of a log file.
pub(crate) struct Tail {
    /// Size in bytes up to and including the last newline.
    complete: u64,
    /// Bytes after the last newline, if there are any.
    pub(crate) torn: Option<Vec<u8>>,
    /// Last complete line, if its hash matches.
    pub(crate) last: Option<AuditHead>,
    /// Heads of the valid lines in the part that was read.
    heads: Vec<AuditHead>,
}

impl Tail {
    pub(crate) fn of(file: &mut File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        // Twice the maximum line length, so that both an incomplete and a complete line fit.
        let mut read = 2 * MAX_LINE;
        loop {
            let from = size.saturating_sub(read);
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(size - from).read_to_end(&mut bytes)?;
            // Without a newline, the incomplete line is longer than any valid line, so a larger part is read.
            match bytes.iter().rposition(|byte| *byte == b'\n') {
                None if from > 0 => read = read.saturating_mul(4),
                newline => return Ok(Self::read(&bytes, from, newline.map_or(0, |at| at + 1))),
            }
        }
    }

    fn read(bytes: &[u8], from: u64, complete: usize) -> Self {
        let (lines, torn) = bytes.split_at(complete);
        let lines: Vec<&[u8]> =
            lines.strip_suffix(b"\n").map(|lines| lines.split(|byte| *byte == b'\n').collect()).unwrap_or_default();
        let valid_head =
            |line: &&[u8]| SealedLine::read(line).filter(SealedLine::hash_matches).map(|sealed| sealed.head());
        Self {
            complete: from + complete as u64,
            torn: (!torn.is_empty()).then(|| torn.to_vec()),
            last: lines.last().and_then(valid_head),
            heads: lines.iter().filter_map(valid_head).collect(),
        }
    }
}

/// Returns the valid line with the highest number in all files. Used if the newest file does not end with a valid line.
fn last_valid_line(folder: &Path) -> io::Result<Option<AuditHead>> {
    let mut last: Option<AuditHead> = None;
    for name in read::all(folder)? {
        let Ok(file) = read::open(&folder.join(name)) else { continue };
        let mut lines = io::BufReader::new(file);
        while let Some(found) = read::next_line(&mut lines)? {
            let read::LogLine::Line(line) = found else { continue };
            if let Some(sealed) = SealedLine::read(&line).filter(SealedLine::hash_matches)
                && last.as_ref().is_none_or(|last| sealed.n > last.n)
            {
                last = Some(sealed.head());
            }
        }
    }
    Ok(last)
}

/// Append-only file. A trait, so that tests can simulate a disk that becomes full within a line.
pub(crate) trait Medium: Send {
    /// Appends bytes. If this fails, some of the bytes may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file to `size` bytes.
    fn cut_to(&mut self, size: u64) -> io::Result<()>;

    /// Waits until all data is on disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut_to(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
