//! Text in pictures: where its lines are, and the letters of each.
//!
//! Two small networks do the work. The first marks the pixels that belong to lines of text. The second reads one line and
//! tells its letters from left to right. Everything between them is plain geometry, and is here.
//!
//! - [`picture`]: [`Picture`], a grey picture, and its pixels between pixels.
//! - `detection`: the first network; connected pixels and the upright or slanted box around them.
//! - `recognition`: the second network, and the letters that it knows.
//! - `page`: what is likely to be text, levelled, as [`Line`]s.
//!
//! Pictures come from strangers, and so may the models' files: both are only computed with. The caller bounds the size of
//! a picture, and the time by [`Recogniser::text`].

mod detection;
mod page;
pub mod picture;
mod recognition;

use std::{num::NonZeroUsize, sync::Arc, time::Instant};

use rten::{LoadError, Model, ModelOptions, RunError, ThreadPool};

pub use detection::MOST_LINES;
pub use page::{Letter, Line, PageText};
pub use picture::Picture;

use self::recognition::Alphabet;

/// Contents of the models' files.
#[derive(Debug)]
pub struct ModelFiles {
    /// The network that finds lines, as ONNX.
    pub detection: Vec<u8>,
    /// The network that reads a line, as ONNX.
    pub recognition: Vec<u8>,
    /// The letters that it knows, one a line.
    pub letters: String,
}

/// Reason why there are no lines.
#[derive(Debug, thiserror::Error)]
pub enum OcrError {
    /// A file holds no model, or another one.
    #[error("the model that {task} cannot be loaded")]
    Load {
        /// Its task.
        task: &'static str,
        /// The reason.
        #[source]
        source: LoadError,
    },
    /// A network cannot compute with what it was given.
    #[error("a network failed")]
    Run(#[from] RunError),
    /// A network answers in a form that is not expected.
    #[error("a network answers in a form that is not expected: {0}")]
    Form(&'static str),
    /// The time is over.
    #[error("the time is over")]
    Late,
}

/// Recognises text in pictures.
pub struct Recogniser {
    detection: Model,
    recognition: Model,
    alphabet: Alphabet,
    /// All threads together, for one large picture.
    wide: Arc<ThreadPool>,
    /// One thread each, for lines beside each other.
    narrow: Vec<Arc<ThreadPool>>,
}

impl Recogniser {
    /// Loads the networks. They compute with this many threads.
    ///
    /// # Errors
    /// Fails if a file holds no model.
    pub fn load(files: ModelFiles, threads: NonZeroUsize) -> Result<Self, OcrError> {
        let load = |bytes, task| {
            let mut options = ModelOptions::with_all_ops();
            options.prepack_weights(true).load(bytes).map_err(|source| OcrError::Load { task, source })
        };
        let narrow = (0..threads.get()).map(|_| Arc::new(ThreadPool::with_num_threads(1))).collect();
        Ok(Self {
            detection: load(files.detection, "finds lines")?,
            recognition: load(files.recognition, "reads lines")?,
            alphabet: Alphabet::of(&files.letters),
            wide: Arc::new(ThreadPool::with_num_threads(threads.get())),
            narrow,
        })
    }

    /// The text in a picture. Of noise, photographs and drawings nothing is told.
    ///
    /// # Errors
    /// Fails at the deadline, and if a network fails.
    pub fn text(&self, picture: &Picture, deadline: Instant) -> Result<PageText, OcrError> {
        page::text(self, picture, deadline)
    }
}
