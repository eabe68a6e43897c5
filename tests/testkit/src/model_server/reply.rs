//! Content and delivery of a reply.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// One reply. The functions build the usual replies. For other replies, set the fields or deserialise them from JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// Text that is sent in one delta per word.
    pub text: String,
    /// Deltas of text that are sent unchanged instead of `text`.
    pub deltas: Vec<String>,
    /// Reasoning that is sent before the text, in one delta per word.
    pub reasoning: String,
    /// Name of the field for reasoning.
    pub reasoning_field: String,
    /// OpenRouter's `reasoning_details`, sent one per delta after the reasoning.
    pub reasoning_details: Vec<Value>,
    /// Tool calls that follow the text.
    pub tool_calls: Vec<ReplyCall>,
    /// True if the pieces of calls have an index.
    pub number_calls: bool,
    /// True if the index of calls is always 0.
    pub number_zero: bool,
    /// Number of argument bytes per delta. If absent, all arguments are in one delta.
    pub argument_bytes: Option<usize>,
    /// Blocks of Anthropic's Messages, in order. They replace the content of the fields above.
    pub blocks: Vec<Value>,
    /// Items of OpenAI's Responses, in order. They replace the content of the fields above.
    pub items: Vec<Value>,
    /// Finish reason. If absent, `stop` or `tool_calls` is sent; if empty, none is sent.
    pub finish_reason: Option<String>,
    /// Token usage, generated if absent.
    pub usage: Option<Value>,
    /// Additional fields of the whole response, with the wire's names: in `message` for Messages, in `response` for
    /// Responses.
    pub head: serde_json::Map<String, Value>,
    /// Position of the usage in the response.
    pub usage_place: UsagePlace,
    /// llama.cpp's own statistics, in addition to the usage.
    pub timings: Option<Value>,
    /// True if `[DONE]` ends the stream.
    pub done: bool,
    /// True if the reply is one JSON object instead of a stream.
    pub whole: bool,
    /// Number of deltas that are sent as fast as they are read, see [`super::fast_text`]. All other content is then
    /// ignored.
    pub fast: Option<u64>,

    /// Data of the events, sent unchanged. They replace the content of the fields above.
    pub events: Option<Vec<String>>,
    /// Body that is sent unchanged. It replaces the content of the fields above.
    pub body: Option<String>,

    /// HTTP status code of the response.
    pub status: u16,
    /// HTTP headers of the response.
    pub headers: BTreeMap<String, String>,
    /// Number of bytes per write. If absent, each write contains one event.
    pub bytes_per_write: Option<usize>,
    /// Delay before the head of the response.
    pub first_delay_ms: u64,
    /// Delay between two writes.
    pub delay_ms: u64,
    /// Number of body bytes after which the connection is closed.
    pub cut_after: Option<usize>,
    /// Number of body bytes after which nothing more is sent, while the connection stays open.
    pub hang_after: Option<usize>,
    /// Text after whose first write the connection is closed, as with `cut_after`.
    pub cut_after_text: Option<String>,
    /// Text after whose first write nothing more is sent, as with `hang_after`.
    pub hang_after_text: Option<String>,
    /// Text after whose first write the reply waits for `release_held_reply` of the server.
    pub hold_after_text: Option<String>,
    /// True if nothing is sent while the connection stays open.
    pub never: bool,

    /// For scripts: text that the body of a request must contain. The reply is then preferred to replies without a
    /// condition.
    pub r#match: Option<String>,
    /// For scripts: true if the reply is used repeatedly.
    pub repeat: bool,
}

/// A tool call in a reply.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplyCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call. A string is sent unchanged, so that it can be invalid JSON.
    pub arguments: Value,
    /// ID of the call. If absent, an ID is generated; if empty, none is sent.
    pub id: Option<String>,
    /// Gemini's additional field for the call.
    pub extra_content: Option<Value>,
}

/// Position of the usage in a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePlace {
    /// In a separate event without choices, after the last choice, if the request asks for it.
    #[default]
    Tail,
    /// In the event with the finish reason.
    LastChunk,
    /// Inside the last choice.
    InChoice,
    /// The response does not contain the usage.
    Nowhere,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            text: String::new(),
            deltas: Vec::new(),
            reasoning: String::new(),
            reasoning_field: "reasoning_content".to_owned(),
            reasoning_details: Vec::new(),
            tool_calls: Vec::new(),
            number_calls: true,
            number_zero: false,
            argument_bytes: None,
            blocks: Vec::new(),
            items: Vec::new(),
            finish_reason: None,
            usage: None,
            head: serde_json::Map::new(),
            usage_place: UsagePlace::Tail,
            timings: None,
            done: true,
            whole: false,
            fast: None,
            events: None,
            body: None,
            status: 200,
            headers: BTreeMap::new(),
            bytes_per_write: None,
            first_delay_ms: 0,
            delay_ms: 0,
            cut_after: None,
            hang_after: None,
            cut_after_text: None,
            hang_after_text: None,
            hold_after_text: None,
            never: false,
            r#match: None,
            repeat: false,
        }
    }
}

