//! Requests to models, and their streamed answers.

use std::{str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    answer_schema::AnswerSchema,
    context::ServerRemark,
    exchange::RequestTap,
    files::Picture,
    ids::SessionId,
    origin::{AnswerOrigin, ServerFields, model_origin},
    tool::{ToolCall, ToolSpec},
    usage::Usage,
};

names! {
    /// One of the five slots for which a model can be configured.
    #[derive(Default, PartialOrd, Ord, Hash)]
    pub enum Slot {
        /// Default for all slots that have no model of their own.
        #[default]
        Base = "base",
        /// Tasks of high complexity.
        Reasoning = "reasoning",
        /// Input that contains images.
        Vision = "vision",
        /// Reading and writing program code.
        Code = "code",
        /// The last answer of a turn, and chat.
        Chat = "chat",
    }
}

impl FromStr for Slot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text).ok_or_else(|| {
            let text: String = text.chars().take(80).collect();
            format!("no such model slot: {text:?}; the slots are base, reasoning, vision, code and chat")
        })
    }
}

/// Known properties of a configured model. The server may supply missing properties later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Model ID as used by the model's server.
    pub id: String,
    /// Wire protocol: `openai`, `anthropic`, `llamacpp` or `embedded`.
    pub wire: String,
    /// Base URL of the model's server. `None` for the embedded model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Maximum number of tokens of a request and its answer.
    pub context_window: u64,
    /// Source of the window size.
    #[serde(default)]
    pub window_source: WindowSource,
    /// True if the wire protocol supports tool calls. Otherwise, calls are parsed from the model's text.
    pub native_tools: bool,
    /// True if the model runs in the daemon's process. Users are then shown how to configure a better model.
    pub embedded: bool,
    /// True if the model's earlier reasoning is sent back, which uses space in each request.
    #[serde(default)]
    pub echo_reasoning: bool,
    /// True if the model accepts pictures.
    #[serde(default)]
    pub sees_pictures: bool,
    /// All known properties of the model with their sources, for display.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<ModelFigure>,
}

/// Name of the figure that describes the network route to a model's server.
pub const ROUTE_FIGURE: &str = "route";

/// Property of a model, with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFigure {
    /// Name of the property, such as `window` or `prices`.
    pub name: String,
    /// Value of the property, formatted for display.
    pub value: String,
    /// Source of the value: the configuration, the server, or a dated web page.
    pub source: String,
}

impl ModelInfo {
    /// Returns the name of the model in the origins of its items.
    pub fn origin(&self) -> String {
        model_origin(&self.id, self.base_url.as_deref().unwrap_or(&self.wire))
    }

    /// Returns the default step limit of a turn: 100, or 20 for models whose tool calls are parsed from text.
    pub fn default_max_steps(&self) -> u32 {
        if self.native_tools { 100 } else { 20 }
    }
}

names! {
    /// Source of the size of a model's window.
    #[derive(Default)]
    pub enum WindowSource {
        /// An assumed value, because no source is available.
        #[default]
        Default = "default",
        /// The value in the configuration.
        Configured = "configured",
        /// The catalogue of published model data.
        Catalogue = "catalogue",
        /// Information from the model's server.
        Server = "server",
        /// A refusal by the model's server.
        Refusal = "refusal",
        /// Token counts from the model's server, which silently truncates longer requests.
        Cut = "cut",
    }
}

/// Difference between requests to a model and the default form, made because the model's server rejected the default
/// form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearntForm {
    /// Part of the request that differs.
    pub topic: ChangeTopic,
    /// Description of the change as the continuation of "requests go".
    pub words: String,
}

/// Part of a request that differs from the default form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeTopic {
    /// Tools, calls and their results.
    Tools,
    /// Earlier reasoning of the model.
    Thoughts,
    /// Pictures in the messages.
    Pictures,
    /// Fields outside the conversation.
    Parameters,
}

/// Estimated cost of testing a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTestPlan {
    /// ID of the model, as known before the test.
    pub model: String,
    /// Number of requests that the test sends.
    pub requests: u32,
    /// Approximate number of tokens of all requests.
    pub tokens: u64,
}

/// Result of one check of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCheck {
    /// Name of the check.
    pub name: String,
    /// State of the check.
    pub state: CheckState,
    /// Finding as one sentence.
    pub message: String,
    /// Hint on how to fix the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// State of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// The check passed without remarks.
    #[default]
    Ok,
    /// The checked feature works but could be improved.
    Warn,
    /// The checked feature does not work.
    Fail,
    /// The check does not apply to this model.
    Skipped,
}

/// Model in the list of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedModel {
    /// ID of the model.
    pub id: String,
    /// Window in tokens, if the server's list contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

