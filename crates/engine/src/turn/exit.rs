//! Why a turn's steps end.

use agentd_core::{
    error::ModelError,
    turn::{Denial, StopReason, TurnError},
};

/// Why a turn's steps end.
#[derive(Debug)]
pub(crate) enum TurnExit {
    /// With an answer, at a limit, or by a cancel.
    Finished(StopReason),
    /// A call needed an answer, and the client had said to fail then.
    Denied(Denial),
    /// With an error.
    Failed(TurnError),
    /// Another agent continues the turn.
    Handoff,
    /// The session cannot store what the turn does. Nothing more may be done, and no end is recorded.
    SessionGone,
}

impl From<ModelError> for TurnExit {
    fn from(error: ModelError) -> Self {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(kind = ?error.kind(), source, "the model call failed: {error}");
        Self::Failed(TurnError {
            kind: error.kind(),
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
        })
    }
}
