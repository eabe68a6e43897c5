//! Access to files and folders, with or without blocking on the disk, and a cache of unchanged content.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read as _},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, SystemTime},
};

use agentd_workspace::{
    encoding::{Document, detect},
    exact,
    text::hex,
};
use nix::unistd::geteuid;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, makedev, openat, statx};
use sha2::{Digest as _, Sha256};

use super::{
    agreed_folder::lock,
    front::{Flaw, Front},
};

/// Maximum number of cached files, and of cached folders.
const MAX_KNOWN: usize = 512;
/// Maximum number of entries read of a folder.
const MAX_ENTRIES: usize = 1000;

/// Cache of files and folders, by path. Locks are held only for lookups, so no reader waits for another one's disk
/// access.
#[derive(Debug, Default)]
pub(crate) struct GuideCache {
    files: Mutex<KnownFiles<GuideText>>,
    folders: Mutex<KnownFiles<[Entry]>>,
}

/// Cached values by path, each with its stamp and the requested size limit.
type KnownFiles<T> = HashMap<PathBuf, (Stamp, usize, Arc<T>)>;

/// Entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_folder: bool,
}

impl GuideCache {
    /// First `most` bytes of a regular file of this user. `None` if there is no such file.
    pub(crate) fn read(
        &self,
        path: &Path,
        follow: bool,
        most: usize,
        pace: Pace,
    ) -> Result<Option<Arc<GuideText>>, NotAtHand> {
        if pace == Pace::AtOnce {
            let Some(stamp) = stamp(path, follow, pace)? else { return Ok(None) };
            return unchanged(&self.files, path, most, stamp).map(Some).ok_or(NotAtHand);
        }
        Ok(match self.refreshed(path, follow, most) {
            Ok(read) => Some(read),
            Err(error) => {
                if !is_missing(&error) {
                    tracing::info!("{} is skipped: {error}", path.display());
                }
                None
            }
        })
    }

    fn refreshed(&self, path: &Path, follow: bool, most: usize) -> io::Result<Arc<GuideText>> {
        let (file, stamp) = open(path, follow)?;
        if let Some(read) = unchanged(&self.files, path, most, stamp) {
            return Ok(read);
        }
        let read = Arc::new(read(file, stamp, most)?);
        remember(&self.files, path, most, stamp, &read);
        Ok(read)
    }

    /// Entries of a folder, sorted by name, without hidden ones. Empty if there is no such folder.
    pub(crate) fn entries(&self, folder: &Path, pace: Pace) -> Result<Arc<[Entry]>, NotAtHand> {
        let stamp = stamp(folder, true, pace);
        let stamp = if pace == Pace::AtOnce { stamp? } else { stamp.unwrap_or_default() };
        let Some(stamp) = stamp else { return Ok(Arc::default()) };
        if let Some(known) = unchanged(&self.folders, folder, MAX_ENTRIES, stamp) {
            return Ok(known);
        }
        if pace == Pace::AtOnce {
            return Err(NotAtHand);
        }
        let entries: Arc<[Entry]> = list(folder).into();
        remember(&self.folders, folder, MAX_ENTRIES, stamp, &entries);
        Ok(entries)
    }
}

fn list(folder: &Path) -> Vec<Entry> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    let entry = |found: fs::DirEntry| {
        let name = found.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
        Some(Entry { name, is_folder: found.file_type().is_ok_and(|kind| kind.is_dir()) })
    };
    let mut entries: Vec<Entry> = found.take(MAX_ENTRIES).filter_map(|found| entry(found.ok()?)).collect();
    entries.sort();
    entries
}

fn unchanged<T: ?Sized>(known: &Mutex<KnownFiles<T>>, path: &Path, most: usize, now: Stamp) -> Option<Arc<T>> {
    let known = lock(known);
    let (stamp, wanted, known) = known.get(path)?;
    (now.settled && *stamp == now && *wanted == most).then(|| Arc::clone(known))
}

fn remember<T: ?Sized>(known: &Mutex<KnownFiles<T>>, path: &Path, most: usize, stamp: Stamp, what: &Arc<T>) {
    let mut known = lock(known);
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(path.to_path_buf(), (stamp, most, Arc::clone(what)));
}

