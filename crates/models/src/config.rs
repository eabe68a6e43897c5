//! Configuration of one model.

use std::{collections::BTreeMap, sync::Arc};

use agentd_core::{
    model::{ModelRequest, Slot},
    route,
    usage::Prices,
};
use agentd_http::Certificates;
use reqwest::Url;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::key::RenewableKey;

/// Assumed window of a local model whose size is unknown, in tokens.
pub(crate) const LOCAL_WINDOW: u64 = 32_768;

/// Assumed window of a remote model whose size is unknown, in tokens. Providers no longer offer smaller windows.
pub(crate) const REMOTE_WINDOW: u64 = 131_072;

/// Idle timeout of the Responses wire in milliseconds. On this wire, models reason without any output or keep-alive.
const THINKING_TIMEOUT_MS: u64 = 300_000;

/// First-byte timeout in milliseconds, and that of servers on this machine: a slow one starts over if it is asked again.
const FIRST_BYTE_TIMEOUTS_MS: [u64; 2] = [120_000, 600_000];

agentd_core::names! {
    /// Dialect of a server.
    #[derive(Default)]
    pub enum Wire {
        /// Chat completions, which most servers offer.
        #[default]
        #[serde(alias = "openai_compat")]
        OpenAi = "openai",
        /// llama.cpp's own `/completion`, with tools in the text.
        #[serde(alias = "llama.cpp", alias = "completion")]
        LlamaCpp = "llamacpp",
        /// Anthropic's Messages API, `/messages`.
        #[serde(alias = "messages")]
        Anthropic = "anthropic",
        /// OpenAI's Responses API, `/responses`.
        Responses = "responses",
    }
}

/// Reasoning before an answer, if the wire has a field for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// The model decides how much to reason.
    Adaptive,
    /// No reasoning before the answer.
    Off,
}

/// Effort of an answer, if the wire has a field for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// The lowest possible effort.
    Low,
    /// Lower effort than usual.
    Medium,
    /// The default of most models.
    High,
    /// Higher effort than usual.
    Xhigh,
    /// The highest possible effort.
    Max,
}

/// One model of `models.yaml`. [`Self::new`] sets the timeouts, unlike the default.
#[derive(Debug, Clone, Default)]
pub struct ModelConfig {
    /// Dialect of the server.
    pub wire: Wire,
    /// Base URL of the server: for `openai` and `responses` usually including `/v1`, for `llamacpp` the server's root,
    /// for `anthropic` with or without `/v1`.
    pub base_url: String,
    /// API key for the server.
    pub api_key: Option<SecretString>,
    /// Source of the API key, if the key can be read again. It takes precedence over `api_key`.
    pub renewable_key: Option<Arc<RenewableKey>>,
    /// Header with the API key. With `None`, the header that the wire or Azure's classic API prescribes.
    pub api_key_header: Option<String>,
    /// Description of the place where the API key is set, for the hint of a refused key.
    pub key_source: Option<String>,
    /// ID of the model on the server. If empty, the first model that the server lists is used.
    pub id: String,
    /// Temperature, 0 to 2. With `None`, the server's default applies.
    pub temperature: Option<f64>,
    /// Maximum number of tokens in an answer. With `None`, the server's limit applies.
    pub max_tokens: Option<u64>,
    /// Maximum number of tokens in request and answer together. With `None`, the size that the server reports applies.
    pub context_window: Option<u64>,
    /// True if tool calls use the wire's own fields, false if they are written into the text. With `None`, the dialect
    /// decides; `llamacpp` never has fields for them.
    pub native_tools: Option<bool>,
    /// True if earlier reasoning is sent back, which some providers require and others refuse.
    pub echo_reasoning: bool,
    /// True if the model accepts pictures. With `None`, the server's report applies. Ignored for `llamacpp`, which does
    /// not support pictures.
    pub sees_pictures: Option<bool>,
    /// Reasoning mode. With `None`, the mode is adaptive if the server reports support. For `anthropic` and
    /// `responses`.
    pub thinking: Option<Thinking>,
    /// Effort of answers. With `None`, the server's default applies. For `anthropic` and `responses`.
    pub effort: Option<Effort>,
    /// True if the server is asked for the reason for a cache miss. With `None`, only Anthropic's own server is asked.
    /// For `anthropic` and `responses`.
    pub cache_reasons: Option<bool>,
    /// Token prices of the model.
    pub prices: Option<Prices>,
    /// Own authorities and client certificate for the connections to the server.
    pub certificates: Certificates,
    /// Time limit for reading a renewable key, in milliseconds.
    pub key_timeout_ms: u64,
    /// Time limit for connecting, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Time limit for the first byte of an answer, counted from the request, in milliseconds.
    pub first_byte_timeout_ms: u64,
    /// Maximum silence within an answer, in milliseconds. [`Self::new`] sets a longer limit for `responses`.
    pub idle_timeout_ms: u64,
    /// Maximum number of retries before the first token.
    pub retries: u32,
    /// Wait before the first retry, in milliseconds. It doubles with each retry, with jitter.
    pub retry_delay_ms: u64,
    /// Maximum wait before a retry, in milliseconds. If a server asks for a longer wait, the call fails.
    pub max_retry_delay_ms: u64,
    /// Additional headers. Their values are treated as secrets.
    pub headers: BTreeMap<String, SecretString>,
    /// Additional fields of every request's body. They override the fields that agentd sets.
    pub body: Map<String, Value>,
    /// Prompt template for `llamacpp`.
    pub chat_template: ChatTemplate,
    /// Fallback models, in order, used if this model's server does not answer.
    pub fallback: Vec<Fallback>,
}

