//! Keys that the version before had: in this one they are warnings, and no reason not to start.

use serde_saphyr::{Error, Location};

use super::layers::Subject;

/// A key that was removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemovedKey {
    /// The file that had it.
    pub(super) subject: Subject,
    /// The key, without those above it.
    pub(super) key: &'static str,
    /// Reason for the removal, as the end of a sentence that begins with the key.
    pub(super) reason: &'static str,
}

/// The keys that the version before had. A row stays for one version.
pub(super) const REMOVED: &[RemovedKey] = &[];

/// Blanks the key that an error is about, with its value, where it was removed: all else keeps its place.
pub(super) fn blank<'a>(
    subject: Subject,
    text: &mut String,
    error: &Error,
    removed: &'a [RemovedKey],
) -> Option<(&'a RemovedKey, Location)> {
    let error = error.without_snippet();
    let Error::SerdeUnknownField { field, .. } = error else { return None };
    let known = removed.iter().find(|known| known.subject == subject && known.key == field)?;
    let at = error.location()?;
    let start = usize::try_from(at.span().byte_offset()?).ok()?;
    let end = start + end_of_value(text, start, known.key)?;
    let blanked =
        text[start..end].chars().map(|letter| if letter == '\n' { "\n".into() } else { " ".repeat(letter.len_utf8()) });
    let blanked: String = blanked.collect();
    text.replace_range(start..end, &blanked);
    Some((known, at))
}

/// Bytes from a key to behind its value: in braces to the next comma or their end, otherwise to the next line that is not below.
fn end_of_value(text: &str, start: usize, key: &str) -> Option<usize> {
    let rest = text.get(start..)?;
    let begins = rest.trim_start_matches(['"', '\'']).starts_with(key);
    let before = &text[text[..start].rfind('\n').map_or(0, |at| at + 1)..start];
    let is_block = before.chars().all(|letter| matches!(letter, ' ' | '-'));
    let end = if is_block { end_of_block(rest, before.len()) } else { end_in_braces(rest) };
    begins.then_some(end)
}

fn end_of_block(rest: &str, column: usize) -> usize {
    let mut lines = rest.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    // A list may stand in the column of its key.
    let is_below = |line: &&str| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        line.trim().is_empty()
            || line[indent..].starts_with('#')
            || indent > column
            || (indent == column && line[indent..].starts_with("- "))
    };
    let below: usize = lines.take_while(is_below).map(str::len).sum();
    (first.len() + below) - usize::from(rest[..first.len() + below].ends_with('\n'))
}

fn end_in_braces(rest: &str) -> usize {
    let (mut depth, mut quote, mut before) = (0_usize, None, ' ');
    for (at, letter) in rest.char_indices() {
        let begins = matches!(std::mem::replace(&mut before, letter), ' ' | ':' | ',' | '{' | '[');
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if begins => quote = Some(letter),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') if depth == 0 => return at,
            (None, '}' | ']') => depth -= 1,
            (None, ',') if depth == 0 => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct File {
        kept: Option<u64>,
        group: Option<Group>,
        named: BTreeMap<String, Group>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Group {
        a: Option<u64>,
        b: Option<String>,
    }

    const TABLE: &[RemovedKey] = &[
        RemovedKey { subject: Subject::Daemon, key: "gone", reason: "is decided by itself" },
        RemovedKey { subject: Subject::Models, key: "other", reason: "was never of use" },
    ];

    /// The file without removed keys, with the lines of those, or the first other error.
    fn read(subject: Subject, text: &str) -> Result<(File, Vec<u64>), String> {
        let (mut text, mut lines) = (text.to_owned(), Vec::new());
        loop {
            match serde_saphyr::from_str(&text) {
                Ok(file) => return Ok((file, lines)),
                Err(error) => match blank(subject, &mut text, &error, TABLE) {
                    Some((_, at)) => lines.push(at.line()),
                    None => return Err(error.to_string()),
                },
            }
        }
    }

    #[test]
    fn removed_keys_are_passed_over_with_their_values_and_nothing_else_is() {
        let group = |a, b: Option<&str>| Group { a, b: b.map(str::to_owned) };
        let check = |text: &str, kept: Option<u64>, of_group: Option<Group>, lines: &[u64]| {
            let (file, found) = read(Subject::Daemon, text).unwrap();
            assert_eq!((file.kept, file.group, found.as_slice()), (kept, of_group, lines), "{text}");
        };
        check("gone: 1\nkept: 2\n", Some(2), None, &[1]);
        check("kept: 2\ngone: 1", Some(2), None, &[2]);
        check(
            "kept: 2\ngone:\n  deep:\n    - {x: 1}\n\n  more: y\ngroup: {a: 1}\n",
            Some(2),
            Some(group(Some(1), None)),
            &[2],
        );
        check("gone:\n- one\n- two\nkept: 3\n", Some(3), None, &[1]);
        check("gone: |\n  words: of a text\nkept: 3\n", Some(3), None, &[1]);
        check("group:\n  a: 1\n  gone: 5 # why\n  b: x\n", None, Some(group(Some(1), Some("x"))), &[3]);
        check("group:\n  gone: 5\n", None, None, &[2]);
        check("group: {a: 1, gone: [1, {b: 2}], b: \"x, }\"}\n", None, Some(group(Some(1), Some("x, }"))), &[1]);
        check("group: {gone: '}', a: 1}", None, Some(group(Some(1), None)), &[1]);
        check("group: {a: 1, gone: 2}", None, Some(group(Some(1), None)), &[1]);
        check("\"gone\": 1\ngroup:\n  gone: 2\n  a: 3\n", None, Some(group(Some(3), None)), &[1, 3]);
        let (file, lines) = read(Subject::Daemon, "named:\n  x:\n    gone: ä\n    a: 1\n  y: {gone: 1}\n").unwrap();
        assert_eq!((file.named["x"].a, file.named.len(), lines.as_slice()), (Some(1), 2, &[3, 5][..]));
        for (subject, text) in [
            (Subject::Daemon, "gonee: 1"),
            (Subject::Daemon, "other: 1"),
            (Subject::Models, "gone: 1"),
            (Subject::Daemon, "gone: 1\nkept: x"),
        ] {
            assert!(read(subject, text).is_err(), "{text}");
        }
    }
}
