//! Content-addressed storage of blobs (the contents of files), shared by all sessions.
//!
//! ```text
//! contents/{hash}     one blob
//! contents/*.pack     many small blobs; *.index has their offsets
//! ```
//!
//! A blob is renamed to its hash when it is complete, and verified against its hash when it is read, so a file left
//! incomplete by a crash is detected and never restored. This module does not track which blobs are needed: callers
//! list the blobs that they need, and meanwhile hold the [gate](Blobs::gate), which blocks removal.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use agentd_core::mutex::lock;
use sha2::{Digest as _, Sha256};

use super::packs::{self, PackDraft, Packs};
pub(super) use crate::text::hex as text;
use crate::{failure::if_there, private};

/// Hash of a blob.
pub(super) type Hash = [u8; 32];

/// Name prefix of incomplete files.
const DRAFT: &str = "draft-";

/// Minimum size from which sharing the blocks of the original is cheaper than copying, in bytes.
const SHARE_FROM: u64 = 64 * 1024;

/// Number of new blobs above which the whole file system is synced at once.
const SYNC_AT_ONCE: usize = 16;

/// Blobs of all sessions.
#[derive(Debug)]
pub(super) struct Blobs {
    folder: PathBuf,
    /// Maximum total size in bytes.
    pub(super) limit: u64,
    total: AtomicU64,
    /// True while the file system seems able to share blocks between files.
    can_share: AtomicBool,
    packs: Mutex<Packs>,
    /// Blobs that were added and may not be synced yet.
    unsynced: Mutex<Vec<String>>,
    /// Read-locked while blobs are in use to which nothing on disk refers yet.
    gate: RwLock<()>,
    /// Number of removals. When it changes, cached results about stored blobs are invalid.
    removals: AtomicU64,
}

