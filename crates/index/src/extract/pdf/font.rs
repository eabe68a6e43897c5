//! Fonts, which map codes to characters and widths, and the text operators: PDF 32000-1, section 9.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use hayro_cmap::{BfString, CMap, CMapName, CidFamily};
use hayro_font::{
    CMapResolverFn, Font, FontCache, FontGlyph, FontQuery, FontResolverFn, GlyphId,
    kurbo::{Affine, Point},
};
use hayro_syntax::{
    content::ops::TypedInstruction,
    object::{Array, Dict, Name, Number, Object, String as Bytes},
};

use super::line::{GAP, Glyph, place};

/// Number of glyph space units per unit of the font size.
const UNITS_PER_FONT_SIZE: f32 = 1000.0;
/// Width assumed for codes of an unreadable font, in glyph space units.
const USUAL_WIDTH: f32 = 500.0;

/// Fonts of a document, each read only once.
pub(super) struct Fonts<'a> {
    cache: FontCache<'a>,
    /// Faces by the address of their dictionary in the document's data.
    faces: RefCell<HashMap<*const u8, Rc<Face<'a>>>>,
    collections: RefCell<HashMap<Vec<u8>, Option<Rc<CMap>>>>,
    programs: FontResolverFn,
    encodings: CMapResolverFn,
}

impl<'a> Fonts<'a> {
    pub(super) fn new() -> Self {
        let programs: FontResolverFn = Arc::new(|query| match query {
            FontQuery::Standard(font) => Some(font.get_font_data()),
            FontQuery::Fallback(font) => Some(font.pick_standard_font().get_font_data()),
        });
        Self {
            cache: FontCache::new(),
            faces: RefCell::default(),
            collections: RefCell::default(),
            programs,
            encodings: Arc::new(hayro_cmap::load_embedded),
        }
    }

    /// Returns the font for a dictionary.
    pub(super) fn face(&self, dictionary: &Dict<'a>) -> Rc<Face<'a>> {
        let place = dictionary.data().as_ptr();
        if let Some(known) = self.faces.borrow().get(&place) {
            return known.clone();
        }
        let face = Rc::new(self.read(dictionary));
        self.faces.borrow_mut().insert(place, face.clone());
        face
    }

    fn read(&self, dictionary: &Dict<'a>) -> Face<'a> {
        let descendant = dictionary.get::<Array<'_>>("DescendantFonts").and_then(|all| all.iter::<Dict<'_>>().next());
        let descriptor_of = |font: &Dict<'a>| font.get::<Dict<'a>>("FontDescriptor");
        let descriptor = descriptor_of(dictionary).or_else(|| descriptor_of(descendant.as_ref()?)).unwrap_or_default();
        let name = dictionary.get::<Name<'_>>("BaseFont").map(|name| name.as_str().to_ascii_lowercase());
        let name = name.unwrap_or_default();
        // Flags as in PDF 32000-1, table 123.
        let flags = descriptor.get::<u32>("Flags").unwrap_or_default();
        let is_flagged = |flag: u32| flags & flag != 0;
        let is_called = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let weight = descriptor.get::<f32>("FontWeight").unwrap_or_default();
        let font = self.cache.font(dictionary, &self.programs, &self.encodings);
        Face {
            is_vertical: font.as_ref().is_some_and(|font| !font.is_horizontal()),
            is_bold: is_flagged(1 << 18) || is_called(&["bold", "black", "heavy", "demi"]) || weight >= 600.0,
            is_mono: is_flagged(1) || is_called(&["courier", "mono", "consolas", "cmtt"]) || is_monospaced(dictionary),
            is_simple: descendant.is_none(),
            height: drawn_height(dictionary),
            collection: descendant.and_then(|descendant| self.collection(dictionary, &descendant)),
            letters: RefCell::default(),
            font,
        }
    }

    /// Reads the character collection of a font, for codes that no table in the font maps to characters.
    fn collection(&self, font: &Dict<'_>, descendant: &Dict<'_>) -> Option<Collection> {
        let encoding = match font.get::<Object<'_>>("Encoding")? {
            Object::Name(name) => match name.as_ref() {
                b"Identity-H" => CMap::identity_h(),
                b"Identity-V" => CMap::identity_v(),
                name => CMap::parse(hayro_cmap::load_embedded(CMapName::from_bytes(name))?, hayro_cmap::load_embedded)?,
            },
            Object::Stream(stream) => CMap::parse(&stream.decoded_data().ok()?, hayro_cmap::load_embedded)?,
            _ => return None,
        };
        let system = descendant.get::<Dict<'_>>("CIDSystemInfo")?;
        let part = |key: &str| system.get::<Bytes<'_>>(key).map(|part| part.as_bytes().to_vec());
        let own = CidFamily::from_registry_ordering(&part("Registry")?, &part("Ordering")?);
        let named = encoding.metadata().character_collection.as_ref().map(|collection| &collection.family);
        let name = own.ucs2_cmap().or_else(|| named?.ucs2_cmap())?;
        let key = name.to_bytes().to_vec();
        let mut known = self.collections.borrow_mut();
        let letters = known.entry(key).or_insert_with(|| {
            let table = hayro_cmap::load_embedded(name)?;
            CMap::parse(table, hayro_cmap::load_embedded).map(Rc::new)
        });
        Some(Collection { encoding, letters: letters.clone()? })
    }
}

