//! Obfuscation of Excel: sixteen bytes made of the password, with which all content is mixed. It tells wrong passwords from right
//! ones by two numbers of sixteen bits.

use super::u16_at;

/// Letters of a password at the most.
const LETTERS: usize = 15;
/// Bytes behind a short password.
const FILLING: [u8; LETTERS] =
    [0xbb, 0xff, 0xff, 0xba, 0xff, 0xff, 0xb9, 0x80, 0x00, 0xbe, 0x0f, 0x00, 0xbf, 0x0f, 0x00];
/// The key of a password with so many letters, before its letters are mixed in.
const STARTS: [u16; LETTERS] = [
    0xe1f0, 0x1d0f, 0xcc9c, 0x84c0, 0x110c, 0x0e10, 0xf1ce, 0x313e, 0x1872, 0xe139, 0xd40f, 0x84f9, 0x280c, 0xa96a,
    0x4ec3,
];
/// Numbers that the bits of each letter mix in, seven a letter.
const BITS: [[u16; 7]; LETTERS] = [
    [0xaefc, 0x4dd9, 0x9bb2, 0x2745, 0x4e8a, 0x9d14, 0x2a09],
    [0x7b61, 0xf6c2, 0xfda5, 0xeb6b, 0xc6f7, 0x9dcf, 0x2bbf],
    [0x4563, 0x8ac6, 0x05ad, 0x0b5a, 0x16b4, 0x2d68, 0x5ad0],
    [0x0375, 0x06ea, 0x0dd4, 0x1ba8, 0x3750, 0x6ea0, 0xdd40],
    [0xd849, 0xa0b3, 0x5147, 0xa28e, 0x553d, 0xaa7a, 0x44d5],
    [0x6f45, 0xde8a, 0xad35, 0x4a4b, 0x9496, 0x390d, 0x721a],
    [0xeb23, 0xc667, 0x9cef, 0x29ff, 0x53fe, 0xa7fc, 0x5fd9],
    [0x47d3, 0x8fa6, 0x0f6d, 0x1eda, 0x3db4, 0x7b68, 0xf6d0],
    [0xb861, 0x60e3, 0xc1c6, 0x93ad, 0x377b, 0x6ef6, 0xddec],
    [0x45a0, 0x8b40, 0x06a1, 0x0d42, 0x1a84, 0x3508, 0x6a10],
    [0xaa51, 0x4483, 0x8906, 0x022d, 0x045a, 0x08b4, 0x1168],
    [0x76b4, 0xed68, 0xcaf1, 0x85c3, 0x1ba7, 0x374e, 0x6e9c],
    [0x3730, 0x6e60, 0xdcc0, 0xa9a1, 0x4363, 0x86c6, 0x1dad],
    [0x3331, 0x6662, 0xccc4, 0x89a9, 0x0373, 0x06e6, 0x0dcc],
    [0x1021, 0x2042, 0x4084, 0x8108, 0x1231, 0x2462, 0x48c4],
];

/// The numbers by which a password is known.
pub(super) struct XorLock {
    key: u16,
    check: u16,
}

/// The bytes that content is mixed with.
pub(super) struct XorKey([u8; 16]);

impl XorLock {
    pub(super) fn read(about: &[u8]) -> Option<Self> {
        Some(Self { key: u16_at(about, 0)?, check: u16_at(about, 2)? })
    }

    /// The key that the password gives; none where it is another password.
    pub(super) fn key(&self, password: &str) -> Option<XorKey> {
        let letters = letters(password);
        if !(1..=LETTERS).contains(&letters.len()) || check(&letters) != self.check || key(&letters)? != self.key {
            return None;
        }
        let filling = FILLING.iter().take(16 - letters.len());
        let halves = self.key.to_le_bytes();
        let mut mixed = [0; 16];
        for (place, (byte, letter)) in mixed.iter_mut().zip(letters.iter().chain(filling)).enumerate() {
            *byte = (letter ^ halves[place % 2]).rotate_right(1);
        }
        Some(XorKey(mixed))
    }
}

impl XorKey {
    /// Decrypts bytes, of which the first is mixed with the byte at this place, counted around.
    pub(super) fn decrypt(&self, place: usize, bytes: &mut [u8]) {
        let mixed = self.0.iter().cycle().skip(place % self.0.len());
        bytes.iter_mut().zip(mixed).for_each(|(byte, mixed)| *byte = (*byte ^ mixed).rotate_right(5));
    }
}

/// Letters in the one byte that each had.
fn letters(password: &str) -> Vec<u8> {
    let byte = |unit: u16| {
        let [low, high] = unit.to_le_bytes();
        if low == 0 { high } else { low }
    };
    password.encode_utf16().map(byte).collect()
}

fn check(letters: &[u8]) -> u16 {
    let size = u8::try_from(letters.len()).unwrap_or(u8::MAX);
    let turned = |check: u16| ((check << 1) & 0x7fff) | (check >> 14 & 1);
    let mixed = letters.iter().rev().chain([&size]).fold(0, |check, byte| turned(check) ^ u16::from(*byte));
    mixed ^ 0xce4b
}

fn key(letters: &[u8]) -> Option<u16> {
    let mut key = *STARTS.get(letters.len().checked_sub(1)?)?;
    for (letter, bits) in letters.iter().zip(BITS.iter().skip(LETTERS - letters.len())) {
        for (number, bit) in bits.iter().enumerate() {
            if letter >> number & 1 == 1 {
                key ^= bit;
            }
        }
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_two_numbers() {
        let lock = XorLock { key: key(b"VelvetSweatshop").unwrap(), check: 0x9a0a };
        assert!(lock.key("VelvetSweatshop").is_some());
        for wrong in ["", "velvetsweatshop", "VelvetSweatshopp"] {
            assert!(lock.key(wrong).is_none(), "{wrong}");
        }
    }
}
