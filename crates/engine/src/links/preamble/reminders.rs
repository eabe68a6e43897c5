//! What comes with an input or a turn, each told where it changed: files that the person handed over, told with what is said next,
//! and shown where they are pictures; what an input mentions; the rules that a person pinned; plan mode; and instructions of the
//! client for one turn.

use std::sync::Arc;

use agentd_context::{RequestBuilder, meter::pictures_left_out, text::one_line};
use agentd_core::{
    files::Picture,
    item::{ItemBody, NoticeTopic},
    model::Message,
    session::SessionMode,
};
use futures_util::FutureExt as _;

use crate::{
    attachments,
    instructions::PreambleContext,
    turn::{
        TurnContext, TurnExit, TurnState,
        hooks::{Hook, Link, Reminder, done},
        request::reminder_or_over,
    },
};

/// Bytes of one picture. The daemon makes them far smaller; whatever else stands in that file now is none.
const MAX_BYTES: usize = 16 << 20;

/// Stand-in for a picture.
const UNSEEN: &str = "(You cannot see pictures. If it matters what one shows, say so.)";
/// The same, where the picture is there and was shown before.
const NO_LONGER_SHOWN: &str = "(Not all of these pictures are shown any more.)";

pub(crate) struct Files;

impl Link for Files {
    fn preamble(&self, opening: &PreambleContext<'_>) -> Option<ItemBody> {
        attachments::notice(opening.handed, opening.tools, opening.window)
    }

    fn before_turn<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        // One that goes on after a restart has said so.
        let begins = state.steps == 0 && !state.only_compacts();
        let of_this_turn = state.history.iter().filter(|item| item.turn_id == context.ids.turn).cloned();
        if !begins || sees(context) || attachments::pictures(&of_this_turn.collect::<Vec<_>>()).next().is_none() {
            return done(());
        }
        let message = format!(
            "the model {} gets no pictures: it has no vision. Name one that has in the slot `vision` of \
             models.yaml or in MODEL_MULTIMODAL_*, or set `sees_pictures: true` where it can",
            context.models.model.info().id
        );
        context.recorder.warn("pictures_not_shown", message).boxed()
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        if state.returned.is_empty() && (!sees(context) || attachments::pictures(&state.history).next().is_none()) {
            return done(());
        }
        async move {
            if !state.returned.is_empty() {
                // Behind all results of the step: nothing may stand between those.
                context.or_cancelled(context.models.model.look_for_sight()).await?;
                let notice = attachments::returned(std::mem::take(&mut state.returned));
                context.tell(state, notice).await?;
            }
            if sees(context) { load(context, state).await } else { Ok(()) }
        }
        .boxed()
    }

    fn before_model(&self, context: &TurnContext, state: &TurnState, draft: &mut RequestBuilder) {
        let sees = context.next_model(state).sees_pictures;
        let mut left_out = pictures_left_out(attachments::pictures(&state.history).count());
        for message in &mut draft.messages {
            show(message, state, sees, &mut left_out);
        }
    }
}

/// Returns whether any model that the turn may ask sees pictures.
fn sees(context: &TurnContext) -> bool {
    context.models.model.info().sees_pictures || context.models.chat.info().sees_pictures
}

/// Reads the pictures that are shown and were not read yet. One that is gone is left out: the turn goes on without it.
async fn load(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    let left_out = pictures_left_out(attachments::pictures(&state.history).count());
    let shown: Vec<Picture> = attachments::pictures(&state.history).skip(left_out).cloned().collect();
    state.pictures.retain(|path, _| shown.iter().any(|picture| picture.path == *path));
    for Picture { path, .. } in shown {
        if state.pictures.contains_key(&path) {
            continue;
        }
        let read = context.ports.workspaces.read_file(context.files.tree(), path.clone(), 0, MAX_BYTES);
        let read = context.or_cancelled(read).await?;
        let read = read.inspect_err(|error| tracing::warn!("the model is not shown {path}: {error}"));
        state.pictures.insert(path, read.ok().map(|piece| Arc::from(piece.content)));
    }
    Ok(())
}

/// Puts what was read into the message; says in words what is missing.
fn show(message: &mut Message, state: &TurnState, sees: bool, left_out: &mut usize) {
    let Message::Pictures { text, pictures } = message else { return };
    let named = pictures.len();
    pictures.retain_mut(|shown| {
        let is_left_out = *left_out > 0;
        *left_out = left_out.saturating_sub(1);
        shown.content = state.pictures.get(&shown.picture.path).cloned().flatten().filter(|_| sees && !is_left_out);
        shown.content.is_some()
    });
    if !sees {
        text.push_str(&format!("\n{UNSEEN}"));
    } else if pictures.len() < named {
        text.push_str(&format!("\n{NO_LONGER_SHOWN}"));
    }
    if pictures.is_empty() {
        *message = Message::User { text: std::mem::take(text) };
    }
}

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
            let more = problems.len().saturating_sub(MAX_TOLD);
            let more = (more > 0).then(|| format!("{more} more names that are mentioned load nothing either"));
            for problem in problems.iter().take(MAX_TOLD).cloned().chain(more) {
                context.recorder.warn("mention", problem).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn reminder(&self, context: &TurnContext, _: &TurnState) -> Option<Reminder> {
        let told = context.tools.mentions.reminders(|tool| context.tools.visible.get(tool).is_some());
        Some(Reminder::new(NoticeTopic::Mentions, told.join("\n")))
    }
}

const PINNED: &str = "The person pinned these rules for this session; they hold until the person removes them:";
const NOTHING_PINNED: &str = "The person removed all pinned rules.";

pub(crate) struct Pins;

impl Link for Pins {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let pins: String = context.settings.pins.iter().map(|pin| format!("\n- {}", one_line(pin))).collect();
        let now = (!pins.is_empty()).then(|| format!("{PINNED}{pins}"));
        reminder_or_over(state, NoticeTopic::Pins, now, NOTHING_PINNED)
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
        let now = (context.rules.grants.mode() == SessionMode::Plan).then(|| PLANNING.to_owned());
        reminder_or_over(state, NoticeTopic::Mode, now, NO_LONGER_PLANNING)
    }
}

const FOR_THIS_TURN: &str =
    "Instructions for this turn, from the program that the person uses. They hold for this turn only:";

/// Said in the next turn that has none.
const OVER: &str = "The instructions of that turn no longer hold.";

pub(crate) struct TurnInstructions;

impl Link for TurnInstructions {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        let now = context.options.instructions.as_ref().map(|text| format!("{FOR_THIS_TURN}\n\n{text}"));
        reminder_or_over(state, NoticeTopic::TurnInstructions, now, OVER)
    }
}
