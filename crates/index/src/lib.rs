//! Document search: extraction of text with its pages, sheets and slides, and an index of chunks that can be cited.
//!
//! Documents may be hostile and the libraries that parse them are large, so the daemon never parses a document itself.
//! Instead, it starts its own executable again as a sandboxed [`worker`], which reads the document and sends the
//! content in frames. The daemon validates every frame.
//!
//! - [`document`]: data types of a document, [`Part`], [`DocumentPlace`] and [`Table`]; pure.
//! - [`kind`]: detection of the document type, first by content and second by name; pure.
//! - [`failure`]: limits on reading, and the errors with their messages.
//! - [`extract`](mod@extract): one module per format, from bytes to parts.
//! - `frame`: protocol between daemon and worker.
//! - [`worker`]: [`Extractor`] on the daemon's side, [`run_worker`] in the worker.
//! - [`chunk`]: chunks of about a paragraph, each with the location by which it is cited; pure.
//! - [`analyze`]: tokenizers for English, Chinese, Japanese and Korean; pure.
//! - [`index`]: the index on disk, written by one thread. [`IndexHandle`] is its asynchronous interface.
//! - [`library`]: [`Library`], the implementation of the core's port for the daemon's tools.
//! - `picture`: [`PictureReader`], which prepares images for models in a similar worker.
//! - [`recognition`]: OCR settings, model files and limits.
//! - [`search`]: from a query to [`Hit`]s with their citations.
//!
//! Functions that read a document take an open file and no path, so that a path that changes in the meantime cannot
//! redirect them.

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
pub use handle::{IndexHandle, release_memory};
pub use index::{ContentHash, DocumentId, DocumentProperties, Entry, IndexConfig, IndexError, Indexing};
pub use kind::Kind;
pub use library::Library;
pub use picture::{PICTURE_WORKER_ARGUMENT, PictureReader, run_picture_worker};
pub use recognition::{Recognition, RecognitionConfig, RecognitionStamp};
pub use search::{Answer, Hit, Query, Request, Snippet, VisibleDocument};
pub use worker::{Extraction, Extractor, ReadingPass, WORKER_ARGUMENT, WorkerTurn, run_worker};
