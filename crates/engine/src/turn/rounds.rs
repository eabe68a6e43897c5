//! Detects repeated calls: answers of a turn that make the same calls with the same results, in a row or in cycles of
//! two or three. No side effects. A link warns the model, and [`super::step`] ends the turn.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::Arc,
};

use agentd_core::{
    ids::{CallId, TurnId},
    item::{Item, ItemBody, NoticeTopic},
    tool::{ToolCall, ToolErrorCode, ToolResult},
    turn::StopReason,
};
use serde_json::Value;

/// Numbers of equal rounds after which the model is warned, and after which the turn ends.
pub(crate) const WARN_AFTER: usize = 3;
pub(crate) const END_AFTER: usize = 6;

/// Number of answers in the longest cycle that is detected.
const MAX_CYCLE: usize = 3;

/// Outcome recorded for every call to a tool that was not offered to the model.
const UNKNOWN_TOOL: u64 = 0;

/// Words that mark a call as polling, and the duration in milliseconds above which it waits. Polling repeats by design.
const POLL_WORDS: [&str; 3] = ["sleep", "wait", "watch"];
const MIN_WAIT_MS: u64 = 1_000;

/// Units of durations in program output.
const UNITS: [&str; 12] = ["ns", "us", "µs", "ms", "s", "m", "h", "sec", "secs", "second", "seconds", "min"];

/// Maximum length of a tool's name in a message, in characters, because the name was written by a model.
const MAX_NAME: usize = 64;

/// Fingerprint of a call, and of its outcome once there is one.
#[derive(Debug)]
struct OpenCall {
    id: CallId,
    print: u64,
    polls: bool,
    outcome: Option<u64>,
}

/// The latest answers with calls since the user's last message.
#[derive(Debug, Default)]
pub(crate) struct CallRounds {
    /// Calls of the last answer until all have results.
    open: Vec<OpenCall>,
    /// Fingerprints of earlier answers, oldest first.
    answers: VecDeque<u64>,
    /// True once the model was warned about these rounds.
    pub(crate) is_warned: bool,
    /// The tool that was called last.
    pub(crate) tool: String,
}

impl CallRounds {
    /// Returns the rounds of the previous turn, if that turn was interrupted because the daemon stopped and this turn
    /// continues it.
    pub(crate) fn before(turn: Option<TurnId>, history: &[Arc<Item>], last: Option<StopReason>) -> Self {
        let mut rounds = Self::default();
        if matches!(last, Some(StopReason::Interrupted | StopReason::Suspended)) {
            let before = history.iter().filter(|item| Some(item.turn_id) != turn);
            before.for_each(|item| rounds.record_item(&item.body));
        }
        rounds
    }

    /// Forgets the answers, because the user sent new input.
    pub(crate) fn start_over(&mut self) {
        (self.answers, self.is_warned) = (VecDeque::new(), false);
    }

