//! Plan mode: tells the model when it begins that it only looks, so that it plans in place of trying, and when it ends.

use agentd_core::{item::NoticeTopic, session::SessionMode};

use crate::turn::{
    TurnContext, TurnState,
    hooks::{Link, Reminder},
    reminders,
};

const PLANNING: &str = "The session is in plan mode: calls that change files or run commands that do more than look are \
    refused. Look at what you need, then answer with a plan of what you would change, step by step, and let the person \
    decide. Do not ask for leave to make the changes: the person ends plan mode.";

/// Said when it ends, for the words above stay in the history.
const NO_LONGER_PLANNING: &str = "The person ended plan mode: you may change files and run commands again.";

pub(crate) struct PlanMode;

impl Link for PlanMode {
    fn name(&self) -> &'static str {
        "plan_mode"
    }

    fn description(&self) -> &'static str {
        "tells the model while the session is in plan mode"
    }

    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let told = reminders::last(&state.history, NoticeTopic::Mode, context.ids.turn);
        match context.rules.grants.mode() {
            SessionMode::Plan => Some(Reminder::new(NoticeTopic::Mode, PLANNING)),
            _ => told.map(|_| Reminder::new(NoticeTopic::Mode, NO_LONGER_PLANNING)),
        }
    }
}
