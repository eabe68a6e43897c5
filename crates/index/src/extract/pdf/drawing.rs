//! Interpreter for a page's content: characters with their positions, ruling lines, and the share of the page covered
//! by images. Supports the drawing operators of PDF 32000-1, sections 8 and 14. Text operators are in
//! [`font`](super::font).

use std::collections::HashSet;

use hayro_font::kurbo::{Affine, Point, Rect as Area};
use hayro_syntax::{
    Pdf,
    content::{TypedIter, ops::TypedInstruction},
    object::{Array, Dict, MaybeRef, Name, Number, Object, ObjectIdentifier, Rect, Stream, String as Bytes},
    page::{Page, Resources, Rotation},
};

use super::{
    font::{Cursor, Fonts, Setting, affine},
    line::{self, Glyph, Place, place},
};

/// Share of the page above which the page consists mostly of images.
const IMAGE_PAGE_SHARE: f64 = 0.5;
/// Minimum number of characters on a page with its own text. Stamps, notes and page numbers have fewer.
const MIN_LETTERS: usize = 100;
/// Minimum number of characters on a page of text over a full-page image. Filled-in forms and posters have fewer.
const MIN_OVERLAY_LETTERS: usize = 400;
/// Minimum share of the page covered by one image for the page to count as a scan despite its text.
const SCAN_SHARE: f64 = 0.7;

/// Content of a page in drawing order.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) glyphs: Vec<Glyph>,
    /// Straight lines, each as two points.
    pub(super) lines: Vec<(Place, Place)>,
    pub(super) has_picture: bool,
    /// Total share of the page covered by images, counting overlaps twice.
    pub(super) image_share: f64,
    /// Share covered by the largest opaque image.
    largest_image_share: f64,
    /// Description of content that exceeds a limit, as the end of a sentence.
    pub(super) truncated: Option<String>,
    /// Index of the first character drawn after the last covering image.
    covered: usize,
    /// Clockwise rotation of the page for display, in degrees.
    pub(super) rotation: f32,
    /// Visible part of the stored page: left, bottom, right, top.
    pub(super) corners: [f32; 4],
}

impl Content {
    /// Interprets the content of a page.
    pub(super) fn of<'a>(page: &Page<'a>, stored: &[u8], fonts: &Fonts<'a>, layers: &Layers) -> Self {
        let empty = Self { rotation: rotation(page), corners: corners(page), ..Self::default() };
        let mut content = Drawing::new(empty, fonts, layers).of(stored, page.resources());
        let [left, bottom, right, top] = content.corners;
        // Tolerance for characters that extend slightly beyond the edge.
        const EDGE_TOLERANCE: f32 = 2.0;
        content.glyphs.retain(|glyph| {
            let (x, y) = glyph.start;
            (left - EDGE_TOLERANCE..=right + EDGE_TOLERANCE).contains(&x)
                && (bottom - EDGE_TOLERANCE..=top + EDGE_TOLERANCE).contains(&y)
        });
        content
    }

    /// Records an image, which fills the unit square transformed by `place`. An opaque image that covers most of the
    /// page hides earlier characters.
    pub(super) fn add_picture(&mut self, place: Affine, is_opaque: bool) {
        let [left, bottom, right, top] = self.corners.map(f64::from);
        let page = Area::new(left, bottom, right, top);
        let covered = place.transform_rect_bbox(Area::new(0.0, 0.0, 1.0, 1.0)).intersect(page);
        self.has_picture = true;
        let share = if page.area() > 0.0 { covered.area() / page.area() } else { 0.0 };
        self.image_share += share;
        if is_opaque {
            self.largest_image_share = self.largest_image_share.max(share);
        }
        if share > IMAGE_PAGE_SHARE && is_opaque {
            let is_below = |glyph: &Glyph| covered.contains(Point::new(glyph.start.0.into(), glyph.start.1.into()));
            let new = self.glyphs.get_mut(self.covered..).unwrap_or_default();
            new.iter_mut().for_each(|glyph| glyph.is_hidden |= is_below(glyph));
            self.covered = self.glyphs.len();
        }
    }

    /// Returns the number of invisible characters.
    pub(super) fn hidden_letters(&self) -> usize {
        self.glyphs.iter().filter(|glyph| glyph.is_hidden && glyph.letter.is_alphanumeric()).count()
    }

    /// Returns true if the page's text is in images: the page has no characters, or very few next to images that cover
    /// most of the page.
    pub(super) fn is_scan(&self) -> bool {
        let letters = self.glyphs.iter().filter(|glyph| !glyph.letter.is_whitespace()).take(MIN_LETTERS).count();
        self.has_picture && (letters == 0 || letters < MIN_LETTERS && self.image_share > IMAGE_PAGE_SHARE)
    }

    /// Returns true if a large image may contain more text than the characters on the page. False if another program's
    /// OCR layer already covers the image.
    pub(super) fn may_be_scan(&self) -> bool {
        let seen = self.glyphs.iter().filter(|glyph| !glyph.letter.is_whitespace() && !glyph.is_hidden);
        let seen = seen.take(MIN_OVERLAY_LETTERS).count();
        self.largest_image_share > SCAN_SHARE && seen < MIN_OVERLAY_LETTERS && self.hidden_letters() < MIN_LETTERS
    }
}