/// Maps from codes to glyphs, and from glyphs to characters.
struct Collection {
    encoding: CMap,
    letters: Rc<CMap>,
}

impl Collection {
    fn text(&self, code: u32) -> Option<BfString> {
        let found = |table: &CMap, code| (1..=4).find_map(|length| table.lookup_cid_code(code, length));
        let glyph = found(&self.encoding, code)?;
        let letter = || found(&self.letters, glyph).and_then(char::from_u32).map(BfString::Char);
        self.letters.lookup_bf_string(glyph).or_else(letter)
    }
}

/// Returns true if all characters have the same width. Full-width characters are ignored, as every Chinese font has
/// them.
fn is_monospaced(font: &Dict<'_>) -> bool {
    const MIN_WIDTHS: usize = 8;
    const FULL_WIDTH: f32 = 900.0;
    let Some(widths) = font.get::<Array<'_>>("Widths") else { return false };
    let widths: Vec<f32> = widths.iter::<f32>().filter(|width| *width > 0.0).collect();
    widths.len() >= MIN_WIDTHS && widths.iter().all(|width| *width < FULL_WIDTH && Some(width) == widths.first())
}

/// Returns the letter height of a Type 3 font relative to its font size. Old typesetting systems define such glyphs in
/// printer dots.
fn drawn_height(font: &Dict<'_>) -> f32 {
    let drawn = || {
        if font.get::<Name<'_>>("Subtype")?.as_ref() != b"Type3" {
            return None;
        }
        let [_, _, skew, up, ..] = font.get::<[f32; 6]>("FontMatrix")?;
        let up = up.hypot(skew);
        // With the usual scale, the font size is the letter size.
        if (up * UNITS_PER_FONT_SIZE - 1.0).abs() < 0.5 {
            return None;
        }
        let [_, bottom, _, top] = font.get::<[f32; 4]>("FontBBox")?;
        let height = (top - bottom).abs() * up;
        (height.is_finite() && height > 0.0).then_some(height)
    };
    drawn().unwrap_or(1.0)
}

/// Font prepared for reading text.
pub(super) struct Face<'a> {
    font: Option<Font<'a>>,
    pub(super) is_vertical: bool,
    pub(super) is_bold: bool,
    pub(super) is_mono: bool,
    is_simple: bool,
    /// Letter height relative to the font size.
    pub(super) height: f32,
    collection: Option<Collection>,
    letters: RefCell<HashMap<u32, Option<Rc<str>>>>,
}

impl Face<'_> {
    /// Reads the next code in a string and returns the code with its length in bytes.
    pub(super) fn code(&self, bytes: &[u8], at: usize) -> Option<(u32, usize)> {
        let byte = bytes.get(at)?;
        let (code, length) = self.font.as_ref().map_or((u32::from(*byte), 1), |font| font.read_code(bytes, at));
        Some((code, length.max(1)))
    }

    /// Returns the advance along the line, relative to the font size.
    pub(super) fn advance(&self, code: u32) -> f32 {
        let advance = self.font.as_ref().map(|font| font.code_advance(code));
        let advance = advance.map(|advance| if self.is_vertical { advance.y } else { advance.x } as f32);
        advance.unwrap_or(USUAL_WIDTH) / UNITS_PER_FONT_SIZE
    }

    /// Returns the characters for a code.
    pub(super) fn text(&self, code: u32) -> Option<Rc<str>> {
        self.letters.borrow_mut().entry(code).or_insert_with(|| self.read(code)).clone()
    }

    fn read(&self, code: u32) -> Option<Rc<str>> {
        let mapped = self.font.as_ref().and_then(|font| match font.glyph(GlyphId::NOTDEF, code) {
            FontGlyph::Outline(glyph) => glyph.as_unicode(),
            FontGlyph::Type3(glyph) => glyph.as_unicode(),
        });
        let has_text = |text: &BfString| match text {
            BfString::Char(letter) => !matches!(letter, '\0' | '\u{fffd}' | '\u{ffff}'),
            BfString::String(text) => !text.trim_matches('\0').is_empty(),
        };
        // Codes in a font without any mapping are mostly ASCII.
        let guess = || char::from_u32(code).filter(|letter| self.is_simple && !letter.is_control()).map(BfString::Char);
        let text = mapped.filter(has_text).or_else(|| self.collection.as_ref()?.text(code)).or_else(guess)?;
        Some(match text {
            BfString::Char(letter) => letter.encode_utf8(&mut [0; 4]).into(),
            BfString::String(text) => text.into(),
        })
    }
}

