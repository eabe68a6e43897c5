//! How full the window is, reported where it is another level than was reported last, and where requests become dearer.

use agentd_core::{event::EventKind, ports::Model};

use super::{TurnContext, TurnExit, TurnState};
use crate::turn::request;

/// Part of a request by which it may grow before the person is warned.
const PRICE_MARGIN: u64 = 10;

/// Takes in how full the window of the turn's model is now, whoever was asked last.
pub(crate) async fn tell(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    let tokens = request::expected(context, state, context.models.model.info());
    match state.meter.moved(tokens, context.window()) {
        Some(change) => context.recorder.fact(EventKind::StateChanged { change }).await,
        None => Ok(()),
    }
}

/// Warns where the next request comes near a size above which all of its tokens cost more: once in a session for each such
/// size.
pub(crate) async fn warn_of_price(
    context: &TurnContext,
    state: &mut TurnState,
    model: &dyn Model,
) -> Result<(), TurnExit> {
    let Some(prices) = model.prices().filter(|prices| !prices.tiers.is_empty()) else { return Ok(()) };
    let tokens = request::expected(context, state, model.info());
    let dearer = prices.of_request(tokens.saturating_add(tokens / PRICE_MARGIN));
    let usual = prices.of_request(dearer.above);
    if dearer.input <= usual.input || !state.meter.comes_near(dearer.above) {
        return Ok(());
    }
    let message = format!(
        "this request to {} has about {tokens} tokens; above {} tokens, all input of a request costs ${} for a million tokens \
         instead of ${}: /compact makes the next ones smaller",
        model.info().id,
        dearer.above,
        dearer.input,
        usual.input
    );
    context.recorder.fact(EventKind::Warning { code: "price_border".to_owned(), message }).await
}
