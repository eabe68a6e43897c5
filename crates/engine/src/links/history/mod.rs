//! Links that prepare the history of a request.

pub(crate) mod compaction;
pub(crate) mod repair;
