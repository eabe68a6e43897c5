//! Anthropic's Messages, as Anthropic and servers in its form speak them.
//!
//! - this file: the body; `conversation`: the messages in the order that the wire demands, their parts, and what stands before
//!   an answer, of which signed thoughts are a part.
//! - `reader`: events into the answer, typed and borrowed, its blocks, put together from their pieces, what it took, and what the
//!   server says of the request.

mod conversation;
mod reader;

use agentd_core::{answer_schema::AnswerSchema, tool::ToolSpec};
use serde_json::{Value, json, value::RawValue};

use self::conversation::{Block, Conversation, Recipient, Role, WireMessage};
use crate::{
    answer::text_protocol,
    config::Thinking,
    http::{failure::Failure, learning::Change},
    wire::dialect::{Dialect, Memory, Order, Outgoing, judged},
};

/// Host of Anthropic's own server.
const ANTHROPIC: &str = "api.anthropic.com";

/// The tokens that an answer may have where nobody says, if the window has room for four such answers.
const MAX_ANSWER: u64 = 32_000;

/// Part of the window that an answer may have where nobody says.
const ANSWER_PART: u64 = 4;

/// The end of an object with the mark behind which a server keeps what it has computed.
const CACHED: &str = r#","cache_control":{"type":"ephemeral"}}"#;

/// Fields without which there is no request.
const FIXED: [&str; 7] = ["model", "messages", "max_tokens", "system", "stream", "tools", "tool_choice"];

/// The mark of the cache, as a field that a server may refuse.
const CACHE: &str = "cache_control";
const THINKING: &str = "thinking";
/// Holds the effort.
const OUTPUT: &str = "output_config";
const DIAGNOSTICS: &str = "diagnostics";
const TEMPERATURE: &str = "temperature";

/// The dialect of one model. What it distrusts are the prefixes of answers.
#[derive(Default)]
pub(crate) struct Anthropic(Memory);

