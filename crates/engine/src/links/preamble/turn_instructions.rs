//! Instructions of the client for one turn: told in it, and taken back in the next one, for the words stay in the history.

use agentd_core::item::{ItemBody, NoticeTopic};

use crate::turn::{
    TurnContext, TurnState,
    hooks::{Link, Reminder},
};

const PREFACE: &str =
    "Instructions for this turn, from the program that the person uses. They hold for this turn only:";

/// Said in the next turn that has none.
const OVER: &str = "The instructions of that turn no longer hold.";

pub(crate) struct TurnInstructions;

impl Link for TurnInstructions {
    fn name(&self) -> &'static str {
        "turn_instructions"
    }

    fn description(&self) -> &'static str {
        "tells the model what the client wants of this turn alone, and in the next one that it is over"
    }

    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let text = match &context.options.instructions {
            Some(instructions) => format!("{PREFACE}\n\n{instructions}"),
            None => {
                let mut told = state.history.iter().rev().filter_map(|item| match &item.body {
                    ItemBody::Notice { topic: NoticeTopic::TurnInstructions, text, .. } => Some(text.as_str()),
                    _ => None,
                });
                told.next().filter(|text| *text != OVER).map(|_| OVER.to_owned())?
            }
        };
        Some(Reminder::new(NoticeTopic::TurnInstructions, text))
    }
}
