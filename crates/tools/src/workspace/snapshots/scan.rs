//! Scans every path of a tree: metadata, not content.
//!
//! Of a folder of the person, what git ignores as a whole folder (`target/`, `node_modules/`) and `.git` itself are left out: they
//! can be made again, and are larger than all else together. A file that is ignored by itself, such as `.env`, is not
//! left out: nothing else could bring it back. Of a session's own tree, what the daemon keeps there is left out: no
//! call changes it.

use std::{
    io,
    num::NonZero,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use sha2::{Digest as _, Sha256};

use super::{
    super::path::PathPlace,
    blobs::Hash,
    root::{self, Kind, Root, Stamp},
    tree::Tree,
};

/// Folders deeper than this are not recorded.
const MAX_DEPTH: usize = 100;
const MAX_PATH: usize = 3500;
const MAX_IGNORE_FILE: u64 = 256 * 1024;
/// Bytes that are hashed at once.
const WRITTEN: usize = 16 * 1024;
const IGNORE_FILE: &[u8] = b".gitignore";
/// Trees that had fewer paths when they were last seen are looked at by one thread alone.
const SHARED_FROM: usize = 2000;
const MAX_THREADS: usize = 4;

/// Result of a look.
#[derive(Debug)]
pub(super) struct ScanResult {
    /// Every path but the root, in no order.
    pub(super) entries: Vec<(Vec<u8>, Stamp)>,
    /// A tree that holds nothing but the ignore files that were read.
    pub(super) tree: Tree,
    /// Folders that lie too deep to be recorded.
    pub(super) too_deep: usize,
    /// Folders of the person that are left out.
    pub(super) left_out: Vec<Vec<u8>>,
}

impl ScanResult {
    /// Adds what another thread saw of the same tree.
    fn add(&mut self, part: Self) {
        self.entries.extend(part.entries);
        self.tree.ignores.extend(part.tree.ignores);
        self.too_deep += part.too_deep;
        self.left_out.extend(part.left_out);
    }

    /// A digest of all that was seen, in its order.
    pub(super) fn digest(&self) -> Hash {
        let mut hasher = Sha256::new();
        let mut written = Vec::with_capacity(WRITTEN);
        for (path, stamp) in &self.entries {
            written.extend_from_slice(&(path.len() as u64).to_le_bytes());
            written.extend_from_slice(path);
            stamp.write(&mut written);
            if written.len() > WRITTEN / 2 {
                hasher.update(&written);
                written.clear();
            }
        }
        hasher.update(&written);
        hasher.finalize().into()
    }
}

/// Looks at a tree, at most at `max_files` paths. What was seen before is looked at again, whatever ignore files say by
/// now: otherwise a command could write into one what the next command is about to change.
pub(super) fn scan(root: &Root, known: &Tree, max_files: usize) -> io::Result<ScanResult> {
    let mut tree = Tree::new(root.place, root.path.clone());
    let top = match root.folder(b"") {
        Ok(top) => top,
        Err(error) => {
            tree.unseen = Some(format!("the folder cannot be opened: {error}"));
            return Ok(ScanResult { entries: Vec::new(), tree, too_deep: 0, left_out: Vec::new() });
        }
    };
    let count = AtomicUsize::new(0);
    let seen = ScanResult { entries: Vec::with_capacity(known.entries.len()), tree, too_deep: 0, left_out: Vec::new() };
    let shared = known.entries.len() >= SHARED_FROM;
    let mut scan = Scan { seen, known, max_files, count: &count, later: shared.then(Vec::new) };
    scan.folder(&top, &mut Vec::new(), 0, &[])?;
    let later = scan.later.take().unwrap_or_default();
    for part in together(&scan, &top, &later) {
        scan.seen.add(part?);
    }
    if count.load(Ordering::Relaxed) > max_files {
        scan.seen.entries.clear();
        scan.seen.tree.unseen = Some(format!("it has more than {max_files} files"));
    }
    Ok(scan.seen)
}

/// Looks into folders with several threads. What each of them holds comes in the order of the folders.
fn together(scan: &Scan<'_>, top: &OwnedFd, folders: &[Later]) -> Vec<io::Result<ScanResult>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut parts = Vec::new();
        while let Some((index, folder)) = take_next(&next, folders) {
            let mut part = scan.part();
            let looked = part.inside(top, &folder.name, &mut folder.name.clone(), 0, &folder.ignores);
            parts.push((index, looked.map(|()| part.seen)));
        }
        parts
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS).min(folders.len());
    let mut parts = thread::scope(|scope| {
        // Where no thread can be had, this one does it all.
        let named = || thread::Builder::new().name("snapshot-look".into());
        let others: Vec<_> = (1..threads).filter_map(|_| named().spawn_scoped(scope, work).ok()).collect();
        let mut parts = work();
        for other in others {
            match other.join() {
                Ok(more) => parts.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parts
    });
    parts.sort_by_key(|(index, _)| *index);
    parts.into_iter().map(|(_, part)| part).collect()
}

fn take_next<'a>(next: &AtomicUsize, folders: &'a [Later]) -> Option<(usize, &'a Later)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    folders.get(index).map(|folder| (index, folder))
}

struct Scan<'a> {
    seen: ScanResult,
    known: &'a Tree,
    max_files: usize,
    /// The paths that all threads have seen.
    count: &'a AtomicUsize,
    /// The folders at the top, where they are left for several threads.
    later: Option<Vec<Later>>,
}

