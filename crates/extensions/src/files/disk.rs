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
const MAX_CACHED: usize = 512;
/// Maximum number of entries read per folder.
const MAX_ENTRIES: usize = 1000;

/// Cache of files and folders, by path. The locks cover only lookups, so no reader waits for another reader's disk
/// access.
#[derive(Debug, Default)]
pub(crate) struct GuideCache {
    files: Mutex<CachedFiles<GuideText>>,
    folders: Mutex<CachedFiles<[Entry]>>,
}

/// Cached values by path, each with its stamp and the requested size limit.
type CachedFiles<T> = HashMap<PathBuf, (Stamp, usize, Arc<T>)>;

/// Entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_folder: bool,
}

impl GuideCache {
    /// Reads the first `limit` bytes of a regular file of this user. Returns `None` if there is no such file.
    pub(crate) fn read(
        &self,
        path: &Path,
        follow: bool,
        limit: usize,
        access: DiskAccess,
    ) -> Result<Option<Arc<GuideText>>, NotCached> {
        if access == DiskAccess::CachedOnly {
            let Some(stamp) = stamp(path, follow, access)? else { return Ok(None) };
            return unchanged(&self.files, path, limit, stamp).map(Some).ok_or(NotCached);
        }
        Ok(match self.refreshed(path, follow, limit) {
            Ok(read) => Some(read),
            Err(error) => {
                if !is_missing(&error) {
                    tracing::info!("{} is skipped: {error}", path.display());
                }
                None
            }
        })
    }

    fn refreshed(&self, path: &Path, follow: bool, limit: usize) -> io::Result<Arc<GuideText>> {
        let (file, stamp) = open(path, follow)?;
        if let Some(read) = unchanged(&self.files, path, limit, stamp) {
            return Ok(read);
        }
        let read = Arc::new(read(file, stamp, limit)?);
        insert(&self.files, path, limit, stamp, &read);
        Ok(read)
    }

    /// Lists a folder, sorted by name, without hidden entries. The list is empty if there is no such folder.
    pub(crate) fn entries(&self, folder: &Path, access: DiskAccess) -> Result<Arc<[Entry]>, NotCached> {
        let stamp = stamp(folder, true, access);
        let stamp = if access == DiskAccess::CachedOnly { stamp? } else { stamp.unwrap_or_default() };
        let Some(stamp) = stamp else { return Ok(Arc::default()) };
        if let Some(known) = unchanged(&self.folders, folder, MAX_ENTRIES, stamp) {
            return Ok(known);
        }
        if access == DiskAccess::CachedOnly {
            return Err(NotCached);
        }
        let entries: Arc<[Entry]> = list(folder).into();
        insert(&self.folders, folder, MAX_ENTRIES, stamp, &entries);
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

fn unchanged<T: ?Sized>(cached: &Mutex<CachedFiles<T>>, path: &Path, limit: usize, now: Stamp) -> Option<Arc<T>> {
    let cached = lock(cached);
    let (stamp, wanted, cached) = cached.get(path)?;
    (now.settled && *stamp == now && *wanted == limit).then(|| Arc::clone(cached))
}

fn insert<T: ?Sized>(cached: &Mutex<CachedFiles<T>>, path: &Path, limit: usize, stamp: Stamp, value: &Arc<T>) {
    let mut cached = lock(cached);
    if cached.len() >= MAX_CACHED {
        cached.clear();
    }
    cached.insert(path.to_path_buf(), (stamp, limit, Arc::clone(value)));
}

/// Content of a text file.
#[derive(Debug)]
pub(crate) struct GuideText {
    pub(crate) text: String,
    /// Size of the file in bytes, or of the text if the whole file was read.
    pub(crate) bytes: u64,
    pub(crate) digest: String,
    /// Device and inode, which are the same under every name of the file.
    pub(crate) identity: (u64, u64),
    /// Parsed front matter, or the reason why it is invalid. Set by the first request.
    pub(crate) front: OnceLock<Result<Front, Flaw>>,
    /// Initialised once the files of the skill have been found usable.
    pub(crate) is_sound: OnceLock<()>,
}

/// Reads the first `limit` bytes of a file.
pub(crate) fn read(file: File, stamp: Stamp, limit: usize) -> io::Result<GuideText> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut bytes)?;
    let whole = stamp.size <= limit;
    let charset = detect(&bytes, whole).map_err(|kind| io::Error::other(format!("it is {kind}")))?;
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

/// Permission to block on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskAccess {
    /// Never blocks: only uses data that the system has cached.
    CachedOnly,
    /// Blocks until the disk responds.
    Blocking,
}

/// Error for a non-blocking read that needs the disk.
#[derive(Debug)]
pub struct NotCached;

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
    fn of(opened: impl AsFd, access: DiskAccess) -> io::Result<Self> {
        let sync = if access == DiskAccess::CachedOnly { AtFlags::STATX_DONT_SYNC } else { AtFlags::empty() };
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

    /// Checks that the path is a regular file of this user.
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

/// Opens a regular file of this user, without blocking on a pipe. `follow` allows links in the path.
pub(crate) fn open(path: &Path, follow: bool) -> io::Result<(File, Stamp)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = if follow { openat(CWD, path, flags, Mode::empty())? } else { exact::open(path, flags)? };
    let stamp = Stamp::of(&opened, DiskAccess::Blocking)?;
    stamp.check_file()?;
    Ok((File::from(opened), stamp))
}

/// Returns the stamp of a path, or `None` if the path does not exist.
pub(crate) fn stamp(path: &Path, follow: bool, access: DiskAccess) -> Result<Option<Stamp>, NotCached> {
    let opened = match access {
        DiskAccess::CachedOnly => open_cached(path, follow),
        DiskAccess::Blocking => {
            openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)
        }
    };
    match opened.and_then(|opened| Stamp::of(opened, access)) {
        Ok(stamp) => Ok(Some(stamp)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(_) => Err(NotCached),
    }
}

pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens a path with `O_PATH`, but only if the system has cached every folder in the path. Accesses neither a disk
/// nor a remote host.
#[cfg(target_os = "linux")]
fn open_cached(path: &Path, follow: bool) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let links = if follow { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED | links)?)
}

#[cfg(not(target_os = "linux"))]
fn open_cached(_: &Path, _: bool) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Formats a path for the user, in one line.
pub(crate) fn shown(path: &Path, home: Option<&Path>) -> String {
    let below = home.and_then(|home| path.strip_prefix(home).ok());
    let shown = below.map_or_else(|| path.display().to_string(), |rest| format!("~/{}", rest.display()));
    agentd_core::path::shown(&shown).into_owned()
}
