//! Scripts that are not written from left to right: Arabic and Hebrew, and vertical Chinese and Japanese. No side
//! effects.
//!
//! A page that reads from the right is mirrored, so that its columns, indents and lines are processed like those of any
//! other page. Words that run against the direction of the page come out reversed, and [`to_logical_order`] restores
//! their logical order.

use unicode_normalization::UnicodeNormalization as _;

use super::line::{GAP, Letter, is_mark, is_wide};

/// Maximum number of combining marks on a page that are assigned to letters.
const MAX_MARKS: usize = 20_000;

/// Returns true for letters of right-to-left scripts and their presentation forms.
pub(super) fn is_from_right(letter: char) -> bool {
    matches!(letter, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}') && !is_digit(letter)
}

/// Returns true for digits, which run from left to right in every script.
fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit() || matches!(letter, '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}' | '\u{66b}' | '\u{66c}')
}

/// Direction of the lines on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WritingDirection {
    /// Left to right, as in Latin.
    FromLeft,
    /// Right to left, as in Arabic. The layout is mirrored.
    FromRight,
    /// Vertical columns, the first column at the right. The layout turns the columns into lines.
    Downwards,
}

impl WritingDirection {
    /// Maps a point of the upright page to the layout.
    pub(super) const fn point(self, (x, y): (f32, f32)) -> (f32, f32) {
        match self {
            Self::FromLeft => (x, y),
            Self::FromRight => (-x, y),
            Self::Downwards => (-y, x),
        }
    }
}

/// Lays out the characters in reading direction.
pub(super) fn lay_out(mut letters: Vec<Letter>) -> (Vec<Letter>, WritingDirection) {
    if is_vertical(&letters) {
        // Columns from the right become lines from the top.
        for letter in &mut letters {
            let (top, middle) = (letter.base + letter.size * 0.85, (letter.left + letter.right) / 2.0);
            (letter.left, letter.right, letter.base) = (-top, letter.size - top, middle);
        }
        return (letters, WritingDirection::Downwards);
    }
    let from_right = letters.iter().filter(|letter| is_from_right(letter.letter)).count();
    if from_right == 0 {
        return (letters, WritingDirection::FromLeft);
    }
    let all = letters.iter().filter(|letter| letter.letter.is_alphabetic()).count();
    let is_mirrored = from_right * 3 > all;
    if is_mirrored {
        for letter in &mut letters {
            (letter.left, letter.right, letter.from_right) = (-letter.right, -letter.left, true);
        }
    }
    if !has_spaces(&letters) {
        let word_gap = word_gap(&letters);
        for letter in &mut letters {
            letter.word_gap = word_gap;
        }
    }
    place_marks(&mut letters);
    (letters, if is_mirrored { WritingDirection::FromRight } else { WritingDirection::FromLeft })
}

/// Returns true if the page stores spaces between right-to-left words. Expects the characters in drawing order. If
/// there are too few characters to decide, assumes that spaces are stored.
fn has_spaces(letters: &[Letter]) -> bool {
    const MIN_LETTERS: usize = 50;
    /// Average word length above which spaces are considered missing.
    const MAX_WORD_LENGTH: usize = 15;
    let count = letters.iter().filter(|letter| is_from_right(letter.letter)).count();
    let without_gaps: Vec<&Letter> = letters.iter().filter(|letter| letter.letter != GAP).collect();
    // A joiner may be drawn as a space that the next letter overlaps.
    let is_under = |space: &Letter, letter: &Letter| {
        space.right.min(letter.right) - space.left.max(letter.left) > 0.5 * (space.right - space.left)
    };
    let is_written = |three: &&[&Letter]| {
        let [before, space, after] = three else { return false };
        !space.is_visible()
            && (is_from_right(before.letter) || is_from_right(after.letter))
            && !is_under(space, before)
            && !is_under(space, after)
    };
    count < MIN_LETTERS || without_gaps.windows(3).filter(is_written).count() * MAX_WORD_LENGTH > count
}

