//! Scans the metadata of every path in a tree, without reading the contents.
//!
//! In a user's folder, folders that git ignores as a whole (`target/`, `node_modules/`) and git's data are left out:
//! they can be recreated, and are usually larger than everything else together. However, they are searched for files
//! that [other programs run or obey](agentd_core::guarded). Single ignored files, such as `.env`, are included. In a
//! session's own tree, the daemon's areas are left out.

use std::{
    collections::HashSet,
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

use ignore::gitignore::Gitignore;

use agentd_core::guarded::{self, GitEntry, GuardedNames, NameKind};
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};

use super::{
    blobs::Hash,
    ignored_folders::{IGNORE_FILE, is_store, is_stored, read_ignores},
    leads::{self, HEAD, SAMPLE},
    root::{self, Kind, Root, Stamp},
    tree::Tree,
};
use crate::{
    exact::{if_present, is_missing, split},
    path::PathPlace,
};

/// Maximum depth of recorded folders.
const MAX_DEPTH: usize = 100;
const MAX_PATH: usize = 3500;
/// Buffer size for hashing, in bytes.
const WRITTEN: usize = 16 * 1024;
/// Number of known paths above which several threads scan a tree.
const SHARED_FROM: usize = 2000;
const MAX_THREADS: usize = 4;
/// Maximum number of folders searched only for guarded files. Above this limit, the result is partial.
const MAX_SEARCHED: usize = 50_000;
/// List of refs for plain web servers. Git writes this file together with its data.
const LIST_OF_REFS: &[u8] = b"info/refs";

/// Result of a scan.
#[derive(Debug, Default)]
pub(super) struct ScanResult {
    /// Every path except the root, in no particular order.
    pub(super) entries: Vec<(Vec<u8>, Stamp)>,
    /// Tree without entries, but with the ignore files and repositories that were found.
    pub(super) tree: Tree,
    /// Number of folders that are too deep to be recorded.
    pub(super) too_deep: usize,
    /// The user's folders that are left out.
    pub(super) left_out: Vec<Vec<u8>>,
    /// Topmost files and folders that other programs run or obey.
    pub(super) guarded: Vec<Vec<u8>>,
    /// Guarded links, `.git` files and git configurations, which lead to more guarded files.
    pub(super) leads: Vec<Vec<u8>>,
    /// Git repositories in folders with other names than `.git`.
    pub(super) bare: Vec<Vec<u8>>,
    /// True if there were too many folders to search for guarded files.
    pub(super) is_partial: bool,
    /// Folders that could not be opened or searched.
    pub(super) unopened: Vec<Vec<u8>>,
}

/// Selection of a folder's entries that a scan includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All entries that git does not ignore.
    All,
    /// All entries, because other programs run or obey them.
    Guarded,
    /// Only guarded entries, because git ignores the folder.
    Search,
    /// Only entries that decide what git runs.
    Repository,
    /// All entries of a folder that decides what git runs.
    OfGit,
    /// No entries, because git stores its data here, in a repository with a name other than `.git`. Undoing changes
    /// here would revert the user's commits since the call.
    Store,
}

impl ScanResult {
    /// Adds the result of another thread for the same tree.
    fn add(&mut self, part: Self) {
        self.entries.extend(part.entries);
        self.tree.ignores.extend(part.tree.ignores);
        self.tree.stores.extend(part.tree.stores);
        self.too_deep += part.too_deep;
        self.left_out.extend(part.left_out);
        self.guarded.extend(part.guarded);
        self.leads.extend(part.leads);
        self.bare.extend(part.bare);
        self.is_partial |= part.is_partial;
        self.unopened.extend(part.unopened);
    }

    pub(super) fn of(tree: Tree, capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), tree, ..Self::default() }
    }

    /// Returns a digest of all entries, in order.
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

/// Scans a tree, up to `max_files` paths. Known paths are scanned again even if ignore files exclude them by now.
/// Otherwise a command could add a path to an ignore file, and the next command could change that path unnoticed.
pub(super) fn scan(root: &Root, known: &Tree, max_files: usize, names: &GuardedNames) -> io::Result<ScanResult> {
    let mut tree = Tree::new(root.place, root.path.clone());
    let top = match root.folder(b"") {
        Ok(top) => top,
        Err(error) => {
            tree.skip_reason = Some(format!("the folder cannot be opened: {error}"));
            return Ok(ScanResult::of(tree, 0));
        }
    };
    let (count, searched) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let seen = ScanResult::of(tree, known.entries.len());
    let shared = known.entries.len() >= SHARED_FROM;
    let mut scan =
        Scan { seen, known, max_files, count: &count, searched: &searched, names, pending: shared.then(Vec::new) };
    scan.folder(&top, &mut Vec::new(), FolderContext { depth: 0, ignores: &[], scope: Scope::All })?;
    let pending = scan.pending.take().unwrap_or_default();
    for part in scan_parallel(&scan, &top, &pending) {
        scan.seen.add(part?);
    }
    if scan.seen.is_partial {
        scan.retain_unsearched();
    }
    if count.load(Ordering::Relaxed) > max_files {
        scan.seen.entries.clear();
        scan.seen.tree.skip_reason = Some(format!("it has more than {max_files} files"));
    }
    Ok(scan.seen)
}

