//! Where words begin and end in a text in normal form.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

/// A stretch of letters without anything between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterRun {
    /// Its script.
    pub script: Script,
    /// Which bytes.
    pub range: Range<usize>,
}

/// Way in which letters make words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// With spaces between words: Latin, Greek, Cyrillic, numbers, and whatever is not below.
    Spaced,
    /// Chinese letters, also where Japanese uses them.
    Han,
    /// Hiragana and katakana.
    Kana,
    /// Korean.
    Hangul,
}

impl Script {
    /// Returns whether a word cannot be told from the next one by looking.
    #[must_use]
    pub const fn is_unspaced(self) -> bool {
        !matches!(self, Self::Spaced)
    }

    /// The script of a letter; none where it is no letter.
    #[must_use]
    pub fn of(letter: char) -> Option<Self> {
        match u32::from(letter) {
            0..0x80 => letter.is_ascii_alphanumeric().then_some(Self::Spaced),
            0x3005..=0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF => {
                Some(Self::Han)
            }
            0x3041..=0x309F | 0x30A1..=0x30FA | 0x30FC..=0x30FF | 0x31F0..=0x31FF => Some(Self::Kana),
            0x1100..=0x11FF | 0x3131..=0x318E | 0xA960..=0xA97F | 0xAC00..=0xD7FF => Some(Self::Hangul),
            _ => (letter.is_alphanumeric() || is_combining_mark(letter)).then_some(Self::Spaced),
        }
    }
}

/// The runs of a text, in order, each of one script.
pub fn runs(text: &str) -> impl Iterator<Item = LetterRun> + '_ {
    let mut letters = text.char_indices().map(|(at, letter)| (at, letter, Script::of(letter))).peekable();
    std::iter::from_fn(move || {
        loop {
            let (start, first, script) = letters.next()?;
            let Some(script) = script else { continue };
            let mut end = start + first.len_utf8();
            while let Some((at, letter, _)) = letters.next_if(|(_, _, next)| *next == Some(script)) {
                end = at + letter.len_utf8();
            }
            return Some(LetterRun { script, range: start..end });
        }
    })
}
