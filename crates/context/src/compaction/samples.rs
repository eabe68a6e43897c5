//! Sample items for the tests of `compaction`.

use std::sync::Arc;

use agentd_core::{
    ids::{CallId, TurnId},
    item::{Item, ItemBody, NoticeTopic},
    tool::{ToolCall, ToolErrorCode, ToolResult},
};

pub(crate) fn item(body: ItemBody) -> Arc<Item> {
    Arc::new(Item::new(TurnId::generate(), body))
}

pub(crate) fn user(text: &str) -> Arc<Item> {
    typed(text, None)
}

/// Creates a user input of which the first `typed_bytes` were typed.
pub(crate) fn typed(text: &str, typed_bytes: Option<u64>) -> Arc<Item> {
    item(ItemBody::UserMessage { text: text.to_owned(), steered: false, typed_bytes, stored: None })
}

pub(crate) fn handed_over(path: &str) -> Arc<Item> {
    let text = format!("The user attached:\n- {path}");
    item(ItemBody::Notice { text, topic: NoticeTopic::Files, sources: Vec::new(), pictures: Vec::new() })
}

pub(crate) fn says(text: &str) -> Arc<Item> {
    item(ItemBody::AgentMessage { text: text.to_owned() })
}

pub(crate) fn call(id: &str, name: &str) -> Arc<Item> {
    call_with(id, name, "{}")
}

pub(crate) fn call_with(id: &str, name: &str, arguments: &str) -> Arc<Item> {
    item(ItemBody::ToolCall(ToolCall {
        call_id: CallId::from(id.to_owned()),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }))
}

pub(crate) fn result(id: &str, name: &str, text: &str) -> Arc<Item> {
    item(ItemBody::ToolResult(outcome(id, name, text)))
}

pub(crate) fn failed(id: &str, name: &str, text: &str) -> Arc<Item> {
    item(ItemBody::ToolResult(ToolResult { error: Some(ToolErrorCode::Tool), ..outcome(id, name, text) }))
}

fn outcome(id: &str, name: &str, text: &str) -> ToolResult {
    ToolResult { text: text.to_owned(), duration_ms: 1, ..ToolResult::empty(CallId::from(id.to_owned()), name) }
}
