//! Documents and pictures: the adapter that the feature `documents` brings, or one that reports what this
//! build lacks.

#[cfg(not(feature = "documents"))]
mod missing;
#[cfg(feature = "documents")]
mod reader;

#[cfg(not(feature = "documents"))]
pub use missing::{Library, run_worker};
#[cfg(not(feature = "documents"))]
pub(crate) use missing::{give_back, library, pictures};
#[cfg(feature = "documents")]
pub use reader::{Library, run_worker};
#[cfg(feature = "documents")]
pub(crate) use reader::{give_back, library, pictures};
