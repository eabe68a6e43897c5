//! Messages of JSON-RPC, read from lines.

use agent_client_protocol_schema::v1::{Error, RequestId};
use serde_json::{Map, Value};

use super::{frame::Frame, refusal};

/// A message of the editor.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// A request, which gets an answer.
    Request { id: RequestId, method: String, params: Value },
    /// A notification, which gets none.
    Notification { method: String, params: Value },
    /// The answer to a request of ours: its result, or the error.
    Answer { id: RequestId, outcome: Result<Value, Value> },
}

/// A line that is no message, with the id of the request that it may have been.
#[derive(Debug, PartialEq)]
pub(super) struct Misfit {
    pub(super) id: RequestId,
    pub(super) error: Error,
    /// Set if it was meant as an answer: then the id is one of ours, and an error under it would be taken for the answer to
    /// the editor's own request.
    pub(super) is_answer: bool,
}

impl Misfit {
    fn new(id: RequestId, error: Error) -> Box<Self> {
        Box::new(Self { id, error, is_answer: false })
    }
}

impl Misfit {
    /// A line that cannot be read whole, by what can be told of its beginning.
    fn within(head: &[u8], error: Error) -> Box<Self> {
        let (id, is_answer) = id_within(head);
        Box::new(Self { id, error, is_answer })
    }
}

/// Reads a line as a message.
///
/// # Errors
/// When it is none, or too long.
pub(super) fn read(frame: &Frame) -> Result<Message, Box<Misfit>> {
    let line = match frame {
        Frame::Line(line) => line,
        Frame::TooLong(head) => {
            return Err(Misfit::within(head, refusal::not_a_request("the line is longer than 32 MiB")));
        }
    };
    let value: Value =
        serde_json::from_slice(line).map_err(|error| Misfit::within(line, refusal::unreadable(&error.to_string())))?;
    let Value::Object(mut fields) = value else {
        return Err(Misfit::new(RequestId::Null, refusal::not_a_request("a message is one JSON object; no batches")));
    };
    let id = fields.remove("id").map(id_of).transpose()?;
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Ok(Message::Request { id, method, params: params(&mut fields) }),
        (Some(Value::String(method)), None) => Ok(Message::Notification { method, params: params(&mut fields) }),
        (Some(_), id) => {
            Err(Misfit::new(id.unwrap_or(RequestId::Null), refusal::not_a_request("the method is no string")))
        }
        (None, Some(id)) => answer(id, fields),
        (None, None) => Err(Misfit::new(RequestId::Null, refusal::not_a_request("there is no method and no id"))),
    }
}

fn params(fields: &mut Map<String, Value>) -> Value {
    fields.remove("params").unwrap_or_default()
}

fn answer(id: RequestId, mut fields: Map<String, Value>) -> Result<Message, Box<Misfit>> {
    // Some libraries write the one that is not there as null.
    match (fields.remove("result"), fields.remove("error").filter(|error| !error.is_null())) {
        (_, Some(error)) => Ok(Message::Answer { id, outcome: Err(error) }),
        (Some(result), None) => Ok(Message::Answer { id, outcome: Ok(result) }),
        (None, None) => {
            let error = refusal::not_a_request("there is no method, no result and no error");
            Err(Box::new(Misfit { id, error, is_answer: true }))
        }
    }
}

fn id_of(value: Value) -> Result<RequestId, Box<Misfit>> {
    serde_json::from_value(value)
        .map_err(|_| Misfit::new(RequestId::Null, refusal::not_a_request("an id is a string, a whole number or null")))
}

