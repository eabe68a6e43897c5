//! Connected pixels, and the slanted boxes around them.

use std::ops::ControlFlow;

/// A point: x to the right, y down.
pub(crate) type Point = (f32, f32);

/// A rectangle that may be slanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SlantedBox {
    pub(crate) centre: Point,
    /// Length along its direction.
    pub(crate) length: f32,
    /// Height across its direction.
    pub(crate) height: f32,
    /// Radians by which its direction is turned clockwise from the right, from -π/2 to π/2.
    pub(crate) angle: f32,
}

impl SlantedBox {
    /// Points of it, by their distances from its centre along its direction and across.
    pub(crate) fn points(&self) -> impl Fn(f32, f32) -> Point {
        let ((sin, cos), (x, y)) = (self.angle.sin_cos(), self.centre);
        move |along, across| (x + along * cos - across * sin, y + along * sin + across * cos)
    }

    /// The same rectangle, seen from a corner that is so far to the left and above.
    pub(crate) fn moved(self, (x, y): Point) -> Self {
        Self { centre: (self.centre.0 + x, self.centre.1 + y), ..self }
    }

    /// The same rectangle in a picture of another scale.
    pub(crate) fn scaled(self, x: f32, y: f32) -> Self {
        let scale = f32::midpoint(x, y);
        Self {
            centre: (self.centre.0 * x, self.centre.1 * y),
            length: self.length * scale,
            height: self.height * scale,
            ..self
        }
    }
}

/// Shows groups of neighbouring pixels of a map that are set, each of at least so many, as their positions in the map, until no more
/// are wanted.
pub(crate) fn groups(is_set: &[bool], width: usize, least: usize, mut take: impl FnMut(&[usize]) -> ControlFlow<()>) {
    let mut is_seen = vec![false; is_set.len()];
    let is_open = |at: usize, is_seen: &[bool]| is_set.get(at) == Some(&true) && is_seen.get(at) == Some(&false);
    for start in 0..is_set.len() {
        if !is_open(start, &is_seen) {
            continue;
        }
        let (mut group, mut next) = (vec![start], 0);
        mark(&mut is_seen, start);
        while let Some(&at) = group.get(next) {
            next += 1;
            let (row, column) = (at / width, at % width);
            for near in neighbours(row, column, width) {
                if is_open(near, &is_seen) {
                    mark(&mut is_seen, near);
                    group.push(near);
                }
            }
        }
        if group.len() >= least && take(&group).is_break() {
            break;
        }
    }
}

fn mark(is_seen: &mut [bool], at: usize) {
    if let Some(seen) = is_seen.get_mut(at) {
        *seen = true;
    }
}

/// The eight around a pixel, as far as they are in their row; those below the map are in no row.
fn neighbours(row: usize, column: usize, width: usize) -> impl Iterator<Item = usize> {
    let columns = column.saturating_sub(1)..=(column + 1).min(width - 1);
    (row.saturating_sub(1)..=row + 1).flat_map(move |row| columns.clone().map(move |column| row * width + column))
}

/// The smallest rectangle around points that stand for pixels; none without points.
#[expect(clippy::cast_precision_loss, reason = "pixels of a picture")]
pub(crate) fn smallest(group: &[usize], width: usize) -> Option<SlantedBox> {
    let points: Vec<Point> = edges(group, width).into_iter().map(|(x, y)| (x as f32, y as f32)).collect();
    let hull = hull(points);
    let directions =
        hull.iter().zip(hull.iter().cycle().skip(1)).map(|(from, to)| (to.1 - from.1).atan2(to.0 - from.0));
    directions.chain([0.0]).map(|angle| around(&hull, angle)).min_by(|one, other| area(one).total_cmp(&area(other)))
}

fn area(of: &SlantedBox) -> f32 {
    of.length * of.height
}

/// The first and the last pixel of each row: no others are at the hull.
fn edges(group: &[usize], width: usize) -> Vec<(usize, usize)> {
    let mut rows: std::collections::BTreeMap<usize, (usize, usize)> = std::collections::BTreeMap::new();
    for at in group {
        let (row, column) = (at / width, at % width);
        let ends = rows.entry(row).or_insert((column, column));
        *ends = (ends.0.min(column), ends.1.max(column));
    }
    rows.into_iter().flat_map(|(row, (first, last))| [(first, row), (last, row)]).collect()
}