/// Returns the minimum gap between right-to-left words, relative to the font size, or `None` if there are no gaps. The
/// minimum is derived from the median gap on the page, because justification stretches spaces and some fonts separate
/// the letters of a word. Expects the characters in drawing order.
fn word_gap(letters: &[Letter]) -> Option<f32> {
    const MAX_WORD_GAP: f32 = 0.65;
    // Smaller gaps are inside words, larger gaps between columns.
    const WORD_GAPS: std::ops::Range<f32> = 0.1..1.0;
    let gap = |pair: &[&Letter]| {
        let [one, other] = pair else { return None };
        let gap = (one.left.max(other.left) - one.right.min(other.right)) / one.size;
        let is_beside = (one.base - other.base).abs() < 0.1 * one.size;
        (is_beside && is_from_right(one.letter) && is_from_right(other.letter) && WORD_GAPS.contains(&gap))
            .then_some(gap)
    };
    let ink: Vec<&Letter> = letters.iter().filter(|letter| letter.is_visible() && !is_mark(letter.letter)).collect();
    let mut gaps: Vec<f32> = ink.windows(2).filter_map(gap).collect();
    gaps.sort_by(f32::total_cmp);
    gaps.get(gaps.len() / 2).map(|usual| usual * MAX_WORD_GAP)
}

/// Returns true if Chinese and Japanese characters are stacked vertically.
fn is_vertical(letters: &[Letter]) -> bool {
    let wide: Vec<&Letter> = letters.iter().filter(|letter| is_wide(letter.letter)).collect();
    if wide.len() < 20 || wide.len() * 2 < letters.iter().filter(|letter| letter.is_visible()).count() {
        return false;
    }
    // In horizontal text, most characters are followed by their right neighbour.
    let is_beside = |pair: &&[&Letter]| {
        let [one, other] = pair else { return false };
        (one.base - other.base).abs() < one.size * 0.2 && (other.left - one.right).abs() < one.size * 0.6
    };
    let beside = wide.windows(2).filter(is_beside).count();
    beside * 4 < wide.len()
}

/// Corrects the positions of letters from one glyph, because they are assigned from left to right in any script. Some
/// programs store letters in visual order, recognisable by an alef before the lam that it is joined with. Such letters
/// stay unchanged.
pub(super) fn restore_glyph_order(letters: &mut [Letter]) {
    let is_seen = matches!(letters, [one, other] if other.letter == '\u{644}' && one.letter != '\u{644}');
    if letters.len() < 2 || is_seen {
        return;
    }
    for stretch in letters.chunk_by_mut(|one, other| is_from_right(one.letter) == is_from_right(other.letter)) {
        if !stretch.iter().all(|letter| is_from_right(letter.letter)) {
            continue;
        }
        let edge =
            |of: fn(&Letter) -> f32, far: fn(f32, f32) -> f32| stretch.iter().map(of).reduce(far).unwrap_or_default();
        let both = edge(|letter| letter.left, f32::min) + edge(|letter| letter.right, f32::max);
        for letter in stretch {
            (letter.left, letter.right) = (both - letter.right, both - letter.left);
        }
    }
}

/// Moves combining marks, which are drawn above or below letters, onto the line and after their letter.
fn place_marks(letters: &mut [Letter]) {
    let marks: Vec<usize> =
        (0..letters.len()).filter(|at| letters.get(*at).is_some_and(|l| is_mark(l.letter))).collect();
    if marks.is_empty() || marks.len() > MAX_MARKS {
        return;
    }
    let bases: Vec<Letter> = letters.iter().filter(|l| l.is_visible() && !is_mark(l.letter)).copied().collect();
    for at in marks {
        let Some(mark) = letters.get_mut(at) else { continue };
        let middle = (mark.left + mark.right) / 2.0;
        let distance_to_mark = |base: &Letter| {
            let beside = (base.left - middle).max(middle - base.right).max(0.0);
            beside + 0.3 * (base.base - mark.base).abs()
        };
        let near = bases.iter().filter(|base| (base.base - mark.base).abs() < 1.5 * base.size);
        let Some(base) = near.min_by(|one, other| distance_to_mark(one).total_cmp(&distance_to_mark(other))) else {
            continue;
        };
        if distance_to_mark(base) > base.size {
            continue;
        }
        // Directly after its letter in reading order and as wide as the letter, so that no space is inserted.
        let is_against = is_from_right(base.letter) != mark.from_right;
        let left = if is_against { base.left - 0.01 } else { base.left + 0.01 };
        (mark.left, mark.right, mark.base, mark.size) = (left, base.right, base.base, base.size);
    }
}

