//! The loop of a turn.

use std::sync::Arc;

use agentd_core::turn::StopReason;

use super::{
    Stop, TurnContext, TurnState, dispatch, finalize,
    recorder::EndVerdict,
    sample,
    step::{self, Step},
};

/// Runs a turn to its end. Whatever happens inside, its session is told exactly one end; the only turn that
/// tells none is one whose session cannot store it.
pub(crate) async fn run(context: Arc<TurnContext>, mut state: TurnState) {
    let mut prepared = context.chain.before_turn(&context, &mut state).await;
    loop {
        let rounds = match prepared {
            Ok(()) => rounds(&context, &mut state).await,
            Err(stop) => Err(stop),
        };
        let rounds = match rounds {
            Ok(reason) => context.chain.after_steps(&context, &mut state).await.map(|()| reason),
            stopped => stopped,
        };
        let outcome = match rounds {
            Ok(reason) | Err(Stop::Ended(reason)) => state.outcome(reason, None),
            Err(Stop::Refused(denial)) => {
                state.note_denial(denial.call_id, denial.tool, denial.reason);
                state.outcome(StopReason::Denied, None)
            }
            Err(Stop::HandsOn) => {
                state.worked = context.stopwatch.worked();
                return context.recorder.hand_on(state).await;
            }
            Err(Stop::Failed(error)) => state.outcome(StopReason::Failed, Some(error)),
            Err(Stop::Lost) => return,
        };
        match context.recorder.end(outcome).await {
            Ok(EndVerdict::NewInput) => {
                // Also a turn that was only to compact answers what was added to it.
                (state.new_input, state.only_compact, state.answer) = (true, false, None);
                prepared = Ok(());
            }
            Ok(EndVerdict::Ended) | Err(_) => return,
        }
    }
}

/// Goes round until there is an answer, a limit or a failure.
async fn rounds(context: &TurnContext, state: &mut TurnState) -> Result<StopReason, Stop> {
    loop {
        // Before the first step nothing can have been added that the input does not hold, and asking would wait for the
        // turn's start to be stored: so the model is asked meanwhile. What comes now is taken in behind its answer.
        if state.steps > 0 || state.new_input {
            state.new_input = false;
            for steer in context.recorder.take_steers().await? {
                state.note(steer);
            }
        }
        context.chain.before_step(context, state).await?;
        match step::next(state, context.limits, context.stopwatch.worked()) {
            Step::Dispatch => dispatch::dispatch(context, state).await?,
            Step::Sample => sample::sample(context, state).await?,
            Step::Finalize(reason) => {
                // A model asked once more, on top of all this: no turn needs the room before.
                Box::pin(finalize::finalize(context, state)).await?;
                return Ok(reason);
            }
            Step::End(reason) => return Ok(reason),
        }
    }
}
