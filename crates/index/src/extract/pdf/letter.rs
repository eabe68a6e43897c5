//! Letters as they are drawn on a page and as they are seen, with their places, and strings that are not drawn; pure.

use hayro_font::kurbo::Point;
use unicode_normalization::char::canonical_combining_class;

/// A letter on a page. The y axis goes up, and lengths are points.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
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
    pub(super) fn of(glyph: &Glyph, (left, base): Place) -> Self {
        Self {
            letter: glyph.letter,
            left,
            right: left + glyph.width,
            base,
            size: glyph.size,
            is_bold: glyph.is_bold,
            is_mono: glyph.is_mono,
            ..Self::default()
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

/// The text of a string: UTF-16 or UTF-8 where a mark says so, and otherwise the encoding of its own that the format has.
pub(super) fn string(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0xef, 0xbb, 0xbf, ..] => {
            crate::extract::clean::decode(bytes, None).replace('\u{1b}', "")
        }
        // Some programs forget the mark, and no other encoding is right by chance.
        bytes if !bytes.is_ascii() && std::str::from_utf8(bytes).is_ok() => String::from_utf8_lossy(bytes).into_owned(),
        bytes => bytes.iter().map(|byte| latin(*byte)).collect(),
    }
}

/// A letter of `PDFDocEncoding`, which is Latin-1 but for these.
fn latin(byte: u8) -> char {
    const LOW: [char; 8] = ['˘', 'ˇ', 'ˆ', '˙', '˝', '˛', '˚', '˜'];
    const HIGH: [char; 33] = [
        '•', '†', '‡', '…', '—', '–', 'ƒ', '⁄', '‹', '›', '−', '‰', '„', '“', '”', '‘', '’', '‚', '™', 'ﬁ', 'ﬂ', 'Ł',
        'Œ', 'Š', 'Ÿ', 'Ž', 'ı', 'ł', 'œ', 'š', 'ž', '\u{fffd}', '€',
    ];
    let of = |table: &[char], first: u8| table.get(usize::from(byte - first)).copied();
    let special = match byte {
        0x18..=0x1f => of(&LOW, 0x18),
        0x80..=0xa0 => of(&HIGH, 0x80),
        _ => None,
    };
    special.unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_in_all_their_encodings() {
        assert_eq!(string(b"\xfe\xff\x5f\x20\x4f\x1f"), "张伟");
        assert_eq!(string(b"\xff\xfeM\0\xfc\0"), "Mü");
        assert_eq!(string(b"M\xfcller \xa0 12 \x80"), "Müller € 12 •");
        assert_eq!(string("Grüße".as_bytes()), "Grüße");
    }
}
