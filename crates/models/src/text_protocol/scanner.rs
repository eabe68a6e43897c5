//! The stream of an answer: words go on at once, what may become a call is held back until it is one or cannot be.

use std::sync::Arc;

use agentd_core::tool::ToolSpec;

use super::{
    call,
    surroundings::{Behind, Place, Surroundings, balanced_end, behind, only_calls},
};
use crate::answer::RawCall;

/// The bytes of an object that are waited for; a larger one is words.
const MAX_HELD: usize = 1 << 20;

/// Marks that may stand before the object of a call, and after it.
const OPENERS: [&str; 2] = ["```", "<tool_call>"];

/// The longest word behind the opening of a fence, such as `json`.
const MAX_LABEL: usize = 24;

/// Looks for the first call of an answer. What follows a call is dropped: models that go on there invent results. An object
/// that stands in code, or among words, is words; see [`Place`].
#[derive(Debug)]
pub(crate) struct Scanner {
    tools: Arc<[ToolSpec]>,
    /// Text that is held back. Empty while words go on.
    held: String,
    before: Surroundings,
    state: State,
    /// The tool of an object that may be a call or an example of one. It was told as words.
    doubtful: Option<String>,
}

/// What an answer came to.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    /// The words that were still held.
    pub(crate) words: String,
    pub(crate) call: Option<RawCall>,
    /// The tool of an object among the words that may have been meant as a call.
    pub(crate) doubtful: Option<String>,
    /// The tool of a call that the end of the answer cut. It is not among the words.
    pub(crate) begun: Option<String>,
}

#[derive(Debug)]
enum State {
    /// Words.
    Prose,
    /// The held text may be the beginning of a fence, with or without what follows it.
    Opening,
    /// The held text has an object that began at `start`, looked at up to `at`.
    Object { place: Place, start: usize, at: usize, depth: usize, in_string: bool, escaped: bool },
    /// The held text has a call up to `end`, if what follows does not make it words.
    Behind { place: Place, end: usize, call: RawCall },
    /// The call has been found.
    Found(RawCall),
}

/// Meaning of the next bytes.
enum Step {
    /// The held bytes up to here are words.
    Words(usize),
    /// More bytes are needed.
    Wait,
}

impl Scanner {
    pub(crate) fn new(tools: Arc<[ToolSpec]>) -> Self {
        Self { tools, held: String::new(), before: Surroundings::default(), state: State::Prose, doubtful: None }
    }

