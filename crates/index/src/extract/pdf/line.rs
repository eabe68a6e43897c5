//! Characters with their positions, as drawn and as laid out, and their grouping into pieces of lines. Also accents
//! printed separately from their letters, and string decoding. No side effects.

use hayro_font::kurbo::Point;
use unicode_normalization::char::{canonical_combining_class, compose};

use super::direction;

/// Maximum distance of a character from its line, relative to the font size, as for footnote marks and subscripts.
const MAX_BASELINE_OFFSET: f32 = 0.4;
/// Minimum gap between words, relative to the font size.
const WORD_GAP: f32 = 0.16;
/// Minimum gap at which a stored space counts, relative to the font size.
const SPACE_GAP: f32 = 0.01;
/// Like [`WORD_GAP`], between right-to-left letters on pages that store spaces.
const SPACED_GAP: f32 = 0.3;
/// Gap above which the next character may belong to another column, relative to the font size.
const GUTTER_GAP: f32 = 0.6;
/// Gap above which the next character is likely unrelated, such as in another cell, relative to the font size.
const WIDE_GAP: f32 = 1.2;

/// Part of a line without large gaps.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) left: f32,
    pub(super) right: f32,
    pub(super) base: f32,
    /// Most frequent character size in the piece.
    pub(super) size: f32,
    pub(super) is_bold: bool,
    pub(super) is_mono: bool,
    /// True if the text is a finished table.
    pub(super) is_table: bool,
}

impl Piece {
    /// Returns true if a wide gap separates this piece from the next piece in the same line.
    pub(super) fn is_far_from(&self, next: &Self) -> bool {
        next.left - self.right > WIDE_GAP * self.size.max(next.size)
    }

    /// Returns the amount of text. Characters of scripts without spaces count twice.
    pub(super) fn weight(&self) -> usize {
        self.text.chars().map(|letter| if is_wide(letter) { 2 } else { 1 }).sum()
    }
}

/// Lines from top to bottom, each from left to right.
pub(super) type Rows = Vec<Vec<Piece>>;

/// Groups the characters of a page into pieces.
pub(super) fn pieces(letters: Vec<Letter>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for row in rows_of_letters(letters) {
        split_row(row, &mut pieces);
    }
    pieces
}

/// Groups characters into lines from top to bottom.
fn rows_of_letters(mut letters: Vec<Letter>) -> Vec<Vec<Letter>> {
    letters.retain(|letter| letter.size > 0.0);
    letters.sort_by(|one, other| other.base.total_cmp(&one.base));
    let mut rows: Vec<(f32, f32, Vec<Letter>)> = Vec::new();
    for letter in letters {
        match rows.last_mut() {
            Some((base, size, row)) if *base - letter.base <= max_baseline_offset(*size, letter.size) => {
                // The largest characters determine the baseline.
                if letter.is_visible() && letter.size > *size {
                    (*base, *size) = (letter.base, letter.size);
                }
                row.push(letter);
            }
            _ => rows.push((letter.base, letter.size, vec![letter])),
        }
    }
    rows.into_iter().map(|(_, _, row)| row).collect()
}

/// Returns the maximum distance between a character and a line of a different size. Much smaller ones are separate.
fn max_baseline_offset(one: f32, other: f32) -> f32 {
    const MAX_SIZE_RATIO: f32 = 2.5;
    MAX_BASELINE_OFFSET * one.max(other).min(MAX_SIZE_RATIO * one.min(other))
}

