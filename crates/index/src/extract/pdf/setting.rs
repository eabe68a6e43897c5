//! The operators that set text: PDF 32000-1, section 9.

use std::rc::Rc;

use hayro_font::kurbo::{Affine, Point};
use hayro_syntax::{
    content::ops::TypedInstruction,
    object::{Array, Number, Object},
};

use super::{
    font::Face,
    letter::{GAP, Glyph, place},
};

/// The way in which text is set.
#[derive(Clone)]
pub(super) struct Setting<'a> {
    pub(super) face: Option<Rc<Face<'a>>>,
    size: f32,
    letter_gap: f32,
    word_gap: f32,
    stretch: f32,
    leading: f32,
    rise: f32,
    is_outlined: bool,
    is_hidden: bool,
}

impl Default for Setting<'_> {
    fn default() -> Self {
        Self {
            face: None,
            size: 0.0,
            letter_gap: 0.0,
            word_gap: 0.0,
            stretch: 1.0,
            leading: 0.0,
            rise: 0.0,
            is_outlined: false,
            is_hidden: false,
        }
    }
}

/// Places of the next letter, and of the beginning of its line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    text: Affine,
    line: Affine,
}

impl Cursor {
    fn put(&mut self, place: Affine) {
        (self.text, self.line) = (place, place);
    }

    fn next_line(&mut self, right: f64, up: f64) {
        self.put(self.line * Affine::translate((right, up)));
    }
}

impl Setting<'_> {
    /// Follows an operator of text, and adds what it shows to the glyphs if they are seen.
    pub(super) fn follow(
        &mut self,
        step: &TypedInstruction<'_, '_>,
        page: Affine,
        cursor: &mut Cursor,
        glyphs: Option<&mut Vec<Glyph>>,
    ) {
        match step {
            TypedInstruction::BeginText(_) => cursor.put(Affine::IDENTITY),
            TypedInstruction::TextFont(font) => self.size = font.1.as_f32(),
            TypedInstruction::CharacterSpacing(gap) => self.letter_gap = gap.0.as_f32(),
            TypedInstruction::WordSpacing(gap) => self.word_gap = gap.0.as_f32(),
            TypedInstruction::HorizontalScaling(part) => self.stretch = part.0.as_f32() / 100.0,
            TypedInstruction::TextLeading(leading) => self.leading = leading.0.as_f32(),
            TypedInstruction::TextRise(rise) => self.rise = rise.0.as_f32(),
            TypedInstruction::TextRenderingMode(mode) => {
                (self.is_outlined, self.is_hidden) =
                    (matches!(mode.0.as_i64(), 2 | 6), matches!(mode.0.as_i64(), 3 | 7));
            }
            TypedInstruction::SetTextMatrix(m) => cursor.put(affine([m.0, m.1, m.2, m.3, m.4, m.5])),
            TypedInstruction::NextLine(by) => cursor.next_line(by.0.as_f64(), by.1.as_f64()),
            TypedInstruction::NextLineAndSetLeading(by) => {
                self.leading = -by.1.as_f32();
                cursor.next_line(by.0.as_f64(), by.1.as_f64());
            }
            TypedInstruction::NextLineUsingLeading(_) => self.next_line(cursor),
            TypedInstruction::ShowText(text) => self.line_of(page, cursor, glyphs).show(text.0.as_bytes()),
            TypedInstruction::NextLineAndShowText(text) => {
                self.next_line(cursor);
                self.line_of(page, cursor, glyphs).show(text.0.as_bytes());
            }
            TypedInstruction::ShowTextWithParameters(text) => {
                (self.word_gap, self.letter_gap) = (text.0.as_f32(), text.1.as_f32());
                self.next_line(cursor);
                self.line_of(page, cursor, glyphs).show(text.2.as_bytes());
            }
            TypedInstruction::ShowTexts(texts) => self.line_of(page, cursor, glyphs).show_all(texts.0),
            _ => {}
        }
    }

    fn next_line(&self, cursor: &mut Cursor) {
        cursor.next_line(0.0, -f64::from(self.leading));
    }

    fn line_of<'l>(&'l self, page: Affine, cursor: &'l mut Cursor, glyphs: Option<&'l mut Vec<Glyph>>) -> Line<'l> {
        Line { setting: self, page, cursor, glyphs }
    }
}

