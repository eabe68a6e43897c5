//! OpenAI's Responses API, also for compatible servers.
//!
//! - this file: the body, and the items of a conversation: user messages, answers, and results after their calls. An
//!   answer is sent back unchanged with its encrypted reasoning to the model that gave it. The server requires
//!   reasoning to be followed by the items that it came with.
//! - `partial`: items assembled from their pieces; `reader`: events into the answer, usage, and the check for missing
//!   events.

mod partial;
mod reader;

use std::{
    borrow::Cow,
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    iter,
};

use agentd_core::{
    answer_schema::AnswerSchema,
    model::{Message, ShownPicture},
    origin::AnswerOrigin,
    tool::{ToolCall, ToolSpec},
    untrusted,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    answer::text_protocol::{self, join},
    config::Thinking,
    facts::catalogue,
    http::{failure::Failure, refusals::Change},
    wire::{
        dialect::{Dialect, EncodedRequest, Memory, RequestPlan, allows_calls_with_schema, check_schema},
        partial::{AnswerPart, FilledPart, StoredAnswer},
        sanitise::{
            EMPTY_USER_MESSAGE, NO_OUTPUT, PICTURES, WireIds, is_blank, split_instructions, tool_arguments, tool_name,
        },
    },
};

/// Fields that are always required.
const FIXED: [&str; 7] = ["model", "instructions", "input", "store", "stream", "tools", "tool_choice"];

/// Field with the format of the answer.
const TEXT: &str = "text";
const TEMPERATURE: &str = "temperature";
const MAX_TOKENS: &str = "max_output_tokens";
const CACHE_KEY: &str = "prompt_cache_key";
const CACHE_OPTIONS: &str = "prompt_cache_options";
/// Field that requests reasoning in a form that can be sent back.
const INCLUDE: &str = "include";
/// Parent of the next two fields, each of which may be refused separately.
const REASONING: &str = "reasoning";
const SUMMARY: &str = "reasoning.summary";
const EFFORT: &str = "reasoning.effort";

/// Minimum answer limit that servers accept.
const MIN_ANSWER: u64 = 16;

/// Dialect of one model. Answers whose reasoning was refused are identified by their hash.
#[derive(Default)]
pub(crate) struct Responses(Memory);

