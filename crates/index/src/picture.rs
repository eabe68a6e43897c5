//! Image preparation for models in a sandboxed worker. The worker decodes an image, rotates it upright, scales it down
//! and encodes it again without metadata, such as the location where it was taken.

use std::{
    ffi::OsString,
    io::{self, Cursor, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::{ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    files::PreparedPicture,
    ports::Pictures,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use image::{
    DynamicImage, ExtendedColorType, ImageDecoder as _, ImageEncoder as _, ImageError, ImageFormat,
    codecs::{jpeg::JpegEncoder, png::PngEncoder},
    error::LimitErrorKind,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdout},
    sync::Semaphore,
    time::timeout,
};

use crate::{
    extract::{
        clean,
        picture::{self, MAX_SIDE},
        render_page,
    },
    failure::{Limits, fail_if},
    worker,
};

/// Formats that models accept.
const ACCEPTED_FORMATS: [ImageFormat; 4] = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP];
/// Maximum size of the worker's header before the image, in bytes.
const MAX_HEAD: usize = 4096;
/// Maximum size of an image that a worker returns, in bytes.
const MAX_OUTPUT: u64 = 5 << 20;
/// Time limit for one image.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Prepares images for models.
#[derive(Debug, Clone)]
pub struct PictureReader {
    program: PathBuf,
    /// Admits one worker at a time, as a worker may use much memory.
    turns: Arc<Semaphore>,
}

impl PictureReader {
    /// Creates a reader without starting anything. `program` must call [`run_picture_worker`] if the first argument is
    /// [`PICTURE_WORKER_ARGUMENT`].
    pub fn new(program: PathBuf) -> Self {
        Self { program, turns: Arc::new(Semaphore::new(1)) }
    }

    async fn read(&self, content: &[u8], page: Option<u32>) -> Result<PreparedPicture, String> {
        let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let mut child = self.start(page).map_err(|error| format!("could not start its reader: {error}"))?;
        let (Some(mut input), Some(mut out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("its reader has no streams".to_owned());
        };
        let feed = async {
            // The worker may close its input before reading everything.
            let _ = input.write_all(content).await;
            drop(input);
        };
        match timeout(TIMEOUT, async { tokio::join!(feed, receive(&mut out)).1 }).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("it took longer than {} seconds", TIMEOUT.as_secs())),
        }
    }

    fn start(&self, page: Option<u32>) -> io::Result<Child> {
        let limits = Limits { time: TIMEOUT, ..Limits::default() };
        let mut command = worker::command(&self.program, PICTURE_WORKER_ARGUMENT, &(limits, page))?;
        command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn()
    }
}

/// Reads and validates the worker's answer.
async fn receive(out: &mut ChildStdout) -> Result<PreparedPicture, String> {
    let ended = |_| "its reader ended without a result: it may be malicious".to_owned();
    let invalid = || "its reader returned invalid data".to_owned();
    let mut length = [0; 4];
    out.read_exact(&mut length).await.map_err(ended)?;
    let mut head = vec![0; agentd_confine::frame_length(length, MAX_HEAD).map_err(|_| invalid())?];
    out.read_exact(&mut head).await.map_err(ended)?;
    let (media_type, width, height, bytes) = match serde_json::from_slice(&head).map_err(|_| invalid())? {
        PictureHeader::Failed(reason) => return Err(clean::line(&reason, 200)),
        PictureHeader::Ready { media_type, width, height, bytes } => (media_type, width, height, bytes),
    };
    let (ending, format) = match media_type.as_str() {
        "image/png" => ("png", ImageFormat::Png),
        "image/jpeg" => ("jpg", ImageFormat::Jpeg),
        _ => return Err(invalid()),
    };
    let sides = 1..=MAX_OUTPUT_SIDE;
    fail_if(bytes == 0 || bytes > MAX_OUTPUT || !sides.contains(&width) || !sides.contains(&height), invalid)?;
    let mut content = vec![0; usize::try_from(bytes).map_err(|_| invalid())?];
    out.read_exact(&mut content).await.map_err(ended)?;
    fail_if(image::guess_format(&content).ok() != Some(format), invalid)?;
    let hash = Sha256::digest(&content);
    let digest: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(PreparedPicture { media_type, width, height, name: format!("picture-{digest}.{ending}"), content })
}

