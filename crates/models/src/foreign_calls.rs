//! Calls that came as words, because a server did not read its model's own spelling of them.
//!
//! Words go on until one of the spellings' marks comes outside of code; from there on all is held to the end of the
//! answer. It is a call if the answer ends with it and a tool is named in it; else it is words.

use std::sync::Arc;

use agentd_core::tool::ToolSpec;

use crate::{
    code_spans::{CodeSpans, begun_mark},
    text_protocol::call,
};

/// Marks of Hermes and Qwen, DeepSeek, Kimi, Mistral, LM Studio, Llama, Phi, MiniMax and gpt-oss.
const MARKS: [&str; 18] = [
    "<tool_call>",
    "<tool_calls>",
    "<function=",
    "<function_calls>",
    "<invoke name=",
    "<minimax:tool_call>",
    "<｜DSML｜",
    "<|DSML|",
    "<｜tool▁call",
    "<|tool_call",
    "<|python_tag|>",
    "<|channel|>commentary to=",
    "<|start|>assistant<|channel|>commentary to=",
    "<|start|>assistant to=",
    "[TOOL_REQUEST]",
    "[TOOL_CALLS]",
    "[TOOL_CALL]",
    "<tool_use>",
];

/// A mark that counts only at the beginning of an answer, for it has nothing odd in it.
const RECIPIENT: &str = "to=functions.";

/// What stands before the name of a tool, in these spellings.
const BEFORE_NAME: [&str; 12] = [
    "<function=",
    "invoke name=\"",
    "to=functions.",
    "<|tool_call_begin|>functions.",
    "<|tool_call_begin|>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁begin｜>",
    "[TOOL_CALLS]",
    "<tool_call>",
    "<tool_name>",
    "<name>",
    "to=",
];

/// The longest name that is one.
const MAX_NAME: usize = 64;

/// Keys with which the object of a call begins.
const KEYS: [&str; 9] =
    ["name", "tool", "tool_name", "function", "type", "arguments", "args", "parameters", "function_call"];

/// The bytes of an object that are waited for.
const MAX_HELD: usize = 1 << 20;

/// Looks for calls in the words of one answer.
#[derive(Debug)]
pub(crate) struct ForeignCalls {
    tools: Arc<[ToolSpec]>,
    held: String,
    words: CodeSpans,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only blanks came.
    Start,
    /// Words.
    Words,
    /// What is held began with a mark.
    Marked,
    /// What is held is an object, and all there is.
    Object,
}

impl ForeignCalls {
    pub(crate) fn new(tools: Arc<[ToolSpec]>) -> Self {
        Self { tools, held: String::new(), words: CodeSpans::default(), state: State::Start }
    }

    /// Takes the next piece and returns the words that can go on.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut words = String::new();
        self.held.push_str(piece);
        while !self.held.is_empty() {
            let upto = match self.state {
                State::Start => self.start(),
                State::Words => self.words(),
                State::Marked => None,
                State::Object if self.held.len() > MAX_HELD => {
                    self.state = State::Words;
                    continue;
                }
                State::Object => None,
            };
            let Some(upto) = upto else { break };
            self.words.add(&self.held[..upto]);
            words.extend(self.held.drain(..upto));
        }
        words
    }

    /// Returns what is held as words, and begins anew.
    pub(crate) fn give_up(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        *self = Self::new(Arc::clone(&self.tools));
        held
    }

    /// The end of the answer: the words that are still held, and the name of the tool, if they are a call. A call may be
    /// cut where the answer is.
    pub(crate) fn finish(&mut self, is_cut: bool) -> (String, Option<String>) {
        let held = std::mem::take(&mut self.held);
        let name = match std::mem::replace(&mut self.state, State::Start) {
            State::Marked => self.marked(&held, is_cut),
            State::Object => call::named(unfenced(held.trim()), &self.tools),
            State::Start | State::Words => None,
        };
        if name.is_some() { (String::new(), name) } else { (held, None) }
    }

    fn start(&mut self) -> Option<usize> {
        let rest = self.held.trim_start();
        if rest.is_empty() || (rest.len() < RECIPIENT.len() && RECIPIENT.starts_with(rest)) {
            return None;
        }
        if rest.starts_with(RECIPIENT) {
            self.state = State::Marked;
            return None;
        }
        let may_be = begins_object(rest)?;
        self.state = if may_be { State::Object } else { State::Words };
        Some(0)
    }

    fn words(&mut self) -> Option<usize> {
        let Some(at) = self.held.find(['<', '[']) else { return Some(self.held.len()) };
        if at > 0 {
            return Some(at);
        }
        if !self.words.is_code() {
            if MARKS.into_iter().any(|mark| self.held.starts_with(mark)) {
                self.state = State::Marked;
                return None;
            }
            if begun_mark(&self.held, &MARKS) == self.held.len() {
                return None;
            }
        }
        Some(1)
    }

    fn marked(&self, held: &str, is_cut: bool) -> Option<String> {
        let end = held.trim_end();
        if !is_cut && !end.ends_with(['>', ']', '}']) {
            return None;
        }
        named_in(held, &self.tools)
    }
}

