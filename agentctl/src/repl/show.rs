//! `/show`: a result or a reasoning whole, which the transcript tells in a line.

use std::{collections::HashMap, fmt::Write as _};

use agentd_core::{
    error::ErrorKind,
    ids::CallId,
    item::{Item, ItemBody},
    tool::{ToolCall, ToolResult},
    visible,
};
use serde_json::Value;

use super::{chat::Chat, pager};
use crate::{exit::Exit, failure::Failure, render::tool_line::tool_lines};

/// The items of a session that are looked through.
const LOOKED_AT: usize = 500;

impl Chat {
    /// Shows the last result or reasoning, or the one so many before it, page by page.
    pub(super) async fn show(&mut self, number: usize) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let items = self.daemon.client.items(&id.to_string(), 0, LOOKED_AT).await?;
        let items: Vec<Item> = items.into_iter().map(|item| item.item).collect();
        let Some(text) = nth_last(&items, number) else {
            let there = whole_texts(&items).count();
            return Err(Failure::new(ErrorKind::NotFound, format!("there are {there} results and reasonings to show"))
                .hint("/show shows the last one, /show 2 the one before")
                .into());
        };
        self.page(text).await?;
        Ok(Exit::Done)
    }

    /// Shows a text page by page, or as it is where there is no program for that.
    pub(super) async fn page(&mut self, text: String) -> anyhow::Result<()> {
        if !self.present {
            return self.print(&text);
        }
        let shown = tokio::task::spawn_blocking(move || Ok(pager::show(&text, || false)?.then_some(()).ok_or(text)));
        let shown: std::io::Result<Result<(), String>> = shown.await?;
        if let Err(text) = shown? {
            self.print(&text)?;
        }
        // The pager had the keys.
        self.signals.forget();
        Ok(())
    }
}

fn nth_last(items: &[Item], number: usize) -> Option<String> {
    whole_texts(items).rev().nth(number.checked_sub(1)?)
}

/// All that can be shown, in its order. Every character of it can be seen.
fn whole_texts(items: &[Item]) -> impl DoubleEndedIterator<Item = String> {
    let mut calls: HashMap<&CallId, &ToolCall> = HashMap::new();
    for item in items {
        if let ItemBody::ToolCall(call) = &item.body {
            calls.insert(&call.call_id, call);
        }
    }
    items.iter().filter_map(move |item| match &item.body {
        ItemBody::ToolResult(result) => Some(whole_result(calls.get(&result.call_id).copied(), result)),
        ItemBody::Reasoning { text } if !text.trim().is_empty() => {
            Some(format!("∴ reasoning\n\n{}\n", visible::lines(text.trim_end())))
        }
        _ => None,
    })
}

/// A call with all of its arguments, and all of its result.
fn whole_result(call: Option<&ToolCall>, result: &ToolResult) -> String {
    let first = tool_lines(call, result, usize::MAX, false).into_iter().next().unwrap_or_default();
    let mut text = format!("{first}\n\n");
    let arguments = result.ran_with.as_deref().or(call.map(|call| call.arguments.as_str())).unwrap_or_default();
    if let Ok(Value::Object(fields)) = serde_json::from_str(arguments) {
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
        text.push('\n');
    }
    text.push_str(&visible::lines(result.text.trim_end()));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use agentd_core::ids::TurnId;

    use super::*;

    fn item(body: ItemBody) -> Item {
        Item::new(TurnId::generate(), body)
    }

    #[test]
    fn a_result_is_shown_whole_with_its_call() {
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
        assert_eq!(
            nth_last(&items, 1).unwrap(),
            "● write_file a.rs → 2 lines · 12 ms\n\npath: a.rs\ncontent:\nfn a() {}\n\nfn b() {}\n\n\nwritten\n\\u{1b}[2J\n"
        );
        assert_eq!(nth_last(&items, 2).unwrap(), "∴ reasoning\n\nFirst this.\nThen that.\n");
        assert_eq!((nth_last(&items, 3), nth_last(&items, 0)), (None, None));
    }
}
