//! Renders the images on a PDF page. Text, lines and areas are not drawn: text is extracted directly, and lines and
//! areas contain no text.

use std::borrow::Cow;

use agentd_ocr::Picture;
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageData, ImageDrawProps, InterpreterCache,
    InterpreterSettings, LumaData, Paint, SoftMask, TransformExt as _,
    font::GlyphRun,
    interpret_page,
    kurbo::{Affine, BezPath, Point, Rect},
};
use hayro_syntax::page::Page;

/// Pixels per point, for 200 pixels per inch as in office scans.
const SCALE: f64 = 200.0 / 72.0;
/// Maximum length of the longer side of a rendered page, in pixels.
const MAX_PAGE_SIDE: f64 = 2600.0;
/// Maximum number of images per page. Scans have a few images, or one per strip.
const MAX_IMAGES: u32 = 4000;
/// Maximum number of pixels drawn per page, including samples and overlapping images.
const MAX_PIXELS: u64 = 400_000_000;
/// Maximum number of samples per pixel in each direction.
const MAX_SAMPLES: i32 = 4;
/// Number of additional image pixels per page pixel, in each direction, that do not require another sample.
const SAMPLING_TOLERANCE: f64 = 0.2;

/// Renders a page in grey, or returns `None` if the page has no size.
pub(super) fn page(page: &Page<'_>) -> Option<Picture> {
    let (width, height) = page.render_dimensions();
    let (width, height) = (f64::from(width), f64::from(height));
    let longer = width.max(height);
    if !longer.is_finite() || width < 1.0 || height < 1.0 {
        return None;
    }
    let scale = SCALE.min(MAX_PAGE_SIDE / longer);
    let mut canvas = Canvas::new(size(width * scale), size(height * scale));
    let place = Affine::scale(scale) * page.initial_transform(true).to_kurbo();
    let seen = Rect::new(0.0, 0.0, width * scale, height * scale);
    let cache = InterpreterCache::new();
    let mut context = Context::new(place, seen, &cache, page.xref(), InterpreterSettings::default());
    interpret_page(page, &mut context, &mut canvas);
    Picture::new(canvas.width, canvas.height, canvas.pixels)
}

const fn size(pixels: f64) -> usize {
    pixels.max(1.0) as usize
}

/// White page on which images are drawn in grey.
struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
    pictures: u32,
    /// Number of pixels that may still be drawn.
    left: u64,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        let pixels = vec![u8::MAX; width * height];
        Self { width, height, pixels, pictures: 0, left: MAX_PIXELS }
    }

    /// Draws an image. `at` returns the brightness and the coverage at a point in image coordinates.
    fn draw(&mut self, place: Affine, (width, height): (u32, u32), at: impl Fn(Point) -> Option<(u32, u32)>) {
        let whole = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
        let seen = Rect::new(0.0, 0.0, self.width as f64, self.height as f64);
        let covered = place.transform_rect_bbox(whole).intersect(seen);
        let back = place.inverse();
        if covered.area() <= 0.0 || !back.is_finite() {
            return;
        }
        let parts = parts(back);
        self.left = self.left.saturating_sub(size(covered.area() * parts.len() as f64) as u64);
        if self.left == 0 {
            return;
        }
        let mixed = mixer(parts.len());
        let (columns, rows) = (span(covered.x0, covered.x1, self.width), span(covered.y0, covered.y1, self.height));
        for (row, pixels) in self.pixels.chunks_exact_mut(self.width).enumerate().take(rows.end).skip(rows.start) {
            for (column, pixel) in pixels.iter_mut().enumerate().take(columns.end).skip(columns.start) {
                let (mut brightness, mut share) = (0, 0);
                for (x, y) in &parts {
                    let point = Point::new(column as f64 + x, row as f64 + y);
                    let (bright, covers) = at(back * point).unwrap_or_default();
                    brightness += bright * covers;
                    share += covers;
                }
                *pixel = mixed(brightness, share, *pixel);
            }
        }
    }

    fn draw_raster(&mut self, place: Affine, image: &ImageData, mask: Option<&LumaData>) {
        let (across, down) = image.scale_factors();
        let place = place * Affine::scale_non_uniform(f64::from(across), f64::from(down));
        let (width, height) = (image.width(), image.height());
        let greys = match image {
            ImageData::Luma(luma) => Cow::Borrowed(&luma.data),
            ImageData::Rgb(colours) => Cow::Owned(greys(&colours.data)),
        };
        let bright = |point| grey(&greys, (width, height), point);
        let Some(mask) = mask else {
            return self.draw(place, (width, height), |point| Some((bright(point)?, 255)));
        };
        let (x, y) =
            (f64::from(mask.width) / f64::from(width.max(1)), f64::from(mask.height) / f64::from(height.max(1)));
        let covers = |point: Point| grey(&mask.data, (mask.width, mask.height), Point::new(point.x * x, point.y * y));
        self.draw(place, (width, height), |point| Some((bright(point)?, covers(point).unwrap_or_default())));
    }

    fn draw_stencil(&mut self, place: Affine, stencil: &LumaData, paint: &Paint<'_>) {
        let (across, down) = stencil.scale_factors;
        let place = place * Affine::scale_non_uniform(f64::from(across), f64::from(down));
        let [red, green, blue, alpha] = match paint {
            Paint::Color(colour) => colour.to_rgba().to_rgba8(),
            Paint::Pattern(_) => [0, 0, 0, u8::MAX],
        };
        let (bright, size) = (u32::from(brightness(red, green, blue)), (stencil.width, stencil.height));
        self.draw(place, size, |point| Some((bright, grey(&stencil.data, size, point)? * u32::from(alpha) / 255)));
    }
}