    /// Records an item of the history.
    pub(crate) fn record_item(&mut self, item: &ItemBody) {
        match item {
            ItemBody::ToolCall(call) => self.call(call),
            ItemBody::ToolResult(result) => self.result(result),
            ItemBody::Notice { topic: NoticeTopic::Repetition, .. } => self.is_warned = true,
            // A user who continues after a final answer has seen how that turn ended.
            ItemBody::UserMessage { .. } | ItemBody::Notice { topic: NoticeTopic::LastAnswer, .. } => self.start_over(),
            _ => {}
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let arguments = serde_json::from_str::<Value>(&call.arguments).map_err(|_| &call.arguments);
        let print = fingerprint(&(&call.name, arguments));
        let is_poll =
            |text: &str| text.split(|letter: char| !letter.is_alphanumeric()).any(|word| POLL_WORDS.contains(&word));
        let polls = is_poll(&call.name) || is_poll(&call.arguments);
        self.open.push(OpenCall { id: call.call_id.clone(), print, polls, outcome: None });
        self.tool = call.name.chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect();
    }

    /// Records a result. Answers are compared only when complete, because results are sent to a model only when all
    /// have arrived.
    fn result(&mut self, result: &ToolResult) {
        if result.said.is_some() {
            self.start_over();
        }
        let Some(call) = self.open.iter_mut().find(|call| call.id == result.call_id) else { return };
        call.outcome = Some(outcome(call, result));
        let Some(mut outcomes) = self.open.iter().map(|call| call.outcome).collect::<Option<Vec<u64>>>() else {
            return;
        };
        self.open.clear();
        // Several unknown tools in one answer count as one mistake.
        outcomes.dedup();
        if self.answers.len() == END_AFTER * MAX_CYCLE {
            self.answers.pop_front();
        }
        self.answers.push_back(fingerprint(&outcomes));
        self.is_warned &= self.repeated() >= WARN_AFTER;
    }

    /// Returns true if the last answer called only tools that were not offered.
    pub(crate) fn is_unknown(&self) -> bool {
        self.answers.back() == Some(&fingerprint(&vec![UNKNOWN_TOOL]))
    }

    /// Returns the number of equal rounds at the end.
    pub(crate) fn repeated(&self) -> usize {
        let equal = |period: usize| {
            let newest = self.answers.iter().rev();
            let equal_pairs = newest.clone().zip(newest.skip(period)).take_while(|(one, other)| one == other);
            (equal_pairs.count() + period) / period
        };
        (1..=MAX_CYCLE).map(equal).max().unwrap_or_default()
    }
}

/// Returns a fingerprint that is stable across restarts.
pub(crate) fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns a fingerprint of a failure without the parts that vary: durations (`after 0.3 s`, `finished in 12ms`),
/// times, addresses and random identifiers.
fn failure_fingerprint(text: &str) -> u64 {
    let mut tokens = text.split(char::is_whitespace).peekable();
    let mut stable = Vec::new();
    while let Some(token) = tokens.next() {
        let number = trim_brackets(token);
        let is_number = !number.is_empty() && number.trim_start_matches(is_digit_or_dot).is_empty();
        let has_unit = is_number && tokens.next_if(|unit| UNITS.contains(&trim_brackets(unit))).is_some();
        if !has_unit && !is_duration(number) && !is_stamp(number) {
            stable.push(token);
        }
    }
    fingerprint(&stable)
}

fn trim_brackets(word: &str) -> &str {
    word.trim_matches(['(', ')', '[', ']', ',', ';', ':', '.'])
}

/// Returns true for numbers with units, such as `0.53s` and `1m3.5s`.
fn is_duration(word: &str) -> bool {
    let mut units = word.split(is_digit_or_dot).filter(|unit| !unit.is_empty()).peekable();
    word.starts_with(is_digit_or_dot) && units.peek().is_some() && units.all(|unit| UNITS.contains(&unit))
}

/// Returns true for times (`11:20:48`, `2026-11-30T11:20:48Z`), addresses (`0x7f3a…`), hashes and similar values.
fn is_stamp(word: &str) -> bool {
    let is_part =
        |letter: char| letter.is_ascii_hexdigit() || matches!(letter, ':' | '-' | '+' | '.' | 'x' | 'T' | 'Z');
    word.len() >= 8 && word.contains(|letter: char| letter.is_ascii_digit()) && word.chars().all(is_part)
}

fn is_digit_or_dot(letter: char) -> bool {
    letter.is_ascii_digit() || letter == '.'
}

/// Returns the outcome of a subagent's work, without its ID and step count, which vary.
fn subagent_outcome(text: &str) -> Option<Value> {
    if !text.starts_with('{') || !text.contains("\"context_id\"") {
        return None;
    }
    let mut work: Value = serde_json::from_str(text).ok()?;
    let fields = work.as_object_mut()?;
    fields.retain(|name, _| name != "context_id" && name != "loops");
    Some(work)
}

fn outcome(call: &OpenCall, result: &ToolResult) -> u64 {
    if result.error == Some(ToolErrorCode::UnknownTool) {
        return UNKNOWN_TOOL;
    }
    let text = result.own_text();
    // The first line of a command's output contains its duration and exit code.
    let shown = if result.exit_code.is_some() { text.split_once('\n').map_or("", |(_, shown)| shown) } else { text };
    let failed = result.error.is_some() || result.exit_code.is_some_and(|code| code != 0);
    let text = match subagent_outcome(shown) {
        Some(work) => fingerprint(&work),
        None if failed => failure_fingerprint(shown),
        None => result.unchanged.unwrap_or_else(|| fingerprint(&shown)),
    };
    let files: Vec<_> =
        result.files.iter().map(|file| (&file.path, file.after.as_ref().map(|after| &after.hash))).collect();
    let waits = (call.polls && result.duration_ms >= MIN_WAIT_MS).then_some(&result.call_id);
    fingerprint(&(call.print, text, result.error, result.exit_code, files, waits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rounds after these answers. A letter is a call with its own arguments, `+` joins calls of one
    /// answer, and an upper-case letter is the same call with another result. `?` is an unknown tool, `~` a call that
    /// polls and waits, `-` a call that only polls, `/` a call that is only slow, `n` a warning, and `!` a message from
    /// the user.
    fn after(answers: &str) -> CallRounds {
        let mut rounds = CallRounds::default();
        for answer in answers.split(' ').filter(|answer| !answer.is_empty()) {
            match answer {
                "n" => rounds.is_warned = true,
                "!" => rounds.start_over(),
                calls => {
                    let calls: Vec<(char, ToolCall)> = calls
                        .split('+')
                        .filter_map(|call| call.chars().next())
                        .map(|letter| {
                            let polls = if matches!(letter, '~' | '-') { "sleep " } else { "" };
                            let arguments = format!("{{\"a\": \"{polls}{}\"}}", letter.to_ascii_lowercase());
                            (letter, ToolCall { call_id: CallId::generate(), name: "look".to_owned(), arguments })
                        })
                        .collect();
                    calls.iter().for_each(|(_, call)| rounds.call(call));
                    // Results arrive in any order.
                    for (letter, call) in calls.into_iter().rev() {
                        let text = if letter.is_uppercase() { "another" } else { "one" }.to_owned();
                        let error = (letter == '?').then_some(ToolErrorCode::UnknownTool);
                        let duration_ms = if matches!(letter, '~' | '/') { MIN_WAIT_MS } else { 1 };
                        let empty = ToolResult::empty(call.call_id, call.name);
                        rounds.result(&ToolResult { text, error, duration_ms, ..empty });
                    }
                }
            }
        }
        rounds
    }

    #[test]
    fn failure_fingerprint_ignores_durations() {
        let check = |one: &str, other: &str, are_equal: bool| {
            assert_eq!(failure_fingerprint(one) == failure_fingerprint(other), are_equal, "{one:?} {other:?}");
        };
        check("exit code 2 after 0.3 s\nstderr:\nno file", "exit code 2 after 12.0 s\nstderr:\nno file", true);
        check("1 failed; finished in 0.53s", "1 failed; finished in 950ms", true);
        check("real\t0m0.345s", "real\t1m2s", true);
        check("Finished (1.2 seconds).", "Finished (3 seconds).", true);
        check("exit code 2 after 0.3 s", "exit code 1 after 0.3 s", false);
        check("3 failed", "2 failed", false);
        check("1.5 MB in 3 s", "1.6 MB in 3 s", false);
        check("line 3 s", "line 3 t", false);
        check(&"1s".repeat(1 << 20), &"2s".repeat(1 << 20), true);
        check("v1.2.3", "v1.2.4", false);
        check("11:20:48 at 0x7f3a00 of 123e4567-e89b-12d3", "11:20:49 at 0x7f3b11 of 98765432-e89b-12d4", true);
        check("dead-beefed", "beef-deaded", false);
        check("x = 3", "x = 4", false);
        check("xs[1:]", "xs[1]", false);
        check("  return", "return", false);
    }

    #[test]
    fn repeated_rounds_warn_and_then_end_the_turn() {
        let check = |answers: &str, is_due: bool, is_endless: bool| {
            let rounds = after(answers);
            let repeated = rounds.repeated();
            let found = (repeated >= WARN_AFTER && !rounds.is_warned, repeated >= END_AFTER);
            assert_eq!(found, (is_due, is_endless), "{answers}: {rounds:?}");
        };
        for (answers, is_due) in [
            ("", false),
            ("a a", false),
            ("a a a", true),
            ("b a a a", true),
            ("a a A", false),
            ("a A a", false),
            ("a b a b a", false),
            ("a b a b a b", true),
            ("a b c a b c a b c", true),
            ("a b c d a b c d a b c d", false),
            ("a+b a+b a+b", true),
            ("a+a+a+a+a+a", false),
            ("? ? ?", true),
            ("?+? ? ?+?+?", true),
            ("~ ~ ~", false),
            ("a a ! a", false),
            ("a a a n", false),
            ("a a a n a", false),
            ("a b a b a b n a", false),
            ("a a a n b a a a", true),
        ] {
            check(answers, is_due, false);
        }
        for (answers, is_endless) in [
            ("a a a n a a", false),
            ("a a a n a a a", true),
            ("a a a n a A a a", false),
            ("a b a b a b n a b a b a", false),
            ("a b a b a b n a b a b a b", true),
            ("a b c a b c a b c n a b c a b c a b c", true),
            ("? ? ? n ? ? ?", true),
            ("~ ~ ~ ~ ~ ~ ~", false),
            ("/ / / n / / /", true),
            ("- - - n - - -", true),
            ("a a a n a a ! a", false),
        ] {
            check(answers, false, is_endless);
        }
    }
}
