//! What a model is asked and what it streams back.

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
    /// One of the five places where a model can be configured.
    #[derive(Default, PartialOrd, Ord, Hash)]
    pub enum Slot {
        /// The model for everything that has no slot of its own.
        #[default]
        Base = "base",
        /// Complex tasks.
        Reasoning = "reasoning",
        /// Images.
        Vision = "vision",
        /// Code.
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
            format!("there is no model slot {text:?}; the slots are base, reasoning, vision, code and chat")
        })
    }
}

/// Properties of a configured model, as far as they are known: what nobody configured its server may tell later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The model's id, as its server knows it.
    pub id: String,
    /// Its wire: `openai`, `anthropic`, `llamacpp` or `embedded`.
    pub wire: String,
    /// Where it is; nothing for the embedded model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The tokens that request and answer may have together.
    pub context_window: u64,
    /// Origin of that number.
    #[serde(default)]
    pub window_source: WindowSource,
    /// Set if the wire carries tool calls. Where not, calls are written into and read from the text.
    pub native_tools: bool,
    /// Set if it runs in the daemon's own process, so that people are told how to name a better one.
    pub embedded: bool,
    /// Set if its earlier reasoning is sent back to it, and so takes room in each request.
    #[serde(default)]
    pub echo_reasoning: bool,
    /// Set if it can be shown pictures.
    #[serde(default)]
    pub sees_pictures: bool,
    /// All that is known of it, and from where, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<ModelFigure>,
}

/// Name of the figure that says by which route a model's server is reached.
pub const ROUTE: &str = "route";

/// A figure of a model, with its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFigure {
    /// Its name, such as `window` or `prices`.
    pub name: String,
    /// Its value, in words.
    pub value: String,
    /// Its source: the configuration, the server, a page on a day.
    pub source: String,
}

impl ModelInfo {
    /// Name of this model in an origin.
    pub fn origin(&self) -> String {
        model_origin(&self.id, self.base_url.as_deref().unwrap_or(&self.wire))
    }

    /// The steps that a turn may take where nobody said: 100, or 20 for models whose tool calls are read from text.
    pub fn default_max_steps(&self) -> u32 {
        if self.native_tools { 100 } else { 20 }
    }
}

names! {
    /// Origin of the size of a model's window.
    #[derive(Default)]
    pub enum WindowSource {
        /// Nobody said: it is assumed.
        #[default]
        Default = "default",
        /// The configuration.
        Configured = "configured",
        /// The catalogue of what is published of models.
        Catalogue = "catalogue",
        /// The model's server.
        Server = "server",
        /// A refusal of the model's server.
        Refusal = "refusal",
        /// Counts of the model's server, which cuts longer requests without a word.
        Cut = "cut",
    }
}

/// A way in which requests to a model differ from the usual one, because its server refused that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearntForm {
    /// Part of requests that it is about.
    pub topic: ChangeTopic,
    /// The change in words, behind "requests go".
    pub words: String,
}

/// Part of requests that a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeTopic {
    /// Tools and calls.
    Tools,
    /// Earlier thoughts.
    Thoughts,
    /// Pictures.
    Pictures,
    /// Fields beside the conversation.
    Parameters,
}

/// Outline of a test of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTestPlan {
    /// The model's id, as far as it is known.
    pub model: String,
    /// Requests that are made.
    pub requests: u32,
    /// Tokens that they have together, about.
    pub tokens: u64,
}

/// Result of one check of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCheck {
    /// Its name.
    pub name: String,
    /// State.
    pub state: CheckState,
    /// The finding, in a sentence.
    pub message: String,
    /// Hint on what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// State of what was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Good.
    #[default]
    Ok,
    /// It works, and could be better.
    Warn,
    /// It does not work.
    Fail,
    /// The check says nothing of this model.
    Skipped,
}

/// A model that a server lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedModel {
    /// Its id.
    pub id: String,
    /// Its window, where the list tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

/// Models of one list at the most.
pub const MAX_LISTED_MODELS: usize = 500;

/// The longest id of a model, in bytes.
pub const MAX_MODEL_ID: usize = 256;

/// Returns whether a text can be the id of a model: not empty, not too long, in one line, with nothing in it that steers a
/// terminal.
pub fn is_model_id(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_MODEL_ID && !text.chars().any(char::is_control)
}

/// A slot and what stands in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotInfo {
    /// The slot.
    pub slot: Slot,
    /// The slot whose model serves it, if it is empty itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub falls_back_to: Option<Slot>,
    /// The model.
    pub model: ModelInfo,
}

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions.
    System {
        /// The words.
        text: String,
    },
    /// The person, or the daemon speaking for it.
    User {
        /// The words.
        text: String,
    },
    /// The same, with pictures that belong to the words. Only models that see are sent one
    /// ([`ModelInfo::sees_pictures`]).
    Pictures {
        /// The words.
        text: String,
        /// The pictures.
        pictures: Vec<ShownPicture>,
    },
    /// The model's own earlier words and calls.
    Assistant {
        /// The words; may be empty beside calls.
        text: String,
        /// Its reasoning, for the providers that want it back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        /// Its calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        /// Origin of them.
        #[serde(default, skip_serializing_if = "AnswerOrigin::is_empty")]
        origin: AnswerOrigin,
    },
    /// Result of one call.
    Tool {
        /// The call.
        call_id: crate::ids::CallId,
        /// The tool's name.
        name: String,
        /// The result, as the model shall read it.
        text: String,
    },
}

impl Message {
    /// An answer without thoughts, whose origin is not known.
    pub fn answer(text: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        Self::Assistant { text: text.into(), reasoning: None, tool_calls, origin: AnswerOrigin::default() }
    }
}

