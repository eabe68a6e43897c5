//! The operators that draw lines: PDF 32000-1, section 8.5.

use hayro_font::kurbo::{Affine, Point};
use hayro_syntax::{content::ops::TypedInstruction, object::Number};

use super::glyph::{Place, place};

/// Straight lines of a path.
const MOST_LINES: usize = 50_000;

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
