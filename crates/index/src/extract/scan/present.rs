//! Recognition of PDF pages and image files, in builds that include it.

use std::{
    fs::File,
    io::{self, Cursor, Read as _},
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use agentd_core::knowledge::RECOGNITION_MODELS;
use agentd_ocr::{ModelFiles, OcrError, PageText, Picture, Recogniser};
use hayro_syntax::page::Page;
use image::ImageError;

use super::{RecognisedText, RecognitionResult, drawing};
use crate::{
    extract::{broken, pdf, picture},
    failure::{Failure, UnreadReason},
    kind::Kind,
    recognition::Recognition,
};

/// Maximum size of a model file in bytes.
const MAX_MODEL_BYTES: u64 = 256 * 1024 * 1024;

/// Recognises pages of one document.
pub(crate) struct Scanner {
    models: Models,
    pages: u32,
    /// Remaining time for recognition.
    time: Duration,
}

/// Models, loaded on first use.
enum Models {
    Missing(UnreadReason),
    Deferred,
    Opened(Vec<File>, NonZeroUsize),
    Loaded(Box<Recogniser>),
}

impl Default for Scanner {
    fn default() -> Self {
        Self::without(Models::Missing(UnreadReason::Off))
    }
}

impl Scanner {
    /// Creates a scanner. Opens the model files, because the worker cannot open files later.
    pub(crate) fn new(recognition: Recognition) -> Self {
        let (folder, budget) = match recognition {
            Recognition::Missing(reason) => return Self::without(Models::Missing(reason)),
            Recognition::Deferred => return Self::without(Models::Deferred),
            Recognition::Ready { folder, budget } => (folder, budget),
        };
        let files = RECOGNITION_MODELS.map(|name| File::open(folder.join(name)));
        let Ok(files) = files.into_iter().collect::<io::Result<Vec<File>>>() else {
            return Self::without(Models::Missing(UnreadReason::NoModels));
        };
        let threads = NonZeroUsize::new(budget.threads).unwrap_or(NonZeroUsize::MIN);
        Self { models: Models::Opened(files, threads), pages: budget.pages, time: budget.time }
    }

    const fn without(models: Models) -> Self {
        Self { models, pages: 0, time: Duration::ZERO }
    }

    /// Returns true if recognition is available or deferred, so that looking for images is worthwhile.
    pub(in crate::extract) const fn is_wanted(&self) -> bool {
        !matches!(self.models, Models::Missing(_))
    }

    /// Recognises a PDF page.
    ///
    /// # Errors
    /// Fails if recognition is necessary but deferred.
    pub(in crate::extract) fn page(&mut self, number: u32, page: &Page<'_>) -> RecognitionResult {
        self.read(number, || drawing::page(page))
    }

    /// Recognises an image file, or the page whose directory is at `page`.
    pub(super) fn photo(&mut self, number: u32, bytes: &mut [u8], page: Option<u32>) -> RecognitionResult {
        // An unreadable image is reported even if recognition is unavailable.
        let mut failure = None;
        let read = self.read(number, || photo(bytes, page).map_err(|reason| failure = Some(reason)).ok());
        failure.map_or(read, Err)
    }

    fn read(&mut self, number: u32, draw: impl FnOnce() -> Option<Picture>) -> RecognitionResult {
        // Each document in an archive has its own first unrecognised page.
        let (spent, late) = (UnreadReason::Spent { first: number }, UnreadReason::OutOfTime { first: number });
        match self.models {
            Models::Deferred => return Err(Failure::NeedsRecognition),
            Models::Missing(reason) => return Ok(Err(reason)),
            _ if self.pages == 0 => return Ok(Err(spent)),
            _ if self.time.is_zero() => return Ok(Err(late)),
            _ => {}
        }
        let begun = Instant::now();
        let deadline = begun + self.time;
        // A panic while drawing means that the page cannot be rendered.
        let text = catch_unwind(AssertUnwindSafe(|| {
            let recogniser = self.recogniser()?;
            let picture = draw().ok_or(UnreadReason::Undrawn)?;
            recogniser.text(&picture, deadline).map_err(|error| match error {
                OcrError::TimedOut => late,
                _ => UnreadReason::NoModels,
            })
        }));
        self.pages -= 1;
        self.time = self.time.saturating_sub(begun.elapsed());
        let text = text.unwrap_or(Err(UnreadReason::Undrawn));
        if let Err(reason @ UnreadReason::NoModels) = text {
            self.models = Models::Missing(reason);
        }
        Ok(text.map(|PageText { lines, is_cut }| RecognisedText { text: pdf::recognised(&lines), is_cut }))
    }

    fn recogniser(&mut self) -> Result<&Recogniser, UnreadReason> {
        if let Models::Opened(files, threads) = &mut self.models {
            let loaded = load(files, *threads).ok_or(UnreadReason::NoModels)?;
            self.models = Models::Loaded(Box::new(loaded));
        }
        let Models::Loaded(recogniser) = &self.models else { return Err(UnreadReason::NoModels) };
        Ok(recogniser)
    }
}

fn load(files: &mut [File], threads: NonZeroUsize) -> Option<Recogniser> {
    let [detection, recognition, letters] = files else { return None };
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.take(MAX_MODEL_BYTES).read_to_end(&mut bytes).ok().map(|_| bytes)
    };
    let (detection, recognition) = (read(detection)?, read(recognition)?);
    let letters = String::from_utf8(read(letters)?).ok()?;
    Recogniser::load(ModelFiles { detection, recognition, letters }, threads).ok()
}

/// Maximum length of the longer side for recognition, in pixels. Larger images have larger text.
const MAX_PAGE_SIDE: u32 = 2600;

/// Decodes an image or one of its pages upright and scales it down.
fn photo(bytes: &mut [u8], page: Option<u32>) -> Result<Picture, Failure> {
    let is_little = bytes.starts_with(b"II");
    if let (Some(page), Some(first)) = (page, bytes.get_mut(4..8)) {
        // The library only reads the first page, so the header is changed to point to the requested page.
        first.copy_from_slice(&if is_little { page.to_le_bytes() } else { page.to_be_bytes() });
    }
    let opened = picture::open_decoder(Cursor::new(&*bytes));
    let decoded = opened.and_then(|(_, decoder)| picture::decode_image(decoder, MAX_PAGE_SIDE));
    let decoded = decoded.map_err(|error| match error {
        ImageError::Limits(_) => Failure::too_large("its picture", picture::MAX_DECODED),
        // The file is intact, but in a rare format.
        ImageError::Unsupported(_) => Failure::Foreign {
            found: "it has a picture in an unsupported format, such as a group 3 fax; save it as PNG".to_owned(),
        },
        error => broken(Kind::Picture, &error.to_string()),
    })?;
    let grey = picture::on_white(decoded).into_luma8();
    let (width, height) = (grey.width() as usize, grey.height() as usize);
    Picture::new(width, height, grey.into_raw()).ok_or_else(|| broken(Kind::Picture, "it has no pixels"))
}
