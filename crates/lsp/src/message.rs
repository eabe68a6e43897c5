//! JSON-RPC messages and their framing. Parameters and results stay unparsed until needed.
//!
//! A frame consists of headers, an empty line, and as many bytes as `Content-Length` specifies.

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// Error code for an unknown method.
const UNKNOWN_METHOD: i32 = -32601;

/// Message from a server.
#[derive(Debug)]
pub(crate) enum IncomingMessage {
    /// Answer to one of our requests.
    Answer { id: i64, result: Result<Option<Box<RawValue>>, RpcError> },
    /// Request from the server.
    Request { id: Value, method: String, params: Option<Box<RawValue>> },
    /// Notification from the server.
    Notification { method: String, params: Option<Box<RawValue>> },
    /// Error without a request ID.
    Meaningless,
}

/// Error in an answer.
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

/// Parses a message body. Returns `None` if the body is not a message.
pub(crate) fn parse(body: &[u8]) -> Option<IncomingMessage> {
    let Envelope { id, method, params, result, error } = serde_json::from_slice(body).ok()?;
    match (method, id) {
        (Some(method), Some(id)) if id.is_string() || id.is_number() => {
            Some(IncomingMessage::Request { id, method, params })
        }
        (Some(method), None | Some(Value::Null)) => Some(IncomingMessage::Notification { method, params }),
        (None, None | Some(Value::Null)) if error.is_some() => Some(IncomingMessage::Meaningless),
        (None, Some(id)) => Some(IncomingMessage::Answer { id: id.as_i64()?, result: error.map_or(Ok(result), Err) }),
        _ => None,
    }
}

/// Builds a framed request.
pub(crate) fn request(id: i64, method: &str, params: &Value) -> Vec<u8> {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    add_headers(message.to_string().as_bytes())
}

/// Builds a framed notification.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    add_headers(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().as_bytes())
}

/// Builds a framed answer. If `result` is `None`, the answer reports an unknown method.
pub(crate) fn answer(id: &Value, result: Option<&Value>) -> Vec<u8> {
    let unknown = json!({"code": UNKNOWN_METHOD, "message": "not supported"});
    let message = match result {
        Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        None => json!({"jsonrpc": "2.0", "id": id, "error": unknown}),
    };
    add_headers(message.to_string().as_bytes())
}

/// Maximum size of a frame's headers in bytes.
const MAX_HEAD: usize = 4 << 10;
/// Maximum size of a frame's body in bytes.
pub(crate) const MAX_BODY: usize = 8 << 20;

const HEADER_END: &[u8] = b"\r\n\r\n";

/// Reason why the bytes are not a valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("it sent an invalid message")]
    Nonsense,
    #[error("it sent a message over 8 MiB")]
    TooLong,
}

/// Adds the headers to a body.
pub(crate) fn add_headers(body: &[u8]) -> Vec<u8> {
    let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body);
    frame
}

/// Incremental decoder of frames.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder {
    buffer: Vec<u8>,
    /// Length of the body, once the headers have been read.
    body: Option<usize>,
}

impl FrameDecoder {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the next complete body, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// Fails if the bytes are not a frame. No later bytes can be decoded.
    pub(crate) fn next_body(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let length = match self.body {
            Some(length) => length,
            None => match self.head()? {
                Some(length) => *self.body.insert(length),
                None => return Ok(None),
            },
        };
        if self.buffer.len() < length {
            return Ok(None);
        }
        self.body = None;
        let rest = self.buffer.split_off(length);
        Ok(Some(std::mem::replace(&mut self.buffer, rest)))
    }

    fn head(&mut self) -> Result<Option<usize>, FrameError> {
        let head_bytes = &self.buffer[..self.buffer.len().min(MAX_HEAD)];
        let Some(end) = head_bytes.windows(HEADER_END.len()).position(|window| window == HEADER_END) else {
            // Reject output early that can never become a frame: every header line has a colon.
            let whole_lines = head_bytes.rsplit(|byte| *byte == b'\n').skip(1);
            let is_head = whole_lines.into_iter().all(|line| line.contains(&b':'));
            return if head_bytes.len() < MAX_HEAD && is_head { Ok(None) } else { Err(FrameError::Nonsense) };
        };
        let head = std::str::from_utf8(&head_bytes[..end]).map_err(|_| FrameError::Nonsense)?;
        let mut length = None;
        for line in head.split("\r\n") {
            let (name, value) = line.split_once(':').ok_or(FrameError::Nonsense)?;
            if name.trim().eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse::<u64>().map_err(|_| FrameError::Nonsense)?);
            }
        }
        let length = usize::try_from(length.ok_or(FrameError::Nonsense)?).map_err(|_| FrameError::TooLong)?;
        if length > MAX_BODY {
            return Err(FrameError::TooLong);
        }
        self.buffer.drain(..end + HEADER_END.len());
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn message_kinds_are_distinguished() {
        let check = |body: &str, expected: &str| {
            let kind = match parse(body.as_bytes()) {
                Some(IncomingMessage::Answer { result: Ok(_), .. }) => "answer",
                Some(IncomingMessage::Answer { result: Err(_), .. }) => "error",
                Some(IncomingMessage::Request { .. }) => "request",
                Some(IncomingMessage::Notification { .. }) => "notification",
                Some(IncomingMessage::Meaningless) => "meaningless",
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

    fn read(pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, FrameError> {
        let (mut decoder, mut bodies) = (FrameDecoder::default(), Vec::new());
        for piece in pieces {
            decoder.push(piece);
            while let Some(body) = decoder.next_body()? {
                bodies.push(body);
            }
        }
        Ok(bodies)
    }

    #[test]
    fn message_headers_are_parsed() {
        let check = |text: &str, expected: Result<usize, FrameError>| {
            assert_eq!(read(&[text.as_bytes()]).map(|bodies| bodies.len()), expected, "{text:?}");
        };
        check("Content-Length: 2\r\n\r\n{}", Ok(1));
        check("content-length:2\r\nContent-Type: x\r\n\r\n{}Content-Length: 0\r\n\r\n", Ok(2));
        check("Content-Length: 3\r\n\r\n{}", Ok(0));
        check("Content-Le", Ok(0));
        check("Content-Type: x\r\n\r\n", Err(FrameError::Nonsense));
        check("Content-Length: -1\r\n\r\n", Err(FrameError::Nonsense));
        check("Content-Length: 99999999999999999999999\r\n\r\n", Err(FrameError::Nonsense));
        check("Content-Length: 8388609\r\n\r\n", Err(FrameError::TooLong));
        check("Segmentation fault\n", Err(FrameError::Nonsense));
        check(&"x".repeat(MAX_HEAD), Err(FrameError::Nonsense));
    }

    proptest! {
        #[test]
        fn frames_decode_in_any_chunking(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
            cuts in prop::collection::vec(1usize..60, 0..40),
        ) {
            let stream: Vec<u8> = bodies.iter().flat_map(|body| add_headers(body)).collect();
            let (mut pieces, mut rest) = (Vec::new(), &stream[..]);
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            pieces.push(rest);
            prop_assert_eq!(read(&pieces).unwrap(), bodies);
        }

        #[test]
        fn random_input_uses_bounded_memory(noise in prop::collection::vec(any::<u8>(), 0..20_000)) {
            let mut decoder = FrameDecoder::default();
            decoder.push(&noise);
            while let Ok(Some(body)) = decoder.next_body() {
                prop_assert!(body.len() <= noise.len());
            }
            prop_assert!(decoder.buffer.len() <= noise.len());
        }
    }
}
