//! Events into the answer. `reasoning_details` are signed or encrypted thoughts: a signature holds for a whole thought, so that its pieces
//! are joined before they go back: those with the same number and type. All else stays as it came, byte for byte.

use std::{borrow::Cow, collections::BTreeMap};

use agentd_core::{
    model::Finish,
    origin::{MAX_SERVER_FIELDS, ServerFields},
    usage::Usage,
};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    calls::Calls,
    chunk::{Choice, Chunk, Delta},
    is_openrouter,
};
use crate::{
    answer::{Answer, Kind, RawCall},
    http::{failure::Failure, target::Target},
    wire::{
        dialect::{AnswerReader, parsed},
        lenient::is_json,
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
        let data = data.trim();
        if data == "[DONE]" {
            answer.finish.get_or_insert(Finish::Stop);
            answer.done = true;
            return Ok(());
        }
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
        if bare || chunk.object.is_some_and(is_error) {
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
        answer.push(Kind::Reasoning, delta.reasoning())?;
        if let Some(details) = delta.reasoning_details {
            self.details.add(details);
            answer.size += details.get().len();
        }
        for words in [&delta.content, &delta.refusal] {
            answer.push(Kind::Text, words)?;
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
    let in_extension = || chunk.x_groq.as_ref().and_then(|extension| extension.usage.as_ref());
    if let Some(usage) = chunk.usage.as_ref().or_else(in_choice).or_else(in_extension) {
        // Elsewhere a field of that name may mean anything.
        let charged = usage.charged_microusd().filter(|_| is_openrouter(target.host()));
        answer.usage = Some(Usage { cost_microusd: charged, ..usage.usage() });
    }
    if let Some(timings) = chunk.timings {
        answer.usage = Some(timings.complete(answer.usage));
    }
}

fn is_error(object: &RawValue) -> bool {
    object.get() == "\"error\""
}

/// Fields whose pieces are joined.
const JOINED: [&str; 2] = ["text", "summary"];
/// The field that comes with the last piece.
const SIGNATURE: &str = "signature";

type Fields = BTreeMap<String, Box<RawValue>>;

/// The details of one answer.
#[derive(Debug, Default)]
struct ReasoningDetails {
    details: Vec<Detail>,
    bytes: usize,
    /// Set if they are too large, or cannot be read: then none go back, for a part of them would be refused.
    dropped: bool,
}

#[derive(Debug)]
struct Detail {
    /// Number and type; none where it has no number, and so is whole.
    key: Option<(u64, String)>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    AsItCame(Box<RawValue>),
    Joined { texts: BTreeMap<&'static str, String>, fields: Fields },
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
        let added = match pieces {
            _ if self.dropped || self.bytes > MAX_SERVER_FIELDS => None,
            Ok(pieces) => pieces.unwrap_or_default().into_iter().try_for_each(|piece| self.piece(piece)),
            Err(_) => None,
        };
        if added.is_none() && !self.dropped {
            tracing::warn!(bytes = self.bytes, "reasoning_details are too large or cannot be read, and do not go back");
            *self = Self { dropped: true, ..Self::default() };
        }
    }

    /// All of them, as JSON; none where there are none.
    fn take(&mut self) -> Option<String> {
        let details = std::mem::take(&mut self.details);
        if details.is_empty() {
            return None;
        }
        let written: Option<Vec<String>> = details.into_iter().map(Detail::written).collect();
        let all = format!("[{}]", written?.join(","));
        is_json(&all).then_some(all)
    }

    fn piece(&mut self, raw: &RawValue) -> Option<()> {
        let labels = serde_json::from_str::<Labels<'_>>(raw.get()).ok();
        let key = labels.and_then(|labels| Some((labels.index?, labels.r#type.unwrap_or_default().into_owned())));
        let begun = self.details.iter_mut().rev().find(|detail| key.is_some() && detail.key == key);
        match begun {
            Some(detail) => detail.form.join(raw),
            None => {
                self.details.push(Detail { key, form: Form::AsItCame(raw.to_owned()) });
                Some(())
            }
        }
    }
}

impl Detail {
    fn written(self) -> Option<String> {
        match self.form {
            Form::AsItCame(raw) => Some(raw.get().to_owned()),
            Form::Joined { texts, mut fields } => {
                for (name, text) in texts {
                    fields.insert(name.to_owned(), to_raw_value(&text).ok()?);
                }
                serde_json::to_string(&fields).ok()
            }
        }
    }
}

impl Form {
    /// Joins another piece to it.
    fn join(&mut self, raw: &RawValue) -> Option<()> {
        if let Self::AsItCame(first) = self {
            let mut joined = Self::Joined { texts: BTreeMap::new(), fields: Fields::new() };
            joined.join(first)?;
            *self = joined;
        }
        let Self::Joined { texts, fields } = self else { return None };
        for (name, value) in serde_json::from_str::<Fields>(raw.get()).ok()? {
            if value.get() == "null" {
                fields.entry(name).or_insert(value);
            } else if let Some(joined) = JOINED.into_iter().find(|joined| *joined == name) {
                let more: String = serde_json::from_str(value.get()).ok()?;
                texts.entry(joined).or_default().push_str(&more);
            } else if name == SIGNATURE || fields.get(&name).is_none_or(|known| known.get() == "null") {
                fields.insert(name, value);
            }
        }
        Some(())
    }
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
