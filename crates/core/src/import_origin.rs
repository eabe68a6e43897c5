//! Origin of imported sessions.

use serde::{Deserialize, Serialize};

use crate::context::ContextView;

/// Origin of an imported session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportOrigin {
    /// Number of the last imported event. Events up to this number describe another machine.
    pub events: u64,
    /// Content of the session's window on the original machine, shown until the session is used here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextView>,
}
