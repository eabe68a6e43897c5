//! Encrypted reasoning, as in OpenAI's Responses: each item must be sent back byte for byte, once and before the item
//! that followed it in the response, or not at all. Messages must be sent back with their phase.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    super::render::{raw_item, responses_items, responses_message, responses_reasoning},
    Reply,
};

/// Issued reasoning items, by ID.
#[derive(Debug, Default)]
pub(super) struct EncryptedThoughts {
    issued: HashMap<String, IssuedThought>,
    answers: usize,
}

#[derive(Debug)]
struct IssuedThought {
    number: usize,
    /// The item as it was sent.
    raw: String,
    /// Item that followed in the response, without its ID.
    follower: Value,
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    input: Vec<&'a RawValue>,
}

impl EncryptedThoughts {
    /// Adds encrypted reasoning to a reply, in one of the forms that occur in real responses.
    pub(super) fn dressed(&mut self, mut reply: Reply, request: &Value) -> Reply {
        let is_plain = reply.status == 200 && reply.body.is_none() && reply.events.is_none() && reply.fast.is_none();
        if !is_plain || reply.never {
            return reply;
        }
        self.answers += 1;
        let number = self.answers;
        for (at, call) in reply.tool_calls.iter_mut().enumerate() {
            call.id = call.id.take().filter(|id| !id.is_empty()).or(Some(format!("call_{number:04}_{at:03}")));
        }
        let thinks = request["include"].as_array().is_some_and(|wanted| wanted.iter().any(|item| item == INCLUDED));
        let mut items = responses_items(&reply);
        if thinks && !items.iter().any(|item| item["type"] == "reasoning") {
            let wants_summary = !request["reasoning"]["summary"].is_null();
            items = with_thoughts(items, number, wants_summary);
        }
        for item in items.iter_mut().filter(|item| item["id"] == "rs_scripted") {
            item["id"] = format!("rs_{number:04}_s").into();
        }
        for (at, item) in items.iter().enumerate().filter(|(_, item)| item["type"] == "reasoning") {
            let follower = items[at..].iter().find(|item| item["type"] != "reasoning").map(identity);
            let issued = IssuedThought {
                number: self.issued.len(),
                raw: raw_item(item),
                follower: follower.unwrap_or_default(),
            };
            self.issued.insert(item["id"].as_str().unwrap_or_default().to_owned(), issued);
        }
        reply.items = items;
        reply
    }

    /// Describes a reasoning item that was changed or moved, if any.
    pub(super) fn misplaced_item(&self, body: &[u8]) -> Option<String> {
        let Input { input } = serde_json::from_slice(body).ok()?;
        let items: Vec<Value> = input.iter().map(|raw| serde_json::from_str(raw.get()).unwrap_or_default()).collect();
        let mut last = None;
        for (at, (raw, item)) in
            input.iter().zip(&items).enumerate().filter(|(_, (_, item))| item["type"] == "reasoning")
        {
            let id = item["id"].as_str().unwrap_or_default();
            let Some(issued) = self.issued.get(id).filter(|issued| issued.raw == raw.get()) else {
                return Some(format!(
                    "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be \
                     decrypted or parsed. (input[{at}])"
                ));
            };
            if last.is_some_and(|last| last >= issued.number) {
                return Some(format!("Duplicate item found with id {id}, or the item is out of order."));
            }
            last = Some(issued.number);
            let follower = items[at..].iter().find(|item| item["type"] != "reasoning").map(identity);
            if follower.as_ref() != Some(&issued.follower) {
                return Some(format!(
                    "Item '{id}' of type 'reasoning' was provided without its required following item: {} and not {}",
                    follower.unwrap_or_default(),
                    issued.follower
                ));
            }
        }
        None
    }
}

/// Value of `include` that requests encrypted reasoning.
const INCLUDED: &str = "reasoning.encrypted_content";

/// Returns an item without the parts that need not be sent back.
fn identity(item: &Value) -> Value {
    match item["type"].as_str() {
        Some("message") => {
            let parts = item["content"].as_array().into_iter().flatten();
            let text: String = parts.filter_map(|part| part["text"].as_str()).collect();
            json!({"role": item["role"], "text": text, "phase": item["phase"]})
        }
        Some("function_call") => json!({"call_id": item["call_id"], "name": item["name"]}),
        _ => item.clone(),
    }
}

/// Adds reasoning before text and calls, in all forms that occur: with a summary if requested, without a summary, in
/// parts, and twice around a message before calls.
fn with_thoughts(items: Vec<Value>, number: usize, wants_summary: bool) -> Vec<Value> {
    let calls = items.iter().any(|item| item["type"] == "function_call");
    let thought = |at: usize, summary: &[&str]| {
        let encrypted = format!("gAAAA/+\u{e9}=={number:04}/{at}");
        let summary = if wants_summary { summary } else { &[] };
        responses_reasoning(&format!("rs_{number:04}_{at}"), summary, &encrypted)
    };
    let summary_text = format!("Thought \u{201c}{number}\u{201d}:\n\tlook first. ");
    let mut dressed = match number % 4 {
        0 => vec![thought(0, &[&summary_text])],
        1 => vec![thought(0, &[])],
        2 => vec![thought(0, &[&summary_text, "And then. "])],
        _ if !calls => vec![thought(0, &[&summary_text]), thought(1, &["And again."])],
        _ => {
            let part = json!({"type": "output_text", "text": "Well.", "annotations": []});
            let mut message = responses_message(&format!("msg_{number:04}"), &[part]);
            message["phase"] = "commentary".into();
            vec![thought(0, &[&summary_text]), message, thought(1, &["And again."])]
        }
    };
    let phased = items.into_iter().map(|mut item| {
        if item["type"] == "message" {
            item["phase"] = "final_answer".into();
        }
        item
    });
    dressed.extend(phased);
    dressed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_reasoning_must_return_verbatim_in_place() {
        let mut thoughts = EncryptedThoughts::default();
        let request = json!({"include": [INCLUDED], "reasoning": {"summary": "auto"}});
        let mut sent: Vec<String> = Vec::new();
        for _ in 0..4 {
            let reply = Reply { text: "Words.".to_owned(), ..Reply::tool_call("now", json!({})) };
            sent.extend(thoughts.dressed(reply, &request).items.iter().map(raw_item));
        }
        let misplaced_item =
            |items: &[String]| thoughts.misplaced_item(format!("{{\"input\":[{}]}}", items.join(",")).as_bytes());
        assert_eq!(misplaced_item(&sent), None);
        let check = |change: &dyn Fn(&mut Vec<String>), expected: Option<&str>| {
            let mut changed = sent.clone();
            change(&mut changed);
            let found = misplaced_item(&changed);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{expected:?}");
        };
        check(&|items| items[0] = items[0].replacen("{ ", "{", 1), Some("could not be verified"));
        check(&|items| drop(items.remove(1)), Some("without its required following item"));
        check(&|items| items[1] = items[1].replace("Words", "Others"), Some("without its required following item"));
        check(&|items| items[1] = items[1].replace("final_answer", "commentary"), Some("required following item"));
        check(&|items| items.insert(0, items[0].clone()), Some("Duplicate item"));
        check(&|items| items.truncate(1), Some("required following item"));
        check(&|items| items.rotate_left(3), Some("the item is out of order"));
        // Everything in a response except text and calls may be left out.
        check(&|items| drop(items.remove(0)), None);
    }
}