/// A picture in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPicture {
    /// Which it is.
    pub picture: Picture,
    /// Its bytes; none while they are still to be read, and where they are gone. It is left out of a request then.
    #[serde(skip)]
    pub content: Option<Arc<[u8]>>,
}

/// One request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The session, so that a model with a cache of its own can find the prefix again.
    pub session_id: SessionId,
    /// The conversation. The first message is the system message; calls and results are paired, by ids of at most 40
    /// letters, digits, `_` and `-`; no text is blank, but for an assistant's beside calls, which is empty then.
    pub messages: Vec<Message>,
    /// The tools, sorted by name.
    pub tools: Arc<[ToolSpec]>,
    /// Set if they may be called. In the last call of a turn they may not: they are named there so that the request
    /// begins as the one before it did.
    pub may_call: bool,
    /// The form that the answer has to be in, where it is the last of a turn. Its words are told to the model already: a wire
    /// that has a field for it sends it there, too, unless its server refused that. Calls are in no such form.
    pub answer_schema: Option<Arc<AnswerSchema>>,
    /// Maximum number of tokens of the answer, where that is fewer than the model's own limit.
    pub max_tokens: Option<u64>,
    /// Set if another model answers in its place where its server does not: then it is not waited for as long.
    pub has_fallback: bool,
    /// Paths that exist in the workspace, relative to it, for models whose arguments are constrained
    /// ([`ModelInfo::embedded`]); empty for all others.
    pub known_paths: Vec<String>,
    /// Keeps what goes over the wire for it.
    pub tap: RequestTap,
}

impl ModelRequest {
    /// A request without tools, limits and a tap.
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

/// One piece of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelChunk {
    /// Words for the person.
    Text(String),
    /// Words of reasoning.
    Reasoning(String),
    /// A whole tool call with its raw arguments. Sent only when the answer has come to its proper end, so
    /// that a call out of a cut stream never runs.
    ToolCall {
        /// The tool's name, as the model wrote it.
        name: String,
        /// The arguments, as the model wrote them.
        arguments: String,
        /// Fields beside them.
        fields: ServerFields,
    },
    /// The server's own fields of the answer as a whole; at most once, before the calls.
    AnswerFields(ServerFields),
    /// A call that did not run. Sent where [`Self::ToolCall`] is.
    UnrunCall {
        /// The tool's name, as far as it is known.
        name: String,
        /// Why it did not run.
        why: UnrunReason,
    },
    /// The words so far are reasoning: the answer held its end, without its beginning.
    WasReasoning,
    /// The answer so far counts for nothing: it broke off, and is asked for again. Behind it comes [`Self::Retry`].
    Discarded,
    /// The call is tried again. Before the first text, reasoning or call, or behind [`Self::Discarded`].
    Retry {
        /// Which try comes next, from 2.
        attempt: u32,
        /// Delay before it, in milliseconds.
        delay_ms: u64,
        /// Why the last one failed.
        reason: String,
    },
    /// The request went without the tools that it names and that may not be called ([`ModelRequest::may_call`]): its
    /// server does not take them. Comes before the answer.
    WithoutTools,
    /// Something that a person has to know: the request was taken in another form than was meant.
    Notice {
        /// Its name in the event of the warning, a word.
        code: &'static str,
        /// The words.
        message: String,
    },
    /// The answer was cut by us, because it would have gone on without end.
    Runaway {
        /// The repetition, after "it": such as `repeated "ha" without end`.
        what: String,
    },
    /// Remark of the server on the request.
    Remark(ServerRemark),
    /// Usage of the current attempt, as far as its server has counted; a later one takes the place of an earlier one.
    Usage(Usage),
    /// The proper end. Nothing follows.
    End(Finish),
}

impl ModelChunk {
    /// A call of which nothing else is known.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::ToolCall { name: name.into(), arguments: arguments.into(), fields: ServerFields::default() }
    }
}

/// Usage of a model call while its chunks come: of attempts that broke off, and of the current one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CallUsage {
    broken: Usage,
    counted: Option<Usage>,
}

impl CallUsage {
    /// Takes note of a chunk. Tokens that a server counted are paid for, whatever became of their answer.
    pub fn note(&mut self, chunk: &ModelChunk) {
        match chunk {
            ModelChunk::Usage(usage) => self.counted = Some(*usage),
            ModelChunk::Discarded => self.broken += Usage::of_call(self.counted.take()),
            ModelChunk::Retry { .. } if self.counted.is_some() => self.broken += Usage::of_call(self.counted.take()),
            _ => {}
        }
    }

    /// Usage of the current attempt, where its server has counted any.
    pub fn counted(&self) -> Option<Usage> {
        self.counted
    }

    /// Usage of all attempts. Where nothing was counted of the last one, it is `uncounted`.
    pub fn total(&self, uncounted: Usage) -> Usage {
        let mut total = self.broken;
        total += self.counted.map_or(uncounted, |counted| Usage::of_call(Some(counted)));
        total
    }
}

/// Why a call in an answer did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrunReason {
    /// The token limit cut it.
    Cut,
    /// It is in a spelling that its server should have read and did not: it came as words, which are left out.
    Foreign,
    /// It stands among words that may make it an example. The words are told as they are.
    Doubtful,
}

/// Why an answer ended properly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model was done, or asked for tools.
    Stop,
    /// The token limit was reached.
    Length,
    /// The provider withheld the rest.
    Filtered,
    /// We cut it ([`ModelChunk::Runaway`]).
    Runaway,
}
