//! Stores scans of trees as files, so that a call's changes can be determined after a daemon crash. Numbers are
//! little-endian, and a file ends with the hash of all preceding bytes.
//!
//! A heartbeat during each call helps to recognise later changes after a crash. A call's processes end with the daemon,
//! so a change after the last beat was made by something else, most likely by the user before the daemon was restarted.
//! The heartbeat is the timestamp of a file and is compared with timestamps of other files: the kernel sets both from
//! one clock, which no program can change for a single file. The heartbeat is not synced: if it is too old after a host
//! failure, more changes are classified as doubtful, but none is misattributed.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use agentd_core::tool::FileChange;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

use super::{
    blobs::{self, Hash},
    packs::read_whole,
    root::{Kind, Root, Stamp},
    tree::{Content, Difference, Entry, SkipReason, Tree},
};
use crate::{
    failure::if_there,
    path::{FolderName, PathPlace},
};

const MAGIC: &[u8] = b"agentd snapshot 2\n";

/// Content of a record.
#[derive(Debug)]
pub(super) struct Record {
    /// True if the record only describes single paths.
    pub(super) scoped: bool,
    pub(super) trees: Vec<Tree>,
}

/// Writes a record atomically. The record is durable once this function returns.
pub(super) fn write<'t>(path: &Path, scoped: bool, trees: impl IntoIterator<Item = &'t Tree>) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(u8::from(scoped));
    for tree in trees {
        put_tree(&mut bytes, tree);
    }
    bytes.extend_from_slice(&blobs::hash(&bytes));
    replace(path, &bytes)
}

/// Writes a file atomically. The file is durable once this function returns.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    // A draft left by a crash is never completed.
    let _ = fs::remove_file(&draft);
    let mut file = blobs::new_file(&draft)?;
    file.write_all(content)?;
    file.sync_data()?;
    fs::rename(&draft, path)
}

/// Links a file under another name, or writes a record under that name if the file cannot be linked.
pub(super) fn link<'t>(file: &Path, name: &Path, trees: impl IntoIterator<Item = &'t Tree>) -> io::Result<()> {
    match fs::hard_link(file, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => write(name, false, trees),
        _ => Ok(()),
    }
}

/// Reads a record. Returns `None` if the record is missing or damaged.
pub(super) fn read(path: &Path) -> io::Result<Option<Record>> {
    let body = read_whole(path)?;
    Ok(body.and_then(|body| Reader { rest: body.strip_prefix(MAGIC)? }.record()))
}

fn put_tree(bytes: &mut Vec<u8>, tree: &Tree) {
    bytes.push(match tree.place {
        PathPlace::Own => 0,
        PathPlace::Project => 1,
        PathPlace::Memories => 2,
        // Never written: the state is not on disk, so it is not scanned.
        PathPlace::State => 3,
        PathPlace::Folder(_) => 4,
    });
    if let PathPlace::Folder(name) = &tree.place {
        put_bytes(bytes, name.as_str().as_bytes());
    }
    put_bytes(bytes, tree.path.as_os_str().as_bytes());
    put_bytes(bytes, tree.skip_reason.as_deref().unwrap_or_default().as_bytes());
    put_length(bytes, tree.entries.len());
    for (path, Entry { stamp, content, fresh }) in &tree.entries {
        put_bytes(bytes, path);
        stamp.write(bytes);
        bytes.push(u8::from(*fresh));
        bytes.push(match content {
            Content::Folder => 0,
            Content::Stored(..) => 1,
            Content::Unstored(why) => 2 + *why as u8,
            Content::Absent => 6,
        });
        if let Content::Stored(hash, size) = content {
            bytes.extend_from_slice(hash);
            bytes.extend_from_slice(&size.to_le_bytes());
        }
    }
}