/// Text state of PDF.
#[derive(Clone, Default)]
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

/// Text matrix and text line matrix.
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
    pub(super) fn new() -> Self {
        Self { stretch: 1.0, ..Self::default() }
    }

    /// Handles a text operator. Adds the displayed characters to `glyphs`, if given.
    pub(super) fn interpret(
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

    /// Returns the glyph for a code at this position, without characters.
    fn glyph(&self, face: &Face<'_>, code: u32, whole: Affine) -> Glyph {
        let [a, b, c, d, ..] = whole.as_coeffs().map(|number| number as f32);
        let advance = face.advance(code) * self.size;
        // A negative size rotates glyphs, and negative widths draw them backwards.
        let stretch = self.stretch * self.size.signum();
        let (along, width) = ((a * stretch, b * stretch), if face.is_vertical { self.size } else { advance }.abs());
        let back = if !face.is_vertical && advance < 0.0 && self.size > 0.0 { -width * stretch } else { 0.0 };
        // Offset from the origin of the code to the start of its glyph.
        let shift = face.font.as_ref().map(|font| font.origin_displacement(code)).unwrap_or_default();
        let (right, up) =
            (shift.x as f32 / UNITS_PER_FONT_SIZE * self.size, shift.y as f32 / UNITS_PER_FONT_SIZE * self.size);
        let (right, up) = (right * self.stretch + back, up + self.rise);
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

/// Line of text that is being shown.
struct Line<'l> {
    setting: &'l Setting<'l>,
    page: Affine,
    cursor: &'l mut Cursor,
    glyphs: Option<&'l mut Vec<Glyph>>,
}

impl Line<'_> {
    /// Shows strings separated by gaps, in thousandths of the font size.
    fn show_all(&mut self, texts: &Array<'_>) {
        for part in texts.iter::<Object<'_>>() {
            match part {
                Object::String(text) => self.show(text.as_bytes()),
                Object::Number(back) => {
                    let before = self.cursor.text;
                    self.move_by(-back.as_f32() / 1000.0 * self.setting.size);
                    self.add_gap(-back.as_f32(), before);
                }
                _ => {}
            }
        }
    }

    /// Adds a [`GAP`] if the gap is wide enough to separate words, since some programs write no spaces. `gap` is in
    /// thousandths of the font size and starts at `before`. The added glyph is as wide as the gap, so that it is
    /// between the same characters in either reading direction.
    fn add_gap(&mut self, gap: f32, before: Affine) {
        const WORD_SPACE: f32 = 200.0;
        let (true, Some(face), Some(glyphs)) = (gap > WORD_SPACE, &self.setting.face, self.glyphs.as_deref_mut())
        else {
            return;
        };
        let glyph = self.setting.glyph(face, 0, self.page * before);
        let end = self.page * self.cursor.text * Point::ORIGIN;
        let width = if face.is_vertical { 0.0 } else { (self.page * before * Point::ORIGIN).distance(end) as f32 };
        glyphs.push(Glyph { letter: GAP, width, ..glyph });
        glyphs.pop_if(|glyph| !glyph.is_finite());
    }

    fn move_by(&mut self, by: f32) {
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
                glyphs.extend(glyph.split_glyph(&text).filter(Glyph::is_finite));
            }
            let is_space = length == 1 && code == 32;
            self.move_by(advance + setting.letter_gap + if is_space { setting.word_gap } else { 0.0 });
        }
    }
}

pub(super) fn affine(numbers: [Number; 6]) -> Affine {
    Affine::new(numbers.map(|number| number.as_f64()))
}
