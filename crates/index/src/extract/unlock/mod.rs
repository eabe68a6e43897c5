//! Documents that are encrypted with a password, as their readers take them.
//!
//! - `package`: documents of Office 2007 and later, each in a container of streams.
//! - `workbook`, `word`, `slides`: documents of Office before 2007, whose streams are decrypted where they lie in a `compound`
//!   file, with `rc4` or `xor`.
//! - `open_document`: OpenDocument, whose files are encrypted one by one or all together.
//! - `block_cipher`: AES and Blowfish, block after block.
//!
//! Archives and PDFs are decrypted by their readers. Numbers that say how much work a password is (rounds, memory) are those of a
//! stranger and have limits.

mod block_cipher;
mod compound;
mod open_document;
mod package;
mod rc4;
mod slides;
mod word;
mod workbook;
mod xor;

use crate::{failure::Failure, kind::Kind, limits::Limits};
use compound::Compound;

/// The password of documents that are encrypted only so that programs ask before they change them.
const OPEN: &str = "VelvetSweatshop";
/// Rounds of hashing at the most, as Office allows.
const MOST_ROUNDS: u32 = 10_000_000;

/// The document without its encryption, or the bytes as they are where they are not encrypted in a way that ends here.
pub(crate) fn unlocked(
    bytes: Vec<u8>,
    named: Option<Kind>,
    password: Option<&str>,
    limits: &Limits,
) -> Result<Vec<u8>, Failure> {
    const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
    if bytes.starts_with(COMPOUND) {
        in_compound(bytes, named, password)
    } else if bytes.starts_with(b"PK\x03\x04") {
        open_document::unlocked(bytes, named, password, limits)
    } else {
        Ok(bytes)
    }
}

fn in_compound(bytes: Vec<u8>, named: Option<Kind>, password: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut file = match Compound::open(bytes) {
        Ok(file) => file,
        Err(bytes) => return Ok(bytes),
    };
    if file.has("EncryptedPackage") {
        return package::unlocked(&file, named.filter(|kind| !kind.is_text()).unwrap_or(Kind::Docx), password);
    }
    if let Some(book) = ["Workbook", "Book"].into_iter().find(|name| file.has(name)) {
        workbook::unlock(&mut file, book, password)?;
    } else if file.has("WordDocument") {
        word::unlock(&mut file, password)?;
    } else if file.has("PowerPoint Document") {
        slides::unlock(&mut file, password)?;
    }
    Ok(file.into_bytes())
}

/// The key that one of the passwords gives: the one that opens without asking, or the one that a person gave.
fn key_of<T>(kind: Kind, password: Option<&str>, key: impl Fn(&str) -> Option<T>) -> Result<T, Failure> {
    [OPEN].into_iter().chain(password).find_map(key).ok_or(Failure::Encrypted(kind))
}

/// An encryption that is not known here.
fn unknown(kind: Kind) -> Failure {
    Failure::Protected { kind, how: "its encryption is of a kind that is not known here".to_owned() }
}

/// An encryption that wants more work for each password than a document may take.
fn too_much_work(kind: Kind) -> Failure {
    Failure::Protected { kind, how: "its encryption asks for more work than is done for a document".to_owned() }
}

/// Letters of a password as Office counts them.
fn utf16(password: &str) -> Vec<u8> {
    password.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A number of two bytes.
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// A number of four bytes.
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