/// Whether a text may be an object with a call, in a fence or not; none where more is needed to say so.
fn begins_object(text: &str) -> Option<bool> {
    let rest = match text.strip_prefix("```") {
        Some(fenced) => fenced.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric()).trim_start(),
        None if "```".starts_with(text) => return None,
        None => text,
    };
    let Some(object) = rest.strip_prefix('{') else {
        return if rest.is_empty() { None } else { Some(false) };
    };
    let key = object.trim_start();
    let Some(key) = key.strip_prefix('"') else { return if key.is_empty() { None } else { Some(false) } };
    match key.split_once('"') {
        Some((key, _)) => Some(KEYS.contains(&key)),
        None if KEYS.into_iter().any(|known| known.starts_with(key)) => None,
        None => Some(false),
    }
}

/// The text without a fence around all of it.
fn unfenced(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("```") else { return text };
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric()).trim();
    rest.strip_suffix("```").unwrap_or(rest).trim()
}

/// The first name of a tool in a call of one of these spellings. One that is not known counts where the spelling says
/// for sure that it is a name.
fn named_in(text: &str, tools: &[ToolSpec]) -> Option<String> {
    let in_json = json_name(text);
    let behind = |mark: &str| {
        let (_, rest) = text.split_once(mark)?;
        let rest = rest.trim_start();
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "_-.".contains(letter)));
        let name = &rest[..end.unwrap_or(rest.len())];
        let name = name.strip_prefix("functions.").unwrap_or(name);
        (1..=MAX_NAME).contains(&name.len()).then_some(name)
    };
    let names: Vec<&str> = in_json.into_iter().chain(BEFORE_NAME.into_iter().filter_map(behind)).collect();
    let is_known = |name: &&str| tools.iter().any(|tool| tool.name == **name);
    names.iter().copied().find(is_known).or(names.first().copied()).map(str::to_owned)
}

/// The text of the first key `name`, or one like it.
fn json_name(text: &str) -> Option<&str> {
    ["\"name\"", "\"tool_name\"", "\"tool\"", "\"function\""].into_iter().find_map(|key| {
        let (_, rest) = text.split_once(key)?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        let (name, _) = rest.split_once('"')?;
        (1..=MAX_NAME).contains(&name.len()).then_some(name)
    })
}

/// Returns whether a text is nothing but one of the marks.
pub(crate) fn is_mark(text: &str) -> bool {
    MARKS.contains(&text.trim())
}

