//! What a person is shown before a file changes: a unified diff, bounded in time and size.

use std::{fmt::Write as _, time::Duration};

use similar::TextDiffConfig;

use crate::{encoding::Document, text};

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
        return format!("{header}(too large for a diff: {} before, {} after)\n", sizes.0, sizes.1);
    }
    let Some((before, after)) = decoded(before, new) else {
        return format!("{header}(binary content: {} after)\n", text::size(new.len() as u64));
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
        return format!("{header}(too large for a diff: {} before, {} after)\n", sizes.0, sizes.1);
    }
    header + &hunks(before, new)
}

/// The same of a file that goes.
pub(crate) fn removed(path: &str, old: &[u8]) -> String {
    let header = format!("--- a/{}\n+++ /dev/null\n", path.trim_start_matches('/'));
    match Document::read(old.to_vec()) {
        Ok(before) if old.len() <= MAX_INPUT => header + &hunks(before.text(), ""),
        Ok(_) => format!("{header}(too large for a diff: {} before)\n", text::size(old.len() as u64)),
        Err(what) => format!("{header}({what}: {} before)\n", text::size(old.len() as u64)),
    }
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
    let mut lines = 0;
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        for line in hunk.to_string().lines() {
            if lines == MAX_LINES {
                shown.push_str("… (the rest of the diff is left out)\n");
                return shown;
            }
            let (start, more) = text::first_chars(line, MAX_LINE_CHARS);
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "{start}{}", if more { "…" } else { "" });
            lines += 1;
        }
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
}
