//! Renders a PDF page in colour for models that see: filled and stroked paths, letters and images, within their clips.
//! Of the blend modes, only those that darken are drawn, such as that of highlighted text.

use std::{ops::Range, sync::Arc};

use hayro_cmap::BfString;
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, FillRule, Image, ImageData, ImageDrawProps,
    InterpreterCache, InterpreterSettings, LumaData, MaskType, Paint, SoftMask, StrokeProps, TransformExt as _,
    font::{Glyph, GlyphRun},
    interpret_page,
    kurbo::{self, Affine, BezPath, PathEl, Point, Rect, Stroke, StrokeOpts},
    pattern::{Pattern, TilingPattern},
};
use hayro_syntax::Pdf;
use image::RgbImage;

use super::drawing::{brightness, parts, span};

/// Length of the longer side of a rendered page, in pixels.
const SIDE: f64 = 1568.0;
/// Number of samples per pixel in the vertical direction.
const SAMPLES: usize = 4;
/// Maximum number of pixels and line crossings that are computed per page.
const MAX_WORK: usize = 600_000_000;
/// Maximum deviation from a curve, in pixels.
const TOLERANCE: f64 = 0.2;
/// Distance from the page, in pixels, at which shapes are left out.
const FAR: f64 = 1e6;
/// Work per tile of a pattern, in addition to that of its shapes.
const TILE_WORK: usize = 1000;
/// Colour in place of a pattern with too many tiles.
const PATTERN: [u8; 4] = [160, 160, 160, u8::MAX];

/// Renders a page, numbered from 1. The error is the end of a sentence about the document.
pub(crate) fn render(document: Vec<u8>, number: u32) -> Result<RgbImage, String> {
    let document = Pdf::new(document).map_err(|_| "it is damaged, or protected by a password".to_owned())?;
    let pages = document.pages();
    let wanted = usize::try_from(number).ok().and_then(|number| pages.get(number.checked_sub(1)?));
    let page = wanted.ok_or_else(|| format!("it has {} pages, so there is no page {number}", pages.len()))?;
    let (width, height) = page.render_dimensions();
    let (width, height) = (f64::from(width), f64::from(height));
    let scale = SIDE / width.max(height);
    if !scale.is_finite() || width < 1.0 || height < 1.0 {
        return Err(format!("its page {number} has no size"));
    }
    let (width, height) = (width * scale, height * scale);
    let mut canvas = Canvas::new(width.max(1.0) as usize, height.max(1.0) as usize);
    let place = Affine::scale(scale) * page.initial_transform(true).to_kurbo();
    let cache = InterpreterCache::new();
    let seen = Rect::new(0.0, 0.0, width, height);
    let settings =
        InterpreterSettings { cmap_resolver: Arc::new(hayro_cmap::load_embedded), ..InterpreterSettings::default() };
    let mut context = Context::new(place, seen, &cache, page.xref(), settings);
    interpret_page(page, &mut context, &mut canvas);
    if canvas.missing > canvas.letters {
        return Err(format!("most letters of its page {number} are in a font that is not in the file"));
    }
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or_default();
    RgbImage::from_raw(side(canvas.width), side(canvas.height), canvas.pixels.into_flattened())
        .ok_or_else(|| format!("its page {number} could not be drawn"))
}

/// White page with the shapes that were drawn so far.
struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 3]>,
    /// Clips in effect. The last one includes all others.
    clips: Vec<Coverage>,
    /// Open groups. The last one includes all others.
    layers: Vec<Layer>,
    /// True if all shapes are white, so that brightness is coverage.
    is_white: bool,
    /// Number of letters with a shape, and of those without.
    letters: usize,
    missing: usize,
    /// Amount of work that may still be done.
    left: usize,
}

/// Properties of everything that is drawn in a group.
#[derive(Clone, Copy)]
struct Layer {
    /// Opacity, up to 255.
    opacity: u32,
    /// True if colours are multiplied with those below.
    multiplies: bool,
    /// True if the last clip is the soft mask of the group.
    is_masked: bool,
}

impl Layer {
    const PAGE: Self = Self { opacity: 255, multiplies: false, is_masked: false };
}

/// Share of each pixel that a shape covers, up to 255, in a part of the page.
struct Coverage {
    columns: Range<usize>,
    rows: Range<usize>,
    cells: Vec<u8>,
}

