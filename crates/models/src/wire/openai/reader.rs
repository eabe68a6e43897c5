//! Reads events into the answer. Events are parsed into borrowed types, as hundreds of thousands arrive per second.
//! Parsing is lenient wherever servers are known to differ.
//!
//! `reasoning_details` are signed or encrypted reasoning. A signature covers a whole detail, so pieces with the same
//! number and type are joined before they are sent back. Everything else keeps its bytes.
//!
//! Servers identify the pieces of calls by number, by ID, or not at all, and some give every call the same number. A
//! piece belongs to the call with its number, else to the one with its ID, else to the last one. A new ID or a second
//! name starts a new call, and so does a name after complete arguments. The amount of stored data is limited, whatever
//! numbers a server sends.

use std::{borrow::Cow, collections::BTreeMap};

use agentd_core::{
    model::Finish,
    origin::{MAX_SERVER_FIELDS, ServerFields},
    usage::Usage,
};
use serde::Deserialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::{
    answer::{Answer, Kind, RawCall, text_protocol::Balance},
    http::{failure::Failure, target::Target},
    wire::{
        dialect::{AnswerReader, parse},
        lenient::{Count, Text, argument_text, counted, is_json, with_cache},
        openai::is_openrouter,
        partial::{CallBounds, PartialCall},
    },
};

#[derive(Default)]
pub(super) struct Reader {
    calls: Calls,
    details: ReasoningDetails,
}

impl AnswerReader for Reader {
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        if data.starts_with('[') {
            return self.array(target, data, answer);
        }
        let chunk: Chunk<'_> = parse(target, data)?;
        // Accounting must come first, as a failed answer is charged too.
        account(target, &chunk, answer);
        if let Some(error) = chunk.error {
            return Err(Failure::reported(target, error.get()));
        }
        let bare = chunk.choices.is_none() && chunk.message.is_some_and(|message| message.get().starts_with('"'));
        if bare || chunk.object.is_some_and(|object| object.get() == "\"error\"") {
            return Err(Failure::reported(target, data));
        }
        for choice in chunk.choices.iter().flatten() {
            // Only one answer is requested. Additional ones are ignored.
            if choice.index.is_none_or(|index| index.0 == 0) {
                self.choice(target, choice, answer)?;
            }
        }
        Ok(())
    }

    fn ends_with_mark(&self) -> bool {
        true
    }

    fn calls(&mut self) -> Vec<RawCall> {
        self.calls.take()
    }

    fn fields(&mut self) -> Option<ServerFields> {
        let details = self.details.take()?;
        Some(ServerFields { reasoning_details: Some(details), ..ServerFields::default() })
    }
}

impl Reader {
    /// Processes several events in an array, in which Gemini wraps its errors.
    fn array(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let events: Vec<&RawValue> = parse(target, data)?;
        let objects = events.iter().map(|event| event.get()).filter(|event| event.starts_with('{'));
        objects.into_iter().try_for_each(|event| self.event(target, event, answer))
    }

    fn choice(&mut self, target: &Target, choice: &Choice<'_>, answer: &mut Answer) -> Result<(), Failure> {
        for delta in [&choice.delta, &choice.message].into_iter().flatten() {
            self.delta(target, delta, answer)?;
        }
        if let Some(finish) = finish(target, &choice.finish_reason)? {
            answer.finish = Some(finish);
        }
        if choice.message.is_some() {
            answer.finish.get_or_insert(Finish::Stop);
        }
        Ok(())
    }

    fn delta(&mut self, target: &Target, delta: &Delta<'_>, answer: &mut Answer) -> Result<(), Failure> {
        answer.push(Kind::Reasoning, delta.reasoning());
        if let Some(details) = delta.reasoning_details {
            self.details.add(details);
            answer.size += details.get().len();
        }
        for text in [&delta.content, &delta.refusal] {
            answer.push(Kind::Text, text);
        }
        delta.tool_calls.iter().flatten().try_for_each(|call| self.calls.add(target, call, answer))
    }
}

fn finish(target: &Target, reason: &str) -> Result<Option<Finish>, Failure> {
    // Gateways forward providers' reasons in capitals, such as MAX_TOKENS.
    Ok(Some(match reason.to_ascii_lowercase().as_str() {
        "" => return Ok(None),
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "safety" | "sensitive" | "recitation" | "blocklist" | "prohibited_content" | "spii" => {
            Finish::Filtered
        }
        "error" | "network_error" | "insufficient_system_resource" | "engine_overloaded" => {
            return Err(Failure::reported(target, &format!("the answer broke off ({reason})")));
        }
        _ => Finish::Stop,
    }))
}

