//! Content of a page as it is drawn: letters with their places, lines, and how much of it pictures cover.

use hayro_font::kurbo::{Affine, Point, Rect as Area};
use hayro_syntax::{
    object::Rect,
    page::{Page, Rotation},
};

use super::{
    drawing::Drawing,
    font::Fonts,
    glyph::{Glyph, Place},
    layer::Layers,
};

/// Share of a page from which on pictures are most of it.
const MOST: f64 = 0.5;
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
        if share > MOST && is_opaque {
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
        let letters = self.glyphs.iter().filter(|glyph| glyph.is_ink()).take(TEXT).count();
        self.has_picture && (letters == 0 || letters < TEXT && self.pictured > MOST)
    }

    /// Returns whether a picture that is most of it may say more than the letters that stand on it. What another program recognised on
    /// it says all.
    pub(super) fn may_be_scan(&self) -> bool {
        let seen = self.glyphs.iter().filter(|glyph| glyph.is_ink() && !glyph.is_hidden).take(WHOLE_TEXT).count();
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

#[expect(clippy::cast_possible_truncation, reason = "points on a page")]
fn corners(page: &Page<'_>) -> [f32; 4] {
    let seen = page.intersected_crop_box();
    let seen = if seen.width() > 1.0 && seen.height() > 1.0 { seen } else { page.media_box() };
    [seen.x0 as f32, seen.y0 as f32, seen.x1 as f32, seen.y1 as f32]
}

/// The corners of a rectangle: left, bottom, right, top.
#[expect(clippy::cast_possible_truncation, reason = "points on a page")]
pub(super) fn rectangle(rectangle: &Rect) -> [f32; 4] {
    [rectangle.x0, rectangle.y0, rectangle.x1, rectangle.y1].map(|number| number as f32)
}
