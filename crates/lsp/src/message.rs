//! Messages of JSON-RPC: requests, answers and notifications. What they carry is left as it is until somebody needs it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::frame::framed;

/// Code of a request that is not known.
const UNKNOWN_METHOD: i32 = -32601;

/// A message of a server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Answer to a request of ours.
    Answer { id: i64, result: Result<Option<Box<RawValue>>, RpcError> },
    /// Request of the server.
    Request { id: Value, method: String, params: Option<Box<RawValue>> },
    /// Something that the server tells.
    Notification { method: String, params: Option<Box<RawValue>> },
    /// An error that names no request.
    Meaningless,
}

/// Error of an answer.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct RpcError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
}

#[derive(Deserialize)]
struct Envelope {
    id: Option<Value>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
}

/// Reads a body; none where it is no message.
pub(crate) fn parse(body: &[u8]) -> Option<Incoming> {
    let Envelope { id, method, params, result, error } = serde_json::from_slice(body).ok()?;
    match (method, id) {
        (Some(method), Some(id)) if id.is_string() || id.is_number() => Some(Incoming::Request { id, method, params }),
        (Some(method), None | Some(Value::Null)) => Some(Incoming::Notification { method, params }),
        (None, None | Some(Value::Null)) if error.is_some() => Some(Incoming::Meaningless),
        (None, Some(id)) => Some(Incoming::Answer { id: id.as_i64()?, result: error.map_or(Ok(result), Err) }),
        _ => None,
    }
}

#[derive(Serialize)]
struct SentMessage<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

const NOTHING: SentMessage<'static> =
    SentMessage { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None };

fn written(message: &SentMessage<'_>) -> Vec<u8> {
    // Nothing in it can fail to be written.
    framed(&serde_json::to_vec(message).unwrap_or_default())
}

/// A request, framed.
pub(crate) fn request(id: i64, method: &str, params: &Value) -> Vec<u8> {
    written(&SentMessage { id: Some(&id.into()), method: Some(method), params: Some(params), ..NOTHING })
}

/// A notification, framed.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    written(&SentMessage { method: Some(method), params: Some(params), ..NOTHING })
}

/// An answer, framed; none says that the request is not known.
pub(crate) fn answer(id: &Value, result: Option<&Value>) -> Vec<u8> {
    let unknown = || serde_json::json!({"code": UNKNOWN_METHOD, "message": "not supported"});
    let error = result.is_none().then(unknown);
    written(&SentMessage { id: Some(id), result, error, ..NOTHING })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let check = |body: &str, expected: &str| {
            let kind = match parse(body.as_bytes()) {
                Some(Incoming::Answer { result: Ok(_), .. }) => "answer",
                Some(Incoming::Answer { result: Err(_), .. }) => "error",
                Some(Incoming::Request { .. }) => "request",
                Some(Incoming::Notification { .. }) => "notification",
                Some(Incoming::Meaningless) => "meaningless",
                None => "nothing",
            };
            assert_eq!(kind, expected, "{body}");
        };
        check(r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "answer");
        check(r#"{"id":1,"error":{"code":-1,"message":"no"}}"#, "error");
        check(r#"{"id":null,"error":{"code":-32700,"message":"no"}}"#, "meaningless");
        check(r#"{"id":"a","method":"x"}"#, "request");
        check(r#"{"method":"x","params":{}}"#, "notification");
        check(r#"{"id":"a","result":1}"#, "nothing");
        check(r#"{"id":{},"method":"x"}"#, "nothing");
        check("[]", "nothing");
        check("{}", "nothing");
        check(&"[".repeat(100_000), "nothing");
    }
}
