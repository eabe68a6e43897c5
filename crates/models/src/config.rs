//! What is configured of one model.

use std::collections::BTreeMap;

use agentd_core::{
    model::{ModelRequest, Slot},
    usage::Prices,
};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The window of a model on this machine of which nobody says how large it is, in tokens.
pub(crate) const LOCAL_WINDOW: u64 = 32_768;

/// The same of a model elsewhere: providers offer no smaller ones any more.
pub(crate) const REMOTE_WINDOW: u64 = 131_072;

/// Time limit of silence over Responses, in milliseconds: models think there without a word, and without a sign of life.
const THINKING_TIMEOUT_MS: u64 = 300_000;

/// The dialect in which a server is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Chat completions, as most servers offer them.
    #[default]
    #[serde(alias = "openai_compat")]
    OpenAi,
    /// llama.cpp's own `/completion`, with tools in the text.
    #[serde(alias = "llama.cpp", alias = "completion")]
    LlamaCpp,
    /// Anthropic's Messages.
    #[serde(alias = "messages")]
    Anthropic,
    /// OpenAI's Responses.
    Responses,
}

impl Wire {
    /// The dialect's name in configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::LlamaCpp => "llamacpp",
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
        }
    }
}

/// Thinking before an answer, where the wire has a field for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// As much as the model finds fit.
    Adaptive,
    /// None.
    Off,
}

/// Effort that a model puts into its answer, where the wire has a field for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// The least.
    Low,
    /// Less than usual.
    Medium,
    /// The usual one of most models.
    High,
    /// More than usual.
    Xhigh,
    /// The most.
    Max,
}

/// One model of `models.yaml`. [`Self::new`] sets the time limits, which the default has not.
#[derive(Debug, Clone, Default)]
pub struct ModelConfig {
    /// The dialect.
    pub wire: Wire,
    /// Where the server is: for `openai` and `responses` usually up to and with `/v1`, for `llamacpp` the server's root, for `anthropic` with
    /// or without `/v1`.
    pub base_url: String,
    /// The key.
    pub api_key: Option<SecretString>,
    /// The model's id at the server. Where it is empty, the first model that the server lists is used.
    pub id: String,
    /// Randomness, 0 to 2; the server's own where absent.
    pub temperature: Option<f64>,
    /// The tokens that an answer may have; the server's own limit where absent.
    pub max_tokens: Option<u64>,
    /// The tokens that request and answer may have together; where absent, as many as the server tells.
    pub context_window: Option<u64>,
    /// Set if tool calls travel in the wire's own fields. Where not, they are written into and read from the text. The
    /// default is what the dialect can do; `llamacpp` never can.
    pub native_tools: Option<bool>,
    /// Set if earlier reasoning is sent back: some providers demand it, others refuse it.
    pub echo_reasoning: bool,
    /// Set if it can be shown pictures, or cannot; where absent, as its server tells. `llamacpp` never is.
    pub sees_pictures: Option<bool>,
    /// Thinking; where absent, adaptive if the server tells that the model can. For `anthropic` and
    /// `responses`.
    pub thinking: Option<Thinking>,
    /// Effort; the server's own where absent. For `anthropic` and `responses`.
    pub effort: Option<Effort>,
    /// Set if the server is asked why it did not find the last request in its cache; where absent, only Anthropic's own is. For
    /// `anthropic` and `responses`.
    pub cache_reasons: Option<bool>,
    /// Prices of tokens.
    pub prices: Option<Prices>,
    /// Time limit of a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Time limit of the first byte of an answer, counted from the request, in milliseconds.
    pub first_byte_timeout_ms: u64,
    /// Time limit of silence within an answer, in milliseconds. [`Self::new`] sets a longer one for `responses`.
    pub idle_timeout_ms: u64,
    /// Maximum number of retries before the first token.
    pub retries: u32,
    /// The wait before the first retry, in milliseconds; it doubles each time and varies by chance.
    pub retry_delay_ms: u64,
    /// The longest wait before a retry, in milliseconds. A server that asks for a longer one ends the call.
    pub max_retry_delay_ms: u64,
    /// Headers to send besides the usual ones. Their values are kept as secrets.
    pub headers: BTreeMap<String, SecretString>,
    /// Fields to add to every request's body; they win over ours.
    pub body: Map<String, Value>,
    /// Template that `llamacpp` writes a conversation into.
    pub chat_template: ChatTemplate,
    /// Models that answer in place of this one where its server does not, in their order.
    pub fallback: Vec<Fallback>,
}

