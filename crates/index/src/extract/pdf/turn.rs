//! Text that stands upright as the page is seen, and text that was turned: titles at the margin, watermarks, tables on their side.
//! Each way of standing is a view of its own, so that no line holds letters of two of them.

use pdf_oxide::{PdfDocument, extractors::text::TextExtractor, layout::TextChar};

use super::{
    direction::{self, Writing},
    letter::{self, Letter},
};

/// Degrees by which letters of one view may differ: scans are a little askew, and so is what was recognised on them.
const ASKEW: f32 = 3.5;
/// Views of a page at most. Letters on a curve stand in a hundred ways.
const MOST_VIEWS: usize = 6;

/// A turn of the page, after which some of its text is upright.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turn {
    /// Counterclockwise, from 0 to 360.
    degrees: f32,
    cos: f32,
    sin: f32,
    /// Distance added behind it, so that the page is where it was: the library leaves out what is beside the page.
    shift: (f32, f32),
}

impl Turn {
    /// A turn of what lies between these corners.
    fn by(degrees: f32, page: (f32, f32, f32, f32)) -> Self {
        let degrees = degrees.rem_euclid(360.0);
        // Exact, so that lines stay level.
        let (cos, sin) = match degrees {
            0.0 => (1.0, 0.0),
            90.0 => (0.0, 1.0),
            180.0 => (-1.0, 0.0),
            270.0 => (0.0, -1.0),
            degrees => (degrees.to_radians().cos(), degrees.to_radians().sin()),
        };
        let mut turn = Self { degrees, cos, sin, shift: (0.0, 0.0) };
        if degrees != 0.0 {
            let (left, bottom, right, top) = page;
            let corners = [(left, bottom), (left, top), (right, bottom), (right, top)].map(|corner| turn.point(corner));
            let least = |of: fn(&(f32, f32)) -> f32| corners.iter().map(of).fold(f32::INFINITY, f32::min);
            turn.shift = (left - least(|corner| corner.0), bottom - least(|corner| corner.1));
        }
        turn
    }

    /// Place of a point of the stored page after the turn.
    fn point(&self, (x, y): (f32, f32)) -> (f32, f32) {
        let (right, up) = self.shift;
        (x * self.cos - y * self.sin + right, x * self.sin + y * self.cos + up)
    }

    fn is_none(&self) -> bool {
        self.degrees == 0.0
    }
}

/// The text of a page that stands in one way.
#[derive(Debug)]
pub(super) struct View {
    turn: Turn,
    writing: Writing,
    pub(super) letters: Vec<Letter>,
    /// Set if it is upright as the page is seen.
    pub(super) is_upright: bool,
}

impl View {
    /// Place at which a point of the stored page is laid out.
    pub(super) fn point(&self, point: (f32, f32)) -> (f32, f32) {
        self.writing.point(self.turn.point(point))
    }
}

/// The views of a page, that of most letters first. There always is an upright one.
pub(super) fn views(document: &PdfDocument, page: usize) -> pdf_oxide::Result<Vec<View>> {
    #[expect(clippy::cast_precision_loss, reason = "at most 270")]
    let home = document.get_page_rotation(page).unwrap_or(0).rem_euclid(360) as f32;
    let chars = letter::chars(document, page)?;
    let mut ways = ways(&chars);
    let is_home = |way: &f32| distance(*way, home) <= ASKEW;
    if !ways.iter().any(is_home) {
        ways.push(home);
    }
    const USUAL: (f32, f32, f32, f32) = (0.0, 0.0, 612.0, 792.0);
    let corners = document.get_page_media_box(page).unwrap_or(USUAL);
    let mut views = Vec::with_capacity(ways.len());
    for way in ways {
        let (mut way, mut turn) = (way, Turn::by(-way, corners));
        let standing: Vec<&TextChar> =
            chars.iter().filter(|char| distance(char.rotation_degrees, way) <= ASKEW).collect();
        let letters: Vec<Letter> = if standing.is_empty() {
            Vec::new()
        } else if turn.is_none() && !standing.iter().any(|char| direction::is_from_right(char.char)) {
            standing.into_iter().filter_map(Letter::of).collect()
        } else {
            let mut letters = turned(document, page, &turn)?;
            if letters.is_empty() {
                // Where drawings are mirrored, the library takes the one side for the other.
                way += 180.0;
                turn = Turn::by(-way, corners);
                letters = turned(document, page, &turn)?;
            }
            letters
        };
        let (letters, writing) = direction::laid_out(letters);
        views.push(View { turn, writing, letters, is_upright: is_home(&way) });
    }
    Ok(views)
}

