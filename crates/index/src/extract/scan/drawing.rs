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

/// The page as it is seen; none if it has no size.
pub(super) fn page(page: &Page<'_>) -> Option<Picture> {
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
    Picture::new(canvas.width, canvas.height, canvas.pixels)
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
    /// Pixels that may still be drawn.
    left: u64,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        let pixels = vec![u8::MAX; width * height];
        Self { width, height, pixels, pictures: 0, left: MOST_PIXELS }
    }

    /// Draws what has, at a point of itself, a brightness and a share to which it covers what is below.
    fn draw(&mut self, place: Affine, (width, height): (u32, u32), at: impl Fn(Point) -> Option<(u32, u32)>) {
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
        for row in rows {
            for column in columns.clone() {
                let (mut brightness, mut share) = (0, 0);
                for part in 0..fine * fine {
                    let within = |part: i32| (f64::from(part) + 0.5) / f64::from(fine);
                    let point = Point::new(column as f64 + within(part % fine), row as f64 + within(part / fine));
                    let (bright, covers) = at(back * point).unwrap_or_default();
                    brightness += bright * covers;
                    share += covers;
                }
                let whole = 255 * (fine * fine).unsigned_abs();
                if let Some(pixel) = self.pixels.get_mut(row * self.width + column) {
                    let mixed = (brightness + u32::from(*pixel) * (whole - share.min(whole))) / whole;
                    *pixel = u8::try_from(mixed).unwrap_or(u8::MAX);
                }
            }
        }
    }

    fn draw_raster(&mut self, place: Affine, image: &ImageData, mask: Option<&LumaData>) {
        let (across, down) = image.scale_factors();
        let place = place * Affine::scale_non_uniform(f64::from(across), f64::from(down));
        let (width, height) = (image.width(), image.height());
        let to_mask = |mask: &LumaData| {
            (f64::from(mask.width) / f64::from(width.max(1)), f64::from(mask.height) / f64::from(height.max(1)))
        };
        let mask = mask.map(|mask| (mask, to_mask(mask)));
        self.draw(place, (width, height), |point| {
            let bright = match image {
                ImageData::Luma(luma) => grey(luma, point)?,
                ImageData::Rgb(colours) => colour(colours, point)?,
            };
            let covers = mask.map(|(mask, (x, y))| grey(mask, Point::new(point.x * x, point.y * y)));
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
        self.draw(place, (stencil.width, stencil.height), |point| {
            Some((bright, grey(stencil, point)? * u32::from(alpha) / 255))
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

/// Number of the pixel at a point; none outside.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the picture")]
fn index(point: Point, width: u32, height: u32) -> Option<usize> {
    let is_within = (0.0..f64::from(width)).contains(&point.x) && (0.0..f64::from(height)).contains(&point.y);
    is_within.then(|| point.y as usize * width as usize + point.x as usize)
}

fn grey(luma: &LumaData, point: Point) -> Option<u32> {
    luma.data.get(index(point, luma.width, luma.height)?).map(|grey| u32::from(*grey))
}

fn colour(colours: &RgbData, point: Point) -> Option<u32> {
    let start = 3 * index(point, colours.width, colours.height)?;
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
