//! Native tool calls, put together from their pieces.
//!
//! Servers number the pieces, or name them, or do neither; some give every call the same number. A piece belongs to
//! the call with its number, else with its id, else to the last one; a new id or a second name begins a new call, and so
//! does a name behind arguments that are whole. What is kept is limited, whatever numbers a server sends.

use agentd_core::origin::MAX_SERVER_FIELDS;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    answer::{Answer, RawCall, text_protocol::Balance},
    http::{failure::Failure, target::Target},
    wire::{
        lenient::{Count, Text, argument_text, is_json},
        partial::{CallBounds, PartialCall},
    },
};

/// A piece of a call, as it comes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct CallDelta<'a> {
    index: Option<Count>,
    id: Text<'a>,
    /// A signature of the call, which goes back to its server.
    extra_content: Option<&'a RawValue>,
    function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct FunctionDelta<'a> {
    name: Text<'a>,
    /// Usually a string with a piece of JSON; some servers send the JSON itself.
    arguments: Option<&'a RawValue>,
}

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<NumberedCall>,
    bounds: CallBounds,
    /// Bytes of the server's own fields.
    field_bytes: usize,
}

#[derive(Debug)]
struct NumberedCall {
    index: Option<u64>,
    call: PartialCall,
    /// Progress in its arguments.
    balance: Balance,
    /// The object that they began with has ended.
    is_whole: bool,
}

impl Calls {
    /// Adds a piece.
    pub(super) fn add(&mut self, target: &Target, delta: &CallDelta<'_>, answer: &mut Answer) -> Result<(), Failure> {
        let (id, function) = (&*delta.id, delta.function.as_ref());
        let name = function.map_or("", |function| &*function.name);
        let arguments = function.and_then(|function| function.arguments).map(argument_text).unwrap_or_default();
        let index = delta.index.map(|index| index.0);
        let at = match self.find(index, id, name, &arguments) {
            Some(at) => at,
            None => {
                self.bounds.begin(target)?;
                let (call, balance) = (PartialCall::new(id, ""), Balance::default());
                self.calls.push(NumberedCall { index, call, balance, is_whole: false });
                self.calls.len() - 1
            }
        };
        let NumberedCall { call, balance, is_whole, .. } = &mut self.calls[at];
        if let Some(extra) = delta.extra_content {
            self.field_bytes += extra.get().len();
            if self.field_bytes <= MAX_SERVER_FIELDS && is_json(extra.get()) {
                call.extra_content = Some(extra.get().to_owned());
            } else {
                tracing::warn!("the extra_content of a call is too large or cannot be read, and does not go back");
            }
        }
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        // Some servers repeat the name with every piece; a few cut it into pieces.
        if call.name != name {
            call.name.push_str(name);
        }
        self.bounds.take(target, arguments.len() + name.len(), answer)?;
        call.push(&arguments, answer);
        *is_whole |= balance.end(call.arguments.as_bytes()).is_some();
        Ok(())
    }

    /// All calls, in the order in which they began.
    pub(super) fn take(&mut self) -> Vec<RawCall> {
        self.calls.drain(..).map(|numbered| numbered.call.read(false)).collect()
    }

    fn find(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let begins = |numbered: &NumberedCall| {
            let call = &numbered.call;
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            (other_id && !name.is_empty())
                || (call.id != id || id.is_empty()) && numbered.is_followed_by(name, arguments)
        };
        if let Some(index) = index {
            let at = self.calls.iter().rposition(|numbered| numbered.index == Some(index))?;
            return (!begins(&self.calls[at])).then_some(at);
        }
        if !id.is_empty() {
            return self.calls.iter().rposition(|numbered| numbered.call.id == id);
        }
        let last = self.calls.len().checked_sub(1)?;
        let second_name = !name.is_empty() && !self.calls[last].call.name.is_empty();
        (!second_name).then_some(last)
    }
}

impl NumberedCall {
    /// Returns whether a piece with the number of this call begins another one: one that is named behind whole arguments, or that
    /// comes whole behind a call by another name without any. A name may be repeated with each piece, or come in pieces.
    fn is_followed_by(&self, name: &str, arguments: &str) -> bool {
        let other_name = self.call.name != name;
        if name.is_empty() || self.call.name.is_empty() {
            return false;
        }
        if self.is_whole {
            return other_name || !arguments.trim().is_empty();
        }
        other_name && self.call.arguments.is_empty() && Balance::default().end(arguments.as_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: &[(&str, &str)]) {
        let target = Target::for_tests("http://h", "");
        let mut calls = Calls::default();
        for piece in pieces {
            calls.add(&target, &serde_json::from_str(piece).unwrap(), &mut Answer::default()).unwrap();
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
    fn calls_with_one_number_and_no_ids_stay_several() {
        let whole = |name: &str, arguments: &str| {
            let function = serde_json::json!({"name": name, "arguments": arguments});
            serde_json::json!({"index": 0, "type": "function", "function": function}).to_string()
        };
        let check = |pieces: &[(&str, &str)], expected: &[(&str, &str)]| {
            let pieces: Vec<String> = pieces.iter().map(|(name, arguments)| whole(name, arguments)).collect();
            check(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        };
        let (read, grep) = (("read_file", r#"{"path":"}"}"#), ("grep", r#"{"pattern":"\"{"}"#));
        check(&[read, grep], &[read, grep]);
        check(&[read, read, grep], &[read, read, grep]);
        check(&[("now", "{}"), ("now", "{}")], &[("now", "{}"), ("now", "{}")]);
        check(&[("now", ""), read], &[("now", ""), read]);
        check(&[read, ("now", "")], &[read, ("now", "")]);
        // What only looks like it: a name with each piece, in which an object ends within another.
        check(&[("x", r#"{"a":"#), ("x", "{}"), ("x", "}"), ("x", "")], &[("x", r#"{"a":{}}"#)]);
        check(&[("x", ""), ("x", "{}")], &[("x", "{}")]);
        check(&[("read_", ""), ("file", ""), ("", "{}")], &[("read_file", "{}")]);
    }
}
