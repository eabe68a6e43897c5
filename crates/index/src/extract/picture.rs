//! Image decoding within limits.

use std::io::{BufRead, Seek};

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Rgb, RgbImage, imageops::FilterType};

/// Maximum width and height of an input image, in pixels.
pub(crate) const MAX_SIDE: u32 = 30_000;
/// Memory limit for decoding, in bytes: about a hundred million pixels.
pub(crate) const MAX_DECODED: u64 = 420 << 20;

/// Returns a decoder for an image, and its format.
pub(crate) fn open_decoder<'a>(
    from: impl BufRead + Seek + 'a,
) -> Result<(Option<ImageFormat>, impl ImageDecoder + 'a), ImageError> {
    let mut reader = ImageReader::new(from).with_guessed_format()?;
    let mut most = image::Limits::default();
    most.max_image_width = Some(MAX_SIDE);
    most.max_image_height = Some(MAX_SIDE);
    most.max_alloc = Some(MAX_DECODED);
    reader.limits(most.clone());
    let format = reader.format();
    let decoder = reader.into_decoder()?;
    // Decoding allocates the whole image, regardless of the limit set above.
    most.reserve(decoder.total_bytes())?;
    Ok((format, decoder))
}

/// Decodes an image upright, scaled down so that the longer side has at most `side` pixels.
pub(crate) fn decode_image(mut decoder: impl ImageDecoder, side: u32) -> Result<DynamicImage, ImageError> {
    // Without valid metadata, the image is not rotated.
    let orientation = decoder.orientation().ok();
    let mut image = DynamicImage::from_decoder(decoder)?;
    if image.width().max(image.height()) > side {
        image = image.resize(side, side, FilterType::Triangle);
    }
    if let Some(orientation) = orientation {
        image.apply_orientation(orientation);
    }
    Ok(image)
}

/// Blends transparent images with a white background, as on a page.
pub(crate) fn on_white(image: DynamicImage) -> DynamicImage {
    if !image.color().has_alpha() {
        return image;
    }
    let rgba = image.into_rgba8();
    let white = RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [r, g, b, alpha] = rgba.get_pixel(x, y).0;
        let blend = |colour: u8| {
            let mixed = (u32::from(colour) * u32::from(alpha) + 255 * (255 - u32::from(alpha))) / 255;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        Rgb([blend(r), blend(g), blend(b)])
    });
    DynamicImage::ImageRgb8(white)
}
