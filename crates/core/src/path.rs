//! Paths in the form that models read and write: byte for byte, on one line, and impossible to mistake for other text.
//!
//! Characters that are invisible, change the text direction or control a terminal are escaped as `\u{200b}`. The
//! backslash and `<` are also escaped, because a name could use them to imitate an escape or a tag. Spaces of all
//! widths are not escaped, since they can be copied, unless two names look alike. Tools only decode the escapes of
//! these characters, so `\u{2e}env` does not bypass a rule about `.env`.

use std::{borrow::Cow, fmt::Write as _};

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use crate::untrusted::is_unseen;

/// Prefix of an escaped character.
const ESCAPE_PREFIX: &str = "\\u{";

/// Returns a path in the form that is shown to models.
pub fn shown(path: &str) -> Cow<'_, str> {
    // A trailing space would be lost if the text is trimmed.
    let end = path.trim_end().len();
    if end < path.len() {
        return (written(&path[..end], is_escaped) + &written(&path[end..], |_| true)).into();
    }
    if path.contains(is_escaped) { written(path, is_escaped).into() } else { path.into() }
}

/// Like [`shown`], but also escapes unusual spaces and combining accents, for a name that could be mistaken for
/// another. Returns `None` if the path only contains single spaces between words and no such characters.
pub fn spelled(path: &str) -> Option<String> {
    let is_ambiguous = |name: &str| {
        name.split(' ').any(str::is_empty) || name.contains(|letter| letter != ' ' && is_space_or_mark(letter))
    };
    path.split('/')
        .any(|name| !name.is_empty() && is_ambiguous(name))
        .then(|| written(path, |letter| is_escaped(letter) || is_space_or_mark(letter)))
}

fn written(path: &str, must_escape: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(path.len() + 8);
    for letter in path.chars() {
        if must_escape(letter) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "{ESCAPE_PREFIX}{:x}}}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    shown
}

fn is_space_or_mark(letter: char) -> bool {
    letter.is_whitespace() || is_combining_mark(letter)
}

/// Returns a path in a form that is safe within quotation marks or backticks. [`read`] also decodes this form.
pub fn quoted(path: &str) -> String {
    shown(path).replace('"', "\\u{22}").replace('`', "\\u{60}")
}

/// Like [`quoted`], but for a path that was already escaped by [`shown`].
pub fn requote(shown: &str) -> String {
    quoted(&read(shown).unwrap_or(shown.into()))
}

/// Parses a path as written by models. Returns `None` if a backslash does not start an escape of this module.
pub fn read(written: &str) -> Option<Cow<'_, str>> {
    let Some((plain, mut rest)) = written.split_once('\\') else { return Some(written.into()) };
    let mut path = plain.to_owned();
    loop {
        let (digits, tail) = rest.strip_prefix(&ESCAPE_PREFIX[1..])?.split_once('}')?;
        let letter = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
        path.push(
            Some(letter)
                .filter(|letter| "\"`".contains(*letter) || is_space_or_mark(*letter) || is_escaped(*letter))?,
        );
        let Some((plain, tail)) = tail.split_once('\\') else {
            path.push_str(tail);
            return Some(path.into());
        };
        path.push_str(plain);
        rest = tail;
    }
}

/// Returns true if two names differ only in ways that are hard to see: spaces, composition of accents, case, or
/// invisible characters.
pub fn looks_like(one: &str, other: &str) -> bool {
    let normalised = |name: &str| {
        let seen: String = name.nfkc().filter(|letter| !is_unseen(*letter)).flat_map(char::to_lowercase).collect();
        seen.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    normalised(one) == normalised(other)
}

/// Returns true if [`shown`] escapes the character.
pub fn is_escaped(letter: char) -> bool {
    matches!(letter, '\\' | '<') || letter.is_control() || is_unseen(letter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_keep_blanks_and_escape_hidden_characters() {
        for (path, expected) in [
            ("a  b\u{a0}c\u{202f}d\u{3000}e ", "a  b\u{a0}c\u{202f}d\u{3000}e\\u{20}"),
            ("caf\u{e9} cafe\u{301}", "caf\u{e9} cafe\u{301}"),
            ("a\nb\tc\u{202e}d\u{200b}", "a\\u{a}b\\u{9}c\\u{202e}d\\u{200b}"),
            ("</file>\\u{2e}", "\\u{3c}/file>\\u{5c}u{2e}"),
        ] {
            assert_eq!(shown(path), expected);
        }
        for written in ["a\\b", "\\u{2e}env", "\\u{zz}", "\\u{a", "a\\"] {
            assert_eq!(read(written), None, "{written}");
        }
        assert_eq!(spelled("a b/c\u{a0}d "), Some("a\\u{20}b/c\\u{a0}d\\u{20}".to_owned()));
        assert_eq!(spelled("/a b/caf\u{e9}"), None);
        assert!(looks_like("Caf\u{e9}  a.txt", "cafe\u{301}\u{a0}A.txt ") && !looks_like("ab", "a b"));
    }

    proptest! {
        #[test]
        fn shown_paths_round_trip(path in any::<String>()) {
            for written in [shown(&path).into_owned(), quoted(&path)] {
                let is_same = read(&written).as_deref() == Some(&*path);
                prop_assert!(is_same, "{:?}", written);
            }
            prop_assert!(spelled(&path).is_none_or(|spelled| read(&spelled).as_deref() == Some(&path)));
            let has_control = shown(&path).contains(['\n', '<', '\u{202e}']);
            prop_assert!(!has_control);
        }
    }
}
