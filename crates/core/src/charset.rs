//! Detection of a file's encoding, or of the kind of a binary file. All code that reads, searches or indexes files uses
//! this module, so that it agrees on which files are text.
//!
//! The checks are, in this order: byte order mark, strict UTF-8, the pattern of zero bytes of UTF-16, statistics.
//! Statistics can be wrong, so their result is only `sure` if nothing contradicts it. A few control characters,
//! including NUL, do not make a text binary; a larger share does.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{DecoderResult, Encoding, GB18030, GBK, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charset {
    /// Encoding of the text.
    pub encoding: &'static Encoding,
    /// Length of the byte order mark, in bytes.
    pub bom: usize,
    /// True if non-ASCII text may be written in this encoding. If false, the encoding is a guess that only suffices
    /// for reading.
    pub sure: bool,
}

impl Charset {
    /// UTF-8 without a byte order mark, the encoding for new files.
    pub const UTF_8: Self = Self { encoding: UTF_8, bom: 0, sure: true };

    /// Returns true for UTF-16, with two or four bytes per character.
    #[must_use]
    pub fn is_utf16(self) -> bool {
        self.encoding == UTF_16LE || self.encoding == UTF_16BE
    }

    /// Returns the encoding's name, or `None` for UTF-8.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        (self.encoding != UTF_8).then(|| self.encoding.name())
    }

    /// Returns true if lines end with a lone `\r`, which is the case if the file has no `\n`.
    #[must_use]
    pub fn ends_lines_with_cr(self, bytes: &[u8]) -> bool {
        let body = &bytes[self.bom..];
        let has = |wanted: u8| {
            if self.is_utf16() {
                utf16_units(body, self.encoding).any(|unit| unit == u16::from(wanted))
            } else {
                body.contains(&wanted)
            }
        };
        has(b'\r') && !has(b'\n')
    }
}

/// Detects the encoding of text. `whole` is true if `bytes` are the whole file; otherwise they may end within a
/// character.
///
/// # Errors
/// Returns the kind of the file if the file is not text.
pub fn detect(bytes: &[u8], whole: bool) -> Result<Charset, &'static str> {
    const BINARY: &str = "binary data";
    let mark = Encoding::for_bom(bytes).map(|(encoding, bom)| Charset { encoding, bom, sure: true });
    if let Some(charset) = mark.filter(|charset| charset.is_utf16()) {
        let pairs = bytes[charset.bom..].as_chunks::<2>().0;
        let zeros = pairs.iter().filter(|pair| **pair == [0, 0]).count();
        return if zeros > max_control_characters(pairs.len()) { Err(BINARY) } else { Ok(charset) };
    }
    if let Some((_, kind, _)) = magic(bytes).filter(|_| mark.is_none()) {
        return Err(kind);
    }
    let is_valid = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && !whole,
    };
    let has_nul = bytes.contains(&0);
    let is_control = |byte: &&u8| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    let is_noise =
        bytes.iter().filter(is_control).count() > max_control_characters(bytes.len()) || has_nul && has_gap(bytes);
    if has_nul
        && (is_noise || !is_valid)
        && let Some(charset) = utf16(bytes, whole)
    {
        return Ok(charset);
    }
    if is_noise {
        return Err(BINARY);
    }
    if let Some(charset) = mark {
        return Ok(charset);
    }
    if bytes.contains(&0x1b) && is_iso_2022_jp(bytes, whole) {
        return Ok(Charset { encoding: ISO_2022_JP, bom: 0, sure: false });
    }
    if is_valid || mostly_utf8(bytes) {
        return Ok(Charset::UTF_8);
    }
    let guess = by_statistics(bytes, whole);
    if has_nul && !guess.sure { Err(BINARY) } else { Ok(guess) }
}

/// Decodes a whole file into one text with `\n` line endings.
///
/// # Errors
/// Returns the kind of the file if the file is not text.
pub fn text(bytes: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    let charset = detect(bytes, true)?;
    let (text, _) = charset.encoding.decode_without_bom_handling(&bytes[charset.bom..]);
    Ok(if charset.ends_lines_with_cr(bytes) { text.replace('\r', "\n").into() } else { text })
}

/// Returns the number of control characters allowed in text of this length: one in twenty, but at least one unless the
/// text is tiny.
fn max_control_characters(length: usize) -> usize {
    const TINY: usize = 10;
    if length < TINY { 0 } else { (length / 20).max(1) }
}

/// Returns true for a run of zero bytes that only occurs in binary formats.
fn has_gap(bytes: &[u8]) -> bool {
    const GAP: usize = 16;
    bytes.split(|byte| *byte != 0).any(|run| run.len() >= GAP)
}

/// Returns true for UTF-8 with a few invalid bytes, which indicates UTF-8 text that was damaged later.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let (mut valid_count, mut invalid_count) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        valid_count += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        invalid_count += usize::from(!chunk.invalid().is_empty());
    }
    valid_count >= invalid_count * 4
}

