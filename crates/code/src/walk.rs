//! Lists the source files in a folder, and updates the index from them.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, Metadata},
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::UNIX_EPOCH,
};

use agentd_core::code::SkipReason;
use ignore::{
    DirEntry, WalkBuilder,
    gitignore::{Gitignore, GitignoreBuilder},
};
use serde::{Deserialize, Serialize};

use crate::{
    index::{CodeIndex, FileAnalysis, FileStamp, analysis::analyse},
    source::Parser,
    terms::Stems,
    text::{MAX_BYTES, decode, is_generated_name, is_generated_text},
};

/// Maximum number of listed files.
pub const MAX_FILES: usize = 100_000;
/// Maximum total size of all files in bytes. The index uses about a third more in memory.
pub const MAX_TOTAL_BYTES: u64 = 256 << 20;
const MAX_DEPTH: usize = 64;

/// Predicate on paths relative to the folder, with slashes. Returns true for files that may be read.
pub type MayRead = dyn Fn(&str) -> bool + Send + Sync;

/// Folder together with the rules that determine which files may be read.
#[derive(Clone, Copy)]
pub(crate) struct FileTree<'a> {
    pub(crate) root: &'a Path,
    pub(crate) outer: &'a OuterIgnore,
    pub(crate) may_read: &'a MayRead,
}

/// Listed file in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    /// Path relative to the folder, with slashes.
    pub(crate) path: String,
    pub(crate) stamp: FileStamp,
}

/// Lists the files that may be indexed. Does not follow links. Skips hidden and git-ignored files; ignore rules also
/// apply outside a repository.
pub(crate) fn list(tree: &FileTree<'_>, max_files: usize, report: &mut RefreshReport) -> Vec<ListedFile> {
    let FileTree { root, outer, may_read } = *tree;
    let (mut files, mut total) = (Vec::new(), 0);
    let mut walk = walk(root);
    let outer = outer.clone();
    walk.filter_entry(move |entry| is_wanted(entry, &outer));
    for entry in walk.build() {
        let Ok(entry) = entry else {
            report.is_partial = true;
            continue;
        };
        let kind = entry.file_type();
        if kind.is_some_and(|kind| kind.is_dir()) {
            report.folders.extend(if entry.depth() == 0 { Some(String::new()) } else { relative(root, entry.path()) });
        }
        if !kind.is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let Some(path) = relative(root, entry.path()) else { continue };
        if !may_index(&path, may_read) {
            continue;
        }
        // The file disappeared after it was listed, which the next listing detects.
        let Ok(metadata) = entry.metadata() else { continue };
        let stamp = stamp(&metadata);
        // Larger files are not read and do not count.
        total += if stamp.size > MAX_BYTES as u64 { 0 } else { stamp.size };
        if files.len() >= max_files.min(MAX_FILES) || total > MAX_TOTAL_BYTES {
            report.is_truncated = true;
            break;
        }
        files.push(ListedFile { path, stamp });
    }
    files
}

fn walk(root: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(root);
    // The worker cannot access parent folders.
    walk.follow_links(false).require_git(false).parents(false).git_global(false).max_depth(Some(MAX_DEPTH));
    walk
}

fn is_wanted(entry: &DirEntry, outer: &OuterIgnore) -> bool {
    let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
    entry.file_name() != "node_modules" && !(entry.depth() > 0 && outer.ignores(entry.path(), is_folder))
}

/// Returns true if a single file may be indexed according to the rules of [`list`].
pub(crate) fn is_listed(tree: &FileTree<'_>, path: &str) -> bool {
    let FileTree { root, outer, may_read } = *tree;
    let Some(real_path) = absolute(root, path).filter(|_| may_index(path, may_read)) else { return false };
    let mut walker = walk(root);
    let (target, outer) = (real_path.clone(), outer.clone());
    walker.filter_entry(move |entry| is_wanted(entry, &outer) && target.starts_with(entry.path()));
    let mut found = walker.build().filter_map(Result::ok);
    found.any(|entry| entry.path() == real_path && entry.file_type().is_some_and(|kind| kind.is_file()))
}

/// Returns true if the path may be indexed, based only on its name.
pub(crate) fn may_index(path: &str, may_read: &MayRead) -> bool {
    !is_generated_name(path) && may_read(path)
}

/// Returns the path relative to a folder, with slashes, or `None` if a name is not valid UTF-8.
fn relative(root: &Path, path: &Path) -> Option<String> {
    let relative_path = path.strip_prefix(root).ok()?;
    let parts: Option<Vec<&str>> = relative_path.iter().map(|part| part.to_str()).collect();
    parts.map(|parts| parts.join("/")).filter(|path| !path.is_empty())
}

/// Returns the absolute path of an indexed file, or `None` if the path leads out of the folder.
pub(crate) fn absolute(root: &Path, path: &str) -> Option<PathBuf> {
    is_below(path).then(|| root.join(path))
}

