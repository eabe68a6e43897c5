//! The requests of a test and the answers with their latency. All requests but one are short, and none contains
//! personal data.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_context::tokens;
use agentd_core::{
    error::{ErrorKind, ModelError},
    files::Picture,
    ids::{CallId, SessionId},
    model::{CallUsage, Message, ModelChunk, ModelRequest, ShownPicture},
    ports::Model,
    tool::{Effect, ToolCall, ToolSpec},
    usage::Usage,
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

/// Word at the beginning of the long question.
pub(super) const CODE_WORD: &str = "heron-4127";

/// Maximum number of tokens in each answer. A reasoning model uses some of them before its text.
const ANSWER_TOKENS: u64 = 1_024;

/// Approximate number of tokens in the long question, above the default window of servers whose window is configurable.
const LONG_TOKENS: u64 = 7_000;

/// Tool that the model is asked to call, and its argument.
const TOOL: &str = "note_word";
const WORD: &str = "heron";

/// Side length of the test picture, in pixels.
const SIDE: u32 = 32;

/// PNG of a red square, 32 by 32 pixels.
#[rustfmt::skip]
const RED_SQUARE: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x20,
    0x00, 0x00, 0x00, 0x20, 0x08, 0x02, 0x00, 0x00, 0x00, 0xfc, 0x18, 0xed, 0xa3, 0x00, 0x00, 0x00, 0x2a, 0x49, 0x44, 0x41,
    0x54, 0x78, 0xda, 0x63, 0xb8, 0x23, 0x22, 0x42, 0x53, 0xc4, 0x30, 0x6a, 0xc1, 0xa8, 0x05, 0xa3, 0x16, 0x8c, 0x5a, 0x30,
    0x6a, 0xc1, 0xa8, 0x05, 0xa3, 0x16, 0x8c, 0x5a, 0x30, 0x6a, 0xc1, 0xa8, 0x05, 0xa3, 0x16, 0x0c, 0x15, 0x0b, 0x00, 0x9d,
    0xcb, 0x10, 0x3d, 0x7d, 0xfc, 0xb9, 0x8a, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// Colour of the picture, which is expected in the answer.
pub(super) const COLOUR: &str = "red";

const FILLER: [&str; 12] = [
    "river", "stone", "letter", "window", "garden", "paper", "silver", "market", "bridge", "winter", "engine", "island",
];

fn request(session_id: SessionId, messages: Vec<Message>, tools: Vec<ToolSpec>) -> ModelRequest {
    let system = Message::System { text: "This is a test. Be brief. Do exactly what is asked.".to_owned() };
    ModelRequest {
        tools: Arc::from(tools),
        may_call: true,
        max_tokens: Some(ANSWER_TOKENS),
        ..ModelRequest::new(session_id, [vec![system], messages].concat())
    }
}

fn user_message(text: impl Into<String>) -> Message {
    Message::User { text: text.into() }
}

fn tool() -> ToolSpec {
    ToolSpec {
        name: TOOL.to_owned(),
        description: "Notes a word.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"word": {"type": "string", "description": "The word to note."}},
            "required": ["word"],
        }),
        effect: Effect::Read,
    }
}

/// Returns true if the call names the right tool and has a valid argument.
pub(super) fn is_call((name, arguments): &(String, String)) -> bool {
    let arguments = serde_json::from_str::<Value>(arguments).unwrap_or_default();
    name == TOOL && arguments.get("word").is_some_and(Value::is_string)
}

/// Builds a request for a short text.
pub(super) fn greeting(session: SessionId) -> ModelRequest {
    request(session, vec![user_message("Reply with the word OK and nothing else.")], Vec::new())
}

pub(super) fn one_call(session: SessionId) -> ModelRequest {
    request(session, vec![user_message(format!("Call the tool {TOOL} with the word {WORD}."))], vec![tool()])
}

/// Builds a request for two tool calls in one answer.
pub(super) fn two_calls(session: SessionId) -> ModelRequest {
    let text = format!("Call the tool {TOOL} twice in parallel: with the word {WORD} and with the word plover.");
    request(session, vec![user_message(text)], vec![tool()])
}

/// Builds the last request of a turn in which the model reasoned and made a call.
pub(super) fn answered_call(session: SessionId) -> ModelRequest {
    let call =
        ToolCall { call_id: CallId::generate(), name: TOOL.to_owned(), arguments: json!({ "word": WORD }).to_string() };
    let call_id = call.call_id.clone();
    let called = Message::Assistant {
        text: String::new(),
        reasoning: Some("I should call the tool.".to_owned()),
        tool_calls: vec![call],
        origin: Default::default(),
    };
    let result = Message::Tool { call_id, name: TOOL.to_owned(), text: "noted".to_owned(), pictures: Vec::new() };
    let ask = user_message(format!("Call the tool {TOOL} with the word {WORD}, then say OK."));
    request(session, vec![ask, called, result], vec![tool()])
}

