//! Text documents of Word before 2007: three streams in blocks, of which the first begins with what says that they are encrypted.

use super::{compound::Compound, key_of, rc4::Rc4Lock, u16_at, u32_at, unknown};
use crate::{failure::Failure, kind::Kind};

/// Bytes at the beginning that are never encrypted.
const HEAD: usize = 68;
const WORD_97: u16 = 0xa5ec;
const ENCRYPTED: u16 = 0x0100;
const SECOND_TABLE: u16 = 0x0200;
const OBFUSCATED: u16 = 0x8000;
/// Places in the head: flags, and bytes that the other stream begins with about the encryption.
const FLAGS: usize = 10;
const ABOUT: usize = 14;
const MOST_ABOUT: usize = 64 * 1024;
const BLOCK: usize = 512;

/// Decrypts the streams of the document, if they are encrypted.
pub(super) fn unlock(file: &mut Compound, password: Option<&str>) -> Result<(), Failure> {
    let mut head = file.beginning("WordDocument", HEAD).unwrap_or_default();
    let (Some(flags), Some(about)) = (u16_at(&head, FLAGS), u32_at(&head, ABOUT)) else { return Ok(()) };
    // Of older ones the reader says that it does not know them.
    if flags & ENCRYPTED == 0 || u16_at(&head, 0) != Some(WORD_97) {
        return Ok(());
    }
    let table = if flags & SECOND_TABLE == 0 { "0Table" } else { "1Table" };
    let about = file.beginning(table, usize::try_from(about).unwrap_or(usize::MAX).min(MOST_ABOUT));
    let lock = about.filter(|_| flags & OBFUSCATED == 0).and_then(|about| Rc4Lock::read(&about));
    let key = {
        let lock = lock.ok_or_else(|| unknown(Kind::Doc))?;
        key_of(Kind::Doc, password, |word| lock.key(word))?
    };
    head[FLAGS..FLAGS + 2].copy_from_slice(&(flags & !(ENCRYPTED | OBFUSCATED)).to_le_bytes());
    head[ABOUT..ABOUT + 4].fill(0);
    for name in ["WordDocument", table, "Data"] {
        let Some(mut stream) = file.stream(name) else { continue };
        key.decrypt_blocks(BLOCK, &mut stream);
        if name == "WordDocument" {
            stream.iter_mut().zip(&head).for_each(|(byte, plain)| *byte = *plain);
        }
        file.overwrite(name, &stream);
    }
    Ok(())
}