/// Scans a path to which a guarded link leads, with all of its entries, unless the path is already included. With
/// `is_git` the path is a repository, and only the files that decide what git runs are included.
pub(super) fn scan_more(
    root: &Root,
    seen: &mut ScanResult,
    path: &[u8],
    is_git: bool,
    (max_files, names): (usize, &GuardedNames),
) -> io::Result<()> {
    let is_known = || seen.entries.iter().any(|(known, _)| known == path);
    let Some(stamp) = root.stamp_of(path)?.filter(|stamp| stamp.kind != Kind::Special && !is_known()) else {
        return Ok(());
    };
    let (count, searched) = (AtomicUsize::new(seen.entries.len()), AtomicUsize::new(0));
    let known = Tree::new(root.place, root.path.clone());
    let of_path = ScanResult::of(known.clone(), 0);
    let mut scan =
        Scan { seen: of_path, known: &known, max_files, count: &count, searched: &searched, names, pending: None };
    if stamp.kind == Kind::Folder {
        let scope = if is_git { Scope::Repository } else { Scope::Guarded };
        scan.folder(&root.folder(path)?, &mut path.to_vec(), FolderContext { depth: 0, ignores: &[], scope })?;
    } else {
        scan.push(path, stamp);
    }
    let known: HashSet<Vec<u8>> =
        seen.entries.iter().map(|(known, _)| known).filter(|known| known.starts_with(path)).cloned().collect();
    seen.entries.extend(scan.seen.entries.into_iter().filter(|(path, _)| !known.contains(path)));
    seen.leads.extend(scan.seen.leads);
    seen.too_deep += scan.seen.too_deep;
    Ok(())
}

/// Scans folders with several threads. The results are in the order of the folders.
fn scan_parallel(scan: &Scan<'_>, top: &OwnedFd, folders: &[PendingFolder]) -> Vec<io::Result<ScanResult>> {
    let next = AtomicUsize::new(0);
    let take = || folders.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed));
    let work = || {
        let mut parts = Vec::new();
        while let Some((index, folder)) = take() {
            let tree = Tree::new(scan.seen.tree.place, scan.seen.tree.path.clone());
            let mut part = Scan { seen: ScanResult::of(tree, 0), pending: None, ..*scan };
            let context = FolderContext { depth: 0, ignores: &folder.ignores, scope: folder.scope };
            let result = part.inside(top, &folder.name, &mut folder.name.clone(), context);
            parts.push((index, result.map(|()| part.seen)));
        }
        parts
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS).min(folders.len());
    let mut parts = thread::scope(|scope| {
        // If no thread can be spawned, the current thread does all the work.
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

struct Scan<'a> {
    seen: ScanResult,
    known: &'a Tree,
    max_files: usize,
    /// Number of paths found by all threads.
    count: &'a AtomicUsize,
    /// Number of ignored folders searched by all threads.
    searched: &'a AtomicUsize,
    names: &'a GuardedNames,
    /// Top-level folders to be scanned by several threads, if there are several.
    pending: Option<Vec<PendingFolder>>,
}

/// Top-level folder of a tree, to be scanned later.
struct PendingFolder {
    name: Vec<u8>,
    ignores: Vec<Arc<Gitignore>>,
    scope: Scope,
}

/// Context of a folder: its depth, the ignore files that apply to it, and the scope of its entries.
#[derive(Clone, Copy)]
struct FolderContext<'i> {
    depth: usize,
    ignores: &'i [Arc<Gitignore>],
    scope: Scope,
}

