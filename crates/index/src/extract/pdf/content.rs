//! Content of a page as it is drawn: letters with their places, lines, and whether there are pictures.

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

/// Content of a page, as it is drawn.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) glyphs: Vec<Glyph>,
    /// Straight lines from one point to the other.
    pub(super) lines: Vec<(Place, Place)>,
    pub(super) has_picture: bool,
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
