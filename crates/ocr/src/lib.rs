//! Optical character recognition: finds the lines in an image and reads their characters.
//!
//! Recognition uses two small networks. The first marks the pixels that belong to text lines. The second reads the
//! characters of one line from left to right. The geometry between them is implemented in this crate.
//!
//! - [`picture`]: [`Picture`], a greyscale image with interpolation.
//! - `detection`: first network, and the boxes around connected pixels.
//! - `recognition`: second network and its character set.
//! - `page`: selection of likely text, deskewed as [`Line`]s.
//!
//! Images are untrusted, and so may be the model files: both are only used for computation. The caller limits the image
//! size, and limits the time with the deadline of [`Recogniser::text`].

mod detection;
mod page;
pub mod picture;
mod recognition;

use std::{num::NonZeroUsize, sync::Arc, time::Instant};

use rten::{LoadError, Model, ModelOptions, RunError, ThreadPool};

pub use detection::MAX_LINES;
pub use page::{Letter, Line, PageText};
pub use picture::Picture;

use self::recognition::Alphabet;

/// Contents of the model files.
#[derive(Debug)]
pub struct ModelFiles {
    /// ONNX network that finds lines.
    pub detection: Vec<u8>,
    /// ONNX network that reads a line.
    pub recognition: Vec<u8>,
    /// Character set of the second network, one character per line.
    pub letters: String,
}

/// Error of the recognition.
#[derive(Debug, thiserror::Error)]
pub enum OcrError {
    /// A file does not contain the expected model.
    #[error("could not load the model that {task}")]
    Load {
        /// Task of the model.
        task: &'static str,
        /// Error of the model loader.
        #[source]
        source: LoadError,
    },
    /// A network failed to compute its output.
    #[error("could not run a network")]
    Run(#[from] RunError),
    /// A network returned an output with an unexpected shape.
    #[error("unexpected output of a network: {0}")]
    UnexpectedOutput(&'static str),
    /// The deadline has passed.
    #[error("timed out")]
    TimedOut,
}

/// Recognises text in images.
pub struct Recogniser {
    detection: Model,
    recognition: Model,
    alphabet: Alphabet,
    /// Pool of all threads, for one large image.
    wide: Arc<ThreadPool>,
    /// Pools of one thread each, for lines in parallel.
    line_pools: Vec<Arc<ThreadPool>>,
}

impl Recogniser {
    /// Loads the networks, which compute with `threads` threads.
    ///
    /// # Errors
    /// Fails if a file does not contain a model.
    pub fn load(files: ModelFiles, threads: NonZeroUsize) -> Result<Self, OcrError> {
        let load = |bytes, task| {
            let mut options = ModelOptions::with_all_ops();
            options.prepack_weights(true).load(bytes).map_err(|source| OcrError::Load { task, source })
        };
        let line_pools = (0..threads.get()).map(|_| Arc::new(ThreadPool::with_num_threads(1))).collect();
        Ok(Self {
            detection: load(files.detection, "finds lines")?,
            recognition: load(files.recognition, "reads lines")?,
            alphabet: Alphabet::of(&files.letters),
            wide: Arc::new(ThreadPool::with_num_threads(threads.get())),
            line_pools,
        })
    }

    /// Recognises the text in an image. Noise, photographs and drawings yield no lines.
    ///
    /// # Errors
    /// Fails if the deadline passes, or if a network fails.
    pub fn text(&self, picture: &Picture, deadline: Instant) -> Result<PageText, OcrError> {
        page::text(self, picture, deadline)
    }
}
