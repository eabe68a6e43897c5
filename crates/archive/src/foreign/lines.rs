//! Reader for bounded lines of untrusted JSON, and accessors for their fields.

use std::io::{BufRead, BufReader, Read};

use agentd_core::Timestamp;
use serde_json::Value;

use super::history::HistoryBuilder;
use crate::ArchiveError;

/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 16 << 20;

/// Passes every JSON line to `visit`. Lines that are invalid or too long are counted and skipped; empty lines are
/// ignored.
pub(super) fn each(
    source: &mut impl Read,
    history: &mut HistoryBuilder,
    mut visit: impl FnMut(&Value, &mut HistoryBuilder),
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
            Ok(value) if !is_cut => visit(&value, history),
            _ => history.skip("unreadable line"),
        }
    }
}

/// Returns a text field, or an empty string if it is missing.
pub(super) fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Returns a number field, or zero if it is missing or not a number.
pub(super) fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// Returns the entries of a list field.
pub(super) fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the arguments of a call as JSON, or an empty object if they are missing.
pub(super) fn arguments(value: &Value, field: &str) -> String {
    value.get(field).map_or_else(|| "{}".to_owned(), Value::to_string)
}

pub(super) fn timestamp(value: &Value, field: &str) -> Option<Timestamp> {
    text(value, field).parse().ok()
}

/// Returns the text of a content field, which is either a string or a list of blocks.
pub(super) fn joined_text(content: &Value) -> String {
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