/// A line of text that is shown.
struct Line<'l> {
    setting: &'l Setting<'l>,
    page: Affine,
    cursor: &'l mut Cursor,
    glyphs: Option<&'l mut Vec<Glyph>>,
}

impl Line<'_> {
    /// Shows strings with gaps between them, which are told in thousandths of the size.
    fn show_all(&mut self, texts: &Array<'_>) {
        for part in texts.iter::<Object<'_>>() {
            match part {
                Object::String(text) => self.show(text.as_bytes()),
                Object::Number(back) => {
                    let before = self.cursor.text;
                    self.go_on(-back.as_f32() / 1000.0 * self.setting.size);
                    self.space(-back.as_f32(), before);
                }
                _ => {}
            }
        }
    }

    /// Notes a gap of this many thousandths of the size, which begins at a place, if it is one between words: some programs write no
    /// other spaces. It is as wide as the gap, so that it stands between the same letters whichever way the line is read.
    #[expect(clippy::cast_possible_truncation, reason = "points on a page")]
    fn space(&mut self, gap: f32, before: Affine) {
        const BETWEEN_WORDS: f32 = 200.0;
        let (true, Some(face), Some(glyphs)) = (gap > BETWEEN_WORDS, &self.setting.face, self.glyphs.as_deref_mut())
        else {
            return;
        };
        let glyph = self.setting.glyph(face, 0, self.page * before);
        let end = self.page * self.cursor.text * Point::ORIGIN;
        let width = if face.is_vertical { 0.0 } else { (self.page * before * Point::ORIGIN).distance(end) as f32 };
        glyphs.push(Glyph { letter: GAP, width, ..glyph });
        glyphs.pop_if(|glyph| !glyph.is_somewhere());
    }

    /// Goes on along the line.
    fn go_on(&mut self, by: f32) {
        let is_vertical = self.setting.face.as_ref().is_some_and(|face| face.is_vertical);
        let by = f64::from(by);
        let by = if is_vertical { (0.0, by) } else { (by * f64::from(self.setting.stretch), 0.0) };
        self.cursor.text *= Affine::translate(by);
    }

    fn show(&mut self, text: &[u8]) {
        let setting = self.setting;
        let Some(face) = &setting.face else { return };
        let mut at = 0;
        while let Some((code, length)) = face.code(text, at) {
            at += length;
            let advance = face.advance(code) * setting.size;
            if let (Some(glyphs), Some(text)) = (self.glyphs.as_deref_mut(), face.text(code)) {
                let glyph = setting.glyph(face, code, self.page * self.cursor.text);
                glyphs.extend(glyph.shared(&text).filter(Glyph::is_somewhere));
            }
            let is_space = length == 1 && code == 32;
            self.go_on(advance + setting.letter_gap + if is_space { setting.word_gap } else { 0.0 });
        }
    }
}

impl Setting<'_> {
    /// The glyph of a code that is set at this place, whatever its letters are.
    #[expect(clippy::cast_possible_truncation, reason = "points on a page")]
    fn glyph(&self, face: &Face<'_>, code: u32, whole: Affine) -> Glyph {
        let [a, b, c, d, ..] = whole.as_coeffs().map(|number| number as f32);
        let advance = face.advance(code) * self.size;
        // A size below nothing turns letters round, and widths below nothing set them backwards.
        let stretch = self.stretch * self.size.signum();
        let (along, width) = ((a * stretch, b * stretch), if face.is_vertical { self.size } else { advance }.abs());
        let back = if !face.is_vertical && advance < 0.0 && self.size > 0.0 { -width * stretch } else { 0.0 };
        let (right, up) = face.displacement(code);
        let (right, up) = (right * self.size * self.stretch + back, up * self.size + self.rise);
        Glyph {
            letter: ' ',
            start: place(whole * Point::new(f64::from(right), f64::from(up))),
            width: width * along.0.hypot(along.1),
            size: self.size.abs() * face.height * c.hypot(d),
            angle: along.1.atan2(along.0).to_degrees().rem_euclid(360.0),
            is_mirrored: (a * d - b * c) * self.stretch < 0.0,
            is_bold: face.is_bold || self.is_outlined,
            is_mono: face.is_mono,
            is_joined: false,
            is_hidden: self.is_hidden,
        }
    }
}

/// The transformation that six numbers tell.
pub(super) fn affine(numbers: [Number; 6]) -> Affine {
    Affine::new(numbers.map(|number| number.as_f64()))
}
