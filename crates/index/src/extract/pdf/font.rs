//! The fonts of a document: which letters its codes stand for, how wide they are, and how they look.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use hayro_cmap::{BfString, CMap, CMapName, CidFamily};
use hayro_font::{CMapResolverFn, Font, FontCache, FontGlyph, FontQuery, FontResolverFn, GlyphId};
use hayro_syntax::object::{Array, Dict, Name, Object, String as Bytes};

/// Units in which a font tells its widths, to the size of its letters.
const UNITS: f32 = 1000.0;
/// Width of the codes of a font that cannot be read, in the same units.
const USUAL_WIDTH: f32 = 500.0;

/// The fonts of a document, each read once.
pub(super) struct Fonts<'a> {
    cache: FontCache<'a>,
    /// By where they are told in the document.
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

    /// The font that is told by this dictionary.
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
        let descriptor = [Some(dictionary), descendant.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|font| font.get::<Dict<'_>>("FontDescriptor"))
            .unwrap_or_default();
        let name = dictionary.get::<Name<'_>>("BaseFont").map(|name| name.as_str().to_ascii_lowercase());
        let look = Look { name: name.unwrap_or_default(), flags: descriptor.get::<u32>("Flags").unwrap_or_default() };
        let weight = descriptor.get::<f32>("FontWeight").unwrap_or_default();
        let font = self.cache.font(dictionary, &self.programs, &self.encodings);
        Face {
            is_vertical: font.as_ref().is_some_and(|font| !font.is_horizontal()),
            is_bold: look.is_bold() || weight >= 600.0,
            is_mono: look.is_mono() || has_one_width(dictionary),
            is_simple: descendant.is_none(),
            height: drawn_height(dictionary),
            collection: descendant.and_then(|descendant| self.collection(dictionary, &descendant)),
            letters: RefCell::default(),
            font,
        }
    }

    /// Letters of codes that no table of the font tells of: by the collection that its glyphs are taken from.
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

/// A table from codes to glyphs, and one from glyphs to letters.
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

/// Facts of a font by which its look is guessed.
struct Look {
    /// In small letters.
    name: String,
    /// As PDF 32000-1, table 123, has them.
    flags: u32,
}

impl Look {
    fn is_bold(&self) -> bool {
        const FORCED: u32 = 1 << 18;
        self.flags & FORCED != 0 || ["bold", "black", "heavy", "demi"].iter().any(|word| self.name.contains(word))
    }

    fn is_mono(&self) -> bool {
        const FIXED: u32 = 1;
        self.flags & FIXED != 0 || ["courier", "mono", "consolas", "cmtt"].iter().any(|word| self.name.contains(word))
    }
}

/// Returns whether all letters of a font are as wide. Those of Chinese are in every font.
fn has_one_width(font: &Dict<'_>) -> bool {
    const SOME: usize = 8;
    const WIDE: f32 = 900.0;
    let Some(widths) = font.get::<Array<'_>>("Widths") else { return false };
    let mut widths = widths.iter::<f32>().filter(|width| *width > 0.0);
    let Some(first) = widths.next() else { return false };
    let mut count = 1;
    #[expect(clippy::float_cmp, reason = "written the same way each time")]
    let is_same = widths.all(|width| {
        count += 1;
        width == first
    });
    is_same && count >= SOME && first < WIDE
}

/// Height of the letters of a font that is drawn glyph by glyph, to the size that is set. Those of old typesetting are told in the
/// dots of a printer.
fn drawn_height(font: &Dict<'_>) -> f32 {
    let drawn = || {
        if font.get::<Name<'_>>("Subtype")?.as_ref() != b"Type3" {
            return None;
        }
        let [_, _, skew, up, ..] = font.get::<[f32; 6]>("FontMatrix")?;
        let up = up.hypot(skew);
        // Where it is as that of any other font, the size is that of the letters.
        if (up * UNITS - 1.0).abs() < 0.5 {
            return None;
        }
        let [_, bottom, _, top] = font.get::<[f32; 4]>("FontBBox")?;
        let height = (top - bottom).abs() * up;
        (height.is_finite() && height > 0.0).then_some(height)
    };
    drawn().unwrap_or(1.0)
}

/// A font as its letters are read and set.
pub(super) struct Face<'a> {
    font: Option<Font<'a>>,
    pub(super) is_vertical: bool,
    pub(super) is_bold: bool,
    pub(super) is_mono: bool,
    is_simple: bool,
    /// Height of its letters to the size that is set.
    pub(super) height: f32,
    collection: Option<Collection>,
    letters: RefCell<HashMap<u32, Option<Rc<str>>>>,
}

impl Face<'_> {
    /// The next code of a string that is shown, with its length.
    pub(super) fn code(&self, bytes: &[u8], at: usize) -> Option<(u32, usize)> {
        let byte = bytes.get(at)?;
        let (code, length) = self.font.as_ref().map_or((u32::from(*byte), 1), |font| font.read_code(bytes, at));
        Some((code, length.max(1)))
    }

    /// Distance to the next letter along the line, to the size that is set.
    #[expect(clippy::cast_possible_truncation, reason = "points on a page")]
    pub(super) fn advance(&self, code: u32) -> f32 {
        let advance = self.font.as_ref().map(|font| font.code_advance(code));
        let advance = advance.map(|advance| if self.is_vertical { advance.y } else { advance.x } as f32);
        advance.unwrap_or(USUAL_WIDTH) / UNITS
    }

    /// Distance from the place of a code to that at which its glyph begins, to the size that is set.
    #[expect(clippy::cast_possible_truncation, reason = "points on a page")]
    pub(super) fn displacement(&self, code: u32) -> (f32, f32) {
        let shift = self.font.as_ref().map(|font| font.origin_displacement(code)).unwrap_or_default();
        (shift.x as f32 / UNITS, shift.y as f32 / UNITS)
    }

    /// The letters that a code stands for.
    pub(super) fn text(&self, code: u32) -> Option<Rc<str>> {
        self.letters.borrow_mut().entry(code).or_insert_with(|| self.read(code)).clone()
    }

    fn read(&self, code: u32) -> Option<Rc<str>> {
        let told = self.font.as_ref().and_then(|font| match font.glyph(GlyphId::NOTDEF, code) {
            FontGlyph::Outline(glyph) => glyph.as_unicode(),
            FontGlyph::Type3(glyph) => glyph.as_unicode(),
        });
        let is_said = |text: &BfString| match text {
            BfString::Char(letter) => !matches!(letter, '\0' | '\u{fffd}' | '\u{ffff}'),
            BfString::String(text) => !text.trim_matches('\0').is_empty(),
        };
        let text =
            told.filter(is_said).or_else(|| self.collection.as_ref()?.text(code)).or_else(|| self.guess(code))?;
        Some(match text {
            BfString::Char(letter) => letter.encode_utf8(&mut [0; 4]).into(),
            BfString::String(text) => text.into(),
        })
    }

    /// A letter of a font that says nothing of it: most often the code is that of ASCII.
    fn guess(&self, code: u32) -> Option<BfString> {
        let letter = char::from_u32(code).filter(|letter| self.is_simple && !letter.is_control())?;
        Some(BfString::Char(letter))
    }
}
