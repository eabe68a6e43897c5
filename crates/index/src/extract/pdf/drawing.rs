//! Content of a page as it is drawn: letters with their places, lines, and how much of it pictures cover. The operators that draw:
//! PDF 32000-1, sections 8 and 14; those that set text are followed in [`font`](super::font).

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

/// Share of a page from which on pictures are most of it.
const MOSTLY: f64 = 0.5;
/// Letters of a page that has a text of its own, at least. A stamp, a note and a page number have fewer.
const TEXT: usize = 100;
/// Letters of a page of text, at least, where one picture lies below: a form that was filled in and a poster have fewer.
const WHOLE_TEXT: usize = 400;
/// Share of a page that one picture covers where it may be the page, although the page has letters of its own.
const COVERING: f64 = 0.7;

/// Content of a page, as it is drawn.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) glyphs: Vec<Glyph>,
    /// Straight lines from one point to the other.
    pub(super) lines: Vec<(Place, Place)>,
    pub(super) has_picture: bool,
    /// Share of the page that pictures cover, each counted by itself.
    pub(super) pictured: f64,
    /// Share that the largest one covers, of those through which one cannot see.
    largest: f64,
    /// More than is followed of it, as the end of a sentence, where there is more.
    pub(super) truncated: Option<String>,
    /// Number of the first letter that no picture can cover that was drawn so far.
    covered: usize,
    /// Degrees by which the page is turned clockwise to be seen.
    pub(super) rotation: f32,
    /// Part of the stored page that is seen: left, bottom, right, top.
    pub(super) corners: [f32; 4],
}

impl Content {
    /// Reads what the stored content of a page draws.
    pub(super) fn of<'a>(page: &Page<'a>, stored: &[u8], fonts: &Fonts<'a>, layers: &Layers) -> Self {
        let empty = Self { rotation: rotation(page), corners: corners(page), ..Self::default() };
        let mut content = Drawing::new(empty, fonts, layers).of(stored, page.resources());
        let [left, bottom, right, top] = content.corners;
        // What hangs over the edge a little is seen.
        const OVER: f32 = 2.0;
        content.glyphs.retain(|glyph| {
            let (x, y) = glyph.start;
            (left - OVER..=right + OVER).contains(&x) && (bottom - OVER..=top + OVER).contains(&y)
        });
        content
    }

    /// Takes note of a picture, which fills the unit square of this place. What was drawn before is not seen below one that is most
    /// of the page, unless one can see through it.
    pub(super) fn add_picture(&mut self, place: Affine, is_opaque: bool) {
        let [left, bottom, right, top] = self.corners.map(f64::from);
        let page = Area::new(left, bottom, right, top);
        let covered = place.transform_rect_bbox(Area::new(0.0, 0.0, 1.0, 1.0)).intersect(page);
        self.has_picture = true;
        let share = if page.area() > 0.0 { covered.area() / page.area() } else { 0.0 };
        self.pictured += share;
        if is_opaque {
            self.largest = self.largest.max(share);
        }
        if share > MOSTLY && is_opaque {
            let is_below = |glyph: &Glyph| covered.contains(Point::new(glyph.start.0.into(), glyph.start.1.into()));
            let new = self.glyphs.get_mut(self.covered..).unwrap_or_default();
            new.iter_mut().for_each(|glyph| glyph.is_hidden |= is_below(glyph));
            self.covered = self.glyphs.len();
        }
    }

    /// Number of letters that are not seen.
    pub(super) fn hidden_letters(&self) -> usize {
        self.glyphs.iter().filter(|glyph| glyph.is_hidden && glyph.letter.is_alphanumeric()).count()
    }

    /// Returns whether what the page says is in pictures: it has no letters, or next to none beside a picture that is most of it.
    pub(super) fn is_scan(&self) -> bool {
        let letters = self.glyphs.iter().filter(|glyph| !glyph.letter.is_whitespace()).take(TEXT).count();
        self.has_picture && (letters == 0 || letters < TEXT && self.pictured > MOSTLY)
    }

    /// Returns whether a picture that is most of it may say more than the letters that stand on it. What another program recognised on
    /// it says all.
    pub(super) fn may_be_scan(&self) -> bool {
        let seen = self
            .glyphs
            .iter()
            .filter(|glyph| !glyph.letter.is_whitespace() && !glyph.is_hidden)
            .take(WHOLE_TEXT)
            .count();
        self.largest > COVERING && seen < WHOLE_TEXT && self.hidden_letters() < TEXT
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

/// The corners of a rectangle: left, bottom, right, top.
pub(super) fn rectangle(rectangle: &Rect) -> [f32; 4] {
    [rectangle.x0, rectangle.y0, rectangle.x1, rectangle.y1].map(|number| number as f32)
}

/// Operators of a page that are followed.
const MOST_STEPS: u32 = 20_000_000;
/// Drawings within drawings of a page that are followed, and how deep.
const MOST_FORMS: u32 = 20_000;
const DEEPEST: usize = 16;
/// Letters of a page.
const MOST_GLYPHS: usize = 500_000;
/// Straight lines of a page; drawings have more, and no tables.
const MOST_LINES: usize = 50_000;
/// States that are kept to come back to.
const MOST_STATES: usize = 512;

/// The state of a drawing that `q` keeps and `Q` brings back.
#[derive(Clone)]
struct State<'a> {
    page: Affine,
    setting: Setting<'a>,
}