impl Dialect for Responses {
    fn encode(&self, plan: &RequestPlan<'_>) -> Result<EncodedRequest, Failure> {
        let RequestPlan { config, request, form, info, .. } = *plan;
        let messages = text_protocol::messages(request, plan.is_native());
        let tools = self.0.tools.for_request(plan, wire_tool)?;
        let origin = info.origin();
        let recipient = Recipient {
            origin: &origin,
            distrusted: &self.0.distrusted(),
            without_thoughts: form.has(&Change::WithoutSignedThoughts),
            requires_alternation: form.has(&Change::WordsInResults),
        };
        let Conversation { instructions, items } = write(&messages, recipient);
        let schema = self.sent_schema(plan).map(check_schema).transpose()?;
        let mut body = plan.body();
        body.set("model", &info.id)?;
        body.set_some("instructions", Some(instructions).filter(|instructions| !instructions.is_empty()))?;
        body.set("input", &items)?;
        body.set_some("tools", tools.as_ref())?;
        // The tools are sent even if calls are not allowed, so that the request starts like the previous one.
        body.set_some("tool_choice", (tools.is_some() && !request.may_call).then_some("none"))?;
        body.set_some(REASONING, reasoning(plan))?;
        body.set_some(INCLUDE, form.sends(INCLUDE).then_some(["reasoning.encrypted_content"]))?;
        body.set("store", &false)?;
        body.set_some(CACHE_KEY, form.sends(CACHE_KEY).then(|| request.session_id.to_string()))?;
        let previous_answer =
            self.0.last_answers.previous(request).filter(|_| asks_for_reasons(plan) && form.sends(CACHE_OPTIONS));
        body.set_some(CACHE_OPTIONS, previous_answer.map(|id| json!({"comparison_response_id": id})))?;
        if let Some((schema, strict)) = schema {
            let format = format!(r#"{{"type":"json_schema","name":"answer","strict":{strict},"schema":{schema}}}"#);
            body.set_raw(TEXT, &format!(r#"{{"format":{format}}}"#));
        }
        body.set_some(TEMPERATURE, config.temperature.filter(|_| form.sends(TEMPERATURE)))?;
        let limit = config.max_answer_tokens(request).filter(|_| form.sends(MAX_TOKENS));
        body.set_some(MAX_TOKENS, limit.map(|limit| limit.max(MIN_ANSWER)))?;
        body.set("stream", &true)?;
        let reader = Box::new(reader::Reader::new(self.0.last_answers.note_of(request)));
        Ok(EncodedRequest { path: "/responses".to_owned(), body: body.finish(), reader })
    }

    fn optional_fields(&self, plan: &RequestPlan<'_>) -> Vec<String> {
        let own = [
            (TEMPERATURE, plan.config.temperature.is_some()),
            (MAX_TOKENS, plan.config.max_answer_tokens(plan.request).is_some()),
            (REASONING, reasoning(plan).is_some()),
            (SUMMARY, requests_summary(plan)),
            (EFFORT, effort(plan).is_some()),
            (INCLUDE, true),
            (CACHE_KEY, true),
            (CACHE_OPTIONS, asks_for_reasons(plan)),
        ];
        plan.sent_fields(own, &FIXED)
    }

    fn sent_schema<'a>(&self, plan: &RequestPlan<'a>) -> Option<&'a AnswerSchema> {
        plan.schema_in(TEXT, allows_calls_with_schema(plan.target.host()))
    }

    fn distrust_thoughts(&self, plan: &RequestPlan<'_>) {
        self.0.distrust(answers_of(&plan.request.messages, &plan.info.origin()));
    }
}

/// Returns true if the server is asked why its cache missed. Only newer models support this, so it must be configured.
fn asks_for_reasons(plan: &RequestPlan<'_>) -> bool {
    let is_wanted = plan.config.cache_reasons == Some(true);
    is_wanted && !plan.request.tools.is_empty() && !plan.config.body.contains_key(CACHE_OPTIONS)
}

fn wire_tool(ToolSpec { name, description, parameters, .. }: &ToolSpec) -> Value {
    json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
}

fn reasoning(plan: &RequestPlan<'_>) -> Option<Value> {
    let effort = effort(plan).filter(|_| plan.form.sends(EFFORT)).map(|effort| ("effort", effort));
    let wants_summary = requests_summary(plan) && plan.form.sends(SUMMARY);
    let fields = effort.into_iter().chain(wants_summary.then(|| ("summary", "auto".into())));
    let fields: Map<String, Value> = fields.map(|(name, value)| (name.to_owned(), value)).collect();
    (!fields.is_empty() && plan.form.sends(REASONING)).then(|| fields.into())
}

fn effort(plan: &RequestPlan<'_>) -> Option<Value> {
    match plan.config.thinking {
        Some(Thinking::Off) => Some("none".into()),
        _ => plan.config.effort.map(|effort| json!(effort)),
    }
}

/// Returns true if the model is asked for a summary of its reasoning: if configured, or if it is known to reason.
fn requests_summary(plan: &RequestPlan<'_>) -> bool {
    let is_reasoning = || catalogue::published(plan.target.host(), &plan.info.id).is_some_and(|model| model.thinking);
    plan.config.thinking.map_or_else(is_reasoning, |thinking| thinking == Thinking::Adaptive)
}

/// Conversation in the wire's format.
#[derive(Debug)]
struct Conversation<'a> {
    /// The instructions, or empty if there are none.
    instructions: String,
    items: Vec<InputItem<'a>>,
}

/// Model for which a conversation is written.
#[derive(Debug, Clone, Copy)]
struct Recipient<'a> {
    /// Name of the model in the origin of answers.
    origin: &'a str,
    /// Answers whose reasoning the model refuses.
    distrusted: &'a HashSet<String>,
    /// True if no reasoning is sent to the model.
    without_thoughts: bool,
    /// True if the model rejects a user message directly after a tool result.
    requires_alternation: bool,
}

