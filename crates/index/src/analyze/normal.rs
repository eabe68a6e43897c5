//! Compatibility normalisation (NFKC) with a mapping back to the original text, and runs in one script.

use std::{borrow::Cow, iter, ops::Range};

use unicode_normalization::{
    IsNormalized, UnicodeNormalization as _,
    char::{canonical_combining_class, is_combining_mark},
    is_nfkc_quick,
};

/// Text in normalised form.
#[derive(Debug)]
pub struct Normal<'a> {
    text: Cow<'a, str>,
    /// Stretches in order. Empty if the text was already normalised.
    stretches: Vec<Stretch>,
    /// Length of the original text in bytes.
    original: usize,
}

/// Stretch of text that is unchanged, or changed as a whole.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// Offset in the normalised text.
    now: usize,
    /// Offset in the original text.
    before: usize,
    /// True if the bytes of the stretch are unchanged.
    is_unchanged: bool,
}

impl<'a> Normal<'a> {
    /// Normalises a text to NFKC.
    pub fn new(text: &'a str) -> Self {
        if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
            return Self { text: Cow::Borrowed(text), stretches: Vec::new(), original: text.len() };
        }
        let mut now = String::with_capacity(text.len());
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut rest = text.char_indices().peekable();
        while let Some((before, first)) = rest.next() {
            let mut end = before + first.len_utf8();
            while let Some((at, letter)) = rest.next_if(|(_, letter)| joins(*letter)) {
                end = at + letter.len_utf8();
            }
            let piece = text.get(before..end).unwrap_or_default();
            let start = now.len();
            let is_normal = piece.len() == first.len_utf8() && is_nfkc_quick(iter::once(first)) == IsNormalized::Yes;
            // Most characters are already normalised, and normalising them would take most of the time.
            let is_unchanged = if is_normal {
                now.push(first);
                true
            } else {
                now.extend(piece.nfkc());
                now.get(start..) == Some(piece)
            };
            if !(is_unchanged && stretches.last().is_some_and(|last| last.is_unchanged)) {
                stretches.push(Stretch { now: start, before, is_unchanged });
            }
        }
        Self { text: Cow::Owned(now), stretches, original: text.len() }
    }

    /// Returns the normalised text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Maps a byte range to the original text. A changed stretch is mapped as a whole.
    pub fn origin(&self, range: Range<usize>) -> Range<usize> {
        if self.stretches.is_empty() {
            return range;
        }
        let start = match self.stretch(range.start) {
            Some((stretch, _)) if stretch.is_unchanged => stretch.before + (range.start - stretch.now),
            Some((stretch, _)) => stretch.before,
            None => range.start,
        };
        // End of the stretch that contains the last byte.
        let last = range.end.checked_sub(1).filter(|last| *last >= range.start);
        let end = last.map_or(start, |last| match self.stretch(last) {
            Some((stretch, _)) if stretch.is_unchanged => stretch.before + (last - stretch.now) + 1,
            Some((_, next)) => next,
            None => last,
        });
        start..end.max(start)
    }

    /// Returns the stretch that contains a byte, and the original offset of the next stretch.
    fn stretch(&self, byte: usize) -> Option<(Stretch, usize)> {
        let index = self.stretches.partition_point(|stretch| stretch.now <= byte).saturating_sub(1);
        let next = self.stretches.get(index + 1).map_or(self.original, |next| next.before);
        Some((*self.stretches.get(index)?, next))
    }
}

/// Returns true if the character must be normalised together with the preceding one.
fn joins(letter: char) -> bool {
    let code = u32::from(letter);
    if code < 0x300 {
        return false;
    }
    // Combining marks; voiced sound marks of kana, full and half width; vowels and final consonants of hangul, full and
    // half width.
    canonical_combining_class(letter) != 0
        || matches!(code, 0x3099..=0x309C | 0xFF9E..=0xFF9F | 0x1160..=0x11FF | 0xFFA0..=0xFFDC | 0xD7B0..=0xD7FF)
}

/// Run of consecutive word characters in one script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterRun {
    /// Script of the run.
    pub script: Script,
    /// Byte range of the run.
    pub range: Range<usize>,
}

