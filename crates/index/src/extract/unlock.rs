//! Decryption of Office documents with a password: "agile" encryption of newer programs with any SHA variant, and
//! "standard" encryption of Office 2007. Both store the encrypted document in an OLE container.
//!
//! Archives and PDFs are decrypted by their readers. Other protected documents are rejected: mostly by their readers,
//! and by this module for encrypted workbooks before 2007, which their reader does not detect. The number of hash
//! rounds comes from the untrusted file and is limited.

use std::io::{Cursor, Read, Seek};

use aes::cipher::{BlockCipherDecrypt, KeyInit as _};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use office_oxide::cfb::CfbReader;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{broken, package};
use crate::{
    failure::{Failure, fail_if},
    kind::Kind,
};

/// Password of documents that are only encrypted to enforce write protection.
const WRITE_PROTECTION_PASSWORD: &str = "VelvetSweatshop";
/// Maximum number of hash rounds, as in Office.
const MAX_ROUNDS: u32 = 10_000_000;
/// Number of hash rounds in Office 2007.
const STANDARD_ROUNDS: u32 = 50_000;
/// Size of an encrypted segment in bytes.
const SEGMENT: usize = 4096;
/// Block size of AES in bytes.
const BLOCK: usize = 16;

/// Decrypts the document. Returns the bytes unchanged if they are not in an encrypted container.
pub(crate) fn decrypt_office(bytes: Vec<u8>, named: Option<Kind>, password: Option<&str>) -> Result<Vec<u8>, Failure> {
    const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
    if !bytes.starts_with(COMPOUND) {
        return Ok(bytes);
    }
    // Damage is reported by the reader of the document.
    let Ok(mut file) = CfbReader::new(Cursor::new(bytes.as_slice())) else { return Ok(bytes) };
    if file.has_stream("EncryptedPackage") {
        let kind = named.filter(|kind| kind.opens_with_password()).unwrap_or(Kind::Docx);
        return package(&mut file, kind, password);
    }
    fail_if(is_locked_workbook(&mut file), || Failure::Encrypted(Kind::Xls))?;
    Ok(bytes)
}

fn package<R: Read + Seek>(file: &mut CfbReader<R>, kind: Kind, password: Option<&str>) -> Result<Vec<u8>, Failure> {
    let protected = |reason: &str| Failure::Protected { kind, how: reason.to_owned() };
    // Without this stream, access is controlled by another system, for example a company's rights management service.
    let encryption_info = file.open_stream("EncryptionInfo").ok();
    let unknown = || protected("its encryption is not supported");
    let lock = encryption_info.and_then(|encryption_info| Lock::read(&encryption_info)).ok_or_else(unknown)?;
    fail_if(lock.rounds() > MAX_ROUNDS, || protected("its encryption has too many hash rounds"))?;
    let mut words = [WRITE_PROTECTION_PASSWORD].into_iter().chain(password);
    let key = words.find_map(|word| lock.key(word)).ok_or(Failure::Encrypted(kind))?;
    let package = file.open_stream("EncryptedPackage").unwrap_or_default();
    lock.open(&key, &package).ok_or_else(|| broken(kind, "it cannot be decrypted completely"))
}

/// Returns true if a workbook before 2007 has an encryption record in its first substream.
fn is_locked_workbook<R: Read + Seek>(file: &mut CfbReader<R>) -> bool {
    const BOF: u16 = 0x0809;
    const EOF: u16 = 0x000a;
    const FILE_PASS: u16 = 0x002f;
    let Some(name) = ["Workbook", "Book"].into_iter().find(|name| file.has_stream(name)) else { return false };
    let stream = file.open_stream(name).unwrap_or_default();
    let mut at = 0;
    while let (Some(kind), Some(size)) = (u16_at(&stream, at), u16_at(&stream, at + 2)) {
        match kind {
            FILE_PASS => return true,
            EOF => return false,
            kind if at == 0 && kind != BOF => return false,
            _ => at += 4 + usize::from(size),
        }
    }
    false
}

enum Lock {
    Agile {
        content: Cipher,
        /// Cipher of the content key.
        key_cipher: Cipher,
        rounds: u32,
        verifier: Vec<u8>,
        verifier_hash: Vec<u8>,
        key: Vec<u8>,
    },
    Standard {
        salt: Vec<u8>,
        key_bytes: usize,
        verifier: Vec<u8>,
        verifier_hash: Vec<u8>,
    },
}

