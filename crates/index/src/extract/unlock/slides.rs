//! Slides of PowerPoint before 2007: a list of objects, each encrypted with a key of its own.

use super::{compound::Compound, key_of, rc4::Rc4Lock, u16_at, u32_at, unknown};
use crate::{extract::broken, failure::Failure, kind::Kind};

/// Stream of the objects, and the one that says where the list is.
const OBJECTS: &str = "PowerPoint Document";
const USER: &str = "Current User";
const USER_BYTES: usize = 4096;
/// Place of the mark of encrypted slides, and of the last edit.
const MARK: usize = 12;
const EDIT: usize = 16;
const ENCRYPTED: u32 = 0xf3d1_c4df;
const PLAIN: u32 = 0xe391_c05f;
/// Kinds of records.
const EDIT_RECORD: u16 = 0x0ff5;
const LIST_RECORD: u16 = 0x1772;
const ENCRYPTION_RECORD: u16 = 0x2f14;
/// Bytes that a record begins with.
const HEADER: usize = 8;
/// Places in the record of the edit: the list, and the number of the object about the encryption.
const LIST: usize = HEADER + 12;
const ENCRYPTION: usize = HEADER + 28;
/// Objects of which anything is read.
const MOST_OBJECTS: usize = 500_000;

/// An object in the list.
struct ObjectPlace {
    number: u32,
    at: usize,
}

/// Decrypts the objects, if they are encrypted.
pub(super) fn unlock(file: &mut Compound, password: Option<&str>) -> Result<(), Failure> {
    let mut user = file.beginning(USER, USER_BYTES).unwrap_or_default();
    if u32_at(&user, MARK) != Some(ENCRYPTED) {
        return Ok(());
    }
    let mut stream = file.stream(OBJECTS).unwrap_or_default();
    let damaged = || broken(Kind::Ppt, "what says how it is encrypted cannot be found");
    let edit = place_at(&user, EDIT).ok_or_else(damaged)?;
    let objects = objects(&stream, edit).ok_or_else(damaged)?;
    let about = about_encryption(&stream, edit, &objects).ok_or_else(damaged)?;
    let lock = Rc4Lock::read(about).ok_or_else(|| unknown(Kind::Ppt))?;
    let key = key_of(Kind::Ppt, password, |word| lock.key(word))?;
    // Objects lie one behind the other, so that together they are no larger than what holds them.
    let mut left = stream.len();
    for ObjectPlace { number, at } in objects {
        let Some(header) = stream.get(at..at.saturating_add(HEADER)) else { continue };
        if u16_at(header, 2).is_some_and(|kind| [EDIT_RECORD, LIST_RECORD, ENCRYPTION_RECORD].contains(&kind)) {
            continue;
        }
        let mut header = header.to_vec();
        key.decrypt(number, &mut header);
        let size = place_at(&header, 4).and_then(|size| size.checked_add(HEADER)).unwrap_or(usize::MAX);
        let rest = &mut stream[at..];
        let size = size.min(rest.len()).min(left);
        key.decrypt(number, &mut rest[..size]);
        left -= size;
    }
    user[MARK..MARK + 4].copy_from_slice(&PLAIN.to_le_bytes());
    stream[edit + ENCRYPTION..edit + ENCRYPTION + 4].fill(0);
    file.overwrite(USER, &user);
    file.overwrite(OBJECTS, &stream);
    Ok(())
}

/// Record of the slides about their encryption.
fn about_encryption<'a>(stream: &'a [u8], edit: usize, objects: &[ObjectPlace]) -> Option<&'a [u8]> {
    let number = u32_at(stream, edit.checked_add(ENCRYPTION)?)?;
    let at = objects.iter().find(|object| object.number == number)?.at;
    let (kind, content) = record(stream, at)?;
    (kind == ENCRYPTION_RECORD).then_some(content)
}

/// Numbers and places of all objects, as the last edit lists them. Of encrypted slides there is one edit only.
fn objects(stream: &[u8], edit: usize) -> Option<Vec<ObjectPlace>> {
    const NUMBER_BITS: u32 = 20;
    let (kind, _) = record(stream, edit)?;
    let (list_kind, list) = record(stream, place_at(stream, edit.checked_add(LIST)?)?)?;
    if kind != EDIT_RECORD || list_kind != LIST_RECORD {
        return None;
    }
    let (mut objects, mut at) = (Vec::new(), 0);
    while let Some(run) = u32_at(list, at) {
        let (first, count) = (run & ((1 << NUMBER_BITS) - 1), run >> NUMBER_BITS);
        at += 4;
        for number in (first..).take(usize::try_from(count).ok()?) {
            let Some(place) = place_at(list, at) else { break };
            objects.push(ObjectPlace { number, at: place });
            at += 4;
        }
        if objects.len() > MOST_OBJECTS {
            return None;
        }
    }
    Some(objects)
}

/// The kind of the record that begins there, and its content.
fn record(stream: &[u8], at: usize) -> Option<(u16, &[u8])> {
    let (kind, start) = (u16_at(stream, at.checked_add(2)?)?, at.checked_add(HEADER)?);
    let end = start.checked_add(place_at(stream, at.checked_add(4)?)?)?.min(stream.len());
    Some((kind, stream.get(start..end)?))
}

fn place_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, at)?).ok()
}
