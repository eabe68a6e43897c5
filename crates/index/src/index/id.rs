//! Which document: what is in it, and how it was read.

use std::{
    fmt,
    hash::{Hash, Hasher},
    io::{self, Read},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::kind::Kind;

/// SHA-256 of the bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of what can be read. Blocks until all is read.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read(mut from: impl Read) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(Self(hash.finalize().into())),
                Ok(read) => hash.update(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl ContentHash {
    /// The hash of a document in an archive that has this one.
    #[must_use]
    pub fn within(self, path: &str) -> Self {
        Self::of(&[&self.0, b"!/".as_slice(), path.as_bytes()].concat())
    }

    /// Its beginning as a number.
    pub fn number(&self) -> u64 {
        let [first, second, third, fourth, fifth, sixth, seventh, eighth, ..] = self.0;
        u64::from_le_bytes([first, second, third, fourth, fifth, sixth, seventh, eighth])
    }

    /// The hash that is written so.
    fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

/// In hexadecimal.
impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key of a document in the index: the same bytes read in the same way have the same chunks, whoever gave them. A search
/// looks up each of its documents several times, so it is copied and compared as it is, and written down as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DocumentId {
    content: ContentHash,
    kind: Kind,
    reading: u32,
}

impl DocumentId {
    /// The key of these bytes, read as this kind by this version of whatever makes text and chunks of them.
    pub const fn new(content: ContentHash, kind: Kind, reading: u32) -> Self {
        Self { content, kind, reading }
    }

    /// Returns whether it is a document of these bytes.
    pub fn is_of(&self, content: ContentHash) -> bool {
        self.content == content
    }
}

/// Bytes of a good hash are one as they are.
impl Hash for DocumentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.content.number());
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.content, self.kind.word(), self.reading)
    }
}

impl fmt::Debug for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<DocumentId> for String {
    fn from(id: DocumentId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for DocumentId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let read = || {
            let mut parts = text.split('.');
            let (content, kind, reading) = (parts.next()?, parts.next()?, parts.next()?);
            let kind = Kind::of_word(kind)?;
            let id = Self::new(ContentHash::parse(content)?, kind, reading.parse().ok()?);
            parts.next().is_none().then_some(id)
        };
        read().ok_or_else(|| format!("{text:?} is no key of a document"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_says_what_was_read_and_how() {
        let hash = ContentHash::of(b"abc");
        assert!(hash.to_string().starts_with("ba7816bf8f01cfea"), "{hash}");
        assert_eq!(ContentHash::read(&b"abc"[..]).unwrap(), hash);
        let keys = [(Kind::Csv, 1), (Kind::Plain, 1), (Kind::Csv, 2)].map(|(kind, by)| DocumentId::new(hash, kind, by));
        assert_ne!(keys[0], keys[1]);
        assert_ne!(keys[0], keys[2]);
        assert!(keys[0].to_string().ends_with(".csv.1"), "{}", keys[0]);
        for key in keys {
            assert_eq!(DocumentId::try_from(key.to_string()), Ok(key));
        }
        let whole = keys[0].to_string();
        for damaged in ["", "abc.csv.1", &whole[1..], &whole.replace("csv", "tar"), &format!("{whole}.1"), &whole[..69]]
        {
            DocumentId::try_from(damaged.to_owned()).unwrap_err();
        }
    }
}
