//! Reads and edits text in the encoding of its file.
//!
//! - [`agentd_core::charset`]: detects the encoding, its certainty, or the kind of a file that is not text; maps
//!   characters to the bytes that they were decoded from.
//! - [`TextReader`]: a file of any size, decoded while it is read.
//! - [`Document`]: a decoded file with a map from text offsets to byte offsets. An edit encodes only its own text, so
//!   all other bytes are preserved, even those that could not be decoded.
//! - [`encode`]: encodes new text for a file, rejecting characters that the encoding lacks.

use std::{
    io::{self, Cursor, Read},
    ops::Range,
};

use agentd_core::charset::characters;
use encoding_rs::{EncoderResult, UTF_8, UTF_16BE, UTF_16LE};
use encoding_rs_io::DecodeReaderBytesBuilder;

use crate::{
    failure::{Failure, fail_if},
    path::ToolPath,
};

pub use agentd_core::charset::{Charset, detect, ending};

/// Decoded text file.
///
/// All lines of the text end with `\n`, regardless of the file, since models read and write `\n`. A lone `\r` ends a
/// line only in files without any `\n`.
#[derive(Debug, Clone)]
pub struct Document {
    bytes: Vec<u8>,
    charset: Charset,
    text: String,
    /// Starts of runs with the same lengths, in order.
    runs: Vec<EqualRun>,
    /// True if a lone `\r` ends a line.
    cr_ends: bool,
}

/// Run of consecutive characters with the same length, both in the text and in the bytes.
#[derive(Debug, Clone, Copy)]
struct EqualRun {
    text: usize,
    bytes: usize,
    text_step: usize,
    byte_step: usize,
}

/// Replacement for a range of text. Lines of the new text end with `\n`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit<'n> {
    /// Byte range in the text to replace.
    pub range: Range<usize>,
    /// Text that replaces the range.
    pub new: &'n str,
}

/// Result of editing a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisedText {
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// Decoded content of the edited file.
    pub text: String,
}

impl Document {
    /// Decodes a file. If the file is not text, returns its detected type as the error.
    pub fn read(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let charset = detect(&bytes, true)?;
        Ok(Self::decode(bytes, charset))
    }

    /// Decodes a file whose encoding is known.
    pub fn decode(bytes: Vec<u8>, charset: Charset) -> Self {
        let cr_ends = charset.ends_lines_with_cr(&bytes);
        Self::decode_as(bytes, charset, cr_ends)
    }

    fn decode_as(bytes: Vec<u8>, charset: Charset, cr_ends: bool) -> Self {
        let mut map = Map { text: String::new(), runs: Vec::new(), bytes: charset.bom, cr: None, cr_ends };
        characters(&bytes[charset.bom..], charset, &mut |piece, length| map.push(piece, length));
        if let Some(cr) = map.cr.take() {
            map.add("\r", cr);
        }
        let (text, runs) = (map.text, map.runs);
        Self { bytes, charset, text, runs, cr_ends }
    }

    /// Returns the decoded text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the encoding of the file.
    pub fn charset(&self) -> Charset {
        self.charset
    }

    /// Normalises the line ends in text from a model to those of this document's text.
    pub fn normal(&self, written: &str) -> String {
        let text = written.replace("\r\n", "\n");
        if self.cr_ends { text.replace('\r', "\n") } else { text }
    }

