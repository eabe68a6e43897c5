//! A document is read by a process that can do nothing else.
//!
//! The daemon starts its own program once more as a *worker*, hands it the open file, and reads what it tells, one part a
//! frame. The worker gives up all rights before it looks at the first byte: it can open no file, make no connection, start
//! no program, and take no more memory and time than it was given. Whatever a document makes of it, the daemon goes on.
//!
//! - `child`: the worker's side, [`run_worker`].
//! - `extraction`: the daemon's side: [`Extractor`] starts workers, [`Extraction`] reads and checks one.
//! - `picture`: the same for pictures, [`run_picture_worker`].
//! - `turn`: how many workers there are at a time.

mod child;
mod extraction;
mod picture;
mod turn;

pub use child::run_worker;
pub(crate) use extraction::command;
pub use extraction::{Extraction, Extractor, WantedParts};
pub use picture::{PICTURE_WORKER_ARGUMENT, run_picture_worker};
pub(crate) use picture::{PictureHeader, SIDE};
pub use turn::{ReadingPass, WorkerTurn};

/// The first argument by which a program knows that it is to be the worker.
pub const WORKER_ARGUMENT: &str = "extract-worker";
