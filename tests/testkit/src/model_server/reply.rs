//! What is answered, and how it travels.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// One answer. The functions build the usual ones; the fields can be set, or read from JSON, for all others.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// Words, sent in one delta for each word.
    pub text: String,
    /// Words, sent in exactly these deltas, in place of `text`.
    pub deltas: Vec<String>,
    /// Words of reasoning before them, sent in one delta for each word.
    pub reasoning: String,
    /// The name of the field in which reasoning is sent.
    pub reasoning_field: String,
    /// OpenRouter's `reasoning_details`, one in each delta behind the reasoning.
    pub reasoning_details: Vec<Value>,
    /// Tool calls behind them.
    pub tool_calls: Vec<ReplyCall>,
    /// Set if the pieces of calls are numbered.
    pub number_calls: bool,
    /// Set if all of them have the number 0.
    pub number_zero: bool,
    /// The bytes of arguments in one delta; all in one where absent.
    pub argument_bytes: Option<usize>,
    /// Blocks of Anthropic's Messages in their order, in place of all content above.
    pub blocks: Vec<Value>,
    /// Items of OpenAI's Responses in their order, in place of all content above.
    pub items: Vec<Value>,
    /// Why it ended; `stop` or `tool_calls` where absent, and nothing at all where empty.
    pub finish_reason: Option<String>,
    /// What it took; invented where absent.
    pub usage: Option<Value>,
    /// More fields of the answer as a whole, in the names of its wire: of `message` on Messages, of `response` on Responses.
    pub head: serde_json::Map<String, Value>,
    /// Where that is said.
    pub usage_place: UsagePlace,
    /// llama.cpp's own account, beside it.
    pub timings: Option<Value>,
    /// Set if `[DONE]` ends it.
    pub done: bool,
    /// One JSON object in place of a stream.
    pub whole: bool,
    /// This many deltas as fast as they are taken, see [`super::fast_text`]; nothing else of the content then counts.
    pub fast: Option<u64>,

    /// The data of the events, as they are, in place of all above.
    pub events: Option<Vec<String>>,
    /// The body, as it is, in place of all above.
    pub body: Option<String>,

    /// The status.
    pub status: u16,
    /// Headers.
    pub headers: BTreeMap<String, String>,
    /// Bytes for each write; one event for each write where absent.
    pub bytes_per_write: Option<usize>,
    /// The wait before the head of the answer.
    pub first_delay_ms: u64,
    /// The wait between two writes.
    pub delay_ms: u64,
    /// The connection is closed after this many bytes of the body.
    pub cut_after: Option<usize>,
    /// Nothing more is sent after this many bytes of the body, and the connection stays open.
    pub hang_after: Option<usize>,
    /// The write with these words, in which they come first, is the last one: then as with `cut_after`.
    pub cut_behind: Option<String>,
    /// The write with these words, in which they come first, is the last one: then as with `hang_after`.
    pub hang_behind: Option<String>,
    /// Behind the write with these words, in which they come first, it waits for `go_on` of the server.
    pub hold_behind: Option<String>,
    /// Nothing is sent at all, and the connection stays open.
    pub never: bool,

    /// For scripts: used only for a request whose body has these words, and before replies that do not care.
    pub r#match: Option<String>,
    /// For scripts: used again and again.
    pub repeat: bool,
}

/// A tool call of a reply.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplyCall {
    /// The tool.
    pub name: String,
    /// The arguments; a string is sent as it is, so that it can be broken JSON.
    pub arguments: Value,
    /// The id; invented where absent, and left out where empty.
    pub id: Option<String>,
    /// Gemini's field beside it.
    pub extra_content: Option<Value>,
}

/// Where a reply says what it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePlace {
    /// In an event of its own without choices, behind the last choice, if the request asked for it.
    #[default]
    Tail,
    /// In the event with the finish reason.
    LastChunk,
    /// Inside of the last choice.
    InChoice,
    /// Nowhere.
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
            cut_behind: None,
            hang_behind: None,
            hold_behind: None,
            never: false,
            r#match: None,
            repeat: false,
        }
    }
}