/// Maximum number of models in one list.
pub const MAX_LISTED_MODELS: usize = 500;

/// Maximum length of a model ID in bytes.
pub const MAX_MODEL_ID: usize = 256;

/// Returns true if `text` is a valid model ID: not blank, not too long, and without control characters, which include
/// line breaks and terminal escapes.
pub fn is_model_id(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_MODEL_ID && !text.chars().any(char::is_control)
}

/// Slot with its model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotInfo {
    /// Name of the slot.
    pub slot: Slot,
    /// Slot whose model is used, because no model is configured for this slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub falls_back_to: Option<Slot>,
    /// Properties of the model.
    pub model: ModelInfo,
}

/// Message of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions for the model.
    System {
        /// Text of the message.
        text: String,
    },
    /// Input of the user, or text that the daemon sends in the role of the user.
    User {
        /// Text of the message.
        text: String,
    },
    /// Like `User`, with pictures that belong to the text. Only sent to models that accept pictures
    /// ([`ModelInfo::sees_pictures`]).
    Pictures {
        /// Text of the message.
        text: String,
        /// Pictures that belong to the text.
        pictures: Vec<ShownPicture>,
    },
    /// Earlier text and calls from the model.
    Assistant {
        /// Text of the message. May be empty if there are calls.
        text: String,
        /// Reasoning, for providers that require it back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        /// Tool calls of the message.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// Origin of the text and the calls.
        #[serde(default, skip_serializing_if = "AnswerOrigin::is_empty")]
        origin: AnswerOrigin,
    },
    /// Result of a tool call.
    Tool {
        /// ID of the call.
        call_id: crate::ids::CallId,
        /// Name of the tool.
        name: String,
        /// Result text as sent to the model.
        text: String,
        /// Pictures that belong to the result. Only sent to models that accept pictures.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<ShownPicture>,
    },
}

impl Message {
    /// Creates an answer without reasoning and origin.
    pub fn answer(text: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        Self::Assistant { text: text.into(), reasoning: None, tool_calls, origin: AnswerOrigin::default() }
    }

    /// Returns the pictures of the message.
    pub fn pictures(&self) -> &[ShownPicture] {
        match self {
            Self::Pictures { pictures, .. } | Self::Tool { pictures, .. } => pictures,
            _ => &[],
        }
    }

    /// Removes the pictures for which `keep` returns false. If any are removed, adds `note` to the text.
    pub fn retain_pictures(&mut self, keep: impl FnMut(&mut ShownPicture) -> bool, note: &str) {
        let (Self::Pictures { text, pictures } | Self::Tool { text, pictures, .. }) = self else { return };
        let count = pictures.len();
        pictures.retain_mut(keep);
        if pictures.len() < count {
            text.push_str(&format!("\n\n{note}"));
        }
        if let Self::Pictures { text, pictures } = self
            && pictures.is_empty()
        {
            *self = Self::User { text: std::mem::take(text) };
        }
    }
}

/// Picture in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPicture {
    /// Description of the picture.
    pub picture: Picture,
    /// Encoded bytes. `None` until the bytes are loaded, or if the file no longer exists. A picture without bytes is
    /// omitted from the request.
    #[serde(skip)]
    pub content: Option<Arc<[u8]>>,
}

/// Request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Session that the request belongs to. A model with a cache of its own uses the session to find the cached prefix.
    pub session_id: SessionId,
    /// The conversation. The first message is the system message. Calls and results are paired by IDs of at most 40
    /// letters, digits, `_` and `-`. Texts are never blank, except that the text of an assistant message with calls may
    /// be empty.
    pub messages: Vec<Message>,
    /// Tools, sorted by name.
    pub tools: Arc<[ToolSpec]>,
    /// True if tools may be called. In the last call of a turn, tools must not be called but are still listed, so that
    /// the request has the same prefix as the previous one.
    pub may_call: bool,
    /// Schema for the answer, if this is the last answer of a turn. The messages already describe the schema. If the
    /// wire protocol has a field for schemas, the schema is also sent in that field, unless the server rejected this
    /// before. The schema does not apply to tool calls.
    pub answer_schema: Option<Arc<AnswerSchema>>,
    /// Maximum number of tokens of the answer, if lower than the model's own limit.
    pub max_tokens: Option<u64>,
    /// True if a fallback model is available, so that the wait for an unresponsive server is shorter.
    pub has_fallback: bool,
    /// Existing paths relative to the workspace, for models with constrained arguments ([`ModelInfo::embedded`]). Empty
    /// for all other models.
    pub known_paths: Vec<String>,
    /// Recorder for the exchange with the server.
    pub tap: RequestTap,
}

