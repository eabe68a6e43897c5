//! The letters of a page as they are seen, with their places.

use super::glyph::{Glyph, Place};

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
    /// From this gap on, as a part of their size, words from the right of its page end, where it has no spaces between them. Where it
    /// has, gaps say little: programs stretch letters instead of the spaces, and tell little of how wide they are then.
    pub(super) word_gap: Option<f32>,
}

impl Letter {
    /// The letter of a glyph whose line begins at this place once it is level.
    pub(super) const fn of(glyph: &Glyph, (left, base): Place) -> Self {
        Self {
            letter: glyph.letter,
            left,
            right: left + glyph.width,
            base,
            size: glyph.size,
            is_bold: glyph.is_bold,
            is_mono: glyph.is_mono,
            from_right: false,
            word_gap: None,
        }
    }

    /// Returns whether it says something.
    pub(super) fn is_ink(&self) -> bool {
        !self.letter.is_whitespace()
    }
}

/// Letters of scripts that are written without spaces, and their punctuation.
pub(super) fn is_wide(letter: char) -> bool {
    matches!(letter,
        '\u{2e80}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}
