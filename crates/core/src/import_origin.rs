//! Origin of sessions that were imported.

use serde::{Deserialize, Serialize};

use crate::context::ContextView;

/// Origin of a session that was imported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportOrigin {
    /// Number of the last event that was imported. What the events up to there say of a machine holds for another one.
    pub events: u64,
    /// Content of its window where it comes from. It is shown until something happens in the session here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
}
