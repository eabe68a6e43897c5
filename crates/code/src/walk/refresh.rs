//! Refresh: brings an index up to its folder, reading only what changed.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::ErrorKind,
    path::Path,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    thread,
};

use agentd_core::code::SkipReason;

use super::{FileTree, ListedFile, absolute, is_listed, list, regular_file, stamp};
use crate::{
    file_kind::is_generated_text,
    index::{CodeIndex, FileAnalysis, FileStamp, analysis::Analyser},
    source::Parser,
    text::{MAX_BYTES, decode},
};

/// Files that wait for the index, per thread.
const WAITING: usize = 16;
/// Fewer changed files are read by the calling thread alone.
const ALONE: usize = 8;

/// Result of a refresh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefreshReport {
    /// Files that were new or changed and are in the index now.
    pub indexed: usize,
    /// Files that are gone.
    pub removed: usize,
    /// Files as they were.
    pub unchanged: usize,
    /// Files that are not indexed, with the reason.
    pub skipped: Vec<(String, SkipReason)>,
    /// Set if there are more files than may be listed.
    pub is_truncated: bool,
    /// Set if a part of the folder could not be listed. Its files stay in the index.
    pub is_partial: bool,
    /// Folders that were listed.
    pub(crate) folders: Vec<String>,
}

/// Step of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshStep<'path> {
    /// A file is read next. Told where one thread reads alone.
    Reading(&'path str),
    /// So many of the changed files have been read.
    Done {
        /// Those that were read.
        done: usize,
        /// All that are read.
        total: usize,
    },
}

/// Files that were looked at and left out.
pub(crate) type SkippedFiles = HashMap<String, (FileStamp, SkipReason)>;

/// Brings an index up to its folder. `skipped` has the stamps of files that were looked at and left out, so that they are
/// not read each time.
pub(crate) fn refresh(
    index: &mut CodeIndex,
    skipped: &mut SkippedFiles,
    tree: &FileTree<'_>,
    threads: usize,
    max_files: usize,
    tell: &mut dyn FnMut(RefreshStep<'_>),
) -> RefreshReport {
    let root = tree.root;
    let listing = list(tree, max_files);
    let mut report = RefreshReport {
        is_truncated: listing.is_truncated,
        is_partial: listing.is_partial,
        folders: listing.folders,
        ..RefreshReport::default()
    };
    remove_gone(index, skipped, &listing.files, root, &mut report);
    let is_changed = |file: &ListedFile| {
        let known = index.stamp(&file.path).or_else(|| skipped.get(&file.path).map(|(stamp, _)| *stamp));
        known != Some(file.stamp)
    };
    let all = listing.files.len();
    let changed: Vec<ListedFile> = listing.files.into_iter().filter(is_changed).collect();
    report.unchanged = all - changed.len();
    let (mut done, total) = (0, changed.len());
    if total <= ALONE || threads <= 1 {
        let mut reader = Reader::default();
        for file in &changed {
            tell(RefreshStep::Reading(&file.path));
            take(index, skipped, &mut report, &file.path, reader.read(root, &file.path));
            done += 1;
            tell(RefreshStep::Done { done, total });
        }
    } else {
        read_all(root, &changed, threads, &mut |path, result| {
            take(index, skipped, &mut report, path, result);
            done += 1;
            tell(RefreshStep::Done { done, total });
        });
    }
    if report.indexed > ALONE {
        index.shrink();
    }
    report.skipped.extend(skipped.iter().map(|(path, (_, reason))| (path.clone(), *reason)));
    report.skipped.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    report
}

/// Brings the index up to single files that changed, appeared or went, and tells how many are in the index now.
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

fn remove_gone(
    index: &mut CodeIndex,
    skipped: &mut SkippedFiles,
    files: &[ListedFile],
    root: &Path,
    report: &mut RefreshReport,
) {
    let there: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    // Of a folder that could not be listed, a file may still be there.
    let is_gone = |path: &str| {
        let is_hidden = || report.is_partial && absolute(root, path).is_some_and(|place| may_be_there(&place));
        !there.contains(path) && !is_hidden()
    };
    let gone: Vec<String> = index.paths().filter(|path| is_gone(path)).map(str::to_owned).collect();
    skipped.retain(|path, _| !is_gone(path));
    for path in &gone {
        index.remove(path);
    }
    report.removed = gone.len();
}

fn may_be_there(place: &Path) -> bool {
    !matches!(place.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound)
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

/// Reads files with several threads. The one that calls adds them to the index.
fn read_all(root: &Path, files: &[ListedFile], threads: usize, take: &mut dyn FnMut(&str, AnalysisResult)) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING * threads);
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

/// Reader of files, one per thread.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    parser: Parser,
    analyser: Analyser,
}

impl Reader {
    /// Reads, parses and analyses a file. The stamp is from before it was read: a change meanwhile is seen next time.
    pub(crate) fn read(&mut self, root: &Path, path: &str) -> AnalysisResult {
        let Some((place, metadata)) = regular_file(root, path) else {
            return (FileStamp::default(), Err(SkipReason::Unreadable));
        };
        let stamp = stamp(&metadata);
        if stamp.size > MAX_BYTES as u64 {
            return (stamp, Err(SkipReason::TooLarge));
        }
        (stamp, self.analyse(&place, path))
    }

    fn analyse(&mut self, place: &Path, path: &str) -> Result<FileAnalysis, SkipReason> {
        let bytes = fs::read(place).map_err(|_| SkipReason::Unreadable)?;
        let text = decode(&bytes)?;
        if is_generated_text(&text) {
            return Err(SkipReason::Generated);
        }
        Ok(self.analyser.analyse(self.parser.parse(path, &text)))
    }
}