impl Reply {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Words in exactly these deltas.
    pub fn deltas<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        Self { deltas: deltas.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// A tool call. Arguments that are a string are sent as they are.
    pub fn tool_call(name: impl Into<String>, arguments: Value) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// Blocks of Anthropic's Messages, in this order.
    pub fn blocks(blocks: impl IntoIterator<Item = Value>) -> Self {
        Self { blocks: blocks.into_iter().collect(), ..Self::default() }
    }

    /// Items of OpenAI's Responses, in this order.
    pub fn items(items: impl IntoIterator<Item = Value>) -> Self {
        Self { items: items.into_iter().collect(), ..Self::default() }
    }

    /// `count` deltas as fast as they are taken; [`super::fast_text`] says which.
    pub fn fast(count: u64) -> Self {
        Self { fast: Some(count), ..Self::default() }
    }

    /// Events with these data, as they are.
    pub fn events<T: Into<String>>(events: impl IntoIterator<Item = T>) -> Self {
        Self { events: Some(events.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// A status and a body, as they are.
    pub fn status(status: u16, body: impl Into<String>) -> Self {
        Self { status, body: Some(body.into()), ..Self::default() }.header("content-type", "application/json")
    }

    /// A refusal with a message, in the usual form.
    pub fn refusal(status: u16, message: &str) -> Self {
        Self::status(status, json!({"error": {"message": message, "type": "refused"}}).to_string())
    }

    /// An error in the form of Anthropic's Messages.
    pub fn messages_error(status: u16, kind: &str, message: &str) -> Self {
        let error = json!({"type": kind, "message": message});
        Self::status(status, json!({"type": "error", "error": error, "request_id": "req_scripted"}).to_string())
            .header("request-id", "req_scripted")
    }

    /// An error in the form of OpenAI's Responses.
    pub fn responses_error(status: u16, code: &str, message: &str) -> Self {
        let error = json!({"message": message, "type": "invalid_request_error", "param": null, "code": code});
        Self::status(status, json!({ "error": error }).to_string()).header("x-request-id", "req_scripted")
    }

    /// 429 with a wish to wait.
    pub fn rate_limited(seconds: f64) -> Self {
        Self::refusal(429, "slow down").header("retry-after", seconds.to_string())
    }

    /// A web page.
    pub fn html() -> Self {
        Self::status(200, "<!doctype html><html><body>Welcome!</body></html>").header("content-type", "text/html")
    }

    /// Bytes that mean nothing.
    pub fn garbage() -> Self {
        Self::status(200, "\u{1}PK\u{3}\u{4} this is\nno event stream\n\n").header("content-type", "text/event-stream")
    }

    /// An answer that ends in the middle of an event, though the transfer ends well.
    pub fn half_event() -> Self {
        let whole = r#"data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#;
        let half = r#"data: {"choices":[{"index":0,"delta":{"con"#;
        Self::status(200, format!("{whole}\n\n{half}")).header("content-type", "text/event-stream")
    }

    /// Silence.
    pub fn never() -> Self {
        Self { never: true, ..Self::default() }
    }

    /// Adds reasoning before the words.
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

    /// Sends the pieces of calls without numbers and ids.
    #[must_use]
    pub fn without_call_numbers(mut self) -> Self {
        self.number_calls = false;
        for call in &mut self.tool_calls {
            call.id = Some(String::new());
        }
        self
    }

    /// Sends all calls with the number 0 and without ids, as older Ollamas and some gateways do.
    #[must_use]
    pub fn numbers_all_calls_zero(mut self) -> Self {
        self = self.without_call_numbers();
        (self.number_calls, self.number_zero) = (true, true);
        self
    }

    /// Says what it took, and where.
    #[must_use]
    pub fn with_usage(mut self, place: UsagePlace, usage: Value) -> Self {
        self.usage_place = place;
        self.usage = Some(usage);
        self
    }

    /// Ends for this reason; for none at all, if it is empty.
    #[must_use]
    pub fn finish(mut self, reason: &str) -> Self {
        self.finish_reason = Some(reason.to_owned());
        self
    }

    /// Leaves `[DONE]` out.
    #[must_use]
    pub fn without_done(mut self) -> Self {
        self.done = false;
        self
    }

    /// Answers with one JSON object, whatever was asked for.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name.to_owned(), value.into());
        self
    }

    /// Writes so many bytes at once, wherever that cuts events and characters.
    #[must_use]
    pub fn bytes_per_write(mut self, bytes: usize) -> Self {
        self.bytes_per_write = Some(bytes);
        self
    }

    /// Waits between two writes.
    #[must_use]
    pub fn delay_ms(mut self, delay_ms: u64) -> Self {
        self.delay_ms = delay_ms;
        self
    }

    /// Closes the connection after so many bytes of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut_after = Some(bytes);
        self
    }

    /// Falls silent after so many bytes of the body.
    #[must_use]
    pub fn hang_after(mut self, bytes: usize) -> Self {
        self.hang_after = Some(bytes);
        self
    }

    /// Closes the connection behind these words, whatever they look like on the wire.
    #[must_use]
    pub fn cut_behind(mut self, words: &str) -> Self {
        self.cut_behind = Some(words.to_owned());
        self
    }

    /// Falls silent behind these words, whatever they look like on the wire.
    #[must_use]
    pub fn hang_behind(mut self, words: &str) -> Self {
        self.hang_behind = Some(words.to_owned());
        self
    }

    /// Waits behind these words until the test says `go_on`, whatever they look like on the wire.
    #[must_use]
    pub fn hold_behind(mut self, words: &str) -> Self {
        self.hold_behind = Some(words.to_owned());
        self
    }

    /// Is used for every request from now on for which nothing better waits.
    #[must_use]
    pub fn repeat(mut self) -> Self {
        self.repeat = true;
        self
    }

    /// Is used only for a request whose body has these words.
    #[must_use]
    pub fn when(mut self, words: impl Into<String>) -> Self {
        self.r#match = Some(words.into());
        self
    }
}