impl Scan<'_> {
    fn push(&mut self, path: &[u8], stamp: Stamp) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.seen.entries.push((path.to_vec(), stamp));
    }

    /// Scans the entries of the folder at `path`. `path` is restored on return.
    fn folder(&mut self, folder: &OwnedFd, path: &mut Vec<u8>, above: FolderContext<'_>) -> io::Result<()> {
        let scope = above.scope;
        let with_own_ignores = if scope == Scope::All { self.ignores(folder, path, above.ignores) } else { None };
        let ignores = with_own_ignores.as_deref().unwrap_or(above.ignores);
        let length = path.len();
        let is_store = is_store(self.known, folder, path, scope == Scope::All);
        self.seen.tree.stores.extend(is_store.then(|| path.clone()));
        let (is_new, mut has_head) = (!self.known.entries.is_empty() && !self.known.stores.contains(&path[..]), false);
        for entry in root::entries(folder)? {
            if self.count.load(Ordering::Relaxed) > self.max_files {
                return Ok(());
            }
            let Some(entry) = if_present(entry.map_err(io::Error::from))? else { return Ok(()) };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            has_head |= name == HEAD.as_bytes();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            // In an ignored folder, only guarded files are relevant, and folders that may contain guarded files.
            let is_relevant = || {
                matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
                    || self.names.kind(path) == NameKind::Guarded
            };
            if path.len() > MAX_PATH {
                self.seen.too_deep += 1;
            } else if scope != Scope::Search || is_relevant() {
                match root::stamp_in(folder, name) {
                    Ok(stamp) if stamp.kind != Kind::Special => {
                        let is_stored = is_store && is_stored(name, stamp.kind, is_new);
                        let is_left = is_stored && !self.known.entries.contains_key(path);
                        let scope = if is_left { Scope::Store } else { scope };
                        self.entry(folder, name, stamp, path, FolderContext { ignores, scope, ..above })?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        self.seen.unopened.push(path[..length].to_vec());
                    }
                    _ => {}
                }
            }
            path.truncate(length);
        }
        let is_bare = is_store || has_head && matches!(scope, Scope::All | Scope::Search) && leads::has_head(folder);
        self.seen.bare.extend(is_bare.then(|| path.clone()));
        Ok(())
    }

    fn entry(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        stamp: Stamp,
        path: &mut Vec<u8>,
        context: FolderContext<'_>,
    ) -> io::Result<()> {
        let scope = context.scope;
        let Some(inner) = self.scope_of(name, stamp.kind, path, context) else { return Ok(()) };
        if inner != Scope::Search && !matches!((scope, inner), (Scope::Repository | Scope::Store, Scope::Repository)) {
            self.push(path, stamp);
        }
        if matches!(scope, Scope::All | Scope::Search) && matches!(inner, Scope::Guarded | Scope::Repository) {
            self.seen.guarded.push(path.clone());
        }
        let is_lead = match inner {
            // A new link may lead into a cache, which no check scans.
            Scope::All => {
                stamp.kind == Kind::Link && self.known.entries.get(path).is_none_or(|known| known.stamp != stamp)
            }
            Scope::Search => false,
            _ if stamp.kind == Kind::Link => true,
            _ => stamp.kind == Kind::File && (guarded::is_git(name) || scope == Scope::Repository),
        };
        if is_lead {
            self.seen.leads.push(path.clone());
        }
        if stamp.kind != Kind::Folder {
            return Ok(());
        }
        if context.depth == MAX_DEPTH {
            self.seen.too_deep += 1;
            return Ok(());
        }
        let search_scope = (scope == Scope::Store && inner == Scope::Repository).then_some(Scope::Search);
        for scope in [Some(inner), search_scope].into_iter().flatten() {
            match &mut self.pending {
                Some(pending) => {
                    pending.push(PendingFolder { name: name.to_vec(), ignores: context.ignores.to_vec(), scope })
                }
                None => self.inside(folder, name, path, FolderContext { scope, ..context })?,
            }
        }
        Ok(())
    }

    /// Returns the scope of an entry; for a folder, the scope of its contents. `None` if the entry is left out. Folders
    /// that are only searched, and most folders in a repository, are not recorded themselves.
    fn scope_of(
        &mut self,
        name: &[u8],
        kind: Kind,
        path: &[u8],
        FolderContext { ignores, scope, .. }: FolderContext<'_>,
    ) -> Option<Scope> {
        let is_folder = kind == Kind::Folder;
        if self.seen.tree.place == PathPlace::Own {
            let is_daemon_area = is_folder && crate::path::DAEMON_AREAS.iter().any(|area| path == area.as_bytes());
            return (!is_daemon_area).then_some(Scope::All);
        }
        match scope {
            Scope::Repository => match guarded::git_entry(name, is_folder) {
                GitEntry::Guarded => Some(Scope::OfGit),
                // The folder may have been replaced by a link.
                _ if kind == Kind::Link && guarded::git_entry(name, true) == GitEntry::Guarded => Some(Scope::OfGit),
                GitEntry::Repositories => Some(Scope::Repository),
                GitEntry::Store => None,
            },
            Scope::Store if is_folder => {
                self.seen.left_out.push(path.to_vec());
                let is_plain = guarded::git_entry(name, true) != GitEntry::Repositories;
                if is_plain { self.may_search().then_some(Scope::Search) } else { Some(Scope::Repository) }
            }
            Scope::Store => None,
            Scope::OfGit => (!name.ends_with(SAMPLE) && !path.ends_with(LIST_OF_REFS)).then_some(Scope::OfGit),
            _ if is_folder && guarded::is_git(name) => {
                if scope == Scope::All {
                    self.seen.left_out.push(path.to_vec());
                }
                Some(Scope::Repository)
            }
            Scope::Guarded => {
                (!is_folder || self.names.kind(path) != NameKind::Cache || guarded::is_in_agent_folder(path))
                    .then_some(Scope::Guarded)
            }
            Scope::All | Scope::Search => {
                let kind = self.names.kind(path);
                if kind == NameKind::Guarded {
                    return Some(Scope::Guarded);
                }
                if scope == Scope::All {
                    if !(is_folder && self.is_left_out(path, ignores)) {
                        return Some(Scope::All);
                    }
                    self.seen.left_out.push(path.to_vec());
                }
                (kind == NameKind::Plain && is_folder && self.may_search()).then_some(Scope::Search)
            }
        }
    }

    /// Counts a searched folder. Returns false once the limit is exceeded.
    fn may_search(&mut self) -> bool {
        let is_within = self.searched.fetch_add(1, Ordering::Relaxed) < MAX_SEARCHED;
        self.seen.is_partial |= !is_within;
        is_within
    }

    /// Scans a subfolder and its entries.
    fn inside(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        path: &mut Vec<u8>,
        context: FolderContext<'_>,
    ) -> io::Result<()> {
        match root::folder_in(folder, name) {
            Ok(inner) => self.folder(&inner, path, FolderContext { depth: context.depth + 1, ..context }),
            Err(error) if is_missing(&error) => Ok(()),
            Err(_) => {
                self.seen.unopened.push(path.clone());
                self.retain_unreadable(path);
                Ok(())
            }
        }
    }

    /// Retains the known state of ignored folders that were not searched, so that they do not appear as deleted.
    fn retain_unsearched(&mut self) {
        let is_ignored = |folder: &&Vec<u8>| !guarded::is_git(split(folder).1);
        let ignored: Vec<Vec<u8>> = self.seen.left_out.iter().filter(is_ignored).cloned().collect();
        let is_below = |path: &[u8]| {
            ignored.iter().any(|folder| path.strip_prefix(&**folder).is_some_and(|rest| rest.starts_with(b"/")))
        };
        self.seen.entries.retain(|(path, _)| !is_below(path));
        for folder in &ignored {
            self.retain_unreadable(folder);
        }
    }

    /// Retains the known state below an unreadable folder, so that its entries do not appear as deleted.
    fn retain_unreadable(&mut self, path: &[u8]) {
        let below = [path, b"/"].concat();
        let known = self.known;
        for (known, entry) in known.entries.iter().filter(|(known, _)| known.starts_with(&below)) {
            self.push(known, entry.stamp);
        }
    }

    fn is_left_out(&self, path: &[u8], ignores: &[Arc<Gitignore>]) -> bool {
        if self.known.entries.contains_key(path) {
            return false;
        }
        let absolute = [b"/", path].concat();
        let absolute = Path::new(std::ffi::OsStr::from_bytes(&absolute));
        let mut matches = ignores.iter().rev().map(|ignore| ignore.matched(absolute, true));
        matches.find(|matches| !matches.is_none()).is_some_and(|matches| matches.is_ignore())
    }

    /// Returns the ignore files that apply in this folder, including its own, if any.
    fn ignores(&mut self, folder: &OwnedFd, path: &[u8], above: &[Arc<Gitignore>]) -> Option<Vec<Arc<Gitignore>>> {
        if !self.seen.tree.place.is_mounted() {
            return None;
        }
        let stamp = root::stamp_in(folder, IGNORE_FILE).ok().filter(|stamp| stamp.kind == Kind::File)?;
        let ignore = match self.known.ignores.get(path) {
            Some((known, ignore)) if *known == stamp => Arc::clone(ignore),
            _ => Arc::new(read_ignores(folder, path)?),
        };
        self.seen.tree.ignores.insert(path.to_vec(), (stamp, Arc::clone(&ignore)));
        Some(above.iter().cloned().chain([ignore]).collect())
    }
}