/// A marked part of the content.
struct Mark {
    is_hidden: bool,
    /// Text that it says instead of its glyphs, and the first of them.
    instead: Option<(String, usize)>,
}

/// The drawing of a page, as far as it has come.
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
    /// A drawing that adds to this content.
    pub(super) fn new(content: Content, fonts: &'f Fonts<'a>, layers: &'f Layers) -> Self {
        let state = State { page: Affine::IDENTITY, setting: Setting::new() };
        let (cursor, path) = (Cursor::default(), Path::default());
        Self { fonts, layers, state, states: Vec::new(), cursor, path, marks: Vec::new(), steps: 0, forms: 0, content }
    }

    /// The content with all that these operators draw.
    pub(super) fn of(mut self, stored: &[u8], resources: &Resources<'a>) -> Content {
        self.follow(TypedIter::new(stored), resources, 0);
        self.content
    }

    fn follow(&mut self, mut steps: TypedIter<'_>, resources: &Resources<'a>, depth: usize) {
        let (states, marks) = (self.states.len(), self.marks.len());
        while let Some(step) = steps.next() {
            self.steps += 1;
            if self.content.glyphs.len() > MOST_GLYPHS {
                self.truncate(&format!("more than {MOST_GLYPHS} letters"));
                break;
            }
            if self.steps > MOST_STEPS {
                self.truncate(&format!("a content of more than {MOST_STEPS} steps"));
                break;
            }
            match step {
                TypedInstruction::SaveState(_) if self.states.len() < MOST_STATES => {
                    self.states.push(self.state.clone())
                }
                TypedInstruction::RestoreState(_) if self.states.len() > states => self.restore(),
                TypedInstruction::Transform(m) => {
                    self.state.page *= affine([m.0, m.1, m.2, m.3, m.4, m.5]);
                }
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

    /// Follows a drawing that has a name, or notes a picture.
    fn draw_named(&mut self, name: &Name<'_>, resources: &Resources<'a>, depth: usize) {
        let Some(stream) = resources.get_x_object(name) else { return };
        if self.layers.hides(stream.dict(), b"OC") || self.is_hidden() {
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
        if depth >= DEEPEST || self.forms > MOST_FORMS {
            self.truncate(&format!("more than {MOST_FORMS} drawings, or some that are {DEEPEST} deep"));
            return;
        }
        let Some(data) = form.decoded_data().ok() else { return };
        let own = form.dict().get::<Dict<'a>>("Resources").map(Resources::new);
        let cursor = self.cursor;
        self.states.push(self.state.clone());
        if let Some(matrix) = form.dict().get::<[f64; 6]>("Matrix") {
            self.state.page *= Affine::new(matrix);
        }
        self.follow(TypedIter::new(&data), own.as_ref().unwrap_or(resources), depth + 1);
        self.restore();
        self.cursor = cursor;
    }

    /// Takes note that not all of the content is followed.
    fn truncate(&mut self, why: &str) {
        self.content.truncated.get_or_insert_with(|| why.to_owned());
    }

    fn is_hidden(&self) -> bool {
        self.marks.iter().any(|mark| mark.is_hidden)
    }

    fn begin_mark(&mut self, told: Option<(&Name<'_>, &Object<'_>)>, resources: &Resources<'a>) {
        let mut mark = Mark { is_hidden: false, instead: None };
        if let Some((tag, properties)) = told {
            let is_layer = tag.as_ref() == b"OC";
            let text = match properties {
                Object::Name(name) => {
                    mark.is_hidden = is_layer && self.layers.hides(&resources.properties, name.as_ref());
                    resources.properties.get::<Dict<'_>>(name).and_then(|said| actual_text(&said))
                }
                Object::Dict(said) => actual_text(said),
                _ => None,
            };
            // That of the outermost counts.
            let is_inside = self.marks.iter().any(|mark| mark.instead.is_some());
            mark.instead = text.filter(|_| !is_inside).map(|text| (text, self.content.glyphs.len()));
        }
        // One that is too deep counts as one with that above it.
        if self.marks.len() < MOST_STATES {
            self.marks.push(mark);
        }
    }

    fn end_mark(&mut self) {
        if let Some((text, first)) = self.marks.pop().and_then(|mark| mark.instead) {
            let glyphs = self.content.glyphs.split_off(first.min(self.content.glyphs.len()));
            self.content.glyphs.extend(line::instead(&glyphs, &text));
        }
    }

    /// Follows an operator that draws lines or sets text.
    fn draw(&mut self, step: &TypedInstruction<'_, '_>, resources: &Resources<'a>) {
        let is_hidden = self.is_hidden();
        if let Some(lines) = self.path.follow(step, self.state.page) {
            if !is_hidden && self.content.lines.len() <= MOST_LINES {
                self.content.lines.extend(lines);
            }
            return;
        }
        let State { page, setting } = &mut self.state;
        if let TypedInstruction::TextFont(font) = step {
            setting.face = resources.get_font(font.0).map(|dictionary| self.fonts.face(&dictionary));
        }
        let glyphs = (!is_hidden).then_some(&mut self.content.glyphs);
        setting.follow(step, *page, &mut self.cursor, glyphs);
    }
}

/// Text that a marked part says instead of its glyphs.
fn actual_text(properties: &Dict<'_>) -> Option<String> {
    properties.get::<Bytes<'_>>("ActualText").map(|text| line::string(text.as_bytes()))
}

/// A path that is not yet drawn, in points of the page.
#[derive(Default)]
pub(super) struct Path {
    lines: Vec<(Place, Place)>,
    start: Place,
    pen: Place,
}

impl Path {
    /// Follows an operator of paths, and gives the straight lines of a path that is drawn.
    pub(super) fn follow(&mut self, step: &TypedInstruction<'_, '_>, page: Affine) -> Option<Vec<(Place, Place)>> {
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
        if self.lines.len() <= MOST_LINES {
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

/// Layers that are looked at.
const MOST_LAYERS: usize = 10_000;

/// The layers that are not seen.
#[derive(Debug, Default)]
pub(super) struct Layers(HashSet<ObjectIdentifier>);

impl Layers {
    pub(super) fn of(document: &Pdf) -> Self {
        let off = || {
            let catalog = document.xref().get::<Dict<'_>>(document.xref().root_id())?;
            let usual = catalog.get::<Dict<'_>>("OCProperties")?.get::<Dict<'_>>("D")?;
            Some(references(&usual.get::<Array<'_>>("OFF")?))
        };
        Self(off().unwrap_or_default().into_iter().collect())
    }

    /// Returns whether the layer that has this key is not seen.
    pub(super) fn hides(&self, dictionary: &Dict<'_>, key: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        if dictionary.get_ref(key).is_some_and(|layer| self.0.contains(&layer.into())) {
            return true;
        }
        // Some belong to several layers, and are seen where one of them is.
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
    array.raw_iter().take(MOST_LAYERS).filter_map(reference).collect()
}