fn rotation(page: &Page<'_>) -> f32 {
    match page.rotation() {
        Rotation::None => 0.0,
        Rotation::Horizontal => 90.0,
        Rotation::Flipped => 180.0,
        Rotation::FlippedHorizontal => 270.0,
    }
}

fn corners(page: &Page<'_>) -> [f32; 4] {
    let seen = page.intersected_crop_box();
    let seen = if seen.width() > 1.0 && seen.height() > 1.0 { seen } else { page.media_box() };
    [seen.x0 as f32, seen.y0 as f32, seen.x1 as f32, seen.y1 as f32]
}

/// Returns the corners of a rectangle: left, bottom, right, top.
pub(super) fn rectangle(rectangle: &Rect) -> [f32; 4] {
    [rectangle.x0, rectangle.y0, rectangle.x1, rectangle.y1].map(|number| number as f32)
}

/// Maximum number of operators per page.
const MAX_OPERATORS: u32 = 20_000_000;
/// Maximum number of embedded forms per page, and their maximum nesting depth.
const MAX_FORMS: u32 = 20_000;
const MAX_FORM_DEPTH: usize = 16;
/// Maximum number of characters per page.
const MAX_GLYPHS: usize = 500_000;
/// Maximum number of straight lines per page. Pages with more lines are drawings without tables.
const MAX_LINES: usize = 50_000;
/// Maximum depth of the graphics state stack.
const MAX_STATES: usize = 512;

/// Graphics state that `q` saves and `Q` restores.
#[derive(Clone)]
struct State<'a> {
    page: Affine,
    setting: Setting<'a>,
}

/// Marked part of the content.
struct Mark {
    is_hidden: bool,
    /// Replacement text with the index of the first replaced glyph.
    replacement: Option<(String, usize)>,
}

/// Interpreter state while drawing a page.
pub(super) struct Drawing<'f, 'a> {
    fonts: &'f Fonts<'a>,
    layers: &'f Layers,
    state: State<'a>,
    states: Vec<State<'a>>,
    cursor: Cursor,
    path: Path,
    marks: Vec<Mark>,
    steps: u32,
    forms: u32,
    content: Content,
}

impl<'f, 'a> Drawing<'f, 'a> {
    /// Creates an interpreter that adds to `content`.
    pub(super) fn new(content: Content, fonts: &'f Fonts<'a>, layers: &'f Layers) -> Self {
        let state = State { page: Affine::IDENTITY, setting: Setting::new() };
        let (cursor, path) = (Cursor::default(), Path::default());
        Self { fonts, layers, state, states: Vec::new(), cursor, path, marks: Vec::new(), steps: 0, forms: 0, content }
    }

    /// Interprets the operators and returns the content.
    pub(super) fn of(mut self, stored: &[u8], resources: &Resources<'a>) -> Content {
        self.interpret(TypedIter::new(stored), resources, 0);
        self.content
    }

    fn interpret(&mut self, mut steps: TypedIter<'_>, resources: &Resources<'a>, depth: usize) {
        let (states, marks) = (self.states.len(), self.marks.len());
        while let Some(step) = steps.next() {
            self.steps += 1;
            if self.content.glyphs.len() > MAX_GLYPHS {
                self.truncate(&format!("more than {MAX_GLYPHS} letters"));
                break;
            }
            if self.steps > MAX_OPERATORS {
                self.truncate(&format!("more than {MAX_OPERATORS} operators"));
                break;
            }
            match step {
                TypedInstruction::SaveState(_) if self.states.len() < MAX_STATES => {
                    self.states.push(self.state.clone())
                }
                TypedInstruction::RestoreState(_) if self.states.len() > states => self.restore(),
                TypedInstruction::Transform(m) => self.state.page *= affine([m.0, m.1, m.2, m.3, m.4, m.5]),
                TypedInstruction::XObject(named) => self.draw_named(named.0, resources, depth),
                TypedInstruction::InlineImage(_) if !self.is_hidden() => {
                    self.content.add_picture(self.state.page, false);
                }
                TypedInstruction::BeginMarkedContent(_) => self.begin_mark(None, resources),
                TypedInstruction::BeginMarkedContentWithProperties(mark) => {
                    self.begin_mark(Some((mark.0, mark.1)), resources)
                }
                TypedInstruction::EndMarkedContent(_) if self.marks.len() > marks => self.end_mark(),
                step => self.draw(&step, resources),
            }
        }
        while self.marks.len() > marks {
            self.end_mark();
        }
        while self.states.len() > states {
            self.restore();
        }
    }