fn account(target: &Target, chunk: &Chunk<'_>, answer: &mut Answer) {
    let in_choice = || chunk.choices.iter().flatten().find_map(|choice| choice.usage.as_ref());
    let in_extension = || chunk.x_groq.as_ref()?.get("usage").filter(|usage| usage.is_object());
    if let Some(value) = chunk.usage.as_ref().or_else(in_choice).or_else(in_extension) {
        // Other servers may use a field with that name for anything.
        let charged = charged_microusd(value).filter(|_| is_openrouter(target.host()));
        answer.usage = Some(Usage { cost_microusd: charged, ..usage(value) });
    }
    if let Some(timings) = chunk.timings {
        answer.usage = Some(timings.complete(answer.usage));
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Chunk<'a> {
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Value>,
    /// Usage as sent by llama.cpp.
    timings: Option<Timings>,
    /// Usage as sent by Groq.
    x_groq: Option<Value>,
    error: Option<&'a RawValue>,
    /// `error` if the whole event is one.
    object: Option<&'a RawValue>,
    /// Message of an error without an error object, as sent by older llama.cpp.
    message: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Choice<'a> {
    index: Option<Count>,
    delta: Option<Delta<'a>>,
    /// Replaces the delta in a whole answer.
    message: Option<Delta<'a>>,
    finish_reason: Text<'a>,
    /// Usage as sent by Moonshot.
    usage: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Delta<'a> {
    content: Text<'a>,
    refusal: Text<'a>,
    reasoning_content: Text<'a>,
    reasoning: Text<'a>,
    thinking: Text<'a>,
    /// Signed or encrypted reasoning, which is sent back to its server.
    reasoning_details: Option<&'a RawValue>,
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

impl Delta<'_> {
    /// Returns the text of reasoning. Some servers send the same text under two names.
    fn reasoning(&self) -> &str {
        let candidates = [&*self.reasoning_content, &self.reasoning, &self.thinking];
        candidates.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    }
}

/// Limit in dollars above which the cost of a single request is implausible.
const MAX_CHARGE: f64 = 10_000.0;

/// Parses the usage of a request, in any of the formats of servers.
fn usage(value: &Value) -> Usage {
    // The last two names are those of DeepSeek and Moonshot.
    let cached_tokens =
        counted(value, ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"]);
    // The last name is that of LiteLLM.
    let cache_write_tokens = counted(
        value,
        [
            "/prompt_tokens_details/cache_write_tokens",
            "/prompt_tokens_details/cache_creation_tokens",
            "/cache_creation_input_tokens",
        ],
    );
    let request = counted(value, ["/prompt_tokens"]);
    let reasoning_tokens = counted(value, ["/completion_tokens_details/reasoning_tokens", "/reasoning_tokens"]);
    let answer = counted(value, ["/completion_tokens"]);
    let whole = answer.saturating_add(reasoning_tokens);
    // Some servers count reasoning separately from the answer, such as xAI's.
    let is_separate = reasoning_tokens > answer
        || reasoning_tokens > 0 && counted(value, ["/total_tokens"]) == request.saturating_add(whole);
    Usage {
        prompt_tokens: with_cache(request, cached_tokens, cache_write_tokens),
        cached_tokens,
        cache_write_tokens,
        completion_tokens: if is_separate { whole } else { answer },
        reasoning_tokens,
        ..Usage::default()
    }
}

/// Returns the amount that OpenRouter charges for the request, in millionths of a dollar. Includes the charge of the
/// model's provider if the user's own key is used there.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before the cast")]
fn charged_microusd(value: &Value) -> Option<u64> {
    let dollars = |path: &str| {
        let price = value.pointer(path)?;
        price.as_f64().or_else(|| price.as_str()?.trim().parse().ok())
    };
    let upstream = dollars("/cost_details/upstream_inference_cost").filter(|_| value["is_byok"] == true);
    let charged = dollars("/cost")? + upstream.unwrap_or_default();
    (0.0..MAX_CHARGE).contains(&charged).then(|| (charged * 1e6).round() as u64)
}

/// llama.cpp's usage of one answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Timings {
    /// Tokens read from the cache.
    cache_n: Count,
    /// Computed tokens of the request.
    prompt_n: Count,
    /// Tokens of the answer.
    predicted_n: Count,
}

impl Timings {
    /// Completes a reported usage with these counts.
    pub(crate) fn complete(&self, reported: Option<Usage>) -> Usage {
        let mut usage = reported.unwrap_or_else(|| Usage {
            prompt_tokens: self.prompt_n.0.saturating_add(self.cache_n.0),
            completion_tokens: self.predicted_n.0,
            ..Usage::default()
        });
        usage.cached_tokens = usage.cached_tokens.max(self.cache_n.0).min(usage.prompt_tokens);
        usage
    }
}

/// Fields whose pieces are joined.
const JOINED: [&str; 2] = ["text", "summary"];
/// Field that arrives with the last piece.
const SIGNATURE: &str = "signature";

type Fields = BTreeMap<String, Box<RawValue>>;

/// Pieces of a detail, with its number and type, or `None` if the detail has no number and is thus complete.
type DetailPieces = (Option<(u64, String)>, Vec<Box<RawValue>>);

#[derive(Debug, Default)]
struct ReasoningDetails {
    details: Vec<DetailPieces>,
    bytes: usize,
    /// True if the details are too large or invalid. Then none are sent back, as an incomplete set would be refused.
    is_malformed: bool,
}

#[derive(Deserialize)]
struct Labels<'a> {
    #[serde(borrow)]
    r#type: Option<Cow<'a, str>>,
    index: Option<u64>,
}

