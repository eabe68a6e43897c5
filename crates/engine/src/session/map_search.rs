//! Search of a session for the map of its project: how often it was asked for, and whether there is one.

use std::path::PathBuf;

/// Search for a project's map.
#[derive(Debug, Default)]
pub(super) struct MapSearch {
    pub(super) project: PathBuf,
    /// Turns that asked for it.
    pub(super) tries: u8,
    /// Set if there is nothing to draw.
    pub(super) is_empty: bool,
}