/// Splits a line at large gaps.
fn split_row(mut row: Vec<Letter>, pieces: &mut Vec<Piece>) {
    row.sort_by(|one, other| one.left.total_cmp(&other.left));
    let mut open: Option<OpenPiece> = None;
    let (mut has_space, mut has_gap) = (false, false);
    for letter in with_merged_accents(row) {
        if !letter.is_visible() {
            has_gap |= letter.letter == GAP;
            has_space |= letter.letter != GAP;
            continue;
        }
        if let Some(current) = &mut open {
            if current.repeats_last(&letter) {
                continue;
            }
            let size = current.last.size.max(letter.size);
            let gap = letter.left - current.last.right;
            if gap <= GUTTER_GAP * size {
                let is_wide_pair = is_wide(current.last.letter) && is_wide(letter.letter);
                let is_joined =
                    direction::is_from_right(current.last.letter) && direction::is_from_right(letter.letter);
                let word_gap = if is_joined { letter.word_gap.unwrap_or(SPACED_GAP) } else { WORD_GAP };
                let is_gap = gap > word_gap * size;
                // Small gaps between Chinese characters have no meaning. Trailing spaces of a cell may overlap the
                // characters of the next cell.
                let is_free = gap > SPACE_GAP * size;
                let is_space = has_space && (is_free || is_joined);
                // On pages that store spaces, a gap inside a right-to-left word only stretches the word.
                let is_explicit_gap = has_gap && is_free && !(is_joined && letter.word_gap.is_none());
                let is_apart =
                    if is_wide_pair { (has_space || has_gap) && is_gap } else { is_space || is_explicit_gap || is_gap };
                current.push(letter, is_apart);
                (has_space, has_gap) = (false, false);
                continue;
            }
        }
        pieces.extend(open.take().map(OpenPiece::done));
        open = Some(OpenPiece::new(letter));
        (has_space, has_gap) = (false, false);
    }
    pieces.extend(open.map(OpenPiece::done));
}

/// Piece that is being built.
struct OpenPiece {
    piece: Piece,
    last: Letter,
    bold: usize,
    mono: usize,
    /// Character sizes, each with its number of characters.
    sizes: Vec<(f32, usize)>,
}

impl OpenPiece {
    fn new(letter: Letter) -> Self {
        let Letter { left, right, base, .. } = letter;
        let piece = Piece { left, right, base, ..Piece::default() };
        let mut open = Self { piece, last: letter, bold: 0, mono: 0, sizes: Vec::new() };
        open.push(letter, false);
        open
    }

    /// Returns true if the character repeats the last one. Some programs draw bold characters twice with a small
    /// offset.
    fn repeats_last(&self, letter: &Letter) -> bool {
        self.last.letter == letter.letter
            && (letter.left - self.last.left).abs() < 0.15 * letter.size
            && (letter.base - self.last.base).abs() < 0.15 * letter.size
            && letter.right - letter.left > 0.2 * letter.size
    }

    fn push(&mut self, letter: Letter, is_apart: bool) {
        let Piece { text, right, base, .. } = &mut self.piece;
        if is_apart {
            text.push(' ');
        }
        match direction::base_letters(letter.letter, letter.from_right) {
            Some(letters) => text.push_str(&letters),
            None => text.push(letter.letter),
        }
        *right = right.max(letter.right);
        self.bold += usize::from(letter.is_bold);
        self.mono += usize::from(letter.is_mono);
        match self.sizes.iter_mut().find(|(size, _)| (*size - letter.size).abs() < 0.1) {
            Some((_, count)) => *count += 1,
            None => self.sizes.push((letter.size, 1)),
        }
        // The larger of a character and its subscript or superscript determines the baseline.
        if letter.size > self.last.size {
            *base = letter.base;
        }
        self.last = letter;
    }

    fn done(self) -> Piece {
        let size = self.sizes.iter().max_by_key(|(_, count)| *count).map_or(self.last.size, |(size, _)| *size);
        let count: usize = self.sizes.iter().map(|(_, count)| count).sum();
        let text = direction::to_logical_order(self.piece.text, self.last.from_right);
        Piece { text, size, is_bold: self.bold * 2 > count, is_mono: self.mono * 2 > count, ..self.piece }
    }
}

