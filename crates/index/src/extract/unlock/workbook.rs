//! Workbooks of Excel before 2007: records of which only the content is encrypted, and not that of each.

use std::ops::Range;

use super::{
    compound::Compound,
    key_of,
    rc4::{Rc4Key, Rc4Lock},
    u16_at, unknown,
    xor::{XorKey, XorLock},
};
use crate::{failure::Failure, kind::Kind};

const BEGINNING: u16 = 0x0809;
const END: u16 = 0x000a;
const ENCRYPTION: u16 = 0x002f;
const SHEET: u16 = 0x0085;
/// Records that stay as they are.
const PLAIN: [u16; 7] = [BEGINNING, ENCRYPTION, 0x0194, 0x0195, 0x00e1, 0x0196, 0x0138];
/// Bytes of a sheet's record that stay as they are: where the sheet begins.
const SHEET_PLACE: usize = 4;
/// Bytes within which the record about the encryption stands.
const WITHIN: usize = 64 * 1024;
const BLOCK: usize = 1024;

/// Decrypts the stream with the workbook, if it is encrypted.
pub(super) fn unlock(file: &mut Compound, name: &str, password: Option<&str>) -> Result<(), Failure> {
    let start = file.beginning(name, WITHIN).unwrap_or_default();
    let Some(about) = about_encryption(&start) else { return Ok(()) };
    let lock = Lock::read(about).ok_or_else(|| unknown(Kind::Xls))?;
    let key = key_of(Kind::Xls, password, |word| lock.key(word))?;
    let mut stream = file.stream(name).unwrap_or_default();
    decrypt(&mut stream, &key);
    file.overwrite(name, &stream);
    Ok(())
}

enum Lock {
    Rc4(Rc4Lock),
    Xor(XorLock),
}

enum Key {
    Rc4(Rc4Key),
    Xor(XorKey),
}

impl Lock {
    fn read(about: &[u8]) -> Option<Self> {
        // Before Excel 97 there was one way only, and no need to name it.
        match (about.len(), u16_at(about, 0)?) {
            (4, _) => Some(Self::Xor(XorLock::read(about)?)),
            (_, 0) => Some(Self::Xor(XorLock::read(about.get(2..)?)?)),
            (_, 1) => Some(Self::Rc4(Rc4Lock::read(about.get(2..)?)?)),
            _ => None,
        }
    }

    fn key(&self, password: &str) -> Option<Key> {
        match self {
            Self::Rc4(lock) => lock.key(password).map(Key::Rc4),
            Self::Xor(lock) => lock.key(password).map(Key::Xor),
        }
    }
}

/// Record of the workbook about its encryption, from before its first part ends.
fn about_encryption(start: &[u8]) -> Option<&[u8]> {
    let (first, mut place) = record(start, 0)?;
    if first != BEGINNING {
        return None;
    }
    loop {
        let (kind, content) = record(start, place.end)?;
        match kind {
            ENCRYPTION => return start.get(content),
            END => return None,
            _ => place = content,
        }
    }
}

/// The kind of the record that begins there, and where its content lies.
fn record(stream: &[u8], at: usize) -> Option<(u16, Range<usize>)> {
    let (kind, size) = (u16_at(stream, at)?, u16_at(stream, at + 2)?);
    let content = at + 4..at + 4 + usize::from(size);
    (content.end <= stream.len()).then_some((kind, content))
}

fn decrypt(stream: &mut [u8], key: &Key) {
    // The headers of records count as content where a block begins.
    let clear = match key {
        Key::Rc4(key) => {
            let mut clear = stream.to_vec();
            key.decrypt_blocks(BLOCK, &mut clear);
            clear
        }
        Key::Xor(_) => Vec::new(),
    };
    let mut at = 0;
    while let Some((kind, content)) = record(stream, at) {
        if kind == ENCRYPTION {
            // A kind that nobody knows, and everybody passes over.
            stream[at..at + 2].fill(0);
        }
        at = content.end;
        let plain = if kind == SHEET { SHEET_PLACE.min(content.len()) } else { 0 };
        let encrypted = content.start + plain..content.end;
        if PLAIN.contains(&kind) {
            continue;
        }
        match key {
            Key::Rc4(_) => stream[encrypted.clone()].copy_from_slice(&clear[encrypted]),
            Key::Xor(key) => key.decrypt(encrypted.start + content.len(), &mut stream[encrypted]),
        }
    }
}
