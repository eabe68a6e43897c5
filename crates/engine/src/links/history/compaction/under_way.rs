//! What the turn that runs works on, where its input is among what a compaction replaces: word for word. What is longer than
//! a summary has room for is kept in a file first, and its beginning is told with the way to the rest.

use std::sync::Arc;

use agentd_context::{
    compaction::summary,
    excerpt::{Excerpt, sizes},
    long_text::reason,
    tokens::estimate,
};
use agentd_core::{
    context::Compaction,
    event::EventKind,
    item::{Item, ItemBody, NoticeTopic},
};

use crate::{
    large_input::{InputRoom, UserInput},
    turn::{TurnContext, TurnExit},
};

/// The part of the window that the inputs of a turn may have of a summary.
const PART_OF_WINDOW: u64 = 5;
/// Tokens that each of them may have, however small that part is.
const LEAST: u64 = 64;

/// The inputs of the turn among what is replaced, with what was said of those before it in the compaction that is replaced.
pub(crate) async fn inputs(
    context: &TurnContext,
    before: Option<&Compaction>,
    replaced: &[Arc<Item>],
    window: u64,
) -> Result<Option<String>, TurnExit> {
    let begin = replaced.iter().rposition(|item| matches!(item.body, ItemBody::UserMessage { steered: false, .. }));
    // The turn began before the compaction that is replaced: what it is about stands in that one's summary.
    let earlier = before.filter(|_| begin.is_none()).and_then(|compaction| summary::under_way(&compaction.summary));
    let handed = begin.and_then(|at| names(replaced.get(at.checked_sub(1)?)?));
    let said: Vec<UserInput> = replaced[begin.unwrap_or(0)..].iter().filter_map(|item| input(item)).collect();
    let count = (said.len() + usize::from(earlier.is_some())) as u64;
    let room = window / PART_OF_WINDOW;
    let all: u64 = said.iter().map(|input| estimate(&input.text)).sum::<u64>() + earlier.map_or(0, estimate);
    // Where they do not fit together, each has its part.
    let share = if all <= room { room } else { room / count.max(1) };
    let share = share.max(LEAST);
    let mut told: Vec<String> = earlier.map(|text| shortened(text, share)).into_iter().collect();
    for input in said {
        told.push(kept(context, input, InputRoom::in_summary(share, context.prompt.results.large)).await?);
    }
    told.extend(handed);
    Ok(Some(told.join("\n\n")).filter(|text| !text.is_empty()))
}

fn input(item: &Item) -> Option<UserInput> {
    match &item.body {
        ItemBody::UserMessage { text, typed_bytes, stored, .. } => {
            Some(UserInput { text: text.clone(), typed_bytes: *typed_bytes, stored: stored.clone() })
        }
        _ => None,
    }
}

/// The files that came with what was said, where the item tells of some.
fn names(item: &Item) -> Option<String> {
    match &item.body {
        ItemBody::Notice { topic: NoticeTopic::Files, sources, .. } if !sources.is_empty() => {
            let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
            Some(format!("(handed over with it: {})", names.join(", ")))
        }
        _ => None,
    }
}

/// The input in as much room as there is. All of it is in a file then.
async fn kept(context: &TurnContext, input: UserInput, room: InputRoom) -> Result<String, TurnExit> {
    if input.stored.is_some() || estimate(&input.text) <= room.whole {
        // The way to the rest of what is stored stands at its end.
        return Ok(shortened(&input.text, room.whole));
    }
    let text = input.text.clone();
    match context.files.session.keep_input(&context.tools.visible, input, room).await {
        Ok(input) => {
            let warning = input.warning(&context.models.model.info().id, context.window());
            if let Some(warning) = warning {
                context.recorder.fact(warning).await?;
            }
            Ok(input.text)
        }
        Err(error) => {
            let why = reason(&error);
            let message =
                format!("a part of the input is out of the model's view: it could not be kept in a file, {why}");
            context.recorder.fact(EventKind::Warning { code: "input_not_stored".to_owned(), message }).await?;
            Ok(shortened(&text, room.whole))
        }
    }
}

/// Both ends of a text.
fn shortened(text: &str, tokens: u64) -> String {
    if estimate(text) <= tokens {
        return text.to_owned();
    }
    let Excerpt { head, between, tail } = Excerpt::of(text, tokens);
    let line_end = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{line_end}[… {} left out …]\n{tail}", sizes(between))
}
