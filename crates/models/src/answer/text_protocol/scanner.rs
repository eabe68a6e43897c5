//! Streaming search for calls in an answer: text is passed on at once, and a possible call is buffered until the end
//! of the answer.
//!
//! Only structure decides, not wording. A call runs if it ends the answer: only further calls, marks and results
//! invented by the model may follow. A call does not run if another call occurs earlier in the text, as it is unclear
//! which call was meant. Calls in code do not run, unless the whole answer is that code.

use std::{ops::Range, sync::Arc};

use agentd_core::{model::UnrunReason, tool::ToolSpec};

use super::{
    call::{self, Balance, FENCE, marks},
    forms,
};
use crate::answer::{RawCall, code_spans::CodeSpans};

/// Maximum size of a pending object in bytes. Larger objects are text.
const MAX_PENDING: usize = 1 << 20;

/// Maximum number of marks in an answer at which a call in another form is read.
const MAX_FORMS: usize = 16;

/// Searches the text of one answer for calls.
#[derive(Debug)]
pub(crate) struct Scanner {
    tools: Arc<[ToolSpec]>,
    /// True if calls are expected in the text. Otherwise the server should have parsed them.
    expects_calls: bool,
    /// Buffered text. Empty while text is passed on.
    pending: String,
    /// Code spans of the text before `pending`.
    before: CodeSpans,
    has_text: bool,
    /// Scan state of the object at the start of the pending text.
    balance: Balance,
    /// True once the pending text starts with a call or a mark. The end of the answer decides.
    is_found: bool,
    /// Name of a tool called within the text.
    doubtful: Option<String>,
    /// Text that was passed on, from the last object at the start of a line or of a list on. Only filled if no calls
    /// are expected: a server may have left a call there.
    last_object: String,
}

#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// Text that was still buffered.
    pub(crate) text: String,
    pub(crate) call: Option<RawCall>,
    /// Call that does not run, with the reason.
    pub(crate) unrun: Option<(String, UnrunReason)>,
}

/// Meaning of the pending text at some position.
enum Lookahead {
    /// Text up to this position.
    Text(usize),
    /// Undecided until more arrives.
    Undecided,
    /// Incomplete object at this position that may become a call.
    Incomplete(usize),
    /// Start of a call, or of the fence around it.
    Call,
    /// Mark of another call format.
    Mark,
}

impl Lookahead {
    /// Returns the meaning of a text that may start a call without a mark, else is text up to `end`.
    fn of_start(is_call: Option<bool>, end: usize) -> Self {
        match is_call {
            None => Self::Undecided,
            Some(true) => Self::Mark,
            Some(false) => Self::Text(end),
        }
    }
}

impl Scanner {
    pub(crate) fn new(tools: Arc<[ToolSpec]>, expects_calls: bool) -> Self {
        Self {
            tools,
            expects_calls,
            pending: String::new(),
            before: CodeSpans::default(),
            has_text: false,
            balance: Balance::default(),
            is_found: false,
            doubtful: None,
            last_object: String::new(),
        }
    }