fn put_bytes(bytes: &mut Vec<u8>, field: &[u8]) {
    put_length(bytes, field.len());
    bytes.extend_from_slice(field);
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn record(mut self) -> Option<Record> {
        let scoped = self.byte()? == 1;
        let mut trees = Vec::new();
        while !self.rest.is_empty() {
            trees.push(self.tree()?);
        }
        Some(Record { scoped, trees })
    }

    fn tree(&mut self) -> Option<Tree> {
        let place = match self.byte()? {
            0 => PathPlace::Own,
            1 => PathPlace::Project,
            2 => PathPlace::Memories,
            4 => PathPlace::Folder(FolderName::new(str::from_utf8(self.bytes()?).ok()?)?),
            _ => return None,
        };
        let path = PathBuf::from(OsString::from_vec(self.bytes()?.to_vec()));
        let skip_reason = Some(String::from_utf8_lossy(self.bytes()?).into_owned()).filter(|reason| !reason.is_empty());
        let count = self.number()?;
        // The capacity is bounded by the remaining bytes, not by the claimed count.
        let mut entries = HashMap::with_capacity(usize::try_from(count).ok()?.min(self.rest.len() / 64));
        for _ in 0..count {
            entries.insert(self.bytes()?.to_vec(), self.entry()?);
        }
        Some(Tree { skip_reason, entries, ..Tree::new(place, path) })
    }

    fn entry(&mut self) -> Option<Entry> {
        let kind = match self.byte()? {
            0 => Kind::File,
            1 => Kind::Link,
            2 => Kind::Folder,
            _ => Kind::Special,
        };
        let mode = u32::from_le_bytes(*self.chunk()?);
        let (device, inode, size, links) = (self.number()?, self.number()?, self.number()?, self.number()?);
        let mut time = || Some((self.number()?.cast_signed(), self.number()?.cast_signed()));
        let (modified, changed) = (time()?, time()?);
        let fresh = self.byte()? == 1;
        let content = match self.byte()? {
            0 => Content::Folder,
            1 => Content::Stored(*self.chunk()?, self.number()?),
            2 => Content::Unstored(SkipReason::Large),
            3 => Content::Unstored(SkipReason::Full),
            4 => Content::Unstored(SkipReason::Unreadable),
            5 => Content::Unstored(SkipReason::Busy),
            6 => Content::Absent,
            _ => return None,
        };
        let stamp = Stamp { kind, mode, device, inode, size, links, modified, changed };
        Some(Entry { stamp, content, fresh })
    }

    fn byte(&mut self) -> Option<u8> {
        self.chunk::<1>().map(|[byte]| *byte)
    }

    fn number(&mut self) -> Option<u64> {
        self.chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn bytes(&mut self) -> Option<&[u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (field, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(field)
    }

    fn chunk<const N: usize>(&mut self) -> Option<&[u8; N]> {
        let (chunk, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(chunk)
    }
}

/// Name of the file with the state of the files that a session has read.
pub(super) const KNOWN_FILES: &str = "read";

const NAME: &str = "kept";
const RECORD: usize = 40;

/// Appends blobs to the manifest. The manifest is durable once this function returns.
pub(super) fn add_to_manifest(session: &Path, contents: &[(Hash, u64)]) -> io::Result<()> {
    if contents.is_empty() {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(contents.len() * RECORD);
    for (hash, size) in contents {
        bytes.extend_from_slice(hash);
        bytes.extend_from_slice(&size.to_le_bytes());
    }
    let mut file = File::options().append(true).create(true).mode(0o600).open(session.join(NAME))?;
    // A crash may have left a partial record.
    let torn = file.metadata()?.len() % RECORD as u64;
    if torn > 0 {
        file.set_len(file.metadata()?.len() - torn)?;
    }
    file.write_all(&bytes)?;
    file.sync_data()
}

/// Returns all blobs in the manifest, oldest first.
pub(super) fn read_manifest(session: &Path) -> io::Result<Vec<(Hash, u64)>> {
    let bytes = if_there(fs::read(session.join(NAME)))?.unwrap_or_default();
    let record = |record: &[u8]| {
        let size = record[32..].try_into().map(u64::from_le_bytes).unwrap_or_default();
        (record[..32].try_into().unwrap_or_default(), size)
    };
    Ok(bytes.chunks_exact(RECORD).map(record).collect())
}

/// Returns the time of the last addition in Unix seconds, or `i64::MIN` if nothing was added.
pub(super) fn age(session: &Path) -> i64 {
    fs::metadata(session.join(NAME)).map_or(i64::MIN, |metadata| metadata.mtime())
}

/// Returns the blobs of the states before and after these changes.
pub(super) fn contents_of(changes: &[FileChange]) -> Vec<(Hash, u64)> {
    let states = changes.iter().flat_map(|change| change.before.iter().chain(&change.after));
    states.filter_map(|state| Some((blobs::read_hash(&state.hash)?, state.size))).collect()
}

/// Interval of the heartbeat. A call's changes between the last beat and a crash cannot be distinguished from later
/// changes.
const BEAT_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum error of timestamps on file systems with a resolution of one or two seconds, in seconds.
const COARSE_SECONDS: i64 = 2;

/// Heartbeat that beats until it is dropped.
pub(super) struct Heartbeat {
    file: Arc<File>,
    /// Channel end whose drop stops the thread.
    _ends: mpsc::SyncSender<()>,
}

impl Heartbeat {
    /// Beats once immediately, then at regular intervals.
    pub(super) fn start(path: &Path) -> io::Result<Self> {
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let file = Arc::new(file);
        beat(&file)?;
        let (ends, ended) = mpsc::sync_channel(0);
        let heartbeat_file = Arc::clone(&file);
        thread::Builder::new().name("undo-pulse".to_owned()).spawn(move || {
            // A missing beat makes more changes doubtful, but causes no wrong attribution.
            while ended.recv_timeout(BEAT_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout)
                && beat(&heartbeat_file).is_ok()
            {}
        })?;
        Ok(Self { file, _ends: ends })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let _ = beat(&self.file);
    }
}

fn beat(file: &File) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now, last_modification: now })?)
}