impl ModelRequest {
    /// Creates a request without tools, limits or tap.
    pub fn new(session_id: SessionId, messages: Vec<Message>) -> Self {
        Self {
            session_id,
            messages,
            tools: Arc::from([]),
            may_call: false,
            answer_schema: None,
            max_tokens: None,
            has_fallback: false,
            known_paths: Vec::new(),
            tap: RequestTap::default(),
        }
    }
}

/// Chunk of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelChunk {
    /// Text for the user.
    Text(String),
    /// Text of the reasoning.
    Reasoning(String),
    /// Complete tool call with its raw arguments. Only sent after the answer has ended properly, so that a call from an
    /// interrupted stream never runs.
    ToolCall {
        /// Name of the tool as written by the model.
        name: String,
        /// Arguments as written by the model.
        arguments: String,
        /// Additional fields of the server for the call.
        fields: ServerFields,
    },
    /// Additional fields of the server for the whole answer. Sent at most once, before the calls.
    AnswerFields(ServerFields),
    /// Call that does not run. Sent at the same position as [`Self::ToolCall`].
    UnrunCall {
        /// Name of the tool, if known.
        name: String,
        /// Reason why the call does not run.
        why: UnrunReason,
    },
    /// Reclassifies all previous text as reasoning, because the answer contained the end marker of reasoning without a
    /// start marker.
    WasReasoning,
    /// Discards the answer so far, because the stream failed and the request is repeated. Followed by [`Self::Retry`].
    Discarded,
    /// The call is retried. Sent before the first text, reasoning or call, or after [`Self::Discarded`].
    Retry {
        /// Number of the next attempt. The first retry is attempt 2.
        attempt: u32,
        /// Maximum number of attempts, if the retries are counted.
        attempts: Option<u32>,
        /// Delay before the next attempt, in milliseconds.
        delay_ms: u64,
        /// Reason why the previous attempt failed.
        reason: String,
    },
    /// The request was sent without its tools, because the server rejects tools that must not be called
    /// ([`ModelRequest::may_call`]). Sent before the answer.
    WithoutTools,
    /// Notice for the user that the request was only accepted in a modified form.
    Notice {
        /// Code of the warning event.
        code: &'static str,
        /// Text of the notice.
        message: String,
    },
    /// The daemon aborted the answer, because it would not have ended by itself.
    Runaway {
        /// Description of the repetition as the continuation of "it …", such as `repeated "ha" without end`.
        what: String,
    },
    /// Remark of the server on the request.
    Remark(ServerRemark),
    /// Usage of the current attempt, as counted so far. Later counts replace earlier counts.
    Usage(Usage),
    /// Proper end of the answer. No further chunks follow.
    End(Finish),
}

impl ModelChunk {
    /// Creates a call without additional server fields.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::ToolCall { name: name.into(), arguments: arguments.into(), fields: ServerFields::default() }
    }
}

/// Usage of a model call while its chunks are received: the sum of failed attempts and the current attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CallUsage {
    broken: Usage,
    counted: Option<Usage>,
}

impl CallUsage {
    /// Records a chunk. Tokens counted by a server must be paid for, even if their answer is discarded.
    pub fn note(&mut self, chunk: &ModelChunk) {
        match chunk {
            ModelChunk::Usage(usage) => self.counted = Some(*usage),
            ModelChunk::Discarded => self.broken += Usage::of_call(self.counted.take()),
            ModelChunk::Retry { .. } if self.counted.is_some() => self.broken += Usage::of_call(self.counted.take()),
            _ => {}
        }
    }

    /// Returns the usage of the current attempt if the server has counted it.
    pub fn counted(&self) -> Option<Usage> {
        self.counted
    }

    /// Returns the usage of all attempts. `uncounted` is used for the last attempt if the server has not counted it.
    pub fn total(&self, uncounted: Usage) -> Usage {
        let mut total = self.broken;
        total += self.counted.map_or(uncounted, |counted| Usage::of_call(Some(counted)));
        total
    }
}

/// Reason why a call in an answer did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrunReason {
    /// The call was truncated at the token limit.
    Cut,
    /// The call uses a syntax that its server should have parsed but did not. The call was received as text, and this
    /// text is omitted.
    Foreign,
    /// The call is surrounded by text and may therefore be an example. The text is shown unchanged.
    Doubtful,
}

/// Reason why an answer ended properly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model finished its answer or requested tools.
    Stop,
    /// The token limit was reached.
    Length,
    /// The provider withheld the rest of the answer.
    Filtered,
    /// The daemon aborted the answer ([`ModelChunk::Runaway`]).
    Runaway,
}
