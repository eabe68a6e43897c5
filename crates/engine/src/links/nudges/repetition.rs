//! Repeated calls with the same results: the model is warned once, then the turn ends. A file that is read again unchanged is
//! not shown again.

use std::sync::Arc;

use agentd_core::{
    item::{Item, ItemBody, NoticeTopic},
    tool::{FollowedLink, ToolCall, ToolOutput},
};
use futures_util::FutureExt as _;
use serde_json::Value;

use crate::{
    links::results::READS_FILES,
    turn::{
        Phase, TurnContext, TurnState,
        hooks::{Hook, Invocation, Link, Next, Reminder, done},
        rounds::{MOST, NOTED, fingerprint},
    },
};

/// The shortest result of reading a file that is not repeated while the model sees it, in bytes.
const WORTH: usize = 400;

/// Stand-in for a result that is above.
const UNCHANGED: &str = "[unchanged since you read it last: see the result of that call above]";

pub(crate) struct Repetition;

impl Link for Repetition {
    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        let asks = matches!(state.phase, Phase::Working | Phase::Planning)
            && state.pending_calls.is_empty()
            && state.answer.is_none();
        let repeated = state.rounds.repeated();
        let (is_due, is_endless) = (repeated >= NOTED && !state.rounds.is_noted, repeated >= MOST);
        if !asks || !(is_due || is_endless) {
            return done(());
        }
        async move {
            let tool = state.rounds.tool.clone();
            let (code, times, end) =
                if is_endless { ("loop", MOST, "; the turn ends") } else { ("repeated_call", NOTED, "") };
            let what: fn(usize) -> String = if state.rounds.is_unknown() {
                |times| format!("called tools that are not among those of the turn in {times} answers in a row")
            } else {
                |times| format!("made the same calls {times} times in a row with the same results")
            };
            let message = format!("the model {}, {tool} last{end}", what(times));
            context.recorder.warn(code, message).await?;
            if is_due {
                let text = format!(
                    "You {}, {tool} last. Making them once more changes nothing: do something else, or say what stands in the way.",
                    what(NOTED)
                );
                let notice = Reminder::new(NoticeTopic::Repetition, text).notice();
                context.tell(state, notice).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        // The embedded model answers from the last result alone.
        if call.context.models.model.info().embedded
            || call.context.tool(&call.call.name).is_none_or(|tool| tool.name != READS_FILES)
        {
            return next.run(call);
        }
        async move {
            let mut output = next.run(call).await?;
            if output.error.is_none() && output.text.len() > WORTH && is_above(call, &output.text) {
                let print = fingerprint(&output.text);
                call.record.entries().effects.unchanged = Some(print);
                output.text = UNCHANGED.to_owned();
            }
            Ok(output)
        }
        .boxed()
    }
}

/// Returns true if the last lines of the same file that the model has read are these, and it still sees them. The history is
/// what it sees: it lacks what was summarized, cut or moved to a file.
fn is_above(call: &Invocation<'_>, text: &str) -> bool {
    let history = &call.state.history;
    let is_of_file = |known: &ToolCall| {
        let adapted = call.context.ports.toolbox.meant(known);
        let path = path(adapted.as_ref().map_or(&known.arguments, |adapted| &adapted.arguments));
        path.is_some() && path == self::path(&call.call.arguments)
    };
    let of_file = |item: &Arc<Item>| {
        let ItemBody::ToolResult(result) = &item.body else { return None };
        let is_whole = result.name == call.call.name && result.error.is_none() && result.unchanged.is_none();
        let is_call = |item: &Arc<Item>| matches!(&item.body, ItemBody::ToolCall(known) if known.call_id == result.call_id && is_of_file(known));
        (is_whole && history.iter().any(is_call)).then(|| result.text == text)
    };
    history.iter().rev().find_map(of_file) == Some(true)
}

fn path(arguments: &str) -> Option<Value> {
    serde_json::from_str::<Value>(arguments).ok()?.get_mut(FollowedLink::PATH).map(Value::take)
}