/// A folder at the top of a tree.
struct Later {
    name: Vec<u8>,
    ignores: Vec<Arc<Gitignore>>,
}

impl Scan<'_> {
    /// The same, with nothing seen yet.
    fn part(&self) -> Scan<'_> {
        let tree = Tree::new(self.seen.tree.place, self.seen.tree.path.clone());
        let seen = ScanResult { entries: Vec::new(), tree, too_deep: 0, left_out: Vec::new() };
        Scan { seen, known: self.known, max_files: self.max_files, count: self.count, later: None }
    }

    fn push(&mut self, path: &[u8], stamp: Stamp) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.seen.entries.push((path.to_vec(), stamp));
    }

    /// Looks at the entries of a folder. `path` is its path, and is again when this returns.
    fn folder(
        &mut self,
        folder: &OwnedFd,
        path: &mut Vec<u8>,
        depth: usize,
        above: &[Arc<Gitignore>],
    ) -> io::Result<()> {
        let with_own = self.ignores(folder, path, above);
        let ignores = with_own.as_deref().unwrap_or(above);
        let length = path.len();
        for entry in root::entries(folder)? {
            if self.count.load(Ordering::Relaxed) > self.max_files {
                return Ok(());
            }
            let entry = match entry.map_err(io::Error::from) {
                Ok(entry) => entry,
                Err(error) if root::is_missing(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            // What is gone again was not there.
            let Ok(stamp) = root::look_in(folder, name) else { continue };
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            if path.len() > MAX_PATH {
                self.seen.too_deep += 1;
            } else if stamp.kind != Kind::Special {
                self.entry(folder, name, stamp, path, depth, ignores)?;
            }
            path.truncate(length);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        stamp: Stamp,
        path: &mut Vec<u8>,
        depth: usize,
        ignores: &[Arc<Gitignore>],
    ) -> io::Result<()> {
        if stamp.kind != Kind::Folder {
            self.push(path, stamp);
            return Ok(());
        }
        if self.is_left_out(name, path, ignores) {
            if self.seen.tree.place.is_mounted() {
                self.seen.left_out.push(path.clone());
            }
            return Ok(());
        }
        self.push(path, stamp);
        if depth == MAX_DEPTH {
            self.seen.too_deep += 1;
            return Ok(());
        }
        if let Some(later) = &mut self.later {
            later.push(Later { name: name.to_vec(), ignores: ignores.to_vec() });
            return Ok(());
        }
        self.inside(folder, name, path, depth, ignores)
    }

    /// Looks into a folder of a folder.
    fn inside(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        path: &mut Vec<u8>,
        depth: usize,
        ignores: &[Arc<Gitignore>],
    ) -> io::Result<()> {
        match root::folder_in(folder, name) {
            Ok(inner) => self.folder(&inner, path, depth + 1, ignores),
            Err(error) if root::is_missing(&error) => Ok(()),
            Err(_) => {
                self.hidden(path);
                Ok(())
            }
        }
    }

    /// Keeps the known state below a folder that can no longer be opened: it must not look deleted.
    fn hidden(&mut self, path: &[u8]) {
        let below = [path, b"/"].concat();
        let known = self.known;
        for (known, entry) in known.entries.iter().filter(|(known, _)| known.starts_with(&below)) {
            self.push(known, entry.stamp);
        }
    }

    fn is_left_out(&self, name: &[u8], path: &[u8], ignores: &[Arc<Gitignore>]) -> bool {
        if self.seen.tree.place == PathPlace::Own {
            return super::super::KEPT.iter().any(|kept| path == kept.as_bytes());
        }
        if name == b".git" {
            return true;
        }
        if self.known.entries.contains_key(path) {
            return false;
        }
        let absolute = [b"/", path].concat();
        let absolute = Path::new(std::ffi::OsStr::from_bytes(&absolute));
        for ignore in ignores.iter().rev() {
            match ignore.matched(absolute, true) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    /// The ignore files that speak of what is in this folder, where it has one of its own.
    fn ignores(&mut self, folder: &OwnedFd, path: &[u8], above: &[Arc<Gitignore>]) -> Option<Vec<Arc<Gitignore>>> {
        if !self.seen.tree.place.is_mounted() {
            return None;
        }
        let stamp = root::look_in(folder, IGNORE_FILE).ok().filter(|stamp| stamp.kind == Kind::File)?;
        let ignore = match self.known.ignores.get(path) {
            Some((known, ignore)) if *known == stamp => Arc::clone(ignore),
            _ => Arc::new(read_ignores(folder, path)?),
        };
        self.seen.tree.ignores.insert(path.to_vec(), (stamp, Arc::clone(&ignore)));
        Some(above.iter().cloned().chain([ignore]).collect())
    }
}

fn read_ignores(folder: &OwnedFd, path: &[u8]) -> Option<Gitignore> {
    let content = root::small_in(folder, IGNORE_FILE, MAX_IGNORE_FILE)?;
    // Ignore files think in absolute paths; the tree is their root.
    let absolute = [b"/", path].concat();
    let mut builder = GitignoreBuilder::new(std::ffi::OsStr::from_bytes(&absolute));
    for line in String::from_utf8_lossy(&content).lines() {
        // A line that makes no sense excludes nothing, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}
