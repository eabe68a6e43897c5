//! The main loop of a turn.

use std::sync::Arc;

use agentd_core::turn::StopReason;

use super::{
    Flow, TurnContext, TurnExit, TurnState, dispatch, sample,
    step::{self, Step},
};

/// Runs a turn to its end. The session records exactly one end for the turn, unless it cannot store events.
pub(crate) async fn run(context: Arc<TurnContext>, mut state: TurnState) {
    let mut exit = match context.tools.chain.before_turn(&context, &mut state).await {
        Ok(()) => run_steps(&context, &mut state, false).await,
        Err(exit) => exit,
    };
    loop {
        state.worked = context.control.stopwatch.worked();
        let outcome = match exit {
            TurnExit::Finished(reason) => state.outcome(reason, state.form_error(reason)),
            TurnExit::Failed(error) => state.outcome(StopReason::Failed, Some(error)),
            TurnExit::Denied(denial) => {
                state.note_denial(denial.call_id, denial.tool, denial.reason);
                state.outcome(StopReason::Denied, None)
            }
            TurnExit::Handoff => return context.recorder.transfer_turn(state).await,
            TurnExit::Unanswered(call) => return context.recorder.fail_over(state, call).await,
            TurnExit::SessionGone => return,
        };
        match context.recorder.end(outcome).await {
            Ok(false) => {
                state.reopen();
                exit = run_steps(&context, &mut state, true).await;
            }
            Ok(true) | Err(_) => return,
        }
    }
}

/// Runs steps until there is an answer, a limit or a failure. Runs the `on_finish` hooks unless a step failed.
async fn run_steps(context: &TurnContext, state: &mut TurnState, has_input: bool) -> TurnExit {
    let ended = match steps(context, state, has_input).await {
        Ok(reason) => context.tools.chain.on_finish(context, state).await.map(|()| reason),
        Err(exit) => Err(exit),
    };
    ended.map_or_else(|exit| exit, TurnExit::Finished)
}

async fn steps(context: &TurnContext, state: &mut TurnState, mut has_input: bool) -> Flow<StopReason> {
    loop {
        // Before the first step, the input already contains everything that was added. Asking the session would only
        // wait until the turn's start is stored, so the model is called at once. Messages sent in the meantime are
        // taken after the model's answer.
        if (state.steps > 0 || has_input) && !state.is_planned() {
            has_input = false;
            for steer in context.recorder.take_steers().await? {
                state.note(steer);
            }
        }
        context.tools.chain.before_step(context, state).await?;
        match step::next(state, context.limits, context.control.stopwatch.worked()) {
            Step::Dispatch => dispatch::dispatch(context, state).await?,
            Step::Sample => sample::sample(context, state).await?,
            Step::Finalize(reason) => {
                // The future is boxed, because one more model call would otherwise enlarge the future of every turn.
                Box::pin(sample::finalize(context, state)).await?;
                return Ok(reason);
            }
            Step::End(reason) => return Ok(reason),
        }
    }
}
