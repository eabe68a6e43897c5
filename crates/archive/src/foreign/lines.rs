//! Lines of JSON of strangers, bounded.

use std::io::{BufRead, BufReader, Read};

use agentd_core::Timestamp;
use serde_json::Value;

use super::history::HistoryBuilder;
use crate::ArchiveError;

/// Maximum length of a line, in bytes.
const MAX_LINE: u64 = 16 << 20;

/// Hands out every line of JSON. Others that are not empty, and those that are too long, are left out.
pub(super) fn each(
    source: &mut impl Read,
    history: &mut HistoryBuilder,
    mut take: impl FnMut(&Value, &mut HistoryBuilder),
) -> Result<(), ArchiveError> {
    let mut source = BufReader::new(source);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut source).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_cut = !line.ends_with(b"\n") && line.len() as u64 == MAX_LINE;
        if is_cut {
            source.skip_until(b'\n')?;
        }
        match serde_json::from_slice(&line) {
            _ if line.trim_ascii().is_empty() && !is_cut => {}
            Ok(value) if !is_cut => take(&value, history),
            _ => history.leave_out("unreadable line"),
        }
    }
}

/// The text of a field.
pub(super) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// A number of a field; 0 where it is none.
pub(super) fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// The entries of a field that is a list.
pub(super) fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Arguments of a call as text; an empty object where there are none.
pub(super) fn arguments(value: &Value, field: &str) -> String {
    value.get(field).map_or_else(|| "{}".to_owned(), Value::to_string)
}

/// A moment that is written out.
pub(super) fn moment(value: &Value, field: &str) -> Option<Timestamp> {
    text(value, field).parse().ok()
}

/// Texts of a content that is either a text or a list of blocks with texts.
pub(super) fn joined(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| text(block, "text")).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
