//! Origin of imported sessions.

use serde::{Deserialize, Serialize};

use crate::context::ContextView;

/// Origin of an imported session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportOrigin {
    /// Number of the last imported event. Events up to this number were recorded on another machine.
    pub events: u64,
    /// Content of the session's window on the original machine. Shown until the session is used on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
}