/// Returns the sample positions within a page pixel. An image with about the same resolution is sampled once.
pub(super) fn parts(back: Affine) -> Vec<(f64, f64)> {
    let [a, b, c, d, ..] = back.as_coeffs();
    let step = a.hypot(b).max(c.hypot(d));
    let samples = (step - SAMPLING_TOLERANCE).ceil().clamp(1.0, f64::from(MAX_SAMPLES)) as i32;
    let within = |part: i32| (f64::from(part) + 0.5) / f64::from(samples);
    (0..samples * samples).map(|part| (within(part % samples), within(part / samples))).collect()
}

/// Returns a function that blends the samples of a pixel with the pixel's previous value. Its arguments are the sum of
/// brightness times coverage, the sum of coverage, and the previous value.
fn mixer(parts: usize) -> impl Fn(u32, u32, u8) -> u8 {
    let whole = 255 * u32::try_from(parts).unwrap_or(1);
    // A multiplication is faster than an integer division, which would dominate the cost per pixel.
    let scale = 1.0 / whole as f32;
    move |brightness, share, below| {
        let sum = brightness + u32::from(below) * (whole - share.min(whole));
        (sum as f32 * scale + 0.5) as u8
    }
}

/// Returns the range of pixels between two edges.
pub(super) fn span(from: f64, to: f64, limit: usize) -> std::ops::Range<usize> {
    (from.floor().max(0.0) as usize).min(limit)..(to.ceil().max(0.0) as usize).min(limit)
}

/// Returns the brightness at a point, or `None` outside the image.
fn grey(greys: &[u8], (width, height): (u32, u32), point: Point) -> Option<u32> {
    // Avoids iterators for the range checks, as the function runs for every pixel of a page.
    if point.x < 0.0 || point.y < 0.0 {
        return None;
    }
    let (x, y) = (point.x as u32, point.y as u32);
    if x >= width || y >= height {
        return None;
    }
    greys.get(y as usize * width as usize + x as usize).map(|grey| u32::from(*grey))
}

fn greys(colours: &[u8]) -> Vec<u8> {
    let pixels = colours.chunks_exact(3);
    pixels.map(|pixel| if let [red, green, blue] = *pixel { brightness(red, green, blue) } else { u8::MAX }).collect()
}

/// Returns the perceived brightness of a colour.
pub(super) const fn brightness(red: u8, green: u8, blue: u8) -> u8 {
    // 299, 587 and 114 thousandths (ITU-R BT.601), in parts of 65,536.
    ((19_595 * red as u32 + 38_470 * green as u32 + 7_471 * blue as u32 + 32_768) >> 16) as u8
}

impl<'a> Device<'a> for Canvas {
    fn draw_image(&mut self, image: Image<'a, '_>, props: ImageDrawProps<'a>) {
        self.pictures += 1;
        if self.pictures > MAX_IMAGES || self.left == 0 {
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
#[cfg(test)]
mod tests {
    use super::*;

    /// Draws an image with `side` pixels per side on a page of 4 by 4 pixels, from edge to edge.
    fn drawn(side: u32, at: impl Fn(u32, u32) -> (u32, u32)) -> Vec<u8> {
        let mut canvas = Canvas::new(4, 4);
        let place = Affine::scale(4.0 / f64::from(side));
        canvas.draw(place, (side, side), |point| Some(at(point.x as u32, point.y as u32)));
        canvas.pixels
    }

    #[test]
    fn picture_is_copied_or_downscaled_by_mean() {
        let board = |x: u32, y: u32| (if (x + y).is_multiple_of(2) { 10 } else { 200 }, 255);
        let expected: Vec<u8> = (0..16).map(|at| if (at / 4 + at % 4) % 2 == 0 { 10 } else { 200 }).collect();
        assert_eq!(drawn(4, board), expected);
        let stripes = |x: u32, _| (if x.is_multiple_of(2) { 0 } else { 200 }, 255);
        assert_eq!(drawn(8, stripes), [100; 16]);
        assert_eq!(drawn(4, |_, _| (0, 51)), [204; 16], "black at a fifth on white");
        assert_eq!(drawn(4, |_, _| (0, 0)), [255; 16]);
    }

    #[test]
    fn grey_values_use_luminance_weights() {
        assert_eq!(greys(&[0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 255]), [0, 255, 76, 150, 29]);
    }
}
