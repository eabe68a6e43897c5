//! The same call with the same result, three times in a row, is named to the model, once for each such row.

use std::collections::HashMap;

use agentd_core::{
    event::EventKind,
    ids::CallId,
    item::{Item, ItemBody},
    tool::{ToolCall, ToolResult},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;

use crate::turn::{Phase, TurnContext, TurnExit, TurnState, hooks::Link};

/// As many are named.
const IN_A_ROW: usize = 3;

/// Beginning of what the model is told, by which it is known that it was.
const NAMED: &str = "The last calls of ";

pub(crate) struct Repetition;

impl Link for Repetition {
    fn name(&self) -> &'static str {
        "repetition"
    }

    fn description(&self) -> &'static str {
        "tells the model when it makes the same call again and again and gets the same result"
    }

    fn before_step<'a>(
        &'a self,
        context: &'a TurnContext,
        state: &'a mut TurnState,
    ) -> BoxFuture<'a, Result<(), TurnExit>> {
        async move {
            if state.phase != Phase::Working || !state.pending_calls.is_empty() || state.answer.is_some() {
                return Ok(());
            }
            let of_turn = state.history.iter().rev().map(AsRef::as_ref);
            let Some(tool) = repeated(of_turn.take_while(|item| item.turn_id == context.ids.turn)) else {
                return Ok(());
            };
            let message = format!("{tool} was called {IN_A_ROW} times in a row with the same arguments and result");
            let notice = ItemBody::advice(format!(
                "{NAMED}{tool} were the same, and so were their results. Calling it once more so changes nothing: do \
                 something else, or say what stands in the way."
            ));
            context.recorder.fact(EventKind::Warning { code: "repeated_call".to_owned(), message }).await?;
            state.note(context.recorder.whole(notice).await?);
            Ok(())
        }
        .boxed()
    }
}

/// The tool of the last calls, where enough of them are the same and were not named yet. The items come from the last to
/// the first.
fn repeated<'a>(items: impl Iterator<Item = &'a Item>) -> Option<String> {
    let mut results: HashMap<&CallId, &ToolResult> = HashMap::new();
    let mut last: Option<(&ToolCall, &ToolResult)> = None;
    let mut times = 0;
    for item in items {
        match &item.body {
            ItemBody::ToolResult(result) => {
                results.insert(&result.call_id, result);
            }
            ItemBody::ToolCall(call) => {
                let Some(result) = results.remove(&call.call_id) else { continue };
                let (last_call, last_result) = *last.get_or_insert((call, result));
                if !is_same_call(last_call, call) || !is_same_result(last_result, result) {
                    break;
                }
                times += 1;
            }
            ItemBody::Notice { text, .. } if text.starts_with(NAMED) => return None,
            ItemBody::UserMessage { .. } => break,
            _ => {}
        }
    }
    last.filter(|_| times >= IN_A_ROW).map(|(_, result)| result.name.clone())
}

fn is_same_result(one: &ToolResult, other: &ToolResult) -> bool {
    (&one.name, &one.text, one.error) == (&other.name, &other.text, other.error)
}

fn is_same_call(one: &ToolCall, other: &ToolCall) -> bool {
    let value = |call: &ToolCall| serde_json::from_str::<Value>(&call.arguments).ok();
    one.name == other.name
        && (one.arguments == other.arguments || value(one).is_some_and(|one| Some(one) == value(other)))
}

#[cfg(test)]
mod tests {
    use agentd_core::ids::{ItemId, TurnId};

    use super::*;

    /// A history: `c` is a call and its result, `x` one with other arguments, `r` one with another result, `n` what the
    /// model is told, `u` a word of the person, `w` words of the model.
    fn history(kinds: &str) -> Vec<Item> {
        let item = |body| Item { id: ItemId::generate(), turn_id: TurnId::generate(), body, origin: None };
        let of = |kind: char| -> Vec<Item> {
            let call_id = CallId::generate();
            let arguments = if kind == 'x' { "{\"a\":2}" } else { "{\"a\": 1}" }.to_owned();
            let text = if kind == 'r' { "two" } else { "one" }.to_owned();
            let call = ToolCall { call_id: call_id.clone(), name: "look".to_owned(), arguments };
            let result = ToolResult { text, ..ToolResult::empty(call_id, "look".to_owned()) };
            match kind {
                'n' => vec![item(ItemBody::notice(format!("{NAMED}look")))],
                'w' => vec![item(ItemBody::AgentMessage { text: "So.".to_owned() })],
                'u' => vec![item(ItemBody::UserMessage {
                    text: "Go on.".to_owned(),
                    steered: true,
                    typed_bytes: None,
                    stored: None,
                })],
                _ => vec![item(ItemBody::ToolCall(call)), item(ItemBody::ToolResult(result))],
            }
        };
        kinds.chars().flat_map(of).collect()
    }

    #[test]
    fn three_in_a_row_are_named_once() {
        let check = |kinds: &str, expected: bool| {
            assert_eq!(repeated(history(kinds).iter().rev()).is_some(), expected, "{kinds}");
        };
        check("cc", false);
        check("ccc", true);
        check("cwcwc", true);
        check("xccc", true);
        check("ccx", false);
        check("cxc", false);
        check("ccr", false);
        check("crc", false);
        check("cccn", false);
        check("cccnc", false);
        check("cccncc", false);
        check("cccnccc", false);
        check("cccnx", false);
        check("cccnxccc", true);
        check("ccuc", false);
    }
}
