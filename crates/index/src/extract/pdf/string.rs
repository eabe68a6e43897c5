//! Strings of a PDF that are not drawn: titles, values of forms, comments. Pure.

/// The text of a string: UTF-16 or UTF-8 where a mark says so, and otherwise the encoding of its own that the format has.
pub(super) fn text(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0xef, 0xbb, 0xbf, ..] => {
            crate::extract::encoding::decode(bytes, None).replace('\u{1b}', "")
        }
        // Some programs forget the mark, and no other encoding is right by chance.
        bytes if !bytes.is_ascii() && std::str::from_utf8(bytes).is_ok() => String::from_utf8_lossy(bytes).into_owned(),
        bytes => bytes.iter().map(|byte| letter(*byte)).collect(),
    }
}

/// A letter of `PDFDocEncoding`, which is Latin-1 but for these.
fn letter(byte: u8) -> char {
    const LOW: [char; 8] = ['˘', 'ˇ', 'ˆ', '˙', '˝', '˛', '˚', '˜'];
    const HIGH: [char; 33] = [
        '•', '†', '‡', '…', '—', '–', 'ƒ', '⁄', '‹', '›', '−', '‰', '„', '“', '”', '‘', '’', '‚', '™', 'ﬁ', 'ﬂ', 'Ł',
        'Œ', 'Š', 'Ÿ', 'Ž', 'ı', 'ł', 'œ', 'š', 'ž', '\u{fffd}', '€',
    ];
    let of = |table: &[char], first: u8| table.get(usize::from(byte - first)).copied();
    let special = match byte {
        0x18..=0x1f => of(&LOW, 0x18),
        0x80..=0xa0 => of(&HIGH, 0x80),
        _ => None,
    };
    special.unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_in_all_their_encodings() {
        assert_eq!(text(b"\xfe\xff\x5f\x20\x4f\x1f"), "张伟");
        assert_eq!(text(b"\xff\xfeM\0\xfc\0"), "Mü");
        assert_eq!(text(b"M\xfcller \xa0 12 \x80"), "Müller € 12 •");
        assert_eq!(text("Grüße".as_bytes()), "Grüße");
    }
}