/// The id in the beginning of a message that cannot be read whole, so that its sender learns which it was; and whether the
/// message is an answer.
fn id_within(head: &[u8]) -> (RequestId, bool) {
    let text = String::from_utf8_lossy(head);
    let (mut id, mut is_answer, mut has_method) = (RequestId::Null, false, false);
    // The depth of brackets, and where the string that is open began.
    let (mut depth, mut begun, mut is_escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (begun, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(start), '"') => {
                begun = None;
                let behind = text[at + 1..].trim_start().strip_prefix(':').filter(|_| depth == 1);
                match (&text[start..at], behind) {
                    ("id", Some(behind)) if id == RequestId::Null => {
                        let value = serde_json::Deserializer::from_str(behind).into_iter::<RequestId>().next();
                        id = value.and_then(Result::ok).unwrap_or(RequestId::Null);
                    }
                    ("result" | "error", Some(_)) => is_answer = true,
                    ("method", Some(_)) => has_method = true,
                    _ => {}
                }
            }
            (Some(_), _) => {}
            (None, '"') => begun = Some(at + 1),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    (id, is_answer && !has_method)
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::ErrorCode;
    use serde_json::json;

    use super::*;

    fn of(line: &[u8]) -> Result<Message, Box<Misfit>> {
        read(&Frame::Line(line.to_vec()))
    }

    #[test]
    fn messages_are_told_apart() {
        let check = |line: &str, expected: Message| assert_eq!(of(line.as_bytes()), Ok(expected), "{line}");
        let method = || "m".to_owned();
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#,
            Message::Request { id: RequestId::Number(1), method: method(), params: json!({"a": 1}) },
        );
        check(
            r#"{"id":"x","method":"m"}"#,
            Message::Request { id: RequestId::Str("x".into()), method: method(), params: Value::Null },
        );
        check(r#"{"method":"m"}"#, Message::Notification { method: method(), params: Value::Null });
        check(r#"{"id":2,"result":null}"#, Message::Answer { id: RequestId::Number(2), outcome: Ok(Value::Null) });
        check(
            r#"{"id":2,"error":{"code":1}}"#,
            Message::Answer { id: RequestId::Number(2), outcome: Err(json!({"code": 1})) },
        );
    }

    #[test]
    fn what_is_no_message_is_answered_with_its_id_where_it_can_be_found() {
        let check = |line: &[u8], id: RequestId, code: ErrorCode| {
            let misfit = of(line).unwrap_err();
            assert_eq!((&misfit.id, misfit.error.code), (&id, code), "{}", String::from_utf8_lossy(line));
        };
        let number = RequestId::Number;
        check(b"not json", RequestId::Null, ErrorCode::ParseError);
        check(b"\xff\xfe", RequestId::Null, ErrorCode::ParseError);
        check(b"{\"id\":3,\"method\":\"m\",\"params\":{\"text\":\"\xff\"}}", number(3), ErrorCode::ParseError);
        check(br#"{"params":{"id":9,"s":"\"id\":8"},"id" : 4,"meth"#, number(4), ErrorCode::ParseError);
        check(br#"{"id":"a-b","method":"session/pro"#, RequestId::Str("a-b".into()), ErrorCode::ParseError);
        check(b"[]", RequestId::Null, ErrorCode::InvalidRequest);
        check(b"{}", RequestId::Null, ErrorCode::InvalidRequest);
        check(br#"{"id":1.5,"method":"m"}"#, RequestId::Null, ErrorCode::InvalidRequest);
        check(br#"{"id":5,"method":7}"#, number(5), ErrorCode::InvalidRequest);
        let is_answer = |line: &[u8]| of(line).unwrap_err().is_answer;
        assert!(!is_answer(br#"{"id":4,"params":{"result":1},"meth"#) && !is_answer(br#"{"id":5,"method":7}"#));
        for answer in [&br#"{"id":6}"#[..], br#"{"id":6,"result":{"content":"#, b"{\"result\":\"\xff\",\"id\":6}"] {
            let misfit = of(answer).unwrap_err();
            assert_eq!((&misfit.id, misfit.is_answer), (&number(6), true), "{}", String::from_utf8_lossy(answer));
        }
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        check(&deep, RequestId::Null, ErrorCode::ParseError);
        let long =
            read(&Frame::TooLong(br#"{"jsonrpc":"2.0","id":7,"method":"session/prompt","#.to_vec())).unwrap_err();
        assert_eq!((long.id, long.error.code), (number(7), ErrorCode::InvalidRequest));
    }
}