struct Cipher {
    salt: Vec<u8>,
    key_bytes: usize,
    hash: Hash,
}

#[derive(Clone, Copy)]
struct Hash(fn(&[u8]) -> Vec<u8>);

const SHA1: Hash = Hash(digest::<Sha1>);

fn digest<D: Digest>(bytes: &[u8]) -> Vec<u8> {
    D::digest(bytes).to_vec()
}

impl Hash {
    fn of(self, parts: &[&[u8]]) -> Vec<u8> {
        (self.0)(&parts.concat())
    }

    fn password_hash(self, salt: &[u8], password: &str, rounds: u32) -> Vec<u8> {
        let letters: Vec<u8> = password.encode_utf16().flat_map(u16::to_le_bytes).collect();
        (0..rounds).fold(self.of(&[salt, &letters]), |hash, round| self.of(&[&round.to_le_bytes(), &hash]))
    }
}

impl Lock {
    fn read(encryption_info: &[u8]) -> Option<Self> {
        let number =
            |at: usize| Some(u32::from_le_bytes(encryption_info.get(at..at.checked_add(4)?)?.try_into().ok()?));
        let version = (number(0)? & 0xffff, number(0)? >> 16);
        match version {
            (4, 4) => Self::agile(std::str::from_utf8(encryption_info.get(8..)?).ok()?),
            (2..=4, 2) => {
                let header = 12;
                let end =
                    usize::try_from(number(8)?).ok()?.checked_add(header).filter(|end| *end < encryption_info.len())?;
                let key_bytes = usize::try_from(number(header + 16)?).ok()? / 8;
                // Only AES with SHA-1 is supported.
                let is_aes = matches!(number(header + 8)?, 0x660e..=0x6610) && matches!(key_bytes, 16 | 24 | 32);
                let salt =
                    encryption_info.get(end + 4..end + 20).filter(|_| is_aes && number(end) == Some(16))?.to_vec();
                Some(Self::Standard {
                    salt,
                    key_bytes,
                    verifier: encryption_info.get(end + 20..end + 36)?.to_vec(),
                    verifier_hash: encryption_info.get(end + 40..end + 72)?.to_vec(),
                })
            }
            _ => None,
        }
    }

    fn agile(text: &str) -> Option<Self> {
        let tree = package::parse(text.trim_end_matches('\0')).ok()?;
        let content = tree.find("keyData")?;
        let key_cipher = tree.find("encryptedKey")?;
        let bytes = |name: &str| STANDARD.decode(key_cipher.attribute(name)?).ok();
        let rounds = key_cipher.attribute("spinCount")?.parse().ok()?;
        Some(Self::Agile {
            content: Cipher::read(content)?,
            key_cipher: Cipher::read(key_cipher)?,
            rounds,
            verifier: bytes("encryptedVerifierHashInput")?,
            verifier_hash: bytes("encryptedVerifierHashValue")?,
            key: bytes("encryptedKeyValue")?,
        })
    }

    /// Returns the number of hash rounds per password.
    const fn rounds(&self) -> u32 {
        match self {
            Self::Agile { rounds, .. } => *rounds,
            Self::Standard { .. } => STANDARD_ROUNDS,
        }
    }