/// Content of a text file.
#[derive(Debug)]
pub(crate) struct GuideText {
    pub(crate) text: String,
    /// Size of the file in bytes; that of the text if all of it was read.
    pub(crate) bytes: u64,
    pub(crate) digest: String,
    /// Device and inode, which are the same under every name of the file.
    pub(crate) identity: (u64, u64),
    /// Parsed front matter, or the reason why it is invalid, once it was requested.
    pub(crate) front: OnceLock<Result<Front, Flaw>>,
    /// Set once the files of the skill were found to be usable.
    pub(crate) is_sound: OnceLock<()>,
}

/// Reads the first `most` bytes of a file.
pub(crate) fn read(file: File, stamp: Stamp, most: usize) -> io::Result<GuideText> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut bytes)?;
    let whole = stamp.size <= limit;
    let charset = detect(&bytes, whole).map_err(|what| io::Error::other(format!("it is {what}")))?;
    let digest = hex(&Sha256::digest(&bytes)[..16]);
    let mut text = Document::decode(bytes, charset).text().to_owned();
    // The last character may be cut in the middle.
    while !whole && text.ends_with(char::REPLACEMENT_CHARACTER) {
        text.pop();
    }
    text.retain(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    // The text can be longer than the file because of the file's encoding.
    let bytes = if whole { text.len() as u64 } else { stamp.size.max(text.len() as u64 + 1) };
    let (front, is_sound) = (OnceLock::new(), OnceLock::new());
    Ok(GuideText { text, bytes, digest, identity: stamp.identity, front, is_sound })
}

/// Minimum age of a settled change. A file changed more recently may change again without getting a different
/// timestamp.
const SETTLED: Duration = Duration::from_secs(2);

/// Willingness to block on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Never blocks: uses only what the system has cached.
    AtOnce,
    /// Blocks as long as the disk takes.
    Patient,
}

/// Error of a non-blocking read that needs the disk.
#[derive(Debug)]
pub struct NotAtHand;

/// Properties that change with a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Device and inode, which are the same under every name of the file.
    pub(crate) identity: (u64, u64),
    /// Size of the file, in bytes.
    pub(crate) size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
    kind: FileType,
    owner: u32,
    /// True if the content cannot change as long as the stamp is the same.
    pub(crate) settled: bool,
}

impl Stamp {
    fn of(opened: impl AsFd, pace: Pace) -> io::Result<Self> {
        let sync = if pace == Pace::AtOnce { AtFlags::STATX_DONT_SYNC } else { AtFlags::empty() };
        let found = statx(opened, "", AtFlags::EMPTY_PATH | sync, StatxFlags::BASIC_STATS)?;
        let modified = (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec);
        let since = SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(modified.0).unwrap_or_default(), modified.1);
        Ok(Self {
            identity: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            size: found.stx_size,
            modified,
            changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            owner: found.stx_uid,
            settled: SystemTime::now().duration_since(since).is_ok_and(|age| age > SETTLED),
        })
    }

    /// Checks that it is a regular file of this user.
    fn check_file(&self) -> io::Result<()> {
        if self.kind != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        if self.owner != geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        Ok(())
    }
}

/// Opens a regular file of this user, without blocking on a pipe. `follow` allows links on the way.
pub(crate) fn open(path: &Path, follow: bool) -> io::Result<(File, Stamp)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = if follow { openat(CWD, path, flags, Mode::empty())? } else { exact::open(path, flags)? };
    let stamp = Stamp::of(&opened, Pace::Patient)?;
    stamp.check_file()?;
    Ok((File::from(opened), stamp))
}

/// Stamp of a path, or `None` if it does not exist.
pub(crate) fn stamp(path: &Path, follow: bool, pace: Pace) -> Result<Option<Stamp>, NotAtHand> {
    let opened = match pace {
        Pace::AtOnce => at_hand(path, follow),
        Pace::Patient => openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from),
    };
    match opened.and_then(|opened| Stamp::of(opened, pace)) {
        Ok(stamp) => Ok(Some(stamp)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(_) => Err(NotAtHand),
    }
}

pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens a path with `O_PATH`, only if every folder on the way is cached by the system. Accesses no disk or remote
/// machine.
#[cfg(target_os = "linux")]
fn at_hand(path: &Path, follow: bool) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let links = if follow { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED | links)?)
}

#[cfg(not(target_os = "linux"))]
fn at_hand(_: &Path, _: bool) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Path as shown to the user, in one line.
pub(crate) fn shown(path: &Path, home: Option<&Path>) -> String {
    let shown = match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    agentd_core::path::shown(&shown).into_owned()
}