    /// Returns the line end that all lines share, or `None` if there are no lines or their line ends differ.
    pub fn line_end(&self) -> Option<&'static str> {
        let mut ends = self.text.match_indices('\n').map(|(at, _)| self.line_end_at(at));
        let first = ends.next()?;
        ends.all(|end| end == first).then_some(first)
    }

    /// Applies edits, which must be in order and must not overlap.
    pub fn revise(&self, edits: &[Edit<'_>]) -> Result<RevisedText, Unwritable> {
        let (mut bytes, mut text) = (Vec::with_capacity(self.bytes.len()), String::with_capacity(self.text.len()));
        let (mut from_byte, mut from_text) = (0, 0);
        for edit in edits {
            let Some(EditPlace { range, new, bytes: replaced }) = self.place(edit) else { continue };
            self.check(&range, new, &replaced)?;
            let encoded = encode(&self.with_line_ends(&range, new), self.charset)?;
            bytes.extend_from_slice(&self.bytes[from_byte..replaced.start]);
            bytes.extend_from_slice(&encoded);
            text.push_str(&self.text[from_text..range.start]);
            text.push_str(new);
            (from_byte, from_text) = (replaced.end, range.end);
        }
        bytes.extend_from_slice(&self.bytes[from_byte..]);
        text.push_str(&self.text[from_text..]);
        // New text can combine with adjacent invalid bytes into other characters.
        let reencoded = Self::decode_as(bytes, self.charset, self.cr_ends);
        fail_if(reencoded.text != text, || Unwritable::Joined)?;
        Ok(RevisedText { bytes: reencoded.bytes, text })
    }

    /// Returns the range that an edit changes, or `None` if nothing changes. The common prefix and suffix of the old
    /// and new text keep their bytes.
    fn place<'n>(&self, edit: &Edit<'n>) -> Option<EditPlace<'n>> {
        let Range { mut start, mut end } = edit.range;
        let (old, mut new) = (&self.text[start..end], edit.new);
        if old == new {
            return None;
        }
        let mut head: usize =
            old.chars().zip(new.chars()).take_while(|(old, new)| old == new).map(|(old, _)| old.len_utf8()).sum();
        while self.byte_at(start + head).is_none() {
            // Moves to the previous character boundary.
            head = old.floor_char_boundary(head.saturating_sub(1));
        }
        let (old, rest) = (&old[head..], &new[head..]);
        let from_end = old.chars().rev().zip(rest.chars().rev()).take_while(|(old, new)| old == new);
        let mut tail: usize = from_end.map(|(old, _)| old.len_utf8()).sum();
        while self.byte_at(end - tail).is_none() {
            tail = old.len() - old.ceil_char_boundary(old.len() - tail + 1);
        }
        start += head;
        end -= tail;
        new = &rest[..rest.len() - tail];
        let bytes = self.byte_at(start)?..self.byte_at(end)?;
        Some(EditPlace { range: start..end, new, bytes })
    }

    fn check(&self, range: &Range<usize>, new: &str, replaced: &Range<usize>) -> Result<(), Unwritable> {
        let old = &self.text[range.clone()];
        fail_if(old.contains('\u{fffd}') && new.contains('\u{fffd}'), || Unwritable::Damaged)?;
        let encoding = self.charset.encoding.name();
        let switches = !self.charset.encoding.is_ascii_compatible() && !self.charset.is_utf16();
        fail_if(switches, || Unwritable::Switching { encoding })?;
        // If the detected encoding is wrong, a byte after a non-ASCII byte may be the second half of a character.
        let in_character = replaced.start > 0 && !self.bytes[replaced.start - 1].is_ascii();
        let is_unsure = !self.charset.sure && (in_character || !old.is_ascii() || !new.is_ascii());
        fail_if(is_unsure, || Unwritable::Unsure { encoding })
    }

    /// Converts the line ends of new text to those of the replaced text, one by one. Additional lines get the last line
    /// end of the replaced text. If the replaced text has no line end, they get the next line end nearby, or else the
    /// previous one.
    fn with_line_ends(&self, range: &Range<usize>, new: &str) -> String {
        /// Search distance for a nearby line end, in bytes of text.
        const NEAR: usize = 64 * 1024;
        if !new.contains('\n') {
            return new.to_owned();
        }
        let ends_in = |text: &str, at: usize| {
            text.match_indices('\n').map(|(found, _)| self.line_end_at(at + found)).collect::<Vec<_>>()
        };
        let replaced = ends_in(&self.text[range.clone()], range.start);
        let near = || {
            let text = self.text.as_bytes();
            let is_end = |byte: &u8| *byte == b'\n';
            let next = text[range.end..].iter().take(NEAR).position(is_end).map(|found| range.end + found);
            let before = || text[..range.start].iter().rev().take(NEAR).position(is_end);
            let near = next.or_else(|| before().map(|found| range.start - 1 - found));
            near.map_or("\n", |at| self.line_end_at(at))
        };
        let surplus_end = replaced.last().copied().unwrap_or_else(near);
        let mut ends = replaced.into_iter();
        let mut written = String::with_capacity(new.len());
        let mut lines = new.split('\n');
        written.extend(lines.next());
        for line in lines {
            written.push_str(ends.next().unwrap_or(surplus_end));
            written.push_str(line);
        }
        written
    }

    /// Returns the line end in the file for the `\n` at this text offset.
    fn line_end_at(&self, at: usize) -> &'static str {
        let (Some(from), Some(to)) = (self.byte_at(at), self.byte_at(at + 1)) else { return "\n" };
        let unit = if self.charset.is_utf16() { 2 } else { 1 };
        match &self.bytes[from..to] {
            end if end.len() == 2 * unit => "\r\n",
            end if end.contains(&b'\r') => "\r",
            _ => "\n",
        }
    }

    /// Maps a text offset to a byte offset. Returns `None` if it is inside bytes that encode two characters together.
    fn byte_at(&self, at: usize) -> Option<usize> {
        let Some(run) = self.runs.partition_point(|run| run.text <= at).checked_sub(1).map(|index| self.runs[index])
        else {
            return Some(self.charset.bom);
        };
        let steps = (at - run.text).is_multiple_of(run.text_step).then(|| (at - run.text) / run.text_step)?;
        Some(run.bytes + steps * run.byte_step)
    }
}

