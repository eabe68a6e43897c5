//! Anthropic's Messages API, also for compatible servers.
//!
//! - this file: the body; `conversation`: the messages in the required order, their blocks, and the prefix of an
//!   answer, on which signed reasoning depends.
//! - `reader`: events into the answer: blocks assembled from their pieces, usage, and the server's remarks on the
//!   request.

mod conversation;
mod reader;

use agentd_core::{answer_schema::AnswerSchema, tool::ToolSpec};
use serde_json::{Value, json, value::RawValue};

use self::conversation::{Block, Conversation, Recipient, Role, WireMessage};
use crate::{
    answer::text_protocol,
    config::Thinking,
    http::{failure::Failure, refusals::Change},
    wire::dialect::{Dialect, EncodedRequest, Memory, RequestPlan, check_schema},
};

const ANTHROPIC: &str = "api.anthropic.com";

/// Default maximum number of tokens in an answer, if the window fits four such answers.
const MAX_ANSWER: u64 = 32_000;

/// Divisor of the window for the default maximum of an answer.
const ANSWER_DIVISOR: u64 = 4;

/// End of an object with the mark of a cache position.
const CACHED: &str = r#","cache_control":{"type":"ephemeral"}}"#;

/// Fields that are always required.
const FIXED: [&str; 7] = ["model", "messages", "max_tokens", "system", "stream", "tools", "tool_choice"];

/// The cache mark, as a field that a server may refuse.
const CACHE: &str = "cache_control";
const THINKING: &str = "thinking";
/// Field with the effort.
const OUTPUT: &str = "output_config";
const DIAGNOSTICS: &str = "diagnostics";
const TEMPERATURE: &str = "temperature";

/// Dialect of one model. Answers whose reasoning was refused are identified by their prefix.
#[derive(Default)]
pub(crate) struct Anthropic(Memory);