    fn restore(&mut self) {
        if let Some(state) = self.states.pop() {
            self.state = state;
        }
    }

    /// Draws a named form or records an image.
    fn draw_named(&mut self, name: &Name<'_>, resources: &Resources<'a>, depth: usize) {
        let Some(stream) = resources.get_x_object(name) else { return };
        if self.layers.is_hidden_layer(stream.dict(), b"OC") || self.is_hidden() {
            return;
        }
        match stream.dict().get::<Name<'_>>("Subtype").as_deref() {
            Some(b"Image") => {
                let dict = stream.dict();
                let is_see_through = ["SMask", "Mask", "ImageMask"].iter().any(|key| dict.contains_key(*key));
                self.content.add_picture(self.state.page, !is_see_through);
            }
            Some(b"Form") => self.draw_form(&stream, resources, depth),
            _ => {}
        }
    }

    fn draw_form(&mut self, form: &Stream<'a>, resources: &Resources<'a>, depth: usize) {
        self.forms += 1;
        if depth >= MAX_FORM_DEPTH || self.forms > MAX_FORMS {
            self.truncate(&format!("more than {MAX_FORMS} forms, or forms nested over {MAX_FORM_DEPTH} deep"));
            return;
        }
        let Some(data) = form.decoded_data().ok() else { return };
        let own = form.dict().get::<Dict<'a>>("Resources").map(Resources::new);
        let cursor = self.cursor;
        self.states.push(self.state.clone());
        if let Some(matrix) = form.dict().get::<[f64; 6]>("Matrix") {
            self.state.page *= Affine::new(matrix);
        }
        self.interpret(TypedIter::new(&data), own.as_ref().unwrap_or(resources), depth + 1);
        self.restore();
        self.cursor = cursor;
    }

    fn truncate(&mut self, reason: &str) {
        self.content.truncated.get_or_insert_with(|| reason.to_owned());
    }

    fn is_hidden(&self) -> bool {
        self.marks.iter().any(|mark| mark.is_hidden)
    }

    fn begin_mark(&mut self, tagged: Option<(&Name<'_>, &Object<'_>)>, resources: &Resources<'a>) {
        let mut mark = Mark { is_hidden: false, replacement: None };
        if let Some((tag, properties)) = tagged {
            let is_layer = tag.as_ref() == b"OC";
            let text = match properties {
                Object::Name(name) => {
                    mark.is_hidden = is_layer && self.layers.is_hidden_layer(&resources.properties, name.as_ref());
                    resources.properties.get::<Dict<'_>>(name).and_then(|said| actual_text(&said))
                }
                Object::Dict(said) => actual_text(said),
                _ => None,
            };
            // The outermost replacement text applies.
            let is_inside = self.marks.iter().any(|mark| mark.replacement.is_some());
            mark.replacement = text.filter(|_| !is_inside).map(|text| (text, self.content.glyphs.len()));
        }
        // Marks beyond the maximum depth are merged with the enclosing one.
        if self.marks.len() < MAX_STATES {
            self.marks.push(mark);
        }
    }

    fn end_mark(&mut self) {
        if let Some((text, first)) = self.marks.pop().and_then(|mark| mark.replacement) {
            let glyphs = self.content.glyphs.split_off(first.min(self.content.glyphs.len()));
            self.content.glyphs.extend(line::replaced_glyphs(&glyphs, &text));
        }
    }

    /// Handles a path operator or a text operator.
    fn draw(&mut self, step: &TypedInstruction<'_, '_>, resources: &Resources<'a>) {
        let is_hidden = self.is_hidden();
        if let Some(lines) = self.path.interpret(step, self.state.page) {
            if !is_hidden && self.content.lines.len() <= MAX_LINES {
                self.content.lines.extend(lines);
            }
            return;
        }
        let State { page, setting } = &mut self.state;
        if let TypedInstruction::TextFont(font) = step {
            setting.face = resources.get_font(font.0).map(|dictionary| self.fonts.face(&dictionary));
        }
        let glyphs = (!is_hidden).then_some(&mut self.content.glyphs);
        setting.interpret(step, *page, &mut self.cursor, glyphs);
    }
}