impl Blobs {
    /// Opens the folder, creating it if it is missing.
    pub(super) fn open(folder: PathBuf, limit: u64) -> io::Result<Self> {
        private::folder(&folder)?;
        let packs = Packs::open(folder.clone())?;
        let mut total = packs.bytes();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(DRAFT.as_bytes()) {
                let _ = fs::remove_file(entry.path());
            } else if entry.file_name().to_str().and_then(read_hash).is_some() {
                total += entry.metadata().map_or(0, |metadata| metadata.len());
            }
        }
        Ok(Self {
            folder,
            limit,
            total: AtomicU64::new(total),
            can_share: AtomicBool::new(true),
            packs: Mutex::new(packs),
            unsynced: Mutex::default(),
            gate: RwLock::default(),
            removals: AtomicU64::new(0),
        })
    }

    /// Blocks removals while the guard is held.
    pub(super) fn gate(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no caller holds the gate. Blocks new callers while the guard is held.
    pub(super) fn exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of removals so far.
    pub(super) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Returns the total size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Starts adding blobs. With `many`, small blobs are written into one file.
    pub(super) fn blob_writer(&self, many: bool) -> BlobWriter<'_> {
        BlobWriter { blobs: self, many, pack: None }
    }

    /// Stores a file by sharing its blocks, if there is space. Returns the hash of the stored copy, because the
    /// original may change in the meantime.
    fn share(&self, source: &File, size: u64) -> io::Result<Option<(Hash, u64)>> {
        if !self.has_capacity(size) {
            return Ok(None);
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
        if self.has(&hash, size) {
            let _ = fs::remove_file(&draft);
        } else {
            self.finish(&draft, Ok(()), &text(&hash), size)?;
        }
        Ok(Some((hash, size)))
    }

    fn finish(&self, draft: &Path, written: io::Result<()>, name: &str, size: u64) -> io::Result<()> {
        let finished = written.and_then(|()| fs::rename(draft, self.folder.join(name)));
        if finished.is_err() {
            let _ = fs::remove_file(draft);
        }
        finished?;
        self.total.fetch_add(size, Ordering::Relaxed);
        lock(&self.unsynced).push(name.to_owned());
        Ok(())
    }

    fn draft(&self) -> PathBuf {
        self.folder.join(format!("{DRAFT}{}", uuid::Uuid::new_v4().simple()))
    }

    /// Returns true if a blob with this hash and size is stored.
    pub(super) fn has(&self, hash: &Hash, size: u64) -> bool {
        lock(&self.packs).piece(hash).is_some_and(|piece| piece.size == size)
            || fs::symlink_metadata(self.folder.join(text(hash))).is_ok_and(|metadata| metadata.len() == size)
    }

    fn has_capacity(&self, size: u64) -> bool {
        self.bytes().saturating_add(size) <= self.limit
    }

    /// Syncs all added blobs to the disk.
    pub(super) fn sync_contents(&self) -> io::Result<()> {
        // Locked until the sync is done, because other calls may build on added blobs.
        let mut unsynced = lock(&self.unsynced);
        if unsynced.is_empty() {
            return Ok(());
        }
        let folder = File::open(&self.folder)?;
        if unsynced.len() > SYNC_AT_ONCE {
            rustix::fs::syncfs(&folder)?;
        } else {
            for name in unsynced.iter().filter(|name| !name.is_empty()) {
                // Missing blobs were removed to free space.
                if let Some(file) = if_there(File::open(self.folder.join(name)))? {
                    file.sync_data()?;
                }
            }
            folder.sync_all()?;
        }
        unsynced.clear();
        Ok(())
    }

    /// Reads a blob. Returns `None` if it is missing or damaged.
    pub(super) fn read(&self, hash: &str) -> io::Result<Option<Vec<u8>>> {
        // The name comes from the journal; only a valid hash may become a path.
        let Some(wanted) = read_hash(hash) else { return Ok(None) };
        let packed = {
            let packs = lock(&self.packs);
            packs.piece(&wanted).map(|piece| (packs.file(piece), piece))
        };
        let read = match packed {
            Some((file, piece)) => file.and_then(|file| packs::read(&file, piece)),
            None => fs::read(self.folder.join(hash)),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            read => Ok(if_there(read)?.filter(|content| self::hash(content) == wanted)),
        }
    }

    /// Returns the size of a blob, if it is stored.
    pub(super) fn size(&self, hash: &Hash) -> Option<u64> {
        let packed = lock(&self.packs).piece(hash).map(|piece| piece.size);
        packed.or_else(|| fs::symlink_metadata(self.folder.join(text(hash))).ok().map(|metadata| metadata.len()))
    }

    /// Removes unwanted blobs; in a pack, only if they make up at least `percent` percent of the pack. The caller
    /// holds [`exclusive`](Self::exclusive). Returns the number of freed bytes.
    pub(super) fn remove_unwanted(&self, is_wanted: impl Fn(&Hash) -> bool, percent: u64) -> io::Result<u64> {
        // Incremented first, so that a partial failure leaves no stale cached results.
        self.removals.fetch_add(1, Ordering::AcqRel);
        let mut removed = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(hash) = entry.file_name().to_str().and_then(read_hash) else { continue };
            if !is_wanted(&hash) {
                let size = entry.metadata().map_or(0, |metadata| metadata.len());
                fs::remove_file(entry.path())?;
                self.total.fetch_sub(size, Ordering::Relaxed);
                removed += size;
            }
        }
        let of_packs = lock(&self.packs).remove_unwanted(is_wanted, percent)?;
        self.total.fetch_sub(of_packs, Ordering::Relaxed);
        Ok(removed + of_packs)
    }
}

/// Adds blobs one by one.
#[derive(Debug)]
pub(super) struct BlobWriter<'a> {
    blobs: &'a Blobs,
    many: bool,
    pack: Option<PackDraft>,
}

