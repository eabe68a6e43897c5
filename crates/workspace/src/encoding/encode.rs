//! New text in the encoding of its file.

use encoding_rs::{EncoderResult, UTF_8, UTF_16BE, UTF_16LE};

use super::Charset;
use crate::{failure::Failure, path::ToolPath};

/// Reason why new text cannot be written into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritable {
    /// The encoding lacks a character.
    Missing {
        /// The first one.
        character: char,
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// The encoding is a guess.
    Unsure {
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// The encoding switches between alphabets, so that what a byte means depends on all before it.
    Switching {
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// The replaced part contains bytes that are no text, and the new text has their replacement character.
    Damaged,
    /// The first bytes of the new text would make one character with bytes before it that are no text.
    Joined,
}

impl Unwritable {
    /// The failure for the model.
    pub fn failure(self, path: &ToolPath) -> Failure {
        Failure::tool(match self {
            Self::Missing { character, encoding } => format!(
                "{path} is {encoding}, which has no {character:?} (U+{:04X}); nothing was changed: write it without \
                 this character, or convert the file to UTF-8 first (`iconv`)",
                u32::from(character)
            ),
            Self::Unsure { encoding } => format!(
                "it is not certain which encoding {path} has (perhaps {encoding}), so only ASCII text in it can be \
                 changed; nothing was changed: convert the file to UTF-8 first (`iconv`)"
            ),
            Self::Switching { encoding } => format!(
                "{path} is {encoding}, where an edit could change what follows it; nothing was changed: convert the \
                 file to UTF-8 first (`iconv`)"
            ),
            Self::Damaged => format!(
                "the replaced part of {path} has bytes that are no text (shown as U+FFFD) and would be lost; nothing \
                 was changed: replace smaller pieces beside them, or leave U+FFFD out of the new text to remove them"
            ),
            Self::Joined => format!(
                "the new text would run together with bytes before it in {path} that are no text; nothing was \
                 changed: choose a larger or another piece to replace"
            ),
        })
    }
}

/// `text` in this encoding, without a byte order mark.
pub fn encode(text: &str, charset: Charset) -> Result<Vec<u8>, Unwritable> {
    let encoding = charset.encoding;
    if encoding == UTF_8 {
        return Ok(text.as_bytes().to_vec());
    }
    if encoding == UTF_16LE {
        return Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    }
    if encoding == UTF_16BE {
        return Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    if !encoding.is_ascii_compatible() {
        return Err(Unwritable::Switching { encoding: encoding.name() });
    }
    if text.is_ascii() {
        return Ok(text.as_bytes().to_vec());
    }
    if !charset.sure {
        return Err(Unwritable::Unsure { encoding: encoding.name() });
    }
    let mut encoder = encoding.new_encoder();
    let mut encoded = Vec::with_capacity(text.len());
    let mut left = text;
    loop {
        let room = encoder.max_buffer_length_from_utf8_without_replacement(left.len()).unwrap_or(left.len() * 4);
        encoded.reserve(room);
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
