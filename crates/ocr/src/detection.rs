//! The detection network, which marks the pixels of text lines, and the rotated boxes around connected pixels.

use std::ops::{ControlFlow, Range};

use rten::RunOptions;
use rten_tensor::{AsView as _, Layout as _, NdTensor};

use crate::{OcrError, Picture, Recogniser};

/// Point with x to the right and y down.
pub(crate) type Point = (f32, f32);

/// Rectangle at any angle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SlantedBox {
    pub(crate) centre: Point,
    /// Length along the box's direction.
    pub(crate) length: f32,
    /// Height perpendicular to the box's direction.
    pub(crate) height: f32,
    /// Clockwise rotation of the direction from the x axis in radians, from -π/2 to π/2.
    pub(crate) angle: f32,
}

impl SlantedBox {
    /// Returns a function that maps distances from the centre, along and across the direction, to a point.
    pub(crate) fn points(&self) -> impl Fn(f32, f32) -> Point {
        let ((sin, cos), (x, y)) = (self.angle.sin_cos(), self.centre);
        move |along, across| (x + along * cos - across * sin, y + along * sin + across * cos)
    }

    /// Returns the rectangle moved by an offset.
    pub(crate) fn moved(self, (x, y): Point) -> Self {
        Self { centre: (self.centre.0 + x, self.centre.1 + y), ..self }
    }

    /// Returns the rectangle in an image with another scale.
    pub(crate) fn scaled(self, x: f32, y: f32) -> Self {
        let scale = f32::midpoint(x, y);
        let centre = (self.centre.0 * x, self.centre.1 * y);
        Self { centre, length: self.length * scale, height: self.height * scale, ..self }
    }
}

/// Passes groups of at least `min_pixels` connected pixels to `take`, as positions in the map, until `take` breaks.
pub(crate) fn groups(
    is_set: &[bool],
    width: usize,
    min_pixels: usize,
    mut take: impl FnMut(&[usize]) -> ControlFlow<()>,
) {
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
        if group.len() >= min_pixels && take(&group).is_break() {
            break;
        }
    }
}

fn mark(is_seen: &mut [bool], at: usize) {
    if let Some(seen) = is_seen.get_mut(at) {
        *seen = true;
    }
}

/// Returns the positions of a pixel and its neighbours, without wrapping at the sides of the map. Positions below the
/// map match no pixel.
fn neighbours(row: usize, column: usize, width: usize) -> impl Iterator<Item = usize> {
    let columns = column.saturating_sub(1)..=(column + 1).min(width - 1);
    (row.saturating_sub(1)..=row + 1).flat_map(move |row| columns.clone().map(move |column| row * width + column))
}

/// Returns the smallest rectangle around the pixels, or `None` if there are no pixels.
pub(crate) fn smallest_box(group: &[usize], width: usize) -> Option<SlantedBox> {
    let points: Vec<Point> = edges(group, width).into_iter().map(|(x, y)| (x as f32, y as f32)).collect();
    let hull = hull(points);
    let directions =
        hull.iter().zip(hull.iter().cycle().skip(1)).map(|(from, to)| (to.1 - from.1).atan2(to.0 - from.0));
    directions
        .chain([0.0])
        .map(|angle| bounding_box(&hull, angle))
        .min_by(|one, other| area(one).total_cmp(&area(other)))
}

fn area(of: &SlantedBox) -> f32 {
    of.length * of.height
}

/// Returns the first and last pixel in each row, as no other pixel can be on the hull.
fn edges(group: &[usize], width: usize) -> Vec<(usize, usize)> {
    let mut rows: std::collections::BTreeMap<usize, (usize, usize)> = std::collections::BTreeMap::new();
    for at in group {
        let (row, column) = (at / width, at % width);
        let ends = rows.entry(row).or_insert((column, column));
        *ends = (ends.0.min(column), ends.1.max(column));
    }
    rows.into_iter().flat_map(|(row, (first, last))| [(first, row), (last, row)]).collect()
}

/// Returns the convex hull, by the monotone chain algorithm.
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

/// Returns the rectangle in this direction around pixels of width 1.
fn bounding_box(hull: &[Point], angle: f32) -> SlantedBox {
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
    normalise_angle(found)
}

/// Returns the same rectangle with its angle within ±45 degrees.
fn normalise_angle(of: SlantedBox) -> SlantedBox {
    use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    // A rectangle is symmetric under a half turn.
    let angle = (of.angle + FRAC_PI_2).rem_euclid(PI) - FRAC_PI_2;
    if angle.abs() <= FRAC_PI_4 {
        return SlantedBox { angle, ..of };
    }
    let angle = if angle > 0.0 { angle - FRAC_PI_2 } else { angle + FRAC_PI_2 };
    SlantedBox { length: of.height, height: of.length, angle, ..of }
}