impl Dialect for Anthropic {
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure> {
        let Order { request, form, info, config, .. } = *order;
        // Calls in a history without tools are refused, so both go into the words.
        let tools = self.0.tools.of(order, wire_tool)?;
        let messages = text_protocol::messages(request, tools.is_some());
        let (origin, tools_json) = (info.origin(), tools.as_deref().map(RawValue::get).unwrap_or_default());
        let without_thoughts = form.has(&Change::WithoutSignedThoughts);
        let recipient = Recipient { origin: &origin, distrusted: &self.0.distrusted(), without_thoughts };
        let conversation = conversation::write(&messages, tools_json, recipient);
        let is_cached = caches(order) && form.sends(CACHE);
        let in_text = tools.is_none() && !request.tools.is_empty();
        let mut body = order.body();
        body.set("model", &info.id)?;
        if !conversation.system.is_empty() {
            body.set_raw("system", &joined(&conversation.system, is_cached));
        }
        body.set_raw("messages", &written(&conversation, order.paused, is_cached));
        if let Some(all_but_end) = tools_json.strip_suffix(']') {
            body.set_raw("tools", &closed(all_but_end.to_owned(), is_cached));
        }
        body.set_some("tool_choice", (tools.is_some() && !request.may_call).then(|| json!({"type": "none"})))?;
        body.set_some(THINKING, thinking(order).filter(|_| form.sends(THINKING)))?;
        // Settings of the answer, where there are any.
        let effort =
            config.effort.filter(|_| form.sends(OUTPUT)).map(|effort| format!(r#""effort":{}"#, json!(effort)));
        let schema = self.sent_schema(order).map(judged).transpose()?;
        let format = schema.map(|(schema, _)| format!(r#""format":{{"type":"json_schema","schema":{schema}}}"#));
        let settings: Vec<String> = effort.into_iter().chain(format).collect();
        if !settings.is_empty() {
            body.set_raw(OUTPUT, &format!("{{{}}}", settings.join(",")));
        }
        body.set_some(TEMPERATURE, config.temperature.filter(|_| form.sends(TEMPERATURE)))?;
        body.set("max_tokens", &max_tokens(order))?;
        body.set_some("stop_sequences", in_text.then_some([text_protocol::STOP]))?;
        let last_answer = json!({"previous_message_id": self.0.last_answers.before(request)});
        body.set_some(DIAGNOSTICS, Some(last_answer).filter(|_| asks_for_reasons(order) && form.sends(DIAGNOSTICS)))?;
        body.set("stream", &true)?;
        let reader = reader::Reader::new(conversation.behind, self.0.last_answers.note_of(request));
        Ok(Outgoing { path: "/messages".to_owned(), body: body.finish(), reader: Box::new(reader) })
    }

    fn optional_fields(&self, order: &Order<'_>) -> Vec<String> {
        let own = [
            (TEMPERATURE, order.config.temperature.is_some()),
            (THINKING, thinking(order).is_some()),
            (OUTPUT, order.config.effort.is_some()),
            (CACHE, caches(order)),
            (DIAGNOSTICS, asks_for_reasons(order)),
        ];
        order.sent_fields(own, &FIXED)
    }

    fn sent_schema<'a>(&self, order: &Order<'a>) -> Option<&'a AnswerSchema> {
        // This wire calls tools as usual beside it, but calls in the words are in no such form.
        order.schema_in(OUTPUT, order.is_native())
    }

    fn distrust_thoughts(&self, order: &Order<'_>) {
        self.0.distrust(conversation::prefixes_of_answers(&order.request.messages, &order.info.origin()));
    }
}

fn wire_tool(ToolSpec { name, description, parameters, .. }: &ToolSpec) -> Value {
    json!({"name": name, "description": description, "input_schema": parameters})
}

/// Thinking as it is configured; where it is not, adaptive for models of which their server tells that they can.
fn thinking(order: &Order<'_>) -> Option<Value> {
    let can = order.abilities.adaptive_thinking == Some(true);
    Some(match order.config.thinking.or(can.then_some(Thinking::Adaptive))? {
        // Some models tell nothing of their thoughts unless asked.
        Thinking::Adaptive => json!({"type": "adaptive", "display": "summarized"}),
        Thinking::Off => json!({"type": "disabled"}),
    })
}

/// The wire wants a limit in every request.
fn max_tokens(order: &Order<'_>) -> u64 {
    let most = order.abilities.max_answer.unwrap_or(u64::MAX);
    let learnt = order.form.answer_limit().unwrap_or(MAX_ANSWER);
    let usual = MAX_ANSWER.min(learnt).min(order.info.context_window / ANSWER_PART).max(1);
    order.config.most_tokens(order.request).unwrap_or(usual).min(most)
}

/// Returns whether the places behind which the server keeps what it has computed are ours to choose: it takes four at the most.
fn caches(order: &Order<'_>) -> bool {
    !order.config.body.contains_key(CACHE)
}

/// Returns whether the server is asked why its cache missed: its maker's own is, unless somebody says otherwise. Requests without
/// tools are no part of a conversation.
fn asks_for_reasons(order: &Order<'_>) -> bool {
    let is_asked = order.config.cache_reasons.unwrap_or(order.target.host() == ANTHROPIC);
    is_asked && !order.request.tools.is_empty() && !order.config.body.contains_key(DIAGNOSTICS)
}

/// The messages. The cache is marked behind the tools, the instructions, and the last messages of this request and of the one
/// before it, whose mark finds again what was kept then.
fn written(conversation: &Conversation, paused: Option<&str>, is_cached: bool) -> String {
    let marked = marked(&conversation.messages);
    let message = |(at, WireMessage { role, blocks }): (usize, &WireMessage)| {
        let role = if *role == Role::User { "user" } else { "assistant" };
        let content = joined(blocks, is_cached && marked.contains(&Some(at)));
        format!("{{\"role\":\"{role}\",\"content\":{content}}}")
    };
    let begun = paused.map(|begun| format!("{{\"role\":\"assistant\",\"content\":{begun}}}"));
    let messages: Vec<String> = conversation.messages.iter().enumerate().map(message).chain(begun).collect();
    format!("[{}]", messages.join(","))
}

/// Messages behind which the cache is marked: the person's last two.
fn marked(messages: &[WireMessage]) -> [Option<usize>; 2] {
    let mut of_user = messages.iter().enumerate().rev().filter(|(_, message)| message.role == Role::User);
    [of_user.next().map(|(at, _)| at), of_user.next().map(|(at, _)| at)]
}

fn joined(blocks: &[Block], is_cached: bool) -> String {
    let blocks: Vec<&str> = blocks.iter().map(|block| block.json.as_str()).collect();
    closed(format!("[{}", blocks.join(",")), is_cached)
}

/// Closes a list, with the mark of the cache in its last object where it is to have one.
fn closed(mut list: String, is_cached: bool) -> String {
    if is_cached && list.ends_with('}') {
        list.pop();
        list.push_str(CACHED);
    }
    list + "]"
}
