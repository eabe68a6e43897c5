//! Stores many small blobs in one file. For a project of twenty thousand files, this saves seconds compared to one
//! file per blob.
//!
//! A pack is written sequentially, and valid only once its index is complete and synced. An index ends with the hash of
//! all preceding bytes. Packs without an index, left by a crash, are removed.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, BufWriter, Write as _},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use super::blobs::{Hash, hash, new_file};
use crate::failure::if_there;

const PACK: &str = "pack";
const INDEX: &str = "index";

/// Maximum size of a pack before a new one is started, in bytes.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// Size of an index record: hash, offset and size of a blob.
const RECORD: usize = 48;

/// Location of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pack: usize,
    offset: u64,
    pub(super) size: u64,
}

/// All packs of one folder. Pack numbers are valid for this process only.
#[derive(Debug, Default)]
pub(super) struct Packs {
    folder: PathBuf,
    /// Name and size in bytes of each pack, by number; `None` for removed packs.
    names: Vec<Option<(String, u64)>>,
    pieces: HashMap<Hash, Piece>,
}

impl Packs {
    /// Reads the packs in a folder, and removes incomplete ones.
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        let mut packs = Self { folder, ..Self::default() };
        let mut found = Vec::new();
        for entry in fs::read_dir(&packs.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == PACK || ending == INDEX)
                && let Some(name) = path.file_stem().and_then(|name| name.to_str())
            {
                found.push(name.to_owned());
            }
        }
        found.sort();
        found.dedup();
        for name in found {
            match read_index(&packs.path(&name, INDEX))? {
                Some(records) if packs.path(&name, PACK).is_file() => packs.add(NewPack { name, records }),
                _ => packs.remove_files(&name)?,
            }
        }
        Ok(packs)
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(name).with_extension(ending)
    }

    /// Adds a written pack.
    pub(super) fn add(&mut self, NewPack { name, records }: NewPack) {
        let pack = self.names.len();
        let bytes = records.iter().map(|(_, _, size)| size).sum();
        self.names.push(Some((name, bytes)));
        for (hash, offset, size) in records {
            self.pieces.entry(hash).or_insert(Piece { pack, offset, size });
        }
    }

    /// Returns the total size of all packs, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.names.iter().flatten().map(|(_, bytes)| bytes).sum()
    }

    pub(super) fn piece(&self, hash: &Hash) -> Option<Piece> {
        self.pieces.get(hash).copied()
    }

    /// Opens the pack that contains a blob.
    pub(super) fn file(&self, piece: Piece) -> io::Result<File> {
        let name = self.names.get(piece.pack).and_then(Option::as_ref).ok_or(io::ErrorKind::NotFound)?;
        File::open(self.path(&name.0, PACK))
    }

    /// Drops unwanted blobs from each pack in which they make up at least `percent` percent of the bytes. Returns
    /// the number of freed bytes.
    pub(super) fn remove_unwanted(&mut self, is_wanted: impl Fn(&Hash) -> bool, percent: u64) -> io::Result<u64> {
        let before = self.bytes();
        for pack in 0..self.names.len() {
            let Some((name, bytes)) = self.names[pack].clone() else { continue };
            let own = self.pieces.iter().filter(|(_, piece)| piece.pack == pack);
            let wanted_pieces: Vec<(Hash, Piece)> =
                own.filter(|(hash, _)| is_wanted(hash)).map(|(hash, piece)| (*hash, *piece)).collect();
            let wanted: u64 = wanted_pieces.iter().map(|(_, piece)| piece.size).sum();
            let unwanted = bytes.saturating_sub(wanted);
            if unwanted == 0 || (wanted > 0 && unwanted * 100 < bytes * percent) {
                continue;
            }
            let written = if wanted_pieces.is_empty() { None } else { Some(self.copy(&name, &wanted_pieces)?) };
            self.remove_files(&name)?;
            self.names[pack] = None;
            self.pieces.retain(|_, piece| piece.pack != pack);
            if let Some(written) = written {
                self.add(written);
            }
        }
        Ok(before.saturating_sub(self.bytes()))
    }

    fn copy(&self, name: &str, wanted_pieces: &[(Hash, Piece)]) -> io::Result<NewPack> {
        let from = File::open(self.path(name, PACK))?;
        let mut draft = PackDraft::new(&self.folder)?;
        for (hash, piece) in wanted_pieces {
            draft.append(*hash, &read(&from, *piece)?)?;
        }
        draft.finish()
    }

    /// Removes the files of a pack: the index first, because a pack without an index is invalid.
    fn remove_files(&self, name: &str) -> io::Result<()> {
        for ending in [INDEX, PACK] {
            if_there(fs::remove_file(self.path(name, ending)))?;
        }
        Ok(())
    }
}