/// Time of the last heartbeat, or `None` if unknown.
pub(super) struct LastSign(Option<(i64, i64)>);

impl LastSign {
    pub(super) fn read(path: &Path) -> Self {
        Self(fs::metadata(path).ok().map(|metadata| (metadata.ctime(), metadata.ctime_nsec())))
    }

    /// Returns true if a path may have been changed after the last heartbeat. Not used for removed files, because
    /// restoring them destroys nothing.
    pub(super) fn is_before(&self, root: &Root, difference: &Difference) -> bool {
        let Some(now) = &difference.now else { return false };
        let own = if now.kind == Kind::Folder { None } else { Some(now.changed) };
        let own = own.map_or_else(|| root.changed(&difference.below), Ok);
        if !own.is_ok_and(|changed| self.is_after(changed)) {
            return true;
        }
        // A moved folder may have replaced the file by a different one, whose own times are older.
        let is_same = |was: &Stamp| (was.kind, was.device, was.inode) == (now.kind, now.device, now.inode);
        if now.kind != Kind::Folder && difference.was.as_ref().is_some_and(is_same) {
            return false;
        }
        let slashes = difference.below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut folders = slashes.map(|(at, _)| &difference.below[..at]);
        folders.any(|folder| !root.changed(folder).is_ok_and(|changed| self.is_after(changed)))
    }

    /// Returns true if the last heartbeat was certainly after this time.
    fn is_after(&self, (seconds, nanos): (i64, i64)) -> bool {
        let latest = if nanos == 0 { (seconds.saturating_add(COARSE_SECONDS), 0) } else { (seconds, nanos) };
        self.0.is_some_and(|sign| latest < sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let (modified, changed) = ((-1, 5), (1 << 33, 999_999_999));
        let (kind, mode, device, inode) = (Kind::File, 0o4755, 7, 1 << 40);
        let stamp = Stamp { kind, mode, device, inode, size: 3, links: 1, modified, changed };
        let contents = [
            Content::Stored([9; 32], 3),
            Content::Unstored(SkipReason::Busy),
            Content::Unstored(SkipReason::Large),
            Content::Folder,
            Content::Absent,
        ];
        let entries = contents.into_iter().enumerate().map(|(index, content)| {
            let path = [b"outputs/\xff".as_slice(), &[u8::try_from(index).unwrap()]].concat();
            (path, Entry { stamp, content, fresh: index == 0 })
        });
        Tree {
            entries: entries.collect(),
            skip_reason: Some("too large".into()),
            ..Tree::new(PathPlace::Project, "/a b".into())
        }
    }

    #[test]
    fn records_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        write(&path, true, [&tree(), &Tree::new(PathPlace::Own, "/".into())]).unwrap();
        let record = read(&path).unwrap().unwrap();
        assert!(record.scoped);
        assert_eq!(record.trees.len(), 2);
        assert_eq!(record.trees[0].entries, tree().entries);
        assert_eq!((&record.trees[0].path, &record.trees[0].skip_reason), (&tree().path, &tree().skip_reason));
    }

    #[test]
    fn truncated_or_damaged_record_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        assert!(read(&path).unwrap().is_none());
        write(&path, false, [&tree()]).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in [0, 1, MAGIC.len(), whole.len() - 1] {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(read(&path).unwrap().is_none(), "cut at {cut}");
        }
        for at in [MAGIC.len() + 3, whole.len() / 2] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert!(read(&path).unwrap().is_none(), "damaged at {at}");
        }
    }

    #[test]
    fn manifest_is_read_past_a_partial_entry() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_manifest(folder.path()).unwrap(), []);
        add_to_manifest(folder.path(), &[([1; 32], 7)]).unwrap();
        let mut file = File::options().append(true).open(folder.path().join(NAME)).unwrap();
        file.write_all(b"torn").unwrap();
        assert_eq!(read_manifest(folder.path()).unwrap(), [([1; 32], 7)]);
        add_to_manifest(folder.path(), &[([2; 32], 8)]).unwrap();
        assert_eq!(read_manifest(folder.path()).unwrap(), [([1; 32], 7), ([2; 32], 8)]);
    }

    #[test]
    fn changes_within_a_tick_count_as_later() {
        let sign = LastSign(Some((100, 50)));
        assert!(sign.is_after((100, 49)));
        assert!(!sign.is_after((100, 50)), "within one tick of the clock nothing is certain");
        assert!(!sign.is_after((101, 1)));
        assert!(!sign.is_after((99, 0)), "whole seconds may be rounded");
        assert!(sign.is_after((98, 0)));
        assert!(!LastSign(None).is_after((1, 1)), "without a sign nothing is certain");
    }
}