/// Maximum length of the longer side of the network's input, in pixels.
const MAX_SIDE: usize = 1024;
/// Divisor of both input sides, as the network halves its input repeatedly.
const STEP: usize = 32;
/// Range of the brightness difference between a pixel and the next but one that counts as an edge. The lower end
/// applies to even paper, the upper end to grainy paper.
const EDGE_THRESHOLDS: Range<u8> = 8..24;
/// Multiple of the median difference that counts as an edge.
const EDGE_FACTOR: usize = 6;
/// Minimum number of edges in a row or column with text. A speck has two.
const MIN_EDGES: usize = 3;
/// Margin around the text in the network's input, in pixels.
const MARGIN: usize = 32;
/// Mean and deviation of the colours in the network's training data.
const COLOURS: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];
/// Probability above which a pixel belongs to a line.
const MIN_PIXEL_PROBABILITY: f32 = 0.3;
/// Minimum mean probability of a line's pixels.
const MIN_LINE_PROBABILITY: f32 = 0.6;
/// Maximum number of lines in an image. A newspaper page has one or two thousand boxes.
pub const MAX_LINES: usize = 5000;
/// Minimum number of pixels in a line.
const MIN_LINE_PIXELS: usize = 12;
/// Factor by which boxes grow. The network only marks the middle of a line. Each side of the line is further out by
/// this factor times area over perimeter of the marked box.
const GROWTH: f32 = 1.5;

/// Box that may contain a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextBox {
    pub(crate) text_box: SlantedBox,
    /// Mean probability of the box's pixels.
    pub(crate) score: f32,
}

/// Boxes in an image, from top to bottom.
#[derive(Debug, Default)]
pub(crate) struct TextBoxes {
    pub(crate) boxes: Vec<TextBox>,
    /// True if there are more boxes.
    pub(crate) is_cut: bool,
}

/// Finds the boxes of possible lines.
pub(crate) fn boxes(recogniser: &Recogniser, picture: &Picture) -> Result<TextBoxes, OcrError> {
    let full = network_input(picture);
    let (columns, rows) = inked_ranges(&full);
    let corner = (columns.start as f32, rows.start as f32);
    let seen = full.part(columns, rows);
    let (width, height) = (seen.width(), seen.height());
    let options = RunOptions::default().with_thread_pool(Some(recogniser.wide.clone()));
    let mut numbers = Vec::with_capacity(3 * seen.pixels().len());
    for (mean, spread) in COLOURS {
        numbers.extend(seen.pixels().iter().map(|pixel| (f32::from(*pixel) / 255.0 - mean) / spread));
    }
    let input = NdTensor::from_data([1, 3, height, width], numbers);
    let answer = recogniser.detection.run_one(input.view().into(), Some(options))?;
    let map: NdTensor<f32, 4> =
        answer.try_into().map_err(|_| OcrError::UnexpectedOutput("expected a 4-dimensional f32 tensor"))?;
    if map.shape() != [1, 1, height, width] {
        return Err(OcrError::UnexpectedOutput("expected one probability per input pixel"));
    }
    let scale = (picture.width() as f32 / full.width() as f32, picture.height() as f32 / full.height() as f32);
    Ok(find_boxes(&map.to_vec(), width, corner, scale))
}

/// Returns boxes around the marked pixels of a probability map. The map shows the part of the image that starts at
/// `corner`, at another scale.
fn find_boxes(map: &[f32], width: usize, corner: Point, (x, y): (f32, f32)) -> TextBoxes {
    let is_set: Vec<bool> = map.iter().map(|probability| *probability > MIN_PIXEL_PROBABILITY).collect();
    let found = |group: &[usize]| {
        let sum: f32 = group.iter().filter_map(|at| map.get(*at)).sum();
        let score = sum / group.len() as f32;
        let text_box = smallest_box(group, width).filter(|_| score >= MIN_LINE_PROBABILITY)?;
        let by = GROWTH * text_box.length * text_box.height / (2.0 * (text_box.length + text_box.height)).max(1.0);
        let grown_box =
            SlantedBox { length: text_box.length + 2.0 * by, height: text_box.height + 2.0 * by, ..text_box };
        Some(TextBox { text_box: grown_box.moved(corner).scaled(x, y), score })
    };
    let mut found_boxes = TextBoxes::default();
    groups(&is_set, width, MIN_LINE_PIXELS, |group| {
        // Noise must not count towards the limit.
        let Some(found) = found(group) else { return ControlFlow::Continue(()) };
        if found_boxes.boxes.len() == MAX_LINES {
            found_boxes.is_cut = true;
            return ControlFlow::Break(());
        }
        found_boxes.boxes.push(found);
        ControlFlow::Continue(())
    });
    found_boxes
}