/// Angles in degrees by which text is turned counterclockwise, those of most letters first.
fn ways(chars: &[TextChar]) -> Vec<f32> {
    let mut counts: Vec<(i32, usize)> = Vec::new();
    for char in chars.iter().filter(|char| !char.char.is_whitespace() && char.rotation_degrees.is_finite()) {
        #[expect(clippy::cast_possible_truncation, reason = "an angle")]
        let angle = char.rotation_degrees.round().rem_euclid(360.0) as i32;
        match counts.iter_mut().find(|(way, _)| *way == angle) {
            Some((_, count)) => *count += 1,
            None => counts.push((angle, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut ways: Vec<f32> = Vec::new();
    for (angle, _) in counts {
        #[expect(clippy::cast_precision_loss, reason = "below 360")]
        let angle = angle as f32;
        // A few letters askew among upright ones are upright.
        let angle = if distance(angle, 0.0) <= 1.0 { 0.0 } else { angle };
        if ways.len() < MOST_VIEWS && ways.iter().all(|way| distance(*way, angle) > ASKEW) {
            ways.push(angle);
        }
    }
    ways
}

/// Degrees between two directions.
fn distance(one: f32, other: f32) -> f32 {
    let apart = (one - other).rem_euclid(360.0);
    apart.min(360.0 - apart)
}

/// The letters that are upright after a turn, in the order in which they are drawn. The library measures the width of upright
/// letters only, so the page is drawn again, turned; and smaller, by which it can be told which letters are of one glyph.
fn turned(document: &PdfDocument, page: usize, turn: &Turn) -> pdf_oxide::Result<Vec<Letter>> {
    const SCALE: f32 = 0.5;
    let Turn { cos, sin, shift: (right, up), .. } = turn;
    let row = [cos * SCALE, sin * SCALE, -sin * SCALE, cos * SCALE, right * SCALE, up * SCALE];
    let mut content = row.map(|number| format!("{number:.6} ")).concat().into_bytes();
    content.extend(b"cm\n");
    content.extend(document.get_page_content_data(page)?);
    let object = document.get_page(page)?;
    let mut extractor = TextExtractor::new();
    extractor.set_page_index(u32::try_from(page).unwrap_or(u32::MAX));
    if let Some(resources) = object.as_dict().and_then(|page| page.get("Resources")) {
        extractor.set_resources(resources.clone());
        extractor.set_document(document);
        // Without its fonts the text is told as well as it can be.
        let _ = document.load_fonts_public(resources, &mut extractor);
    }
    let mut letters: Vec<Letter> = Vec::new();
    let mut glyph = 0;
    for char in extractor.extract_owned(&content)? {
        if distance(char.rotation_degrees, 0.0) > ASKEW {
            continue;
        }
        let Some(letter) = Letter::of(&char) else { continue };
        // Letters of one glyph are set beside each other, by a measure that does not know how large the page is.
        let is_same = char.matrix.is_some_and(|[.., at, _]| (at - char.origin_x).abs() > 1e-3);
        if !is_same {
            direction::turn_glyph(letters.get_mut(glyph..).unwrap_or_default());
            glyph = letters.len();
        }
        letters.push(letter.larger(1.0 / SCALE));
    }
    direction::turn_glyph(letters.get_mut(glyph..).unwrap_or_default());
    Ok(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_brings_text_that_goes_up_to_stand_upright() {
        let page = (0.0, 0.0, 600.0, 800.0);
        let turn = Turn::by(-90.0, page);
        assert_eq!((turn.point((10.0, 100.0)), turn.point((10.0, 200.0))), ((100.0, 590.0), (200.0, 590.0)));
        assert!(Turn::by(360.0, page).is_none());
        assert_eq!((distance(359.0, 2.0), distance(-90.0, 270.0)), (3.0, 0.0));
    }
}
