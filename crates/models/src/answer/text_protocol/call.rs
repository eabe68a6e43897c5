//! Parsing of objects as calls, and of texts that consist only of calls. Also parses model-specific call formats that
//! servers should have parsed. Pure.

use std::{borrow::Cow, collections::BTreeMap};

use agentd_core::{tool::ToolSpec, untrusted};
use serde_json::value::RawValue;

use crate::answer::RawCall;

/// Maximum length of an unknown tool's name.
pub(super) const MAX_NAME: usize = 64;

/// Maximum number of bytes before the first key of an object, or before the code of a fence.
pub(super) const MAX_OPENING: usize = 1 << 10;

/// Quotes around names. The typographic ones are not JSON, so that such a call does not run.
const QUOTES: [char; 3] = ['"', '“', '”'];

/// Mark of a fence.
pub(super) const FENCE: &str = "```";

/// First keys of a call's object. Other JSON answers are not buffered until their end.
const FIRST_KEYS: [&str; 11] = [
    "name",
    "tool",
    "tool_name",
    "tool_call_id",
    "tool_calls",
    "function",
    "type",
    "arguments",
    "args",
    "parameters",
    "function_call",
];

/// Keys whose value is the name of a tool.
const NAME_KEYS: [&str; 4] = ["tool", "name", "tool_name", "function"];

/// Keys of an outer object whose value is the call.
const WRAPPERS: [&str; 4] = ["function", "tool_call", "tool_calls", "function_call"];

/// Maximum number of objects around a call.
const MAX_WRAPPERS: usize = 2;

/// Start of texts that models invent after a call: results, and messages in other roles.
const INVENTED_STARTS: [&str; 8] = [
    untrusted::RESULT_START,
    "<tool_response>",
    "[TOOL_RESULTS]",
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "[INST]",
    "Observation:",
];

/// Tags with which models begin and end messages.
const MESSAGE_TAGS: [&str; 8] = ["/s", "eos", "bos", "eot", "end_of_turn", "start_of_turn", "inst", "/inst"];

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Parses a balanced object as a call if it names a known tool, or has only a name, arguments and harmless keys. In
/// the second case, the model gets a report that the tool does not exist. JSON in prose stays prose.
pub(super) fn read(object: &str, tools: &[ToolSpec]) -> Option<RawCall> {
    read_strict(object, tools).or_else(|| {
        let repaired = repair(object)?;
        read_strict(&repaired, tools)
    })
}

/// Returns the name of a known tool at the start of an object.
pub(super) fn leading_tool_name(object: &str, tools: &[ToolSpec]) -> Option<String> {
    names_in(object).find(|name| is_known(name, tools)).map(str::to_owned)
}

/// Returns the values of the first keys that name a tool.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    NAME_KEYS.into_iter().filter_map(move |key| {
        let mut keys = text.match_indices(key).map(|(at, _)| (&text[..at], &text[at + key.len()..]));
        let (_, rest) = keys.find(|(before, after)| before.ends_with(QUOTES) && after.starts_with(QUOTES))?;
        let rest = rest.strip_prefix(QUOTES)?.trim_start().strip_prefix(':')?.trim_start().strip_prefix(QUOTES)?;
        rest.split_once(QUOTES).map(|(name, _)| name)
    })
}

/// Returns true if there is a tool with this name.
pub(super) fn is_known(name: &str, tools: &[ToolSpec]) -> bool {
    tools.iter().any(|tool| tool.name == name)
}

/// Returns true if the first key allows the object to be a call, or `None` if more of the key is needed.
pub(super) fn may_be_call(object: &str, with_any_key: bool) -> Option<bool> {
    let key = object[1..].trim_start();
    if object.len() - key.len() > MAX_OPENING {
        return Some(false);
    }
    let Some(key) = key.strip_prefix(QUOTES) else { return if key.is_empty() { None } else { Some(false) } };
    if with_any_key {
        return Some(true);
    }
    match key.split_once(QUOTES) {
        Some((key, _)) => Some(FIRST_KEYS.contains(&key)),
        None if FIRST_KEYS.into_iter().any(|first| first.starts_with(key)) => None,
        None => Some(false),
    }
}

