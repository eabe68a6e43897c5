//! Encryption of one file: the way from the password to its key, the cipher, and the check of the password.

use aes_gcm::{Aes128Gcm, Aes256Gcm, KeyInit as _, aead::Aead as _};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use crate::extract::{
    unlock::{
        MOST_ROUNDS,
        block_cipher::{self, BLOCK},
    },
    xml::Node,
};

/// Bytes of a file that its check counts.
const CHECKED: usize = 1024;
/// Memory that Argon2 may take, in KiB, times that it may pass through it, and parts of it that it may fill side by side.
const MOST_MEMORY: u32 = 256 * 1024;
const MOST_PASSES: u32 = 32;
const MOST_LANES: u32 = 64;
/// Bytes of the number that AES-GCM begins with.
const NONCE: usize = 12;
/// Bytes of a key, if nobody says how many.
const USUAL_KEY: usize = 16;
const MOST_KEY: usize = 56;
/// Bytes of a key of Blowfish at least.
const LEAST_BLOWFISH: usize = 4;

/// Reason why a password is of no use.
pub(super) enum EncryptionError {
    /// It is of a kind that is not known here.
    Unknown,
    /// It has keys of another sort.
    OtherKeys,
    /// It asks for more work than is done.
    TooMuchWork,
}

/// Encryption of a file.
pub(super) struct Encryption {
    cipher: Cipher,
    start: Vec<u8>,
    /// The hash of the password that the key comes from.
    first: Hash,
    derivation: Derivation,
    salt: Vec<u8>,
    key_bytes: usize,
    /// The hash of the first bytes, before they were encrypted.
    check: Option<(Hash, Vec<u8>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Cipher {
    AesCbc,
    AesGcm,
    Blowfish,
}

#[derive(Clone, Copy)]
enum Hash {
    Sha1,
    Sha256,
}

enum Derivation {
    Pbkdf2 { rounds: u32 },
    Argon2 { passes: u32, memory: u32, lanes: u32 },
}

impl Encryption {
    pub(super) fn read(about: &Node) -> Result<Self, EncryptionError> {
        let algorithm = about.node("algorithm");
        let derivation = about.node("key-derivation");
        let by = |node: Option<&Node>, name: &str| Some(node?.attribute(name)?.to_ascii_lowercase());
        if by(derivation, "key-derivation-name").as_deref() == Some("pgp") {
            return Err(EncryptionError::OtherKeys);
        }
        let encryption = Self::known(about, algorithm, derivation).ok_or(EncryptionError::Unknown)?;
        let is_too_much = match encryption.derivation {
            Derivation::Pbkdf2 { rounds } => rounds > MOST_ROUNDS,
            Derivation::Argon2 { passes, memory, lanes } => {
                passes > MOST_PASSES || memory > MOST_MEMORY || lanes > MOST_LANES
            }
        };
        if is_too_much { Err(EncryptionError::TooMuchWork) } else { Ok(encryption) }
    }

    fn known(about: &Node, algorithm: Option<&Node>, derivation: Option<&Node>) -> Option<Self> {
        let (algorithm, derivation) = (algorithm?, derivation?);
        let bytes = |node: &Node, name: &str| STANDARD.decode(node.attribute(name)?.trim()).ok();
        let number = |name: &str| derivation.attribute(name)?.trim().parse::<u32>().ok();
        let first = match about.node("start-key-generation") {
            Some(node) => Hash::named(node.attribute("start-key-generation-name")?)?,
            None => Hash::Sha1,
        };
        let check = match about.attribute("checksum-type") {
            Some(name) => Some((Hash::named(name)?, bytes(about, "checksum")?)),
            None => None,
        };
        let key_bytes = match derivation.attribute("key-size") {
            Some(size) => size.trim().parse().ok().filter(|size| (1..=MOST_KEY).contains(size))?,
            None => USUAL_KEY,
        };
        let cipher = Cipher::named(algorithm.attribute("algorithm-name")?)?;
        let start = bytes(algorithm, "initialisation-vector")?;
        let fits = match cipher {
            Cipher::AesCbc => start.len() >= BLOCK && matches!(key_bytes, 16 | 24 | 32),
            Cipher::AesGcm => matches!(key_bytes, 16 | 32),
            Cipher::Blowfish => key_bytes >= LEAST_BLOWFISH,
        };
        // Otherwise no password would open it.
        if !fits {
            return None;
        }
        Some(Self {
            cipher,
            start,
            first,
            derivation: match derivation.attribute("key-derivation-name")?.to_ascii_lowercase() {
                name if name.ends_with("pbkdf2") => Derivation::Pbkdf2 { rounds: number("iteration-count")? },
                name if name.ends_with("argon2id") => Derivation::Argon2 {
                    passes: number("argon2-iterations")?,
                    memory: number("argon2-memory")?,
                    lanes: number("argon2-lanes")?,
                },
                _ => return None,
            },
            salt: bytes(derivation, "salt")?,
            key_bytes,
            check,
        })
    }

    /// Returns whether a file that opens is sure to have opened with the right password.
    pub(super) const fn is_checked(&self) -> bool {
        self.check.is_some() || matches!(self.cipher, Cipher::AesGcm)
    }

    /// The file, still packed; none where the password is another one.
    pub(super) fn open(&self, password: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let key = self.key(password)?;
        let open = match self.cipher {
            Cipher::AesCbc => {
                let mut open = block_cipher::cbc(&key, self.start.get(..BLOCK)?, bytes)?;
                // The last byte counts those that fill the last block.
                let filling = usize::from(*open.last()?);
                open.truncate(open.len().checked_sub(filling).filter(|_| (1..=BLOCK).contains(&filling))?);
                open
            }
            Cipher::AesGcm => {
                let (nonce, rest) = bytes.split_at_checked(NONCE)?;
                let nonce = nonce.try_into().ok()?;
                match key.len() {
                    16 => Aes128Gcm::new_from_slice(&key).ok()?.decrypt(nonce, rest).ok()?,
                    _ => Aes256Gcm::new_from_slice(&key).ok()?.decrypt(nonce, rest).ok()?,
                }
            }
            Cipher::Blowfish => block_cipher::blowfish_cfb(&key, &self.start, bytes)?,
        };
        let is_it = self.check.as_ref().is_none_or(|(hash, expected)| {
            let start = open.get(..CHECKED).unwrap_or(&open);
            hash.of(start) == *expected
        });
        is_it.then_some(open)
    }

    fn key(&self, password: &str) -> Option<Vec<u8>> {
        let first = self.first.of(password.as_bytes());
        let mut key = vec![0; self.key_bytes];
        match self.derivation {
            Derivation::Pbkdf2 { rounds } => pbkdf2::pbkdf2_hmac::<Sha1>(&first, &self.salt, rounds, &mut key),
            Derivation::Argon2 { passes, memory, lanes } => {
                let params = Params::new(memory, passes, lanes, Some(self.key_bytes)).ok()?;
                let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
                argon.hash_password_into(&first, &self.salt, &mut key).ok()?;
            }
        }
        Some(key)
    }
}

impl Cipher {
    fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let is_aes = |mode: &str| name.contains("#aes") && name.ends_with(mode);
        if is_aes("-cbc") {
            Some(Self::AesCbc)
        } else if is_aes("-gcm") {
            Some(Self::AesGcm)
        } else {
            name.contains("blowfish").then_some(Self::Blowfish)
        }
    }
}

impl Hash {
    /// The hash of that name, which may be an address, and may say of how many bytes it is.
    fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.rsplit('#').next()?;
        match name.trim_end_matches("/1k").trim_end_matches("-1k") {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }

    fn of(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }
}
