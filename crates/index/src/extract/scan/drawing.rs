//! The pictures of a page of a PDF, drawn where they stand. Nothing else of a page is drawn: it has no letters, and lines and
//! areas say nothing.

use agentd_ocr::Picture;
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageData, ImageDrawProps, InterpreterCache,
    InterpreterSettings, LumaData, Paint, RgbData, SoftMask, TransformExt as _,
    font::GlyphRun,
    interpret_page,
    kurbo::{Affine, BezPath, Point, Rect},
};
use hayro_syntax::page::Page;

/// Pixels of a point: 200 of an inch, as offices scan.
const SCALE: f64 = 200.0 / 72.0;
/// The longer side of a drawn page at the most, in pixels.
const LONGEST: f64 = 2600.0;
/// Pictures of a page that are drawn; scans have a few, or one for each strip.
const MOST_PICTURES: u32 = 4000;
/// Pixels of all pictures that are drawn, with those that each covers.
const MOST_PIXELS: u64 = 400_000_000;
/// Pixels of a picture to each side that make one of the page, at the most.
const FINEST: i32 = 4;

/// A page as it is seen.
#[derive(Debug)]
pub(super) struct DrawnPage {
    pub(super) picture: Picture,
    /// Pixels of the pictures on it, as they were unpacked.
    pub(super) unpacked: u64,
}

/// The page as it is seen; none if it has no size.
pub(super) fn page(page: &Page<'_>) -> Option<DrawnPage> {
    let (width, height) = page.render_dimensions();
    let (width, height) = (f64::from(width), f64::from(height));
    let longer = width.max(height);
    if !longer.is_finite() || width < 1.0 || height < 1.0 {
        return None;
    }
    let scale = SCALE.min(LONGEST / longer);
    let mut canvas = Canvas::new(size(width * scale), size(height * scale));
    let place = Affine::scale(scale) * page.initial_transform(true).to_kurbo();
    let seen = Rect::new(0.0, 0.0, width * scale, height * scale);
    let cache = InterpreterCache::new();
    let mut context = Context::new(place, seen, &cache, page.xref(), InterpreterSettings::default());
    interpret_page(page, &mut context, &mut canvas);
    let picture = Picture::new(canvas.width, canvas.height, canvas.pixels)?;
    Some(DrawnPage { picture, unpacked: canvas.unpacked })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and bounded")]
const fn size(pixels: f64) -> usize {
    pixels.max(1.0) as usize
}

/// A white page on which pictures are drawn, in grey.
struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
    pictures: u32,
    /// Pixels of the pictures themselves.
    unpacked: u64,
    /// Pixels that may still be drawn.
    left: u64,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        let pixels = vec![u8::MAX; width * height];
        Self { width, height, pixels, pictures: 0, unpacked: 0, left: MOST_PIXELS }
    }

    /// Draws what has, at a pixel of itself, a brightness and a share to which it covers what is below.
    fn draw(&mut self, place: Affine, (width, height): (u32, u32), at: impl Fn(Pixel) -> Option<(u32, u32)>) {
        self.unpacked = self.unpacked.saturating_add(u64::from(width) * u64::from(height));
        let whole = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
        let seen = Rect::new(0.0, 0.0, self.width as f64, self.height as f64);
        let covered = place.transform_rect_bbox(whole).intersect(seen);
        let back = place.inverse();
        if covered.area() <= 0.0 || !back.is_finite() {
            return;
        }
        let fine = fineness(back);
        let cost = covered.area() * f64::from(fine * fine);
        self.left = self.left.saturating_sub(size(cost) as u64);
        if self.left == 0 {
            return;
        }
        let (columns, rows) = (span(covered.x0, covered.x1, self.width), span(covered.y0, covered.y1, self.height));
        let source = Source::of(back, (width, height), fine, &columns);
        for row in rows {
            let line = source.line(row);
            let start = row * self.width;
            let Some(pixels) = self.pixels.get_mut(start + columns.start..start + columns.end) else { continue };
            for (number, pixel) in pixels.iter_mut().enumerate() {
                let (mut brightness, mut share) = (0, 0);
                line.pixels(number, |found| {
                    let (bright, covers) = at(found).unwrap_or_default();
                    brightness += bright * covers;
                    share += covers;
                });
                let whole = 255 * (fine * fine).unsigned_abs();
                let mixed = (brightness + u32::from(*pixel) * (whole - share.min(whole))) / whole;
                *pixel = u8::try_from(mixed).unwrap_or(u8::MAX);
            }
        }
    }

    fn draw_raster(&mut self, place: Affine, image: &ImageData, mask: Option<&LumaData>) {
        let (across, down) = image.scale_factors();
        let place = place * Affine::scale_non_uniform(f64::from(across), f64::from(down));
        let size = (image.width(), image.height());
        self.draw(place, size, |pixel| {
            let bright = match image {
                ImageData::Luma(luma) => grey(luma, pixel)?,
                ImageData::Rgb(colours) => colour(colours, pixel)?,
            };
            let covers = mask.map(|mask| grey(mask, pixel.scaled(size, (mask.width, mask.height))));
            Some((bright, covers.map_or(255, Option::unwrap_or_default)))
        });
    }

    fn draw_stencil(&mut self, place: Affine, stencil: &LumaData, paint: &Paint<'_>) {
        let (across, down) = stencil.scale_factors;
        let place = place * Affine::scale_non_uniform(f64::from(across), f64::from(down));
        let [red, green, blue, alpha] = match paint {
            Paint::Color(colour) => colour.to_rgba().to_rgba8(),
            Paint::Pattern(_) => [0, 0, 0, u8::MAX],
        };
        let bright = brightness(red, green, blue);
        self.draw(place, (stencil.width, stencil.height), |pixel| {
            Some((bright, grey(stencil, pixel)? * u32::from(alpha) / 255))
        });
    }
}

