//! What stands before an answer. A server binds signed thoughts to it: where anything of it is another since, they must not
//! go back.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::block::{Block, Role};

/// Bytes of a fingerprint.
const LENGTH: usize = 16;

/// All that stands before a place in a conversation.
#[derive(Clone)]
pub(super) struct Prefix(Sha256);

impl Prefix {
    /// The prefix of a conversation: instructions and tools.
    pub(super) fn new(system: &[Block], tools: &str) -> Self {
        let mut prefix = Self(Sha256::new());
        prefix.add(b't', tools);
        for block in system {
            prefix.add(b's', block.json());
        }
        prefix
    }

    /// Adds a block of a message.
    pub(super) fn append(&mut self, role: Role, block: &Block) {
        self.add(if role == Role::User { b'u' } else { b'a' }, block.json());
    }

    /// Fingerprint of all of it.
    pub(super) fn fingerprint(&self) -> String {
        let digest = self.0.clone().finalize();
        let mut text = String::with_capacity(2 * LENGTH);
        for byte in digest.iter().take(LENGTH) {
            // Writing into a text cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    fn add(&mut self, kind: u8, json: &str) {
        self.0.update([kind]);
        self.0.update(json.len().to_le_bytes());
        self.0.update(json.as_bytes());
    }
}
