//! Recognition in a build that has it.

use std::{
    fs::File,
    io::Read as _,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use agentd_ocr::{ModelFiles, OcrError, PageText, Picture, Recogniser};
use hayro_syntax::page::Page;

use super::{RecognisedText, drawing, photo};
use crate::{
    extract::pdf,
    failure::{Failure, UnreadReason},
    recognition::{OpenRecognition, RecognitionBudget},
};

/// Size of a model's file at the most, in bytes.
const MODEL_BYTES: u64 = 256 * 1024 * 1024;

/// Recognises pages of one document.
#[derive(Debug)]
pub(crate) struct Scanner {
    models: Models,
    pages: u32,
    /// Time that is left.
    time: Duration,
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
        match opened {
            OpenRecognition::Missing(why) => Self { models: Models::Missing(why), pages: 0, time: Duration::ZERO },
            OpenRecognition::Deferred => Self { models: Models::Deferred, pages: 0, time: Duration::ZERO },
            OpenRecognition::Ready { files, budget: RecognitionBudget { pages, time, threads } } => {
                let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
                Self { models: Models::Opened(files, threads), pages, time }
            }
        }
    }

    /// Returns whether letters are recognised, so that it is worth while to look at what may have some.
    pub(in crate::extract) const fn is_wanted(&self) -> bool {
        !matches!(self.models, Models::Missing(_))
    }

    /// The text of a page of a PDF, or why it is not known.
    ///
    /// # Errors
    /// When it would have to be recognised, and that is deferred.
    pub(in crate::extract) fn page(
        &mut self,
        number: u32,
        page: &Page<'_>,
    ) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        self.read(number, || drawing::page(page))
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
        let read = self.read(number, || photo::picture(bytes, page).map_err(|why| failure = Some(why)).ok());
        failure.map_or(read, Err)
    }

    fn read(
        &mut self,
        number: u32,
        draw: impl FnOnce() -> Option<Picture>,
    ) -> Result<Result<RecognisedText, UnreadReason>, Failure> {
        match self.models {
            Models::Deferred => Err(Failure::NeedsRecognition),
            _ => Ok(self.recognised(number, draw)),
        }
    }

    fn recognised(
        &mut self,
        number: u32,
        draw: impl FnOnce() -> Option<Picture>,
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
        // A page whose drawing panics is one that cannot be drawn.
        let text = catch_unwind(AssertUnwindSafe(|| {
            let recogniser = self.recogniser()?;
            let picture = draw().ok_or(UnreadReason::Undrawn)?;
            recogniser.text(&picture, deadline).map_err(|error| match error {
                OcrError::Late => late,
                _ => UnreadReason::NoModels,
            })
        }));
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