/// Scales an image to the network's input size, with sides that the network can halve.
fn network_input(picture: &Picture) -> Picture {
    let longer = picture.width().max(picture.height());
    let side = |side: usize| {
        let wanted = if longer > MAX_SIDE { side * MAX_SIDE / longer } else { side };
        (wanted.div_ceil(STEP) * STEP).max(STEP)
    };
    picture.resized(side(picture.width()), side(picture.height()))
}

/// Returns the columns and rows with content, as multiples of [`STEP`]. Skips page margins, whose pixels take as much
/// time as any other.
fn inked_ranges(seen: &Picture) -> (Range<usize>, Range<usize>) {
    let (mut across, mut down) = (vec![0_usize; seen.width()], vec![0_usize; seen.height()]);
    let edge = edge(seen);
    for (row, pixels) in down.iter_mut().zip(seen.pixels().chunks_exact(seen.width())) {
        // Text has edges; shading has none.
        for ((left, right), column) in pixels.iter().zip(pixels.iter().skip(2)).zip(&mut across) {
            let is_edge = left.abs_diff(*right) > edge;
            *column += usize::from(is_edge);
            *row += usize::from(is_edge);
        }
    }
    (stretch(&across), stretch(&down))
}

/// Returns the brightness difference that counts as an edge: small on even paper, so that pale text is found.
fn edge(seen: &Picture) -> u8 {
    let mut counts = [0_usize; 256];
    for (left, right) in seen.pixels().iter().zip(seen.pixels().iter().skip(2)) {
        counts[usize::from(left.abs_diff(*right))] += 1;
    }
    let half = counts.iter().sum::<usize>() / 2;
    let mut counted = 0;
    let grain = counts.iter().take_while(|count| {
        counted += **count;
        counted <= half
    });
    let edge = u8::try_from(grain.count() * EDGE_FACTOR).unwrap_or(u8::MAX);
    edge.clamp(EDGE_THRESHOLDS.start, EDGE_THRESHOLDS.end)
}

