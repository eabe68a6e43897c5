//! Upright and rotated text, such as titles in the margin, watermarks and landscape tables. Each orientation is a
//! separate view, so that no line mixes two orientations.

use super::{
    direction::{self, WritingDirection},
    drawing::Content,
    line::{Glyph, Letter, Place},
};

/// Maximum angle in degrees between characters in one view, as scans and their OCR layers are slightly askew.
const MAX_SKEW: f32 = 3.5;
/// Maximum number of views per page. Characters on a curve have a hundred orientations.
const MAX_VIEWS: usize = 6;

/// Rotation of the page that makes one orientation upright.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rotation {
    cos: f32,
    sin: f32,
    is_mirrored: bool,
}

impl Rotation {
    /// Returns the rotation that makes an orientation upright.
    fn upright(orientation: Orientation) -> Self {
        let degrees = (-orientation.angle).rem_euclid(360.0);
        // Exact values keep lines horizontal.
        let (cos, sin) = match degrees {
            0.0 => (1.0, 0.0),
            90.0 => (0.0, 1.0),
            180.0 => (-1.0, 0.0),
            270.0 => (0.0, -1.0),
            degrees => (degrees.to_radians().cos(), degrees.to_radians().sin()),
        };
        Self { cos, sin, is_mirrored: orientation.is_mirrored }
    }

    /// Rotates a point on the stored page.
    fn point(&self, (x, y): Place) -> Place {
        let rotated_y = x * self.sin + y * self.cos;
        (x * self.cos - y * self.sin, if self.is_mirrored { -rotated_y } else { rotated_y })
    }
}

/// Orientation of some text on a page.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Orientation {
    /// Counterclockwise rotation in degrees, from 0 to 360.
    angle: f32,
    is_mirrored: bool,
}

impl Orientation {
    fn of(glyph: &Glyph) -> Self {
        Self { angle: glyph.angle.round().rem_euclid(360.0), is_mirrored: glyph.is_mirrored }
    }

    fn is_near(&self, other: &Self) -> bool {
        self.is_mirrored == other.is_mirrored && distance(self.angle, other.angle) <= MAX_SKEW
    }
}

/// Text of a page in one orientation.
#[derive(Debug)]
pub(super) struct View {
    turn: Rotation,
    writing: WritingDirection,
    pub(super) letters: Vec<Letter>,
    /// True if the text is upright on the displayed page.
    pub(super) is_upright: bool,
}

impl View {
    /// Maps a point on the stored page to the layout.
    pub(super) fn point(&self, point: Place) -> Place {
        self.writing.point(self.turn.point(point))
    }
}

/// Returns the views of a page, ordered by number of characters. One view is always upright.
pub(super) fn views(content: &Content) -> Vec<View> {
    let upright = upright_orientation(content);
    let (mut orientations, _) = orientations(&content.glyphs);
    if !orientations.iter().any(|orientation| orientation.is_near(&upright)) {
        orientations.push(upright);
    }
    let view = |orientation: Orientation| {
        let turn = Rotation::upright(orientation);
        let (letters, writing) = direction::lay_out(letters_in(&content.glyphs, orientation, turn));
        View { turn, writing, letters, is_upright: orientation.is_near(&upright) }
    };
    orientations.into_iter().map(view).collect()
}

fn upright_orientation(content: &Content) -> Orientation {
    Orientation { angle: content.rotation, is_mirrored: false }
}

/// Returns the text of characters in no view, in drawing order. Such characters are mostly on a curve, each with its
/// own orientation.
pub(super) fn unassigned_text(content: &Content) -> String {
    let (mut orientations, is_all) = orientations(&content.glyphs);
    if is_all {
        return String::new();
    }
    orientations.push(upright_orientation(content));
    let mut text = String::new();
    let is_other = |glyph: &&Glyph| {
        let own = Orientation { angle: glyph.angle, ..Orientation::of(glyph) };
        !orientations.iter().any(|orientation| orientation.is_near(&own))
    };
    let mut last: Option<&Glyph> = None;
    for glyph in content.glyphs.iter().filter(is_other) {
        // Characters of different words are further apart than the character size.
        let is_far = last.is_some_and(|last| {
            let (x, y) = (glyph.start.0 - last.start.0, glyph.start.1 - last.start.1);
            x.hypot(y) > last.width + last.size * 0.5
        });
        if is_far && !text.ends_with(char::is_whitespace) {
            text.push(' ');
        }
        text.push(if glyph.letter.is_whitespace() { ' ' } else { glyph.letter });
        last = Some(glyph);
    }
    text
}

/// Returns the characters in this orientation, rotated upright, in drawing order.
fn letters_in(glyphs: &[Glyph], orientation: Orientation, turn: Rotation) -> Vec<Letter> {
    let mut letters: Vec<Letter> = Vec::new();
    let mut first = 0;
    for glyph in
        glyphs.iter().filter(|glyph| orientation.is_near(&Orientation { angle: glyph.angle, ..Orientation::of(glyph) }))
    {
        if !glyph.is_joined {
            direction::restore_glyph_order(letters.get_mut(first..).unwrap_or_default());
            first = letters.len();
        }
        letters.push(Letter::of(glyph, turn.point(glyph.start)));
    }
    direction::restore_glyph_order(letters.get_mut(first..).unwrap_or_default());
    letters
}

/// Returns the most frequent orientations, and true if there are no others.
fn orientations(glyphs: &[Glyph]) -> (Vec<Orientation>, bool) {
    let mut counts: Vec<(Orientation, usize)> = Vec::new();
    for glyph in glyphs.iter().filter(|glyph| !glyph.letter.is_whitespace()) {
        let own = Orientation::of(glyph);
        match counts.iter_mut().find(|(orientation, _)| *orientation == own) {
            Some((_, count)) => *count += 1,
            None => counts.push((own, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (mut orientations, mut is_all): (Vec<Orientation>, bool) = (Vec::new(), true);
    for (mut orientation, _) in counts {
        // A few askew characters among upright ones count as upright.
        if distance(orientation.angle, 0.0) <= 1.0 {
            orientation.angle = 0.0;
        }
        if !orientations.iter().any(|existing| existing.is_near(&orientation)) {
            is_all &= orientations.len() < MAX_VIEWS;
            if is_all {
                orientations.push(orientation);
            }
        }
    }
    (orientations, is_all)
}

/// Returns the angle between two directions, in degrees.
fn distance(one: f32, other: f32) -> f32 {
    let difference = (one - other).rem_euclid(360.0);
    difference.min(360.0 - difference)
}