    /// Takes the next piece and returns the words that can go on.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut words = String::new();
        if matches!(self.state, State::Found(_)) {
            return words;
        }
        self.held.push_str(piece);
        while !self.held.is_empty() {
            match self.step() {
                Step::Words(end) => {
                    self.before.add(&self.held[..end]);
                    words.extend(self.held.drain(..end));
                    self.state = State::Prose;
                }
                Step::Wait => break,
            }
        }
        words
    }

    /// The end of the answer, which may have been cut there.
    pub(crate) fn finish(&mut self, is_cut: bool) -> Scanned {
        let held = std::mem::take(&mut self.held);
        let doubtful = self.doubtful.take();
        match std::mem::replace(&mut self.state, State::Prose) {
            State::Found(call) => Scanned { call: Some(call), ..Scanned::default() },
            State::Behind { place, end, call } => match place {
                Place::Fence if !only_calls(&held[end..], &self.tools) => {
                    Scanned { words: held, doubtful: doubtful.or(Some(call.name)), ..Scanned::default() }
                }
                _ => Scanned { call: Some(call), ..Scanned::default() },
            },
            State::Object { start, .. } if is_cut => match call::begun(&held[start..], &self.tools) {
                Some(name) => Scanned { begun: Some(name), ..Scanned::default() },
                None => Scanned { words: held, doubtful, ..Scanned::default() },
            },
            _ => Scanned { words: held, doubtful, ..Scanned::default() },
        }
    }

    /// Returns the held text as words, and begins anew: what came so far is no answer.
    pub(crate) fn give_up(&mut self) -> String {
        let held = match self.state {
            State::Found(_) => String::new(),
            _ => std::mem::take(&mut self.held),
        };
        *self = Self::new(Arc::clone(&self.tools));
        held
    }

    fn step(&mut self) -> Step {
        match self.state {
            State::Prose => self.prose(),
            State::Opening => self.opening(),
            State::Object { .. } => self.object(),
            State::Behind { .. } => self.behind(),
            State::Found(_) => {
                self.held.clear();
                Step::Wait
            }
        }
    }

    /// Words up to the first character with which a call can begin.
    fn prose(&mut self) -> Step {
        match self.held.find(['{', '`', '<']) {
            Some(0) => {
                self.state = State::Opening;
                self.opening()
            }
            Some(end) => Step::Words(end),
            None => Step::Words(self.held.len()),
        }
    }

    /// `{`, or a fence and then `{`.
    fn opening(&mut self) -> Step {
        let (rest, place) = if self.held.starts_with('{') {
            (Some(self.held.as_str()), self.before.place())
        } else {
            match OPENERS.into_iter().find(|opener| self.held.starts_with(opener)) {
                // The end of one.
                Some("```") if self.before.is_fenced() => return Step::Words(3),
                Some("```") => match after_label(&self.held[3..]) {
                    Ok(rest) => (Some(rest), self.before.fence()),
                    Err(more) if more => (None, None),
                    Err(_) => return Step::Words(3),
                },
                Some(opener) => (Some(&self.held[opener.len()..]), self.before.tag()),
                None if OPENERS.iter().any(|opener| opener.starts_with(&self.held)) => (None, None),
                None => return Step::Words(1),
            }
        };
        let Some(rest) = rest.map(str::trim_start).filter(|rest| !rest.is_empty()) else {
            return if self.held.len() > MAX_HELD { Step::Words(self.held.len()) } else { Step::Wait };
        };
        let start = self.held.len() - rest.len();
        if !rest.starts_with('{') {
            // The fence holds something else; what follows it is looked at as words.
            return Step::Words(start);
        }
        let Some(place) = place else { return Step::Words(start.max(1)) };
        match rest[1..].trim_start().chars().next() {
            None => Step::Wait,
            // No object that is a call is empty or begins with anything but a key.
            Some('"') => {
                self.state = State::Object { place, start, at: start, depth: 0, in_string: false, escaped: false };
                self.object()
            }
            Some(_) => Step::Words(start + 1),
        }
    }

    /// On to the brace that closes the object.
    fn object(&mut self) -> Step {
        let State::Object { place, start, mut at, mut depth, mut in_string, mut escaped } = self.state else {
            return Step::Wait;
        };
        if let Some(end) = balanced_end(self.held.as_bytes(), &mut at, &mut depth, &mut in_string, &mut escaped) {
            return self.balanced(place, start, end);
        }
        if self.held.len() - start > MAX_HELD {
            return Step::Words(self.held.len());
        }
        self.state = State::Object { place, start, at, depth, in_string, escaped };
        Step::Wait
    }

    fn balanced(&mut self, place: Place, start: usize, end: usize) -> Step {
        match call::read(&self.held[start..end], &self.tools) {
            Some(call) if place.is_certain() => {
                self.state = State::Found(call);
                self.held.clear();
                Step::Wait
            }
            Some(call) => {
                self.state = State::Behind { place, end, call };
                self.behind()
            }
            None => Step::Words(end),
        }
    }

    /// What follows the call says whether it is one.
    fn behind(&mut self) -> Step {
        let State::Behind { place, end, call } = &self.state else { return Step::Wait };
        let (place, end) = (*place, *end);
        match behind(place, &self.held[end..]) {
            Behind::Open if self.held.len() > 2 * MAX_HELD => Step::Words(self.held.len()),
            Behind::Open => Step::Wait,
            Behind::Call => {
                self.state = State::Found(call.clone());
                self.held.clear();
                Step::Wait
            }
            Behind::Words => {
                if place != Place::Ticks {
                    self.doubtful.get_or_insert_with(|| call.name.clone());
                }
                Step::Words(end)
            }
        }
    }
}