impl Reply {
    /// Creates a reply with text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Creates a reply with text in exactly these deltas.
    pub fn deltas<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        Self { deltas: deltas.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Creates a reply with a tool call. String arguments are sent unchanged.
    pub fn tool_call(name: impl Into<String>, arguments: Value) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// Creates a reply with these blocks of Anthropic's Messages, in this order.
    pub fn blocks(blocks: impl IntoIterator<Item = Value>) -> Self {
        Self { blocks: blocks.into_iter().collect(), ..Self::default() }
    }

    /// Creates a reply with these items of OpenAI's Responses, in this order.
    pub fn items(items: impl IntoIterator<Item = Value>) -> Self {
        Self { items: items.into_iter().collect(), ..Self::default() }
    }

    /// Creates a reply of `count` deltas, sent as fast as they are read, with the text of [`super::fast_text`].
    pub fn fast(count: u64) -> Self {
        Self { fast: Some(count), ..Self::default() }
    }

    /// Creates a reply with these event data, which are sent unchanged.
    pub fn events<T: Into<String>>(events: impl IntoIterator<Item = T>) -> Self {
        Self { events: Some(events.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Creates a reply with a status and a body, which is sent unchanged.
    pub fn status(status: u16, body: impl Into<String>) -> Self {
        Self { status, body: Some(body.into()), ..Self::default() }.header("content-type", "application/json")
    }

    /// Creates a rejection with a message, in the usual form.
    pub fn refusal(status: u16, message: &str) -> Self {
        Self::status(status, json!({"error": {"message": message, "type": "refused"}}).to_string())
    }

    /// Creates an error in the form of Anthropic's Messages.
    pub fn messages_error(status: u16, kind: &str, message: &str) -> Self {
        let error = json!({"type": kind, "message": message});
        Self::status(status, json!({"type": "error", "error": error, "request_id": "req_scripted"}).to_string())
            .header("request-id", "req_scripted")
    }

    /// Creates an error in the form of OpenAI's Responses.
    pub fn responses_error(status: u16, code: &str, message: &str) -> Self {
        let error = json!({"message": message, "type": "invalid_request_error", "param": null, "code": code});
        Self::status(status, json!({ "error": error }).to_string()).header("x-request-id", "req_scripted")
    }

    /// Creates a reply with status 429 and a `retry-after` header.
    pub fn rate_limited(seconds: f64) -> Self {
        Self::refusal(429, "slow down").header("retry-after", seconds.to_string())
    }

    /// Creates a reply with a web page instead of a response.
    pub fn html() -> Self {
        Self::status(200, "<!doctype html><html><body>Welcome!</body></html>").header("content-type", "text/html")
    }

    /// Creates a reply with bytes that are not an event stream.
    pub fn garbage() -> Self {
        Self::status(200, "\u{1}PK\u{3}\u{4} this is\nno event stream\n\n").header("content-type", "text/event-stream")
    }

    /// Creates a reply that ends in the middle of an event, although the transfer completes.
    pub fn half_event() -> Self {
        let whole = r#"data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#;
        let half = r#"data: {"choices":[{"index":0,"delta":{"con"#;
        Self::status(200, format!("{whole}\n\n{half}")).header("content-type", "text/event-stream")
    }

    /// Creates a reply that is never sent.
    pub fn never() -> Self {
        Self { never: true, ..Self::default() }
    }

    /// Adds reasoning before the text.
    #[must_use]
    pub fn and_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = reasoning.into();
        self
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.tool_calls.push(ReplyCall { name: name.into(), arguments, ..ReplyCall::default() });
        self
    }

    /// Sends the pieces of calls without indices and IDs.
    #[must_use]
    pub fn without_call_indices(mut self) -> Self {
        self.number_calls = false;
        for call in &mut self.tool_calls {
            call.id = Some(String::new());
        }
        self
    }

    /// Sends all calls with the index 0 and without IDs, like older versions of Ollama and some gateways.
    #[must_use]
    pub fn with_zero_call_indices(mut self) -> Self {
        self = self.without_call_indices();
        (self.number_calls, self.number_zero) = (true, true);
        self
    }

    /// Sets the usage and its position.
    #[must_use]
    pub fn with_usage(mut self, place: UsagePlace, usage: Value) -> Self {
        self.usage_place = place;
        self.usage = Some(usage);
        self
    }

    /// Sets the finish reason. If it is empty, none is sent.
    #[must_use]
    pub fn finish(mut self, reason: &str) -> Self {
        self.finish_reason = Some(reason.to_owned());
        self
    }

    /// Omits the final `[DONE]`.
    #[must_use]
    pub fn without_done(mut self) -> Self {
        self.done = false;
        self
    }

    /// Responds with one JSON object, regardless of the request.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the size of each write. Writes may then split events and characters.
    #[must_use]
    pub fn bytes_per_write(mut self, bytes: usize) -> Self {
        self.bytes_per_write = Some(bytes);
        self
    }

    /// Sets the delay between two writes.
    #[must_use]
    pub fn delay_ms(mut self, delay_ms: u64) -> Self {
        self.delay_ms = delay_ms;
        self
    }

    /// Closes the connection after this many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        self
    }

    /// Stops sending after this many bytes of the body.
    #[must_use]
    pub fn hang_after(mut self, bytes: usize) -> Self {
        self.hang_after = Some(bytes);
        self
    }

    /// Closes the connection after this text, regardless of its form on the wire.
    #[must_use]
    pub fn cut_after_text(mut self, text: &str) -> Self {
        self.cut_after_text = Some(text.to_owned());
        self
    }

    /// Stops sending after this text, regardless of its form on the wire.
    #[must_use]
    pub fn hang_after_text(mut self, text: &str) -> Self {
        self.hang_after_text = Some(text.to_owned());
        self
    }

    /// Waits after this text until the test calls `release_held_reply`, regardless of the form of the text on the wire.
    #[must_use]
    pub fn hold_after_text(mut self, text: &str) -> Self {
        self.hold_after_text = Some(text.to_owned());
        self
    }

    /// Uses the reply for all later requests without a better match.
    #[must_use]
    pub fn repeat(mut self) -> Self {
        self.repeat = true;
        self
    }

    /// Only uses the reply for a request whose body contains this text.
    #[must_use]
    pub fn when(mut self, text: impl Into<String>) -> Self {
        self.r#match = Some(text.into());
        self
    }
}