impl Coverage {
    fn at(&self, column: usize, row: usize) -> u32 {
        if !self.columns.contains(&column) || !self.rows.contains(&row) {
            return 0;
        }
        let at = (row - self.rows.start) * self.columns.len() + column - self.columns.start;
        self.cells.get(at).map_or(0, |cell| u32::from(*cell))
    }
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        let pixels = vec![[u8::MAX; 3]; width * height];
        let (clips, layers, is_white, letters, missing) = (Vec::new(), Vec::new(), false, 0, 0);
        Self { width, height, pixels, clips, layers, is_white, letters, missing, left: MAX_WORK }
    }

    /// Returns the columns and rows of a rectangle that are visible.
    fn visible(&self, rect: Rect) -> (Range<usize>, Range<usize>) {
        let (columns, rows) = (span(rect.x0, rect.x1, self.width), span(rect.y0, rect.y1, self.height));
        match self.clips.last() {
            Some(clip) => (common(&columns, &clip.columns), common(&rows, &clip.rows)),
            None => (columns, rows),
        }
    }

    /// Returns false once the page has taken too much work.
    fn can_work(&mut self, amount: usize) -> bool {
        self.left = self.left.saturating_sub(amount);
        self.left > 0
    }

    /// Computes the coverage of a shape.
    fn cover(&mut self, path: &BezPath, rule: FillRule) -> Coverage {
        let lines = lines(path);
        let points = lines.iter().flat_map(|(from, to)| [*from, *to]);
        let bounds = points.map(|point| Rect::from_points(point, point)).reduce(|one, other| one.union(other));
        let (columns, rows) = self.visible(bounds.unwrap_or_default());
        let mut crossings: Vec<Vec<(f64, i32)>> = vec![Vec::new(); rows.len() * SAMPLES];
        let mut work = columns.len() * rows.len();
        for (from, to) in lines {
            let (top, bottom, direction) = if from.y < to.y { (from, to, 1) } else { (to, from, -1) };
            let slope = (bottom.x - top.x) / (bottom.y - top.y);
            let sample = |y: f64| ((y - rows.start as f64) * SAMPLES as f64 - 0.5).ceil().max(0.0) as usize;
            let crossed = sample(top.y)..sample(bottom.y).min(crossings.len());
            work += crossed.len();
            if work > self.left {
                break;
            }
            for at in crossed {
                let y = rows.start as f64 + (at as f64 + 0.5) / SAMPLES as f64;
                crossings[at].push((top.x + (y - top.y) * slope - columns.start as f64, direction));
            }
        }
        let mut cells = Vec::new();
        if self.can_work(work) {
            cells.reserve_exact(columns.len() * rows.len());
            for row in crossings.chunks_mut(SAMPLES) {
                let mut covered = vec![0.0_f32; columns.len()];
                row.iter_mut().for_each(|crossings| add_spans(&mut covered, crossings, rule));
                cells.extend(covered.iter().map(|share| (share * (255.0 / SAMPLES as f32) + 0.5) as u8));
            }
        }
        Coverage { columns, rows, cells }
    }

    /// Fills a shape. `colour` returns the colour at a point.
    fn fill(&mut self, path: &BezPath, rule: FillRule, colour: impl Fn(Point) -> [u8; 4]) {
        let coverage = self.cover(path, rule);
        for row in coverage.rows.clone() {
            for column in coverage.columns.clone() {
                let share = coverage.at(column, row);
                if share > 0 {
                    let [red, green, blue, alpha] = colour(Point::new(column as f64 + 0.5, row as f64 + 0.5));
                    self.blend((column, row), [red, green, blue], share * u32::from(alpha) / 255);
                }
            }
        }
    }

    fn paint(&mut self, path: &BezPath, rule: FillRule, paint: &Paint<'_>, is_stroke: bool) {
        let Paint::Pattern(pattern) = paint else {
            let colour = colour(paint);
            return self.fill(path, rule, |_| colour);
        };
        match &**pattern {
            Pattern::Shading(shading) => {
                let shading = shading.encode();
                self.fill(path, rule, |at| {
                    shading.sample(shading.base_transform * at).map(|part| (part.clamp(0.0, 1.0) * 255.0 + 0.5) as u8)
                });
            }
            Pattern::Tiling(tiling) => self.tile(path, rule, tiling, is_stroke),
        }
    }

    /// Fills a shape with the tiles of a pattern.
    fn tile(&mut self, path: &BezPath, rule: FillRule, tiling: &TilingPattern<'_>, is_stroke: bool) {
        let (back, bounds) = (tiling.matrix.inverse(), tiling.bbox);
        let (across, down) = (f64::from(tiling.x_step).abs(), f64::from(tiling.y_step).abs());
        self.push_clip_path(&ClipPath { path: path.clone(), fill: rule });
        let (columns, rows) = self.visible(Rect::new(0.0, 0.0, self.width as f64, self.height as f64));
        let seen = Rect::new(columns.start as f64, rows.start as f64, columns.end as f64, rows.end as f64);
        let seen = back.transform_rect_bbox(seen);
        let range = |from: f64, to: f64, step: f64| (from / step).floor() as i64..=(to / step).ceil() as i64;
        let columns = range(seen.x0 - bounds.x1, seen.x1 - bounds.x0, across);
        let rows = range(seen.y0 - bounds.y1, seen.y1 - bounds.y0, down);
        let length =
            |range: &std::ops::RangeInclusive<i64>| range.end().saturating_sub(*range.start()).saturating_add(1);
        let tiles = usize::try_from(length(&columns).saturating_mul(length(&rows))).unwrap_or(usize::MAX);
        let work = tiles.saturating_mul(TILE_WORK);
        if back.is_finite() && work < self.left {
            self.can_work(work);
            self.push_transparency_group(tiling.opacity, None, BlendMode::Normal);
            for (column, row) in rows.flat_map(|row| columns.clone().map(move |column| (column, row))) {
                let place = Affine::translate((column as f64 * across, row as f64 * down));
                tiling.interpret(self, tiling.matrix * place, is_stroke);
            }
            self.pop_transparency_group();
        } else {
            self.fill(path, rule, |_| PATTERN);
        }
        self.pop_clip();
    }

    /// Adds a clip within the present one.
    fn push_coverage(&mut self, mut coverage: Coverage) {
        if let Some(outer) = self.clips.last() {
            let places =
                coverage.rows.clone().flat_map(|row| coverage.columns.clone().map(move |column| (column, row)));
            for (cell, (column, row)) in coverage.cells.iter_mut().zip(places) {
                *cell = (u32::from(*cell) * outer.at(column, row) / 255) as u8;
            }
        }
        self.clips.push(coverage);
    }

    /// Adds the clip of a soft mask, which is drawn on a page of its own.
    fn push_mask(&mut self, mask: &SoftMask<'_>) {
        let (columns, rows) = self.visible(Rect::new(0.0, 0.0, self.width as f64, self.height as f64));
        let mut drawn = Self::new(self.width, self.height);
        drawn.left = self.left.saturating_sub(drawn.pixels.len());
        drawn.is_white = mask.mask_type() == MaskType::Alpha;
        let [red, green, blue, _] = mask.background_color().to_rgba().to_rgba8();
        drawn.pixels.fill([red, green, blue]);
        mask.interpret(&mut drawn);
        self.left = drawn.left;
        let mut cells = Vec::with_capacity(columns.len() * rows.len());
        for row in rows.clone() {
            let line = &drawn.pixels[row * self.width..][columns.clone()];
            cells.extend(line.iter().map(|[red, green, blue]| brightness(*red, *green, *blue)));
        }
        if let Some(function) = mask.transfer_function() {
            function.apply_to(&mut cells);
        }
        self.push_coverage(Coverage { columns, rows, cells });
    }

    fn blend(&mut self, (column, row): (usize, usize), colour: [u8; 3], share: u32) {
        let clip = self.clips.last().map_or(255, |clip| clip.at(column, row));
        let layer = self.layers.last().copied().unwrap_or(Layer::PAGE);
        let share = share * clip * layer.opacity / (255 * 255);
        let colour = if self.is_white { [u8::MAX; 3] } else { colour };
        let Some(pixel) = self.pixels.get_mut(row * self.width + column).filter(|_| share > 0) else { return };
        for (below, above) in pixel.iter_mut().zip(colour) {
            let above = if layer.multiplies { (u32::from(above) * u32::from(*below) / 255) as u8 } else { above };
            *below = ((u32::from(*below) * (255 - share) + u32::from(above) * share + 127) / 255) as u8;
        }
    }

    /// Draws an image. `at` returns the colour and the coverage of a pixel of the image.
    fn draw(&mut self, place: Affine, (width, height): (u32, u32), at: impl Fn(usize) -> ([u8; 3], u32)) {
        let (columns, rows) =
            self.visible(place.transform_rect_bbox(Rect::new(0.0, 0.0, f64::from(width), f64::from(height))));
        let back = place.inverse();
        let parts = if back.is_finite() { parts(back) } else { Vec::new() };
        if !self.can_work(columns.len() * rows.len() * parts.len()) {
            return;
        }
        for (column, row) in rows.flat_map(|row| columns.clone().map(move |column| (column, row))) {
            let (mut sums, mut shares) = ([0; 3], 0);
            for (x, y) in &parts {
                let point = back * Point::new(column as f64 + x, row as f64 + y);
                if point.x < 0.0 || point.y < 0.0 || point.x >= f64::from(width) || point.y >= f64::from(height) {
                    continue;
                }
                let (colour, share) = at(point.y as usize * width as usize + point.x as usize);
                sums.iter_mut().zip(colour).for_each(|(sum, part)| *sum += u32::from(part) * share);
                shares += share;
            }
            if shares > 0 {
                let samples = u32::try_from(parts.len()).unwrap_or(1);
                self.blend((column, row), sums.map(|sum| (sum / shares) as u8), shares / samples);
            }
        }
    }

    fn draw_raster(&mut self, place: Affine, image: &ImageData, mask: Option<&LumaData>) {
        let (across, down) = image.scale_factors();
        let place = place * Affine::scale_non_uniform(f64::from(across), f64::from(down));
        let (width, height) = (image.width(), image.height());
        let colour = |at: usize| match image {
            ImageData::Luma(luma) => luma.data.get(at).map_or([u8::MAX; 3], |grey| [*grey; 3]),
            ImageData::Rgb(colours) => {
                colours.data.get(at * 3..).and_then(|data| data.first_chunk()).copied().unwrap_or([u8::MAX; 3])
            }
        };
        // A mask of another size is scaled to the image.
        let covers = |at: usize| {
            let Some(mask) = mask else { return 255 };
            let (x, y) = (at % width as usize, at / width as usize);
            let x = x * mask.width as usize / width as usize;
            let y = y * mask.height as usize / height as usize;
            mask.data.get(y * mask.width as usize + x).map_or(0, |cell| u32::from(*cell))
        };
        self.draw(place, (width, height), |at| (colour(at), covers(at)));
    }

    fn draw_stencil(&mut self, place: Affine, stencil: &LumaData, paint: &Paint<'_>) {
        let (across, down) = stencil.scale_factors;
        let place = place * Affine::scale_non_uniform(f64::from(across), f64::from(down));
        let [red, green, blue, alpha] = colour(paint);
        let covers = |at: usize| stencil.data.get(at).map_or(0, |cell| u32::from(*cell) * u32::from(alpha) / 255);
        self.draw(place, (stencil.width, stencil.height), |at| ([red, green, blue], covers(at)));
    }
}