impl Dialect for Anthropic {
    fn encode(&self, plan: &RequestPlan<'_>) -> Result<EncodedRequest, Failure> {
        let RequestPlan { request, form, info, config, .. } = *plan;
        // Calls in a history without tools are refused, so both go into the text.
        let tools = self.0.tools.for_request(plan, wire_tool)?;
        let messages = text_protocol::messages(request, tools.is_some());
        let (origin, tools_json) = (info.origin(), tools.as_deref().map(RawValue::get).unwrap_or_default());
        let without_thoughts = form.has(&Change::WithoutSignedThoughts);
        let recipient = Recipient { origin: &origin, distrusted: &self.0.distrusted(), without_thoughts };
        let conversation = conversation::write(&messages, tools_json, recipient);
        let is_cached = sets_cache_marks(plan) && form.sends(CACHE);
        let in_text = tools.is_none() && !request.tools.is_empty();
        let mut body = plan.body();
        body.set("model", &info.id)?;
        if !conversation.system.is_empty() {
            body.set_raw("system", &join_list(&conversation.system, is_cached));
        }
        body.set_raw("messages", &wire_messages(&conversation, plan.paused, is_cached));
        if let Some(all_but_end) = tools_json.strip_suffix(']') {
            body.set_raw("tools", &close_list(all_but_end.to_owned(), is_cached));
        }
        body.set_some("tool_choice", (tools.is_some() && !request.may_call).then(|| json!({"type": "none"})))?;
        body.set_some(THINKING, thinking(plan).filter(|_| form.sends(THINKING)))?;
        // Settings for the answer, if any.
        let effort =
            config.effort.filter(|_| form.sends(OUTPUT)).map(|effort| format!(r#""effort":{}"#, json!(effort)));
        let schema = self.sent_schema(plan).map(check_schema).transpose()?;
        let format = schema.map(|(schema, _)| format!(r#""format":{{"type":"json_schema","schema":{schema}}}"#));
        let settings: Vec<String> = effort.into_iter().chain(format).collect();
        if !settings.is_empty() {
            body.set_raw(OUTPUT, &format!("{{{}}}", settings.join(",")));
        }
        body.set_some(TEMPERATURE, config.temperature.filter(|_| form.sends(TEMPERATURE)))?;
        body.set("max_tokens", &max_tokens(plan))?;
        body.set_some("stop_sequences", in_text.then_some([text_protocol::STOP]))?;
        let last_answer = json!({"previous_message_id": self.0.last_answers.previous(request)});
        body.set_some(DIAGNOSTICS, Some(last_answer).filter(|_| asks_for_reasons(plan) && form.sends(DIAGNOSTICS)))?;
        body.set("stream", &true)?;
        let reader = reader::Reader::new(conversation.fingerprint, self.0.last_answers.note_of(request));
        Ok(EncodedRequest { path: "/messages".to_owned(), body: body.finish(), reader: Box::new(reader) })
    }

    fn optional_fields(&self, plan: &RequestPlan<'_>) -> Vec<String> {
        let own = [
            (TEMPERATURE, plan.config.temperature.is_some()),
            (THINKING, thinking(plan).is_some()),
            (OUTPUT, plan.config.effort.is_some()),
            (CACHE, sets_cache_marks(plan)),
            (DIAGNOSTICS, asks_for_reasons(plan)),
        ];
        plan.sent_fields(own, &FIXED)
    }

    fn sent_schema<'a>(&self, plan: &RequestPlan<'a>) -> Option<&'a AnswerSchema> {
        // This wire allows calls together with a schema, but calls in the text would violate it.
        plan.schema_in(OUTPUT, plan.is_native())
    }

    fn distrust_thoughts(&self, plan: &RequestPlan<'_>) {
        self.0.distrust(conversation::prefixes_of_answers(&plan.request.messages, &plan.info.origin()));
    }
}

fn wire_tool(ToolSpec { name, description, parameters, .. }: &ToolSpec) -> Value {
    json!({"name": name, "description": description, "input_schema": parameters})
}

/// Returns the configured reasoning mode. The default is adaptive, if the server reports that the model supports it.
fn thinking(plan: &RequestPlan<'_>) -> Option<Value> {
    let is_supported = plan.abilities.adaptive_thinking == Some(true);
    Some(match plan.config.thinking.or(is_supported.then_some(Thinking::Adaptive))? {
        // Some models only return their reasoning if asked to.
        Thinking::Adaptive => json!({"type": "adaptive", "display": "summarized"}),
        Thinking::Off => json!({"type": "disabled"}),
    })
}

/// Returns the maximum number of tokens in the answer. The wire requires a limit in every request.
fn max_tokens(plan: &RequestPlan<'_>) -> u64 {
    let limit = plan.abilities.max_answer.unwrap_or(u64::MAX);
    let learnt = plan.form.answer_limit().unwrap_or(MAX_ANSWER);
    let default = MAX_ANSWER.min(learnt).min(plan.info.context_window / ANSWER_DIVISOR).max(1);
    plan.config.max_answer_tokens(plan.request).unwrap_or(default).min(limit)
}

/// Returns true if the cache positions are not configured. The server accepts at most four.
fn sets_cache_marks(plan: &RequestPlan<'_>) -> bool {
    !plan.config.body.contains_key(CACHE)
}

/// Returns true if the server is asked why its cache missed. By default, only Anthropic's own server is asked.
/// Requests without tools are not part of a conversation.
fn asks_for_reasons(plan: &RequestPlan<'_>) -> bool {
    let is_wanted = plan.config.cache_reasons.unwrap_or(plan.target.host() == ANTHROPIC);
    is_wanted && !plan.request.tools.is_empty() && !plan.config.body.contains_key(DIAGNOSTICS)
}

/// Returns the messages. Cache positions are after the tools, after the instructions, and after the last two user
/// messages: the earlier one is where the previous request stored its prefix.
fn wire_messages(conversation: &Conversation, paused: Option<&str>, is_cached: bool) -> String {
    let marked_positions = marked_positions(&conversation.messages);
    let message = |(at, WireMessage { role, blocks }): (usize, &WireMessage)| {
        let role = if *role == Role::User { "user" } else { "assistant" };
        let content = join_list(blocks, is_cached && marked_positions.contains(&Some(at)));
        format!("{{\"role\":\"{role}\",\"content\":{content}}}")
    };
    let paused_content =
        paused.map(|paused_content| format!("{{\"role\":\"assistant\",\"content\":{paused_content}}}"));
    let messages: Vec<String> = conversation.messages.iter().enumerate().map(message).chain(paused_content).collect();
    format!("[{}]", messages.join(","))
}

/// Returns the positions of the last two user messages, which get a cache mark.
fn marked_positions(messages: &[WireMessage]) -> [Option<usize>; 2] {
    let mut user_messages = messages.iter().enumerate().rev().filter(|(_, message)| message.role == Role::User);
    [user_messages.next().map(|(at, _)| at), user_messages.next().map(|(at, _)| at)]
}

fn join_list(blocks: &[Block], is_cached: bool) -> String {
    let blocks: Vec<&str> = blocks.iter().map(|block| block.json.as_str()).collect();
    close_list(format!("[{}", blocks.join(",")), is_cached)
}

/// Closes a list, with the cache mark in its last object if requested.
fn close_list(mut list: String, is_cached: bool) -> String {
    if is_cached && list.ends_with('}') {
        list.pop();
        list.push_str(CACHED);
    }
    list + "]"
}
