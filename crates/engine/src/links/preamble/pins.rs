//! Rules that a person pinned: told once, and again where a compaction replaced them or they changed.

use agentd_context::frame::one_line;
use agentd_core::item::NoticeTopic;

use crate::turn::{
    TurnContext, TurnState,
    hooks::{Link, Reminder},
    reminders,
};

const PREFACE: &str = "The person pinned these rules for this session; they hold until the person removes them:";
const NONE: &str = "The person removed all pinned rules.";

pub(crate) struct Pins;

impl Link for Pins {
    fn name(&self) -> &'static str {
        "pins"
    }

    fn description(&self) -> &'static str {
        "tells the rules that a person pinned, whenever the model no longer sees them"
    }

    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let pins: Vec<String> = context.settings.pins.iter().map(|pin| format!("\n- {}", one_line(pin))).collect();
        if pins.is_empty() {
            let told = reminders::last(&state.history, NoticeTopic::Pins, context.ids.turn)?;
            return (told != NONE).then(|| Reminder::new(NoticeTopic::Pins, NONE));
        }
        Some(Reminder::new(NoticeTopic::Pins, format!("{PREFACE}{}", pins.concat())))
    }
}