/// Returns the range from the first to the last position with edges, with a margin and rounded up to [`STEP`], or the
/// whole range if there are no edges.
fn stretch(edges: &[usize]) -> Range<usize> {
    let has_some = |edges: &usize| *edges >= MIN_EDGES;
    let (Some(first), Some(last)) = (edges.iter().position(has_some), edges.iter().rposition(has_some)) else {
        return 0..edges.len();
    };
    let first = first.saturating_sub(MARGIN);
    let length = (last + 1 + MARGIN - first).next_multiple_of(STEP).min(edges.len());
    let first = first.min(edges.len() - length);
    first..first + length
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects at most `max_groups` groups.
    fn groups(is_set: &[bool], width: usize, max_groups: usize, min_pixels: usize) -> Vec<Vec<usize>> {
        let mut groups = Vec::new();
        super::groups(is_set, width, min_pixels, |group| {
            groups.push(group.to_vec());
            if groups.len() == max_groups { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        groups
    }

    #[test]
    fn slanted_line_has_a_slanted_box() {
        const WIDTH: usize = 200;
        let mut is_set = vec![false; WIDTH * 100];
        for x in 10..190 {
            // Slope of one in ten.
            for y in 0..12 {
                is_set[(30 + x / 10 + y) * WIDTH + x] = true;
            }
        }
        is_set[WIDTH * 90 + 5] = true;
        let groups = groups(&is_set, WIDTH, 10, 4);
        assert_eq!(groups.len(), 1, "a single pixel is not a group");
        let found = smallest_box(&groups[0], WIDTH).unwrap();
        assert!((found.angle - 0.1_f32.atan()).abs() < 0.02, "{found:?}");
        assert!((found.length - 181.0).abs() < 4.0 && (found.height - 12.0).abs() < 2.5, "{found:?}");
        assert!((found.centre.0 - 100.0).abs() < 2.0 && (found.centre.1 - 45.5).abs() < 2.0, "{found:?}");
    }

    #[test]
    fn groups_do_not_wrap_across_the_edge() {
        // The last pixel of a row, and the first of the row after the next.
        let mut is_set = vec![false; 40];
        (is_set[9], is_set[20]) = (true, true);
        assert_eq!(groups(&is_set, 10, 10, 1).len(), 2);
        assert_eq!(groups(&[true; 40], 10, 10, 1)[0].len(), 40);
        assert_eq!(groups(&is_set, 10, 1, 1).len(), 1);
    }

    /// Adds blobs of sixteen pixels to a map, in rows from the top.
    fn blobs(map: &mut [f32], width: usize, count: usize, probability: f32) {
        let across = width / 8;
        for number in 0..count {
            let (row, column) = (number / across * 8, number % across * 8);
            for pixel in 0..16 {
                map[(row + pixel / 4) * width + column + pixel % 4] = probability;
            }
        }
    }

    #[test]
    fn noise_does_not_hide_a_line_below() {
        const WIDTH: usize = 640;
        let mut map = vec![0.0; WIDTH * 640];
        blobs(&mut map, WIDTH, MAX_LINES + 1000, 0.4);
        for pixel in 0..400 {
            map[(630 + pixel / 100) * WIDTH + 20 + pixel % 100] = 0.9;
        }
        let found = find_boxes(&map, WIDTH, (0.0, 0.0), (1.0, 1.0));
        assert_eq!((found.boxes.len(), found.is_cut), (1, false));
        assert!((found.boxes[0].text_box.centre.1 - 632.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn blank_margins_are_skipped() {
        let mut pixels = vec![240; 736 * 1024];
        // Shading over the page, a speck, and text in the middle.
        for (at, pixel) in pixels.iter_mut().enumerate() {
            *pixel -= u8::try_from(at / 736 / 8).unwrap();
        }
        pixels[20 * 736 + 700] = 0;
        for row in 400..410 {
            for column in (200..500).step_by(4) {
                pixels[row * 736 + column] = 30;
            }
        }
        let page = Picture::new(736, 1024, pixels).unwrap();
        let (columns, rows) = inked_ranges(&page);
        assert!(columns.start <= 198 - MARGIN && columns.end >= 496 + MARGIN && columns.len() < 400, "{columns:?}");
        assert!(rows.start <= 400 - MARGIN && rows.end >= 410 + MARGIN && rows.len() < 110, "{rows:?}");
        assert!(columns.len().is_multiple_of(STEP) && rows.len().is_multiple_of(STEP));
    }

    #[test]
    fn text_at_the_edges_is_detected() {
        for row in [0, 63] {
            let mut pixels = vec![240; 64 * 64];
            pixels[row * 64..][10..20].copy_from_slice(&[0, 0, 0, 240, 240, 240, 0, 0, 240, 240]);
            let (columns, rows) = inked_ranges(&Picture::new(64, 64, pixels).unwrap());
            assert!(rows.contains(&row) && rows.end <= 64 && columns.end <= 64, "{rows:?}");
        }
        // Without any edge, the whole image is used.
        assert_eq!(inked_ranges(&Picture::new(64, 96, vec![200; 64 * 96]).unwrap()), (0..64, 0..96));
    }

    #[test]
    fn pale_text_is_detected_but_grain_is_not() {
        const WIDTH: usize = 512;
        // Dark text at the top, and pale text at the bottom.
        let mut pixels = vec![250; WIDTH * 512];
        for (rows, colour) in [(100..110, 20), (400..410, 234)] {
            for at in rows.flat_map(|row| (100..400).step_by(4).map(move |column| row * WIDTH + column)) {
                pixels[at] = colour;
            }
        }
        let rows = |pixels| inked_ranges(&Picture::new(WIDTH, 512, pixels).unwrap()).1;
        let even = rows(pixels.clone());
        assert!(even.start > 32 && even.contains(&100) && even.contains(&409), "{even:?}");
        // On grainy paper, the pale text is not found.
        let mut random = 1_u32;
        for (at, pixel) in pixels.iter_mut().enumerate() {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let grain = u8::try_from(random >> 29).unwrap();
            *pixel = if at / WIDTH > 300 { 240 } else { *pixel } - grain;
        }
        let grainy = rows(pixels);
        assert!(grainy.contains(&100) && grainy.len() < 200, "{grainy:?}");
    }

    #[test]
    fn excess_lines_are_reported() {
        const WIDTH: usize = 800;
        for (count, is_cut) in [(MAX_LINES, false), (MAX_LINES + 1, true)] {
            let mut map = vec![0.0; WIDTH * 800];
            blobs(&mut map, WIDTH, count, 0.9);
            let found = find_boxes(&map, WIDTH, (0.0, 0.0), (1.0, 1.0));
            assert_eq!((found.boxes.len(), found.is_cut), (MAX_LINES, is_cut));
        }
    }
}