/// Group of scripts, by how words are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Words separated by spaces: Latin, Greek, Cyrillic, digits, and everything not listed below.
    Spaced,
    /// Han characters, also in Japanese.
    Han,
    /// Japanese hiragana and katakana.
    Kana,
    /// Korean hangul syllables and letters.
    Hangul,
    /// Thai, Lao, Burmese and Khmer, with spaces only between sentences.
    SoutheastAsian,
}

impl Script {
    /// Returns true if the script does not mark word boundaries.
    pub const fn is_unspaced(self) -> bool {
        !matches!(self, Self::Spaced)
    }

    /// Returns the script of a character, or `None` if the character is not part of a word.
    pub fn of(letter: char) -> Option<Self> {
        match u32::from(letter) {
            0..0x80 => letter.is_ascii_alphanumeric().then_some(Self::Spaced),
            0x3005..=0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF => {
                Some(Self::Han)
            }
            0x3041..=0x309F | 0x30A1..=0x30FA | 0x30FC..=0x30FF | 0x31F0..=0x31FF => Some(Self::Kana),
            0x1100..=0x11FF | 0x3131..=0x318E | 0xA960..=0xA97F | 0xAC00..=0xD7FF => Some(Self::Hangul),
            0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0xA9E0..=0xA9FF | 0xAA60..=0xAA7F => {
                is_part_of_word(letter).then_some(Self::SoutheastAsian)
            }
            _ => is_part_of_word(letter).then_some(Self::Spaced),
        }
    }
}

fn is_part_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || is_combining_mark(letter)
}

/// Iterates over the runs of a text, in order.
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

/// Recognises a number with thousands separators, such as `1,234,567`, at the start of consecutive `runs`. Returns the
/// digits, the number of runs and the byte range. Points require at least three groups, because `1.234` is a fraction.
pub fn grouped_number(text: &str, runs: &[LetterRun]) -> Option<(String, usize, Range<usize>)> {
    let of = |run: &LetterRun| text.get(run.range.clone()).filter(|run| run.bytes().all(|byte| byte.is_ascii_digit()));
    let first = runs.first()?;
    let mut digits = of(first).filter(|digits| digits.len() <= 3 && !digits.starts_with('0'))?.to_owned();
    let mark = text.get(first.range.end..)?.chars().next().filter(|mark| [',', '.', '\'', '’'].contains(mark))?;
    let (mut end, mut count) = (first.range.end, 1);
    for run in &runs[1..] {
        let is_next = text.get(end..run.range.start).is_some_and(|gap| gap.chars().eq([mark]));
        let Some(group) = of(run).filter(|group| is_next && group.len() == 3) else { break };
        digits.push_str(group);
        (end, count) = (run.range.end, count + 1);
    }
    let min_groups = if mark == '.' { 3 } else { 2 };
    (count >= min_groups).then_some((digits, count, first.range.start..end))
}

/// Maximum number of digit groups that are examined.
pub const MAX_GROUPS: usize = 7;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn normal_form_ranges_map_into_the_original_text(text in "\\PC{0,40}", from in 0usize..60, len in 0usize..60) {
            let normal = Normal::new(&text);
            let whole = normal.text();
            let start = whole.floor_char_boundary(from.min(whole.len()));
            let end = whole.ceil_char_boundary((from + len).min(whole.len())).max(start);
            let origin = normal.origin(start..end);
            prop_assert!(origin.start <= origin.end);
            prop_assert!(text.get(origin).is_some());
        }
    }

    #[test]
    fn grouped_digits_are_one_number() {
        let of = |text: &str| {
            let runs: Vec<LetterRun> = runs(text).collect();
            grouped_number(text, &runs).map(|(digits, count, range)| (digits, count, text[range].to_owned()))
        };
        let parsed = |digits: &str, count, text: &str| Some((digits.to_owned(), count, text.to_owned()));
        assert_eq!(of("1,234,567.89"), parsed("1234567", 3, "1,234,567"));
        assert_eq!(of("12,345 pieces"), parsed("12345", 2, "12,345"));
        assert_eq!(of("1.234.567,89"), parsed("1234567", 3, "1.234.567"));
        assert_eq!(of("4’500"), parsed("4500", 2, "4’500"));
        for text in ["1.234", "1, 234", "1,23", "1234,567", "0,123", "a,123", "12", "1,234x"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
