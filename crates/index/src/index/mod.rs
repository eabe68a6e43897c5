//! The index: a folder of files from which everything can be found, and which can be thrown away at any time.
//!
//! One thread writes ([`writer`]), a [`View`](view::View) of what was written last is what everybody reads, and
//! [`IndexHandle`](crate::IndexHandle) is how all others speak to both. A document is there when its *entry* was written, which happens in the
//! same commit as its last chunk: whatever is cut off before that is never seen, and cleaned away at the next start.
//!
//! - [`id`]: which document: what is in it, and how it was read.
//! - [`config`] and [`error`]: what it may cost, and how it can fail.
//! - [`schema`]: the fields, and the terms that go into them.
//! - [`folder`]: the files: one version of the fields a folder, made anew when it is damaged, and when segments are merged; [`files`]: how
//!   they are read.
//! - [`view`]: what is there to be found, all of one moment, and what the writer shares with whoever searches.
//! - [`writer`]: the thread that writes, its queue, its rests.
//! - [`uses`]: when a document was last used, and what may therefore go.
//! - [`indexing`]: documents on their way into it, and those that the writer is at.

pub mod config;
pub mod error;
pub mod files;
pub mod folder;
pub mod id;
pub mod indexing;
pub mod schema;
pub mod uses;
pub mod view;
pub mod writer;

pub use config::IndexConfig;
pub use error::IndexError;
pub use id::{ContentHash, DocumentId};
pub use indexing::{Claim, Indexing};
pub use view::{About, Entry};
