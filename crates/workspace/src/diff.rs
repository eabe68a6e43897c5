//! Previews of file changes for the user, as complete unified diffs.
//!
//! New lines are never omitted or truncated, because a user cannot approve text that is not shown. The caller decides
//! which diffs are too large for an approval. Only removed text may be replaced by a version name, if it is large or
//! binary.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::Write as _,
    ops::Range,
    time::{Duration, Instant},
};

use agentd_core::tool::ToolDetails;
use sha2::{Digest as _, Sha256};
use similar::{Algorithm, DiffOp, DiffTag};

use crate::{encoding::Document, text};

/// Length of a version name, in bytes.
const VERSION_LENGTH: usize = 16;

/// Maximum size of removed text that is shown line by line, in bytes.
const MAX_OLD: usize = 1024 * 1024;

/// Maximum total size of both sides for a diff in the details of a result, in bytes.
const MAX_DETAILED: usize = 1024 * 1024;

/// Number of unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// Limit on the cost of a diff: number of lines, times number of lines without a counterpart. Above the limit, all
/// old lines are shown as one block and all new lines as another, because such texts have little in common.
const MAX_WORK: usize = 20_000_000;

/// Time limit for comparing moved lines, whose cost is not known in advance. After it, the diff is coarser.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Returns result details with the diff, or `None` if the texts are too large to be compared without a noticeable
/// delay.
pub fn of_change(
    before: Option<&[u8]>,
    after: &str,
    diff: impl FnOnce(Option<&[u8]>) -> String,
) -> Option<Box<ToolDetails>> {
    let size = before.map_or(0, <[u8]>::len) + after.len();
    (size <= MAX_DETAILED).then(|| Box::new(ToolDetails::of_diff(&diff(before))))
}

/// Returns the diff from `old` to `new`; `old` is `None` for a new file. Both sides are decoded from their encodings.
pub(crate) fn unified(path: &str, old: Option<&[u8]>, new: &[u8]) -> String {
    let before = old.unwrap_or_default();
    if old.is_some() && before == new {
        return format!("{path} already has this content");
    }
    let Some((before, after)) = decode_both(before, new) else {
        let header = header(path, old.is_some());
        return format!("{header}(binary content: {} after{})\n", text::size(new.len() as u64), of_version(before));
    };
    of_texts(path, old.is_some().then_some(&*before), &after)
}

/// Returns the diff to text given by the caller. The text is shown verbatim rather than in a guessed encoding, because
/// it is written verbatim.
pub fn written(path: &str, old: Option<&[u8]>, new: &str) -> String {
    match old.map(|old| (old, decode_text(old))) {
        None => of_texts(path, None, new),
        Some((_, Some(before))) => of_texts(path, Some(&before), new),
        Some((old, None)) => {
            replaced(path, &format!("binary content: {} before{}", text::size(old.len() as u64), of_version(old)), new)
        }
    }
}

/// Returns the diff for a file whose old content is not shown; `description` describes that content.
pub fn replaced(path: &str, description: &str, new: &str) -> String {
    let (new, ends) = line_ends(new);
    format!("{}({description})\n{ends}{}", header(path, true), hunks("", &new))
}

/// Returns the diff between decoded texts.
pub fn of_texts(path: &str, old: Option<&str>, new: &str) -> String {
    let header = header(path, old.is_some());
    let (new, ends) = line_ends(new);
    let (before, _) = line_ends(old.unwrap_or_default());
    if before == new {
        return match old {
            Some(_) => format!("{header}{ends}(only the encoding or the line endings change)\n"),
            None => format!("{header}(a new, empty file)\n"),
        };
    }
    header + ends + &hunks(&before, &new)
}

/// Returns the diff for a removed file.
pub fn removed(path: &str, old: &[u8]) -> String {
    let header = format!("--- a/{}\n+++ /dev/null\n", path.trim_start_matches('/'));
    match decode_text(old) {
        Some(before) => header + &hunks(&line_ends(&before).0, ""),
        None => format!("{header}(binary content: {} before{})\n", text::size(old.len() as u64), of_version(old)),
    }
}

/// Returns the name of a version: a hash of its content.
pub(crate) fn version(content: &[u8]) -> String {
    text::hex(&Sha256::digest(content)[..VERSION_LENGTH])
}

/// Returns a line that names the version of a file whose content is not shown in full. Different versions must produce
/// different lines, so that an approval for one version does not cover another.
fn of_version(before: &[u8]) -> String {
    if before.is_empty() { String::new() } else { format!("; version {} is replaced", version(before)) }
}

fn header(path: &str, exists: bool) -> String {
    let name = path.trim_start_matches('/');
    let from = if exists { format!("a/{name}") } else { "/dev/null".to_owned() };
    format!("--- {from}\n+++ b/{name}\n")
}

