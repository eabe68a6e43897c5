//! What can be seen of the embedded model from outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State of the embedded model, and counters since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmbeddedStatus {
    /// Set while the weights are in memory.
    pub loaded: bool,
    /// Number of loads.
    pub loads: u64,
    /// Set while a request is being worked on.
    pub busy: bool,
    /// Tokens of prompts and answers that were computed; reused ones do not count.
    pub evaluated_tokens: u64,
    /// Tokens of answers and arguments that were made.
    pub generated_tokens: u64,
}

/// The same, as the worker counts it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    loaded: AtomicBool,
    loads: AtomicU64,
    pub(crate) busy: AtomicBool,
    pub(crate) evaluated: AtomicU64,
    pub(crate) generated: AtomicU64,
}

// The counters order nothing else, so that relaxed operations do.
impl Counters {
    pub(crate) fn status(&self) -> EmbeddedStatus {
        EmbeddedStatus {
            loaded: self.loaded.load(Ordering::Relaxed),
            loads: self.loads.load(Ordering::Relaxed),
            busy: self.busy.load(Ordering::Relaxed),
            evaluated_tokens: self.evaluated.load(Ordering::Relaxed),
            generated_tokens: self.generated.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set_loaded(&self, loaded: bool) {
        self.loaded.store(loaded, Ordering::Relaxed);
        self.loads.fetch_add(u64::from(loaded), Ordering::Relaxed);
    }
}
