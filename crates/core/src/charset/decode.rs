//! Characters and the bytes that they came from.

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE};

use super::Charset;

/// The units of UTF-16 text. An odd byte at the end is no unit.
pub(super) fn utf16_units(bytes: &[u8], encoding: &'static Encoding) -> impl Iterator<Item = u16> {
    let read = if encoding == UTF_16BE { u16::from_be_bytes } else { u16::from_le_bytes };
    bytes.as_chunks::<2>().0.iter().map(move |pair| read(*pair))
}

/// Decodes text without its byte order mark and tells each piece with the number of its bytes. Bytes that are no text
/// come as U+FFFD, with as many bytes as are wrong. A piece is one character, but for four letters of Big5 that are
/// two, and for valid UTF-8, which comes in long pieces that have the same length on either side.
pub fn characters(body: &[u8], charset: Charset, piece: &mut dyn FnMut(&str, usize)) {
    if charset.encoding == UTF_8 {
        for chunk in body.utf8_chunks() {
            if !chunk.valid().is_empty() {
                piece(chunk.valid(), chunk.valid().len());
            }
            if !chunk.invalid().is_empty() {
                piece("\u{fffd}", chunk.invalid().len());
            }
        }
    } else if charset.is_utf16() {
        for unit in char::decode_utf16(utf16_units(body, charset.encoding)) {
            let length = unit.as_ref().map_or(2, |character| character.len_utf16() * 2);
            let character = unit.unwrap_or('\u{fffd}');
            piece(character.encode_utf8(&mut [0; 4]), length);
        }
        if !body.len().is_multiple_of(2) {
            piece("\u{fffd}", 1);
        }
    } else {
        legacy(body, charset.encoding, piece);
    }
}

/// The encodings of one to four bytes a character that have ASCII as it is. The decoder is given a byte at a time,
/// since only then can it be seen which bytes made a character.
fn legacy(body: &[u8], encoding: &'static Encoding, piece: &mut dyn FnMut(&str, usize)) {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut at = 0;
    while at < body.len() {
        let ascii = body[at..].iter().take_while(|byte| byte.is_ascii()).count();
        // ASCII is valid UTF-8, and its pieces have the same length on either side.
        if let Ok(text) = std::str::from_utf8(&body[at..at + ascii])
            && ascii > 0
        {
            piece(text, ascii);
            at += ascii;
            continue;
        }
        let mut out = [0; 32];
        let mut length = 0;
        let decoded = loop {
            let next = &body[at + length..body.len().min(at + length + 1)];
            let (result, read, written) = decoder.decode_to_utf8_without_replacement(next, &mut out, next.is_empty());
            length += read;
            match result {
                DecoderResult::Malformed(wrong, _) => break Err(usize::from(wrong)),
                _ if written > 0 => break Ok(written),
                _ if next.is_empty() => break Err(length),
                _ => {}
            }
        };
        match decoded.map(|written| std::str::from_utf8(&out[..written])) {
            Ok(Ok(text)) => {
                piece(text, length);
                at += length;
            }
            wrong => {
                let wrong = wrong.err().unwrap_or(1).clamp(1, body.len() - at);
                piece("\u{fffd}", wrong);
                at += wrong;
                decoder = encoding.new_decoder_without_bom_handling();
            }
        }
    }
}
