//! Diff of the changes of one call, for people. It compares the stored contents, and is limited in files, bytes and
//! time.

use std::time::{Duration, Instant};

use agentd_core::{
    ports::ReadRules,
    tool::{FileChange, FileKind, FileState},
};

use super::blobs::Blobs;
use crate::{diff, text};

/// Maximum number of files in the diff.
const MAX_FILES: usize = 10;

/// Maximum size of one version of a file, in bytes.
const MAX_VERSION: u64 = 256 << 10;

/// Size that the diffs of several files do not exceed together, in bytes. A result stores little more.
const MAX_DIFF: usize = 30 << 10;

/// Time after which no further file is compared.
const MAX_TIME: Duration = Duration::from_secs(1);

/// Returns the diffs of the first changed files that may be quoted, with the number of the other files at the end.
/// `None` if no file can be shown.
pub(super) fn of_changes(changes: &[FileChange], blobs: &Blobs, quotes: &ReadRules) -> Option<String> {
    let begin = Instant::now();
    let files = || changes.iter().filter(|change| !change.is_folder());
    let (mut shown, mut diffs) = (0, String::new());
    for change in files().take(MAX_FILES).take_while(|_| begin.elapsed() < MAX_TIME) {
        let diff = if quotes.allow(&change.path) { of_change(change, blobs) } else { None };
        if let Some(diff) = diff.filter(|diff| shown == 0 || diffs.len() + diff.len() <= MAX_DIFF) {
            diffs.push_str(&diff);
            shown += 1;
        }
    }
    match files().count() - shown {
        0 => {}
        1 => diffs.push_str("(… and 1 more file)\n"),
        more => diffs.push_str(&format!("(… and {more} more files)\n")),
    }
    (shown > 0).then(|| text::without_nul(diffs))
}

/// Returns the diff of one file. `None` if its content is not stored, too large, or unchanged.
fn of_change(change: &FileChange, blobs: &Blobs) -> Option<String> {
    let content = |state: &FileState| {
        let is_shown = state.kind == FileKind::File && state.size <= MAX_VERSION;
        if is_shown { blobs.read(&state.hash).ok().flatten() } else { None }
    };
    let path = &change.path;
    match (&change.before, &change.after) {
        _ if !change.is_recorded() => None,
        (Some(before), Some(after)) if before.hash == after.hash => None,
        (Some(before), Some(after)) => Some(diff::unified(path, Some(&content(before)?[..]), &content(after)?)),
        (None, Some(after)) => Some(diff::unified(path, None, &content(after)?)),
        (Some(before), None) => Some(diff::removed(path, &content(before)?)),
        (None, None) => None,
    }
}