/// Part of an edit that changes the file.
struct EditPlace<'n> {
    range: Range<usize>,
    new: &'n str,
    bytes: Range<usize>,
}

/// Builder of a document's text and its runs.
struct Map {
    text: String,
    runs: Vec<EqualRun>,
    bytes: usize,
    /// Length in bytes of a pending `\r`, which may be the first half of a line end.
    cr: Option<usize>,
    cr_ends: bool,
}

impl Map {
    fn push(&mut self, piece: &str, length: usize) {
        if piece.len() != length || piece.len() == 1 {
            return self.character(piece, length);
        }
        // Handles long pieces that have the same bytes in the text and in the file: only line ends are converted.
        let mut rest = piece;
        while !rest.is_empty() {
            let plain = if self.cr.is_some() { 0 } else { rest.find('\r').unwrap_or(rest.len()) };
            if plain > 0 {
                self.add(&rest[..plain], plain);
                rest = &rest[plain..];
            } else {
                let first = rest.chars().next().map_or(1, char::len_utf8);
                self.character(&rest[..first], first);
                rest = &rest[first..];
            }
        }
    }

    fn character(&mut self, piece: &str, length: usize) {
        if let Some(cr) = self.cr.take() {
            if piece == "\n" {
                return self.add("\n", cr + length);
            }
            self.add("\r", cr);
        }
        match piece {
            "\r" if self.cr_ends => self.add("\n", length),
            "\r" => self.cr = Some(length),
            _ => self.add(piece, length),
        }
    }

    fn add(&mut self, piece: &str, length: usize) {
        // Pieces of the same length in the text and in the file are mapped byte by byte.
        let (text_step, byte_step) = if piece.len() == length { (1, 1) } else { (piece.len(), length) };
        let grows = self.runs.last().is_some_and(|run| (run.text_step, run.byte_step) == (text_step, byte_step));
        if !grows {
            self.runs.push(EqualRun { text: self.text.len(), bytes: self.bytes, text_step, byte_step });
        }
        self.text.push_str(piece);
        self.bytes += length;
    }
}