    /// Derives the content key, or returns `None` if the password is wrong.
    fn key(&self, password: &str) -> Option<Vec<u8>> {
        match self {
            Self::Agile { key_cipher, rounds, verifier, verifier_hash, key, .. } => {
                let hash = key_cipher.hash.password_hash(&key_cipher.salt, password, *rounds);
                let open = |purpose: [u8; 8], bytes: &[u8]| {
                    let key = pad_or_truncate(key_cipher.hash.of(&[&hash, &purpose]), key_cipher.key_bytes);
                    cbc(&key, &pad_or_truncate(key_cipher.salt.clone(), BLOCK), bytes)
                };
                let decrypted = open([0xfe, 0xa7, 0xd2, 0x76, 0x3b, 0x4b, 0x9e, 0x79], verifier)?;
                let hashed = open([0xd7, 0xaa, 0x0f, 0x6d, 0x30, 0x61, 0x34, 0x4e], verifier_hash)?;
                let expected = key_cipher.hash.of(&[decrypted.get(..key_cipher.salt.len())?]);
                let key = open([0x14, 0x6e, 0x0b, 0xe7, 0xab, 0xac, 0xd0, 0xd6], key)?;
                hashed.starts_with(&expected).then(|| key.get(..key_cipher.key_bytes).map(<[u8]>::to_vec))?
            }
            Self::Standard { salt, key_bytes, verifier, verifier_hash } => {
                let hash = SHA1.password_hash(salt, password, STANDARD_ROUNDS);
                let hash = SHA1.of(&[&hash, &0_u32.to_le_bytes()]);
                let derived = [0x36_u8, 0x5c].map(|filling| {
                    let mut block = [filling; 64];
                    block.iter_mut().zip(&hash).for_each(|(byte, other)| *byte ^= other);
                    SHA1.of(&[&block])
                });
                let key = derived.concat().get(..*key_bytes)?.to_vec();
                let expected_hash = SHA1.of(&[&ecb(&key, verifier)?]);
                ecb(&key, verifier_hash)?.starts_with(&expected_hash).then_some(key)
            }
        }
    }

    /// Decrypts the content with the correct key.
    fn open(&self, key: &[u8], package: &[u8]) -> Option<Vec<u8>> {
        let (size, rest) = package.split_first_chunk::<8>()?;
        let size = usize::try_from(u64::from_le_bytes(*size)).ok()?.min(rest.len());
        let whole = rest.get(..rest.len() - rest.len() % BLOCK)?;
        let mut open = match self {
            Self::Agile { content, .. } => {
                let mut open = Vec::with_capacity(whole.len());
                for (number, segment) in (0_u32..).zip(whole.chunks(SEGMENT)) {
                    let start = content.hash.of(&[&content.salt, &number.to_le_bytes()]);
                    open.extend(cbc(key, &pad_or_truncate(start, BLOCK), segment)?);
                }
                open
            }
            Self::Standard { .. } => ecb(key, whole)?,
        };
        open.truncate(size);
        Some(open)
    }
}

impl Cipher {
    fn read(node: &package::Node) -> Option<Self> {
        let is = |name: &str, value: &str| node.attribute(name) == Some(value);
        if !is("cipherAlgorithm", "AES") || !is("cipherChaining", "ChainingModeCBC") {
            return None;
        }
        let hash = match node.attribute("hashAlgorithm")? {
            "SHA1" | "SHA-1" => SHA1,
            "SHA256" | "SHA-256" => Hash(digest::<Sha256>),
            "SHA384" | "SHA-384" => Hash(digest::<Sha384>),
            "SHA512" | "SHA-512" => Hash(digest::<Sha512>),
            _ => return None,
        };
        let bits: usize = node.attribute("keyBits")?.parse().ok()?;
        let salt = STANDARD.decode(node.attribute("saltValue")?).ok().filter(|salt| (1..=64).contains(&salt.len()))?;
        matches!(bits, 128 | 192 | 256).then_some(Self { salt, key_bytes: bits / 8, hash })
    }
}

/// Truncates the bytes to `length`, or pads them as the format specifies.
fn pad_or_truncate(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.resize(length, 0x36);
    bytes
}

/// Decrypts AES in CBC mode.
fn cbc(key: &[u8], start: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    let mut open = ecb(key, bytes)?;
    let before = start.iter().chain(bytes);
    open.iter_mut().zip(before).for_each(|(byte, before)| *byte ^= before);
    Some(open)
}

/// Decrypts AES in ECB mode. Returns `None` if the length of the key or the data is invalid.
fn ecb(key: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    if !bytes.len().is_multiple_of(BLOCK) {
        return None;
    }
    let mut open = bytes.to_vec();
    match key.len() {
        16 => blocks(&aes::Aes128::new_from_slice(key).ok()?, &mut open),
        24 => blocks(&aes::Aes192::new_from_slice(key).ok()?, &mut open),
        _ => blocks(&aes::Aes256::new_from_slice(key).ok()?, &mut open),
    }
    Some(open)
}

fn blocks<C: BlockCipherDecrypt>(cipher: &C, bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(BLOCK) {
        if let Ok(block) = block.try_into() {
            cipher.decrypt_block(block);
        }
    }
}

/// Reads a little-endian number of two bytes.
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}
