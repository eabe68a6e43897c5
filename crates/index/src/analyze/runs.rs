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
    /// Thai, Lao, Burmese and Khmer, which have spaces between sentences only.
    SoutheastAsian,
}

impl Script {
    /// Returns whether a word cannot be told from the next one by looking.
    #[must_use]
    pub const fn is_unspaced(self) -> bool {
        !matches!(self, Self::Spaced)
    }

    /// The script of a letter; none where it is no letter.
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

/// A number that is written in groups of thousands, such as `1,234,567`: its digits, and the bytes from its first to its last. None
/// where these runs, which follow each other, are no such groups. Points make one only of three groups or more: `1.234` is a fraction.
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
    let least = if mark == '.' { 3 } else { 2 };
    (count >= least).then_some((digits, count, first.range.start..end))
}

/// Groups of a number that are looked at: more are no number.
pub const MOST_GROUPS: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_groups_of_thousands_are_one_number() {
        let of = |text: &str| {
            let runs: Vec<LetterRun> = runs(text).collect();
            grouped_number(text, &runs).map(|(digits, count, range)| (digits, count, text[range].to_owned()))
        };
        let told = |digits: &str, count, text: &str| Some((digits.to_owned(), count, text.to_owned()));
        assert_eq!(of("1,234,567.89"), told("1234567", 3, "1,234,567"));
        assert_eq!(of("12,345 pieces"), told("12345", 2, "12,345"));
        assert_eq!(of("1.234.567,89"), told("1234567", 3, "1.234.567"));
        assert_eq!(of("4’500"), told("4500", 2, "4’500"));
        for text in ["1.234", "1, 234", "1,23", "1234,567", "0,123", "a,123", "12", "1,234x"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
