//! Providers with additional requirements. Each provider replies in its own form, and rejects the same requests as the
//! real provider, with the same error messages.
//!
//! `server.acts_as(Provider::Gemini)` makes a [`super::ModelServer`] behave like Gemini. Scripted replies are converted
//! to the provider's form (IDs, signatures, reasoning). Requests are checked before the script is consulted: first
//! against the rules of [`crate::validator`] that the provider enforces, then against the provider's own rules.
//! Rejections are listed by [`super::ModelServer::refusals`].
//!
//! - `signing`: Anthropic's Messages, whose thinking is bound to everything before it; `encrypting`: OpenAI's
//!   Responses, whose reasoning is bound to the item that followed it.
//! - `answers`: replies in the provider's form, and a record of these replies; `rules`: rejections.

mod answers;
mod encrypting;
mod rules;
mod signing;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use self::{answers::IssuedCalls, encrypting::EncryptedThoughts};
use super::Reply;
use crate::validator::{self, Leeway};

/// A kind of model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Mistral's API, and vLLM with Mistral's tokenizer: IDs have nine letters and digits, unknown fields are rejected.
    Mistral,
    /// Gemini's endpoint for OpenAI clients: the signature of a step's first call must be sent back during the turn.
    Gemini,
    /// DeepSeek with reasoning: the reasoning for the calls of a turn must be sent back.
    DeepSeek,
    /// Kimi with reasoning: every message with calls needs the reasoning field, and IDs must be unchanged.
    Kimi,
    /// Groq: rejects unknown fields, including reasoning.
    Groq,
    /// OpenRouter with Claude: signed reasoning must be sent back completely.
    OpenRouter,
    /// OpenRouter with a model that does not support tools.
    OpenRouterWithoutTools,
    /// Ollama: all calls have the index 0 and no ID.
    Ollama,
    /// Ollama with a model that does not support tools.
    OllamaWithoutTools,
    /// vLLM without a tool call parser.
    VllmWithoutParser,
    /// llama.cpp's server without templates.
    LlamaCppWithoutJinja,
    /// Anthropic's Messages: signed thinking must be sent back unchanged after the same messages, or not at all.
    Anthropic,
    /// OpenAI's Responses: encrypted reasoning must be sent back byte for byte before the item that followed it, or not
    /// at all.
    OpenAi,
}

impl Provider {
    /// All providers, for tests.
    pub const ALL: [Self; 13] = [
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
        Self::Anthropic,
        Self::OpenAi,
    ];

    /// Returns true if the provider supports tools.
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

    /// Returns true if the provider only accepts a conversation with tools if reasoning is sent back
    /// (`echo_reasoning`).
    #[must_use]
    pub fn wants_thoughts(self) -> bool {
        matches!(self, Self::DeepSeek | Self::Kimi)
    }

    /// Returns the name of the provider's wire in `models.yaml`.
    #[must_use]
    pub fn wire(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "responses",
            _ => "openai",
        }
    }

    /// Returns the list of the provider's models, if it contains more than their IDs.
    pub(super) fn models(self) -> Option<Value> {
        let mut model = thinking_model("the-model");
        (model["max_input_tokens"], model["max_tokens"]) = (200_000.into(), 64_000.into());
        (self == Self::Anthropic)
            .then(|| json!({"data": [model], "has_more": false, "first_id": "the-model", "last_id": "the-model"}))
    }

    /// Returns the usual rules that the provider does not enforce.
    pub(super) fn leeway(self) -> Leeway {
        Leeway {
            any_ids: matches!(self, Self::Kimi | Self::Gemini),
            extra_content: self == Self::Gemini,
            reasoning_details: self == Self::OpenRouter,
            cache_marks: self == Self::OpenRouter,
        }
    }
}

/// A server for one provider, with its state.
#[derive(Debug)]
pub(super) struct StrictServer {
    pub(super) provider: Provider,
    issued_calls: IssuedCalls,
    /// Number of signed responses.
    answers: usize,
    encrypted: EncryptedThoughts,
}

/// Returns the rejection of a Messages request with the rule that the request breaks, if any.
pub(super) fn messages_refusal(
    strict: Option<&StrictServer>,
    headers: &BTreeMap<String, String>,
    body: &[u8],
) -> Option<(String, Reply)> {
    let invalid = |rule: String| {
        let reply = Reply::messages_error(400, "invalid_request_error", &rule);
        Some((rule, reply))
    };
    if !headers.contains_key("anthropic-version") {
        return invalid("anthropic-version: header is required".to_owned());
    }
    if let Err(broken) = validator::messages(body) {
        return invalid(broken.to_string());
    }
    if strict?.provider != Provider::Anthropic {
        return None;
    }
    signing::unbound_block(&serde_json::from_slice(body).ok()?).and_then(invalid)
}

/// Returns the rejection of a Responses request with the rule that the request breaks, if any.
pub(super) fn responses_refusal(strict: Option<&StrictServer>, body: &[u8]) -> Option<(String, Reply)> {
    let broken = validator::responses(body).err().map(|broken| broken.to_string());
    let strict = strict.filter(|strict| strict.provider == Provider::OpenAi);
    let rule = broken.or_else(|| strict?.encrypted.misplaced_item(body))?;
    let reply = Reply::responses_error(400, "invalid_value", &rule);
    Some((rule, reply))
}

/// Returns a thinking model as in Anthropic's list, without its context window.
pub(super) fn thinking_model(id: &str) -> Value {
    let yes = json!({"supported": true});
    let thinking = json!({"supported": true, "types": {"adaptive": yes, "enabled": {"supported": false}}});
    json!({
        "type": "model", "id": id, "display_name": "A Model", "created_at": "2026-09-01T00:00:00Z",
        "capabilities": {"image_input": yes, "thinking": thinking, "effort": yes},
    })
}

impl StrictServer {
    pub(super) fn new(provider: Provider) -> Self {
        Self { provider, issued_calls: IssuedCalls::default(), answers: 0, encrypted: EncryptedThoughts::default() }
    }

    /// Returns the rejection of a request that breaks one of the provider's rules, if any.
    pub(super) fn refuses(&self, body: &Value) -> Option<Reply> {
        rules::refusal(self.provider, body, &self.issued_calls)
    }

    /// Converts a scripted reply to the provider's form, for a request with this body.
    pub(super) fn dressed(&mut self, reply: Reply, request: &str) -> Reply {
        if self.provider == Provider::Anthropic {
            self.answers += 1;
            let request = serde_json::from_str(request).unwrap_or_default();
            return signing::dressed(reply, &request, self.answers);
        }
        if self.provider == Provider::OpenAi {
            return self.encrypted.dressed(reply, &serde_json::from_str(request).unwrap_or_default());
        }
        self.issued_calls.adapt_reply(self.provider, reply)
    }
}
