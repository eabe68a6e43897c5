//! Contents, each kept once under its hash, in one folder of one session.
//!
//! A content takes its name in one step when it is whole, and is checked against its name when it is read. So a file
//! that a crash left half written is found out, never put back.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::SystemTime,
};

use sha2::{Digest as _, Sha256};

/// The hash of a content.
pub(super) type Hash = [u8; 32];

/// What a file is called while it is being written.
const DRAFT: &str = "draft-";

/// From this size on, sharing the blocks of the original is cheaper than copying them.
const WORTH_SHARING: u64 = 64 * 1024;

/// From so many new contents on, the whole file system is written to the disk at once.
const SYNC_AT_ONCE: usize = 16;

/// The contents of one session.
#[derive(Debug)]
pub(super) struct Blobs {
    folder: PathBuf,
    /// How many bytes may be kept.
    limit: u64,
    kept: AtomicU64,
    /// Whether the file system can share blocks between this folder and where files come from.
    can_share: AtomicBool,
    /// What was added and may not have reached the disk.
    unsettled: Mutex<Vec<String>>,
}

/// There is no room for another content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Blobs {
    /// Opens the folder, making it where it is missing.
    pub(super) fn open(folder: PathBuf, limit: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let mut kept = 0;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
                let _ = fs::remove_file(entry.path());
            } else {
                kept += entry.metadata().map_or(0, |metadata| metadata.len());
            }
        }
        let (kept, can_share) = (AtomicU64::new(kept), AtomicBool::new(true));
        Ok(Self { folder, limit, kept, can_share, unsettled: Mutex::default() })
    }

    /// Keeps the content of an open file of that size, or of a little more than that where it grows: whoever calls sees
    /// by the size that comes back that it did.
    pub(super) fn keep_file(&self, source: &mut File, size: u64) -> io::Result<Result<(Hash, u64), Full>> {
        if size >= WORTH_SHARING && self.can_share.load(Ordering::Relaxed) {
            match self.share(source, size) {
                Ok(shared) => return Ok(shared),
                // Another file system, or one that cannot: then it is copied, now and ever after.
                Err(_) => self.can_share.store(false, Ordering::Relaxed),
            }
        }
        let mut content = Vec::new();
        source.take(size.saturating_add(1)).read_to_end(&mut content)?;
        Ok(self.keep(&content)?.map(|hash| (hash, content.len() as u64)))
    }

    /// Keeps a content.
    pub(super) fn keep(&self, content: &[u8]) -> io::Result<Result<Hash, Full>> {
        let hash = hash(content);
        let name = text(&hash);
        if self.has(&name, content.len() as u64) {
            return Ok(Ok(hash));
        }
        if !self.has_room(content.len() as u64) {
            return Ok(Err(Full));
        }
        let draft = self.draft();
        let written = new_file(&draft).and_then(|mut file| file.write_all(content));
        self.finish(&draft, written, &name, content.len() as u64)?;
        Ok(Ok(hash))
    }

    /// Keeps a content of another folder of this kind, unless it is here already; false where it is in neither, or there is no
    /// room for it.
    pub(super) fn take(&self, folder: &Path, hash: &str) -> io::Result<bool> {
        if read_hash(hash).is_none() {
            return Ok(false);
        }
        let mut source = match File::open(folder.join(hash)) {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.folder.join(hash).is_file()),
            Err(error) => return Err(error),
        };
        let size = source.metadata()?.len();
        Ok(self.keep_file(&mut source, size)?.is_ok_and(|(kept, _)| text(&kept) == hash))
    }

    /// Takes a content by sharing its blocks. What is hashed is what was taken: the original may change meanwhile.
    fn share(&self, source: &File, size: u64) -> io::Result<Result<(Hash, u64), Full>> {
        if !self.has_room(size) {
            return Ok(Err(Full));
        }
        let draft = self.draft();
        let shared = new_file(&draft).and_then(|file| {
            rustix::fs::ioctl_ficlone(&file, source)?;
            hash_of(File::open(&draft)?)
        });
        let (hash, size) = match shared {
            Ok(shared) => shared,
            Err(error) => {
                let _ = fs::remove_file(&draft);
                return Err(error);
            }
        };
        let name = text(&hash);
        if self.has(&name, size) {
            let _ = fs::remove_file(&draft);
        } else {
            self.finish(&draft, Ok(()), &name, size)?;
        }
        Ok(Ok((hash, size)))
    }

    fn finish(&self, draft: &Path, written: io::Result<()>, name: &str, size: u64) -> io::Result<()> {
        let finished = written.and_then(|()| fs::rename(draft, self.folder.join(name)));
        if finished.is_err() {
            let _ = fs::remove_file(draft);
        }
        finished?;
        self.kept.fetch_add(size, Ordering::Relaxed);
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
        Ok(())
    }

    fn draft(&self) -> PathBuf {
        self.folder.join(format!("{DRAFT}{}", uuid::Uuid::new_v4().simple()))
    }

    fn has(&self, name: &str, size: u64) -> bool {
        fs::symlink_metadata(self.folder.join(name)).is_ok_and(|metadata| metadata.len() == size)
    }

    fn has_room(&self, size: u64) -> bool {
        self.kept.load(Ordering::Relaxed).saturating_add(size) <= self.limit
    }

    /// Waits until all that was added is on the disk.
    pub(super) fn settle(&self) -> io::Result<()> {
        let unsettled = std::mem::take(&mut *self.unsettled.lock().unwrap_or_else(PoisonError::into_inner));
        if unsettled.is_empty() {
            return Ok(());
        }
        let folder = File::open(&self.folder)?;
        if unsettled.len() > SYNC_AT_ONCE {
            rustix::fs::syncfs(&folder)?;
            return Ok(());
        }
        for name in &unsettled {
            match File::open(self.folder.join(name)) {
                Ok(file) => file.sync_data()?,
                // It was removed to make room.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        folder.sync_all()
    }

    /// A content, if it is there and whole.
    pub(super) fn read(&self, hash: &str) -> io::Result<Option<Vec<u8>>> {
        // The name comes from the journal; nothing but a hash may become a path.
        if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let content = match fs::read(self.folder.join(hash)) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok((text(&Sha256::digest(&content).into()) == hash).then_some(content))
    }

    /// Removes the oldest contents that are in none of these trees until a tenth of the room is free again: old turns
    /// can then no longer be undone whole, but new ones can.
    pub(super) fn make_room(&self, needed: &HashSet<Hash>) -> io::Result<()> {
        let goal = self.limit - self.limit / 10;
        let mut oldest: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let is_needed = entry.file_name().to_str().and_then(read_hash).is_some_and(|hash| needed.contains(&hash));
            if let (false, Ok(metadata)) = (is_needed, entry.metadata()) {
                oldest.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path(), metadata.len()));
            }
        }
        oldest.sort();
        for (_, path, size) in oldest {
            if self.kept.load(Ordering::Relaxed) <= goal {
                break;
            }
            fs::remove_file(path)?;
            self.kept.fetch_sub(size, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// The hash and size of what a file holds.
pub(super) fn hash_of(mut file: File) -> io::Result<(Hash, u64)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut size = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((hasher.finalize().into(), size)),
            read => {
                hasher.update(&buffer[..read]);
                size += read as u64;
            }
        }
    }
}