/// The convex hull, by the monotone chain.
fn hull(mut points: Vec<Point>) -> Vec<Point> {
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    points.dedup();
    if points.len() < 3 {
        return points;
    }
    let chain = |points: &mut dyn Iterator<Item = Point>| {
        let mut chain: Vec<Point> = Vec::new();
        for point in points {
            while let [.., before, last] = chain.as_slice()
                && (last.0 - before.0) * (point.1 - before.1) <= (last.1 - before.1) * (point.0 - before.0)
            {
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut hull = chain(&mut points.iter().copied());
    hull.extend(chain(&mut points.iter().rev().copied()));
    hull
}

/// The rectangle of this direction around pixels, each of which is one wide.
fn around(hull: &[Point], angle: f32) -> SlantedBox {
    let (sin, cos) = angle.sin_cos();
    let (mut along, mut across) = ((f32::INFINITY, f32::NEG_INFINITY), (f32::INFINITY, f32::NEG_INFINITY));
    for (x, y) in hull {
        let (to, off) = (x * cos + y * sin, y * cos - x * sin);
        along = (along.0.min(to), along.1.max(to));
        across = (across.0.min(off), across.1.max(off));
    }
    let (to, off) = (f32::midpoint(along.0, along.1), f32::midpoint(across.0, across.1));
    let centre = (to * cos - off * sin + 0.5, to * sin + off * cos + 0.5);
    let found = SlantedBox { centre, length: along.1 - along.0 + 1.0, height: across.1 - across.0 + 1.0, angle };
    level(found)
}

/// The same rectangle by the side that is nearer to level.
fn level(of: SlantedBox) -> SlantedBox {
    use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    // A rectangle is the same after half a turn.
    let angle = (of.angle + FRAC_PI_2).rem_euclid(PI) - FRAC_PI_2;
    if angle.abs() <= FRAC_PI_4 {
        return SlantedBox { angle, ..of };
    }
    let angle = if angle > 0.0 { angle - FRAC_PI_2 } else { angle + FRAC_PI_2 };
    SlantedBox { length: of.height, height: of.length, angle, ..of }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All groups, or as many.
    fn groups(is_set: &[bool], width: usize, most: usize, least: usize) -> Vec<Vec<usize>> {
        let mut groups = Vec::new();
        super::groups(is_set, width, least, |group| {
            groups.push(group.to_vec());
            if groups.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        groups
    }

    #[test]
    fn a_slanted_line_has_a_slanted_box() {
        const WIDTH: usize = 200;
        let mut is_set = vec![false; WIDTH * 100];
        for x in 10..190 {
            // One down for ten to the right.
            for y in 0..12 {
                is_set[(30 + x / 10 + y) * WIDTH + x] = true;
            }
        }
        is_set[WIDTH * 90 + 5] = true;
        let groups = groups(&is_set, WIDTH, 10, 4);
        assert_eq!(groups.len(), 1, "a single pixel is none");
        let found = smallest(&groups[0], WIDTH).unwrap();
        assert!((found.angle - 0.1_f32.atan()).abs() < 0.02, "{found:?}");
        assert!((found.length - 181.0).abs() < 4.0 && (found.height - 12.0).abs() < 2.5, "{found:?}");
        assert!((found.centre.0 - 100.0).abs() < 2.0 && (found.centre.1 - 45.5).abs() < 2.0, "{found:?}");
    }

    #[test]
    fn groups_do_not_meet_across_the_edge() {
        // The last pixel of a row and the first of the next but one.
        let mut is_set = vec![false; 40];
        (is_set[9], is_set[20]) = (true, true);
        assert_eq!(groups(&is_set, 10, 10, 1).len(), 2);
        assert_eq!(groups(&[true; 40], 10, 10, 1)[0].len(), 40);
        assert_eq!(groups(&is_set, 10, 1, 1).len(), 1);
    }

    #[test]
    fn one_pixel_has_a_box() {
        let found = smallest(&[0], 10).unwrap();
        assert_eq!((found.length, found.height, found.centre), (1.0, 1.0, (0.5, 0.5)));
    }
}