/// Groups pieces into lines from top to bottom.
pub(super) fn rows(mut pieces: Vec<Piece>) -> Rows {
    pieces.sort_by(|one, other| other.base.total_cmp(&one.base));
    let mut rows: Rows = Vec::new();
    for piece in pieces {
        match rows.last_mut() {
            Some(row)
                if row.first().is_some_and(|first: &Piece| {
                    first.base - piece.base <= MAX_BASELINE_OFFSET * first.size.max(piece.size)
                        && !first.is_table
                        && !piece.is_table
                }) =>
            {
                row.push(piece);
            }
            _ => rows.push(vec![piece]),
        }
    }
    for row in &mut rows {
        row.sort_by(|one, other| one.left.total_cmp(&other.left));
    }
    rows
}

/// Merges accents with the letters above or below. Expects the characters of one line from left to right.
pub(super) fn with_merged_accents(row: Vec<Letter>) -> Vec<Letter> {
    if !row.iter().any(|letter| mark(letter.letter).is_some()) {
        return row;
    }
    let mut merged: Vec<Letter> = Vec::with_capacity(row.len());
    let mut row = row.into_iter().peekable();
    while let Some(letter) = row.next() {
        let Some(mark) = mark(letter.letter) else {
            merged.push(letter);
            continue;
        };
        if let Some(next) = row.peek_mut()
            && let Some(composed) = accented_letter(&letter, next, mark)
        {
            next.letter = composed;
        } else if let Some(last) = merged.last_mut()
            && let Some(composed) = accented_letter(&letter, last, mark)
        {
            last.letter = composed;
        } else {
            merged.push(letter);
        }
    }
    merged
}

/// Returns the accented letter if the accent overlaps the letter.
fn accented_letter(accent: &Letter, letter: &Letter, mark: char) -> Option<char> {
    let shared = accent.right.min(letter.right) - accent.left.max(letter.left);
    let width = (accent.right - accent.left).min(letter.right - letter.left);
    let base = match letter.letter {
        'ı' => 'i',
        'ȷ' => 'j',
        letter => letter,
    };
    (width > 0.0 && shared > 0.5 * width).then(|| compose(base, mark)).flatten()
}

/// Returns the combining mark for a stand-alone accent.
fn mark(accent: char) -> Option<char> {
    const ACCENTS: [char; 13] = ['`', '´', 'ˆ', '˜', '¯', '˘', '˙', '¨', '˚', '˝', 'ˇ', '¸', '˛'];
    const MARKS: [char; 13] = [
        '\u{300}', '\u{301}', '\u{302}', '\u{303}', '\u{304}', '\u{306}', '\u{307}', '\u{308}', '\u{30a}', '\u{30b}',
        '\u{30c}', '\u{327}', '\u{328}',
    ];
    ACCENTS.iter().position(|known| *known == accent).and_then(|at| MARKS.get(at)).copied()
}

/// Character in the layout of a page. The y axis points up; lengths are in points.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Letter {
    pub(super) letter: char,
    pub(super) left: f32,
    pub(super) right: f32,
    /// Y coordinate of the baseline.
    pub(super) base: f32,
    pub(super) size: f32,
    pub(super) is_bold: bool,
    /// True if the font is monospaced.
    pub(super) is_mono: bool,
    /// True if the x axis is mirrored, because the page reads from the right.
    pub(super) from_right: bool,
    /// Minimum gap between right-to-left words, relative to the font size, on a page without stored spaces. `None` on
    /// pages with stored spaces, where gaps are unreliable: programs stretch letters and report incorrect widths.
    pub(super) word_gap: Option<f32>,
}

impl Letter {
    /// Creates the character for a glyph that starts at this position in the layout.
    pub(super) fn of(glyph: &Glyph, (left, base): Place) -> Self {
        let Glyph { letter, width, size, is_bold, is_mono, .. } = *glyph;
        Self { letter, left, right: left + width, base, size, is_bold, is_mono, ..Self::default() }
    }

    /// Returns true if the character is visible.
    pub(super) fn is_visible(&self) -> bool {
        !self.letter.is_whitespace()
    }
}

