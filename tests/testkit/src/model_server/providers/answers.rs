//! Converts replies to the form of a provider.

use serde_json::{Value, json};

use super::{Provider, Reply};

/// A call that was sent to the client, with the data that must be sent back.
#[derive(Debug)]
pub(super) struct IssuedCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    /// Gemini's signature. Only the first call of a response has one.
    pub(super) signature: Option<String>,
    /// Reasoning text of the response.
    pub(super) thoughts: String,
    /// Complete reasoning details of the response, as sent by OpenRouter.
    pub(super) details: Value,
}

/// Calls that were sent to the client, oldest first.
#[derive(Debug, Default)]
pub(super) struct IssuedCalls {
    calls: Vec<IssuedCall>,
    answers: usize,
}

impl IssuedCalls {
    /// Finds the issued call for a call in a conversation, by name and arguments, because the ID may have been changed.
    pub(super) fn call(&self, call: &Value) -> Option<&IssuedCall> {
        let function = &call["function"];
        let arguments: Value = serde_json::from_str(function["arguments"].as_str()?).ok()?;
        let same = |issued: &&IssuedCall| function["name"] == *issued.name && issued.arguments == arguments;
        let mut alike = self.calls.iter().filter(same);
        alike.clone().find(|issued| call["id"] == *issued.id).or_else(|| alike.next())
    }

    /// Converts a reply to the provider's form, and records the data that must be sent back.
    pub(super) fn adapt_reply(&mut self, provider: Provider, mut reply: Reply) -> Reply {
        if reply.status != 200 || reply.body.is_some() || reply.events.is_some() {
            return reply;
        }
        let answer = self.answers;
        self.answers += 1;
        let thinks = matches!(provider, Provider::DeepSeek | Provider::Kimi | Provider::Groq | Provider::OpenRouter);
        if thinks && reply.reasoning.is_empty() {
            reply.reasoning = format!("Thought \u{201c}{answer}\u{201d}:\n\tlook first. ");
        }
        if matches!(provider, Provider::Groq | Provider::OpenRouter) {
            reply.reasoning_field = "reasoning".to_owned();
        }
        let details = match provider {
            Provider::OpenRouter => signed_thought(answer, &mut reply),
            _ => Value::Null,
        };
        if provider == Provider::Ollama {
            reply = reply.with_zero_call_indices();
        }
        for (at, call) in reply.tool_calls.iter_mut().enumerate() {
            let number = self.calls.len();
            let id = call.id.get_or_insert_with(|| id(provider, number, &call.name)).clone();
            let signature = (provider == Provider::Gemini && at == 0).then(|| format!("sig/{answer}+\u{e9}=="));
            if let Some(signature) = &signature {
                call.extra_content = Some(json!({"google": {"thought_signature": signature}}));
            }
            let arguments = match &call.arguments {
                Value::String(raw) => serde_json::from_str(raw).unwrap_or_default(),
                Value::Null => json!({}),
                arguments => arguments.clone(),
            };
            self.calls.push(IssuedCall {
                id,
                name: call.name.clone(),
                arguments,
                signature,
                thoughts: reply.reasoning.clone(),
                details: details.clone(),
            });
        }
        reply
    }
}

/// Returns the ID that a provider assigns to the call with that number.
fn id(provider: Provider, number: usize, name: &str) -> String {
    match provider {
        Provider::Mistral => format!("mIsTr{number:04}"),
        Provider::Gemini => format!("function-call-{}", 14_012_345_678_901_234_567_u64 - number as u64),
        Provider::DeepSeek => format!("call_00_{number:024}"),
        Provider::Kimi => format!("functions.{name}:{number}"),
        Provider::OpenRouter | Provider::OpenRouterWithoutTools => format!("toolu_01{number:022}"),
        Provider::Ollama | Provider::OllamaWithoutTools => String::new(),
        Provider::Groq => format!("fc_{number:08}"),
        Provider::Anthropic => format!("toolu_{number:022}"),
        Provider::OpenAi => format!("call_{number:024}"),
        Provider::VllmWithoutParser | Provider::LlamaCppWithoutJinja => format!("chatcmpl-tool-{number:020}"),
    }
}

/// Sends signed reasoning in pieces, with the signature in the last piece. Returns the reasoning in the form in which
/// it must be sent back.
fn signed_thought(answer: usize, reply: &mut Reply) -> Value {
    let signature = format!("ErUB/{answer}+==");
    let piece =
        |text: &str| json!({"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0});
    reply.reasoning_details = reply.reasoning.split_inclusive(' ').map(piece).collect();
    reply
        .reasoning_details
        .push(json!({"type": "reasoning.text", "signature": signature, "format": "anthropic-claude-v1", "index": 0}));
    let mut whole = piece(&reply.reasoning);
    whole["signature"] = signature.into();
    json!([whole])
}