fn actual_text(properties: &Dict<'_>) -> Option<String> {
    properties.get::<Bytes<'_>>("ActualText").map(|text| line::string(text.as_bytes()))
}

/// Path under construction, in page coordinates.
#[derive(Default)]
pub(super) struct Path {
    lines: Vec<(Place, Place)>,
    start: Place,
    pen: Place,
}

impl Path {
    /// Handles a path operator. Returns the straight lines of a painted path.
    pub(super) fn interpret(&mut self, step: &TypedInstruction<'_, '_>, page: Affine) -> Option<Vec<(Place, Place)>> {
        let seen = |x: Number, y: Number| place(page * Point::new(x.as_f64(), y.as_f64()));
        match step {
            TypedInstruction::MoveTo(to) => {
                self.pen = seen(to.0, to.1);
                self.start = self.pen;
            }
            TypedInstruction::LineTo(to) => self.line_to(seen(to.0, to.1)),
            TypedInstruction::CubicTo(to) => self.pen = seen(to.4, to.5),
            TypedInstruction::CubicStartTo(to) => self.pen = seen(to.2, to.3),
            TypedInstruction::CubicEndTo(to) => self.pen = seen(to.2, to.3),
            TypedInstruction::ClosePath(_) => self.line_to(self.start),
            TypedInstruction::RectPath(r) => self.rectangle([r.0, r.1, r.2, r.3], page),
            TypedInstruction::CloseAndStrokePath(_)
            | TypedInstruction::CloseFillAndStrokeNonZero(_)
            | TypedInstruction::CloseFillAndStrokeEvenOdd(_) => {
                self.line_to(self.start);
                return Some(std::mem::take(&mut self.lines));
            }
            TypedInstruction::StrokePath(_)
            | TypedInstruction::FillPathNonZero(_)
            | TypedInstruction::FillPathNonZeroCompatibility(_)
            | TypedInstruction::FillPathEvenOdd(_)
            | TypedInstruction::FillAndStrokeNonZero(_)
            | TypedInstruction::FillAndStrokeEvenOdd(_) => return Some(std::mem::take(&mut self.lines)),
            TypedInstruction::EndPath(_) => self.lines.clear(),
            _ => {}
        }
        None
    }

    fn line_to(&mut self, to: Place) {
        if self.lines.len() <= MAX_LINES {
            self.lines.push((self.pen, to));
        }
        self.pen = to;
    }

    fn rectangle(&mut self, sides: [Number; 4], page: Affine) {
        let [x, y, width, height] = sides.map(|number| number.as_f64());
        let corner = |x, y| place(page * Point::new(x, y));
        let first = corner(x, y);
        (self.start, self.pen) = (first, first);
        for to in [corner(x + width, y), corner(x + width, y + height), corner(x, y + height), first] {
            self.line_to(to);
        }
    }
}

const MAX_LAYERS: usize = 10_000;

/// Layers that are hidden by default.
#[derive(Debug, Default)]
pub(super) struct Layers(HashSet<ObjectIdentifier>);

impl Layers {
    pub(super) fn of(document: &Pdf) -> Self {
        let hidden_layers = || {
            let catalog = document.xref().get::<Dict<'_>>(document.xref().root_id())?;
            let usual = catalog.get::<Dict<'_>>("OCProperties")?.get::<Dict<'_>>("D")?;
            Some(references(&usual.get::<Array<'_>>("OFF")?))
        };
        Self(hidden_layers().unwrap_or_default().into_iter().collect())
    }

    /// Returns true if the layer under this key is hidden.
    pub(super) fn is_hidden_layer(&self, dictionary: &Dict<'_>, key: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        if dictionary.get_ref(key).is_some_and(|layer| self.0.contains(&layer.into())) {
            return true;
        }
        // Content in several layers is visible if one of the layers is visible.
        let Some(several) = dictionary.get::<Dict<'_>>(key) else { return false };
        let layers = match several.get_raw::<Object<'_>>("OCGs") {
            Some(MaybeRef::NotRef(Object::Array(layers))) => references(&layers),
            Some(MaybeRef::Ref(layer)) => vec![layer.into()],
            _ => Vec::new(),
        };
        !layers.is_empty() && layers.iter().all(|layer| self.0.contains(layer))
    }
}

fn references(array: &Array<'_>) -> Vec<ObjectIdentifier> {
    let reference = |item| match item {
        MaybeRef::Ref(layer) => Some(ObjectIdentifier::from(layer)),
        MaybeRef::NotRef(_) => None,
    };
    array.raw_iter().take(MAX_LAYERS).filter_map(reference).collect()
}
