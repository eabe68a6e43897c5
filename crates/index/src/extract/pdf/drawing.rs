//! The operators of a content that draw: PDF 32000-1, sections 8 and 14.
//!
//! Those that set text are followed in [`setting`](super::setting), those that draw lines in [`path`](super::path).

use hayro_font::kurbo::Affine;
use hayro_syntax::{
    content::{TypedIter, ops::TypedInstruction},
    object::{Dict, Name, Object, Stream, String as Bytes},
    page::Resources,
};

use super::{
    content::Content,
    font::Fonts,
    glyph,
    layer::Layers,
    path::Path,
    setting::{Cursor, Setting, affine},
    stream::unpacked,
    string,
};

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
        let state = State { page: Affine::IDENTITY, setting: Setting::default() };
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
        self.end_marks(marks);
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
        if self.layers.hides(stream.dict()) || self.is_hidden() {
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
        let Some(data) = unpacked(form) else { return };
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
            mark.is_hidden = match properties {
                Object::Name(name) => is_layer && self.layers.hides_entry(&resources.properties, name),
                _ => false,
            };
            let text = match properties {
                Object::Name(name) => resources.properties.get::<Dict<'_>>(name).and_then(|said| actual_text(&said)),
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

    fn end_marks(&mut self, left: usize) {
        while self.marks.len() > left {
            self.end_mark();
        }
    }

    fn end_mark(&mut self) {
        if let Some((text, first)) = self.marks.pop().and_then(|mark| mark.instead) {
            let glyphs = self.content.glyphs.split_off(first.min(self.content.glyphs.len()));
            self.content.glyphs.extend(glyph::instead(&glyphs, &text));
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
    properties.get::<Bytes<'_>>("ActualText").map(|text| string::text(text.as_bytes()))
}