/// Converts ligatures of Latin letters, and presentation forms, to ordinary letters in layout order. Returns `None` for
/// other characters.
pub(super) fn base_letters(letter: char, from_right: bool) -> Option<String> {
    let is_latin = matches!(letter, '\u{fb00}'..='\u{fb06}');
    if !is_latin && !matches!(letter, '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}') {
        return None;
    }
    let letters: Vec<char> = std::iter::once(letter).nfkc().collect();
    Some(if from_right || is_latin { letters.into_iter().collect() } else { letters.into_iter().rev().collect() })
}

/// Converts a piece of a line to logical order. The input is in layout order, which starts at the right if
/// `from_right`.
pub(super) fn to_logical_order(text: String, from_right: bool) -> String {
    let strong = |is_one: fn(char) -> bool| text.chars().filter(|letter| is_one(*letter)).count();
    let (right, left) = (strong(is_from_right), strong(is_from_left));
    if right == 0 && !from_right {
        return text;
    }
    let mut letters: Vec<char> = text.chars().collect();
    // The direction of the piece matters, not the direction of the page.
    let is_rtl_piece = if right == left { from_right } else { right > left };
    if is_rtl_piece != from_right {
        letters.reverse();
    }
    let mut start = 0;
    while start < letters.len() {
        let end = if is_rtl_piece { end_of_ltr_run(&letters, start) } else { end_of_rtl_run(&letters, start) };
        if end > start {
            if let Some(run) = letters.get_mut(start..end) {
                run.reverse();
            }
            start = end;
        } else {
            start += 1;
        }
    }
    if is_rtl_piece {
        mirror_brackets(&mut letters);
    }
    letters.into_iter().nfc().collect()
}

/// Returns true for letters of left-to-right scripts.
fn is_from_left(letter: char) -> bool {
    letter.is_alphabetic() && !is_from_right(letter)
}

/// Returns the end of a left-to-right run: words with everything between them, or one number.
fn end_of_ltr_run(letters: &[char], start: usize) -> usize {
    let (mut end, mut has_word) = (start, false);
    for (at, letter) in letters.iter().enumerate().skip(start) {
        let is_word = is_from_left(*letter);
        if is_word || is_digit(*letter) {
            // Two numbers separated by a space are two runs.
            let between = letters.get(end..at).unwrap_or_default();
            let is_close = between.iter().all(|letter| ".,:/-+%'$€£°".contains(*letter)) && between.len() < 2;
            if end > start && !is_close && !is_word && !has_word {
                return end;
            }
            has_word |= is_word;
            end = at + 1;
        } else if is_from_right(*letter) {
            return end;
        } else if end == start {
            return start;
        }
    }
    end
}

/// Returns the end of a right-to-left run with everything between the words.
fn end_of_rtl_run(letters: &[char], start: usize) -> usize {
    let mut end = start;
    for (at, letter) in letters.iter().enumerate().skip(start) {
        if is_from_right(*letter) {
            end = at + 1;
        } else if is_from_left(*letter) || end == start {
            return end;
        }
    }
    end
}

const BRACKETS: [char; 10] = ['(', ')', '[', ']', '{', '}', '<', '>', '«', '»'];

/// Mirrors brackets outside left-to-right runs, because these brackets are stored as they are displayed.
fn mirror_brackets(letters: &mut [char]) {
    let mut at = 0;
    while at < letters.len() {
        let end = end_of_ltr_run(letters, at);
        if end > at {
            at = end;
            continue;
        }
        if let Some(letter) = letters.get_mut(at) {
            // Counterparts are adjacent in the list.
            let other = BRACKETS.iter().position(|bracket| bracket == letter).and_then(|at| BRACKETS.get(at ^ 1));
            *letter = other.copied().unwrap_or(*letter);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_rtl_text_read_left_to_right() {
        assert_eq!(to_logical_order("سنة 4202 و 05.3".to_owned(), true), "سنة 2024 و 3.50");
        assert_eq!(to_logical_order("١٢".chars().rev().collect(), true), "١٢");
        assert_eq!(to_logical_order("4202 3202".to_owned(), true), "2024 2023");
        assert_eq!(to_logical_order(")أ(".to_owned(), true), "(أ)");
    }

    #[test]
    fn presentation_forms_map_to_typed_letters() {
        assert_eq!(base_letters('\u{fefb}', true).as_deref(), Some("لا"));
        assert_eq!(base_letters('\u{fe91}', false).as_deref(), Some("ب"));
        assert_eq!(base_letters('a', true), None);
    }
}
