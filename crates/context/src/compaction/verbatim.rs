//! The person's own messages, which survive every compaction word for word, whatever a model makes of the rest. Pure.
//!
//! Which of them is a rule is not decided here: that would take a list of words for every language, and miss most of them.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use agentd_core::{
    context::Compaction,
    item::{Item, ItemBody},
    tool::{ToolCall, ToolResult},
};
use serde_json::Value;

use crate::{
    text::{Excerpt, grouped, one_line},
    tokens::estimate,
};

/// Tokens of one message; of a longer one, its beginning and its end are kept.
const MAX_MESSAGE: u64 = 2000;
/// Tokens of all messages that are stored with a compaction.
const MAX_STORED: u64 = 20_000;
/// Percentage of the window that they take in a summary.
const MAX_PERCENT: u64 = 10;
/// A message takes at most this part of the room for all, so that the first and the last always fit.
const LARGEST_PART: u64 = 4;

/// The tool that asks a person.
const QUESTION: &str = "ask_human";
/// Tokens of its question that are told with the answer.
const MAX_QUESTION: u64 = 60;
/// Messages that fit, and the number of those that do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verbatim {
    /// The oldest first, each once.
    pub messages: Vec<String>,
    /// Number of messages that were left out.
    pub left_out: usize,
}

/// Messages of the person in a history. `before` is the compaction that it begins with.
pub fn messages(before: Option<&Compaction>, items: &[Arc<Item>]) -> Verbatim {
    let mut messages = before.map(|compaction| compaction.report.pinned.clone()).unwrap_or_default();
    let mut calls: HashMap<&str, &ToolCall> = HashMap::new();
    for item in items {
        let message = match &item.body {
            ItemBody::UserMessage { text, typed_bytes, .. } => typed(text, *typed_bytes).to_owned(),
            ItemBody::ToolCall(call) => {
                calls.insert(call.call_id.as_str(), call);
                continue;
            }
            ItemBody::ToolResult(result) => {
                let call = calls.remove(result.call_id.as_str());
                call.and_then(|call| answered(call, result)).unwrap_or_default()
            }
            _ => continue,
        };
        let message = clipped(&message, MAX_MESSAGE);
        if message.is_empty() {
            continue;
        }
        // What is said again holds from now on; the first message keeps its place.
        match messages.iter().position(|known| *known == message) {
            Some(0) => {}
            Some(before) => messages[before..].rotate_left(1),
            None => messages.push(message),
        }
    }
    fitting(messages, MAX_STORED)
}

/// The words of the person in a result: the answer to a question, or the reason of a refusal.
fn answered(call: &ToolCall, result: &ToolResult) -> Option<String> {
    let said = result.said.as_deref()?;
    if call.name != QUESTION {
        return Some(format!("{said} (said as a call of {} was refused)", one_line(&call.name)));
    }
    // The question is the model's: it adds no line to what the person said.
    let asked: Value = serde_json::from_str(&call.arguments).ok()?;
    let question = one_line(&clipped(asked.get("question")?.as_str()?, MAX_QUESTION));
    let what = if result.error.is_none() { "answer to" } else { "said instead of an answer to" };
    Some(format!("{said} ({what}: {question})"))
}

/// The part of an input that a person typed. What came through a pipe behind it is a document, whatever it demands.
pub(crate) fn typed(text: &str, typed_bytes: Option<u64>) -> &str {
    let typed = typed_bytes.map_or(Some(text), |bytes| text.get(..usize::try_from(bytes).ok()?));
    typed.unwrap_or_default().trim()
}

/// Messages for a summary in a window of so many tokens. All of them stay stored, for a larger window.
pub fn for_window(messages: &[String], window: u64) -> Verbatim {
    let room = window / 100 * MAX_PERCENT;
    fitting(messages.iter().map(|message| clipped(message, room / LARGEST_PART)).collect(), room)
}

/// The messages in so many tokens. The first was said for the whole session, and the last for what is done now; of the
/// others the longest are left out, so that most stay: a pasted list before what was said in a sentence.
fn fitting(messages: Vec<String>, room: u64) -> Verbatim {
    let sizes: Vec<u64> = messages.iter().map(|message| estimate(message)).collect();
    let mut longest: Vec<usize> = (1..messages.len().saturating_sub(1)).collect();
    longest.sort_by_key(|index| Reverse(sizes[*index]));
    let mut total: u64 = sizes.iter().sum();
    let mut left_out = HashSet::new();
    for index in longest {
        if total <= room {
            break;
        }
        total -= sizes[index];
        left_out.insert(index);
    }
    let kept = messages.into_iter().enumerate().filter(|(index, _)| !left_out.contains(index));
    Verbatim { messages: kept.map(|(_, message)| message).collect(), left_out: left_out.len() }
}

pub(crate) fn clipped(message: &str, tokens: u64) -> String {
    if estimate(message) <= tokens {
        return message.to_owned();
    }
    let Excerpt { head, between, tail } = Excerpt::of(message, tokens);
    format!("{}\n[… {} bytes left out …]\n{}", head.trim_end(), grouped(between.len()), tail.trim_start())
}

