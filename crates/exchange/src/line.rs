//! Line format of a trace. No side effects.
//!
//! A request mostly repeats the previous one, so a body is stored as a delta that omits the head and tail shared with
//! an earlier body. Secrets are removed such that JSON stays valid.

use std::io;

use agentd_core::{
    Timestamp,
    exchange::{ExchangeSource, StoredAnswer, StoredRequest},
    ids::SessionId,
    usage::is_zero,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::SecretFilter;

/// Version of the line format.
pub(crate) const VERSION: u32 = 1;

/// One line of a trace file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Header of a file.
    Trace {
        version: u32,
        session_id: SessionId,
        /// Number of the first request in this file.
        first: u64,
    },
    /// A request that was sent.
    Request(Box<RequestLine>),
    /// End of an exchange.
    Answer { number: u64, answer: StoredAnswer },
    /// Number of lines missing at this position.
    Lost { count: u64 },
}

/// A request that was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestLine {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) source: ExchangeSource,
    pub(crate) request: StoredRequest,
    pub(crate) body: Delta,
}

impl Line {
    /// Serializes the line with its newline.
    pub(crate) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Number of bytes compared at once.
const STRIDE: usize = 1024;

/// Minimum ratio of shared to other bytes of two nearly equal bodies.
const NEARLY_EQUAL_RATIO: usize = 15;

/// Minimum number of bytes that a reference must save.
const MIN_SAVED: usize = 128;

/// A body, stored whole or as the difference from an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delta {
    /// Number of the request whose body has the same head and tail; `None` for a whole body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<u64>,
    /// Length of the shared head in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) head: usize,
    /// Length of the shared tail in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) tail: usize,
    /// Text between head and tail.
    pub(crate) text: String,
}

/// Returns the difference from the first nearly equal body, or else from the body that shares the most bytes.
pub(crate) fn delta<'a>(body: &str, bases: impl Iterator<Item = (u64, &'a str)>) -> Delta {
    let mut best = None;
    for (number, base) in bases {
        let (head, tail) = shared_ends(base, body);
        if best.is_none_or(|(_, (best_head, best_tail))| head + tail > best_head + best_tail) {
            best = Some((number, (head, tail)));
        }
        // The remaining bases would save little more, and comparing each of them costs as much as this comparison.
        if (head + tail).saturating_mul(NEARLY_EQUAL_RATIO + 1) >= body.len().saturating_mul(NEARLY_EQUAL_RATIO) {
            break;
        }
    }
    match best {
        Some((number, (head, tail))) if head + tail >= MIN_SAVED => {
            Delta { base: Some(number), head, tail, text: body[head..body.len() - tail].to_owned() }
        }
        _ => Delta { text: body.to_owned(), ..Delta::default() },
    }
}

/// Rebuilds the body. Returns `None` if `base` cannot be the body that the delta was made with.
pub(crate) fn apply(base: &str, delta: &Delta) -> Option<String> {
    let head = base.get(..delta.head)?;
    let tail = base.get(base.len().checked_sub(delta.tail)?..)?;
    Some([head, &delta.text, tail].concat())
}

/// Returns the lengths of the shared head and tail in bytes. They do not overlap and do not split a character.
fn shared_ends(base: &str, body: &str) -> (usize, usize) {
    let mut head = shared_prefix(base.as_bytes(), body.as_bytes());
    while !body.is_char_boundary(head) || !base.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = shared_suffix(&base.as_bytes()[head..], &body.as_bytes()[head..]);
    while !body.is_char_boundary(body.len() - tail) || !base.is_char_boundary(base.len() - tail) {
        tail -= 1;
    }
    (head, tail)
}

fn shared_prefix(one: &[u8], other: &[u8]) -> usize {
    let strides = one.chunks_exact(STRIDE).zip(other.chunks_exact(STRIDE));
    let at = strides.take_while(|(one, other)| one == other).count() * STRIDE;
    at + one[at..].iter().zip(&other[at..]).take_while(|(one, other)| one == other).count()
}

