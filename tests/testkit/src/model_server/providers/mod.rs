//! Providers whose servers demand what others do not: each answers in its own form, and refuses what the real one refuses,
//! in its words.
//!
//! `server.acts_as(Provider::Gemini)` makes a [`super::ModelServer`] one of them. Scripted replies are then dressed as the
//! provider's (ids, signatures, thoughts), and a request is refused before the script is looked at: by the usual rules of
//! [`crate::validator`], as far as they are the provider's, then by its own. What it refused is in
//! [`super::ModelServer::refusals`].
//!
//! - `answers`: a reply in the provider's form, and what was handed out with it; `rules`: what is refused, and how.
//! - [`trouble`]: refusals that come and go, as replies for scripts.

mod answers;
mod rules;
pub mod trouble;

use serde_json::Value;

use self::answers::HandedOut;
use super::Reply;
use crate::validator::Leeway;

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Mistral's API, and vLLM with Mistral's tokenizer: ids of nine letters and digits, no field that it does not know.
    Mistral,
    /// Gemini's endpoint for OpenAI clients: the signature of a step's first call comes back, as long as the turn lasts.
    Gemini,
    /// DeepSeek while it thinks: the thoughts of a turn's calls come back.
    DeepSeek,
    /// Kimi while it thinks: every message with calls has the field of thoughts, and ids come back as they were.
    Kimi,
    /// Groq: no field that it does not know, thoughts among them.
    Groq,
    /// OpenRouter in front of Claude: signed thoughts come back whole.
    OpenRouter,
    /// OpenRouter with a model without tools.
    OpenRouterWithoutTools,
    /// Ollama: all calls have the number 0, and no ids.
    Ollama,
    /// Ollama with a model without tools.
    OllamaWithoutTools,
    /// vLLM without a parser of calls.
    VllmWithoutParser,
    /// llama.cpp's server without templates.
    LlamaCppWithoutJinja,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Mistral,
        Self::Gemini,
        Self::DeepSeek,
        Self::Kimi,
        Self::Groq,
        Self::OpenRouter,
        Self::OpenRouterWithoutTools,
        Self::Ollama,
        Self::OllamaWithoutTools,
        Self::VllmWithoutParser,
        Self::LlamaCppWithoutJinja,
    ];

    /// Returns whether it takes tools.
    #[must_use]
    pub fn takes_tools(self) -> bool {
        !matches!(
            self,
            Self::OpenRouterWithoutTools
                | Self::OllamaWithoutTools
                | Self::VllmWithoutParser
                | Self::LlamaCppWithoutJinja
        )
    }

    /// Returns whether it takes a conversation with tools only where thoughts are sent back (`echo_reasoning`).
    #[must_use]
    pub fn wants_thoughts(self) -> bool {
        matches!(self, Self::DeepSeek | Self::Kimi)
    }

    /// The usual rules that it does not have.
    pub(super) fn leeway(self) -> Leeway {
        Leeway {
            any_ids: matches!(self, Self::Kimi | Self::Gemini),
            extra_content: self == Self::Gemini,
            reasoning_details: self == Self::OpenRouter,
        }
    }
}

/// A server of such a kind, with what it remembers.
#[derive(Debug)]
pub(super) struct StrictServer {
    pub(super) provider: Provider,
    handed_out: HandedOut,
}

impl StrictServer {
    pub(super) fn new(provider: Provider) -> Self {
        Self { provider, handed_out: HandedOut::default() }
    }

    /// The refusal of a request that breaks one of its rules.
    pub(super) fn refuses(&self, body: &Value) -> Option<Reply> {
        rules::refusal(self.provider, body, &self.handed_out)
    }

    /// A scripted reply in its form.
    pub(super) fn dressed(&mut self, reply: Reply) -> Reply {
        self.handed_out.dress(self.provider, reply)
    }
}
