//! Events into the answer. They are typed and borrowed, because they are read hundreds of thousands of times per second; lenient in
//! every place where servers are known to differ. `reasoning_details` are signed or encrypted thoughts: a signature holds for a whole thought, so that its pieces
//! are joined before they go back: those with the same number and type. All else stays as it came, byte for byte.

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

use super::{
    calls::{CallDelta, Calls},
    is_openrouter,
};
use crate::{
    answer::{Answer, Kind, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        dialect::{AnswerReader, parsed},
        lenient::{Count, Text, counted, is_json, with_cache},
    },
};

/// Reads one answer.
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
        let chunk: Chunk<'_> = parsed(target, data)?;
        // First, for an answer that failed is paid for, too.
        account(target, &chunk, answer);
        if let Some(error) = chunk.error {
            return Err(Failure::reported(target, error.get()));
        }
        let bare = chunk.choices.is_none() && chunk.message.is_some_and(|message| message.get().starts_with('"'));
        if bare || chunk.object.is_some_and(|object| object.get() == "\"error\"") {
            return Err(Failure::reported(target, data));
        }
        for choice in chunk.choices.iter().flatten() {
            // Only one answer is asked for; a server that sends more is read as if it had not.
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
    /// Several events in an array, in which Gemini wraps its errors.
    fn array(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure> {
        let events: Vec<&RawValue> = parsed(target, data)?;
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
        for words in [&delta.content, &delta.refusal] {
            answer.push(Kind::Text, words);
        }
        delta.tool_calls.iter().flatten().try_for_each(|call| self.calls.add(target, call, answer))
    }
}

fn finish(target: &Target, reason: &str) -> Result<Option<Finish>, Failure> {
    // Gateways hand on what providers say in capitals, such as MAX_TOKENS.
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
    if let Some(told) = chunk.usage.as_ref().or_else(in_choice).or_else(in_extension) {
        // Elsewhere a field of that name may mean anything.
        let charged = charged_microusd(told).filter(|_| is_openrouter(target.host()));
        answer.usage = Some(Usage { cost_microusd: charged, ..usage(told) });
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
    /// llama.cpp's own account.
    timings: Option<Timings>,
    /// Groq's place for the usage.
    x_groq: Option<Value>,
    error: Option<&'a RawValue>,
    /// `error` where the whole event is one.
    object: Option<&'a RawValue>,
    /// Message of an error that comes without a wrapping, as older llama.cpp's do.
    message: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Choice<'a> {
    index: Option<Count>,
    delta: Option<Delta<'a>>,
    /// In place of the delta, in a whole answer.
    message: Option<Delta<'a>>,
    finish_reason: Text<'a>,
    /// Moonshot's place for the usage.
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
    /// Signed or encrypted thoughts, which go back to their server.
    reasoning_details: Option<&'a RawValue>,
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

impl Delta<'_> {
    /// The words of reasoning. Some servers send the same words under two names.
    fn reasoning(&self) -> &str {
        let places = [&*self.reasoning_content, &self.reasoning, &self.thinking];
        places.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
    }
}

/// Dollars that no single request costs.
const MAX_CHARGE: f64 = 10_000.0;

/// Tokens that an answer took, in the many shapes in which servers say it.
fn usage(told: &Value) -> Usage {
    // DeepSeek's and Moonshot's names are the last.
    let cached_tokens =
        counted(told, ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"]);
    // The last is LiteLLM's name.
    let cache_write_tokens = counted(
        told,
        [
            "/prompt_tokens_details/cache_write_tokens",
            "/prompt_tokens_details/cache_creation_tokens",
            "/cache_creation_input_tokens",
        ],
    );
    let request = counted(told, ["/prompt_tokens"]);
    let reasoning_tokens = counted(told, ["/completion_tokens_details/reasoning_tokens", "/reasoning_tokens"]);
    let answer = counted(told, ["/completion_tokens"]);
    let whole = answer.saturating_add(reasoning_tokens);
    // Some servers count thoughts beside the answer: xAI's does.
    let is_beside = reasoning_tokens > answer
        || reasoning_tokens > 0 && counted(told, ["/total_tokens"]) == request.saturating_add(whole);
    Usage {
        prompt_tokens: with_cache(request, cached_tokens, cache_write_tokens),
        cached_tokens,
        cache_write_tokens,
        completion_tokens: if is_beside { whole } else { answer },
        reasoning_tokens,
        ..Usage::default()
    }
}

/// Money that OpenRouter charges for the request, in millionths of a dollar: with that of the model's provider, where it charges
/// a key of the person's own.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before the cast")]
fn charged_microusd(told: &Value) -> Option<u64> {
    let dollars = |place: &str| {
        let price = told.pointer(place)?;
        price.as_f64().or_else(|| price.as_str()?.trim().parse().ok())
    };
    let upstream = dollars("/cost_details/upstream_inference_cost").filter(|_| told["is_byok"] == true);
    let charged = dollars("/cost")? + upstream.unwrap_or_default();
    (0.0..MAX_CHARGE).contains(&charged).then(|| (charged * 1e6).round() as u64)
}

/// llama.cpp's account of one answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Timings {
    /// Tokens out of the cache.
    cache_n: Count,
    /// Tokens of the request that were computed.
    prompt_n: Count,
    /// Tokens of the answer.
    predicted_n: Count,
}

impl Timings {
    /// Puts what the account adds to what is known already.
    pub(crate) fn complete(&self, known: Option<Usage>) -> Usage {
        let mut usage = known.unwrap_or_else(|| Usage {
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
/// The field that comes with the last piece.
const SIGNATURE: &str = "signature";

type Fields = BTreeMap<String, Box<RawValue>>;

/// The pieces of a detail, with its number and type; without those where it has no number, and so is whole.
type DetailPieces = (Option<(u64, String)>, Vec<Box<RawValue>>);

/// The details of one answer.
#[derive(Debug, Default)]
struct ReasoningDetails {
    details: Vec<DetailPieces>,
    bytes: usize,
    /// Set if they are too large, or cannot be read: then none go back, for a part of them would be refused.
    is_odd: bool,
}

#[derive(Deserialize)]
struct Labels<'a> {
    #[serde(borrow)]
    r#type: Option<Cow<'a, str>>,
    index: Option<u64>,
}

impl ReasoningDetails {
    /// Adds what one event has of them: an array, or nothing.
    fn add(&mut self, raw: &RawValue) {
        self.bytes += raw.get().len();
        let pieces = serde_json::from_str::<Option<Vec<&RawValue>>>(raw.get());
        let Some(pieces) = pieces.ok().filter(|_| self.bytes <= MAX_SERVER_FIELDS) else {
            self.is_odd = true;
            return;
        };
        for piece in pieces.into_iter().flatten() {
            let labels = serde_json::from_str::<Labels<'_>>(piece.get()).ok();
            let key = labels.and_then(|labels| Some((labels.index?, labels.r#type.unwrap_or_default().into_owned())));
            match self.details.iter_mut().rev().find(|(begun, _)| key.is_some() && *begun == key) {
                Some((_, pieces)) => pieces.push(piece.to_owned()),
                None => self.details.push((key, vec![piece.to_owned()])),
            }
        }
    }

    /// All of them, as JSON; none where there are none.
    fn take(&mut self) -> Option<String> {
        let Self { details, bytes, is_odd } = std::mem::take(self);
        if details.is_empty() && !is_odd {
            return None;
        }
        let written: Option<Vec<String>> = details.iter().map(|(_, pieces)| joined(pieces)).collect();
        let all = written.map(|written| format!("[{}]", written.join(","))).filter(|all| !is_odd && is_json(all));
        if all.is_none() {
            tracing::warn!(bytes, "reasoning_details are too large or cannot be read, and do not go back");
        }
        all
    }
}

/// A thought out of its pieces.
fn joined(pieces: &[Box<RawValue>]) -> Option<String> {
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
            } else if name == SIGNATURE || fields.get(&name).is_none_or(|known| known.get() == "null") {
                fields.insert(name, value);
            }
        }
    }
    for (name, text) in texts {
        fields.insert(name.to_owned(), to_raw_value(&text).ok()?);
    }
    serde_json::to_string(&fields).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(events: &[&str], expected: Option<&str>) {
        let mut details = ReasoningDetails::default();
        for event in events {
            details.add(&serde_json::from_str::<Box<RawValue>>(event).unwrap());
        }
        assert_eq!(details.take().as_deref(), expected, "{events:?}");
    }

    #[test]
    fn pieces_of_a_thought_are_joined_and_all_else_stays_as_it_came() {
        check(&[], None);
        check(&["null", "[]"], None);
        let encrypted = r#"{"type":"reasoning.encrypted", "data":"A\/b==","id":"x","format":"g","index":0}"#;
        check(&[&format!("[{encrypted}]")], Some(&format!("[{encrypted}]")));
        check(
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
        // Without a number each is whole.
        let whole = r#"{"type":"reasoning.text","text":"a"}"#;
        check(&[&format!("[{whole},{whole}]")], Some(&format!("[{whole},{whole}]")));
    }

    #[test]
    fn what_is_too_large_or_no_text_goes_nowhere() {
        let large = format!(r#"[{{"type":"reasoning.encrypted","data":"{}"}}]"#, "x".repeat(MAX_SERVER_FIELDS / 2));
        check(&[&large, &large, r#"[{"type":"a"}]"#], None);
        check(&[r#"[{"type":"a","text":"\ud83d"}]"#], None);
        check(&[r#""words""#], None);
        check(&[r#"[{"type":"a","index":1,"text":"a"},{"type":"a","index":1,"text":{}}]"#], None);
    }
}