fn shared_suffix(one: &[u8], other: &[u8]) -> usize {
    let strides = one.rchunks_exact(STRIDE).zip(other.rchunks_exact(STRIDE));
    let at = strides.take_while(|(one, other)| one == other).count() * STRIDE;
    let (one, other) = (&one[..one.len() - at], &other[..other.len() - at]);
    at + one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

/// Removes known secrets from a body: per string in JSON, per object in an event stream.
pub(crate) fn cleaned(body: String, clean: &SecretFilter) -> String {
    // Most bodies contain no secret and stay identical byte for byte.
    let cleaned = clean(&body);
    if cleaned == body {
        return body;
    }
    if let Ok(value) = serde_json::from_str(&body) {
        return scrubbed(value, clean).to_string();
    }
    body.split_inclusive('\n').map(|line| cleaned_line(line, clean)).collect()
}

fn cleaned_line(line: &str, clean: &SecretFilter) -> String {
    let at = line.find(['{', '[']).filter(|at| line[..*at].trim_end().ends_with(':') || *at == 0);
    let (before, data) = line.split_at(at.unwrap_or(0));
    match serde_json::from_str(data) {
        Ok(value) if at.is_some() => format!("{before}{}{}", scrubbed(value, clean), &data[data.trim_end().len()..]),
        _ => clean(line),
    }
}

fn scrubbed(value: Value, clean: &SecretFilter) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(values) => values.into_iter().map(|value| scrubbed(value, clean)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (clean(&name), scrubbed(value, clean)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    #[test]
    fn line_stores_only_the_difference() {
        let tools = "\"tools\":[".to_owned() + &"{\"name\":\"read\"},".repeat(300) + "]}";
        let messages = "{\"messages\":[".to_owned() + &"{\"role\":\"user\"},".repeat(300);
        let first = format!("{messages}],{tools}");
        let second = format!("{messages}{{\"role\":\"assistant\"}}],{tools}");
        let delta = delta(&second, [(1, "x"), (7, first.as_str())].into_iter());
        assert_eq!((delta.base, delta.text.as_str()), (Some(7), "{\"role\":\"assistant\"}"));
        assert_eq!(apply(&first, &delta).as_deref(), Some(second.as_str()));
        assert_eq!(apply("{\"messages\":[", &delta), None, "another base");
    }

    proptest! {
        #[test]
        fn bodies_round_trip(
            head in "[aé漢😀\"\\\\]{0,400}", one in "[aé漢😀]{0,40}", other in "[aé漢😀]{0,40}", tail in "[aé漢😀]{0,3000}",
        ) {
            let (base, body) = (format!("{head}{one}{tail}"), format!("{head}{other}{tail}"));
            let stored = delta(&body, [(1, base.as_str())].into_iter());
            let restored = match stored.base { Some(_) => apply(&base, &stored), None => Some(stored.text.clone()) };
            prop_assert_eq!(restored, Some(body));
            if stored.base.is_some() {
                prop_assert!(stored.text.len() <= other.len() + 8, "{:?}", stored);
            }
        }
    }

    #[test]
    fn secrets_are_masked_and_json_stays_valid() {
        let clean: SecretFilter = Arc::new(|text| text.replace("s3cret\"", "*").replace("s3cret", "*"));
        let check = |body: &str, expected: &str| assert_eq!(cleaned(body.to_owned(), &clean), expected);
        check("{\"a\" :  1}", "{\"a\" :  1}");
        check("{\"a\":  \"the s3cret\"}", "{\"a\":\"the *\"}");
        check("{\"s3cret\":[\"s3cret\\\" x\"]}", "{\"*\":[\"* x\"]}");
        check("data: {\"a\":\"s3cret\"}\n\ndata: [DONE]\n", "data: {\"a\":\"*\"}\n\ndata: [DONE]\n");
        check("no json: s3cret", "no json: *");
    }
}
