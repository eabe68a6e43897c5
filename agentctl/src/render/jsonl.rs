//! A turn for programs: each event as a line of JSON, then the result. What a terminal would obey is escaped in it.

use std::io::{self, Write};

use agentd_core::{
    event::{Event, EventKind},
    files::StoredInput,
    ids::SessionId,
    item::ItemBody,
    turn::TurnResult,
    visible,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::turn::Renderer;

#[derive(Serialize)]
struct ResultLine<'a> {
    r#type: &'static str,
    session_id: SessionId,
    #[serde(flatten)]
    result: &'a TurnResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
}

/// The file of an input that did not fit into the window, where the event tells of one.
pub(crate) fn stored_input(event: &Event) -> Option<&StoredInput> {
    match &event.kind {
        EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => match &item.body {
            ItemBody::UserMessage { stored, .. } => stored.as_ref(),
            _ => None,
        },
        _ => None,
    }
}

/// The object that says what a turn came to, for `--output json` and as the last line of a stream.
///
/// # Errors
/// Never in practice: the result holds nothing that JSON has no form for.
pub(crate) fn result(
    session_id: SessionId,
    result: &TurnResult,
    stored: Option<&StoredInput>,
) -> serde_json::Result<Value> {
    let input = stored.map(|StoredInput { path, bytes, lines, shown_bytes, shown_lines }| {
        json!({
            "stored_as": path, "bytes": bytes, "lines": lines, "shown_bytes": shown_bytes, "shown_lines": shown_lines,
        })
    });
    serde_json::to_value(ResultLine { r#type: "result", session_id, result, input })
}

/// An event with its type in front, where people who read along look for it.
fn type_first(event: &Event) -> serde_json::Result<Map<String, Value>> {
    let Value::Object(mut fields) = serde_json::to_value(event)? else { return Ok(Map::new()) };
    let mut line = Map::with_capacity(fields.len());
    if let Some(kind) = fields.shift_remove("type") {
        line.insert("type".to_owned(), kind);
    }
    line.append(&mut fields);
    Ok(line)
}

/// Writes lines of JSON and nothing else.
#[derive(Debug)]
pub(crate) struct Jsonl<W> {
    out: W,
    session_id: SessionId,
    /// The file of the turn's input, where that did not fit.
    stored: Option<StoredInput>,
}

impl<W: Write> Jsonl<W> {
    pub(crate) fn new(out: W, session_id: SessionId) -> Self {
        Self { out, session_id, stored: None }
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = visible::json(serde_json::to_string(value)?);
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write + Send> Renderer for Jsonl<W> {
    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let Some(stored) = stored_input(event) {
            self.stored = Some(stored.clone());
        }
        self.line(&type_first(event)?)
    }

    fn child(&mut self, event: &Event) -> io::Result<()> {
        self.line(&type_first(event)?)
    }

    fn finish(&mut self, ended: &TurnResult) -> io::Result<()> {
        let stored = self.stored.take();
        self.line(&result(self.session_id, ended, stored.as_ref())?)
    }
}
