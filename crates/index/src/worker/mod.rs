//! A document is read by a process that can do nothing else.
//!
//! The daemon starts its own program once more as a *worker*, hands it the open file, and reads what it tells, one part a
//! frame. The worker gives up all rights before it looks at the first byte: it can open no file, make no connection, start
//! no program, and take no more memory and time than it was given. Whatever a document makes of it, the daemon goes on.
//!
//! - `child`: the worker's side, [`run_worker`].
//! - `extraction`: the daemon's side: [`Extractor`] starts workers, [`Extraction`] reads and checks one.
//!
//! A few read at a time, and beside them one recognises letters, which takes minutes. Whoever needs no recognition never waits for one who
//! does.

mod child;
mod extraction;

use tokio::sync::OwnedSemaphorePermit;

use crate::recognition::Recognition;
pub use child::run_worker;
pub(crate) use child::{confined, read_all};
pub(crate) use extraction::{AwaitedReader, command};
pub use extraction::{Extraction, Extractor};

/// The first argument by which a program knows that it is to be the worker.
pub const WORKER_ARGUMENT: &str = "extract-worker";

/// Effort of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingPass {
    /// Ends with [`NeedsRecognition`](crate::Failure::NeedsRecognition) at the first page whose letters can only be recognised. It has its turn soon.
    Quick,
    /// Recognises letters where there are models. It may wait for minutes.
    Full,
}

/// Permission to run one worker, given back when this is dropped.
#[derive(Debug)]
pub struct WorkerTurn {
    /// The recognition that the worker has.
    pub(crate) recognition: Recognition,
    _permit: OwnedSemaphorePermit,
}