fn write<'a>(messages: &'a [Message], recipient: Recipient<'a>) -> Conversation<'a> {
    let (system, messages) = split_instructions(messages);
    let instructions = system.join("\n\n");
    let mut writer = Writer { recipient, ids: WireIds::default(), items: Vec::new() };
    for (message, run) in AnswerPart::split(messages) {
        writer.answers(&run);
        writer.add(message);
    }
    // If a turn was stopped and is continued, an incomplete answer may come last.
    if !writer.items.last().is_some_and(InputItem::asks) {
        writer.add_answer_part(Part::input_text(EMPTY_USER_MESSAGE));
    }
    Conversation { instructions, items: writer.items }
}

/// Returns all answers from that model with stored items.
fn answers_of(messages: &[Message], origin: &str) -> Vec<String> {
    let stored = messages.iter().filter_map(|message| match message {
        Message::Assistant { origin: of_answer, .. } => of_answer.blocks_of(origin).map(fingerprint),
        _ => None,
    });
    stored.collect()
}

struct Writer<'a> {
    recipient: Recipient<'a>,
    ids: WireIds<'a>,
    items: Vec<InputItem<'a>>,
}

impl<'a> Writer<'a> {
    fn add(&mut self, message: &'a Message) {
        match message {
            Message::System { text } | Message::User { text } if is_blank(text) => {}
            Message::System { text } => self.add_answer_part(Part::input_text(text)),
            Message::User { text } => self.add_user_text(text),
            Message::Pictures { text, pictures } => {
                self.add_answer_part(Part::input_text(if is_blank(text) { PICTURES } else { text }));
                for part in pictures.iter().filter_map(Part::picture) {
                    self.add_answer_part(part);
                }
            }
            Message::Tool { call_id, name: _, text, pictures } => {
                let text = if is_blank(text) { NO_OUTPUT.into() } else { untrusted::escape_reminders(text) };
                let output = Output { text, pictures: pictures.iter().filter_map(Part::picture).collect() };
                let call_id = self.ids.of_result(call_id);
                self.items.push(InputItem::FunctionCallOutput { call_id, output });
            }
            Message::Assistant { .. } => {}
        }
    }

    /// Adds a user message. A daemon message after a result is appended to that result: models treat a user message as
    /// the start of a turn, and drop their earlier reasoning.
    fn add_user_text(&mut self, text: &'a str) {
        if let Some(InputItem::FunctionCallOutput { output, .. }) = self.items.last_mut()
            && (untrusted::is_from_daemon(text) || self.recipient.requires_alternation)
        {
            return join(output.text.to_mut(), &untrusted::user_text_after_result(text));
        }
        self.add_answer_part(Part::input_text(text));
    }

    fn add_answer_part(&mut self, part: Part<'a>) {
        match self.items.last_mut() {
            Some(InputItem::Message { role: Role::User, content, .. }) => content.push(part),
            _ => self.items.push(InputItem::Message { role: Role::User, content: vec![part], phase: None }),
        }
    }