/// Converts CRLF line ends to `\n` and returns a note about the conversion. Mixed line ends, or a `\r` within a line,
/// are preserved, so that each one remains visible.
fn line_ends(text: &str) -> (Cow<'_, str>, &'static str) {
    let crlf = text.matches("\r\n").count();
    if crlf == 0 || crlf < text.matches('\n').count() || crlf < text.matches('\r').count() {
        return (Cow::Borrowed(text), "");
    }
    (Cow::Owned(text.replace("\r\n", "\n")), "(CRLF line endings)\n")
}

/// Returns the text of a file: verbatim if it is UTF-8, otherwise decoded with the detected encoding. `None` if it is
/// not text.
fn decode_text(content: &[u8]) -> Option<String> {
    let decoded = || Some(Document::read(content.to_vec()).ok()?.text().to_owned());
    plain(content).map(str::to_owned).or_else(decoded)
}

fn plain(content: &[u8]) -> Option<&str> {
    std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))
}

/// Decodes both sides. The new content uses the encoding of the old content if possible, so that a few changed
/// characters do not change the detected encoding.
fn decode_both<'a>(before: &'a [u8], new: &'a [u8]) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
    if let (Some(before), Some(after)) = (plain(before), plain(new)) {
        return Some((Cow::Borrowed(before), Cow::Borrowed(after)));
    }
    let before = Document::read(before.to_vec()).ok()?;
    let after = Document::read(new.to_vec()).ok()?;
    let text = |document: &Document| Cow::Owned(document.text().to_owned());
    if before.charset() == after.charset() || after.charset().bom > 0 || before.charset().bom > 0 {
        return Some((text(&before), text(&after)));
    }
    let redecoded = Document::decode(new.to_vec(), before.charset());
    let makes_sense = !before.text().is_empty() && !redecoded.text().contains('\u{fffd}');
    Some((text(&before), text(if makes_sense { &redecoded } else { &after })))
}

/// Formats the line-by-line changes between two texts as hunks.
fn hunks(before: &str, after: &str) -> String {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = (&old[same..], &new[same..]);
    let same_end = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(|(old, new)| old == new).count();
    let removed = &old[same..old.len() - same_end];
    let added = &new[same..new.len() - same_end];
    let bytes: usize = removed.iter().map(|line| line.len()).sum();
    if bytes > MAX_OLD {
        return block(before, removed, added, same, bytes);
    }
    let ops = if is_cheap(removed, added) {
        similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + MAX_TIME))
    } else {
        let (old_len, new_len) = (removed.len(), added.len());
        vec![
            DiffOp::Equal { old_index: 0, new_index: 0, len: same },
            DiffOp::Replace { old_index: same, old_len, new_index: same, new_len },
            DiffOp::Equal { old_index: same + old_len, new_index: same + new_len, len: same_end },
        ]
    };
    let mut shown = String::with_capacity(bytes + after.len() / 8);
    for group in similar::group_diff_ops(ops, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (from, to) = (first.old_range().start..last.old_range().end, first.new_range().start..last.new_range().end);
        shown.push_str(&head(from, to));
        for op in group {
            let (removed, added) = (&old[op.old_range()], &new[op.new_range()]);
            if op.tag() == DiffTag::Equal {
                removed.iter().for_each(|line| push(' ', line, &mut shown));
                continue;
            }
            removed.iter().for_each(|line| push('-', line, &mut shown));
            added.iter().for_each(|line| push('+', line, &mut shown));
        }
    }
    shown
}

/// Returns true if two texts can be compared line by line quickly. Depends only on the texts, not on the time, because
/// a diff is computed again after the user's answer and must be the same.
fn is_cheap(removed: &[&str], added: &[&str]) -> bool {
    let mut lines: HashMap<&str, i64> = HashMap::with_capacity(removed.len());
    for line in removed {
        *lines.entry(line).or_default() += 1;
    }
    for line in added {
        *lines.entry(line).or_default() -= 1;
    }
    let unmatched: u64 = lines.values().map(|count| count.unsigned_abs()).sum();
    let unmatched = usize::try_from(unmatched).unwrap_or(usize::MAX);
    (removed.len() + added.len()).saturating_mul(unmatched) <= MAX_WORK
}

/// Shows the new lines in full, but only the count and version of the removed lines, because there are too many.
fn block(before: &str, removed: &[&str], added: &[&str], from: usize, bytes: usize) -> String {
    let mut shown = head(from..from + removed.len(), from..from + added.len());
    let (lines, size) = (text::count(removed.len(), "line"), text::size(bytes as u64));
    // Writing to a string cannot fail.
    let _ = writeln!(shown, "({lines} with {size} removed{})", of_version(before.as_bytes()));
    for line in added {
        push('+', line, &mut shown);
    }
    shown
}

