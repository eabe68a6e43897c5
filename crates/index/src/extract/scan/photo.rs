//! The picture that a file is.

use std::io::{BufRead, BufReader, Cursor, Seek};

use agentd_ocr::Picture;
use image::{DynamicImage, ImageDecoder as _, ImageError, ImageReader, imageops::FilterType};

use super::tiff::FromPage;
use crate::{
    extract::{broken, too_large},
    failure::Failure,
    kind::Kind,
};

/// The longer side of what is read, in pixels.
const MAX_SIDE: u32 = 30_000;
/// Memory limit of decoding, in bytes: about a hundred million pixels.
const MAX_DECODED: u64 = 420 << 20;
/// The longer side of what is recognised, in pixels; letters of larger pictures are larger, too.
const SIDE: u32 = 2600;

/// Decodes a picture, turns it upright and makes it small enough: of a file with pages that which is described there.
pub(super) fn picture(bytes: &[u8], page: Option<u32>) -> Result<Picture, Failure> {
    let decoded = match page {
        Some(page) => decoded(BufReader::new(FromPage::new(bytes, page))),
        None => decoded(Cursor::new(bytes)),
    };
    let decoded = decoded.map_err(|error| match error {
        ImageError::Limits(_) => too_large("its picture", MAX_DECODED),
        // It is whole, and of a kind that few programs write.
        ImageError::Unsupported(_) => Failure::Foreign {
            found: "it has a picture in an unsupported form, such as a group 3 fax; save it as PNG".to_owned(),
        },
        error => broken(Kind::Picture, &error.to_string()),
    })?;
    let grey = on_white(decoded).into_luma8();
    let (width, height) = (grey.width() as usize, grey.height() as usize);
    Picture::new(width, height, grey.into_raw()).ok_or_else(|| broken(Kind::Picture, "it has no pixels"))
}

fn small(image: DynamicImage) -> DynamicImage {
    if image.width().max(image.height()) > SIDE { image.resize(SIDE, SIDE, FilterType::Triangle) } else { image }
}

fn decoded(from: impl BufRead + Seek) -> Result<DynamicImage, ImageError> {
    let mut reader = ImageReader::new(from).with_guessed_format()?;
    let mut most = image::Limits::default();
    most.max_image_width = Some(MAX_SIDE);
    most.max_image_height = Some(MAX_SIDE);
    most.max_alloc = Some(MAX_DECODED);
    reader.limits(most.clone());
    let mut decoder = reader.into_decoder()?;
    // Reading takes it all at once, whatever the limit says.
    most.reserve(decoder.total_bytes())?;
    // One whose file says nonsense about it is read as it lies.
    let orientation = decoder.orientation().ok();
    let mut image = small(DynamicImage::from_decoder(decoder)?);
    if let Some(orientation) = orientation {
        image.apply_orientation(orientation);
    }
    Ok(image)
}

/// A picture through which one can see, on white as on a page.
fn on_white(image: DynamicImage) -> DynamicImage {
    if !image.color().has_alpha() {
        return image;
    }
    let mut through = image.into_luma_alpha8();
    for pixel in through.pixels_mut() {
        let [grey, alpha] = pixel.0.map(u32::from);
        let mixed = (grey * alpha + 255 * (255 - alpha)) / 255;
        pixel.0 = [u8::try_from(mixed).unwrap_or(u8::MAX), u8::MAX];
    }
    DynamicImage::ImageLumaA8(through)
}