/// Pixels of a picture to each side that make one of the page.
#[expect(clippy::cast_possible_truncation, reason = "clamped")]
fn fineness(back: Affine) -> i32 {
    let [a, b, c, d, ..] = back.as_coeffs();
    let step = a.hypot(b).max(c.hypot(d));
    (step.ceil().clamp(1.0, f64::from(FINEST))) as i32
}

/// Pixels of the page from one edge to the other.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the page")]
fn span(from: f64, to: f64, most: usize) -> std::ops::Range<usize> {
    (from.floor().max(0.0) as usize).min(most)..(to.ceil().max(0.0) as usize).min(most)
}

/// A pixel of a picture, by its column and row.
#[derive(Clone, Copy)]
struct Pixel {
    x: u32,
    y: u32,
}

impl Pixel {
    fn at(point: Point, size: (u32, u32)) -> Option<Self> {
        Some(Self { x: step(point.x, size.0)?, y: step(point.y, size.1)? })
    }

    /// The same place in a picture of another size.
    fn scaled(self, from: (u32, u32), to: (u32, u32)) -> Self {
        let scaled = |at: u32, from: u32, to: u32| {
            let scaled = (2 * u64::from(at) + 1) * u64::from(to) / (2 * u64::from(from.max(1)));
            u32::try_from(scaled).unwrap_or(u32::MAX)
        };
        Self { x: scaled(self.x, from.0, to.0), y: scaled(self.y, from.1, to.1) }
    }

    const fn index(self, width: u32) -> usize {
        self.y as usize * width as usize + self.x as usize
    }
}

/// The column or row of a place; none outside.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the picture")]
fn step(at: f64, length: u32) -> Option<u32> {
    (0.0..f64::from(length)).contains(&at).then_some(at as u32)
}

/// Pixels of a picture that stand at the pixels of a page. Most pictures are upright: then a column of the page is a column of
/// the picture in all rows, and is computed once.
struct Source {
    back: Affine,
    size: (u32, u32),
    fine: i32,
    /// The first column of the page.
    first: usize,
    /// Columns of the picture for each of the page, so many each; of a picture that is not upright none.
    upright: Option<Vec<Option<u32>>>,
}

/// One row of it.
struct SourceLine<'a> {
    source: &'a Source,
    row: usize,
    /// Rows of an upright picture.
    rows: [Option<u32>; FINEST as usize],
}

impl Source {
    fn of(back: Affine, size: (u32, u32), fine: i32, columns: &std::ops::Range<usize>) -> Self {
        let [a, b, c, _, e, _] = back.as_coeffs();
        let is_upright = b == 0.0 && c == 0.0;
        let places = || columns.clone().flat_map(|column| (0..fine).map(move |part| within(column, part, fine)));
        let upright = is_upright.then(|| places().map(|x| step(a * x + e, size.0)).collect());
        Self { back, size, fine, first: columns.start, upright }
    }

    fn line(&self, row: usize) -> SourceLine<'_> {
        let [.., d, _, f] = self.back.as_coeffs();
        let mut rows = [None; FINEST as usize];
        for (found, part) in rows.iter_mut().zip(0..self.fine) {
            *found = step(d * within(row, part, self.fine) + f, self.size.1);
        }
        SourceLine { source: self, row, rows }
    }
}

impl SourceLine<'_> {
    /// Tells all that stand at one pixel of the page, which is counted from the first column.
    fn pixels(&self, number: usize, mut tell: impl FnMut(Pixel)) {
        let Source { back, size, fine, first, upright } = self.source;
        if let Some(columns) = upright {
            let start = number * fine.unsigned_abs() as usize;
            let columns = columns.get(start..start + fine.unsigned_abs() as usize).unwrap_or_default();
            for y in self.rows.iter().flatten() {
                columns.iter().flatten().for_each(|x| tell(Pixel { x: *x, y: *y }));
            }
            return;
        }
        for part in 0..fine * fine {
            let (x, y) = (within(first + number, part % fine, *fine), within(self.row, part / fine, *fine));
            if let Some(pixel) = Pixel::at(*back * Point::new(x, y), *size) {
                tell(pixel);
            }
        }
    }
}

/// Middle of a part of a pixel.
fn within(pixel: usize, part: i32, fine: i32) -> f64 {
    pixel as f64 + (f64::from(part) + 0.5) / f64::from(fine)
}

fn grey(luma: &LumaData, pixel: Pixel) -> Option<u32> {
    luma.data.get(pixel.index(luma.width)).map(|grey| u32::from(*grey))
}

fn colour(colours: &RgbData, pixel: Pixel) -> Option<u32> {
    let start = 3 * pixel.index(colours.width);
    let [red, green, blue] = colours.data.get(start..start + 3)? else { return None };
    Some(brightness(*red, *green, *blue))
}

/// Brightness of a colour, as eyes weigh it.
fn brightness(red: u8, green: u8, blue: u8) -> u32 {
    (299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue)) / 1000
}

impl<'a> Device<'a> for Canvas {
    fn draw_image(&mut self, image: Image<'a, '_>, props: ImageDrawProps<'a>) {
        self.pictures += 1;
        if self.pictures > MOST_PICTURES || self.left == 0 {
            return;
        }
        match image {
            Image::Raster(raster) => {
                raster.with_rgba(|image, mask| self.draw_raster(props.transform, &image, mask.as_ref()), None);
            }
            Image::Stencil(stencil) => {
                stencil.with_stencil(|stencil, paint| self.draw_stencil(props.transform, &stencil, paint), None);
            }
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_glyph_run(&mut self, _: &GlyphRun<'_, 'a>, _: DrawProps<'a>, _: &DrawMode) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}
