//! Reminders to the model: notices at the end of the history, written where they changed, and never moved or removed. So a
//! request begins with all bytes of the one before it.

use std::sync::Arc;

use agentd_core::{
    ids::TurnId,
    item::{Item, ItemBody, NoticeTopic},
};

use super::{TurnContext, TurnExit, TurnState, hooks::Reminder};

/// Said where a request would end with the model's own words: no server takes it for the one to speak then.
const CONTINUE: &str = "Your answer was not the end: go on where it stopped.";

/// Appends the reminders that changed, and what else the next request has to end with.
pub(crate) async fn append(
    context: &TurnContext,
    state: &mut TurnState,
    extra: Option<Reminder>,
) -> Result<(), TurnExit> {
    let told = context.tools.chain.reminders(context, state).into_iter().chain(extra);
    let changed: Vec<Reminder> = told
        .filter(|Reminder { topic, text }| {
            !text.is_empty() && last(&state.history, *topic, context.ids.turn) != Some(text.as_str())
        })
        .collect();
    let ends_with_answer = matches!(state.history.last().map(|item| &item.body), Some(ItemBody::AgentMessage { text }) if !text.is_empty());
    let go_on = (ends_with_answer && changed.is_empty()).then(|| Reminder::new(NoticeTopic::Continue, CONTINUE));
    for Reminder { topic, text } in changed.into_iter().chain(go_on) {
        let body = ItemBody::Notice { text, topic, sources: Vec::new(), pictures: Vec::new() };
        let item = context.recorder.whole(body).await?;
        state.note(item);
    }
    Ok(())
}

/// The reminder on a topic that is in force; of one that belongs to a turn, only in that turn.
pub(crate) fn last(history: &[Arc<Item>], topic: NoticeTopic, turn: TurnId) -> Option<&str> {
    let of_turn = matches!(
        topic,
        NoticeTopic::Mentions
            | NoticeTopic::LastAnswer
            | NoticeTopic::Plan
            | NoticeTopic::AnswerForm
            | NoticeTopic::TurnInstructions
    );
    let summary =
        history.iter().find(|item| matches!(&item.body, ItemBody::Compaction(summary) if !summary.summary.is_empty()));
    history
        .iter()
        .rev()
        // How full the window was before room was made is no longer true.
        .take_while(|item| topic != NoticeTopic::Level || !matches!(item.body, ItemBody::Compaction(_)))
        .filter(|item| topic != NoticeTopic::Level || summary.is_none_or(|summary| item.id > summary.id))
        .find_map(|item| match &item.body {
            ItemBody::Notice { topic: about, text, .. } if *about == topic => {
                Some(text.as_str()).filter(|_| !of_turn || item.turn_id == turn)
            }
            _ => None,
        })
}
