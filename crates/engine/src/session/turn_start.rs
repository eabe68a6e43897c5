//! A turn to start, with what no journal can hold.

use agentd_core::turn::StartTurn;

use crate::client_tools::ClientLine;

/// A turn to start, with the line to its client, where that answers tools.
#[derive(Debug)]
pub struct TurnStart {
    /// The start itself.
    pub start: StartTurn,
    /// The line to the client. Without one its tools are left out.
    pub line: Option<ClientLine>,
}

impl From<StartTurn> for TurnStart {
    fn from(start: StartTurn) -> Self {
        Self { start, line: None }
    }
}