/// Returns the first call in a text that consists only of calls, with marks, fences and invented text around them.
/// `is_whole` is true if no text precedes this text. The error is the position of other content.
pub(super) fn only_calls(text: &str, is_whole: bool, tools: &[ToolSpec]) -> Result<RawCall, usize> {
    let (mut rest, mut first, mut is_fenced) = (text, None, false);
    while let Some(letter) = rest.chars().next() {
        rest = if first.is_some() && is_invented(rest) {
            ""
        } else if let Some(code) = rest.strip_prefix(FENCE) {
            let inner = without_label(code);
            is_fenced = !is_fenced;
            match is_fenced {
                true if inner.starts_with('{') => inner,
                // The opening fence was in the prompt.
                true if is_whole && inner.is_empty() => {
                    is_fenced = false;
                    inner
                }
                // Closes a fence that began before the text.
                true => break,
                false => code,
            }
        } else if let Some(after) = without_tag(rest) {
            after
        } else if letter == '{' && may_be_call(rest, true) == Some(true) {
            let end = Balance::default().end(rest.as_bytes());
            let Some((end, call)) = end.and_then(|end| Some((end, read(&rest[..end], tools)?))) else { break };
            first.get_or_insert(call);
            &rest[end..]
        } else if matches!(letter, '{' | '<' | '>' | '"' | '\'' | '”' | '’' | '»' | ')') || letter.is_alphanumeric()
        {
            // Prose also ends at a quote or a bracket around a call.
            break;
        } else {
            &rest[letter.len_utf8()..]
        };
    }
    first.filter(|_| rest.is_empty()).ok_or(text.len() - rest.len())
}

/// Returns true if a text starts as those that models invent after a call.
pub(super) fn is_invented(text: &str) -> bool {
    INVENTED_STARTS.iter().any(|mark| text.starts_with(mark))
}

/// Returns the code after the label of a fence.
pub(super) fn without_label(code: &str) -> &str {
    code.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')).trim_start()
}

/// Returns the text after a model's tag, such as `<tool_call>`, `<|im_end|>` or `[TOOL_CALLS]`, or `None` after other
/// tags, whose content may be a quotation.
pub(super) fn without_tag(text: &str) -> Option<&str> {
    let closing = match text.chars().next()? {
        '<' => '>',
        '[' => ']',
        _ => return None,
    };
    let ends = |letter: char| letter.is_whitespace() || matches!(letter, '<' | '>' | '[' | ']' | '{' | '"');
    let end = 1 + text[1..].find(ends)?;
    let tag = text[1..end].to_ascii_lowercase();
    let is_of_models =
        MESSAGE_TAGS.contains(&&*tag) || ["|", "｜", "tool", "function"].iter().any(|part| tag.contains(part));
    text[end..].strip_prefix(closing).filter(|_| is_of_models)
}

/// Incremental scan for the brace that closes an object.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Balance {
    /// Returns the end of the object, which may have grown since the last call.
    pub(crate) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            if self.in_string {
                self.in_string = self.escaped || *byte != b'"';
                self.escaped = !self.escaped && *byte == b'\\';
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                b'}' if self.depth > 1 => self.depth -= 1,
                b'}' if self.depth == 1 => {
                    self.depth = 0;
                    return Some(self.at);
                }
                _ => {}
            }
        }
        None
    }
}

fn read_strict(object: &str, tools: &[ToolSpec]) -> Option<RawCall> {
    let mut fields: Fields<'_> = serde_json::from_str(object).ok()?;
    for _ in 0..MAX_WRAPPERS {
        let mut wrapped = WRAPPERS.iter().filter_map(|key| Some(fields.get(*key)?.get()));
        let Some(inner) = wrapped.find(|inner| inner.starts_with(['{', '['])) else { break };
        let calls: Option<Vec<&RawValue>> = serde_json::from_str(inner).ok();
        let first = calls.and_then(|calls| Some(calls.first()?.get()));
        fields = serde_json::from_str(first.unwrap_or(inner)).ok()?;
    }
    let (name_key, name) = NAME_KEYS.into_iter().find_map(|key| {
        let name: String = serde_json::from_str(fields.get(key)?.get()).ok()?;
        Some((key, name))
    })?;
    let arguments_key = ["args", "arguments", "parameters", "input"].into_iter().find(|key| fields.contains_key(*key));
    let is_tool = is_known(&name, tools);
    let arguments = match arguments_key.and_then(|key| fields.get(key)) {
        Some(arguments) => arguments_of(arguments)?,
        // A known tool without arguments. A name alone may be anything.
        None if is_tool && (name_key == "tool" || fields.len() == 1) => "{}".to_owned(),
        None => return None,
    };
    (is_tool || is_unmistakable(&fields, &name, name_key, &arguments)).then_some(RawCall {
        name,
        arguments,
        ..RawCall::default()
    })
}

/// Returns the arguments' own bytes, unquoted if the model has written them as a string.
fn arguments_of(raw: &RawValue) -> Option<String> {
    let raw = raw.get();
    match raw.as_bytes().first()? {
        b'{' => Some(raw.to_owned()),
        b'"' => serde_json::from_str(raw).ok(),
        b'n' => Some("{}".to_owned()),
        _ => None,
    }
}

fn is_unmistakable(fields: &Fields<'_>, name: &str, name_key: &str, arguments: &str) -> bool {
    let call_keys = ["tool", "name", "args", "arguments"];
    let other_keys = ["id", "type", "thought", "thoughts", "reasoning"];
    matches!(name_key, "tool" | "name")
        && fields.keys().all(|key| call_keys.contains(&key.as_ref()) || other_keys.contains(&key.as_ref()))
        && arguments.starts_with('{')
        && (1..=MAX_NAME).contains(&name.len())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.'))
}