/// The name of a tool without what the spelling of gpt-oss and others leaves in it.
pub(crate) fn clean_name(name: &str, tools: &[ToolSpec]) -> String {
    let is_known = |name: &str| tools.iter().any(|tool| tool.name == name);
    if is_known(name) {
        return name.to_owned();
    }
    let stem = name.split("<|").next().unwrap_or(name).trim();
    let plain = stem.strip_prefix("functions.").unwrap_or(stem);
    let unnumbered = plain.split_once(':').map_or(plain, |(before, _)| before);
    let found = [stem, plain, unnumbered].into_iter().find(|name| is_known(name));
    found.unwrap_or(if stem.is_empty() { name } else { stem }).to_owned()
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tools() -> Arc<[ToolSpec]> {
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({}),
            effect: Effect::Read,
        };
        Arc::new([tool("now"), tool("read_file")])
    }

    fn run(pieces: &[&str], is_cut: bool) -> (String, Option<String>) {
        let mut calls = ForeignCalls::new(tools());
        let mut words: String = pieces.iter().map(|piece| calls.push(piece)).collect();
        let (rest, name) = calls.finish(is_cut);
        words.push_str(&rest);
        (words, name)
    }

    #[track_caller]
    fn check(text: &str, words: &str, name: Option<&str>) {
        let expected = (words.to_owned(), name.map(str::to_owned));
        assert_eq!(run(&[text], false), expected, "{text:?}");
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(run(&pieces, false), expected, "{text:?} by characters");
    }

    #[test]
    fn calls_in_other_spellings_are_found() {
        let read = Some("read_file");
        check("<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>", "", read);
        check("I look.\n<tool_call>{\"name\": \"read_file\", \"arguments\": {}}</tool_call>", "I look.\n", read);
        check(
            "<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
            "",
            read,
        );
        check("<function=read_file>{\"path\": \"a\"}</function>", "", read);
        check("<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", "", read);
        let dsml = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read_file\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a\
                    </｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>";
        check(dsml, "", read);
        check(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{}\n```<｜tool▁call▁end｜>",
            "",
            read,
        );
        check("[TOOL_REQUEST]\n{\"name\": \"read_file\", \"arguments\": {}}\n[END_TOOL_REQUEST]", "", read);
        check("[TOOL_CALLS] [{\"name\": \"read_file\", \"arguments\": {}}]", "", read);
        check("[TOOL_CALLS]read_file[ARGS]{\"path\": \"a\"}", "", read);
        let kimi = "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{}\
                    <|tool_call_end|><|tool_calls_section_end|>";
        check(&format!("I look.{kimi}"), "I look.", read);
        check("to=functions.read_file<|channel|>commentary json<|message|>{\"path\": \"a\"}", "", read);
        check(" to=functions.read_file<|channel|>commentary<|message|>{}<|call|>", "", read);
        check("<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{}<|call|>", "", read);
        check("{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}", "", read);
        check("```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```", "", read);
        check("<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>", "", Some("fly"));
        assert_eq!(run(&["I write.\n<function=read_file>\n<parameter=path>"], true).1.as_deref(), read);
    }

    #[test]
    fn words_stay_words() {
        for text in [
            "",
            " ",
            "Hello.",
            "a < b and [1] and <tool> and [TOOL",
            "Qwen writes `<tool_call>{\"name\": \"read_file\"}</tool_call>`.",
            "For example:\n```\n<tool_call>{\"name\": \"read_file\"}</tool_call>\n```\nThat is it.",
            "<tool_call>{\"name\": \"read_file\"}</tool_call> is how Qwen writes it.",
            "<tool_call></tool_call>",
            "to=functions is a word",
            "{\"name\": \"Bob\", \"age\": 7}",
            "{\"a\": {\"name\": \"read_file\", \"arguments\": {}}}",
            "{\"name\": \"read_file\", \"arguments\": {}} is one.",
            "```json\n{\"name\": \"read_file\", \"arguments\": {}}\n```\nThat is one.",
            "```rust\nfn main() {}\n```",
            "{}",
            "{ x",
            "``",
        ] {
            check(text, text, None);
        }
    }

    #[test]
    fn names_are_cleaned() {
        let check = |name: &str, expected: &str| assert_eq!(clean_name(name, &tools()), expected, "{name}");
        check("read_file", "read_file");
        check("read_file<|channel|>commentary", "read_file");
        check("functions.read_file", "read_file");
        check("functions.read_file:3", "read_file");
        check("fly<|channel|>json", "fly");
        check("mcp:fly", "mcp:fly");
        check("<|channel|>", "<|channel|>");
        check("", "");
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_and_loses_nothing(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("<tool_call>"), Just("</tool_call>"), Just("{\"name\": \"now\", \"arguments\": {}}"), Just("<function=now>"),
                    Just("[TOOL_CALLS]"), Just("to=functions.now"), Just("```json\n"), Just("```"), Just("`"), Just("<|tool_call"),
                    Just("wörds "), Just("\n"), Just("<"), Just("["), Just("{"), Just("\""),
                ],
                0..12,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let text = parts.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            let whole = run(&[&text], false);
            prop_assert_eq!(&run(&pieces, false), &whole);
            if whole.1.is_none() {
                prop_assert_eq!(whole.0, text);
            }
        }
    }
}
