//! Search of a session for the map of its project: how often it was asked for, and whether there is one.

use std::path::PathBuf;

/// Search for a project's map.
#[derive(Debug, Default)]
pub(crate) struct MapSearch {
    pub(crate) project: PathBuf,
    /// Turns that asked for it.
    pub(crate) tries: u8,
    /// Set if there is nothing to draw.
    pub(crate) is_empty: bool,
}