impl BlobWriter<'_> {
    /// Stores an open file of the given size. The returned size differs if the file grows while it is read. Returns
    /// `None` if there is no space left.
    pub(super) fn store_file(&mut self, source: &mut File, size: u64) -> io::Result<Option<(Hash, u64)>> {
        let blobs = self.blobs;
        if size >= SHARE_FROM && blobs.can_share.load(Ordering::Relaxed) {
            match blobs.share(source, size) {
                Ok(shared) => return Ok(shared),
                // The files are on different file systems, or the file system cannot share blocks: files are copied
                // from now on.
                Err(_) => blobs.can_share.store(false, Ordering::Relaxed),
            }
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default().saturating_add(1));
        source.take(size.saturating_add(1)).read_to_end(&mut content)?;
        Ok(self.store(&content)?.map(|hash| (hash, content.len() as u64)))
    }

    /// Stores a blob. Returns `None` if there is no space left.
    pub(super) fn store(&mut self, content: &[u8]) -> io::Result<Option<Hash>> {
        let (hash, size) = (hash(content), content.len() as u64);
        if self.pack.as_ref().is_some_and(|pack| pack.hashes.contains(&hash)) || self.blobs.has(&hash, size) {
            return Ok(Some(hash));
        }
        if !self.blobs.has_capacity(size) {
            return Ok(None);
        }
        if self.many && size < SHARE_FROM {
            let pack = match &mut self.pack {
                Some(pack) => pack,
                none => none.insert(PackDraft::new(&self.blobs.folder)?),
            };
            pack.append(hash, content)?;
            // Added immediately, so that concurrent additions take it into account.
            self.blobs.total.fetch_add(size, Ordering::Relaxed);
            if pack.length >= packs::MAX_BYTES {
                self.finish()?;
            }
        } else {
            let draft = self.blobs.draft();
            let written = new_file(&draft).and_then(|mut file| file.write_all(content));
            self.blobs.finish(&draft, written, &text(&hash), size)?;
        }
        Ok(Some(hash))
    }

    /// Commits the pending pack.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let Some(pack) = self.pack.take() else { return Ok(()) };
        let written = pack.finish()?;
        lock(&self.blobs.packs).add(written);
        // The files are synced; their names may not be.
        lock(&self.blobs.unsynced).push(String::new());
        Ok(())
    }
}

impl Drop for BlobWriter<'_> {
    fn drop(&mut self) {
        // An unfinished pack is discarded.
        if let Some(pack) = self.pack.take() {
            self.blobs.total.fetch_sub(pack.length, Ordering::Relaxed);
        }
    }
}

pub(super) fn new_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Returns the hash and size of a file.
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

/// Returns the hash of a blob.
pub(super) fn hash(content: &[u8]) -> Hash {
    Sha256::digest(content).into()
}

pub(super) fn read_hash(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    (text.len() == 64).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(blobs: &Blobs, content: &[u8]) -> Option<Hash> {
        blobs.blob_writer(false).store(content).unwrap()
    }

    #[test]
    fn small_contents_are_packed_and_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path().join("contents"), 1000).unwrap();
        let single = stored(&blobs, b"single").unwrap();
        let mut blob_writer = blobs.blob_writer(true);
        let hashes: Vec<Hash> = [&b"single"[..], b"one", b"two", b"one"]
            .iter()
            .map(|content| blob_writer.store(content).unwrap().unwrap())
            .collect();
        blob_writer.finish().unwrap();
        blobs.sync_contents().unwrap();
        assert_eq!((hashes[0], blobs.bytes()), (single, 12));
        assert_eq!(fs::read_dir(folder.path().join("contents")).unwrap().count(), 3, "one alone, a pack, its index");
        let reopened = Blobs::open(folder.path().join("contents"), 1000).unwrap();
        for blobs in [&blobs, &reopened] {
            assert_eq!(blobs.read(&text(&hashes[2])).unwrap().unwrap(), b"two");
            assert_eq!(blobs.bytes(), 12);
        }
        assert_eq!(reopened.remove_unwanted(|hash| *hash != hashes[1], 90).unwrap(), 0, "below the given percentage");
        assert_eq!(reopened.remove_unwanted(|hash| *hash != hashes[1], 25).unwrap(), 3);
        assert_eq!(reopened.read(&text(&hashes[2])).unwrap().unwrap(), b"two");
        assert_eq!(reopened.remove_unwanted(|hash| *hash == single, 25).unwrap(), 3);
        assert_eq!((reopened.bytes(), reopened.removals()), (6, 3));
        assert_eq!(reopened.read(&text(&hashes[2])).unwrap(), None);
        assert_eq!(reopened.read("../../etc/passwd").unwrap(), None);
    }

    #[test]
    fn stale_blob_drafts_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("draft-x"), "half").unwrap();
        let blobs = Blobs::open(folder.path().to_path_buf(), 5).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(stored(&blobs, b"12345").is_some(), "drafts do not count towards the limit");
    }
}
