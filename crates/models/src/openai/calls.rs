//! Native tool calls, put together from their pieces.
//!
//! Servers number the pieces, or name them, or do neither; some give every call the same number. A piece belongs to
//! the call with its number, else with its id, else to the last one; a new id or a second name begins a new call.
//! What is kept is limited, whatever numbers a server sends.

use serde_json::value::RawValue;

use super::chunk::CallDelta;
use crate::{
    answer::{MAX_ARGUMENT_BYTES, MAX_CALLS, RawCall},
    failure::Failure,
    http::Target,
    runaway::{ARGUMENTS, Guard},
};

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<PartialCall>,
    argument_bytes: usize,
}

#[derive(Debug)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    call: RawCall,
    guard: Guard,
}

impl Calls {
    /// Adds a piece. What repeats itself without end in the arguments is returned.
    pub(super) fn add(&mut self, target: &Target, delta: &CallDelta<'_>) -> Result<Option<String>, Failure> {
        let id = delta.id.as_ref().map(|id| id.as_str()).unwrap_or_default();
        let function = delta.function.as_ref();
        let name = function.and_then(|function| function.name.as_ref()).map(|name| name.as_str()).unwrap_or_default();
        let index = delta.index.map(|index| index.0);
        let at = match self.find(index, id, name) {
            Some(at) => at,
            None if self.calls.len() == MAX_CALLS => {
                return Err(Failure::protocol(format!(
                    "the model at {target} asked for more than {MAX_CALLS} tool calls in one answer"
                ))
                .hint("the model may be confused: ask again, or try another one"));
            }
            None => {
                let call = RawCall::default();
                self.calls.push(PartialCall { index, id: id.to_owned(), call, guard: Guard::new(ARGUMENTS) });
                self.calls.len() - 1
            }
        };
        let partial = &mut self.calls[at];
        if partial.id.is_empty() {
            partial.id.push_str(id);
        }
        // Some servers repeat the name with every piece; a few cut it into pieces.
        if partial.call.name != name {
            partial.call.name.push_str(name);
        }
        let arguments = function.and_then(|function| function.arguments).map(argument_text).unwrap_or_default();
        self.argument_bytes += arguments.len() + name.len();
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(Failure::protocol(format!("the model at {target} wrote more than 1 MiB of tool arguments"))
                .hint("ask it to work in smaller steps"));
        }
        partial.call.arguments.push_str(&arguments);
        Ok(partial.guard.check(&arguments).map(|runaway| runaway.what))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// All calls, in the order in which they began.
    pub(super) fn take(&mut self) -> Vec<RawCall> {
        self.calls.drain(..).map(|partial| partial.call).collect()
    }

    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let begins = |partial: &PartialCall| {
            let other_id = !id.is_empty() && !partial.id.is_empty() && partial.id != id;
            other_id && !name.is_empty()
        };
        if let Some(index) = index {
            let at = self.calls.iter().rposition(|partial| partial.index == Some(index))?;
            return (!begins(&self.calls[at])).then_some(at);
        }
        if !id.is_empty() {
            return self.calls.iter().rposition(|partial| partial.id == id);
        }
        let last = self.calls.len().checked_sub(1)?;
        let second_name = !name.is_empty() && !self.calls[last].call.name.is_empty();
        (!second_name).then_some(last)
    }
}

fn argument_text(raw: &RawValue) -> String {
    let raw = raw.get();
    if raw.starts_with('"') {
        return serde_json::from_str(raw).unwrap_or_default();
    }
    if raw == "null" { String::new() } else { raw.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: &[(&str, &str)]) {
        let target = Target::for_tests("http://h", "");
        let mut calls = Calls::default();
        for piece in pieces {
            calls.add(&target, &serde_json::from_str(piece).unwrap()).unwrap();
        }
        let calls = calls.take();
        let found: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(found, expected, "{pieces:?}");
    }

    #[test]
    fn pieces_find_their_calls() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"y","arguments":"{"}}"#,
                r#"{"index":0,"function":{"arguments":"{\"p\":"}}"#,
                r#"{"index":1,"function":{"arguments":"}"}}"#,
                r#"{"index":0,"function":{"arguments":"1}"}}"#,
            ],
            &[("x", r#"{"p":1}"#), ("y", "{}")],
        );
        // Every call has the number 0, but an id of its own.
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"x","arguments":"{"}}"#,
                r#"{"index":0,"function":{"arguments":"}"}}"#,
            ],
            &[("x", "{}"), ("x", "{}")],
        );
        // No numbers: by id, then the last.
        check(
            &[
                r#"{"id":"a","function":{"name":"x","arguments":"{"}}"#,
                r#"{"id":"b","function":{"name":"y","arguments":"["}}"#,
                r#"{"id":"a","function":{"arguments":"}"}}"#,
                r#"{"function":{"arguments":"]"}}"#,
            ],
            &[("x", "{}"), ("y", "[]")],
        );
        // Neither numbers nor ids.
        check(
            &[
                r#"{"function":{"name":"x","arguments":{"p":1}}}"#,
                r#"{"function":{"name":"x","arguments":"{"}}"#,
                r#"{"function":{"arguments":"}"}}"#,
            ],
            &[("x", r#"{"p":1}"#), ("x", "{}")],
        );
        // The name comes with every piece, or in pieces; numbers are absurd.
        check(
            &[
                r#"{"index":18446744073709551615,"function":{"name":"x","arguments":"{"}}"#,
                r#"{"index":18446744073709551615,"function":{"name":"x","arguments":"}"}}"#,
                r#"{"index":7,"function":{"name":"read_"}}"#,
                r#"{"index":7,"id":null,"function":{"name":"file","arguments":null}}"#,
                r#"{"index":7}"#,
            ],
            &[("x", "{}"), ("read_file", "")],
        );
    }

    #[test]
    fn too_much_is_refused() {
        let target = Target::for_tests("http://h", "");
        let fails_after = |delta: &dyn Fn(usize) -> String| {
            let mut calls = Calls::default();
            (0..2_000).position(|n| calls.add(&target, &serde_json::from_str(&delta(n)).unwrap()).is_err())
        };
        let call = |n| format!(r#"{{"index":{n},"function":{{"name":"x","arguments":"{{}}"}}}}"#);
        assert_eq!(fails_after(&call), Some(MAX_CALLS));
        let piece: String = (0..3_000).map(|n| n.to_string()).collect();
        let long = |_| format!(r#"{{"index":0,"function":{{"arguments":"{piece}"}}}}"#);
        assert_eq!(fails_after(&long), Some(MAX_ARGUMENT_BYTES / piece.len()));
    }
}