/// Returns true if the path is normalised and stays inside the folder.
pub(crate) fn is_below(path: &str) -> bool {
    path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Returns the absolute path of a regular file, or `None` if any part of the path is a link.
pub(crate) fn regular_file(root: &Path, path: &str) -> Option<(PathBuf, Metadata)> {
    let real_path = absolute(root, path)?;
    let metadata = real_path.symlink_metadata().ok().filter(Metadata::is_file)?;
    let is_direct = real_path.canonicalize().is_ok_and(|real| real == real_path);
    is_direct.then_some((real_path, metadata))
}

pub(crate) fn stamp(metadata: &Metadata) -> FileStamp {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    FileStamp { modified: modified.map_or(0, |since| since.as_nanos()), size: metadata.len() }
}

/// Maximum number of parent folders that are searched for ignore rules.
const MAX_LEVELS: usize = 16;
/// Maximum size of a rule file in bytes.
const MAX_RULES: u64 = 64 * 1024;

/// Ignore rules of a parent folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OuterRules {
    /// Folder to which the rules are relative.
    pub folder: PathBuf,
    /// Rules in the syntax of `.gitignore`.
    pub rules: String,
}

/// Reads the ignore rules of the parent folders, up to the root of the repository. Returns an empty list if the folder
/// is a repository root or outside any repository.
pub(crate) fn outer_rules(folder: &Path) -> Vec<OuterRules> {
    let is_root = |folder: &Path| folder.join(".git").exists();
    let mut found = Vec::new();
    if is_root(folder) {
        return found;
    }
    for parent_folder in folder.ancestors().skip(1).take(MAX_LEVELS) {
        let files = [parent_folder.join(".gitignore"), parent_folder.join(".git/info/exclude")];
        let rules: Vec<String> = files.iter().filter_map(|file| read(file)).collect();
        if !rules.is_empty() {
            found.push(OuterRules { folder: parent_folder.to_owned(), rules: rules.join("\n") });
        }
        if is_root(parent_folder) {
            return found;
        }
    }
    // Outside a repository, the parent folders are unrelated.
    Vec::new()
}

fn read(file: &Path) -> Option<String> {
    let is_plain = file.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let mut rules = Vec::new();
    File::open(file).ok().filter(|_| is_plain)?.take(MAX_RULES).read_to_end(&mut rules).ok()?;
    Some(String::from_utf8_lossy(&rules).into_owned())
}

/// Compiled ignore rules of the parent folders.
#[derive(Debug, Clone, Default)]
pub(crate) struct OuterIgnore(Vec<Gitignore>);

impl OuterIgnore {
    pub(crate) fn new(rules: &[OuterRules]) -> Self {
        let build = |rules: &OuterRules| {
            let mut builder = GitignoreBuilder::new(&rules.folder);
            for line in rules.rules.lines() {
                // Invalid rules are skipped, as in git.
                let _ = builder.add_line(None, line);
            }
            builder.build().ok()
        };
        Self(rules.iter().filter_map(build).collect())
    }

    /// Returns true if an entry is ignored. The nearest matching rule decides.
    pub(crate) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        let verdicts = self.0.iter().map(|rules| rules.matched(path, is_folder));
        verdicts.into_iter().find(|verdict| !verdict.is_none()).is_some_and(|verdict| verdict.is_ignore())
    }
}

/// Maximum number of files per thread that are queued for the index.
const QUEUE_PER_THREAD: usize = 16;
/// Maximum number of changed files that the calling thread reads without helpers.
const MAX_SINGLE_THREADED: usize = 8;

/// Result of a refresh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefreshReport {
    /// Number of new or changed files that are now indexed.
    pub indexed: usize,
    /// Number of files removed from the index.
    pub removed: usize,
    /// Number of unchanged files.
    pub unchanged: usize,
    /// Files that are not indexed, each with a reason.
    pub skipped: Vec<(String, SkipReason)>,
    /// True if the folder exceeds a limit, so that some files are not indexed.
    pub is_truncated: bool,
    /// True if part of the folder could not be listed. The files in that part stay in the index.
    pub is_partial: bool,
    /// Listed folders as paths relative to the root.
    pub(crate) folders: Vec<String>,
}

/// Step of a refresh, reported to a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshStep<'path> {
    /// A file is about to be read. Only reported if reading is single-threaded.
    Reading(&'path str),
    /// Progress through the changed files.
    Done {
        /// Number of changed files that were read.
        done: usize,
        /// Total number of changed files.
        total: usize,
    },
}

/// Files that were read but not indexed, each with its stamp and a reason.
pub(crate) type SkippedFiles = HashMap<String, (FileStamp, SkipReason)>;