/// Rest after the word of a fence. The error says whether it may still come.
fn after_label(text: &str) -> Result<&str, bool> {
    let label = text.find(|character: char| !(character.is_ascii_alphanumeric() || matches!(character, '_' | '-')));
    match label {
        Some(end) if end <= MAX_LABEL => Ok(&text[end..]),
        None if text.len() <= MAX_LABEL => Err(true),
        _ => Err(false),
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn scanner() -> Scanner {
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({}),
            effect: Effect::Read,
        };
        Scanner::new(Arc::new([tool("now"), tool("read_file")]))
    }

    fn scan(pieces: &[&str]) -> Scanned {
        let mut scanner = scanner();
        let words: String = pieces.iter().map(|piece| scanner.push(piece)).collect();
        let scanned = scanner.finish(false);
        Scanned { words: words + &scanned.words, ..scanned }
    }

    fn run(pieces: &[&str]) -> (String, Option<(String, String)>) {
        let Scanned { words, call, .. } = scan(pieces);
        (words, call.map(|call| (call.name, call.arguments)))
    }

    fn check(text: &str, words: &str, call: Option<(&str, &str)>) {
        let expected = (words.to_owned(), call.map(|(name, arguments)| (name.to_owned(), arguments.to_owned())));
        assert_eq!(run(&[text]), expected, "{text:?}");
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(run(&pieces), expected, "{text:?} by characters");
    }

    #[test]
    fn calls_are_found_in_all_their_clothes() {
        let read = Some(("read_file", r#"{"path": "a"}"#));
        check(r#"{"tool": "read_file", "args": {"path": "a"}}"#, "", read);
        check(r#"{"name":"read_file","arguments":{"path": "a"}}"#, "", read);
        check(r#"{"arguments":{"path": "a"},"name":"read_file","id":7}"#, "", read);
        check(r#"{"name":"read_file","arguments":"{\"path\": \"a\"}"}"#, "", read);
        check(r#"{"type":"function","function":{"name":"read_file","arguments":{"path": "a"}}}"#, "", read);
        check("```json\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a\"}}\n```", "", read);
        check("```\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a\"}}\n```\n", "", read);
        check("<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>", "", read);
        check("I look.\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a\"}} Done!", "I look.\n", read);
        check("Sure:\n```json\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a\"}}\n```", "Sure:\n", read);
        check(r#"{"tool": "now"}"#, "", Some(("now", "{}")));
        check(r#"{"tool": "now", "args": null}"#, "", Some(("now", "{}")));
        check(r#"{"name": "now"}"#, "", Some(("now", "{}")));
        check(r#"{"tool": "now", "args": {}, "why": "x"}"#, "", Some(("now", "{}")));
        check(r#"{"tool": "fly.away", "args": {"to": "}"}}"#, "", Some(("fly.away", r#"{"to": "}"}"#)));
        check(
            "{\"tool\": \"read_file\", \"args\": {\"path\": \"a\nb\",}}",
            "",
            Some(("read_file", r#"{"path": "a\nb"}"#)),
        );
        check(r#"{"x": 1} {"tool": "now", "args": {}}"#, r#"{"x": 1} "#, Some(("now", "{}")));
        check(r#"{"tool": "now", "args": {}}{"tool": "read_file", "args": {}}"#, "", Some(("now", "{}")));
    }

    #[test]
    fn words_stay_words() {
        for text in [
            "",
            "Hello, wörld.",
            "fn main() { println!(\"{}\", 1); }",
            "a < b and `c` and ``d``",
            "```rust\nfn main() {}\n```\nThat is all.",
            "```json\n{\"a\": 1}\n```",
            "{\"name\": \"Bob\", \"age\": 7}",
            "{\"name\": \"Bob\"}",
            "{\"name\": \"Bob Smith\", \"arguments\": {}}",
            "{\"tool\": \"fly\", \"args\": {}, \"colour\": \"red\"}",
            "{\"tool\": \"fly\", \"args\": [1]}",
            "{\"tool\": \"now\", \"args\": {",
            "{\"tool\": \"now\", oh well}",
            "{}",
            "{{\"tool\"}}",
            "`````",
            "<tool_callous> <tool",
            "```",
            "```a-very-long-label-that-is-no-language-at-all {",
        ] {
            check(text, text, None);
        }
    }

    #[test]
    fn examples_and_mentions_are_words() {
        let call = r#"{"tool": "read_file", "args": {"path": "a"}}"#;
        #[track_caller]
        fn words(text: &str, doubtful: bool) {
            check(text, text, None);
            assert_eq!(scan(&[text]).doubtful.is_some(), doubtful, "{text}");
        }
        words(&format!("For example:\n```json\n{call}\n```"), false);
        words(&format!("A call would look so, e.g.\n```json\n{call}\n```\nThat is all."), false);
        words(&format!("Never write this:\n\n```\n{call}\n```\n"), true);
        words(&format!("I look.\n```json\n{call}\n```\nDone!"), true);
        words(&format!("```json\n{call}\n// a comment\n```"), true);
        words(&format!("One writes `{call}` for that."), false);
        words(&format!("I could call {call} but I must not."), true);
        words(&format!("```python\nx = {call}\n```\n"), false);
        words(&format!("```python\n{call} # no\nx = 1\n{call}\n```"), true);
        words(&format!("Qwen writes `<tool_call>{call}</tool_call>`."), false);
    }

    #[test]
    fn what_only_stands_in_marks_is_a_call() {
        let call = r#"{"tool": "read_file", "args": {"path": "a"}}"#;
        let read = Some(("read_file", r#"{"path": "a"}"#));
        check(&format!("I look: {call}"), "I look: ", read);
        check(&format!("I look: {call}\n\nThe file says: a"), "I look: ", read);
        check(&format!("[TOOL_CALLS] [{call}]"), "[TOOL_CALLS] [", read);
        check(&format!("<|python_tag|>{call} and so on"), "<|python_tag|>", read);
        check(&format!("`{call}`"), "`", read);
        check(&format!("```json\n{call}\n{call}\n```"), "", read);
        check(&format!("```json\n{call}\n```\n```json\n{call}\n```\n"), "", read);
        check(&format!("```json\n{call}\n```\n<tool_result name=\"read_file\">\nx"), "", read);
        check(&format!("```json\n{call}"), "", read);
        let words = "For example, the file a may say it.\n\nI look:\n";
        check(&format!("{words}```json\n{call}\n```"), words, read);
    }

    #[test]
    fn a_cut_call_is_known_by_its_name() {
        let mut scanner = scanner();
        assert_eq!(scanner.push("I write.\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a"), "I write.\n");
        let scanned = scanner.finish(true);
        assert_eq!((scanned.begun.as_deref(), scanned.words.as_str()), (Some("read_file"), ""));
    }

    #[test]
    fn words_are_not_held_back() {
        let mut scanner = scanner();
        let mut check = |piece: &str, words: &str| assert_eq!(scanner.push(piece), words, "{piece:?}");
        check("Hello", "Hello");
        check(" {", " ");
        check(" x", "{ x");
        check(" and {\"to", " and ");
        check("ols\": 1} ", "{\"tools\": 1} ");
        check("``", "");
        check("x", "``x");
        check("```ru", "");
        check("st\nfn {\"tool\":", "```rust\nfn {\"tool\":");
        check("\n```\n", "\n```\n");
        check("{\"tool\":", "");
        check("\"now\"}", "");
        check("Tool result", "");
    }

    proptest! {
        #[test]
        fn splitting_changes_nothing_and_loses_nothing(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("{\"tool\": \"now\", \"args\": {}}"), Just("{\"a\": \"}{\\\"\"}"), Just("```json\n"), Just("```"),
                    Just("{"), Just("}"), Just("\""), Just("wörds "), Just("<tool_call>"), Just("\n"), Just("`"),
                ],
                0..12,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let text = parts.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| {
                let at = cut.index(text.len() + 1);
                (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap()
            }).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            let whole = run(&[&text]);
            prop_assert_eq!(&run(&pieces), &whole);
            if whole.1.is_none() {
                prop_assert_eq!(whole.0, text);
            }
        }
    }
}
