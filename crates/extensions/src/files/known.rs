//! Cache of unchanged content, so that it is not read again.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    disk::{self, NotAtHand, Pace, Stamp},
    file::{GuideText, read},
};

/// Maximum number of cached files, and of cached folders.
const MAX_KNOWN: usize = 512;
/// Maximum number of entries read of a folder.
const MAX_ENTRIES: usize = 1000;

/// Files that were read before, by path. No reader waits for another's disk: the lock is held only for a look.
#[derive(Debug, Default)]
pub(crate) struct GuideCache {
    files: Mutex<ByPath<File>>,
    folders: Mutex<ByPath<Folder>>,
}

type ByPath<T> = HashMap<PathBuf, T>;

#[derive(Debug)]
struct File {
    stamp: Stamp,
    /// Number of bytes that were wanted.
    most: usize,
    read: Arc<GuideText>,
}

#[derive(Debug)]
struct Folder {
    stamp: Stamp,
    entries: Arc<[Entry]>,
}

/// Entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_folder: bool,
}

impl GuideCache {
    /// The first `most` bytes of a plain file of this user. None where there is no such file.
    pub(crate) fn read(
        &self,
        path: &Path,
        follow: bool,
        most: usize,
        pace: Pace,
    ) -> Result<Option<Arc<GuideText>>, NotAtHand> {
        if pace == Pace::AtOnce {
            let Some(stamp) = disk::stamp(path, follow, pace)? else { return Ok(None) };
            return self.unchanged(path, stamp, most).map(Some).ok_or(NotAtHand);
        }
        Ok(match self.refreshed(path, follow, most) {
            Ok(read) => Some(read),
            Err(error) => {
                if !disk::is_missing(&error) {
                    tracing::info!("{} is left out: {error}", path.display());
                }
                None
            }
        })
    }

    fn refreshed(&self, path: &Path, follow: bool, most: usize) -> io::Result<Arc<GuideText>> {
        let (file, stamp) = disk::open(path, follow)?;
        if let Some(read) = self.unchanged(path, stamp, most) {
            return Ok(read);
        }
        let read = Arc::new(read(file, stamp, most)?);
        remember(&mut lock(&self.files), path, File { stamp, most, read: Arc::clone(&read) });
        Ok(read)
    }

    fn unchanged(&self, path: &Path, stamp: Stamp, most: usize) -> Option<Arc<GuideText>> {
        match lock(&self.files).get(path) {
            Some(known) if stamp.settled && known.stamp == stamp && known.most == most => Some(Arc::clone(&known.read)),
            _ => None,
        }
    }

    /// Entries of a folder, sorted by name, without hidden ones. Nothing where there is no such folder.
    pub(crate) fn entries(&self, folder: &Path, pace: Pace) -> Result<Arc<[Entry]>, NotAtHand> {
        let Some(stamp) = disk::stamp(folder, true, pace).or_else(|wait| match pace {
            Pace::AtOnce => Err(wait),
            Pace::Patient => Ok(None),
        })?
        else {
            return Ok(Arc::default());
        };
        if let Some(known) = lock(&self.folders).get(folder)
            && stamp.settled
            && known.stamp == stamp
        {
            return Ok(Arc::clone(&known.entries));
        }
        if pace == Pace::AtOnce {
            return Err(NotAtHand);
        }
        let entries: Arc<[Entry]> = list(folder).into();
        remember(&mut lock(&self.folders), folder, Folder { stamp, entries: Arc::clone(&entries) });
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

fn remember<T>(known: &mut ByPath<T>, path: &Path, what: T) {
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(path.to_path_buf(), what);
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