/// Builds a request with a picture and a question about it.
pub(super) fn picture(session: SessionId) -> ModelRequest {
    let picture = Picture {
        path: "uploads/square.png".to_owned(),
        media_type: "image/png".to_owned(),
        width: SIDE,
        height: SIDE,
        bytes: RED_SQUARE.len() as u64,
    };
    let shown = ShownPicture { picture, content: Some(RED_SQUARE.into()) };
    let text = "What colour is this picture? Reply with the name of the colour and nothing else.".to_owned();
    request(session, vec![Message::Pictures { text, pictures: vec![shown] }], Vec::new())
}

/// A long request that can only be answered if its beginning is read.
#[derive(Debug)]
pub(super) struct LongQuestion {
    text: String,
}

impl LongQuestion {
    /// Creates a question with the usual length, or three quarters of a small window.
    pub(super) fn for_window(window: u64) -> Self {
        let tokens = LONG_TOKENS.min(window / 4 * 3);
        let mut text = format!("The code word is {CODE_WORD}. Remember it. Ignore the following lines.\n");
        let mut line = 0usize;
        while tokens::estimate(&text) < tokens.saturating_sub(40) {
            // All lines differ, so that the model cannot skip any of them.
            let word = |step: usize| FILLER[(line * step + step) % FILLER.len()];
            text.push_str(&format!("{line}: {} {} {} {} {}\n", word(1), word(5), word(7), word(3), word(11)));
            line += 1;
        }
        text.push_str("What was the code word at the beginning? Reply with it and nothing else.");
        Self { text }
    }

    pub(super) fn tokens(&self) -> u64 {
        tokens::estimate(&self.text)
    }

    pub(super) fn request(&self, session: SessionId) -> ModelRequest {
        request(session, vec![user_message(self.text.clone())], Vec::new())
    }
}

/// Maximum stored text of an answer, in bytes.
const MAX_TEXT: usize = 4_000;

/// Maximum number of stored calls of an answer.
const MAX_CALLS: usize = 8;

/// Maximum length of an excerpt in characters.
const MAX_EXCERPT: usize = 120;

#[derive(Debug, Default)]
pub(super) struct ReceivedAnswer {
    pub(super) text: String,
    /// Calls as pairs of tool and arguments.
    pub(super) calls: Vec<(String, String)>,
    pub(super) usage: CallUsage,
    /// Time until the first output.
    pub(super) latency: Duration,
}

impl ReceivedAnswer {
    /// Returns the beginning of the text, on one line.
    pub(super) fn excerpt(&self) -> String {
        let text: String = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        match text.chars().count() {
            0 => "empty answer".to_owned(),
            count if count > MAX_EXCERPT => format!("{:?}…", text.chars().take(MAX_EXCERPT).collect::<String>()),
            _ => format!("{text:?}"),
        }
    }
}

/// Sends a request and reads the complete answer. Also returns the token usage.
pub(super) async fn complete_answer(
    model: &dyn Model,
    request: ModelRequest,
    limit: Duration,
) -> (Result<ReceivedAnswer, ModelError>, Usage) {
    let sent_at = Instant::now();
    let mut answer = ReceivedAnswer::default();
    let mut chunks = model.stream(request);
    let receiving = async {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            answer.usage.note(&chunk);
            let is_output = match chunk {
                ModelChunk::Text(text) => {
                    let capacity = MAX_TEXT.saturating_sub(answer.text.len());
                    answer.text.push_str(&text[..text.floor_char_boundary(capacity)]);
                    true
                }
                ModelChunk::ToolCall { name, arguments, .. } if answer.calls.len() < MAX_CALLS => {
                    answer.calls.push((name, arguments));
                    true
                }
                ModelChunk::Reasoning(_) => true,
                // Waits and retries before the answer are not part of the latency.
                ModelChunk::Retry { .. } => false,
                ModelChunk::WasReasoning => {
                    answer.text.clear();
                    true
                }
                // The answer was interrupted and has been requested again.
                ModelChunk::Discarded => {
                    answer = ReceivedAnswer { usage: answer.usage, ..ReceivedAnswer::default() };
                    false
                }
                _ => false,
            };
            if is_output && answer.latency.is_zero() {
                answer.latency = sent_at.elapsed();
            }
        }
        Ok::<_, ModelError>(())
    };
    let end = timeout(limit, receiving).await;
    drop(chunks);
    // A refused request is free, but an interrupted answer is not, even if its usage is unknown.
    let has_answered = matches!(end, Ok(Ok(())) | Err(_)) || !answer.latency.is_zero();
    let usage = answer.usage.total(if has_answered { Usage::of_call(None) } else { Usage::of_failed_call() });
    let answer = match end {
        Ok(Ok(())) => Ok(answer),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            let message = format!("no answer within {} seconds", limit.as_secs());
            Err(ModelError::new(ErrorKind::Timeout, message).with_hint("is the server busy, or the model very slow?"))
        }
    };
    (answer, usage)
}