/// Reason why new text cannot be written into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritable {
    /// The encoding lacks a character of the new text.
    Missing {
        /// First character that the encoding lacks.
        character: char,
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// The encoding was guessed with low confidence.
    Unsure {
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// The encoding switches between alphabets, so the meaning of a byte depends on all bytes before it.
    Switching {
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// The replaced part contains bytes that could not be decoded, and the new text contains their replacement
    /// character.
    Damaged,
    /// The first bytes of the new text would form one character with the undecodable bytes before them.
    Joined,
}

impl Unwritable {
    /// Returns the failure message for the model.
    pub fn failure(self, path: &ToolPath) -> Failure {
        Failure::tool(match self {
            Self::Missing { character, encoding } => format!(
                "{path} is {encoding}, which has no {character:?} (U+{:04X}); nothing was changed: omit this \
                 character, or convert the file to UTF-8 first (`iconv`)",
                u32::from(character)
            ),
            Self::Unsure { encoding } => format!(
                "the encoding of {path} is uncertain (perhaps {encoding}), so only ASCII text in it can be \
                 changed; nothing was changed: convert the file to UTF-8 first (`iconv`)"
            ),
            Self::Switching { encoding } => format!(
                "{path} is {encoding}, where an edit could alter the text after it; nothing was changed: convert the \
                 file to UTF-8 first (`iconv`)"
            ),
            Self::Damaged => format!(
                "the replaced part of {path} has invalid bytes (shown as U+FFFD) that would be lost; nothing \
                 was changed: replace smaller pieces around them, or omit U+FFFD from the new text to remove them"
            ),
            Self::Joined => format!(
                "the new text would merge with invalid bytes before it in {path}; nothing was \
                 changed: replace a larger or different piece"
            ),
        })
    }
}

/// Encodes `text` without a byte order mark.
pub fn encode(text: &str, charset: Charset) -> Result<Vec<u8>, Unwritable> {
    let encoding = charset.encoding;
    if encoding == UTF_8 || encoding.is_ascii_compatible() && text.is_ascii() {
        return Ok(text.as_bytes().to_vec());
    }
    if encoding == UTF_16LE {
        return Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    }
    if encoding == UTF_16BE {
        return Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    fail_if(!encoding.is_ascii_compatible(), || Unwritable::Switching { encoding: encoding.name() })?;
    fail_if(!charset.sure, || Unwritable::Unsure { encoding: encoding.name() })?;
    let mut encoder = encoding.new_encoder();
    let mut encoded = Vec::with_capacity(text.len());
    let mut left = text;
    loop {
        let capacity = encoder.max_buffer_length_from_utf8_without_replacement(left.len()).unwrap_or(left.len() * 4);
        encoded.reserve(capacity);
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(left, &mut encoded, true);
        left = &left[read..];
        match result {
            EncoderResult::InputEmpty => return Ok(encoded),
            EncoderResult::OutputFull => {}
            EncoderResult::Unmappable(character) => {
                return Err(Unwritable::Missing { character, encoding: encoding.name() });
            }
        }
    }
}

/// Size of the sample from which the type of a large file is detected, in bytes.
const SAMPLE: usize = 64 * 1024;

/// Minimum number of bytes before the first NUL that are accepted as the beginning of text.
const BEGINNING: usize = 64;

/// Text of a file as UTF-8. A lone `\r` is converted to `\n` if it ends lines.
pub struct TextReader<'a> {
    /// Encoding of the file.
    pub charset: Charset,
    /// True if only the beginning of the file was checked, so that the remainder may be binary.
    pub is_sampled: bool,
    cr_ends: bool,
    decoded: Box<dyn Read + 'a>,
}

impl<'a> TextReader<'a> {
    /// Opens the text of a file of about `size` bytes. Files of up to `limit` bytes are checked completely, so that
    /// reads, searches and edits agree on their type. `buffer` is scratch space. With `or_begins`, a file of which only
    /// the beginning is text is also opened.
    ///
    /// # Errors
    /// The inner error is the detected type of a file that is not text; the outer error is a failed read.
    pub fn open(
        mut content: impl Read + 'a,
        size: u64,
        limit: u64,
        or_begins: bool,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Result<Self, &'static str>> {
        let limit = if size <= limit { limit } else { SAMPLE as u64 };
        buffer.clear();
        buffer.reserve(usize::try_from(size.min(limit)).unwrap_or(SAMPLE) + 1);
        (&mut content).take(limit).read_to_end(buffer)?;
        let sample: &'a [u8] = buffer;
        let whole = (sample.len() as u64) < limit;
        // A file with a NUL far from the beginning, such as a log, is unsafe to edit but still readable.
        let (mut is_sampled, mut detected) = (!whole, detect(sample, whole));
        if detected.is_err() && sample.len() > SAMPLE {
            (is_sampled, detected) = (true, detect(&sample[..SAMPLE], false));
        }
        let beginning = sample.split(|byte| *byte == 0).next().unwrap_or_default();
        if or_begins && detected.is_err() && beginning.len() >= BEGINNING {
            (is_sampled, detected) = (true, detect(beginning, false).or(detected));
        }
        let charset = match detected {
            Ok(charset) => charset,
            Err(kind) => return Ok(Err(kind)),
        };
        let cr_ends = charset.ends_lines_with_cr(sample);
        let bytes = Cursor::new(&sample[charset.bom..]).chain(content);
        let decoded: Box<dyn Read + 'a> = if charset.encoding == UTF_8 && std::str::from_utf8(sample).is_ok() {
            Box::new(bytes)
        } else {
            Box::new(DecodeReaderBytesBuilder::new().encoding(Some(charset.encoding)).bom_sniffing(false).build(bytes))
        };
        Ok(Ok(Self { charset, is_sampled, cr_ends, decoded }))
    }
}

impl Read for TextReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.decoded.read(buffer)?;
        if self.cr_ends {
            buffer[..length].iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
        Ok(length)
    }
}
