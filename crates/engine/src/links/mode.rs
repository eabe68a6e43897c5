//! Plan mode: tells the model at the tail of each request that it only looks, so that it plans in place of trying.

use agentd_context::RequestBuilder;
use agentd_core::session::SessionMode;

use crate::turn::{TurnContext, TurnState, hooks::Link};

const PLANNING: &str = "The session is in plan mode: calls that change files or run commands that do more than look are \
    refused. Look at what you need, then answer with a plan of what you would change, step by step, and let the person \
    decide. Do not ask for leave to make the changes: the person ends plan mode.";

pub(crate) struct PlanMode;

impl Link for PlanMode {
    fn name(&self) -> &'static str {
        "plan_mode"
    }

    fn description(&self) -> &'static str {
        "tells the model while the session is in plan mode"
    }

    fn before_model(&self, context: &TurnContext, _: &TurnState, draft: &mut RequestBuilder) {
        if context.rules.grants.mode() == SessionMode::Plan {
            draft.remind(PLANNING.to_owned());
        }
    }
}
