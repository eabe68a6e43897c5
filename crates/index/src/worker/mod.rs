//! Reading of documents in sandboxed processes.
//!
//! The daemon starts its own executable again as a *worker*, passes the open file to it, and reads its frames, one
//! part each. The worker drops all privileges before it reads the first byte: it can open no file, make no connection
//! and start no program, and its memory and time are limited. If a document crashes or stalls its worker, the daemon
//! continues.
//!
//! - `child`: worker side, [`run_worker`].
//! - `extraction`: daemon side. [`Extractor`] starts workers, [`Extraction`] reads and validates their output.
//!
//! A few workers read concurrently. One more may run recognition, which takes minutes, so that other documents never
//! wait for recognition.

mod child;
mod extraction;

use tokio::sync::OwnedSemaphorePermit;

use crate::recognition::Recognition;
pub use child::run_worker;
pub(crate) use child::{read_all, run_confined};
pub(crate) use extraction::{CancellableReader, command};
pub use extraction::{Extraction, Extractor};

/// First argument of a process that runs as a document worker.
pub const WORKER_ARGUMENT: &str = "extract-worker";

/// Effort spent on a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingPass {
    /// Ends with [`NeedsRecognition`](crate::Failure::NeedsRecognition) at the first page that needs recognition. A
    /// quick pass does not wait long for a turn.
    Quick,
    /// Includes recognition if models are available. May wait for minutes.
    Full,
}

/// Permit to run one worker, released on drop.
#[derive(Debug)]
pub struct WorkerTurn {
    /// Recognition that the worker may use.
    pub(crate) recognition: Recognition,
    _permit: OwnedSemaphorePermit,
}