/// A model that is named to answer in place of another one.
#[derive(Debug, Clone)]
pub enum Fallback {
    /// The one of a slot.
    Slot(Slot),
    /// The one of that id, on the server of the model that it stands in for.
    Id(String),
    /// One of its own.
    Model(Box<ModelConfig>),
}

impl ModelConfig {
    /// A model of which only the address and the dialect are known.
    pub fn new(wire: Wire, base_url: impl Into<String>) -> Self {
        Self {
            wire,
            base_url: base_url.into(),
            connect_timeout_ms: 10_000,
            first_byte_timeout_ms: 120_000,
            idle_timeout_ms: if wire == Wire::Responses { THINKING_TIMEOUT_MS } else { 60_000 },
            retries: 3,
            retry_delay_ms: 500,
            max_retry_delay_ms: 60_000,
            ..Self::default()
        }
    }

    /// Returns whether tool calls travel in the wire's own fields.
    pub fn uses_native_tools(&self) -> bool {
        self.wire != Wire::LlamaCpp && self.native_tools.unwrap_or(true)
    }

    /// Returns whether a request must name a model that is not configured.
    pub(crate) fn needs_id(&self) -> bool {
        self.id.is_empty() && self.wire != Wire::LlamaCpp
    }

    /// Maximum number of tokens of the answer to a request; none for the server's own limit.
    pub(crate) fn most_tokens(&self, request: &ModelRequest) -> Option<u64> {
        self.max_tokens.into_iter().chain(request.max_tokens).min()
    }

    /// Another model on the same server. It shares the way in which the server is reached, but neither the limits nor the
    /// prices of this one.
    pub(crate) fn with_id(&self, id: &str) -> Self {
        Self {
            id: id.to_owned(),
            temperature: None,
            max_tokens: None,
            context_window: None,
            thinking: None,
            effort: None,
            prices: None,
            body: Map::new(),
            ..self.clone()
        }
    }
}

/// The words around each message of a prompt. The default is ChatML.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChatTemplate {
    /// Around the system message.
    pub system: Frame,
    /// Around a message of the person.
    pub user: Frame,
    /// Around the model's words; its `before` opens the answer.
    pub assistant: Frame,
    /// Texts that end an answer.
    pub stop: Vec<String>,
}

/// The words before and after a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Frame {
    /// Before it.
    pub before: String,
    /// After it.
    pub after: String,
}

impl Default for ChatTemplate {
    fn default() -> Self {
        let frame = |role: &str| Frame { before: format!("<|im_start|>{role}\n"), after: "<|im_end|>\n".to_owned() };
        Self {
            system: frame("system"),
            user: frame("user"),
            assistant: frame("assistant"),
            stop: vec!["<|im_end|>".to_owned(), "<|im_start|>".to_owned()],
        }
    }
}

/// A configured model that cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum ModelConfigError {
    /// The address is none.
    #[error("the base_url {base_url:?} cannot be used: {reason}; write it like http://127.0.0.1:8080/v1")]
    BaseUrl {
        /// The address, shortened, without a password.
        base_url: String,
        /// The problem.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("the header {name:?} cannot be sent: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// The problem.
        reason: &'static str,
    },
    /// The HTTP client could not be made.
    #[error("could not set up the HTTP client")]
    Client(#[source] reqwest::Error),
}