/// Returns the common part of two ranges, which is empty if they do not overlap.
fn common(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

/// Returns true unless a shape reaches so far outside of the page that its curves would have too many lines.
fn is_near(path: &BezPath) -> bool {
    let Rect { x0, y0, x1, y1 } = path.control_box();
    path.is_finite() && [x0, y0, x1, y1].iter().all(|side| side.abs() < FAR)
}

/// Returns the straight lines around a shape, with each subpath closed.
fn lines(path: &BezPath) -> Vec<(Point, Point)> {
    let (mut lines, mut start, mut last) = (Vec::new(), Point::ZERO, Point::ZERO);
    if is_near(path) {
        kurbo::flatten(path, TOLERANCE, |element| match element {
            PathEl::MoveTo(point) => {
                lines.push((last, start));
                (start, last) = (point, point);
            }
            PathEl::LineTo(point) => {
                lines.push((last, point));
                last = point;
            }
            _ => {
                lines.push((last, start));
                last = start;
            }
        });
        lines.push((last, start));
    }
    // Level lines are never crossed.
    lines.retain(|(from, to)| (from.y - to.y).abs() > 0.0);
    lines
}

/// Adds the parts of a row of pixels that are inside a shape, given the crossings of its lines with the row.
fn add_spans(covered: &mut [f32], crossings: &mut [(f64, i32)], rule: FillRule) {
    crossings.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (end, mut winding) = (covered.len() as f64, 0);
    for pair in crossings.windows(2) {
        winding += pair[0].1;
        let is_inside = match rule {
            FillRule::NonZero => winding != 0,
            FillRule::EvenOdd => winding % 2 != 0,
        };
        if is_inside {
            let (from, to) = (pair[0].0.clamp(0.0, end), pair[1].0.clamp(0.0, end));
            for (column, share) in covered.iter_mut().enumerate().take(to.ceil() as usize).skip(from as usize) {
                *share += (to.min(column as f64 + 1.0) - from.max(column as f64)) as f32;
            }
        }
    }
}

fn colour(paint: &Paint<'_>) -> [u8; 4] {
    match paint {
        Paint::Color(colour) => colour.to_rgba().to_rgba8(),
        Paint::Pattern(_) => PATTERN,
    }
}

/// Returns the shape of a stroked path, at least a pixel wide.
fn outline(path: &BezPath, stroke: &StrokeProps, place: Affine) -> BezPath {
    let scale = place.determinant().abs().sqrt().max(1e-6);
    let width = f64::from(stroke.line_width).max(1.0 / scale);
    let style = Stroke::new(width).with_join(stroke.line_join).with_caps(stroke.line_cap);
    let style = style.with_miter_limit(f64::from(stroke.miter_limit));
    let dashes: Vec<f64> = stroke.dash_array.iter().map(|dash| f64::from(*dash)).collect();
    // Dashes that are too short to be seen would take much work.
    let period: f64 = dashes.iter().sum();
    let is_dashed = dashes.iter().all(|dash| *dash >= 0.0) && period * scale >= 1.0;
    let offset = f64::from(stroke.dash_offset).rem_euclid(period);
    let style = if is_dashed { style.with_dashes(offset, dashes) } else { style };
    if !is_near(&(place * path)) || !style.is_finite() {
        return BezPath::new();
    }
    place * kurbo::stroke(path, &style, &StrokeOpts::default(), TOLERANCE / scale)
}

impl<'a> Device<'a> for Canvas {
    fn draw_path(&mut self, path: &BezPath, props: DrawProps<'a>, mode: &DrawMode) {
        let (filled, stroked) = match mode {
            DrawMode::Fill(rule) => (Some(*rule), None),
            DrawMode::Stroke(stroke) => (None, Some(stroke)),
            DrawMode::FillAndStroke(rule, stroke) => (Some(*rule), Some(stroke)),
            DrawMode::Invisible => (None, None),
        };
        self.push_transparency_group(1.0, props.soft_mask.clone(), props.blend_mode);
        if let Some(rule) = filled {
            self.paint(&(props.transform * path), rule, &props.paint, false);
        }
        if let Some(stroke) = stroked {
            self.paint(&outline(path, stroke, props.transform), FillRule::NonZero, &props.paint, true);
        }
        self.pop_transparency_group();
    }

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, mode: &DrawMode) {
        if matches!(mode, DrawMode::Invisible) {
            return;
        }
        self.push_transparency_group(1.0, props.soft_mask.clone(), props.blend_mode);
        for glyph in run.glyphs() {
            let place = glyph.transform();
            match &**glyph {
                Glyph::Outline(letter) => {
                    let shape = props.transform * place * letter.outline();
                    let is_space = glyph.as_unicode().is_some_and(|text| match text {
                        BfString::Char(letter) => letter.is_whitespace(),
                        BfString::String(text) => text.trim().is_empty(),
                    });
                    self.letters += usize::from(!shape.is_empty());
                    self.missing += usize::from(shape.is_empty() && !is_space);
                    self.paint(&shape, FillRule::NonZero, &props.paint, false);
                }
                Glyph::Type3(letter) => letter.interpret(self, props.transform, place, &props.paint),
            }
        }
        self.pop_transparency_group();
    }

    fn draw_image(&mut self, image: Image<'a, '_>, props: ImageDrawProps<'a>) {
        self.push_transparency_group(1.0, props.soft_mask.clone(), props.blend_mode);
        match image {
            Image::Raster(raster) => {
                raster.with_rgba(|image, mask| self.draw_raster(props.transform, &image, mask.as_ref()), None);
            }
            Image::Stencil(stencil) => {
                stencil.with_stencil(|stencil, paint| self.draw_stencil(props.transform, &stencil, paint), None);
            }
        }
        self.pop_transparency_group();
    }

    fn push_clip_path(&mut self, clip: &ClipPath) {
        let coverage = self.cover(&clip.path, clip.fill);
        self.push_coverage(coverage);
    }

    fn pop_clip(&mut self) {
        self.clips.pop();
    }

    fn push_transparency_group(&mut self, opacity: f32, mask: Option<SoftMask<'a>>, mode: BlendMode) {
        let outer = self.layers.last().copied().unwrap_or(Layer::PAGE);
        if let Some(mask) = &mask {
            self.push_mask(mask);
        }
        self.layers.push(Layer {
            opacity: (outer.opacity as f32 * opacity.clamp(0.0, 1.0)) as u32,
            multiplies: outer.multiplies || matches!(mode, BlendMode::Multiply | BlendMode::Darken),
            is_masked: mask.is_some(),
        });
    }

    fn pop_transparency_group(&mut self) {
        if self.layers.pop().is_some_and(|layer| layer.is_masked) {
            self.clips.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(from: f64, to: f64) -> BezPath {
        let mut path = BezPath::new();
        path.move_to((from, from));
        [(to, from), (to, to), (from, to)].into_iter().for_each(|corner| path.line_to(corner));
        path
    }

    /// Returns the red parts of the pixels after the shape was filled in black on a page of 4 by 4 pixels.
    fn filled(canvas: &mut Canvas, path: &BezPath, rule: FillRule) -> Vec<u8> {
        canvas.fill(path, rule, |_| [0, 0, 0, u8::MAX]);
        canvas.pixels.iter().map(|pixel| pixel[0]).collect()
    }

    #[test]
    fn shapes_are_filled_by_share_within_the_clip() {
        let path = square(0.5, 3.0);
        let expected = [191, 128, 128, 255, 128, 0, 0, 255, 128, 0, 0, 255, 255, 255, 255, 255];
        let near = |found: &[u8]| found.iter().zip(expected).all(|(one, other)| one.abs_diff(other) < 2);
        let found = filled(&mut Canvas::new(4, 4), &path, FillRule::NonZero);
        assert!(near(&found), "{found:?}");
        let mut clipped = Canvas::new(4, 4);
        clipped.push_clip_path(&ClipPath { path: square(1.0, 2.0), fill: FillRule::EvenOdd });
        let found = filled(&mut clipped, &path, FillRule::NonZero);
        let black: Vec<usize> = (0..16).filter(|at| found[*at] == 0).collect();
        assert_eq!((black, found.iter().filter(|red| **red == 255).count()), (vec![5], 15));
        clipped.pop_clip();
        assert!(near(&filled(&mut clipped, &path, FillRule::NonZero)));
    }

    #[test]
    fn rules_decide_about_holes() {
        let mut path = square(0.0, 4.0);
        path.extend(square(1.0, 3.0));
        let whole = filled(&mut Canvas::new(4, 4), &path, FillRule::NonZero);
        let holed = filled(&mut Canvas::new(4, 4), &path, FillRule::EvenOdd);
        assert_eq!((whole[5], holed[5], whole[0], holed[0]), (0, 255, 0, 0));
    }

    #[test]
    fn hostile_shapes_are_left_out() {
        let mut canvas = Canvas::new(4, 4);
        for far in [f64::NAN, f64::INFINITY, 1e300] {
            let mut path = square(0.5, 3.0);
            path.line_to((far, -far));
            canvas.fill(&path, FillRule::NonZero, |_| [0, 0, 0, u8::MAX]);
            let stroke = StrokeProps { line_width: f32::MAX, ..StrokeProps::default() };
            canvas.fill(&outline(&path, &stroke, Affine::IDENTITY), FillRule::NonZero, |_| [0, 0, 0, u8::MAX]);
        }
        assert!(render(b"%PDF-1.7\n".to_vec(), 1).is_err());
    }
}
