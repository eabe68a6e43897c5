//! Recognition in a build that has it.

use std::{
    fs::File,
    io::Read as _,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::{Duration, Instant},
};

use agentd_ocr::{ModelFiles, OcrError, PageText, Recogniser};
use hayro_syntax::page::Page;

use super::{
    RecognisedText,
    drawing::{self, DrawnPage},
    photo,
};
use crate::{
    extract::pdf,
    failure::{Failure, UnreadReason},
    recognition::{OpenRecognition, RecognitionBudget},
};

/// Size of a model's file at the most, in bytes.
const MODEL_BYTES: u64 = 256 * 1024 * 1024;

/// Pixels of the pictures of a page up to which the next page, which will be like it, is drawn meanwhile: both are held unpacked.
const MOST_AHEAD: u64 = 40_000_000;

/// Recognises pages of one document.
#[derive(Debug)]
pub(crate) struct Scanner {
    models: Models,
    pages: u32,
    /// Time that is left.
    time: Duration,
    /// The page that was drawn while the one before it was recognised, by its number; no picture of one that cannot be drawn.
    ahead: Option<(u32, Option<DrawnPage>)>,
}

/// The models, as far as they are needed.
#[derive(Debug)]
enum Models {
    Missing(UnreadReason),
    Deferred,
    Opened(Vec<File>, NonZeroUsize),
    Loaded(Box<Recogniser>),
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new(OpenRecognition::Missing(UnreadReason::Off))
    }
}

impl Scanner {
    pub(crate) fn new(opened: OpenRecognition) -> Self {
        let with = |models, pages, time| Self { models, pages, time, ahead: None };
        match opened {
            OpenRecognition::Missing(why) => with(Models::Missing(why), 0, Duration::ZERO),
            OpenRecognition::Deferred => with(Models::Deferred, 0, Duration::ZERO),
            OpenRecognition::Ready { files, budget: RecognitionBudget { pages, time, threads } } => {
                let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
                with(Models::Opened(files, threads), pages, time)
            }
        }
    }

    /// Returns whether letters are recognised, so that it is worth while to look at what may have some.
    pub(in crate::extract) const fn is_wanted(&self) -> bool {
        !matches!(self.models, Models::Missing(_))
    }

    /// The text of a page of a PDF, or why it is not known. `next` is the page behind it, if that is wanted, too: behind a scan
    /// there mostly is another, which is drawn meanwhile.
    ///
    /// # Errors
    /// When it would have to be recognised, and that is deferred.
    pub(in crate::extract) fn page(
        &mut self,
        number: u32,
        page: &Page<'_>,
        next: Option<&Page<'_>>,
    ) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        let ahead = self.ahead.take().filter(|(drawn, _)| *drawn == number);
        let drawn = move || ahead.map_or_else(|| drawing::page(page), |(_, drawn)| drawn);
        let next = next.filter(|_| self.pages > 1);
        self.read(number, drawn, next)
    }

    /// The same of the picture that a file is, or of the page of it that is described at this place.
    pub(super) fn photo(
        &mut self,
        number: u32,
        bytes: &[u8],
        page: Option<u32>,
    ) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        // One that is too large or damaged is so whether or not anybody can read its letters.
        let mut failure = None;
        let draw = || {
            let picture = photo::picture(bytes, page).map_err(|why| failure = Some(why)).ok()?;
            Some(DrawnPage { picture, unpacked: u64::MAX })
        };
        let read = self.read(number, draw, None);
        failure.map_or(read, Err)
    }

    fn read(
        &mut self,
        number: u32,
        draw: impl FnOnce() -> Option<DrawnPage>,
        next: Option<&Page<'_>>,
    ) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        match self.models {
            Models::Deferred => Err(Failure::NeedsRecognition),
            _ => Ok(self.recognised(number, draw, next)),
        }
    }

    fn recognised(
        &mut self,
        number: u32,
        draw: impl FnOnce() -> Option<DrawnPage>,
        next: Option<&Page<'_>>,
    ) -> Result<RecognisedText, UnreadReason> {
        // Of each document in an archive it is another page from which on none was recognised.
        let spent = UnreadReason::Spent { first: number };
        if let Models::Missing(why) = self.models {
            return Err(why);
        }
        let late = UnreadReason::OutOfTime { first: number };
        if self.pages == 0 || self.time.is_zero() {
            return Err(if self.pages == 0 { spent } else { late });
        }
        let begun = Instant::now();
        let deadline = begun + self.time;
        let mut ahead = None;
        // A page whose drawing panics is one that cannot be drawn.
        let text = catch_unwind(AssertUnwindSafe(|| {
            let recogniser = self.recogniser()?;
            let DrawnPage { picture, unpacked } = draw().ok_or(UnreadReason::Undrawn)?;
            let next = next.filter(|_| unpacked <= MOST_AHEAD);
            let text = thread::scope(|scope| {
                let drawing = next.map(|next| scope.spawn(move || drawing::page(next)));
                let text = recogniser.text(&picture, deadline);
                ahead = drawing.map(|drawing| drawing.join().unwrap_or_default());
                text
            });
            text.map_err(|error| match error {
                OcrError::Late => late,
                _ => UnreadReason::NoModels,
            })
        }));
        self.ahead = ahead.map(|drawn| (number + 1, drawn));
        self.pages -= 1;
        self.time = self.time.saturating_sub(begun.elapsed());
        match text.unwrap_or(Err(UnreadReason::Undrawn)) {
            Ok(PageText { lines, is_cut }) => Ok(RecognisedText { text: pdf::recognised(&lines), is_cut }),
            Err(why) => {
                if why == UnreadReason::NoModels {
                    self.models = Models::Missing(why);
                }
                Err(why)
            }
        }
    }

    fn recogniser(&mut self) -> Result<&Recogniser, UnreadReason> {
        if let Models::Opened(files, threads) = &mut self.models {
            let loaded = load(files, *threads).ok_or(UnreadReason::NoModels)?;
            self.models = Models::Loaded(Box::new(loaded));
        }
        match &self.models {
            Models::Loaded(recogniser) => Ok(recogniser),
            Models::Missing(why) => Err(*why),
            Models::Deferred | Models::Opened(..) => Err(UnreadReason::NoModels),
        }
    }
}

fn load(files: &mut [File], threads: NonZeroUsize) -> Option<Recogniser> {
    let [detection, recognition, letters] = files else { return None };
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.take(MODEL_BYTES).read_to_end(&mut bytes).ok().map(|_| bytes)
    };
    let files = ModelFiles {
        detection: read(detection)?,
        recognition: read(recognition)?,
        letters: String::from_utf8(read(letters)?).ok()?,
    };
    Recogniser::load(files, threads).ok()
}
