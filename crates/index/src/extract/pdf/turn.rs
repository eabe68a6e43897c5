//! Text that stands upright as the page is seen, and text that was turned: titles at the margin, watermarks, tables on their side.
//! Each way of standing is a view of its own, so that no line holds letters of two of them.

use super::{
    direction::{self, Writing},
    drawing::Content,
    line::{Glyph, Letter, Place},
};

/// Degrees by which letters of one view may differ: scans are a little askew, and so is what was recognised on them.
const ASKEW: f32 = 3.5;
/// Views of a page at most. Letters on a curve stand in a hundred ways.
const MOST_VIEWS: usize = 6;

/// A turn of the page, after which some of its text is upright.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turn {
    cos: f32,
    sin: f32,
    is_mirrored: bool,
}

impl Turn {
    /// A turn that makes this way of standing upright.
    fn upright(way: Way) -> Self {
        let degrees = (-way.angle).rem_euclid(360.0);
        // Exact, so that lines stay level.
        let (cos, sin) = match degrees {
            0.0 => (1.0, 0.0),
            90.0 => (0.0, 1.0),
            180.0 => (-1.0, 0.0),
            270.0 => (0.0, -1.0),
            degrees => (degrees.to_radians().cos(), degrees.to_radians().sin()),
        };
        Self { cos, sin, is_mirrored: way.is_mirrored }
    }

    /// Place of a point of the stored page after the turn.
    fn point(&self, (x, y): Place) -> Place {
        let up = x * self.sin + y * self.cos;
        (x * self.cos - y * self.sin, if self.is_mirrored { -up } else { up })
    }
}

/// A way in which text stands.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Way {
    /// Degrees by which it is turned counterclockwise, from 0 to 360.
    angle: f32,
    is_mirrored: bool,
}

impl Way {
    fn of(glyph: &Glyph) -> Self {
        Self { angle: glyph.angle.round().rem_euclid(360.0), is_mirrored: glyph.is_mirrored }
    }

    fn is_near(&self, other: &Self) -> bool {
        self.is_mirrored == other.is_mirrored && distance(self.angle, other.angle) <= ASKEW
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
    pub(super) fn point(&self, point: Place) -> Place {
        self.writing.point(self.turn.point(point))
    }
}

/// The views of a page, that of most letters first. There always is an upright one.
pub(super) fn views(content: &Content) -> Vec<View> {
    let home = home(content);
    let (mut ways, _) = ways(&content.glyphs);
    if !ways.iter().any(|way| way.is_near(&home)) {
        ways.push(home);
    }
    let view = |way: Way| {
        let turn = Turn::upright(way);
        let (letters, writing) = direction::laid_out(standing(&content.glyphs, way, turn));
        View { turn, writing, letters, is_upright: way.is_near(&home) }
    };
    ways.into_iter().map(view).collect()
}

fn home(content: &Content) -> Way {
    Way { angle: content.rotation, is_mirrored: false }
}

/// The letters that stand in none of the views, in the order in which they are drawn: those on a curve, of which each stands in
/// its own way, read so.
pub(super) fn others(content: &Content) -> String {
    let (mut ways, is_all) = ways(&content.glyphs);
    if is_all {
        return String::new();
    }
    ways.push(home(content));
    let mut text = String::new();
    let is_other = |glyph: &&Glyph| {
        let own = Way { angle: glyph.angle, ..Way::of(glyph) };
        !ways.iter().any(|way| way.is_near(&own))
    };
    let mut last: Option<&Glyph> = None;
    for glyph in content.glyphs.iter().filter(is_other) {
        // Letters of other words stand farther apart than one of them is large.
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

/// The letters that stand in this way, upright, in the order in which they are drawn.
fn standing(glyphs: &[Glyph], way: Way, turn: Turn) -> Vec<Letter> {
    let mut letters: Vec<Letter> = Vec::new();
    let mut first = 0;
    for glyph in glyphs.iter().filter(|glyph| way.is_near(&Way { angle: glyph.angle, ..Way::of(glyph) })) {
        if !glyph.is_joined {
            direction::turn_glyph(letters.get_mut(first..).unwrap_or_default());
            first = letters.len();
        }
        letters.push(Letter::of(glyph, turn.point(glyph.start)));
    }
    direction::turn_glyph(letters.get_mut(first..).unwrap_or_default());
    letters
}

/// The ways in which letters stand, those of most letters first, and whether these are all.
fn ways(glyphs: &[Glyph]) -> (Vec<Way>, bool) {
    let mut counts: Vec<(Way, usize)> = Vec::new();
    for glyph in glyphs.iter().filter(|glyph| !glyph.letter.is_whitespace()) {
        let own = Way::of(glyph);
        match counts.iter_mut().find(|(way, _)| *way == own) {
            Some((_, count)) => *count += 1,
            None => counts.push((own, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (mut ways, mut is_all): (Vec<Way>, bool) = (Vec::new(), true);
    for (mut way, _) in counts {
        // A few letters askew among upright ones are upright.
        if distance(way.angle, 0.0) <= 1.0 {
            way.angle = 0.0;
        }
        if !ways.iter().any(|known| known.is_near(&way)) {
            is_all &= ways.len() < MOST_VIEWS;
            if is_all {
                ways.push(way);
            }
        }
    }
    (ways, is_all)
}

/// Degrees between two directions.
fn distance(one: f32, other: f32) -> f32 {
    let apart = (one - other).rem_euclid(360.0);
    apart.min(360.0 - apart)
}