impl ReasoningDetails {
    /// Adds the details of one event: an array, or null.
    fn add(&mut self, raw: &RawValue) {
        self.bytes += raw.get().len();
        let pieces = serde_json::from_str::<Option<Vec<&RawValue>>>(raw.get());
        let Some(pieces) = pieces.ok().filter(|_| self.bytes <= MAX_SERVER_FIELDS) else {
            self.is_malformed = true;
            return;
        };
        for piece in pieces.into_iter().flatten() {
            let labels = serde_json::from_str::<Labels<'_>>(piece.get()).ok();
            let key = labels.and_then(|labels| Some((labels.index?, labels.r#type.unwrap_or_default().into_owned())));
            match self.details.iter_mut().rev().find(|(other_key, _)| key.is_some() && *other_key == key) {
                Some((_, pieces)) => pieces.push(piece.to_owned()),
                None => self.details.push((key, vec![piece.to_owned()])),
            }
        }
    }

    /// Returns all details as JSON, or `None` if there are none.
    fn take(&mut self) -> Option<String> {
        let Self { details, bytes, is_malformed } = std::mem::take(self);
        if details.is_empty() && !is_malformed {
            return None;
        }
        let joined: Option<Vec<String>> = details.iter().map(|(_, pieces)| join_pieces(pieces)).collect();
        let all = joined.map(|joined| format!("[{}]", joined.join(","))).filter(|all| !is_malformed && is_json(all));
        if all.is_none() {
            tracing::warn!(bytes, "reasoning_details are too large or unreadable and are not sent back");
        }
        all
    }
}

/// Joins the pieces of one detail.
fn join_pieces(pieces: &[Box<RawValue>]) -> Option<String> {
    if let [whole] = pieces {
        return Some(whole.get().to_owned());
    }
    let (mut texts, mut fields) = (BTreeMap::<&str, String>::new(), Fields::new());
    for piece in pieces {
        for (name, value) in serde_json::from_str::<Fields>(piece.get()).ok()? {
            if value.get() == "null" {
                fields.entry(name).or_insert(value);
            } else if let Some(joined) = JOINED.into_iter().find(|joined| *joined == name) {
                let more: String = serde_json::from_str(value.get()).ok()?;
                texts.entry(joined).or_default().push_str(&more);
            } else if name == SIGNATURE || fields.get(&name).is_none_or(|value| value.get() == "null") {
                fields.insert(name, value);
            }
        }
    }
    for (name, text) in texts {
        fields.insert(name.to_owned(), to_raw_value(&text).ok()?);
    }
    serde_json::to_string(&fields).ok()
}

/// Piece of a call as it arrives.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CallDelta<'a> {
    index: Option<Count>,
    id: Text<'a>,
    /// Signature of the call, which is sent back to its server.
    extra_content: Option<&'a RawValue>,
    function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct FunctionDelta<'a> {
    name: Text<'a>,
    /// Usually a string with a piece of JSON. Some servers send the JSON itself.
    arguments: Option<&'a RawValue>,
}

#[derive(Debug, Default)]
struct Calls {
    calls: Vec<NumberedCall>,
    bounds: CallBounds,
    /// Size of the server's own fields in bytes.
    field_bytes: usize,
}

#[derive(Debug)]
struct NumberedCall {
    index: Option<u64>,
    call: PartialCall,
    /// Scan state of the arguments.
    balance: Balance,
    /// True once the object of the arguments is complete.
    is_whole: bool,
}

impl Calls {
    fn add(&mut self, target: &Target, delta: &CallDelta<'_>, answer: &mut Answer) -> Result<(), Failure> {
        let (id, function) = (&*delta.id, delta.function.as_ref());
        let name = function.map_or("", |function| &*function.name);
        let arguments = function.and_then(|function| function.arguments).map(argument_text).unwrap_or_default();
        let index = delta.index.map(|index| index.0);
        let at = match self.find(index, id, name, &arguments) {
            Some(at) => at,
            None => {
                self.bounds.add_call(target)?;
                let (call, balance) = (PartialCall::new(id, ""), Balance::default());
                self.calls.push(NumberedCall { index, call, balance, is_whole: false });
                self.calls.len() - 1
            }
        };
        let NumberedCall { call, balance, is_whole, .. } = &mut self.calls[at];
        if let Some(extra) = delta.extra_content {
            self.field_bytes += extra.get().len();
            if self.field_bytes <= MAX_SERVER_FIELDS && is_json(extra.get()) {
                call.extra_content = Some(extra.get().to_owned());
            } else {
                tracing::warn!("the extra_content of a call is too large or unreadable and is not sent back");
            }
        }
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        // Some servers repeat the name with every piece, and a few split it.
        if call.name != name {
            call.name.push_str(name);
        }
        self.bounds.add_bytes(target, arguments.len() + name.len(), answer)?;
        call.push(&arguments, answer);
        *is_whole |= balance.end(call.arguments.as_bytes()).is_some();
        Ok(())
    }

    /// Returns all calls, in the order in which they started.
    fn take(&mut self) -> Vec<RawCall> {
        self.calls.drain(..).map(|numbered| numbered.call.read(false)).collect()
    }

    fn find(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let begins = |numbered: &NumberedCall| {
            let call = &numbered.call;
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            (other_id && !name.is_empty())
                || (call.id != id || id.is_empty()) && numbered.is_followed_by(name, arguments)
        };
        if let Some(index) = index {
            let at = self.calls.iter().rposition(|numbered| numbered.index == Some(index))?;
            return (!begins(&self.calls[at])).then_some(at);
        }
        if !id.is_empty() {
            return self.calls.iter().rposition(|numbered| numbered.call.id == id);
        }
        let last = self.calls.len().checked_sub(1)?;
        let second_name = !name.is_empty() && !self.calls[last].call.name.is_empty();
        (!second_name).then_some(last)
    }
}

impl NumberedCall {
    /// Returns true if a piece with this call's number starts another call: the piece has a name after complete
    /// arguments, or it is complete and follows a call with another name and no arguments. A name may be repeated with
    /// each piece, or be split.
    fn is_followed_by(&self, name: &str, arguments: &str) -> bool {
        let other_name = self.call.name != name;
        if name.is_empty() || self.call.name.is_empty() {
            return false;
        }
        if self.is_whole {
            return other_name || !arguments.trim().is_empty();
        }
        other_name && self.call.arguments.is_empty() && Balance::default().end(arguments.as_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_details(events: &[&str], expected: Option<&str>) {
        let mut details = ReasoningDetails::default();
        for event in events {
            details.add(&serde_json::from_str::<Box<RawValue>>(event).unwrap());
        }
        assert_eq!(details.take().as_deref(), expected, "{events:?}");
    }

    #[test]
    fn reasoning_chunks_are_joined_and_other_fields_stay_verbatim() {
        check_details(&[], None);
        check_details(&["null", "[]"], None);
        let encrypted = r#"{"type":"reasoning.encrypted", "data":"A\/b==","id":"x","format":"g","index":0}"#;
        check_details(&[&format!("[{encrypted}]")], Some(&format!("[{encrypted}]")));
        check_details(
            &[
                r#"[{"type":"reasoning.text","text":"Let","format":"a","index":0}]"#,
                r#"[{"type":"reasoning.text","text":" me \"see\".","format":"a","index":0,"signature":null}]"#,
                r#"[{"type":"reasoning.text","signature":"E\/t8=","format":"a","index":0}]"#,
                &format!("[{encrypted}]"),
            ],
            Some(&format!(
                r#"[{{"format":"a","index":0,"signature":"E\/t8=","text":"Let me \"see\".","type":"reasoning.text"}},{encrypted}]"#
            )),
        );
        // Without a number, each detail is complete.
        let whole = r#"{"type":"reasoning.text","text":"a"}"#;
        check_details(&[&format!("[{whole},{whole}]")], Some(&format!("[{whole},{whole}]")));
    }

    #[test]
    fn oversized_or_invalid_reasoning_is_dropped() {
        let oversized_detail =
            format!(r#"[{{"type":"reasoning.encrypted","data":"{}"}}]"#, "x".repeat(MAX_SERVER_FIELDS / 2));
        check_details(&[&oversized_detail, &oversized_detail, r#"[{"type":"a"}]"#], None);
        check_details(&[r#"[{"type":"a","text":"\ud83d"}]"#], None);
        check_details(&[r#""words""#], None);
        check_details(&[r#"[{"type":"a","index":1,"text":"a"},{"type":"a","index":1,"text":{}}]"#], None);
    }

    fn check(pieces: &[&str], expected: &[(&str, &str)]) {
        let target = Target::for_tests("http://h", "");
        let mut calls = Calls::default();
        for piece in pieces {
            calls.add(&target, &serde_json::from_str(piece).unwrap(), &mut Answer::default()).unwrap();
        }
        let calls = calls.take();
        let found: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(found, expected, "{pieces:?}");
    }

    #[test]
    fn call_deltas_are_assigned_to_their_calls() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"y","arguments":"{"}}"#,
                r#"{"index":0,"function":{"arguments":"{\"p\":"}}"#,
                r#"{"index":1,"function":{"arguments":"}"}}"#,
                r#"{"index":0,"function":{"arguments":"1}"}}"#,
            ],
            &[("x", r#"{"p":1}"#), ("y", "{}")],
        );
        // Every call has the number 0, but a distinct ID.
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"x","arguments":"{"}}"#,
                r#"{"index":0,"function":{"arguments":"}"}}"#,
            ],
            &[("x", "{}"), ("x", "{}")],
        );
        // No numbers: by ID, then the last one.
        check(
            &[
                r#"{"id":"a","function":{"name":"x","arguments":"{"}}"#,
                r#"{"id":"b","function":{"name":"y","arguments":"["}}"#,
                r#"{"id":"a","function":{"arguments":"}"}}"#,
                r#"{"function":{"arguments":"]"}}"#,
            ],
            &[("x", "{}"), ("y", "[]")],
        );
        // Neither numbers nor IDs.
        check(
            &[
                r#"{"function":{"name":"x","arguments":{"p":1}}}"#,
                r#"{"function":{"name":"x","arguments":"{"}}"#,
                r#"{"function":{"arguments":"}"}}"#,
            ],
            &[("x", r#"{"p":1}"#), ("x", "{}")],
        );
        // The name comes with every piece or is split, and numbers are absurd.
        check(
            &[
                r#"{"index":18446744073709551615,"function":{"name":"x","arguments":"{"}}"#,
                r#"{"index":18446744073709551615,"function":{"name":"x","arguments":"}"}}"#,
                r#"{"index":7,"function":{"name":"read_"}}"#,
                r#"{"index":7,"id":null,"function":{"name":"file","arguments":null}}"#,
                r#"{"index":7}"#,
            ],
            &[("x", "{}"), ("read_file", "")],
        );
    }

    #[test]
    fn calls_with_equal_index_and_no_id_stay_separate() {
        let whole = |name: &str, arguments: &str| {
            let function = serde_json::json!({"name": name, "arguments": arguments});
            serde_json::json!({"index": 0, "type": "function", "function": function}).to_string()
        };
        let check = |pieces: &[(&str, &str)], expected: &[(&str, &str)]| {
            let pieces: Vec<String> = pieces.iter().map(|(name, arguments)| whole(name, arguments)).collect();
            check(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        };
        let (read, grep) = (("read_file", r#"{"path":"}"}"#), ("grep", r#"{"pattern":"\"{"}"#));
        check(&[read, grep], &[read, grep]);
        check(&[read, read, grep], &[read, read, grep]);
        check(&[("now", "{}"), ("now", "{}")], &[("now", "{}"), ("now", "{}")]);
        check(&[("now", ""), read], &[("now", ""), read]);
        check(&[read, ("now", "")], &[read, ("now", "")]);
        // False positives: a name with each piece, with an object that ends within another one.
        check(&[("x", r#"{"a":"#), ("x", "{}"), ("x", "}"), ("x", "")], &[("x", r#"{"a":{}}"#)]);
        check(&[("x", ""), ("x", "{}")], &[("x", "{}")]);
        check(&[("read_", ""), ("file", ""), ("", "{}")], &[("read_file", "{}")]);
    }
}
