//! The worker's side for pictures: one is decoded, turned upright, made small and written anew, without whatever else its
//! file held, such as the place where it was taken.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Cursor, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    thread,
};

use image::{
    DynamicImage, ExtendedColorType, ImageDecoder as _, ImageEncoder as _, ImageError, ImageFormat,
    codecs::{jpeg::JpegEncoder, png::PngEncoder},
    error::LimitErrorKind,
};
use serde::{Deserialize, Serialize};

use super::child;
use crate::{
    extract::picture::{self, MAX_SIDE},
    limits::Limits,
};

/// The first argument by which a program knows that it is to be the worker for pictures.
pub const PICTURE_WORKER_ARGUMENT: &str = "picture-worker";

/// The longer side of what models are shown, in pixels: beyond it providers make a picture smaller themselves.
pub(crate) const SIDE: u32 = 1568;
/// The shorter side of what is shown, in pixels: some providers refuse the whole conversation for less.
const MIN_SIDE: u32 = 10;
/// Maximum ratio of the longer side to the shorter one, for the same reason.
const MAX_RATIO: u32 = 100;
/// Maximum size of a PNG that stays one, in bytes. Larger ones are photographs, which a JPEG holds better.
const MAX_PNG: usize = 1 << 20;
/// Quality of the JPEG, of 100.
const QUALITY: u8 = 85;

/// The worker's words about a picture, in front of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PictureHeader {
    /// It is ready: as many bytes follow.
    Ready {
        /// Its type.
        media_type: String,
        /// Its width in pixels.
        width: u32,
        /// Its height in pixels.
        height: u32,
        /// Number of bytes that follow.
        bytes: u64,
    },
    /// Why it is not, as the end of a sentence.
    Failed(String),
}

/// Reads the picture on standard input and writes what models are shown of it to standard output. This is all that a
/// process does whose first argument is [`PICTURE_WORKER_ARGUMENT`]; `arguments` are those after it.
pub fn run_picture_worker(arguments: &[OsString]) -> ExitCode {
    match work(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agentd {PICTURE_WORKER_ARGUMENT}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(arguments: &[OsString]) -> io::Result<()> {
    let [limits] = arguments else {
        return Err(io::Error::other("this is started by the daemon, to read a picture"));
    };
    let limits: Limits = serde_json::from_slice(limits.as_encoded_bytes())?;
    let (file, mut out) = child::enter(&limits)?;
    thread::Builder::new()
        .name("picture".to_owned())
        .stack_size(child::STACK_BYTES)
        .spawn(move || tell(&mut out, file, &limits))?
        .join()
        .map_err(|_| io::Error::other("the reader gave up"))?
}

fn tell(out: &mut File, file: File, limits: &Limits) -> io::Result<()> {
    let read = child::read_all(file, limits).map_err(|failure| failure.to_string());
    let made = read.and_then(|bytes| {
        let made = catch_unwind(AssertUnwindSafe(|| prepare(&bytes)));
        made.unwrap_or_else(|_| Err("it is damaged (its reader gave up)".to_owned()))
    });
    let (told, content) = match made {
        Ok((media_type, image, content)) => {
            let (width, height) = (image.width(), image.height());
            let bytes = content.len() as u64;
            (PictureHeader::Ready { media_type: media_type.to_owned(), width, height, bytes }, content)
        }
        Err(why) => (PictureHeader::Failed(why), Vec::new()),
    };
    let head = serde_json::to_vec(&told)?;
    out.write_all(&u32::try_from(head.len()).map_err(io::Error::other)?.to_le_bytes())?;
    out.write_all(&head)?;
    out.write_all(&content)?;
    out.flush()
}

/// The picture as models are shown it, with its type and its bytes.
fn prepare(bytes: &[u8]) -> Result<(&'static str, DynamicImage, Vec<u8>), String> {
    let (format, decoder) = picture::opened(Cursor::new(bytes)).map_err(|error| why(&error))?;
    let (width, height) = decoder.dimensions();
    if width.min(height) < MIN_SIDE || width.max(height) / width.min(height).max(1) > MAX_RATIO {
        return Err(format!("it is {width} × {height} pixels, which is too small or too narrow to be seen"));
    }
    let image = picture::decoded(decoder, SIDE).map_err(|error| why(&error))?;
    let is_photograph = format == Some(ImageFormat::Jpeg);
    let encoded = encode(&image, is_photograph).map_err(|error| why(&error))?;
    Ok((encoded.0, image, encoded.1))
}

fn encode(image: &DynamicImage, is_photograph: bool) -> Result<(&'static str, Vec<u8>), ImageError> {
    let (width, height) = (image.width(), image.height());
    if !is_photograph {
        let mut content = Vec::new();
        let encoder = PngEncoder::new(&mut content);
        if image.color().has_alpha() {
            encoder.write_image(&image.to_rgba8(), width, height, ExtendedColorType::Rgba8)?;
        } else {
            encoder.write_image(&image.to_rgb8(), width, height, ExtendedColorType::Rgb8)?;
        }
        if content.len() <= MAX_PNG {
            return Ok(("image/png", content));
        }
    }
    let mut content = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut content, QUALITY);
    encoder.write_image(&picture::on_white(image.clone()).into_rgb8(), width, height, ExtendedColorType::Rgb8)?;
    Ok(("image/jpeg", content))
}

/// In words for people.
fn why(error: &ImageError) -> String {
    match error {
        ImageError::Limits(limit) => match limit.kind() {
            LimitErrorKind::DimensionError => format!("it is wider or higher than {MAX_SIDE} pixels"),
            _ => "it has more than about a hundred million pixels".to_owned(),
        },
        ImageError::Unsupported(_) => format!("its form is not known here ({error})"),
        _ => format!("it is damaged ({error})"),
    }
}