/// Returns true for characters of scripts without spaces, and their punctuation.
pub(super) fn is_wide(letter: char) -> bool {
    matches!(letter,
        '\u{2e80}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe4f}' | '\u{ff00}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

/// Point on the stored page. The y axis points up; lengths are in points.
pub(super) type Place = (f32, f32);

/// Character that represents a gap between words without a stored space: a thin space.
pub(super) const GAP: char = '\u{2009}';

/// Returns true for a combining mark.
pub(super) fn is_mark(letter: char) -> bool {
    canonical_combining_class(letter) != 0
}

/// Character as drawn on the stored page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Glyph {
    pub(super) letter: char,
    /// Start point on the baseline.
    pub(super) start: Place,
    /// Length along the line.
    pub(super) width: f32,
    pub(super) size: f32,
    /// Counterclockwise rotation of the line in degrees, from 0 to 360.
    pub(super) angle: f32,
    /// True if the character is mirrored.
    pub(super) is_mirrored: bool,
    pub(super) is_bold: bool,
    pub(super) is_mono: bool,
    /// True if the character shares a glyph with the previous one.
    pub(super) is_joined: bool,
    /// True if the character is invisible, as in an OCR layer over or under an image.
    pub(super) is_hidden: bool,
}

impl Glyph {
    /// Distributes the characters of a text over the width of this glyph. Combining marks share the position of their
    /// letter.
    pub(super) fn split_glyph(self, text: &str) -> impl Iterator<Item = Self> {
        let letters: Vec<char> = text.chars().filter_map(normalised).collect();
        let width = self.width / letters.iter().filter(|letter| !is_mark(**letter)).count().max(1) as f32;
        let mut before = 0_usize;
        letters.into_iter().enumerate().map(move |(number, letter)| {
            before += usize::from(!is_mark(letter));
            let start = self.point_at(width * before.saturating_sub(1) as f32);
            Self { letter, start, width, is_joined: number > 0, ..self }
        })
    }

    /// Returns the point at a distance along the line.
    fn point_at(&self, by: f32) -> Place {
        let (sin, cos) = self.angle.to_radians().sin_cos();
        (self.start.0 + by * cos, self.start.1 + by * sin)
    }

    /// Returns true if all coordinates are finite.
    pub(super) fn is_finite(&self) -> bool {
        [self.start.0, self.start.1, self.width, self.size, self.angle].iter().all(|number| number.is_finite())
    }
}

/// Normalises spaces, and drops control and replacement characters.
fn normalised(letter: char) -> Option<char> {
    match letter {
        '\t' | '\n' | '\r' | '\u{a0}' | GAP => Some(' '),
        letter => (!letter.is_control() && letter != '\u{fffd}').then_some(letter),
    }
}

/// Distributes a replacement text over the glyphs that it replaces.
pub(super) fn replaced_glyphs(glyphs: &[Glyph], text: &str) -> Vec<Glyph> {
    let letters: Vec<char> = text.chars().filter_map(normalised).collect();
    let (count, places) = (letters.len(), glyphs.len());
    let share = |at: usize| letters.get((at * count).div_ceil(places)..((at + 1) * count).div_ceil(places));
    let texts = |(at, glyph): (usize, &Glyph)| {
        glyph.split_glyph(&share(at).unwrap_or_default().iter().collect::<String>()).collect::<Vec<_>>()
    };
    glyphs.iter().enumerate().flat_map(texts).collect()
}

pub(super) const fn place(point: Point) -> Place {
    (point.x as f32, point.y as f32)
}

/// Decodes a text string: UTF-16 or UTF-8 with a byte order mark, otherwise `PDFDocEncoding`.
pub(super) fn string(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0xef, 0xbb, 0xbf, ..] => {
            crate::extract::clean::decode(bytes, None).replace('\u{1b}', "")
        }
        // Some programs omit the mark, and other encodings are rarely valid UTF-8 by chance.
        bytes if !bytes.is_ascii() && std::str::from_utf8(bytes).is_ok() => String::from_utf8_lossy(bytes).into_owned(),
        bytes => bytes.iter().map(|byte| latin(*byte)).collect(),
    }
}

