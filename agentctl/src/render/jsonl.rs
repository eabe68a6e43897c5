//! Output for programs: each event as a line of JSON, then the result. Terminal escapes are escaped.

use std::io::{self, Write};

use agentd_core::{
    context::CompactionReport,
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
    /// Reports of the compactions of the turn.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    compactions: &'a [CompactionReport],
}

/// Facts about a turn from its events, which its result does not contain.
#[derive(Debug, Default)]
pub(crate) struct TurnNotes {
    /// File with the turn's input, if the input was too large.
    pub(crate) stored: Option<StoredInput>,
    /// Reports of the compactions.
    pub(crate) compactions: Vec<CompactionReport>,
}

impl TurnNotes {
    /// Adds the facts of an event.
    pub(crate) fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => match &item.body {
                ItemBody::UserMessage { stored: Some(stored), .. } => self.stored = Some(stored.clone()),
                ItemBody::Compaction(compaction) if compaction.report.tokens_before > 0 => {
                    self.compactions.push(compaction.report.clone());
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// Returns the result of a turn as JSON, for `--output json` and as the last line of a stream.
///
/// # Errors
/// Never fails in practice, because JSON can represent every result.
pub(crate) fn result(session_id: SessionId, result: &TurnResult, notes: &TurnNotes) -> serde_json::Result<Value> {
    let input = notes.stored.as_ref().map(|StoredInput { path, bytes, lines, shown_bytes, shown_lines }| {
        json!({
            "stored_as": path, "bytes": bytes, "lines": lines, "shown_bytes": shown_bytes, "shown_lines": shown_lines,
        })
    });
    serde_json::to_value(ResultLine { r#type: "result", session_id, result, input, compactions: &notes.compactions })
}

/// Returns an event as JSON with its type first, for people who read the stream.
///
/// # Errors
/// Never fails in practice, because JSON can represent every event.
pub(crate) fn type_first(event: &Event) -> serde_json::Result<Map<String, Value>> {
    let Value::Object(mut fields) = serde_json::to_value(event)? else { return Ok(Map::new()) };
    let mut line = Map::with_capacity(fields.len());
    if let Some(kind) = fields.shift_remove("type") {
        line.insert("type".to_owned(), kind);
    }
    line.append(&mut fields);
    Ok(line)
}

/// Renderer that writes lines of JSON only.
#[derive(Debug)]
pub(crate) struct Jsonl<W> {
    out: W,
    session_id: SessionId,
    notes: TurnNotes,
}

impl<W: Write> Jsonl<W> {
    pub(crate) fn new(out: W, session_id: SessionId) -> Self {
        Self { out, session_id, notes: TurnNotes::default() }
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = visible::json(serde_json::to_string(value)?);
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write + Send> Renderer for Jsonl<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.notes.take(event);
        self.line(&type_first(event)?)
    }

    fn child(&mut self, event: &Event) -> io::Result<()> {
        self.line(&type_first(event)?)
    }

    fn finish(&mut self, ended: &TurnResult) -> io::Result<()> {
        let notes = std::mem::take(&mut self.notes);
        self.line(&result(self.session_id, ended, &notes)?)
    }
}
