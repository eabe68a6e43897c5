//! The letters of a page with their places, as the library finds them.

use std::collections::HashSet;

use pdf_oxide::{
    PdfDocument,
    layout::{TextChar, TextSpan},
};

/// A letter on a page. The y axis goes up, and lengths are points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Letter {
    pub(super) letter: char,
    pub(super) left: f32,
    pub(super) right: f32,
    /// Where it stands on.
    pub(super) base: f32,
    pub(super) size: f32,
    pub(super) is_bold: bool,
    /// Set if all letters of its font are as wide, as in listings.
    pub(super) is_mono: bool,
}

impl Letter {
    fn of(char: &TextChar) -> Option<Self> {
        let letter = Self {
            letter: char.char,
            left: char.bbox.x,
            right: char.bbox.x + char.bbox.width.max(0.0),
            base: char.origin_y,
            size: char.font_size.abs(),
            is_bold: char.font_weight.is_bold(),
            is_mono: char.is_monospace,
        };
        let is_somewhere = [letter.left, letter.right, letter.base, letter.size].iter().all(|value| value.is_finite());
        (is_somewhere && !char.char.is_control() && char.char != '\u{fffd}').then_some(letter)
    }

    /// Returns whether it says something.
    pub(super) fn is_ink(&self) -> bool {
        !self.letter.is_whitespace()
    }
}

/// The letters of a page that is read from left to right and from top to bottom; none where it has to be read in another way,
/// because it lies on its side or is written in another direction.
pub(super) fn letters(document: &PdfDocument, page: usize) -> pdf_oxide::Result<Option<Vec<Letter>>> {
    if document.get_page_rotation(page).unwrap_or(0).rem_euclid(360) != 0 {
        return Ok(None);
    }
    let chars = chars(document, page)?;
    let turned = chars.iter().filter(|char| char.rotation_degrees.abs() > 1.0).count();
    let from_right = chars.iter().filter(|char| is_from_right(char.char)).count();
    if turned * 10 > chars.len() || from_right * 20 > chars.len() {
        return Ok(None);
    }
    let letters: Vec<Letter> = chars.iter().filter_map(Letter::of).collect();
    Ok((!is_vertical(&letters)).then_some(letters))
}

/// Tagged documents, as browsers make them, say of some glyphs apart from them which letters they are; the library knows that only
/// of whole stretches, which cost more to find.
fn chars(document: &PdfDocument, page: usize) -> pdf_oxide::Result<Vec<TextChar>> {
    if !document.mark_info().is_ok_and(|info| info.marked) {
        return document.extract_chars_filtered(page, HashSet::new(), HashSet::new());
    }
    let spans = document.extract_spans(page)?;
    Ok(spans.iter().flat_map(in_order).collect())
}

/// The letters of a stretch. Where those of one glyph stand is guessed, so they are only kept from changing places.
fn in_order(span: &TextSpan) -> Vec<TextChar> {
    let mut chars = span.to_chars();
    let mut at = f32::NEG_INFINITY;
    for char in &mut chars {
        char.bbox.x = char.bbox.x.max(at);
        at = char.bbox.x + 0.01;
    }
    chars
}

/// Hebrew, Arabic, and their forms for printing.
fn is_from_right(letter: char) -> bool {
    matches!(letter, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}')
}

/// Returns whether Chinese and Japanese letters stand below each other instead of beside each other.
fn is_vertical(letters: &[Letter]) -> bool {
    let wide: Vec<&Letter> = letters.iter().filter(|letter| is_wide(letter.letter)).collect();
    if wide.len() < 20 || wide.len() * 2 < letters.iter().filter(|letter| letter.is_ink()).count() {
        return false;
    }
    // Where lines are read, they come in the order of lines: most letters have their neighbour next to them.
    let is_beside = |pair: &&[&Letter]| {
        let [one, other] = pair else { return false };
        (one.base - other.base).abs() < one.size * 0.2 && (other.left - one.right).abs() < one.size * 0.6
    };
    let beside = wide.windows(2).filter(is_beside).count();
    beside * 4 < wide.len()
}

/// Letters of scripts that are written without spaces, and their punctuation.
pub(super) fn is_wide(letter: char) -> bool {
    matches!(letter,
        '\u{2e80}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}
