//! Files that the person handed over: told with what is said next, and shown where they are pictures.

use std::sync::Arc;

use agentd_context::{RequestBuilder, meter::pictures_left_out};
use agentd_core::{
    files::{Picture, SessionTree},
    item::ItemBody,
    model::Message,
};
use futures_util::FutureExt as _;

use crate::{
    attachments,
    instructions::PreambleContext,
    turn::{
        TurnContext, TurnExit, TurnState,
        hooks::{Hook, Link, done},
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
            show_returned(context, state).await?;
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

/// Tells of the pictures that calls returned, behind all results of the step: nothing may stand between those.
async fn show_returned(context: &TurnContext, state: &mut TurnState) -> Result<(), TurnExit> {
    if state.returned.is_empty() {
        return Ok(());
    }
    context.or_cancelled(context.models.model.look_for_sight()).await?;
    let notice = attachments::returned(std::mem::take(&mut state.returned));
    context.tell(state, notice).await
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
        let tree = SessionTree {
            workspace: Arc::clone(&context.files.workspace),
            state: Arc::clone(&context.files.state.borrow()),
        };
        let read = context.ports.workspaces.read_file(tree, path.clone(), 0, MAX_BYTES);
        let content = match context.or_cancelled(read).await? {
            Ok(piece) => Some(Arc::from(piece.content)),
            Err(error) => {
                tracing::warn!("the model is not shown {path}: {error}");
                None
            }
        };
        state.pictures.insert(path, content);
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