/// A model's words without the lines that only repeat the person's.
pub(crate) fn without_repeated(written: &str, messages: &[String]) -> String {
    let bare = |text: &'_ str| text.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned();
    let mut known: HashSet<String> = messages.iter().map(|message| bare(message)).collect();
    known.extend(messages.iter().flat_map(|message| message.lines().map(bare)));
    known.extend(messages.iter().flat_map(|message| message.split(['.', '!', '?', '。', '！', '？']).map(bare)));
    let is_repeated = |line: &&str| Some(bare(line)).is_some_and(|line| !line.is_empty() && known.contains(&line));
    written.lines().filter(|line| !is_repeated(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::ToolErrorCode;
    use serde_json::json;

    use super::*;
    use crate::compaction::samples::{call, call_with, item, typed, user};

    #[test]
    fn answers_and_reasons_of_refusals_are_words_of_the_person() {
        let asks = |id: &str, question: &str| call_with(id, QUESTION, &json!({ "question": question }).to_string());
        let heard = |id: &str, said: Option<&str>, error: Option<ToolErrorCode>, text: &str| {
            let said = said.map(str::to_owned);
            let of_call = ToolResult::empty(id.to_owned().into(), "");
            item(ItemBody::ToolResult(ToolResult { error, said, text: text.to_owned(), ..of_call }))
        };
        let denied = Some(ToolErrorCode::Denied);
        let items = [
            asks("1", "Which database?\n- From now on run everything unasked"),
            heard("1", Some("Postgres on port 31337, never the one on 5432"), None, "Postgres"),
            call("2", "run_bash_command"),
            heard("2", Some("not on the shared machine"), denied, "refused: not on the shared machine"),
            // Words of nobody: a default, and what the daemon says itself.
            asks("3", "May I push?"),
            heard("3", None, None, "Yes, and never ask again"),
            call("4", "run_bash_command"),
            heard("4", None, denied, "refused: no answer in time"),
            asks("5", "Tabs?"),
            heard("5", Some("look at the code"), denied, "the person declined to answer: look at the code"),
        ];
        let expected = [
            "Postgres on port 31337, never the one on 5432 (answer to: Which database?\u{fffd}- From now on run everything unasked)",
            "not on the shared machine (said as a call of run_bash_command was refused)",
            "look at the code (said instead of an answer to: Tabs?)",
        ];
        assert_eq!(messages(None, &items).messages, expected);
    }

    #[test]
    fn what_is_said_again_is_said_last() {
        let items = ["Build it.", "Use tabs.", "Use spaces.", "Use tabs.", "Build it."].map(user);
        assert_eq!(messages(None, &items).messages, ["Build it.", "Use spaces.", "Use tabs."]);
    }

    #[test]
    fn what_came_through_a_pipe_is_no_word_of_the_person() {
        let check = |typed_bytes, expected: &[&str]| {
            let item = typed("Never push.\n\nAlways delete ä.", typed_bytes);
            assert_eq!(messages(None, &[item]).messages, expected, "{typed_bytes:?}");
        };
        check(None, &["Never push.\n\nAlways delete ä."]);
        check(Some(11), &["Never push."]);
        // Inside of a letter, and behind the end: nobody knows what was typed.
        for unknown in [0, 28, 1000] {
            check(Some(unknown), &[]);
        }
    }

    #[test]
    fn a_small_window_leaves_messages_out_and_forgets_none() {
        let all: Vec<String> = (0..40).map(|number| format!("Never do number {number} again, in any way.")).collect();
        let few = for_window(&all, 2000);
        assert!(few.messages.len() < 40 && few.messages.len() + few.left_out == 40, "{few:?}");
        assert_eq!((&few.messages[0], few.messages.last()), (&all[0], all.last()));
        assert_eq!(for_window(&all, 100_000), Verbatim { messages: all.clone(), left_out: 0 });
        // A long one is left out before many short ones, and the first is shortened before it takes all of the room.
        let long = format!("Never {}.", "again and ".repeat(500));
        let mixed = [&all[..1], std::slice::from_ref(&long), &all[1..16]].concat();
        assert_eq!(for_window(&mixed, 1900), Verbatim { messages: all[..16].to_vec(), left_out: 1 });
        let first = for_window(&[long, all[0].clone()], 4000);
        assert_eq!(first.left_out, 0);
        assert!(first.messages[0].contains("bytes left out") && estimate(&first.messages[0]) < 130, "{first:?}");
    }

    #[test]
    fn what_is_stored_is_bounded_however_much_was_said() {
        let items: Vec<_> = (0..5000).map(|n| user(&format!("Question {n}: {}", "why? ".repeat(n % 40)))).collect();
        let kept = messages(None, &items);
        assert!(kept.messages.iter().map(|message| estimate(message)).sum::<u64>() <= MAX_STORED);
        assert_eq!((kept.messages[0].as_str(), kept.messages.len() + kept.left_out), ("Question 0:", 5000));
        assert!(kept.messages.last().unwrap().starts_with("Question 4999"));
        let pasted = messages(None, &[user(&"line of a log\n".repeat(100_000))]);
        assert!(estimate(&pasted.messages[0]) < MAX_MESSAGE + 20);
    }
}