/// Reads a blob from its pack.
pub(super) fn read(file: &File, piece: Piece) -> io::Result<Vec<u8>> {
    let mut content = vec![0; usize::try_from(piece.size).map_err(io::Error::other)?];
    file.read_exact_at(&mut content, piece.offset)?;
    Ok(content)
}

/// Reads the records of an index. Returns `None` if the index is missing or damaged.
fn read_index(path: &Path) -> io::Result<Option<Vec<(Hash, u64, u64)>>> {
    let Some(body) = read_whole(path)?.filter(|body| body.len() % RECORD == 0) else { return Ok(None) };
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    let record = |record: &[u8]| {
        let hash = record[..32].try_into().unwrap_or_default();
        (hash, number(&record[32..40]), number(&record[40..]))
    };
    Ok(Some(body.chunks_exact(RECORD).map(record).collect()))
}

/// Reads a file without the hash at its end. Returns `None` if the file is missing or damaged.
pub(super) fn read_whole(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(mut bytes) = if_there(fs::read(path))? else { return Ok(None) };
    let Some((body, sum)) = bytes.split_last_chunk::<32>() else { return Ok(None) };
    let (length, is_whole) = (body.len(), *sum == hash(body));
    bytes.truncate(length);
    Ok(is_whole.then_some(bytes))
}

/// Pack that is being written. Its files are removed if it is dropped before it is finished.
#[derive(Debug)]
pub(super) struct PackDraft {
    path: PathBuf,
    name: String,
    file: BufWriter<File>,
    records: Vec<(Hash, u64, u64)>,
    pub(super) hashes: HashSet<Hash>,
    pub(super) length: u64,
    finished: bool,
}

/// Complete pack on disk that is not yet registered.
#[derive(Debug)]
pub(super) struct NewPack {
    name: String,
    records: Vec<(Hash, u64, u64)>,
}

impl PackDraft {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let path = folder.join(&name).with_extension(PACK);
        let file = BufWriter::with_capacity(256 * 1024, new_file(&path)?);
        Ok(Self { path, name, file, records: Vec::new(), hashes: HashSet::new(), length: 0, finished: false })
    }

    pub(super) fn append(&mut self, hash: Hash, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        let size = content.len() as u64;
        self.records.push((hash, self.length, size));
        self.hashes.insert(hash);
        self.length += size;
        Ok(())
    }

    /// Syncs the blobs, then writes the index.
    pub(super) fn finish(mut self) -> io::Result<NewPack> {
        self.file.flush()?;
        self.file.get_ref().sync_data()?;
        let mut bytes = Vec::with_capacity(self.records.len() * RECORD + 32);
        for (hash, offset, size) in &self.records {
            bytes.extend_from_slice(hash);
            bytes.extend_from_slice(&offset.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
        }
        bytes.extend_from_slice(&hash(&bytes));
        let mut index = new_file(&self.path.with_extension(INDEX))?;
        index.write_all(&bytes)?;
        index.sync_data()?;
        self.finished = true;
        Ok(NewPack { name: std::mem::take(&mut self.name), records: std::mem::take(&mut self.records) })
    }
}

impl Drop for PackDraft {
    fn drop(&mut self) {
        if !self.finished {
            // Leftovers are removed at the next start.
            let _ = fs::remove_file(self.path.with_extension(INDEX));
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_pack_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let mut whole = PackDraft::new(folder.path()).unwrap();
        whole.append(hash(b"one"), b"one").unwrap();
        whole.finish().unwrap();
        let index = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let index = index.into_iter().find(|path| path.extension().is_some_and(|ending| ending == INDEX)).unwrap();
        fs::write(index, b"torn").unwrap();
        let mut draft = PackDraft::new(folder.path()).unwrap();
        draft.append(hash(b"two"), b"two").unwrap();
        std::mem::forget(draft);
        let packs = Packs::open(folder.path().to_path_buf()).unwrap();
        assert_eq!(packs.bytes(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "incomplete packs are removed");
    }
}
