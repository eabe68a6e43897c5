//! Location of a path, and its encoding, which can be read again whatever bytes the name has.

use std::fmt::Write as _;

use agentd_core::{folder::FOLDERS, path};

use super::super::path::{FolderName, PathPlace};

/// One path: the tree that it is in, and its bytes below that tree's root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SafePath {
    pub(super) place: PathPlace,
    pub(super) below: Vec<u8>,
}

impl SafePath {
    /// As it is written in changes: as tools read it, with bytes that are no text as `\xff` and a slash at the end of a
    /// folder.
    pub(super) fn shown(&self, is_folder: bool) -> String {
        let mut shown = if self.place == PathPlace::Own { String::new() } else { format!("{}/", self.place) };
        for chunk in self.below.utf8_chunks() {
            shown.push_str(&path::shown(chunk.valid()));
            for byte in chunk.invalid() {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\x{byte:02x}");
            }
        }
        if is_folder {
            shown.push('/');
        }
        shown
    }

    /// Reads what [`Self::shown`] wrote, also in records of before, which have a backslash as two and other characters by
    /// their bytes. None for what it never writes, such as a path that climbs.
    pub(super) fn read(shown: &str) -> Option<Self> {
        let within = |place: PathPlace| Some((place, shown.strip_prefix(&format!("{place}/"))?));
        let in_folder = || {
            let (name, rest) = shown.strip_prefix(FOLDERS)?.strip_prefix('/')?.split_once('/')?;
            Some((PathPlace::Folder(FolderName::new(name)?), rest))
        };
        let named = [PathPlace::Project, PathPlace::Memories].into_iter().find_map(within).or_else(in_folder);
        let (place, rest) = named.unwrap_or((PathPlace::Own, shown));
        let below = unescape(rest.strip_suffix('/').unwrap_or(rest))?;
        let sound = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
        below.split(|byte| *byte == b'/').all(sound).then_some(Self { place, below })
    }

    /// The folders that hold it, outermost first, without the root.
    pub(super) fn folders(&self) -> impl Iterator<Item = Self> {
        let ends = self.below.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        ends.map(|end| Self { place: self.place, below: self.below[..end].to_vec() })
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escaped = &rest[at + 1..];
        rest = if let Some(after) = escaped.strip_prefix('\\') {
            bytes.push(b'\\');
            after
        } else if let Some((digits, after)) = escaped.strip_prefix("u{").and_then(|rest| rest.split_once('}')) {
            bytes.extend_from_slice(path::read(&format!("\\u{{{digits}}}"))?.as_bytes());
            after
        } else {
            let digits = escaped.strip_prefix('x')?.get(..2)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            &escaped[3..]
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

/// The folder and the name in it.
pub(super) fn split(below: &[u8]) -> (&[u8], &[u8]) {
    match below.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&below[..slash], &below[slash + 1..]),
        None => (b"", below),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_paths_stay_plain() {
        for (place, below, shown) in [
            (PathPlace::Own, &b"outputs/a.txt"[..], "outputs/a.txt"),
            (PathPlace::Own, b"project/a", "project/a"),
            (PathPlace::Project, b"src/\xe6\x8a\xa5.rs", "/project/src/报.rs"),
            (PathPlace::Memories, b"a.md", "/memories/a.md"),
            (PathPlace::Folder(FolderName::new("lib-2").unwrap()), b"src/a.md", "/folders/lib-2/src/a.md"),
            (PathPlace::Own, b"folders/lib/a", "folders/lib/a"),
            (PathPlace::Own, b"temp/a\\b\n\xff", "temp/a\\u{5c}b\\u{a}\\xff"),
        ] {
            let spot = SafePath { place, below: below.to_vec() };
            assert_eq!(spot.shown(false), shown);
            assert_eq!(SafePath::read(shown), Some(spot.clone()));
            assert_eq!(SafePath::read(&spot.shown(true)), Some(spot));
        }
        let of_before = SafePath { place: PathPlace::Own, below: b"temp/a\\b\n\xff".to_vec() };
        assert_eq!(SafePath::read("temp/a\\\\b\\x0a\\xff"), Some(of_before));
    }

    #[test]
    fn what_was_never_written_is_refused() {
        for shown in [
            "",
            "/",
            "/etc/passwd",
            "a//b",
            "../a",
            "a/..",
            "a/./b",
            "/project/",
            "/memories/",
            "/memories",
            "/memoriesx/a",
            "/project/../x",
            "a\\",
            "a\\x0",
            "a\\q",
            "a\\x00",
            "a/\\x2e\\x2e/b",
        ] {
            assert_eq!(SafePath::read(shown), None, "{shown:?}");
        }
    }

    proptest! {
        #[test]
        fn every_name_survives(parts in proptest::collection::vec(proptest::collection::vec(1_u8.., 1..8), 1..4)) {
            let sound = |part: &Vec<u8>| !part.contains(&b'/') && part != b"." && part != b"..";
            prop_assume!(parts.iter().all(sound));
            let spot = SafePath { place: PathPlace::Own, below: parts.join(&b'/') };
            prop_assert_eq!(SafePath::read(&spot.shown(false)), Some(spot.clone()));
            prop_assert!(!spot.shown(false).chars().any(char::is_control));
        }
    }
}