impl Pictures for PictureReader {
    fn prepare<'a>(
        &'a self,
        content: &'a [u8],
        page: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<PreparedPicture>, WorkspaceError>> {
        // This process only inspects the magic bytes.
        let is_accepted = image::guess_format(content).is_ok_and(|format| ACCEPTED_FORMATS.contains(&format));
        if page.is_none() && !is_accepted {
            return std::future::ready(Ok(None)).boxed();
        }
        let failed = move |reason| {
            let (what, hint) = match page {
                Some(_) => ("page", "read its text instead"),
                None => ("picture", "save it again as PNG or JPEG, smaller if it is very large"),
            };
            let message = format!("the {what} cannot be shown to models: {reason}");
            WorkspaceError::new(ErrorKind::InvalidInput, message).with_hint(hint)
        };
        async move { self.read(content, page).await.map(Some).map_err(failed) }.boxed()
    }
}

/// First argument of a process that runs as the image worker.
pub const PICTURE_WORKER_ARGUMENT: &str = "picture-worker";

/// Maximum length of the longer side, in pixels. Providers scale down larger images themselves.
const MAX_OUTPUT_SIDE: u32 = 1568;
/// Minimum length of the shorter side, in pixels. Some providers refuse the whole conversation for smaller images.
const MIN_SIDE: u32 = 10;
/// Maximum aspect ratio. Some providers also refuse narrower images.
const MAX_RATIO: u32 = 100;
/// Maximum size of a PNG in the output, in bytes. Larger images are usually photographs, which JPEG compresses better.
const MAX_PNG: usize = 1 << 20;
/// JPEG quality, up to 100.
const QUALITY: u8 = 85;

/// Worker's header before the image data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PictureHeader {
    /// The image is ready and its data follows.
    Ready {
        /// Media type of the data.
        media_type: String,
        width: u32,
        height: u32,
        /// Number of bytes that follow.
        bytes: u64,
    },
    /// Reason for the failure, as the end of a sentence.
    Failed(String),
}

/// Runs the image worker: reads an image from standard input and writes the prepared image to standard output.
/// `arguments` are the arguments after [`PICTURE_WORKER_ARGUMENT`]. The process does nothing else.
pub fn run_picture_worker(arguments: &[OsString]) -> ExitCode {
    agentd_confine::run(PICTURE_WORKER_ARGUMENT, "read a picture", arguments, |limits| {
        let (limits, page): (Limits, Option<u32>) = serde_json::from_slice(limits)?;
        worker::run_confined(&limits, move |mut out, file| {
            let read = worker::read_all(file, &limits).map_err(|failure| failure.to_string());
            let made = read.and_then(|bytes| {
                let made = catch_unwind(AssertUnwindSafe(|| match page {
                    Some(page) => ready(&render_page(bytes, page)?.into(), false),
                    None => prepare(&bytes),
                }));
                made.unwrap_or_else(|_| Err("it is damaged (its reader panicked)".to_owned()))
            });
            let (header, content) = made.unwrap_or_else(|reason| (PictureHeader::Failed(reason), Vec::new()));
            out.write_all(&agentd_confine::frame(&serde_json::to_vec(&header)?, MAX_HEAD)?)?;
            out.write_all(&content)
        })
    })
}

/// Returns the header and the data of the prepared image.
fn prepare(bytes: &[u8]) -> Result<(PictureHeader, Vec<u8>), String> {
    let (format, decoder) = picture::open_decoder(Cursor::new(bytes)).map_err(|error| describe(&error))?;
    let (width, height) = decoder.dimensions();
    check_size(width, height)?;
    let image = picture::decode_image(decoder, MAX_OUTPUT_SIDE).map_err(|error| describe(&error))?;
    ready(&image, format == Some(ImageFormat::Jpeg))
}

/// Fails if providers would refuse an image of this size.
fn check_size(width: u32, height: u32) -> Result<(), String> {
    fail_if(width.min(height) < MIN_SIDE || width.max(height) / width.min(height).max(1) > MAX_RATIO, || {
        format!("it is {width} × {height} pixels, too small or too narrow")
    })
}

fn ready(image: &DynamicImage, is_photograph: bool) -> Result<(PictureHeader, Vec<u8>), String> {
    check_size(image.width(), image.height())?;
    let (media_type, content) = encode(image, is_photograph).map_err(|error| describe(&error))?;
    let (width, height, bytes) = (image.width(), image.height(), content.len() as u64);
    Ok((PictureHeader::Ready { media_type: media_type.to_owned(), width, height, bytes }, content))
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

/// Formats an error for users.
fn describe(error: &ImageError) -> String {
    match error {
        ImageError::Limits(limit) => match limit.kind() {
            LimitErrorKind::DimensionError => format!("it is wider or higher than {MAX_SIDE} pixels"),
            _ => "it has more than about a hundred million pixels".to_owned(),
        },
        ImageError::Unsupported(_) => format!("unknown format ({error})"),
        _ => format!("it is damaged ({error})"),
    }
}
