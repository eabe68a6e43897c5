//! What a turn does next. Pure.

use std::time::Duration;

use agentd_core::turn::StopReason;

use super::{Limits, TurnState, rounds::MOST};

/// Next step of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Run the calls that have no result.
    Dispatch,
    /// Ask the model.
    Sample,
    /// Ask for the last answer, which may call nothing, and end for this reason.
    Finalize(StopReason),
    /// The turn is over.
    End(StopReason),
}

/// Decides what comes next, from what there is and from how long the turn has worked.
pub(crate) fn next(state: &TurnState, limits: Limits, worked: Duration) -> Step {
    if !state.pending_calls.is_empty() {
        return Step::Dispatch;
    }
    // A turn that only compacts has nothing to ask.
    if state.answer.is_some() || state.only_compacts() {
        return Step::End(StopReason::Completed);
    }
    // Until then the model was told what was wrong with its answers.
    if let Some(reason) = state.unusable.end() {
        return Step::End(reason);
    }
    match reached(state, limits, worked) {
        Some(reason) => Step::Finalize(reason),
        None => Step::Sample,
    }
}

/// The limit that was reached, if one was.
fn reached(state: &TurnState, limits: Limits, worked: Duration) -> Option<StopReason> {
    let tokens = state.usage.tokens();
    if state.rounds.repeated() >= MOST {
        Some(StopReason::Loop)
    } else if state.steps >= limits.max_steps {
        Some(StopReason::MaxSteps)
    } else if limits.time.is_some_and(|limit| worked >= limit) {
        Some(StopReason::TimeLimit)
    } else if limits.tokens.is_some_and(|limit| tokens >= limit) {
        Some(StopReason::Budget)
    } else {
        None
    }
}
