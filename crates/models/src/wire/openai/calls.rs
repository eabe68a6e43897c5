//! Native tool calls, put together from their pieces.
//!
//! Servers number the pieces, or name them, or do neither; some give every call the same number. A piece belongs to
//! the call with its number, else with its id, else to the last one; a new id or a second name begins a new call, and so
//! does a name behind arguments that are whole. What is kept is limited, whatever numbers a server sends.

use agentd_core::origin::{MAX_SERVER_FIELDS, ServerFields};

use super::chunk::CallDelta;
use crate::{
    answer::{Answer, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        lenient::{argument_text, is_json},
        partial::{CallBounds, PartialCall},
    },
};

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
    extra_content: Option<String>,
    nesting: Nesting,
}

/// State of the arguments of a call: within a text, within objects, or whole.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The object that they began with has ended.
    whole: bool,
}

/// One piece, as far as it tells which call it belongs to.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl Calls {
    /// Adds a piece.
    pub(super) fn add(&mut self, target: &Target, delta: &CallDelta<'_>, answer: &mut Answer) -> Result<(), Failure> {
        let (id, function) = (&*delta.id, delta.function.as_ref());
        let name = function.map_or("", |function| &*function.name);
        let arguments = function.and_then(|function| function.arguments).map(argument_text).unwrap_or_default();
        let piece = Piece { index: delta.index.map(|index| index.0), id, name, arguments: &arguments };
        let at = match self.find(&piece) {
            Some(at) => at,
            None => {
                self.bounds.begin(target)?;
                let (call, nesting) = (PartialCall::new(id, ""), Nesting::default());
                self.calls.push(NumberedCall { index: piece.index, call, extra_content: None, nesting });
                self.calls.len() - 1
            }
        };
        let NumberedCall { call, extra_content, nesting, .. } = &mut self.calls[at];
        if let Some(extra) = delta.extra_content {
            self.field_bytes += extra.get().len();
            if self.field_bytes <= MAX_SERVER_FIELDS && is_json(extra.get()) {
                *extra_content = Some(extra.get().to_owned());
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
        nesting.read(&arguments);
        call.push(&arguments, answer);
        Ok(())
    }

    /// All calls, in the order in which they began.
    pub(super) fn take(&mut self) -> Vec<RawCall> {
        let call = |NumberedCall { call, extra_content, .. }: NumberedCall| {
            let RawCall { name, arguments, fields } = call.read(false);
            RawCall { name, arguments, fields: ServerFields { extra_content, ..fields } }
        };
        self.calls.drain(..).map(call).collect()
    }

    fn find(&self, piece: &Piece<'_>) -> Option<usize> {
        let Piece { index, id, name, .. } = *piece;
        let begins = |NumberedCall { call, nesting, .. }: &NumberedCall| {
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            (other_id && !name.is_empty()) || (call.id != id || id.is_empty()) && nesting.is_followed_by(call, piece)
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

impl Nesting {
    /// Returns whether a piece with the number of this call begins another one: one that is named behind whole arguments, or that
    /// comes whole behind a call by another name without any. A name may be repeated with each piece, or come in pieces.
    fn is_followed_by(&self, call: &PartialCall, piece: &Piece<'_>) -> bool {
        let other_name = call.name != piece.name;
        if piece.name.is_empty() || call.name.is_empty() {
            return false;
        }
        if self.whole {
            return other_name || !piece.arguments.trim().is_empty();
        }
        let mut nesting = Self::default();
        nesting.read(piece.arguments);
        other_name && call.arguments.is_empty() && nesting.whole
    }

    fn read(&mut self, arguments: &str) {
        for byte in arguments.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string && self.depth > 0 => {
                    self.depth -= 1;
                    self.whole |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::origin::MAX_SERVER_CALL_ID;

    use super::*;
    use crate::answer::{MAX_ARGUMENT_BYTES, MAX_CALLS};

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

    #[test]
    fn a_servers_own_fields_are_kept_within_a_bound() {
        let target = Target::for_tests("http://h", "");
        let mut calls = Calls::default();
        let mut add =
            |piece: &str| calls.add(&target, &serde_json::from_str(piece).unwrap(), &mut Answer::default()).unwrap();
        let extra = r#"{"google": {"thought_signature":"A\/b=="}}"#;
        add(&format!(
            r#"{{"index":0,"id":"a:0","extra_content":{extra},"function":{{"name":"x","arguments":"{{}}"}}}}"#
        ));
        let long = "i".repeat(MAX_SERVER_CALL_ID + 1);
        add(&format!(
            r#"{{"index":1,"id":"{long}","extra_content":null,"function":{{"name":"y","arguments":"{{}}"}}}}"#
        ));
        let large = "s".repeat(MAX_SERVER_FIELDS);
        add(&format!(r#"{{"index":2,"extra_content":"{large}","function":{{"name":"z","arguments":"{{}}"}}}}"#));
        let fields: Vec<ServerFields> = calls.take().into_iter().map(|call| call.fields).collect();
        let first = ServerFields {
            call_id: "a:0".to_owned(),
            extra_content: Some(extra.to_owned()),
            ..ServerFields::default()
        };
        assert_eq!(fields, [first, ServerFields::default(), ServerFields::default()]);
    }

    #[test]
    fn too_much_is_refused() {
        let target = Target::for_tests("http://h", "");
        let fails_after = |delta: &dyn Fn(usize) -> String| {
            let mut calls = Calls::default();
            (0..2_000).position(|n| {
                calls.add(&target, &serde_json::from_str(&delta(n)).unwrap(), &mut Answer::default()).is_err()
            })
        };
        let call = |n| format!(r#"{{"index":{n},"function":{{"name":"x","arguments":"{{}}"}}}}"#);
        assert_eq!(fails_after(&call), Some(MAX_CALLS));
        let piece: String = (0..3_000).map(|n| n.to_string()).collect();
        let long = |_| format!(r#"{{"index":0,"function":{{"arguments":"{piece}"}}}}"#);
        assert_eq!(fails_after(&long), Some(MAX_ARGUMENT_BYTES / piece.len()));
    }
}