/// Decodes a byte of `PDFDocEncoding`, which extends Latin-1.
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
pub(super) mod tests {
    use super::*;

    /// Sets a text, starting at this position, with characters half as wide as they are high.
    pub(crate) fn set(text: &str, left: f32, base: f32, size: f32) -> Vec<Letter> {
        let mut at = left;
        text.chars()
            .map(|letter| {
                let width = if is_wide(letter) { size } else { size * 0.5 };
                at += width;
                Letter { letter, left: at - width, right: at, base, size, ..Letter::default() }
            })
            .collect()
    }

    fn check(letters: Vec<Letter>, expected: &[&str]) {
        let texts: Vec<String> = pieces(letters).into_iter().map(|piece| piece.text).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn letters_are_grouped_into_words_and_pieces() {
        check(set("one two", 0.0, 0.0, 10.0), &["one two"]);
        // Separated by a gap without a space.
        check([set("one", 0.0, 0.0, 10.0), set("two", 18.0, 0.0, 10.0)].concat(), &["one two"]);
        check([set("kern", 0.0, 0.0, 10.0), set("ed", 20.5, 0.0, 10.0)].concat(), &["kerned"]);
        check([set("left", 0.0, 0.0, 10.0), set("right", 60.0, 0.0, 10.0)].concat(), &["left", "right"]);
        check([set("below", 0.0, -14.0, 10.0), set("above", 0.0, 0.0, 10.0)].concat(), &["above", "below"]);
        // A footnote mark above the line, and a subscript below the line.
        check([set("word", 0.0, 0.0, 10.0), set("1", 20.0, 3.5, 7.0)].concat(), &["word1"]);
        check([set("x", 0.0, 0.0, 10.0), set("i", 5.0, -1.5, 7.0), set("y", 12.0, 0.0, 10.0)].concat(), &["xi y"]);
        check([set("fat", 0.0, 0.0, 10.0), set("fat", 0.3, 0.0, 10.0)].concat(), &["fat"]);
        check(set("oﬃce ﬂoor", 0.0, 0.0, 10.0), &["office floor"]);
        // Trailing spaces of the previous cell.
        check([set("      ", 1.0, 0.0, 10.0), set("3/2016", 0.0, 0.0, 10.0)].concat(), &["3/2016"]);
        // In Chinese text, only stored spaces count.
        check([set("港口", 0.0, 0.0, 10.0), set("管理", 23.0, 0.0, 10.0)].concat(), &["港口管理"]);
        check(set("港口 PDF 文件", 0.0, 0.0, 10.0), &["港口 PDF 文件"]);
        check(set("第一章 总则", 0.0, 0.0, 10.0), &["第一章 总则"]);
    }

    #[test]
    fn accents_join_the_letters_below_them() {
        let texts =
            |letters: Vec<Letter>| with_merged_accents(letters).iter().map(|letter| letter.letter).collect::<String>();
        assert_eq!(texts([set("´", -0.5, 0.0, 10.0), set("ı", 0.0, 0.0, 10.0)].concat()), "í");
        assert_eq!(texts([set("o", 0.0, 0.0, 10.0), set("¨", 0.5, 0.0, 10.0)].concat()), "ö");
        assert_eq!(texts(set("a´b", 0.0, 0.0, 10.0)), "a´b");
    }

    #[test]
    fn pdf_strings_decode_in_all_encodings() {
        assert_eq!(string(b"\xfe\xff\x5f\x20\x4f\x1f"), "张伟");
        assert_eq!(string(b"\xff\xfeM\0\xfc\0"), "Mü");
        assert_eq!(string(b"M\xfcller \xa0 12 \x80"), "Müller € 12 •");
        assert_eq!(string("Grüße".as_bytes()), "Grüße");
    }
}
