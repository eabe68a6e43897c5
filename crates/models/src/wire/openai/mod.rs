//! OpenAI-compatible chat completions, as OpenAI, DeepSeek, Moonshot, GLM, vLLM, Ollama and llama.cpp speak them.
//!
//! - this file: the body, and marks of the prompt cache, where a server takes them; `messages`: the conversation in
//!   the form that the strictest templates accept, and who gets back which of a server's own fields.
//! - `calls`: native tool calls, put together from their pieces; `reader`: events into the answer, what it took, and signed
//!   thoughts.

mod calls;
mod messages;
mod reader;

use agentd_core::{answer_schema::AnswerSchema, origin::model_origin, tool::ToolSpec};
use serde_json::{Value, json};

// llama.cpp's other dialect shares it.
use self::messages::{Recipient, WireMessage, wire_messages};
pub(crate) use self::reader::Timings;
use crate::{
    answer::text_protocol,
    http::{failure::Failure, learning::Change},
    wire::{
        dialect::{Dialect, Order, Outgoing, judged, takes_calls_in_form},
        memory::WrittenTools,
    },
};

/// Fields without which there is no request.
const FIXED: [&str; 5] = ["model", "messages", "stream", "tools", "tool_choice"];
/// The field of the form of the answer.
const RESPONSE_FORMAT: &str = "response_format";
/// OpenRouter's question for the money, as one that a server may refuse.
const USAGE: &str = "usage";

/// The dialect of one model.
#[derive(Default)]
pub(crate) struct OpenAi {
    tools: WrittenTools,
}

impl Dialect for OpenAi {
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure> {
        let Order { config, target, info, request, form, .. } = *order;
        let (host, native, origin) = (target.host(), order.is_native(), model_origin(&info.id, target.shown()));
        let messages = text_protocol::messages(request, native);
        let tools = self.tools.of(order, wire_tool)?;
        let renamed = form.has(&Change::MaxCompletionTokens);
        let max_tokens = config.most_tokens(request).filter(|_| form.sends("max_tokens"));
        let schema = self.sent_schema(order).map(judged).transpose()?;
        let recipient = Recipient {
            id: &info.id,
            origin: &origin,
            wants_thoughts: form.echoes(config),
            wants_turns: form.has(&Change::WordsInResults),
        };
        let mut body = order.body();
        body.set("model", &info.id)?;
        let mut wire = wire_messages(&messages, recipient);
        if marks(order) && form.sends(CACHE) {
            mark(&mut wire);
        }
        body.set("messages", &wire)?;
        body.set_some("tools", tools.as_ref())?;
        // The tools are named for the request to begin as the one before it did.
        body.set_some("tool_choice", (tools.is_some() && !request.may_call).then_some("none"))?;
        body.set_some("temperature", config.temperature.filter(|_| form.sends("temperature")))?;
        body.set_some("max_tokens", max_tokens.filter(|_| !renamed))?;
        body.set_some("max_completion_tokens", max_tokens.filter(|_| renamed))?;
        body.set_some("stop", (!native && !request.tools.is_empty()).then_some([text_protocol::STOP]))?;
        if let Some((schema, strict)) = schema {
            let form = format!(r#"{{"name":"answer","strict":{strict},"schema":{schema}}}"#);
            body.set_raw(RESPONSE_FORMAT, &format!(r#"{{"type":"json_schema","json_schema":{form}}}"#));
        }
        body.set("stream", &true)?;
        body.set_some("stream_options", form.sends("stream_options").then(|| json!({"include_usage": true})))?;
        let asks_for_money = is_openrouter(host) && form.sends(USAGE);
        body.set_some(USAGE, asks_for_money.then(|| json!({"include": true})))?;
        let reader = Box::new(reader::Reader::default());
        Ok(Outgoing { path: "/chat/completions".to_owned(), body: body.finish(), reader })
    }

    fn optional_fields(&self, order: &Order<'_>) -> Vec<String> {
        let Order { config, target, request, form, .. } = *order;
        let limits_answer = config.most_tokens(request).is_some();
        let own = [
            ("temperature", config.temperature.is_some()),
            ("max_tokens", limits_answer && !form.has(&Change::MaxCompletionTokens)),
            ("stream_options", true),
            (CACHE, marks(order)),
            (USAGE, is_openrouter(target.host())),
        ];
        order.sent_fields(own, &FIXED)
    }

    fn sent_schema<'a>(&self, order: &Order<'a>) -> Option<&'a AnswerSchema> {
        order.schema_in(RESPONSE_FORMAT, takes_calls_in_form(order.target.host()))
    }
}

/// Returns true if the cache of this model is to be marked, unless a person has said so otherwise.
fn marks(order: &Order<'_>) -> bool {
    wants_marks(order.target.host(), &order.info.id) && !order.config.body.contains_key(CACHE)
}

fn wire_tool(ToolSpec { name, description, parameters, .. }: &ToolSpec) -> Value {
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

/// Host of OpenRouter.
const OPENROUTER: &str = "openrouter.ai";

/// The field, as one that a server may refuse.
const CACHE: &str = "cache_control";

/// Returns true for the host of OpenRouter and those of its regions.
pub(super) fn is_openrouter(host: &str) -> bool {
    host.strip_suffix(OPENROUTER).is_some_and(|region| region.is_empty() || region.ends_with('.'))
}

/// Returns true if the cache of this model at that host has to be marked.
fn wants_marks(host: &str, id: &str) -> bool {
    is_openrouter(host) && id.trim_start_matches('~').starts_with("anthropic/")
}

/// Marks the cache behind the instructions and behind the last two places at which the model answers: each request finds there
/// what the one before it stored.
fn mark(messages: &mut [WireMessage<'_>]) {
    let is_answer = |message: &WireMessage<'_>| matches!(message, WireMessage::Assistant { .. });
    let is_place = |at: &usize| !is_answer(&messages[*at]) && messages.get(at + 1).is_none_or(is_answer);
    let is_system = matches!(messages.first(), Some(WireMessage::System { .. }));
    let places = (0..messages.len()).rev().filter(is_place).take(2).chain(is_system.then_some(0));
    for at in places.collect::<Vec<usize>>() {
        match &mut messages[at] {
            WireMessage::System { content } | WireMessage::User { content } | WireMessage::Tool { content, .. } => {
                content.mark();
            }
            WireMessage::Assistant { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_claude_at_openrouter_is_sent_marks() {
        let check = |host, id, expected| assert_eq!(wants_marks(host, id), expected, "{host} {id}");
        check("openrouter.ai", "anthropic/claude-sonnet-4.5", true);
        check("eu.openrouter.ai", "~anthropic/claude-sonnet-latest", true);
        check("openrouter.ai", "openai/gpt-5", false);
        check("openrouter.ai", "other/anthropic/claude", false);
        check("openrouter.ai.evil.example", "anthropic/claude-sonnet-4.5", false);
        check("myopenrouter.ai", "anthropic/claude-sonnet-4.5", false);
        check("127.0.0.1", "anthropic/claude-sonnet-4.5", false);
    }
}
