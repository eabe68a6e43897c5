//! Sanitises parts of a conversation so that no server refuses them: a refused part would make the session unusable
//! permanently.
//!
//! Also the IDs of calls in a request. A server gets its own IDs back unchanged, as some encode the tool's name and the
//! call's number in them. All other calls get an ID that every server accepts, derived from ours, so that a call has
//! the same ID in every request.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use agentd_core::{ids::CallId, model::Message};
use serde_json::json;

use super::lenient::is_object;

/// Maximum length of a tool name that providers accept.
const MAX_NAME: usize = 64;

/// Text for a required user message without content.
pub(crate) const EMPTY_USER_MESSAGE: &str = "(go on)";
/// Text for an empty result.
pub(crate) const NO_OUTPUT: &str = "(no output)";
/// Text before pictures without text.
pub(crate) const PICTURES: &str = "(pictures)";

/// Returns the leading system messages, and all messages after them.
pub(crate) fn split_instructions(messages: &[Message]) -> (Vec<&str>, &[Message]) {
    let system_count = messages.iter().take_while(|message| matches!(message, Message::System { .. })).count();
    let (system, messages) = messages.split_at(system_count);
    let texts = system.iter().filter_map(|message| match message {
        Message::System { text } if !is_blank(text) => Some(text.as_str()),
        _ => None,
    });
    (texts.collect(), messages)
}

/// Returns true if a text is blank. Most servers accept blank text, but some servers and gateways reject the whole
/// conversation because of it.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns true if a text is not empty and only has letters, digits, `_` and `-`.
pub(crate) fn is_plain_id(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_plain)
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// Returns the name of a tool with unsupported characters replaced.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return "unknown".into();
    }
    if name.len() <= MAX_NAME && is_plain_id(name) {
        return name.into();
    }
    name.chars().take(MAX_NAME).map(|character| if is_plain(character) { character } else { '_' }).collect()
}

/// Returns the arguments of a call as a JSON object. Valid arguments keep their bytes; others are wrapped, as many
/// servers parse arguments to reformat them.
pub(crate) fn tool_arguments(arguments: &str) -> Cow<'_, str> {
    if arguments.trim().is_empty() {
        return "{}".into();
    }
    if is_object(arguments) {
        return arguments.into();
    }
    json!({ "invalid_json": arguments }).to_string().into()
}

/// Length of an ID that every server accepts: Mistral requires nine letters and digits, others allow at least forty.
const LENGTH: usize = 9;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// IDs of the calls of one request, assigned in order. An ID only depends on earlier calls, so that each call has the
/// same ID in the next request.
#[derive(Debug, Default)]
pub(crate) struct WireIds<'a> {
    assigned: HashMap<&'a CallId, Cow<'a, str>>,
    used: HashSet<Cow<'a, str>>,
}

impl<'a> WireIds<'a> {
    /// Returns the ID of a call. `server_id` is the ID that its server gave, if it may be used.
    pub(crate) fn of_call(&mut self, call: &'a CallId, server_id: Option<&'a str>) -> Cow<'a, str> {
        if let Some(id) = self.assigned.get(call) {
            return id.clone();
        }
        // Some servers number the calls of each answer from zero, so IDs may repeat.
        let server_id = server_id.filter(|id| !id.is_empty() && !self.used.contains(*id)).map(Cow::Borrowed);
        let mut short = (0..).map(|number| short_id(call.as_str(), number));
        let id =
            server_id.or_else(|| short.find(|id| !self.used.contains(id.as_str())).map(Cow::Owned)).unwrap_or_default();
        self.used.insert(id.clone());
        self.assigned.insert(call, id.clone());
        id
    }

    /// Returns the ID of the call that a result belongs to.
    pub(crate) fn of_result(&mut self, call: &'a CallId) -> Cow<'a, str> {
        self.of_call(call, None)
    }
}

/// Returns an ID of nine letters and digits, derived from a text and a number.
fn short_id(text: &str, number: u64) -> String {
    // FNV-1a, then the finaliser of SplitMix64. Must never change, as sent IDs must stay the same.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes().chain(number.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    let mut id = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        let digit = usize::try_from(hash % DIGITS.len() as u64).unwrap_or_default();
        id.push(char::from(DIGITS[digit]));
        hash /= DIGITS.len() as u64;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_tool_names_and_arguments_are_sanitised() {
        let check = |name: &str, arguments: &str, expected: (&str, &str)| {
            assert_eq!((tool_name(name).as_ref(), tool_arguments(arguments).as_ref()), expected);
        };
        check("read_file", "", ("read_file", "{}"));
        check("", "{\"a\":", ("unknown", r#"{"invalid_json":"{\"a\":"}"#));
        check("functions.read file", "[1]", ("functions_read_file", r#"{"invalid_json":"[1]"}"#));
        check("x", r#"{"a":"\ud83d"}"#, ("x", r#"{"invalid_json":"{\"a\":\"\\ud83d\"}"}"#));
        assert_eq!(tool_name(&"x".repeat(100)).len(), MAX_NAME);
    }

    fn call(id: &str) -> CallId {
        CallId::from(id.to_owned())
    }

    #[test]
    fn server_call_ids_stay_and_duplicates_are_replaced() {
        let calls = [call("a"), call("b"), call("c"), call("d")];
        let mut ids = WireIds::default();
        assert_eq!(ids.of_call(&calls[0], Some("functions.now:0")), "functions.now:0");
        let replaced = ids.of_call(&calls[1], Some("functions.now:0"));
        let none = ids.of_call(&calls[2], None);
        let blank = ids.of_call(&calls[3], Some(""));
        for id in [&replaced, &none, &blank] {
            assert!(id.len() == LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        }
        assert_eq!(HashSet::from([&replaced, &none, &blank]).len(), 3);
        assert_eq!(ids.of_result(&calls[0]), "functions.now:0");
        assert_eq!(ids.of_result(&calls[1]), replaced);
    }

    #[test]
    fn short_call_ids_are_stable_and_unique() {
        assert_eq!(short_id("call_01a2062d70bd3a7d02865118", 0), "hMhs2rbkF");
        let ids: HashSet<String> = (0..100_000).map(|n| short_id(&format!("call_{n}"), 0)).collect();
        assert_eq!(ids.len(), 100_000);
    }

    #[test]
    fn call_id_collisions_resolve_deterministically() {
        let (first, other) = (call("call_1"), call("call_2"));
        // A server's ID equals the one that another call would get.
        let server_id = short_id("call_2", 0);
        let mut ids = WireIds::default();
        ids.of_call(&first, Some(&server_id));
        assert_eq!(ids.of_call(&other, None), short_id("call_2", 1));
        // If the server's ID arrives later than the equal one, the server's ID is replaced.
        let mut ids = WireIds::default();
        assert_eq!(ids.of_call(&other, None), server_id);
        assert_eq!(ids.of_call(&first, Some(&server_id)), short_id("call_1", 0));
    }
}
