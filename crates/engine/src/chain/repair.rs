//! Calls and results pair, whatever the journal holds: a request with a call that has no result, or a result
//! without its call, is refused by every provider and would brick the session.

use std::collections::HashMap;

use agentd_core::{
    ids::CallId,
    model::{Message, ModelRequest},
};

use super::Link;
use crate::turn::{TurnContext, TurnState};

/// What stands in for a result that never came.
const NO_RESULT: &str = "E_NOT_RUN: this call has no result; the turn ended before it ran";

pub(crate) struct Repair;

impl Link for Repair {
    fn name(&self) -> &'static str {
        "repair"
    }

    fn before_model(&self, _: &TurnContext, _: &TurnState, request: &mut ModelRequest) {
        request.messages = repair(std::mem::take(&mut request.messages));
    }
}

/// Puts each result right behind its call, in the order of the calls; makes up those that are missing; drops
/// results that nobody asked for, calls that were made before, and messages that say nothing.
fn repair(messages: Vec<Message>) -> Vec<Message> {
    let mut results: HashMap<CallId, (String, String)> = HashMap::new();
    let mut rest = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            Message::Tool { call_id, name, text } => {
                results.entry(call_id).or_insert((name, text));
            }
            other => rest.push(other),
        }
    }
    let mut seen = std::collections::HashSet::new();
    let mut repaired = Vec::with_capacity(rest.len() + results.len());
    for mut message in rest {
        if let Message::Assistant { text, tool_calls, reasoning } = &mut message {
            tool_calls.retain(|call| seen.insert(call.call_id.clone()));
            if text.is_empty() && tool_calls.is_empty() && reasoning.is_none() {
                continue;
            }
            let calls = tool_calls.clone();
            repaired.push(message);
            for call in calls {
                let (name, text) =
                    results.remove(&call.call_id).unwrap_or_else(|| (call.name.clone(), NO_RESULT.to_owned()));
                repaired.push(Message::Tool { call_id: call.call_id, name, text });
            }
        } else {
            repaired.push(message);
        }
    }
    repaired
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::ToolCall;
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> CallId {
        CallId::from(format!("call_{n}"))
    }

    fn any_message() -> impl Strategy<Value = Message> {
        prop_oneof![
            Just(Message::User { text: "u".to_owned() }),
            (proptest::collection::vec(0u8..6, 0..4), "[ab]{0,2}").prop_map(|(calls, text)| Message::Assistant {
                text,
                reasoning: None,
                tool_calls: calls
                    .into_iter()
                    .map(|n| ToolCall { call_id: id(n), name: "now".to_owned(), arguments: "{}".to_owned() })
                    .collect(),
            }),
            (0u8..6).prop_map(|n| Message::Tool { call_id: id(n), name: "now".to_owned(), text: n.to_string() }),
        ]
    }

    /// The rule that providers check: behind an assistant's calls come exactly their results.
    fn pairs(messages: &[Message]) -> bool {
        let mut waiting: Vec<CallId> = Vec::new();
        for message in messages {
            match message {
                Message::Tool { call_id, .. } if waiting.first() == Some(call_id) => drop(waiting.remove(0)),
                Message::Tool { .. } => return false,
                _ if !waiting.is_empty() => return false,
                Message::Assistant { tool_calls, .. } => {
                    waiting = tool_calls.iter().map(|c| c.call_id.clone()).collect();
                }
                _ => {}
            }
        }
        waiting.is_empty()
    }

    proptest! {
        #[test]
        fn whatever_the_history_holds_calls_and_results_pair(messages in proptest::collection::vec(any_message(), 0..20)) {
            let repaired = repair(messages);
            prop_assert!(pairs(&repaired), "{repaired:?}");
            prop_assert_eq!(repair(repaired.clone()), repaired, "a repaired history needs no repair");
        }

        #[test]
        fn what_a_person_said_is_never_lost(messages in proptest::collection::vec(any_message(), 0..20)) {
            let said = |messages: &[Message]| messages.iter().filter(|m| matches!(m, Message::User { .. })).count();
            let before = said(&messages);
            prop_assert_eq!(said(&repair(messages)), before);
        }
    }
}
