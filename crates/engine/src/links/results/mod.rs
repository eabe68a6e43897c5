//! Links around results: their size, their form, and the files that changed.

pub(crate) mod bytes;
pub(crate) mod diagnostics;
pub(crate) mod feedback;
pub(crate) mod large_results;
pub(crate) mod undo;