/// Fallback for another model.
#[derive(Debug, Clone)]
pub enum Fallback {
    /// The model of a slot.
    Slot(Slot),
    /// Model with this ID on the same server.
    Id(String),
    /// Model with its own configuration.
    Model(Box<ModelConfig>),
}

impl ModelConfig {
    /// Creates a configuration from a dialect and a base URL.
    pub fn new(wire: Wire, base_url: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let url = Url::parse(&base_url).ok();
        let is_local = url.is_some_and(|url| url.host_str().is_some_and(route::is_this_machine));
        Self {
            wire,
            base_url,
            key_timeout_ms: 30_000,
            connect_timeout_ms: 10_000,
            first_byte_timeout_ms: FIRST_BYTE_TIMEOUTS_MS[usize::from(is_local)],
            idle_timeout_ms: if wire == Wire::Responses { THINKING_TIMEOUT_MS } else { 60_000 },
            retries: 3,
            retry_delay_ms: 500,
            max_retry_delay_ms: 60_000,
            ..Self::default()
        }
    }

    /// Returns true if tool calls use the wire's own fields.
    pub fn uses_native_tools(&self) -> bool {
        self.wire != Wire::LlamaCpp && self.native_tools.unwrap_or(true)
    }

    /// Returns true if a request must name a model, but none is configured.
    pub(crate) fn needs_id(&self) -> bool {
        self.id.is_empty() && self.wire != Wire::LlamaCpp
    }

    /// Returns the maximum number of tokens in the answer to a request, or `None` for the server's limit.
    pub(crate) fn max_answer_tokens(&self, request: &ModelRequest) -> Option<u64> {
        self.max_tokens.into_iter().chain(request.max_tokens).min()
    }

    /// Returns the configuration of another model on the same server. It shares the connection settings, but neither
    /// limits nor prices.
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

/// Texts around the messages in a prompt. The default is ChatML.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChatTemplate {
    /// Frame of the system message.
    pub system: Frame,
    /// Frame of a user's message.
    pub user: Frame,
    /// Frame of the model's message. Its `before` starts the answer.
    pub assistant: Frame,
    /// Texts that end an answer.
    pub stop: Vec<String>,
}

/// Texts before and after a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Frame {
    /// Text before the message.
    pub before: String,
    /// Text after the message.
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

/// Error in the configuration of a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelConfigError {
    /// The base URL is invalid.
    #[error("invalid base_url {base_url:?}: {reason}; use a URL such as http://127.0.0.1:8080/v1")]
    BaseUrl {
        /// The base URL, truncated, without a password.
        base_url: String,
        /// Reason why the base URL is invalid.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("invalid header {name:?}: {reason}")]
    Header {
        /// Name of the header.
        name: String,
        /// Reason why the header is invalid.
        reason: &'static str,
    },
    /// A file with certificates is invalid. The message names it.
    #[error("{0}")]
    Certificates(String),
    /// The HTTP client could not be created.
    #[error("could not set up the HTTP client")]
    Client(#[source] reqwest::Error),
}
