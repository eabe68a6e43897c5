//! The files that a pattern or a folder stands for: those that git would know, without hidden ones.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

/// Files that one mention stands for at the most. More of them are a folder to look around in, not files to hand over.
pub(crate) const MAX_FILES: usize = 50;

/// Entries that are looked at for one mention.
const MAX_VISITED: usize = 50_000;

/// Depth of folders that are looked into.
const MAX_DEPTH: usize = 32;

/// Files that a mention stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MatchedFiles {
    /// Their paths, sorted.
    pub(crate) files: Vec<PathBuf>,
    /// Set if there are more.
    pub(crate) is_cut: bool,
}

/// The files that a pattern fits; none where it is no pattern, or fits no file.
pub(super) fn matching(pattern: &Path) -> Option<MatchedFiles> {
    // What stands before the first part with a star is a folder; only below it is anything looked for.
    let has_star = |part: &Component<'_>| part.as_os_str().as_encoded_bytes().contains(&b'*');
    let root: PathBuf = pattern.components().take_while(|part| !has_star(part)).collect();
    let below: PathBuf = pattern.components().skip_while(|part| !has_star(part)).collect();
    // Links do not lead out of the pattern's folder, and neither does the pattern itself.
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let glob = GlobBuilder::new(below.to_str().filter(|_| is_plain)?).literal_separator(true).build().ok()?;
    let found = walk(&root, Some(&glob.compile_matcher()), below.components().count().max(depth(&below)));
    (!found.files.is_empty()).then_some(found)
}

/// The files of a folder, at every depth.
pub(super) fn below(folder: &Path) -> MatchedFiles {
    walk(folder, None, MAX_DEPTH)
}

/// The depth to which a pattern reaches.
fn depth(pattern: &Path) -> usize {
    let is_deep = pattern.components().any(|part| part.as_os_str() == "**");
    if is_deep { MAX_DEPTH } else { 1 }
}

fn walk(root: &Path, glob: Option<&GlobMatcher>, depth: usize) -> MatchedFiles {
    let place = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let mut found = MatchedFiles::default();
    let entries = WalkBuilder::new(place).require_git(false).max_depth(Some(depth)).build();
    for (visited, entry) in entries.enumerate() {
        if visited == MAX_VISITED || found.files.len() > MAX_FILES {
            found.is_cut = true;
            break;
        }
        let Ok(entry) = entry else { continue };
        let Ok(below) = entry.path().strip_prefix(place) else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if is_file && glob.is_none_or(|glob| glob.is_match(below)) {
            found.files.push(root.join(below));
        }
    }
    found.is_cut |= found.files.len() > MAX_FILES;
    found.files.truncate(MAX_FILES);
    found.files.sort();
    found
}