fn head(old: Range<usize>, new: Range<usize>) -> String {
    let position = |range: Range<usize>| match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        many => format!("{},{many}", range.start + 1),
    };
    format!("@@ -{} +{} @@\n", position(old), position(new))
}

fn push(sign: char, line: &str, shown: &mut String) {
    shown.push(sign);
    shown.push_str(line);
    if !line.ends_with('\n') {
        shown.push_str("\n\\ No newline at end of file\n");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The diff shows all new text, however long.
    #[test]
    fn long_diff_shows_all_new_text() {
        let long = "a line\n".repeat(5000) + &"long ".repeat(5000) + "\nrm -rf ~/hidden";
        let check = |old: Option<&[u8]>| {
            let shown = written("a", old, &long);
            let added = shown.split('\n').filter_map(|line| line.strip_prefix('+')).skip(1);
            assert_eq!(added.collect::<Vec<_>>().join("\n"), long, "{}", shown.len());
            assert!(shown.ends_with("+rm -rf ~/hidden\n\\ No newline at end of file\n"));
        };
        check(None);
        check(Some(b"x\n"));
        check(Some(b"\0\x01"));
        check(Some("an old line\n".repeat(4000).as_bytes()));
        check(Some("an old line\n".repeat(MAX_OLD / 8).as_bytes()));
        let shown = written("a", Some("an old line\n".repeat(MAX_OLD / 8).as_bytes()), "new\n");
        assert!(shown.contains("lines with 1.5 MB removed; version "), "{shown}");
        assert!(unified("a", None, b"\0\x01").contains("binary content"));
        assert_eq!(unified("a", Some(b"x"), b"x"), "a already has this content");
    }

    /// A small change to a large file produces a small diff.
    #[test]
    fn diff_of_small_change_in_large_file_is_small() {
        let lines: Vec<String> = (0..300_000).map(|number| format!("line {number}\n")).collect();
        let before = lines.concat();
        let after = before.replace("line 150000\n", "line 150 000\n");
        let shown = of_texts("a", Some(&before), &after);
        assert_eq!(shown.lines().count(), 11, "{shown}");
        assert!(shown.contains("@@ -149998,7 +149998,7 @@"), "{shown}");
    }

    #[test]
    fn line_endings_are_visible_in_diffs() {
        let check = |old: Option<&[u8]>, new: &str, expected: &str| {
            let shown = written("a", old, new);
            assert_eq!(shown.split_once("+++ b/a\n").unwrap().1, expected, "{new:?}");
        };
        check(None, "a\r\nb\r\n", "(CRLF line endings)\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        check(None, "a\r\nb\n", "@@ -0,0 +1,2 @@\n+a\r\n+b\n");
        check(None, "a\rb\n", "@@ -0,0 +1 @@\n+a\rb\n");
        check(Some(b"a\nb\n"), "a\r\nb\r\n", "(CRLF line endings)\n(only the encoding or the line endings change)\n");
        check(Some(b"a\r\nb\r\n"), "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        check(None, "\u{1b}$B;r\u{1b}(B\n", "@@ -0,0 +1 @@\n+\u{1b}$B;r\u{1b}(B\n");
        check(None, "a\0b", "@@ -0,0 +1 @@\n+a\0b\n\\ No newline at end of file\n");
    }

    /// An approval for one version does not apply to another.
    #[test]
    fn different_versions_have_different_diffs() {
        let check = |head: &[u8], new: &[u8]| {
            let [one, other] = [b"1", b"2"].map(|last| [head, last].concat());
            assert_eq!(unified("a", Some(&one), new), unified("a", Some(&one), new));
            assert_ne!(unified("a", Some(&one), new), unified("a", Some(&other), new));
            assert_ne!(removed("a", &one), removed("a", &other));
        };
        check(b"short ", b"new");
        check("a line\n".repeat(5000).as_bytes(), b"new");
        check("long ".repeat(500).as_bytes(), b"new");
        check(b"\0\x01", b"new");
        check("a line\n".repeat(MAX_OLD / 7 + 1).as_bytes(), b"new");
    }

    proptest! {
        /// Different new contents never produce the same diff, regardless of the old content.
        #[test]
        fn diff_determines_the_written_content(
            old in proptest::option::of("[ab\r\n+ -]{0,12}"), one in "[ab\r\n+ -]{0,12}", other in "[ab\r\n+ -]{0,12}",
        ) {
            let shown = |new: &str| written("a", old.as_deref().map(str::as_bytes), new);
            prop_assert_eq!(shown(&one) == shown(&other), one == other);
        }
    }
}
