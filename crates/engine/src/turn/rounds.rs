//! Repeated calls: answers of a turn that make the same calls and get the same results, one after another or in rounds of two
//! or three. Pure. A link warns the model, and [`super::step`] ends the turn.

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

/// Number of equal rounds after which the model is warned, and after which the turn ends.
pub(crate) const NOTED: usize = 3;
pub(crate) const MOST: usize = 6;

/// Answers in the longest round that is detected.
const LONGEST: usize = 3;

/// Duration from which a call counts as waiting, in milliseconds: polling repeats by design.
const WAITS_MS: u64 = 5_000;

/// Longest name of a tool in a message, in characters: a model wrote it.
const MAX_NAME: usize = 64;

/// The last answers with calls since the person's last message.
#[derive(Debug, Default)]
pub(crate) struct CallRounds {
    /// Calls of the last answer until all have their results: fingerprints of each, without its result and with it.
    open: Vec<(CallId, u64, Option<u64>)>,
    /// Fingerprints of the answers before it, oldest first.
    answers: VecDeque<u64>,
    /// Set once the model was warned of these rounds.
    pub(crate) is_noted: bool,
    /// The tool that was called last.
    pub(crate) tool: String,
}

impl CallRounds {
    /// Rounds of the turn before this one, where a stop of the daemon cut it off and this one continues it.
    pub(crate) fn before(turn: Option<TurnId>, history: &[Arc<Item>], last: Option<StopReason>) -> Self {
        let mut rounds = Self::default();
        if matches!(last, Some(StopReason::Interrupted | StopReason::Suspended)) {
            let before = history.iter().filter(|item| Some(item.turn_id) != turn);
            before.for_each(|item| rounds.take_in(&item.body));
        }
        rounds
    }

    /// Forgets the answers: the person said something new.
    pub(crate) fn start_over(&mut self) {
        (self.answers, self.is_noted) = (VecDeque::new(), false);
    }

    /// Takes in an item of the history.
    pub(crate) fn take_in(&mut self, item: &ItemBody) {
        match item {
            ItemBody::ToolCall(call) => self.call(call),
            ItemBody::ToolResult(result) => self.result(result),
            ItemBody::Notice { topic: NoticeTopic::Repetition, .. } => self.is_noted = true,
            // Whoever continues after the last answer of a turn has seen how it ended.
            ItemBody::UserMessage { .. } | ItemBody::Notice { topic: NoticeTopic::LastAnswer, .. } => self.start_over(),
            _ => {}
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let arguments = serde_json::from_str::<Value>(&call.arguments).map_err(|_| &call.arguments);
        let print = fingerprint(&(&call.name, arguments));
        self.open.push((call.call_id.clone(), print, None));
        self.tool = call.name.chars().filter(|letter| !letter.is_control()).take(MAX_NAME).collect();
    }

    /// Takes in a result. Only whole answers are compared, because a model sees no result before all of them are there.
    fn result(&mut self, result: &ToolResult) {
        if result.said.is_some() {
            self.start_over();
        }
        let Some((_, call, known)) = self.open.iter_mut().find(|(id, ..)| *id == result.call_id) else { return };
        *known = Some(outcome(*call, result));
        let Some(mut outcomes) = self.open.iter().map(|open| open.2).collect::<Option<Vec<u64>>>() else { return };
        self.open.clear();
        // Several unknown tools in one answer are one mistake.
        outcomes.dedup();
        if self.answers.len() == MOST * LONGEST {
            self.answers.pop_front();
        }
        self.answers.push_back(fingerprint(&outcomes));
        self.is_noted &= self.repeated() >= NOTED;
    }

    /// Number of equal rounds at the end.
    pub(crate) fn repeated(&self) -> usize {
        let equal = |period: usize| {
            let newest = self.answers.iter().rev();
            let pairs = newest.clone().zip(newest.skip(period)).take_while(|(one, other)| one == other);
            (pairs.count() + period) / period
        };
        (1..=LONGEST).map(equal).max().unwrap_or_default()
    }
}

/// Fingerprint that survives a restart.
pub(crate) fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn outcome(call: u64, result: &ToolResult) -> u64 {
    if result.error == Some(ToolErrorCode::UnknownTool) {
        return 0;
    }
    let text = result.unchanged.unwrap_or_else(|| fingerprint(&result.own_text()));
    let files: Vec<_> =
        result.files.iter().map(|file| (&file.path, file.after.as_ref().map(|after| &after.hash))).collect();
    let waits = (result.duration_ms >= WAITS_MS).then_some(&result.call_id);
    fingerprint(&(call, text, result.error, result.exit_code, files, waits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds after answers: a letter is a call with its own arguments, `+` one more call in the same answer, an upper-case
    /// letter the same call with another result, `?` a tool that does not exist, `~` a call that waits, `n` a note, and `!`
    /// words of the person.
    fn after(answers: &str) -> CallRounds {
        let mut rounds = CallRounds::default();
        for answer in answers.split(' ').filter(|answer| !answer.is_empty()) {
            match answer {
                "n" => rounds.is_noted = true,
                "!" => rounds.start_over(),
                calls => {
                    let calls: Vec<(char, ToolCall)> = calls
                        .split('+')
                        .filter_map(|call| call.chars().next())
                        .map(|letter| {
                            let arguments = format!("{{\"a\": \"{}\"}}", letter.to_ascii_lowercase());
                            (letter, ToolCall { call_id: CallId::generate(), name: "look".to_owned(), arguments })
                        })
                        .collect();
                    calls.iter().for_each(|(_, call)| rounds.call(call));
                    // They end in any order.
                    for (letter, call) in calls.into_iter().rev() {
                        let text = if letter.is_uppercase() { "another" } else { "one" }.to_owned();
                        let error = (letter == '?').then_some(ToolErrorCode::UnknownTool);
                        let duration_ms = if letter == '~' { WAITS_MS } else { 1 };
                        let empty = ToolResult::empty(call.call_id, call.name);
                        rounds.result(&ToolResult { text, error, duration_ms, ..empty });
                    }
                }
            }
        }
        rounds
    }

    #[test]
    fn rounds_are_told_of_and_end() {
        let check = |answers: &str, is_due: bool, is_endless: bool| {
            let rounds = after(answers);
            let repeated = rounds.repeated();
            let found = (repeated >= NOTED && !rounds.is_noted, repeated >= MOST);
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
            ("a a a n a a ! a", false),
        ] {
            check(answers, false, is_endless);
        }
    }
}
