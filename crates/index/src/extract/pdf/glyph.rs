//! Letters as they are drawn on a page; pure.

use hayro_font::kurbo::Point;

use unicode_normalization::char::canonical_combining_class;

/// A point of the stored page. Its y axis goes up, and lengths are points.
pub(super) type Place = (f32, f32);

/// Letter that stands for a gap between words where no space is written: a thin space.
pub(super) const GAP: char = '\u{2009}';

/// Returns true for a combining mark, above or below another letter.
pub(super) fn is_mark(letter: char) -> bool {
    canonical_combining_class(letter) != 0
}

/// A letter as it is drawn on the stored page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Glyph {
    pub(super) letter: char,
    /// Point of its line at which it begins.
    pub(super) start: Place,
    /// Its length along the line.
    pub(super) width: f32,
    pub(super) size: f32,
    /// Degrees by which its line is turned counterclockwise, from 0 to 360.
    pub(super) angle: f32,
    /// Set if it is seen as in a mirror.
    pub(super) is_mirrored: bool,
    pub(super) is_bold: bool,
    pub(super) is_mono: bool,
    /// Set if the glyph of the letter before stands for this one, too.
    pub(super) is_joined: bool,
    /// Set if it can be found and not be seen: programs lay what they recognised under or over a picture.
    pub(super) is_hidden: bool,
}

impl Glyph {
    /// The letters of a text that this glyph stands for, side by side; marks stand where their letters do.
    #[expect(clippy::cast_precision_loss, reason = "letters of a glyph")]
    pub(super) fn shared(self, text: &str) -> impl Iterator<Item = Self> {
        let letters: Vec<char> = text.chars().filter_map(shown).collect();
        let width = self.width / letters.iter().filter(|letter| !is_mark(**letter)).count().max(1) as f32;
        let mut before = 0_usize;
        letters.into_iter().enumerate().map(move |(number, letter)| {
            before += usize::from(!is_mark(letter));
            let start = self.along(width * before.saturating_sub(1) as f32);
            Self { letter, start, width, is_joined: number > 0, ..self }
        })
    }

    /// A point of its line at a distance from its start.
    fn along(&self, by: f32) -> Place {
        let (sin, cos) = self.angle.to_radians().sin_cos();
        (self.start.0 + by * cos, self.start.1 + by * sin)
    }

    /// Returns whether it says something.
    pub(super) fn is_ink(&self) -> bool {
        !self.letter.is_whitespace()
    }

    /// Returns whether its place is a place.
    pub(super) fn is_somewhere(&self) -> bool {
        [self.start.0, self.start.1, self.width, self.size, self.angle].iter().all(|number| number.is_finite())
    }
}

/// The letter as it is told: spaces of all kinds are spaces, and what is not a letter is left out.
fn shown(letter: char) -> Option<char> {
    match letter {
        '\t' | '\n' | '\r' | '\u{a0}' | GAP => Some(' '),
        letter => (!letter.is_control() && letter != '\u{fffd}').then_some(letter),
    }
}

/// The letters of a text at the places of the glyphs that it stands for.
pub(super) fn instead(glyphs: &[Glyph], text: &str) -> Vec<Glyph> {
    let letters: Vec<char> = text.chars().filter_map(shown).collect();
    let (count, places) = (letters.len(), glyphs.len());
    let share = |at: usize| letters.get((at * count).div_ceil(places)..((at + 1) * count).div_ceil(places));
    let told = |(at, glyph): (usize, &Glyph)| {
        glyph.shared(&share(at).unwrap_or_default().iter().collect::<String>()).collect::<Vec<_>>()
    };
    glyphs.iter().enumerate().flat_map(told).collect()
}

/// The place of a point.
#[expect(clippy::cast_possible_truncation, reason = "points on a page")]
pub(super) const fn place(point: Point) -> Place {
    (point.x as f32, point.y as f32)
}
