//! What a person is shown before a file changes: a unified diff, bounded in time and size.

use std::{fmt::Write as _, time::Duration};

use sha2::{Digest as _, Sha256};
use similar::TextDiffConfig;

use crate::{encoding::Document, text};

/// Bytes of a version's name.
const VERSION: usize = 16;

/// Beyond this, a diff is no longer read by anyone and costs seconds.
const MAX_INPUT: usize = 2 * 1024 * 1024;
const MAX_LINES: usize = 400;
const MAX_LINE_CHARS: usize = 500;

/// The change of a file from `old`, or from nothing, to `new`. Both are shown as text, whatever encoding they have.
pub(crate) fn unified(path: &str, old: Option<&[u8]>, new: &[u8]) -> String {
    let header = header(path, old.is_some());
    let before = old.unwrap_or_default();
    if old.is_some() && before == new {
        return format!("{path} already has this content");
    }
    if before.len() > MAX_INPUT || new.len() > MAX_INPUT {
        let sizes = (text::size(before.len() as u64), text::size(new.len() as u64));
        let version = of_version(before);
        return format!("{header}(too large for a diff: {} before, {} after{version})\n", sizes.0, sizes.1);
    }
    let Some((before, after)) = decoded(before, new) else {
        return format!("{header}(binary content: {} after{})\n", text::size(new.len() as u64), of_version(before));
    };
    of_texts(path, old.is_some().then_some(before.text()), after.text())
}

/// The same of texts that are decoded, with `\n` at the end of lines.
pub(crate) fn of_texts(path: &str, old: Option<&str>, new: &str) -> String {
    let header = header(path, old.is_some());
    let before = old.unwrap_or_default();
    if before == new {
        return match old {
            Some(_) => format!("{header}(only the encoding or the line ends change)\n"),
            None => format!("{header}(a new, empty file)\n"),
        };
    }
    if before.len() > MAX_INPUT || new.len() > MAX_INPUT {
        let sizes = (text::size(before.len() as u64), text::size(new.len() as u64));
        let version = of_version(before.as_bytes());
        return format!("{header}(too large for a diff: {} before, {} after{version})\n", sizes.0, sizes.1);
    }
    header + &hunks(before, new)
}

/// The same of a file that goes.
pub(crate) fn removed(path: &str, old: &[u8]) -> String {
    let header = format!("--- a/{}\n+++ /dev/null\n", path.trim_start_matches('/'));
    match Document::read(old.to_vec()) {
        Ok(before) if old.len() <= MAX_INPUT => header + &hunks(before.text(), ""),
        Ok(_) => {
            format!("{header}(too large for a diff: {} before{})\n", text::size(old.len() as u64), of_version(old))
        }
        Err(what) => format!("{header}({what}: {} before{})\n", text::size(old.len() as u64), of_version(old)),
    }
}

/// A name for a version: a fingerprint of what is in it.
pub(crate) fn version(content: &[u8]) -> String {
    Sha256::digest(content).iter().take(VERSION).map(|byte| format!("{byte:02x}")).collect()
}

/// Where what a file holds is not shown whole, which version of it this is about: what is shown of another version must
/// be another text, so that nobody approves the one and changes the other.
fn of_version(before: &[u8]) -> String {
    if before.is_empty() { String::new() } else { format!("; version {} is replaced", version(before)) }
}

fn header(path: &str, is_there: bool) -> String {
    let name = path.trim_start_matches('/');
    let from = if is_there { format!("a/{name}") } else { "/dev/null".to_owned() };
    format!("--- {from}\n+++ b/{name}\n")
}

/// Both as text. What is new is read as what was there, where that makes sense: a few changed characters must not
/// change the guess.
fn decoded(before: &[u8], new: &[u8]) -> Option<(Document, Document)> {
    let before = Document::read(before.to_vec()).ok()?;
    let after = Document::read(new.to_vec()).ok()?;
    if before.charset() == after.charset() || after.charset().bom > 0 || before.charset().bom > 0 {
        return Some((before, after));
    }
    let alike = Document::decode(new.to_vec(), before.charset());
    let makes_sense = !before.text().is_empty() && !alike.text().contains('\u{fffd}');
    Some((before, if makes_sense { alike } else { after }))
}

fn hunks(before: &str, after: &str) -> String {
    let diff = TextDiffConfig::default().timeout(Duration::from_millis(300)).diff_lines(before, after);
    let mut shown = String::new();
    let (mut lines, mut cut) = (0, false);
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        for line in hunk.to_string().lines() {
            if lines == MAX_LINES {
                let _ = writeln!(shown, "… (the rest of the diff is left out{})", of_version(before.as_bytes()));
                return shown;
            }
            let (start, more) = text::first_chars(line, MAX_LINE_CHARS);
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "{start}{}", if more { "…" } else { "" });
            lines += 1;
            cut |= more;
        }
    }
    if cut && !before.is_empty() {
        let _ = writeln!(shown, "… (long lines are cut{})", of_version(before.as_bytes()));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_all_added() {
        let diff = unified("outputs/a.txt", None, b"one\ntwo\n");
        assert_eq!(diff, "--- /dev/null\n+++ b/outputs/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n");
    }

    #[test]
    fn a_change_has_its_context() {
        let diff = unified("/project/a", Some(b"1\n2\n3\n4\n5\n6\n"), b"1\n2\n3\n4\nfive\n6\n");
        assert_eq!(diff, "--- a/project/a\n+++ b/project/a\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n");
    }

    #[test]
    fn what_is_too_large_or_binary_is_said() {
        assert!(unified("a", Some(b"x"), &vec![b'y'; MAX_INPUT + 1]).contains("too large for a diff"));
        assert!(unified("a", None, b"\0\x01").contains("binary content"));
        let long = "a line\n".repeat(5000);
        assert!(unified("a", None, long.as_bytes()).ends_with("left out)\n"));
        assert_eq!(unified("a", Some(b"x"), b"x"), "a already has this content");
    }

    /// Whoever was asked about the one version has not seen the other.
    #[test]
    fn two_versions_never_look_the_same() {
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
        check("a line\n".repeat(MAX_INPUT / 7 + 1).as_bytes(), b"new");
    }
}
