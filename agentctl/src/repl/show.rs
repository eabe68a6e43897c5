//! `/show`: shows a complete result or reasoning, which is one line in the transcript.

use std::{collections::HashMap, fmt::Write as _};

use agentd_core::{
    error::ErrorKind,
    ids::{CallId, SessionId},
    item::{Item, ItemBody},
    tool::{ToolCall, ToolResult},
    visible,
};
use agentd_proto::client::Client;
use serde_json::Value;

use super::{chat::Chat, pager};
use crate::{
    exit::Exit,
    failure::Failure,
    ops::each_piece,
    render::tool_line::{DELEGATE, tool_lines},
};

/// Maximum number of items of a session that are searched.
const LOOKED_AT: usize = 500;

impl Chat {
    /// Shows the Nth last result or reasoning in the pager.
    pub(super) async fn show(&mut self, number: usize) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let items = self.daemon.client.items(&id.to_string(), 0, LOOKED_AT).await?;
        let items: Vec<Item> = items.into_iter().map(|item| item.item).collect();
        let Some(wanted) = nth_last(&items, number) else {
            let there = can_be_shown(&items).count();
            return Err(Failure::new(ErrorKind::NotFound, format!("there are {there} results and reasonings to show"))
                .hint("/show shows the last one, /show 2 the one before")
                .into());
        };
        let text = match wanted {
            ShownItem::Result(call, result) => {
                whole_result(call, result, &output(&self.daemon.client, id, result).await?)
            }
            ShownItem::Reasoning(text) => format!("∴ reasoning\n\n{}\n", visible::lines(text.trim_end())),
        };
        self.page(text).await?;
        Ok(Exit::Done)
    }

    /// Shows a text in the pager, or prints it if there is none.
    pub(super) async fn page(&mut self, text: String) -> anyhow::Result<()> {
        if !self.present {
            return self.print(&text);
        }
        let paging = tokio::task::spawn_blocking(move || Ok(pager::show(&text, || false)?.then_some(()).ok_or(text)));
        let shown: std::io::Result<Result<(), String>> = tokio::select! {
            shown = paging => shown?,
            // The pager handles Ctrl-C.
            signal = self.signals.end_signal(true) => return self.left(signal),
        };
        if let Err(text) = shown? {
            self.print(&text)?;
        }
        // Signals during the pager were meant for it.
        self.signals.forget();
        Ok(())
    }
}

/// Returns the complete output of a tool, from the session's file if the result holds only a part.
async fn output(client: &Client, session: SessionId, result: &ToolResult) -> anyhow::Result<String> {
    let own = result.own_text().to_owned();
    let Some(path) = result.details.as_ref().and_then(|details| details.stored.as_deref()) else { return Ok(own) };
    let (path, mut content) = (path.trim_start_matches('/'), Vec::new());
    let take = |piece: &[u8]| {
        content.extend_from_slice(piece);
        Ok(())
    };
    match each_piece(client, &session.to_string(), path, take).await {
        Ok(_) => Ok(String::from_utf8_lossy(&content).into_owned()),
        Err(error) if Failure::from_any(&error).kind == ErrorKind::NotFound => {
            Ok(format!("{own}\n\n(this is a part: the whole result, {path}, was removed)"))
        }
        Err(error) => Err(error),
    }
}

/// Text that can be shown.
enum ShownItem<'a> {
    Result(Option<&'a ToolCall>, &'a ToolResult),
    Reasoning(&'a str),
}

fn nth_last(items: &[Item], number: usize) -> Option<ShownItem<'_>> {
    can_be_shown(items).rev().nth(number.checked_sub(1)?)
}

/// Returns all results and reasonings, in order.
fn can_be_shown(items: &[Item]) -> impl DoubleEndedIterator<Item = ShownItem<'_>> {
    let mut calls: HashMap<&CallId, &ToolCall> = HashMap::new();
    for item in items {
        if let ItemBody::ToolCall(call) = &item.body {
            calls.insert(&call.call_id, call);
        }
    }
    items.iter().filter_map(move |item| match &item.body {
        ItemBody::ToolResult(result) => Some(ShownItem::Result(calls.get(&result.call_id).copied(), result)),
        ItemBody::Reasoning { text } if !text.trim().is_empty() => Some(ShownItem::Reasoning(text)),
        _ => None,
    })
}

/// Formats a call with all arguments and its complete output. Every character is visible.
fn whole_result(call: Option<&ToolCall>, result: &ToolResult, output: &str) -> String {
    let first = tool_lines(call, result, usize::MAX, false).into_iter().next().unwrap_or_default();
    let mut text = format!("{first}\n\n");
    let arguments = result.ran_with.as_deref().or(call.map(|call| call.arguments.as_str())).unwrap_or_default();
    if let Some(fields) = fields(arguments) {
        text.push_str(&fields);
        text.push('\n');
    }
    let answer = (result.name == DELEGATE).then(|| fields(output)).flatten();
    text.push_str(answer.unwrap_or_else(|| visible::lines(output)).trim_end());
    text.push('\n');
    text
}

/// Formats the fields of a JSON object, each on a line or below its name. Returns `None` for other texts.
fn fields(json: &str) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::from_str(json) else { return None };
    let mut text = String::new();
    for (name, value) in fields {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value = visible::lines(value.trim_end());
        // Writing to a string cannot fail.
        let _ = if value.contains('\n') {
            writeln!(text, "{}:\n{value}\n", visible::line(&name))
        } else {
            writeln!(text, "{}: {value}", visible::line(&name))
        };
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use agentd_core::ids::TurnId;

    use super::*;

    fn item(body: ItemBody) -> Item {
        Item::new(TurnId::generate(), body)
    }

    #[test]
    fn result_is_shown_whole_with_its_call() {
        let call_id = CallId::generate();
        let arguments = r#"{"path": "a.rs", "content": "fn a() {}\n\nfn b() {}\n"}"#.to_owned();
        let call = ToolCall { call_id: call_id.clone(), name: "write_file".to_owned(), arguments };
        let result = ToolResult {
            text: "written\n\u{1b}[2J".to_owned(),
            duration_ms: 12,
            ..ToolResult::empty(call_id, "write_file")
        };
        let reasoning = ItemBody::Reasoning { text: "First this.\nThen that.".to_owned() };
        let items = [item(reasoning), item(ItemBody::ToolCall(call)), item(ItemBody::ToolResult(result))];
        let Some(ShownItem::Result(call, result)) = nth_last(&items, 1) else { panic!("no result") };
        assert_eq!(
            whole_result(call, result, result.own_text()),
            "● write_file a.rs → 2 lines · 12 ms\n\npath: a.rs\ncontent:\nfn a() {}\n\nfn b() {}\n\n\nwritten\n\\u{1b}[2J\n"
        );
        assert!(matches!(nth_last(&items, 2), Some(ShownItem::Reasoning("First this.\nThen that."))));
        assert!(nth_last(&items, 3).is_none() && nth_last(&items, 0).is_none());
    }
}