/// Detects UTF-16 without a byte order mark: each ASCII character has a zero byte, and there are no characters that are
/// unusual in text.
fn utf16(bytes: &[u8], whole: bool) -> Option<Charset> {
    /// Minimum number of characters. Shorter text that is not all ASCII could be in any encoding.
    const MIN_CHARACTERS: usize = 8;
    if bytes.len() < 4 || (whole && !bytes.len().is_multiple_of(2)) {
        return None;
    }
    // A sample may end within a surrogate pair.
    let sample = &bytes[..bytes.len() - if whole { 0 } else { 2 + bytes.len() % 2 }];
    let ascii = |encoding: &'static Encoding| {
        let (mut ascii, mut all) = (0_usize, 0_usize);
        for unit in utf16_units(sample, encoding) {
            all += 1;
            match unit {
                0x20..=0x7e | 0x09 | 0x0a | 0x0c | 0x0d => ascii += 1,
                0..=0x1f | 0x7f..=0x9f | 0xe000..=0xf8ff | 0xfdd0..=0xfdef | 0xfffe | 0xffff => return 0,
                _ => {}
            }
        }
        let unpaired = char::decode_utf16(utf16_units(bytes, encoding)).filter(Result::is_err).count();
        let plausible = ascii == all || (all >= MIN_CHARACTERS && ascii * 20 >= all);
        if plausible && unpaired <= usize::from(!whole) { ascii } else { 0 }
    };
    let (little_endian, big_endian) = (ascii(UTF_16LE), ascii(UTF_16BE));
    let encoding = if little_endian >= big_endian { UTF_16LE } else { UTF_16BE };
    (little_endian != big_endian).then_some(Charset { encoding, bom: 0, sure: true })
}

fn is_iso_2022_jp(bytes: &[u8], whole: bool) -> bool {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, whole);
    detector.guess(None, Utf8Detection::Allow) == ISO_2022_JP
}

fn by_statistics(bytes: &[u8], whole: bool) -> Charset {
    /// Minimum number of characters for which statistics are reliable.
    const MIN_CHARACTERS: usize = 8;
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, whole);
    let mut encoding = detector.guess(None, Utf8Detection::Deny);
    let Some(text) = encoding.decode_without_bom_handling_and_without_replacement(bytes) else {
        return Charset { encoding, bom: 0, sure: false };
    };
    let foreign: Vec<char> = text.chars().filter(|character| !character.is_ascii()).take(MIN_CHARACTERS).collect();
    let is_unusual = |character: char| matches!(character, '\u{80}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fffd}');
    let clean = !text.chars().any(is_unusual);
    // Many western European texts contain only a few accented letters.
    let western = |character: &char| matches!(character, '\u{a0}'..='\u{ff}' | '\u{2013}'..='\u{2026}' | '€');
    let accents = || encoding == WINDOWS_1252 && foreign.len() > 1 && foreign.iter().all(western);
    // The country of origin is irrelevant if the detector returns the same result for every country.
    let agreed = || {
        let countries: [&[u8]; 4] = [b"cn", b"tw", b"jp", b"kr"];
        countries.into_iter().all(|country| detector.guess(Some(country), Utf8Detection::Deny) == encoding)
    };
    let sure = clean && (foreign.len() == MIN_CHARACTERS || accents() || agreed());
    if encoding == GBK && has_four_bytes(bytes) {
        encoding = GB18030;
    }
    Charset { encoding, bom: 0, sure }
}

/// Returns true if GBK text contains four-byte characters of GB18030, so that new text may contain them as well.
fn has_four_bytes(bytes: &[u8]) -> bool {
    let charset = Charset { encoding: GB18030, bom: 0, sure: false };
    let mut found = false;
    characters(bytes, charset, &mut |_, length| found |= length == 4);
    found
}

/// Returns the file extension for these bytes, or an empty string if it is unknown.
pub fn ending(bytes: &[u8]) -> &'static str {
    magic(bytes).map_or("", |(_, _, ending)| ending)
}

fn magic(bytes: &[u8]) -> Option<&'static (&'static [u8], &'static str, &'static str)> {
    MAGIC.iter().find(|(magic, _, _)| bytes.starts_with(magic))
}

/// Prefixes of well-known binary formats, their names, and their file extensions.
const MAGIC: [(&[u8], &str, &str); 13] = [
    (b"%PDF-", "a PDF document", "pdf"),
    (b"\x89PNG", "a PNG image", "png"),
    (b"\xff\xd8\xff", "a JPEG image", "jpg"),
    (b"GIF8", "a GIF image", "gif"),
    (b"RIFF", "an image, sound or video", ""),
    (b"PK\x03\x04", "a ZIP archive or an Office document", "zip"),
    (b"\xd0\xcf\x11\xe0", "an old Office document", ""),
    (b"\x1f\x8b", "a gzip archive", "gz"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z"),
    (b"\x7fELF", "a program", ""),
    (b"SQLite format 3\0", "an SQLite database", "db"),
    (b"\x00\x00\x01\x00", "an icon", "ico"),
    // MP3 without a leading ID3 tag. A tag would contain zero bytes. Text never starts like this in any encoding.
    (b"\xff\xfb", "an MP3 recording", "mp3"),
];

/// Iterates over UTF-16 code units. Ignores an odd byte at the end.
fn utf16_units(bytes: &[u8], encoding: &'static Encoding) -> impl Iterator<Item = u16> {
    let read = if encoding == UTF_16BE { u16::from_be_bytes } else { u16::from_le_bytes };
    bytes.as_chunks::<2>().0.iter().map(move |pair| read(*pair))
}

/// Decodes text after its byte order mark, and passes each piece to `piece` with its length in the file, in bytes.
/// Invalid bytes become U+FFFD with the number of invalid bytes. A piece is one character, with two exceptions: four
/// Big5 code points decode to two characters, and valid UTF-8 is passed in long pieces whose encoded and decoded
/// lengths are equal.
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

/// Decodes encodings with one to four bytes per character that contain ASCII unchanged. Passes one byte at a time to
/// the decoder, because this is the only way to determine which bytes form a character.
fn legacy(body: &[u8], encoding: &'static Encoding, piece: &mut dyn FnMut(&str, usize)) {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut at = 0;
    while at < body.len() {
        let ascii = body[at..].iter().take_while(|byte| byte.is_ascii()).count();
        // ASCII is valid UTF-8, so the encoded and decoded lengths of these pieces are equal.
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
