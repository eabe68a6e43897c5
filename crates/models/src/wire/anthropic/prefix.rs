//! What stands before an answer. A server binds signed thoughts to it: where anything of it is another since, they must not
//! go back.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

use super::block::{Block, Role};

/// All that stands before a place in a conversation, as a hash of 128 bits. All of a request goes through it in front of the first
/// token, so it is a fast one: whoever finds another text with the same hash has his own thoughts refused by the server.
pub(super) struct Prefix(SipHasher13);

impl Prefix {
    /// The prefix of a conversation: instructions and tools.
    pub(super) fn new(system: &[Block], tools: &str) -> Self {
        let mut prefix = Self(SipHasher13::new());
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
        format!("{:032x}", self.0.finish128().as_u128())
    }

    fn add(&mut self, kind: u8, json: &str) {
        self.0.write(&[kind]);
        self.0.write(&json.len().to_le_bytes());
        self.0.write(json.as_bytes());
    }
}
