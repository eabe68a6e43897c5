//! Short reminders to the model, each told where it changed: what an input mentions, the rules that a person pinned, plan mode,
//! and instructions of the client for one turn.

use agentd_context::text::one_line;
use agentd_core::{
    item::{ItemBody, NoticeTopic},
    session::SessionMode,
};
use futures_util::FutureExt as _;

use crate::turn::{
    TurnContext, TurnExit, TurnState,
    hooks::{Hook, Link, Reminder, done},
    request,
};

/// Problems that are told one by one at the most.
const MAX_TOLD: usize = 5;

pub(crate) struct MentionsOfInput;

impl Link for MentionsOfInput {
    fn before_turn<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        // One that goes on after a restart has said so.
        if state.steps > 0 || context.tools.mentions.problems.is_empty() {
            return done(());
        }
        async move {
            let problems = &context.tools.mentions.problems;
            for problem in problems.iter().take(MAX_TOLD) {
                warn(context, problem.clone()).await?;
            }
            match problems.len().saturating_sub(MAX_TOLD) {
                0 => Ok(()),
                more => warn(context, format!("{more} more names that are mentioned load nothing either")).await,
            }
        }
        .boxed()
    }

    fn reminder(&self, context: &TurnContext, _: &TurnState) -> Option<Reminder> {
        let told = context.tools.mentions.reminders(|tool| context.tools.visible.get(tool).is_some());
        Some(Reminder::new(NoticeTopic::Mentions, told.join("\n")))
    }
}

async fn warn(context: &TurnContext, message: String) -> Result<(), TurnExit> {
    context.recorder.warn("mention", message).await
}

const PINNED: &str = "The person pinned these rules for this session; they hold until the person removes them:";
const NOTHING_PINNED: &str = "The person removed all pinned rules.";

pub(crate) struct Pins;

impl Link for Pins {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let pins: Vec<String> = context.settings.pins.iter().map(|pin| format!("\n- {}", one_line(pin))).collect();
        if pins.is_empty() {
            let told = request::last_reminder(&state.history, NoticeTopic::Pins, context.ids.turn)?;
            return (told != NOTHING_PINNED).then(|| Reminder::new(NoticeTopic::Pins, NOTHING_PINNED));
        }
        Some(Reminder::new(NoticeTopic::Pins, format!("{PINNED}{}", pins.concat())))
    }
}

const PLANNING: &str = "The session is in plan mode: calls that change files or run commands that do more than look are \
    refused. Look at what you need, then answer with a plan of what you would change, step by step, and let the person \
    decide. Do not ask for leave to make the changes: the person ends plan mode.";

/// Said when it ends, for the words above stay in the history.
const NO_LONGER_PLANNING: &str = "The person ended plan mode: you may change files and run commands again.";

pub(crate) struct PlanMode;

impl Link for PlanMode {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let told = request::last_reminder(&state.history, NoticeTopic::Mode, context.ids.turn);
        match context.rules.grants.mode() {
            SessionMode::Plan => Some(Reminder::new(NoticeTopic::Mode, PLANNING)),
            _ => told.map(|_| Reminder::new(NoticeTopic::Mode, NO_LONGER_PLANNING)),
        }
    }
}

const FOR_THIS_TURN: &str =
    "Instructions for this turn, from the program that the person uses. They hold for this turn only:";

/// Said in the next turn that has none.
const OVER: &str = "The instructions of that turn no longer hold.";

pub(crate) struct TurnInstructions;

impl Link for TurnInstructions {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let text = match &context.options.instructions {
            Some(instructions) => format!("{FOR_THIS_TURN}\n\n{instructions}"),
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
