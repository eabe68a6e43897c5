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
    /// Set if its place is counted leftwards, because the page is read from the right.
    pub(super) from_right: bool,
}

impl Letter {
    pub(super) fn of(char: &TextChar) -> Option<Self> {
        let letter = Self {
            letter: char.char,
            left: char.bbox.x,
            right: char.bbox.x + char.bbox.width.max(0.0),
            base: char.origin_y,
            size: char.font_size.abs(),
            is_bold: char.font_weight.is_bold(),
            is_mono: char.is_monospace,
            from_right: false,
        };
        let is_somewhere = [letter.left, letter.right, letter.base, letter.size].iter().all(|value| value.is_finite());
        (is_somewhere && !char.char.is_control() && char.char != '\u{fffd}').then_some(letter)
    }

    /// The same on a page that is larger by this factor.
    pub(super) fn larger(self, by: f32) -> Self {
        let Self { left, right, base, size, .. } = self;
        Self { left: left * by, right: right * by, base: base * by, size: size * by, ..self }
    }

    /// Returns whether it says something.
    pub(super) fn is_ink(&self) -> bool {
        !self.letter.is_whitespace()
    }
}

/// The letters of a page as the page is stored, whatever way they stand.
pub(super) fn chars(document: &PdfDocument, page: usize) -> pdf_oxide::Result<Vec<TextChar>> {
    if !replaces_letters(document, page) || document.get_page_rotation(page).unwrap_or(0) != 0 {
        return document.extract_chars_filtered(page, HashSet::new(), HashSet::new());
    }
    let spans = document.extract_spans(page)?;
    let is_from_right = |span: &TextSpan| span.text.chars().any(super::direction::is_from_right);
    // The library puts such letters into another order, which does not fit their places any longer.
    if spans.iter().any(is_from_right) {
        return document.extract_chars_filtered(page, HashSet::new(), HashSet::new());
    }
    Ok(spans.iter().filter(|span| span.sequence < OF_ANNOTATIONS).flat_map(in_order).collect())
}

/// Returns whether the page says of glyphs apart from them which letters they are, as those of browsers do. The library knows that
/// only of whole stretches, of whose letters the places are guessed.
fn replaces_letters(document: &PdfDocument, page: usize) -> bool {
    const REPLACED: &[u8] = b"ActualText";
    if !document.mark_info().is_ok_and(|info| info.marked) {
        return false;
    }
    let resources = document.get_page(page).ok().and_then(|page| {
        let resources = page.as_dict()?.get("Resources")?.clone();
        document.resolve_object(&resources).ok()
    });
    // Said there, and named on the page.
    let is_apart = resources.as_ref().and_then(|all| all.as_dict()).is_some_and(|all| all.contains_key("Properties"));
    let said = |content: Vec<u8>| content.windows(REPLACED.len()).any(|window| window == REPLACED);
    is_apart || document.get_page_content_data(page).is_ok_and(said)
}

/// From this number on the stretches are those of notes and fields, which are read apart from the page.
const OF_ANNOTATIONS: usize = 1_000_000;

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

/// Letters of scripts that are written without spaces, and their punctuation.
pub(super) fn is_wide(letter: char) -> bool {
    matches!(letter,
        '\u{2e80}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}
