//! Which document: what is in it, and how it was read.

use std::{
    fmt,
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
    #[must_use]
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

/// The key of a document in the index: the same bytes read in the same way have the same chunks, whoever gave them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DocumentId(String);

impl DocumentId {
    /// The key of these bytes, read as this kind by this version of whatever makes text and chunks of them.
    #[must_use]
    pub fn new(content: ContentHash, kind: Kind, reading: u32) -> Self {
        let kind = format!("{kind:?}").to_ascii_lowercase();
        Self(format!("{content}.{kind}.{reading}"))
    }

    /// Whether it is a document of these bytes.
    #[must_use]
    pub fn is_of(&self, content: ContentHash) -> bool {
        self.0.split('.').next() == Some(content.to_string().as_str())
    }

    /// As it is written down.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
        assert!(keys[0].as_str().ends_with(".csv.1"), "{}", keys[0]);
    }
}
