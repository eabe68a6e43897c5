//! Documents: their text with its pages, sheets and slides, and the chunks by which it is searched and cited.
//!
//! Whoever wrote a document may mean harm, and the libraries that read documents are large. So the daemon itself never
//! parses one: a [`worker`], which is the daemon's own program started once more, reads it with next to no rights and
//! tells what it found part by part, and what it tells is checked as well.
//!
//! - [`document`]: what a document is: [`Part`], [`DocumentPlace`], [`Table`]; pure.
//! - [`kind`]: which kind it is, told from its bytes first and its name second; pure.
//! - [`failure`]: what reading may cost, and the words for how it can fail.
//! - [`extract`](mod@extract): one file a format, from bytes to parts.
//! - `frame`: what is sent to a worker, and what it sends.
//! - [`worker`]: [`Extractor`] is the daemon's side, [`run_worker`] the other one.
//! - [`chunk`]: pieces of about a paragraph, each with the place by which it is cited; pure.
//! - [`analyze`]: text as the terms by which it is found, in English, Chinese, Japanese and Korean; pure.
//! - [`index`]: the files in which chunks are found again, written by one thread. [`IndexHandle`]: their asynchronous face.
//! - [`library`]: all of it as one thing, [`Library`]: what the daemon's tools ask, through the core's port.
//! - `picture`: [`PictureReader`], which makes pictures fit for models in a worker of the same kind.
//! - [`recognition`]: letters of pages that are pictures: the models, and how much is recognised at once.
//! - [`search`]: from a query, whatever it is, to [`Hit`]s with their citations.
//!
//! Everything that takes a document takes an open file, so that what is read is what was meant, whatever happens to paths.

pub mod analyze;
pub mod chunk;
pub mod document;
pub mod extract;
pub mod failure;
mod frame;
mod handle;
pub mod index;
pub mod kind;
pub mod library;
mod picture;
pub mod recognition;
pub mod search;
pub mod worker;

pub use chunk::{Chunk, ChunkConfig, Chunker};
pub use document::{Body, CellRange, DocumentPlace, Part, Row, Table};
pub use failure::{Failure, Limits, ReadingLimit, ReadingLimits, UnreadPages, UnreadReason};
pub use frame::{Piece, WantedParts, Window};
pub use handle::{IndexHandle, give_back};
pub use index::{About, ContentHash, DocumentId, Entry, IndexConfig, IndexError, Indexing};
pub use kind::Kind;
pub use library::Library;
pub use picture::{PICTURE_WORKER_ARGUMENT, PictureReader, run_picture_worker};
pub use recognition::{Recognition, RecognitionConfig, RecognitionStamp};
pub use search::{Answer, Hit, Query, Request, Snippet, Visible};
pub use worker::{Extraction, Extractor, ReadingPass, WORKER_ARGUMENT, WorkerTurn, run_worker};