    /// Writes adjacent answers, unchanged if possible.
    fn answers(&mut self, mut rest: &[AnswerPart<'a>]) {
        if self.items.is_empty() && !rest.is_empty() {
            self.add_answer_part(Part::input_text(EMPTY_USER_MESSAGE));
        }
        while let Some((first, after)) = rest.split_first() {
            let unchanged =
                (1..=rest.len()).find_map(|parts| Some((self.unchanged_items(&rest[..parts])?, &rest[parts..])));
            let (items, next) = unchanged.unwrap_or_else(|| (self.plain(first), after));
            self.items.extend(items);
            rest = next;
        }
    }

    /// Returns the unchanged items of an answer that consists of these parts, or `None` if it must not be sent
    /// unchanged.
    fn unchanged_items(&mut self, parts: &[AnswerPart<'a>]) -> Option<Vec<InputItem<'a>>> {
        let json = parts.last()?.origin.blocks_of(self.recipient.origin)?;
        if self.recipient.without_thoughts || self.recipient.distrusted.contains(&fingerprint(json)) {
            return None;
        }
        let stored = StoredAnswer::parse(json).filter(|stored| stored.prefix.is_none())?;
        let recipient = self.recipient;
        let server_id = |call: &ToolCall, origin| server_id(call, origin, recipient.origin);
        let mut items = Vec::new();
        for part in stored.filled(parts, &mut self.ids, server_id)? {
            match part {
                FilledPart::Text(text, phase) => items.push(InputItem::answer(text, phase)),
                FilledPart::Call(call, id) => items.push(written_call(call, id)),
                // Reasoning is only sent if the item that it came with follows.
                FilledPart::Blank | FilledPart::Missing => drop_thoughts(&mut items),
                FilledPart::Original(raw, true) => items.push(InputItem::Thoughts(raw)),
                FilledPart::Original(raw, false) => items.push(InputItem::Original(raw)),
            }
        }
        drop_thoughts(&mut items);
        Some(items)
    }

    /// Returns only the text and calls of a part.
    fn plain(&mut self, part: &AnswerPart<'a>) -> Vec<InputItem<'a>> {
        let mut items = Vec::new();
        if !is_blank(part.text) {
            items.push(InputItem::answer(part.text, None));
        }
        for call in part.calls {
            let id = self.ids.of_call(&call.call_id, server_id(call, part.origin, self.recipient.origin));
            items.push(written_call(call, id));
        }
        items
    }
}

fn written_call<'a>(call: &'a ToolCall, call_id: Cow<'a, str>) -> InputItem<'a> {
    let (name, arguments) = (tool_name(&call.name), tool_arguments(&call.arguments));
    InputItem::FunctionCall { call_id, name, arguments }
}

/// Returns the hash that identifies a stored answer.
fn fingerprint(json: &str) -> String {
    let mut hasher = DefaultHasher::new();
    json.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

/// Returns the server's own ID for a call.
fn server_id<'a>(call: &ToolCall, origin: &'a AnswerOrigin, recipient: &str) -> Option<&'a str> {
    let fields = origin.of_call(&call.call_id, recipient)?;
    Some(fields.call_id.as_str()).filter(|id| !id.is_empty())
}

/// Removes reasoning from the end, where no item follows it.
fn drop_thoughts(items: &mut Vec<InputItem<'_>>) {
    while items.last().is_some_and(InputItem::is_thought) {
        items.pop();
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputItem<'a> {
    Message {
        role: Role,
        content: Vec<Part<'a>>,
        /// The server's own label for the purpose of the message.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Output<'a>,
    },
    /// Reasoning of an answer with its original bytes.
    #[serde(untagged)]
    Thoughts(&'a RawValue),
    /// Another item of an answer with its original bytes.
    #[serde(untagged)]
    Original(&'a RawValue),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: String, detail: &'static str },
    OutputText { text: Cow<'a, str> },
}

/// Output of a call. Text alone is sent as a string, which every server accepts.
#[derive(Debug)]
struct Output<'a> {
    text: Cow<'a, str>,
    pictures: Vec<Part<'a>>,
}

impl Serialize for Output<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.pictures.is_empty() {
            return self.text.serialize(serializer);
        }
        serializer.collect_seq(iter::once(&Part::input_text(&*self.text)).chain(&self.pictures))
    }
}

impl<'a> Part<'a> {
    fn input_text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::InputText { text: text.into() }
    }

    /// Creates a picture item, or returns `None` if the bytes are not available.
    fn picture(shown: &ShownPicture) -> Option<Self> {
        let content = shown.content.as_ref()?;
        let image_url = format!("data:{};base64,{}", shown.picture.media_type, BASE64_STANDARD.encode(content));
        Some(Self::InputImage { image_url, detail: "auto" })
    }
}

impl<'a> InputItem<'a> {
    /// Creates an item for text written by the model.
    fn answer(text: impl Into<Cow<'a, str>>, phase: Option<String>) -> Self {
        let content = vec![Part::OutputText { text: text.into() }];
        Self::Message { role: Role::Assistant, content, phase }
    }

    fn is_thought(&self) -> bool {
        matches!(self, Self::Thoughts(_))
    }

    /// Returns true if a model can answer after this item.
    fn asks(&self) -> bool {
        matches!(self, Self::Message { role: Role::User, .. } | Self::FunctionCallOutput { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentd_core::{
        ids::CallId,
        origin::{ItemOrigin, ServerFields},
    };
    use proptest::prelude::*;

    use super::*;

    const ORIGIN: &str = "m@host/v1";

    /// Writes the items of a request with these messages, as they are sent.
    fn write_items(messages: &[Message]) -> String {
        let distrusted = HashSet::new();
        let recipient =
            Recipient { origin: ORIGIN, distrusted: &distrusted, without_thoughts: false, requires_alternation: false };
        serde_json::to_string(&write(messages, recipient).items).unwrap()
    }

    /// Returns a reasoning item in a form that no serialiser would reproduce.
    fn thought(number: usize) -> String {
        format!(r#"{{ "id":"rs_{number}","type":"reasoning", "summary":[],"encrypted_content":"\u0041\/{number}"}}"#)
    }

    /// One scripted answer from a server, and the expected result.
    #[derive(Debug, Clone)]
    struct Step {
        text: String,
        phase: Option<&'static str>,
        thinks: bool,
        calls: bool,
        result: String,
        reminder: bool,
        input: Option<String>,
    }

    fn step() -> impl Strategy<Value = Step> {
        let text = || "[a-zé\"\\\\ \n]{0,12}";
        let phase = proptest::option::of(prop_oneof![Just("commentary"), Just("final_answer")]);
        let of_model = (text(), phase, any::<bool>(), any::<bool>());
        (of_model, text(), any::<bool>(), proptest::option::of(text())).prop_map(
            |((text, phase, thinks, calls), result, reminder, input)| Step {
                text,
                phase,
                thinks,
                calls,
                result,
                reminder,
                input,
            },
        )
    }

    impl Step {
        /// Returns true if the step's reasoning is sent back, because another item follows it.
        fn shows_thoughts(&self) -> bool {
            self.thinks && (self.calls || !is_blank(&self.text))
        }

        fn messages(&self, number: usize) -> Vec<Message> {
            let call_id = CallId::from(format!("c{number}"));
            let mut stored = Vec::new();
            stored.extend(self.thinks.then(|| thought(number)));
            let bytes = self.text.len();
            stored.extend((bytes > 0).then(|| match self.phase {
                _ if is_blank(&self.text) => format!("-{bytes}"),
                Some(phase) => format!("[\"{phase}\",{bytes}]"),
                None => bytes.to_string(),
            }));
            stored.extend(self.calls.then(|| format!("\"call_{number}\"")));
            let of = |fields: ServerFields| Arc::new(ItemOrigin { model: ORIGIN.to_owned(), fields });
            let blocks = Some(format!("{{\"items\":[{}]}}", stored.join(",")));
            let call_fields = ServerFields { call_id: format!("call_{number}"), ..ServerFields::default() };
            let origin = AnswerOrigin {
                calls: if self.calls { vec![(call_id.clone(), of(call_fields))] } else { Vec::new() },
                whole: Some(of(ServerFields { blocks, ..ServerFields::default() })),
                unsent_reasoning: None,
                thinker: None,
            };
            let call = ToolCall { call_id: call_id.clone(), name: "now".to_owned(), arguments: "{}".to_owned() };
            let tool_calls = if self.calls { vec![call] } else { Vec::new() };
            let mut messages =
                vec![Message::Assistant { text: self.text.clone(), reasoning: None, tool_calls, origin }];
            let user = |text: &str| Message::User { text: text.to_owned() };
            if self.calls {
                let (name, text) = ("now".to_owned(), self.result.clone());
                messages.push(Message::Tool { call_id, name, text, pictures: Vec::new() });
            }
            messages.extend(self.reminder.then(|| user("<system_reminder>\nx\n</system_reminder>")));
            messages.extend(self.input.as_deref().map(user));
            if !self.calls {
                messages.push(user("go on"));
            }
            messages
        }
    }

    proptest! {
        #[test]
        fn request_prefix_is_byte_identical_to_the_previous_one(steps in proptest::collection::vec(step(), 1..8)) {
            let mut messages =
                vec![Message::System { text: "s".to_owned() }, Message::User { text: "begin".to_owned() }];
            let mut before = write_items(&messages);
            for (number, step) in steps.iter().enumerate() {
                messages.extend(step.messages(number));
                let next = write_items(&messages);
                // More text may follow the last text.
                let repeated = before.trim_end_matches(['"', '}', ']']);
                prop_assert!(next.starts_with(repeated), "{next}\n\ndoes not begin with\n\n{repeated}");
                for (earlier, step) in steps[..=number].iter().enumerate() {
                    prop_assert_eq!(next.matches(&thought(earlier)).count(), usize::from(step.shows_thoughts()));
                }
                before = next;
            }
        }
    }
}