/// Updates an index from its folder. `skipped` contains the stamps of skipped files, so that a skipped file is only
/// read again after a change.
pub(crate) fn refresh(
    index: &mut CodeIndex,
    skipped: &mut SkippedFiles,
    tree: &FileTree<'_>,
    threads: usize,
    max_files: usize,
    on_step: &mut dyn FnMut(RefreshStep<'_>),
) -> RefreshReport {
    let root = tree.root;
    let mut report = RefreshReport::default();
    let files = list(tree, max_files, &mut report);
    remove_missing(index, skipped, &files, root, &mut report);
    let is_changed = |file: &ListedFile| {
        let known = index.stamp(&file.path).or_else(|| skipped.get(&file.path).map(|(stamp, _)| *stamp));
        known != Some(file.stamp)
    };
    let all = files.len();
    let changed: Vec<ListedFile> = files.into_iter().filter(is_changed).collect();
    report.unchanged = all - changed.len();
    let (mut done, total) = (0, changed.len());
    if total <= MAX_SINGLE_THREADED || threads <= 1 {
        let mut reader = Reader::default();
        for file in &changed {
            on_step(RefreshStep::Reading(&file.path));
            take(index, skipped, &mut report, &file.path, reader.read(root, &file.path));
            done += 1;
            on_step(RefreshStep::Done { done, total });
        }
    } else {
        read_all(root, &changed, threads, &mut |path, result| {
            take(index, skipped, &mut report, path, result);
            done += 1;
            on_step(RefreshStep::Done { done, total });
        });
    }
    if report.indexed > MAX_SINGLE_THREADED {
        index.shrink();
    }
    report.skipped.extend(skipped.iter().map(|(path, (_, reason))| (path.clone(), *reason)));
    report.skipped.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    report
}

/// Updates the index for single files that were changed, added or removed, and returns the number of these files that
/// are now indexed.
pub(crate) fn update(index: &mut CodeIndex, skipped: &mut SkippedFiles, tree: &FileTree<'_>, paths: &[&str]) -> usize {
    let mut reader = Reader::default();
    let mut report = RefreshReport::default();
    for path in paths {
        if is_listed(tree, path) {
            take(index, skipped, &mut report, path, reader.read(tree.root, path));
        } else {
            index.remove(path);
            skipped.remove(*path);
        }
    }
    report.indexed
}

type AnalysisResult = (FileStamp, Result<FileAnalysis, SkipReason>);

fn remove_missing(
    index: &mut CodeIndex,
    skipped: &mut SkippedFiles,
    files: &[ListedFile],
    root: &Path,
    report: &mut RefreshReport,
) {
    let listed_paths: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    // Files in a folder that could not be listed may still exist.
    let is_gone = |path: &str| {
        let may_exist = |real_path: PathBuf| !matches!(real_path.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound);
        let is_hidden = || report.is_partial && absolute(root, path).is_some_and(may_exist);
        !listed_paths.contains(path) && !is_hidden()
    };
    let missing: Vec<String> = index.paths().filter(|path| is_gone(path)).map(str::to_owned).collect();
    skipped.retain(|path, _| !is_gone(path));
    for path in &missing {
        index.remove(path);
    }
    report.removed = missing.len();
}

fn take(
    index: &mut CodeIndex,
    skipped: &mut SkippedFiles,
    report: &mut RefreshReport,
    path: &str,
    (stamp, result): AnalysisResult,
) {
    match result {
        Ok(analysis) => {
            skipped.remove(path);
            index.insert(analysis, stamp);
            report.indexed += 1;
        }
        Err(reason) => {
            index.remove(path);
            skipped.insert(path.to_owned(), (stamp, reason));
        }
    }
}

/// Reads files on several threads. The calling thread adds them to the index.
fn read_all(root: &Path, files: &[ListedFile], threads: usize, take: &mut dyn FnMut(&str, AnalysisResult)) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(QUEUE_PER_THREAD * threads);
        for _ in 0..threads {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                let mut reader = Reader::default();
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send((file, reader.read(root, &file.path))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (file, result) in receiver {
            take(&file.path, result);
        }
    });
}

/// File reader with its parsers, one per thread.
#[derive(Default)]
struct Reader {
    parser: Parser,
    stems: Stems,
}

impl Reader {
    /// Reads, parses and analyses a file. Takes the stamp before reading, so that the next refresh detects a concurrent
    /// change.
    pub(crate) fn read(&mut self, root: &Path, path: &str) -> AnalysisResult {
        let Some((real_path, metadata)) = regular_file(root, path) else {
            return (FileStamp::default(), Err(SkipReason::Unreadable));
        };
        let stamp = stamp(&metadata);
        if stamp.size > MAX_BYTES as u64 {
            return (stamp, Err(SkipReason::TooLarge));
        }
        (stamp, self.analyse(&real_path, path))
    }

    fn analyse(&mut self, real_path: &Path, path: &str) -> Result<FileAnalysis, SkipReason> {
        let bytes = fs::read(real_path).map_err(|_| SkipReason::Unreadable)?;
        let text = decode(&bytes)?;
        if is_generated_text(&text) {
            return Err(SkipReason::Generated);
        }
        Ok(analyse(self.parser.parse(path, &text), &mut self.stems))
    }
}
