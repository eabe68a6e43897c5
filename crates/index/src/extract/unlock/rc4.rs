//! RC4 as Office before 2007 uses it: with a key for each block of a stream. The keys come from the password by MD5, or by SHA-1
//! ("CryptoAPI").

use md5::Md5;
use rc4::{KeyInit as _, StreamCipher as _};
use sha1::{Digest as _, Sha1};

use super::{u16_at, u32_at, utf16};

const SALT: usize = 16;
const VERIFIER: usize = 16;
/// Bytes of a hash that become a key of 40 bits.
const WEAK_KEY: usize = 5;

/// Salt, and the check of a password.
pub(super) struct Rc4Lock {
    salt: Vec<u8>,
    /// Random bytes and their hash, encrypted one behind the other.
    verifier: Vec<u8>,
    hash: KeyHash,
}

#[derive(Clone, Copy)]
enum KeyHash {
    Md5,
    Sha1 { key_bytes: usize },
}

impl Rc4Lock {
    /// Reads what stands in a document about its encryption, from the version on.
    pub(super) fn read(about: &[u8]) -> Option<Self> {
        match (u16_at(about, 0)?, u16_at(about, 2)?) {
            (1, 1) => {
                let (salt, verifier) = about.get(4..4 + SALT + 2 * VERIFIER)?.split_at(SALT);
                Some(Self { salt: salt.to_vec(), verifier: verifier.to_vec(), hash: KeyHash::Md5 })
            }
            (2..=4, 2) => {
                const RC4: u32 = 0x6801;
                let header = about.get(12..)?;
                let (header, check) = header.split_at_checked(usize::try_from(u32_at(about, 8)?).ok()?)?;
                let bits = Some(u32_at(header, 16)?).filter(|bits| *bits > 0).unwrap_or(40);
                let is_known = u32_at(header, 8)? == RC4 && (40..=128).contains(&bits) && bits.is_multiple_of(8);
                let salt = check.get(4..4 + SALT).filter(|_| is_known && u32_at(check, 0) == Some(16))?;
                let verifier = [check.get(20..20 + VERIFIER)?, check.get(40..60)?].concat();
                let key_bytes = usize::try_from(bits / 8).ok()?;
                Some(Self { salt: salt.to_vec(), verifier, hash: KeyHash::Sha1 { key_bytes } })
            }
            _ => None,
        }
    }

    /// The key that the password gives; none where it is another password.
    pub(super) fn key(&self, password: &str) -> Option<Rc4Key> {
        let letters = utf16(password);
        let base = match self.hash {
            KeyHash::Md5 => {
                let hash = Md5::digest(&letters);
                let mixed = [hash.get(..WEAK_KEY)?, &self.salt].concat().repeat(16);
                Md5::digest(mixed).get(..WEAK_KEY)?.to_vec()
            }
            KeyHash::Sha1 { .. } => Sha1::digest([self.salt.as_slice(), &letters].concat()).to_vec(),
        };
        let key = Rc4Key { base, hash: self.hash };
        let mut check = self.verifier.clone();
        key.decrypt(0, &mut check);
        let (said, hashed) = check.split_at_checked(VERIFIER)?;
        let is_it = match self.hash {
            KeyHash::Md5 => Md5::digest(said).as_slice() == hashed,
            KeyHash::Sha1 { .. } => Sha1::digest(said).as_slice() == hashed,
        };
        is_it.then_some(key)
    }
}

/// Bytes that the keys of all blocks are made from.
pub(super) struct Rc4Key {
    base: Vec<u8>,
    hash: KeyHash,
}

impl Rc4Key {
    /// Decrypts the bytes of one block, from its beginning.
    pub(super) fn decrypt(&self, block: u32, bytes: &mut [u8]) {
        let mixed = [self.base.as_slice(), &block.to_le_bytes()].concat();
        let key = match self.hash {
            KeyHash::Md5 => Md5::digest(mixed).to_vec(),
            KeyHash::Sha1 { key_bytes } => {
                let mut key = Sha1::digest(mixed).to_vec();
                key.truncate(key_bytes);
                if key_bytes == WEAK_KEY {
                    key.resize(16, 0);
                }
                key
            }
        };
        if let Ok(mut cipher) = rc4::Rc4::new_from_slice(&key) {
            cipher.apply_keystream(bytes);
        }
    }

    /// Decrypts a stream that has blocks of this size.
    pub(super) fn decrypt_blocks(&self, size: usize, bytes: &mut [u8]) {
        for (number, block) in (0..).zip(bytes.chunks_mut(size)) {
            self.decrypt(number, block);
        }
    }
}
