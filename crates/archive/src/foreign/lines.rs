//! Lines of JSON of strangers, bounded.

use std::io::{BufRead, BufReader, Read};

use agentd_core::Timestamp;
use serde_json::Value;

use crate::ArchiveError;

/// Maximum length of a line, in bytes.
const MAX_LINE: u64 = 16 << 20;

/// A line.
pub(super) enum Line {
    /// JSON.
    Value(Value),
    /// Something else, or one that is too long.
    Broken,
}

/// Hands out every line that is not empty.
pub(super) fn each(source: &mut impl Read, mut take: impl FnMut(Line)) -> Result<(), ArchiveError> {
    let mut source = BufReader::new(source);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut source).take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if !line.ends_with(b"\n") && line.len() as u64 == MAX_LINE {
            skip_line(&mut source)?;
            take(Line::Broken);
        } else if !line.trim_ascii().is_empty() {
            take(serde_json::from_slice(&line).map_or(Line::Broken, Line::Value));
        }
    }
}

fn skip_line(source: &mut impl BufRead) -> Result<(), ArchiveError> {
    loop {
        let buffer = source.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (used, is_over) = (end.map_or(buffer.len(), |end| end + 1), end.is_some() || buffer.is_empty());
        source.consume(used);
        if is_over {
            return Ok(());
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