/// The hash of a content.
pub(super) fn hash(content: &[u8]) -> Hash {
    Sha256::digest(content).into()
}

/// A hash as it is written.
pub(super) fn text(hash: &Hash) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(64);
    for byte in hash {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn read_hash(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blobs(limit: u64) -> (tempfile::TempDir, Blobs) {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path().join("blobs"), limit).unwrap();
        (folder, blobs)
    }

    #[test]
    fn a_content_is_kept_once_and_checked() {
        let (folder, blobs) = blobs(100);
        let hash = blobs.keep(b"one").unwrap().unwrap();
        assert_eq!(blobs.keep(b"one").unwrap(), Ok(hash));
        blobs.settle().unwrap();
        assert_eq!(blobs.read(&text(&hash)).unwrap().unwrap(), b"one");
        let files: Vec<_> = fs::read_dir(folder.path().join("blobs")).unwrap().collect();
        assert_eq!(files.len(), 1);
        fs::write(files[0].as_ref().unwrap().path(), "two").unwrap();
        assert_eq!(blobs.read(&text(&hash)).unwrap(), None, "a damaged content is none");
        assert_eq!(blobs.read("../../etc/passwd").unwrap(), None);
    }

    #[test]
    fn room_is_made_from_what_nothing_needs() {
        let (_folder, blobs) = blobs(10);
        let needed = blobs.keep(b"12345").unwrap().unwrap();
        let other = blobs.keep(b"6789").unwrap().unwrap();
        assert_eq!(blobs.keep(b"too much").unwrap(), Err(Full));
        blobs.make_room(&HashSet::from([needed])).unwrap();
        assert!(blobs.read(&text(&needed)).unwrap().is_some());
        assert!(blobs.read(&text(&other)).unwrap().is_some(), "there was room enough for a tenth");
        blobs.keep(b"x").unwrap().unwrap();
        blobs.make_room(&HashSet::from([needed])).unwrap();
        assert!(blobs.read(&text(&other)).unwrap().is_none());
    }

    #[test]
    fn drafts_of_an_earlier_life_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("draft-x"), "half").unwrap();
        let blobs = Blobs::open(folder.path().to_path_buf(), 5).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(blobs.keep(b"12345").unwrap().is_ok(), "drafts take no room");
    }
}