/// Repairs the most frequent mistakes of small models: line breaks in strings, and trailing commas.
pub(super) fn repair(object: &str) -> Option<String> {
    let mut repaired = String::with_capacity(object.len() + 16);
    let mut in_string = false;
    let mut escaped = false;
    for character in object.chars() {
        if in_string {
            match character {
                '\n' => repaired.push_str("\\n"),
                '\r' => repaired.push_str("\\r"),
                '\t' => repaired.push_str("\\t"),
                _ => repaired.push(character),
            }
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        if matches!(character, '}' | ']') {
            let trimmed = repaired.trim_end();
            if trimmed.ends_with(',') {
                repaired.truncate(trimmed.len() - 1);
            }
        }
        in_string = character == '"';
        repaired.push(character);
    }
    (repaired != object).then_some(repaired)
}

/// Start marks of calls: Hermes and Qwen, DeepSeek, Kimi, Mistral, LM Studio, Llama, MiniMax, gpt-oss, Seed, Gemma,
/// Nemotron, Command and InternLM.
const START_MARKS: [&str; 24] = [
    "<tool_call>",
    "<tool_calls>",
    "<tool_use>",
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
    "<seed:tool_call>",
    "<start_function_call>",
    "<TOOLCALL>",
    "<|START_ACTION|>",
    "<|action_start|>",
    "```tool_code",
];

/// Marks that are only recognised at the start of an answer, as they may occur in ordinary text: those of gpt-oss,
/// around which some servers remove the other marks, and that of Phi.
const INITIAL_MARKS: [&str; 4] =
    ["to=functions.", "commentary to=functions.", "assistantcommentary to=functions.", "functools["];

/// Marks before the name of a tool.
pub(super) const BEFORE_NAME: [&str; 14] = [
    "<function=",
    "<invoke name=\"",
    "<｜DSML｜invoke name=\"",
    "invoke name=\"",
    "<|tool_call_begin|>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁begin｜>",
    "[TOOL_CALLS]",
    "<tool_call>",
    "<tool_name>",
    "<name>",
    "to=",
    "call:",
    "Action:",
];

/// Returns the marks that may start a call at this position of an answer.
pub(super) fn marks(is_first: bool) -> impl Iterator<Item = &'static str> {
    START_MARKS.into_iter().chain(INITIAL_MARKS.into_iter().filter(move |_| is_first))
}

/// Returns the first tool name in a call in one of these formats. Unknown names are also returned, as the format
/// defines the name's position.
pub(super) fn named_in(text: &str, tools: &[ToolSpec]) -> Option<String> {
    let name_after = |mark: &str| {
        let (_, rest) = text.split_once(mark)?;
        let rest = rest.trim_start();
        Some(leading_name(rest.strip_prefix("functions.").unwrap_or(rest)))
    };
    let names = names_in(text).chain(BEFORE_NAME.into_iter().filter_map(name_after));
    let names: Vec<&str> = names.filter(|name| (1..=MAX_NAME).contains(&name.len())).collect();
    names.iter().find(|name| is_known(name, tools)).or(names.first()).map(|name| (*name).to_owned())
}

/// Returns the name at the start of a text.
pub(super) fn leading_name(text: &str) -> &str {
    let end = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || "_-.".contains(letter)));
    &text[..end.unwrap_or(text.len())]
}

/// Returns true if a text is only a mark. Some servers leave one before the calls that they have parsed.
pub(crate) fn is_mark(text: &str) -> bool {
    without_tag(text.trim()) == Some("")
}

/// Removes leftovers of formats such as that of gpt-oss from a tool name.
pub(crate) fn clean_name(name: &str, tools: &[ToolSpec]) -> String {
    let stem = name.split("<|").next().unwrap_or(name).trim();
    let plain = stem.strip_prefix("functions.").unwrap_or(stem);
    let unnumbered = plain.split_once(':').map_or(plain, |(before, _)| before);
    let found = [name, stem, plain, unnumbered].into_iter().find(|name| is_known(name, tools));
    found.unwrap_or(if stem.is_empty() { name } else { stem }).to_owned()
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_names_are_cleaned() {
        let tool = ToolSpec {
            name: "read_file".to_owned(),
            description: String::new(),
            parameters: json!({}),
            effect: Effect::Read,
        };
        let tools = [tool];
        let check = |name: &str, expected: &str| assert_eq!(clean_name(name, &tools), expected, "{name}");
        check("read_file", "read_file");
        check("read_file<|channel|>commentary", "read_file");
        check("functions.read_file", "read_file");
        check("functions.read_file:3", "read_file");
        check("fly<|channel|>json", "fly");
        check("mcp:fly", "mcp:fly");
        check("<|channel|>", "<|channel|>");
        check("", "");
    }
}
