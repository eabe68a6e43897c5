//! How full the window is, told where it is another level than was told last.

use agentd_core::event::EventKind;

use super::{TurnContext, TurnExit, TurnState};
use crate::turn::request;

/// Takes in how full the window of the turn's model is now, whoever was asked last.
pub(crate) async fn tell(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    let tokens = request::expected(context, state, context.models.model.info());
    match state.meter.moved(tokens, context.window()) {
        Some(change) => context.recorder.fact(EventKind::StateChanged { change }).await,
        None => Ok(()),
    }
}
