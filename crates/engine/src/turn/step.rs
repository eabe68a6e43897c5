//! Decides on the next step of a turn. No side effects.

use std::time::Duration;

use agentd_core::turn::StopReason;

use super::{Limits, TurnState, rounds::END_AFTER};

/// Next step of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Run the pending calls.
    Dispatch,
    /// Call the model for an answer.
    Sample,
    /// Request a final answer without tool calls, then end the turn for this reason.
    Finalize(StopReason),
    /// End the turn for this reason.
    End(StopReason),
}

/// Returns the next step for this state. `worked` is the turn's working time so far.
pub(crate) fn next(state: &TurnState, limits: Limits, worked: Duration) -> Step {
    if !state.pending_calls.is_empty() {
        return Step::Dispatch;
    }
    // A compaction-only turn never calls the model.
    if state.answer.is_some() || state.only_compacts() {
        return Step::End(StopReason::Completed);
    }
    // Below the retry limit, the model is called again with a notice about the problem.
    if let Some(reason) = state.unusable.end() {
        return Step::End(reason);
    }
    match reached_limit(state, limits, worked) {
        Some(reason) => Step::Finalize(reason),
        None => Step::Sample,
    }
}

/// Returns the limit that was reached, if any.
fn reached_limit(state: &TurnState, limits: Limits, worked: Duration) -> Option<StopReason> {
    let limits = [
        (state.rounds.repeated() >= END_AFTER, StopReason::Loop),
        (state.steps >= limits.max_steps, StopReason::MaxSteps),
        (limits.time.is_some_and(|limit| worked >= limit), StopReason::TimeLimit),
        (limits.tokens.is_some_and(|limit| state.usage.tokens() >= limit), StopReason::Budget),
    ];
    limits.into_iter().find_map(|(is_reached, reason)| is_reached.then_some(reason))
}

#[cfg(test)]
mod tests {
    use agentd_core::{ids::CallId, tool::ToolCall, usage::Usage};

    use super::*;
    use crate::turn::unusable_answers::Problem;

    const LIMITS: Limits = Limits { max_steps: 3, time: Some(Duration::from_secs(60)), tokens: Some(1000) };

    fn check(state: TurnState, worked_s: u64, expected: Step) {
        assert_eq!(next(&state, LIMITS, Duration::from_secs(worked_s)), expected, "{state:?}");
    }

    #[test]
    fn next_step_follows_from_turn_state() {
        let call = ToolCall { call_id: CallId::generate(), name: "now".to_owned(), arguments: "{}".to_owned() };
        let spent = Usage { prompt_tokens: 900, completion_tokens: 100, ..Usage::default() };
        check(TurnState::default(), 0, Step::Sample);
        check(TurnState { steps: 2, ..TurnState::default() }, 0, Step::Sample);
        check(TurnState { steps: 3, ..TurnState::default() }, 0, Step::Finalize(StopReason::MaxSteps));
        check(TurnState::default(), 60, Step::Finalize(StopReason::TimeLimit));
        check(TurnState { usage: spent, ..TurnState::default() }, 0, Step::Finalize(StopReason::Budget));
        check(
            TurnState { answer: Some("42".to_owned()), steps: 3, ..TurnState::default() },
            0,
            Step::End(StopReason::Completed),
        );
        let unusable = |times: u32| {
            let mut state = TurnState::default();
            (0..times).for_each(|_| state.record_problem(Some(Problem::Empty { has_reasoning: false }), false));
            state
        };
        check(unusable(2), 0, Step::Sample);
        check(unusable(2), 60, Step::Finalize(StopReason::TimeLimit));
        check(unusable(3), 60, Step::End(StopReason::NoAnswer));
        check(TurnState { pending_calls: vec![call], steps: 3, ..TurnState::default() }, 99, Step::Dispatch);
    }
}
