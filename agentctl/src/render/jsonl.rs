//! A turn for programs: each event as a line of JSON, then the result.

use std::io::{self, Write};

use agentd_core::{event::Event, ids::SessionId, turn::TurnResult};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::turn::Renderer;

#[derive(Serialize)]
struct ResultLine<'a> {
    r#type: &'static str,
    session_id: SessionId,
    #[serde(flatten)]
    result: &'a TurnResult,
}

/// The object that says what a turn came to, for `--output json` and as the last line of a stream.
///
/// # Errors
/// Never in practice: the result holds nothing that JSON has no form for.
pub(crate) fn result(session_id: SessionId, result: &TurnResult) -> serde_json::Result<Value> {
    serde_json::to_value(ResultLine { r#type: "result", session_id, result })
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
}

impl<W: Write> Jsonl<W> {
    pub(crate) fn new(out: W, session_id: SessionId) -> Self {
        Self { out, session_id }
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()
    }
}

impl<W: Write + Send> Renderer for Jsonl<W> {
    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.line(&type_first(event)?)
    }

    fn child(&mut self, event: &Event) -> io::Result<()> {
        self.event(event)
    }

    fn finish(&mut self, result: &TurnResult) -> io::Result<()> {
        self.line(&ResultLine { r#type: "result", session_id: self.session_id, result })
    }
}