    /// Processes the next piece, and returns text that can be passed on.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        let mut at = 0;
        while !self.is_found && at < self.pending.len() {
            match self.look_ahead(at) {
                Lookahead::Text(end) => self.emit(&mut at, end),
                Lookahead::Call | Lookahead::Mark => self.is_found = true,
                Lookahead::Undecided | Lookahead::Incomplete(_) => break,
            }
        }
        self.pending.drain(..at).collect()
    }

    /// Processes the end of the answer, which may have been cut.
    pub(crate) fn finish(&mut self, is_cut: bool) -> ScanResult {
        let (mut at, mut mark, mut forms_left, mut earlier) = (0, None, MAX_FORMS, None);
        while at < self.pending.len() {
            let mut is_marked = false;
            match self.look_ahead(at) {
                Lookahead::Text(end) => {
                    self.emit(&mut at, end);
                    continue;
                }
                Lookahead::Incomplete(start) if is_cut => {
                    match call::leading_tool_name(&self.pending[start..], &self.tools) {
                        Some(name) => return self.unrun(mark.unwrap_or(at), name, UnrunReason::Cut),
                        None => break,
                    }
                }
                Lookahead::Undecided | Lookahead::Incomplete(_) => break,
                Lookahead::Call => {}
                Lookahead::Mark => {
                    mark.get_or_insert(at);
                    is_marked = forms_left > 0 && !is_cut;
                }
            }
            let calls = call::only_calls(&self.pending[at..], !self.has_text, &self.tools).or_else(|end| {
                if !is_marked {
                    return Err(end);
                }
                forms_left -= 1;
                forms::read(&self.pending[at..], &self.tools).map_err(|other| end.max(other))
            });
            match calls {
                Ok(_) if self.doubtful.is_some() => break,
                Ok(_) if earlier.is_some() => {
                    self.doubtful = earlier.take();
                    break;
                }
                // Such a fence after text may be an example.
                Ok(call) if self.has_text && self.pending[at..].starts_with(FENCE) => {
                    self.doubtful = Some(call.name);
                    break;
                }
                Ok(call) if self.expects_calls => {
                    self.pending.truncate(at);
                    return ScanResult { text: std::mem::take(&mut self.pending), call: Some(call), unrun: None };
                }
                Ok(call) => return self.unrun(at, call.name, UnrunReason::Foreign),
                Err(_) if !self.expects_calls => break,
                Err(end) => {
                    self.note_doubtful(at..at + end);
                    if is_marked && earlier.is_none() {
                        earlier = forms::known_name(&self.pending[at..], end, &self.tools);
                    }
                    let end = at + end.max(1);
                    self.emit(&mut at, end);
                }
            }
        }
        // Call formats other than JSON end with a mark, unless the limit has cut them.
        let is_whole = self.pending.trim_end().ends_with(['>', ']', '}']) && self.doubtful.is_none();
        let named = mark.filter(|_| is_whole || is_cut).and_then(|at| {
            let name = call::named_in(&self.pending[at..], &self.tools)?;
            Some((at, name))
        });
        if let Some((at, name)) = named {
            return self.unrun(at, name, if is_cut { UnrunReason::Cut } else { UnrunReason::Foreign });
        }
        let left = self.last_call(at).filter(|_| !is_cut);
        let unrun = self.doubtful.take().or(earlier).or(left).map(|name| (name, UnrunReason::Doubtful));
        ScanResult { text: std::mem::take(&mut self.pending), call: None, unrun }
    }

    /// Returns the pending text as is and resets the scanner: the text so far is not part of the answer.
    pub(crate) fn take_pending(&mut self) -> String {
        let pending = std::mem::take(&mut self.pending);
        *self = Self::new(Arc::clone(&self.tools), self.expects_calls);
        pending
    }

    /// Returns the text before a call that does not run, without the call.
    fn unrun(&mut self, at: usize, name: String, reason: UnrunReason) -> ScanResult {
        self.pending.truncate(at);
        ScanResult { text: std::mem::take(&mut self.pending), call: None, unrun: Some((name, reason)) }
    }

    /// Passes on the text up to `end`.
    fn emit(&mut self, at: &mut usize, end: usize) {
        let text = &self.pending[*at..end];
        if !self.expects_calls {
            let is_object = text.starts_with('{') && matches!(self.before.last(), None | Some('\n' | '['));
            if is_object || self.last_object.len() > MAX_PENDING {
                self.last_object.clear();
            }
            if is_object || !self.last_object.is_empty() {
                self.last_object.push_str(text);
            }
        }
        self.before.add(text);
        self.has_text |= text.chars().any(char::is_alphanumeric);
        self.balance = Balance::default();
        *at = end;
    }

    /// Returns the name of a tool whose call with arguments ends the text, where a server should have parsed it. The
    /// pending text was passed on up to `at`.
    fn last_call(&self, at: usize) -> Option<String> {
        let object = Some(&self.last_object).filter(|object| !object.is_empty())?;
        let call = call::only_calls(&format!("{object}{}", &self.pending[at..]), true, &self.tools).ok()?;
        Some(call.name).filter(|name| call.arguments != "{}" && call::is_known(name, &self.tools))
    }

    /// Records a call to a known tool within the text, which may have been meant.
    fn note_doubtful(&mut self, range: Range<usize>) {
        if self.doubtful.is_none() {
            self.doubtful = call::leading_tool_name(&self.pending[range], &self.tools);
        }
    }

    fn look_ahead(&mut self, at: usize) -> Lookahead {
        let rest = &self.pending[at..];
        let is_start = |letter: char| match letter {
            '{' | '`' | '<' | '[' | 'A' => true,
            letter => !self.has_text && matches!(letter, 'a' | 'c' | 'f' | 't'),
        };
        match rest.find(is_start) {
            None => return Lookahead::Text(self.pending.len()),
            Some(0) => {}
            Some(length) => return Lookahead::Text(at + length),
        }
        let is_first = !self.has_text;
        if rest.starts_with('{') {
            return self.object(at);
        }
        if let Some(code) = rest.strip_prefix(FENCE).filter(|_| is_first && !self.before.is_code()) {
            let code = call::without_label(code);
            let start = self.pending.len() - code.len();
            return match code.chars().next() {
                _ if start - at > call::MAX_OPENING => Lookahead::Text(at + FENCE.len()),
                None => Lookahead::Undecided,
                Some('{') => self.object(start),
                Some(_) => Lookahead::of_start(forms::is_code_call(code, &self.tools), start),
            };
        }
        // A list of calls.
        if let Some(list) = rest.strip_prefix('[').filter(|_| is_first && !self.before.is_code()) {
            let start = self.pending.len() - list.trim_start().len();
            match self.pending[start..].chars().next() {
                Some('{') if start - at <= call::MAX_OPENING => return self.object(start),
                None if start - at <= call::MAX_OPENING => return Lookahead::Undecided,
                _ => {}
            }
        }
        let may_begin = |mark: &str| mark.starts_with(rest);
        if is_first && may_begin(FENCE) {
            Lookahead::Undecided
        } else if self.before.is_code() {
            Lookahead::Text(at + 1)
        } else if marks(is_first).any(|mark| rest.starts_with(mark)) {
            Lookahead::Mark
        } else if marks(is_first).any(may_begin) {
            Lookahead::Undecided
        } else if rest.starts_with(['[', 'A']) && matches!(self.before.last(), None | Some('\n')) {
            Lookahead::of_start(forms::is_unmarked_call(rest, &self.tools), at + 1)
        } else {
            Lookahead::Text(at + 1)
        }
    }

    fn object(&mut self, start: usize) -> Lookahead {
        let is_code = self.has_text && self.before.is_code();
        // A call at the start of a line in a fence does not run, but may have been meant.
        let is_doubtful = self.before.is_fenced() && self.before.last() == Some('\n');
        if (is_code && !is_doubtful) || (self.has_text && !self.expects_calls) {
            return Lookahead::Text(start + 1);
        }
        let object = &self.pending[start..];
        match call::may_be_call(object, self.expects_calls) {
            Some(true) => {}
            Some(false) => return Lookahead::Text(start + 1),
            None => return Lookahead::Undecided,
        }
        let Some(end) = self.balance.end(object.as_bytes()) else {
            return match object.len() > MAX_PENDING {
                true => Lookahead::Text(self.pending.len()),
                false if is_code => Lookahead::Undecided,
                false => Lookahead::Incomplete(start),
            };
        };
        let end = start + end;
        self.balance = Balance::default();
        match call::read(&self.pending[start..end], &self.tools) {
            Some(call) if !is_code && (self.expects_calls || call::is_known(&call.name, &self.tools)) => {
                Lookahead::Call
            }
            Some(_) => {
                self.note_doubtful(start..end);
                Lookahead::Text(end)
            }
            None => {
                if self.pending[start + 1..].trim_start().starts_with('“') {
                    self.note_doubtful(start..end);
                }
                Lookahead::Text(end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const CALL: &str = r#"{"tool": "read_file", "args": {"path": "a"}}"#;

    fn scanner(expects_calls: bool) -> Scanner {
        let tool = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({}),
            effect: Effect::Read,
        };
        Scanner::new(Arc::new([tool("now"), tool("read_file")]), expects_calls)
    }

    /// Text of an answer, its call, and the call that does not run.
    type ScannedText = (String, Option<(String, String)>, Option<(String, UnrunReason)>);

    fn run(pieces: &[&str], expects_calls: bool, is_cut: bool) -> ScannedText {
        let mut scanner = scanner(expects_calls);
        let output: String = pieces.iter().map(|piece| scanner.push(piece)).collect();
        let ScanResult { text: rest, call, unrun } = scanner.finish(is_cut);
        (output + &rest, call.map(|call| (call.name, call.arguments)), unrun)
    }

    #[track_caller]
    fn check(
        expects_calls: bool,
        text: &str,
        output: &str,
        call: Option<(&str, &str)>,
        unrun: Option<(&str, UnrunReason)>,
    ) {
        let call = call.map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
        let expected = (output.to_owned(), call, unrun.map(|(name, reason)| (name.to_owned(), reason)));
        assert_eq!(run(&[text], expects_calls, false), expected, "{text:?}");
        let pieces: Vec<&str> = text.split_inclusive(|_: char| true).collect();
        assert_eq!(run(&pieces, expects_calls, false), expected, "{text:?} by characters");
    }

    #[test]
    fn calls_are_found_in_all_formats() {
        let check = |text: &str, output: &str, call| check(true, text, output, Some(call), None);
        let read = ("read_file", r#"{"path": "a"}"#);
        check(CALL, "", read);
        check(r#"{"name":"read_file","arguments":{"path": "a"}}"#, "", read);
        check(r#"{"arguments":{"path": "a"},"name":"read_file","id":7}"#, "", read);
        check(r#"{"name":"read_file","arguments":"{\"path\": \"a\"}"}"#, "", read);
        check(r#"{"type":"function","function":{"name":"read_file","arguments":{"path": "a"}}}"#, "", read);
        check("<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>", "", read);
        check(r#"{"tool": "now"}"#, "", ("now", "{}"));
        check(r#"{"tool": "now", "args": null}"#, "", ("now", "{}"));
        check(r#"{"name": "now"}"#, "", ("now", "{}"));
        check(r#"{"why": "x", "tool": "now", "args": {}}"#, "", ("now", "{}"));
        check(r#"{"tool": "now", "args": {}, "why": "x"}"#, "", ("now", "{}"));
        check(r#"{"tool": "fly.away", "args": {"to": "}"}}"#, "", ("fly.away", r#"{"to": "}"}"#));
        check("{\"tool\": \"read_file\", \"args\": {\"path\": \"a\nb\",}}", "", ("read_file", r#"{"path": "a\nb"}"#));
    }

    #[test]
    fn only_trailing_or_fully_fenced_calls_run() {
        let read = Some(("read_file", r#"{"path": "a"}"#));
        let check = |text: String, output: &str| check(true, &text, output, read, None);
        check(format!("I look.\n{CALL}\n"), "I look.\n");
        check(format!("I look: {CALL}"), "I look: ");
        check(format!("{{\"x\": 1}} {CALL}"), "{\"x\": 1} ");
        check(format!("{CALL}{{\"tool\": \"now\", \"args\": {{}}}}"), "");
        check(format!("{CALL}<|im_end|>"), "");
        check(format!("{CALL}<end_of_turn>\n<start_of_turn>user\nAnd now?"), "");
        check(format!("{CALL}\n```"), "");
        check(format!("{CALL}}}."), "");
        check(format!("{CALL}\n<tool_result name=\"read_file\">\nThe file says: a"), "");
        check(format!("[TOOL_CALLS] [{CALL}]"), "");
        check(format!("<|python_tag|>{CALL}"), "");
        check(format!("`{CALL}`"), "`");
        check(format!("```json\n{CALL}\n```"), "");
        check(format!("```\n{CALL}\n```\n"), "");
        check(format!("```json\n{CALL}\n{CALL}\n```"), "");
        check(format!("```json\n{CALL}\n```\n```json\n{CALL}\n```\n"), "");
        check(format!("```json\n{CALL}\n```\n<tool_result name=\"read_file\">\nx"), "");
        check(format!("```json\n{CALL}"), "");
        check(format!("[{CALL}]"), "");
        check(format!("[\n  {CALL},\n  {CALL}\n]"), "");
        check(format!("<TOOLCALL>[{CALL}]</TOOLCALL>"), "");
        check(format!("I look.\n<|START_ACTION|>[\n{CALL}\n]<|END_ACTION|>"), "I look.\n");
        check(format!("<|action_start|><|plugin|>\n{CALL}<|action_end|>"), "");
        check(format!("{{\"tool_calls\": [{{\"type\": \"function\", \"function\": {CALL}}}]}}"), "");
        check(format!("{CALL}\nObservation: a\nDone."), "");
        // Text that the model invents after the call.
        for invented in [
            "<tool_response>\nThe file says: a\n</tool_response>\nIt says a.",
            "[TOOL_RESULTS] [{\"content\": \"a\"}]",
            "<|im_start|>user\nGo on.",
            "<|start_header_id|>ipython<|end_header_id|>\na",
        ] {
            check(format!("{CALL}{invented}"), "");
            check(format!("I look.\n<tool_call>{CALL}</tool_call>\n{invented}"), "I look.\n");
        }
    }

    #[test]
    fn examples_and_mentions_stay_text() {
        let unrun = ("read_file", UnrunReason::Doubtful);
        let check = |text: String, is_doubtful: bool| check(true, &text, &text, None, is_doubtful.then_some(unrun));
        check(format!("Sure:\n```json\n{CALL}\n```"), true);
        check(format!("For example:\n```json\n{CALL}\n```"), true);
        check(format!("For example, the file a may say it.\n\nI look:\n```json\n{CALL}\n```"), true);
        check(format!("Never write this:\n\n```\n{CALL}\n```\n"), true);
        check(format!("I look.\n```json\n{CALL}\n```\nDone!"), true);
        check(format!("A call would look so, e.g.\n```json\n{CALL}\n```\nThat is all."), true);
        check(format!("```json\n{CALL}\n// a comment\n```"), true);
        check(format!("```python\n{CALL} # no\nx = 1\n{CALL}\n```"), true);
        check(format!("I could call {CALL} but I must not."), true);
        check(format!("{CALL}\n\nThe file says: a"), true);
        check(format!("I look: {CALL}\n\nThe file says: a"), true);
        check(format!("I look.\n{CALL} Done!"), true);
        check(format!("<|python_tag|>{CALL} and so on"), true);
        check(format!("<tool_call>{CALL}</tool_call> is how Qwen writes it."), true);
        // A fence within a fence, and the end of one that started before the call.
        check(format!("The README says:\n```markdown\n# Tools\n```json\n{CALL}\n```\n```"), true);
        check(format!("```markdown\n```json\n{CALL}\n```\n```"), true);
        check(format!("````markdown\n# Tools\n```json\n{{}}\n```\n{CALL}\n````"), true);
        check(format!("~~~markdown\n# Tools\n~~~json\n{CALL}\n~~~\n~~~"), true);
        check(format!("The README says:\n{CALL}\n```"), true);
        // It is unclear which of several calls was meant.
        check(format!("1. {CALL}\n2. {CALL}"), true);
        check(format!("Not {CALL} but\n{CALL}"), true);
        check(format!("Not <tool_call>{CALL}</tool_call> but\n{CALL}"), true);
        check(format!("Not {CALL} but\n<tool_call>\n<function=now>\n</function>\n</tool_call>"), true);
        // Tags that are not marks of models.
        check(format!("<code>{CALL}</code>"), true);
        check(format!("One writes \"{CALL}\""), true);
        check(format!("One writes “{CALL}”."), true);
        check(format!("One writes JSON ({CALL})"), true);
        check("<function=read_file>{\"path\": \"a\"}</function> is how Llama writes it.".to_owned(), true);
        check("[read_file(path=\"a\")] or\n[read_file(path=\"b\")]".to_owned(), true);
        check("Thought: I look.\nAction: read_file\nAction Input: a".to_owned(), true);
        check(format!("<document>\n{CALL}\n</document>"), true);
        check(format!("<!-- {CALL} -->"), true);
        check(format!("{CALL} [example]"), true);
        check("{“tool”: “read_file”, “args”: {“path”: “a”}}".to_owned(), true);
        check("{“name”: “Bob”}".to_owned(), false);
        check(format!("One writes `{CALL}` for that."), false);
        check(format!("```python\nx = {CALL}\n```\n"), false);
        check(format!("Qwen writes `<tool_call>{CALL}</tool_call>`."), false);
        check(format!("The README says:\n> {CALL}"), false);
    }

    #[test]
    fn other_call_forms_run_only_if_calls_are_expected() {
        let foreign = Some(("read_file", UnrunReason::Foreign));
        let check = |text: &str, output: &str| {
            super::tests::check(false, text, output, None, foreign);
            let pieces: Vec<&str> = text.split_inclusive(|_: char| true).collect();
            for pieces in [vec![text], pieces] {
                let (before, call, unrun) = run(&pieces, true, false);
                let name = call.map(|(name, _)| name);
                assert_eq!((before.as_str(), name.as_deref(), unrun), (output, Some("read_file"), None), "{text}");
            }
        };
        check("[read_file(path=\"a\")]", "");
        check("I look.\n[read_file(path=\"a\")]", "I look.\n");
        check("Thought: I look.\nAction: read_file\nAction Input: {\"path\": \"a\"}", "Thought: I look.\n");
        check("```tool_code\nread_file(path=\"a\")\n```", "");
        check("<|python_tag|>read_file.call(path=\"a\")", "");
        check("<tool_call>\n{'name': 'read_file', 'arguments': {'path': 'a'}}\n</tool_call>", "");
        check("assistantcommentary to=functions.read_file json{\"path\": \"a\"}", "");
        check("<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>", "");
        check("I look.\n<function=read_file>{\"path\": \"a\"}</function>", "I look.\n");
        check("<function=read_file>{\"path\": \"a\"}</function>", "");
        check("<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", "");
        check(
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read_file\">\n<｜DSML｜parameter name=\"path\" \
             string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            "",
        );
        check(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{}\n```<｜tool▁call▁end｜>",
            "",
        );
        check("[TOOL_CALLS]read_file[ARGS]{\"path\": \"a\"}", "");
        check(
            "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{}\
             <|tool_call_end|><|tool_calls_section_end|>",
            "I look.",
        );
        check("to=functions.read_file<|channel|>commentary json<|message|>{\"path\": \"a\"}", "");
        check(" to=functions.read_file<|channel|>commentary<|message|>{}<|call|>", " ");
        check("<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{}<|call|>", "");
        for (text, output) in [
            ("[TOOL_REQUEST]\n{\"name\": \"read_file\", \"arguments\": {}}\n[END_TOOL_REQUEST]", ""),
            ("I look.\n<tool_call>{\"name\": \"read_file\", \"arguments\": {}}</tool_call>", "I look.\n"),
            ("<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>", ""),
            ("[TOOL_CALLS] [{\"name\": \"read_file\", \"arguments\": {}}]", ""),
            ("{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}", ""),
            ("```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```", ""),
        ] {
            super::tests::check(false, text, output, None, foreign);
        }
        for (text, output) in [
            ("<start_function_call>call:read_file{path:<escape>a<escape>}<end_function_call>", ""),
            ("<seed:tool_call>\n<function=read_file>\n</function>\n</seed:tool_call>", ""),
            ("functools[{\"name\": \"read_file\", \"arguments\": {}}]", ""),
            ("I look.\n<|tool_call_start|>[read_file(path=\"a\")]<|tool_call_end|>", "I look.\n"),
        ] {
            check(text, output);
        }
        let unknown = "<tool_call>{\"name\": \"fly\", \"arguments\": {}}</tool_call>";
        super::tests::check(false, unknown, "", None, Some(("fly", UnrunReason::Foreign)));
    }

    #[test]
    fn last_call_of_a_text_is_doubtful_where_servers_parse_calls() {
        let doubtful = Some(("read_file", UnrunReason::Doubtful));
        let check = |text: &str, unrun| check(false, text, text, None, unrun);
        check(&format!("I look.\n{CALL}"), doubtful);
        check(&format!("I look.\n```json\n{CALL}\n```\n"), doubtful);
        check("I look.\n{\n  \"name\": \"read_file\",\n  \"arguments\": {\n    \"path\": \"a\"\n  }\n}", doubtful);
        check("{“tool”: “read_file”, “args”: {“path”: “a”}}", doubtful);
        check(&format!("I look.\n{CALL}\nIt says a."), None);
        check(&format!("I look.\n> {CALL}"), None);
        check(&format!("I look: {CALL}"), None);
        check("A package:\n```json\n{\"name\": \"read_file\", \"version\": 1}\n```", None);
    }

    #[test]
    fn plain_text_stays_text() {
        for text in [
            "",
            " ",
            "Hello, wörld.",
            "to=functions is a word",
            "fn main() { println!(\"{}\", 1); }",
            "a < b and [1] and <tool> and [TOOL and `c` and ``d``",
            "```rust\nfn main() {}\n```",
            "```rust\nfn main() {}\n```\nThat is all.",
            "```json\n{\"a\": 1}\n```",
            "{\"name\": \"Bob\", \"age\": 7}",
            "{\"name\": \"Bob\"}",
            "{\"name\": \"Bob Smith\", \"arguments\": {}}",
            "{\"a\": {\"name\": \"read_file\", \"arguments\": {}}}",
            "{\"tool\": \"fly\", \"args\": {}, \"colour\": \"red\"}",
            "{\"tool\": \"fly\", \"args\": [1]}",
            "{\"tool\": \"now\", \"args\": {",
            "{\"tool\": \"now\", oh well}",
            "{}",
            "{ x",
            "{{\"tool\"}}",
            "``",
            "`````",
            "<tool_callous> <tool",
            "<tool_call></tool_call>",
            "```",
            "```a-very-long-label-that-is-no-language-at-all {",
            "Action: restart the server",
            "[now](https://example.org) and\n[now()](https://example.org)",
            "```python\nnow() + 1\n```",
            "Llama writes `[now()]`, and Qwen `<function=now></function>`.",
            "See [now()]",
            "Replace [TOOL_NAME] by yours:\n{\"name\": \"demo\"}",
            "<tool_calling> {\"name\": \"demo\"}",
            "<|start|>assistant {\"name\": \"demo\"}",
        ] {
            check(true, text, text, None, None);
            check(false, text, text, None, None);
        }
        // If calls have their own field, JSON within the text is text.
        for text in [
            "Qwen writes `<tool_call>{\"name\": \"read_file\"}</tool_call>`.",
            "For example:\n```\n<tool_call>{\"name\": \"read_file\"}</tool_call>\n```\nThat is it.",
            "<tool_call>{\"name\": \"read_file\"}</tool_call> is how Qwen writes it.",
            "{\"name\": \"read_file\", \"arguments\": {}} is one.",
            "```json\n{\"name\": \"read_file\", \"arguments\": {}}\n```\nThat is one.",
            "I look.\n{\"name\": \"read_file\", \"arguments\": {}}",
        ] {
            check(false, text, text, None, None);
        }
    }

    #[test]
    fn truncated_call_is_reported_with_its_name() {
        let cut = || ("I write.\n".to_owned(), None, Some(("read_file".to_owned(), UnrunReason::Cut)));
        assert_eq!(run(&["I write.\n{\"tool\": \"read_file\", \"args\": {\"path\": \"a"], true, true), cut());
        let (output, _, unrun) = run(&[CALL, " or\n<tool_call>\n{\"name\": \"now\", \"arg"], true, true);
        assert_eq!((output, unrun), (format!("{CALL} or\n"), Some(("now".to_owned(), UnrunReason::Cut))));
        for expects_calls in [true, false] {
            assert_eq!(run(&["I write.\n<tool_call>\n{\"name\": \"read_file\", \"arg"], expects_calls, true), cut());
            assert_eq!(run(&["I write.\n<function=read_file>\n<parameter=path>a"], expects_calls, true), cut());
        }
    }

    #[test]
    fn text_without_a_call_is_streamed_at_once() {
        let mut scanner = scanner(true);
        let mut check = |piece: &str, output: &str| assert_eq!(scanner.push(piece), output, "{piece:?}");
        check("``", "");
        check("`ru", "");
        check("st\nfn {\"tool\":", "```rust\nfn {\"tool\":");
        check("\n```\n", "\n```\n");
        check("Hello", "Hello");
        check(" {", " ");
        check(" x", "{ x");
        check(" and {\"to", " and ");
        check("ols\": 1} ", "{\"tools\": 1} ");
        check("{\"tool\":", "");
        check("\"now\"}", "");
        check("Tool result", "");
        let mut scanner = super::tests::scanner(true);
        let mut check = |piece: &str, output: &str| assert_eq!(scanner.push(piece), output, "{piece:?}");
        check("``", "");
        check("x", "``x");
        let mut scanner = super::tests::scanner(false);
        let mut check = |piece: &str, output: &str| assert_eq!(scanner.push(piece), output, "{piece:?}");
        check("{\"x", "{\"x");
        check("\": {\"name\": \"now\"", "\": {\"name\": \"now\"");
        // A possible start of a call that never ends.
        let unfinished_length = 2 * call::MAX_OPENING;
        for (begin, more) in [("{", " "), ("```", "a"), ("```\n", " ")] {
            let mut scanner = super::tests::scanner(true);
            let output: String = std::iter::once(begin)
                .chain(std::iter::repeat_n(more, unfinished_length))
                .map(|piece| scanner.push(piece))
                .collect();
            assert_eq!(output.len(), begin.len() + unfinished_length, "{begin:?}");
        }
    }

    #[test]
    fn deeply_wrapped_call_is_not_a_call() {
        let object = |levels: usize| format!("{}{CALL}{}", "{\"function\": ".repeat(levels), "}".repeat(levels));
        assert_eq!(run(&[&object(2)], true, false).1.map(|(name, _)| name).as_deref(), Some("read_file"));
        for levels in [3, 100_000] {
            let text = object(levels);
            assert_eq!(run(&[&text], true, false), (text.clone(), None, None));
        }
    }

    #[test]
    fn hostile_answer_is_scanned_in_linear_time() {
        for part in [CALL, "<tool_call>", "<tool_call>{\"", "<tool_call>é", "{\"tool\"", "```json\n{\"a\": 1}\n", "<`["]
        {
            let text = part.repeat((2 << 20) / part.len());
            for expects_calls in [true, false] {
                let (output, ..) = run(&["x ", &text, " x"], expects_calls, false);
                assert_eq!(output.len(), text.len() + 4, "{part}");
            }
        }
    }

    /// Calls in the forms of model families, on one line.
    const FORMS: [&str; 14] = [
        CALL,
        "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>",
        "<tool_call>{'name': 'now', 'arguments': {}}</tool_call>",
        "<function=read_file><parameter=path>a</parameter></function>",
        "<function=now>{}</function>",
        "<|python_tag|>now.call()",
        "[now()]",
        "[TOOL_CALLS]now[ARGS]{}",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        "<|channel|>commentary to=functions.now<|message|>{}<|call|>",
        "<tool_call>now</tool_call>",
        "<start_function_call>call:now{}<end_function_call>",
        "<invoke name=\"now\"></invoke>",
    ];

    proptest! {
        #[test]
        fn prose_that_quotes_a_call_runs_nothing(
            before in "[A-Z][a-z]{1,9}( [a-z]{2,9}){1,5}",
            after in "[A-Z][a-z]{1,9}( [a-z]{2,9}){1,5}\\.",
            forms in proptest::collection::vec(prop::sample::select(FORMS.to_vec()), 1..4),
            quote in 0..9_usize,
            expects_calls in any::<bool>(),
        ) {
            let (inline, lines) = (forms[0], forms.join("\n"));
            let text = match quote {
                0 => format!("{before}: `{inline}`"),
                1 => format!("{before}:\n```\n{lines}\n```"),
                2 => format!("{before}:\n~~~text\n{lines}\n~~~\n"),
                3 => format!("{before}:\n> {}", forms.join("\n> ")),
                4 => format!("{before} \"{inline}\"."),
                5 => format!("{before} ({inline})"),
                6 => format!("{before}\n{lines}\n\n{after}"),
                7 => format!("{lines}\n{after}"),
                _ => format!("```\n{lines}\n```\n{after}"),
            };
            let (output, call, unrun) = run(&[&text], expects_calls, false);
            prop_assert_eq!(call, None, "{}", text);
            prop_assert!(output == text && unrun.is_none_or(|(_, reason)| reason == UnrunReason::Doubtful), "{}", text);
        }

        #[test]
        fn scan_result_is_independent_of_chunking(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("{\"tool\": \"now\", \"args\": {}}"), Just("{\"a\": \"}{\\\"\"}"), Just("```json\n"), Just("```"),
                    Just("{\"name\": \"now\", \"arguments\": {}}"),
                    Just("{"), Just("}"), Just("\""), Just("wörds "), Just("<tool_call>"), Just("</tool_call>"), Just("\n"),
                    Just("`"), Just("<function=now>"), Just("[TOOL_CALLS]"), Just("to=functions.now"), Just("<|tool_call"),
                    Just("<"), Just("["), Just("<tool_result name="),
                    Just("[now()]"), Just("Action: now\n"), Just("call:now{}"), Just("<TOOLCALL>"), Just("functools["),
                    Just("~~~\n"), Just("[TOOL_RESULTS]"), Just("</code>"), Just("1. "), Just("```markdown\n"),
                ],
                0..12,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
            expects_calls in any::<bool>(),
        ) {
            let text = parts.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            let whole = run(&[&text], expects_calls, false);
            prop_assert_eq!(&run(&pieces, expects_calls, false), &whole);
            prop_assert!(text.starts_with(&whole.0));
            prop_assert!(whole.1.is_none() || expects_calls);
            match &whole.2 {
                Some((_, reason)) => prop_assert!(*reason != UnrunReason::Doubtful || whole.0 == text),
                None => prop_assert!(whole.1.is_some() || whole.0 == text),
            }
        }
    }
}
