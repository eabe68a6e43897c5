//! Compatibility forms as plain ones (NFKC), with the way back to the text as it was.

use std::{borrow::Cow, iter, ops::Range};

use unicode_normalization::{IsNormalized, UnicodeNormalization as _, char::canonical_combining_class, is_nfkc_quick};

/// A text in normal form.
#[derive(Debug)]
pub struct Normal<'a> {
    text: Cow<'a, str>,
    /// Where stretches begin, in order. Empty where the text was in normal form already.
    stretches: Vec<Stretch>,
    /// Bytes of the text as it was.
    original: usize,
}

/// A stretch of text that either did not change, or changed as one.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    /// Its first byte now.
    now: usize,
    /// Its first byte before.
    before: usize,
    /// Set if each byte is where it was, counted from the first one.
    same: bool,
}

impl<'a> Normal<'a> {
    /// Brings a text into normal form.
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
            // Most of a text is, and bringing it into normal form would take the most of the time.
            let same = if is_normal {
                now.push(first);
                true
            } else {
                now.extend(piece.nfkc());
                now.get(start..) == Some(piece)
            };
            if !(same && stretches.last().is_some_and(|last| last.same)) {
                stretches.push(Stretch { now: start, before, same });
            }
        }
        Self { text: Cow::Owned(now), stretches, original: text.len() }
    }

    /// The text in normal form.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Which bytes of the text as it was these bytes come from. What changed as one is one.
    pub fn origin(&self, range: Range<usize>) -> Range<usize> {
        if self.stretches.is_empty() {
            return range;
        }
        let start = self.at(range.start, |stretch, _| stretch.before);
        let end = match range.end.checked_sub(1).filter(|last| *last >= range.start) {
            // The end of what the last byte belongs to.
            Some(last) => self.at(last, |stretch, next| if stretch.same { usize::MAX } else { next }),
            None => start,
        };
        start..end.max(start)
    }

    /// Where a byte was. For one that is not where it was, `changed` tells it from its stretch and the start of the next one.
    fn at(&self, byte: usize, changed: impl Fn(Stretch, usize) -> usize) -> usize {
        let index = self.stretches.partition_point(|stretch| stretch.now <= byte).saturating_sub(1);
        let Some(stretch) = self.stretches.get(index).copied() else { return byte };
        let next = self.stretches.get(index + 1).map_or(self.original, |next| next.before);
        let told = changed(stretch, next);
        match (stretch.same, told) {
            (true, usize::MAX) => stretch.before + (byte - stretch.now) + 1,
            (true, _) => stretch.before + (byte - stretch.now),
            (false, told) => told,
        }
    }
}

/// Returns whether a letter belongs to the one before it, so that both are brought into normal form together.
fn joins(letter: char) -> bool {
    let code = u32::from(letter);
    if code < 0x300 {
        return false;
    }
    // Marks; voiced marks of kana, of full and of half width; vowels and finals of hangul, of full and of half width.
    canonical_combining_class(letter) != 0
        || matches!(code, 0x3099..=0x309C | 0xFF9E..=0xFF9F | 0x1160..=0x11FF | 0xFFA0..=0xFFDC | 0xD7B0..=0xD7FF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, word: &str, origin: &str) {
        let normal = Normal::new(text);
        let start = normal.text().find(word).unwrap_or_else(|| panic!("{word} in {:?}", normal.text()));
        assert_eq!(&text[normal.origin(start..start + word.len())], origin, "{text}");
    }

    #[test]
    fn every_piece_knows_where_it_came_from() {
        check("plain text", "text", "text");
        check("中文，ＡＢＣ测试", "ABC", "ＡＢＣ");
        check("中文，ＡＢＣ测试", "测试", "测试");
        check("eﬃcient work", "efficient", "eﬃcient");
        check("eﬃcient work", "work", "work");
        check("ｶﾞｷﾞ x", "ガギ", "ｶﾞｷﾞ");
        check("cafe\u{301} bar", "café", "cafe\u{301}");
        check("１２㎏", "12kg", "１２㎏");
        check("\u{1112}\u{1161}\u{11ab}글", "한글", "\u{1112}\u{1161}\u{11ab}글");
    }

    proptest! {
        #[test]
        fn it_is_the_normal_form_and_ranges_stay_within(text in "\\PC{0,40}", from in 0usize..60, len in 0usize..60) {
            let normal = Normal::new(&text);
            let whole = normal.text();
            let start = whole.floor_char_boundary(from.min(whole.len()));
            let end = whole.ceil_char_boundary((from + len).min(whole.len())).max(start);
            let origin = normal.origin(start..end);
            prop_assert!(origin.start <= origin.end);
            prop_assert!(text.get(origin).is_some());
        }
    }
}
