//! Why a turn's steps end.

use agentd_core::{
    error::{ErrorKind, ModelError},
    model::ModelInfo,
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
    /// The model's server does not answer, and another model can be asked from here.
    Unanswered(Box<UnansweredCall>),
    /// The turn continues in a new task: with another agent, or with tools that were not known before.
    Handoff,
    /// The session cannot store what the turn does. Nothing more may be done, and no end is recorded.
    SessionGone,
}

/// A model call to which nothing was said.
#[derive(Debug)]
pub(crate) struct UnansweredCall {
    /// The model.
    pub(crate) model: ModelInfo,
    /// Why not.
    pub(crate) error: TurnError,
}

impl From<ModelError> for TurnExit {
    fn from(error: ModelError) -> Self {
        Self::Failed(turn_error(error))
    }
}

impl TurnExit {
    /// The end of a turn, or of its model's part in it, where the model said nothing before the error.
    pub(crate) fn of_silent(model: &ModelInfo, error: ModelError) -> Self {
        let fails_over = matches!(
            error.kind(),
            ErrorKind::Unreachable
                | ErrorKind::Timeout
                | ErrorKind::CutStream
                | ErrorKind::Provider
                | ErrorKind::RateLimited
                | ErrorKind::QuotaExceeded
        );
        let error = turn_error(error);
        if fails_over {
            Self::Unanswered(Box::new(UnansweredCall { model: model.clone(), error }))
        } else {
            Self::Failed(error)
        }
    }
}

fn turn_error(error: ModelError) -> TurnError {
    let source = std::error::Error::source(&error).map(ToString::to_string);
    tracing::warn!(kind = ?error.kind(), source, "the model call failed: {error}");
    TurnError { kind: error.kind(), message: error.to_string(), hint: error.hint().map(str::to_owned) }
}
