//! OpenAI's Responses, as OpenAI and servers in its form speak them.
//!
//! - this file: the body; `conversation`: the items of its input.
//! - `partial`: items, put together from their pieces; `reader`: events into the answer, typed and borrowed, what it took, and that
//!   none may be missing.

mod conversation;
mod partial;
mod reader;

use agentd_core::{answer_schema::AnswerSchema, tool::ToolSpec};
use serde_json::{Map, Value, json};

use self::conversation::{Conversation, Recipient};
use super::{
    dialect::{Dialect, Order, Outgoing, judged, takes_calls_in_form},
    memory::Memory,
};
use crate::{
    answer::text_protocol,
    config::Thinking,
    facts::catalogue,
    http::{failure::Failure, learning::Change},
};

/// Fields without which there is no request.
const FIXED: [&str; 7] = ["model", "instructions", "input", "store", "stream", "tools", "tool_choice"];

/// Holds the form of the answer.
const TEXT: &str = "text";
const TEMPERATURE: &str = "temperature";
const MAX_TOKENS: &str = "max_output_tokens";
const CACHE_KEY: &str = "prompt_cache_key";
const CACHE_OPTIONS: &str = "prompt_cache_options";
/// Asks for thoughts in the form in which they can go back.
const INCLUDE: &str = "include";
/// Holds the next two, each of which can be refused by itself.
const REASONING: &str = "reasoning";
const SUMMARY: &str = "reasoning.summary";
const EFFORT: &str = "reasoning.effort";

/// The smallest limit of an answer that servers take.
const MIN_ANSWER: u64 = 16;

/// The dialect of one model. What it distrusts are stored answers, by their fingerprints.
#[derive(Default)]
pub(crate) struct Responses(Memory);

impl Dialect for Responses {
    fn outgoing(&self, order: &Order<'_>) -> Result<Outgoing, Failure> {
        let Order { config, request, form, info, .. } = *order;
        let messages = text_protocol::messages(request, order.is_native());
        let tools = self.0.tools.of(order, wire_tool)?;
        let origin = info.origin();
        let recipient = Recipient {
            origin: &origin,
            distrusted: &self.0.distrusted(),
            without_thoughts: form.has(&Change::WithoutSignedThoughts),
            wants_turns: form.has(&Change::WordsInResults),
        };
        let Conversation { instructions, items } = conversation::write(&messages, recipient);
        let schema = self.sent_schema(order).map(judged).transpose()?;
        let mut body = order.body();
        body.set("model", &info.id)?;
        body.set_some("instructions", Some(instructions).filter(|instructions| !instructions.is_empty()))?;
        body.set("input", &items)?;
        body.set_some("tools", tools.as_ref())?;
        // The tools are named for the request to begin as the one before it did.
        body.set_some("tool_choice", (tools.is_some() && !request.may_call).then_some("none"))?;
        body.set_some(REASONING, reasoning(order))?;
        body.set_some(INCLUDE, form.sends(INCLUDE).then_some(["reasoning.encrypted_content"]))?;
        body.set("store", &false)?;
        body.set_some(CACHE_KEY, form.sends(CACHE_KEY).then(|| request.session_id.to_string()))?;
        let compared =
            self.0.last_answers.before(request).filter(|_| asks_for_reasons(order) && form.sends(CACHE_OPTIONS));
        body.set_some(CACHE_OPTIONS, compared.map(|id| json!({"comparison_response_id": id})))?;
        if let Some((schema, strict)) = schema {
            let format = format!(r#"{{"type":"json_schema","name":"answer","strict":{strict},"schema":{schema}}}"#);
            body.set_raw(TEXT, &format!(r#"{{"format":{format}}}"#));
        }
        body.set_some(TEMPERATURE, config.temperature.filter(|_| form.sends(TEMPERATURE)))?;
        let most = config.most_tokens(request).filter(|_| form.sends(MAX_TOKENS));
        body.set_some(MAX_TOKENS, most.map(|most| most.max(MIN_ANSWER)))?;
        body.set("stream", &true)?;
        let reader = Box::new(reader::Reader::new(self.0.last_answers.note_of(request)));
        Ok(Outgoing { path: "/responses".to_owned(), body: body.finish(), reader })
    }

    fn optional_fields(&self, order: &Order<'_>) -> Vec<String> {
        let own = [
            (TEMPERATURE, order.config.temperature.is_some()),
            (MAX_TOKENS, order.config.most_tokens(order.request).is_some()),
            (REASONING, reasoning(order).is_some()),
            (SUMMARY, tells_thoughts(order)),
            (EFFORT, effort(order).is_some()),
            (INCLUDE, true),
            (CACHE_KEY, true),
            (CACHE_OPTIONS, asks_for_reasons(order)),
        ];
        order.sent_fields(own, &FIXED)
    }

    fn sent_schema<'a>(&self, order: &Order<'a>) -> Option<&'a AnswerSchema> {
        order.schema_in(TEXT, takes_calls_in_form(order.target.host()))
    }

    fn distrust_thoughts(&self, order: &Order<'_>) {
        self.0.distrust(conversation::answers_of(&order.request.messages, &order.info.origin()));
    }
}

/// Returns whether the server is asked why its cache missed. Only newer models take the question, so somebody has to want it.
fn asks_for_reasons(order: &Order<'_>) -> bool {
    let is_asked = order.config.cache_reasons == Some(true);
    is_asked && !order.request.tools.is_empty() && !order.config.body.contains_key(CACHE_OPTIONS)
}

fn wire_tool(ToolSpec { name, description, parameters, .. }: &ToolSpec) -> Value {
    json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
}

fn reasoning(order: &Order<'_>) -> Option<Value> {
    let effort = effort(order).filter(|_| order.form.sends(EFFORT)).map(|effort| ("effort", effort));
    let is_told = tells_thoughts(order) && order.form.sends(SUMMARY);
    let fields = effort.into_iter().chain(is_told.then(|| ("summary", "auto".into())));
    let fields: Map<String, Value> = fields.map(|(name, value)| (name.to_owned(), value)).collect();
    (!fields.is_empty() && order.form.sends(REASONING)).then(|| fields.into())
}

fn effort(order: &Order<'_>) -> Option<Value> {
    match order.config.thinking {
        Some(Thinking::Off) => Some("none".into()),
        _ => order.config.effort.map(|effort| json!(effort)),
    }
}

/// Returns whether the model is asked to tell its thoughts, in short: where somebody wants it, or where it is known to think.
fn tells_thoughts(order: &Order<'_>) -> bool {
    let is_known = || catalogue::published(order.target.host(), &order.info.id).is_some_and(|known| known.thinking);
    order.config.thinking.map_or_else(is_known, |thinking| thinking == Thinking::Adaptive)
}
