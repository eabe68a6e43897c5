//! Both forms of patches, distinguished by their first line.

use agentd_workspace::failure::Failure;

use super::{Change, FilePatch, envelope, lines::Lines, unified};

/// More files than this are no patch that anyone reads.
const MAX_FILES: usize = 500;

/// Reads a patch.
///
/// # Errors
/// `E_INVALID_ARGS`, naming the line and what is wrong with it.
pub(crate) fn parse(patch: &str) -> Result<Vec<FilePatch>, Failure> {
    let mut lines = Lines::of(patch);
    lines.trim();
    let Some(first) = lines.peek() else {
        return Err(Failure::arguments(
            "`patch` of apply_patch is empty; give a unified diff, or `*** Begin Patch` and what follows it",
        ));
    };
    let files = if first.trim_end() == envelope::BEGIN { envelope::parse(lines)? } else { unified::parse(lines)? };
    if files.is_empty() {
        return Err(Failure::arguments(
            "the patch names no file; begin with `--- a/PATH` and `+++ b/PATH`, or with `*** Begin Patch` and \
             `*** Update File: PATH`",
        ));
    }
    if files.len() > MAX_FILES {
        return Err(Failure::arguments(format!("the patch has {} files; at most {MAX_FILES} go at once", files.len())));
    }
    for file in &files {
        if let Change::Update { hunks, moved_to: None } = &file.change
            && !hunks.iter().any(super::Hunk::changes)
        {
            return Err(Failure::arguments(format!(
                "the patch changes nothing in {}; mark lines to remove with `-` and lines to add with `+`",
                file.path
            )));
        }
    }
    Ok(files)
}
