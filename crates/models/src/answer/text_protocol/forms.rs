//! Calls in the forms of model families that are not one JSON object. Pure.
//!
//! A mark says where the name of the tool is. The form of its arguments follows from their structure: JSON, one pair of
//! tags for each argument, or keywords of Python.

use agentd_core::tool::ToolSpec;
use serde_json::{Map, Value};

use super::{
    call::{self, BEFORE_NAME, Balance, FENCE},
    python,
};
use crate::answer::RawCall;

/// Maximum number of characters between the name of a tool and its arguments.
const MAX_GAP: usize = 96;

/// Tags of one argument: before its name, between the name and the value, and after the value.
const ARGUMENT_TAGS: [[&str; 3]; 4] = [
    ["<parameter=", ">", "</parameter>"],
    ["<parameter name=\"", ">", "</parameter>"],
    ["<｜DSML｜parameter name=\"", ">", "</｜DSML｜parameter>"],
    ["<arg_key>", "<arg_value>", "</arg_value>"],
];

/// Parts of forms before and after a call, beside the tags of models.
const FILLERS: [&str; 10] = ["</invoke>", "print(", "functools[", "assistant", "commentary", "[", "]", ")", ",", ";"];

/// Text after a filler that is a word. Elsewhere, the word is prose.
const AFTER_WORDS: [&str; 3] = ["<|", "to=", "commentary"];

/// Name of DeepSeek's V3 for the type of a call, before the mark of the name.
const TYPED_CALL: &str = "<｜tool▁call▁begin｜>function";

/// Returns true if a line starts with a call that no mark precedes: the list of Llama 3.2 and 4, or the action of
/// ReAct. Returns `None` if more of the line is needed.
pub(super) fn is_unmarked_call(line: &str, tools: &[ToolSpec]) -> Option<bool> {
    starts_with_any(
        line,
        tools.iter().flat_map(|ToolSpec { name, .. }| [format!("[{name}("), format!("Action: {name}\n")]),
    )
}

/// Returns true if the code of a fence starts with a call, as Gemma writes it. Returns `None` if more of it is needed.
pub(super) fn is_code_call(code: &str, tools: &[ToolSpec]) -> Option<bool> {
    starts_with_any(code, tools.iter().flat_map(|ToolSpec { name, .. }| [format!("{name}("), format!("print({name}(")]))
}

fn starts_with_any(text: &str, mut starts: impl Iterator<Item = String>) -> Option<bool> {
    let mut is_open = false;
    let is_found = starts.any(|start| {
        is_open |= start.starts_with(text);
        text.starts_with(&start)
    });
    if is_found || !is_open { Some(is_found) } else { None }
}

/// Returns the first call of a text that consists only of calls, marks, and text that models invent after a call. The
/// error is the position of other content.
pub(super) fn read(text: &str, tools: &[ToolSpec]) -> Result<RawCall, usize> {
    let (mut rest, mut first, mut open) = (text.trim_start(), None, 0);
    while !rest.is_empty() && !(first.is_some() && call::is_invented(rest)) {
        let after = match read_call(rest, tools) {
            Some((call, after)) => {
                first.get_or_insert(call);
                after
            }
            None => without_mark(rest, &mut open).ok_or(text.len() - rest.len())?,
        };
        rest = after.trim_start();
    }
    first.ok_or(text.len() - rest.len())
}

/// Returns the name of a known tool at the start of a text, after its marks, although the text consists not only of
/// calls: other content is at `end`.
pub(super) fn known_name(text: &str, end: usize, tools: &[ToolSpec]) -> Option<String> {
    if text.starts_with('[') && !text.starts_with("[TOOL") {
        // Before another bracket, it is the text of a link.
        return read(&text[..end], tools).ok().filter(|_| !text[end..].starts_with('(')).map(|call| call.name);
    }
    let mut rest = text;
    loop {
        let marked = BEFORE_NAME.iter().find_map(|mark| rest.strip_prefix(mark));
        let name = marked.map(|marked| call::clean_name(call::leading_name(marked.trim_start()), tools));
        if let Some(name) = name.filter(|name| call::is_known(name, tools)) {
            return Some(name);
        }
        rest = without_mark(rest, &mut 0)?.trim_start();
    }
}

/// Returns the text after a tag, a fence or a filler. `open` is the number of open brackets around calls.
fn without_mark<'a>(text: &'a str, open: &mut usize) -> Option<&'a str> {
    let filler = || {
        let (filler, rest) = FILLERS.into_iter().find_map(|filler| Some((filler, text.strip_prefix(filler)?)))?;
        match filler {
            "[" | "print(" | "functools[" => *open += 1,
            "]" | ")" => *open = open.checked_sub(1)?,
            "assistant" | "commentary" if !AFTER_WORDS.iter().any(|after| rest.trim_start().starts_with(after)) => {
                return None;
            }
            _ => {}
        }
        Some(rest)
    };
    call::without_tag(text).or_else(|| text.strip_prefix(FENCE).map(call::without_label)).or_else(filler)
}

fn read_call<'a>(text: &'a str, tools: &[ToolSpec]) -> Option<(RawCall, &'a str)> {
    if text.starts_with('{') {
        let (object, rest) = object(text)?;
        return Some((call::read(&object, tools)?, rest));
    }
    let text = text.strip_prefix(TYPED_CALL).unwrap_or(text);
    let (name, rest) = match BEFORE_NAME.iter().find_map(|mark| text.strip_prefix(mark)) {
        Some(marked) => {
            let marked = marked.trim_start();
            let name = call::leading_name(marked);
            (call::clean_name(name, tools), &marked[name.len()..])
        }
        None => tools.iter().find_map(|tool| {
            let rest = text.strip_prefix(tool.name.as_str())?;
            let rest = rest.strip_prefix(".call").unwrap_or(rest);
            rest.starts_with('(').then(|| (tool.name.clone(), rest))
        })?,
    };
    let tool = tools.iter().find(|tool| tool.name == name);
    let (arguments, rest) = arguments(rest, tool).filter(|_| (1..=call::MAX_NAME).contains(&name.len()))?;
    Some((RawCall { name, arguments, ..RawCall::default() }, rest))
}

/// Returns the arguments after the name of a tool as JSON, and the rest.
fn arguments<'a>(text: &'a str, tool: Option<&ToolSpec>) -> Option<(String, &'a str)> {
    if let Some(keywords) = text.strip_prefix('(') {
        return python::keywords(keywords).map(|(arguments, rest)| (Value::Object(arguments).to_string(), rest));
    }
    // The mark of the name may end here.
    let text = text.trim_start_matches(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '>'));
    if ARGUMENT_TAGS.iter().any(|[open, ..]| text.starts_with(open)) {
        return tagged(text, tool);
    }
    let start = text.char_indices().take(MAX_GAP).find(|(_, letter)| *letter == '{').map(|(at, _)| at);
    match start.filter(|start| !["</", "\n\n"].iter().any(|end| text[..*start].contains(end))) {
        Some(start) => object(&text[start..]),
        None => text.starts_with(['<', '[']).then(|| ("{}".to_owned(), text)),
    }
}

/// Returns the object at the start of a text as JSON, and the rest.
fn object(text: &str) -> Option<(String, &str)> {
    let is_object = |json: &String| serde_json::from_str::<Map<String, Value>>(json).is_ok();
    let json = Balance::default().end(text.as_bytes()).and_then(|end| {
        let (object, rest) = text.split_at(end);
        let json = Some(object.to_owned()).filter(is_object).or_else(|| call::repair(object).filter(is_object))?;
        Some((json, rest))
    });
    json.or_else(|| python::literal(text).map(|(value, rest)| (value.to_string(), rest)))
}

/// Returns the arguments in tags, if the tag of the call is closed after them.
fn tagged<'a>(mut text: &'a str, tool: Option<&ToolSpec>) -> Option<(String, &'a str)> {
    let mut arguments = Map::new();
    while let Some([open, between, close]) = ARGUMENT_TAGS.into_iter().find(|[open, ..]| text.starts_with(open)) {
        let (name, value) = text[open.len()..].split_once(between)?;
        let (value, rest) = value.split_once(close)?;
        let name = name.split(['"', '<']).next()?.trim();
        arguments.insert(name.to_owned(), typed(value, name, tool));
        text = rest.trim_start();
    }
    text.starts_with("</").then(|| (Value::Object(arguments).to_string(), text))
}

/// Returns the value of an argument: a string where the tool expects one, else what it is as JSON.
fn typed(value: &str, name: &str, tool: Option<&ToolSpec>) -> Value {
    let value = value.strip_prefix('\n').unwrap_or(value);
    let value = value.strip_suffix('\n').unwrap_or(value);
    let expected = tool.and_then(|tool| tool.parameters.pointer(&format!("/properties/{name}/type")));
    let is_text = match expected {
        Some(Value::Array(types)) => types.iter().any(|expected| expected == "string"),
        expected => expected.is_some_and(|expected| expected == "string"),
    };
    let json = serde_json::from_str(value.trim()).ok().filter(|_| !is_text);
    json.unwrap_or_else(|| Value::String(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<ToolSpec> {
        let tool = |name: &str, parameters: Value| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters,
            effect: Effect::Read,
        };
        let properties = json!({"path": {"type": "string"}, "count": {"type": "integer"}, "tags": {"type": "array"}});
        vec![tool("read_file", json!({"properties": properties})), tool("now", json!({}))]
    }

    #[test]
    fn calls_of_model_families_are_read() {
        let check = |text: &str, name: &str, arguments: Value| {
            let call = read(text, &tools()).unwrap_or_else(|at| panic!("{text:?} fails at {at}"));
            let read: Value = serde_json::from_str(&call.arguments).unwrap();
            assert_eq!((call.name.as_str(), read), (name, arguments), "{text}");
        };
        let path = || json!({"path": "/a b"});
        // Hermes with a dictionary of Python.
        check("<tool_call>\n{'name': 'read_file', 'arguments': {'path': '/a b'}}\n</tool_call>", "read_file", path());
        check("<tool_call>{'name': 'now', 'arguments': {}}", "now", json!({}));
        check(
            "<tool_call>{'arguments': {'path': \"it's\"}, 'name': 'read_file'}",
            "read_file",
            json!({"path": "it's"}),
        );
        // Qwen3-Coder.
        let coder =
            "<tool_call>\n<function=read_file>\n<parameter=path>\n/a b\n</parameter>\n</function>\n</tool_call>";
        check(coder, "read_file", path());
        check("<function=now>\n</function>", "now", json!({}));
        let typed = "<function=read_file><parameter=path>12</parameter><parameter=count>12</parameter>\
                     <parameter=tags>[\"a\"]</parameter></function>";
        check(typed, "read_file", json!({"path": "12", "count": 12, "tags": ["a"]}));
        // Llama 3.1 and later.
        check("<function=read_file>{\"path\": \"/a b\"}</function>", "read_file", path());
        check("<|python_tag|>read_file.call(path=\"/a b\")", "read_file", path());
        check(
            "<|python_tag|>read_file(path=\"/a b\", count=3)<|eom_id|>",
            "read_file",
            json!({"path": "/a b", "count": 3}),
        );
        check("[read_file(path=\"/a b\")]", "read_file", path());
        check("[now(), read_file(path='/a b')]<|eot_id|>", "now", json!({}));
        check("[read_file(path='/a b', tags=['x', 'y'])]", "read_file", json!({"path": "/a b", "tags": ["x", "y"]}));
        // Mistral.
        check("[TOOL_CALLS]read_file[ARGS]{\"path\": \"/a b\"}", "read_file", path());
        check("[TOOL_CALLS]read_file[CALL_ID]x1y2[ARGS]{\"path\": \"/a b\"}</s>", "read_file", path());
        check("[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]read_file[ARGS]{\"path\": \"/a b\"}", "now", json!({}));
        // DeepSeek.
        let ends = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
        let begins = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>";
        check(&format!("{begins}read_file<｜tool▁sep｜>{{\"path\": \"/a b\"}}{ends}"), "read_file", path());
        check(
            &format!("{begins}function<｜tool▁sep｜>read_file\n```json\n{{\"path\": \"/a b\"}}\n```{ends}"),
            "read_file",
            path(),
        );
        let dsml = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read_file\">\n<｜DSML｜parameter name=\"path\" \
                    string=\"true\">/a b</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>";
        check(dsml, "read_file", path());
        // Kimi.
        let kimi = |id: &str| {
            format!(
                "<|tool_calls_section_begin|><|tool_call_begin|>{id}<|tool_call_argument_begin|>{{\"path\": \"/a b\"}}\
                 <|tool_call_end|><|tool_calls_section_end|>"
            )
        };
        check(&kimi("functions.read_file:0"), "read_file", path());
        check(&kimi("read_file:12"), "read_file", path());
        check(&kimi("functions.read_file"), "read_file", path());
        // MiniMax.
        let invoke = "<invoke name=\"read_file\">\n<parameter name=\"path\">/a b</parameter>\n</invoke>";
        check(&format!("<minimax:tool_call>\n{invoke}\n</minimax:tool_call>"), "read_file", path());
        check(&format!("<function_calls>\n{invoke}\n</function_calls>"), "read_file", path());
        check("<minimax:tool_call><invoke name=\"now\"></invoke></minimax:tool_call>", "now", json!({}));
        // Harmony, with and without its marks.
        let message = "<|message|>{\"path\": \"/a b\"}<|call|>";
        check(&format!("<|channel|>commentary to=functions.read_file <|constrain|>json{message}"), "read_file", path());
        check(&format!("to=functions.read_file<|channel|>commentary json{message}"), "read_file", path());
        check(&format!("<|start|>assistant<|channel|>commentary to=functions.read_file{message}"), "read_file", path());
        check("assistantcommentary to=functions.read_file json{\"path\": \"/a b\"}", "read_file", path());
        // GLM.
        let glm = "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>/a b</arg_value>\n</tool_call>";
        check(glm, "read_file", path());
        check("<tool_call>now</tool_call>", "now", json!({}));
        let counted = "<tool_call>read_file<arg_key>path</arg_key><arg_value>/a b</arg_value><arg_key>count</arg_key>\
                       <arg_value>3</arg_value></tool_call>";
        check(counted, "read_file", json!({"path": "/a b", "count": 3}));
        // Gemma.
        check("```tool_code\nread_file(path=\"/a b\")\n```", "read_file", path());
        check("```tool_code\nprint(read_file(path=\"/a b\"))\n```", "read_file", path());
        check("```python\nnow()\n```", "now", json!({}));
        let quoted = |name: &str, arguments: &str| format!("<|tool_call>call:{name}{{{arguments}}}<tool_call|>");
        check(&quoted("read_file", "path:<|\"|>/a b<|\"|>"), "read_file", path());
        check(&quoted("read_file", "count:3,path:<|\"|>{x}<|\"|>"), "read_file", json!({"path": "{x}", "count": 3}));
        check(&quoted("now", ""), "now", json!({}));
        let escaped =
            |name: &str, arguments: &str| format!("<start_function_call>call:{name}{{{arguments}}}<end_function_call>");
        check(&escaped("read_file", "path:<escape>/a b<escape>"), "read_file", path());
        check(
            &escaped("read_file", "path:<escape>\"<escape>,tags:[<escape>x<escape>]"),
            "read_file",
            json!({"path": "\"", "tags": ["x"]}),
        );
        check(&(escaped("now", "") + "<start_function_response>"), "now", json!({}));
        // Seed.
        let seed = |call: &str| format!("<seed:tool_call>\n{call}\n</seed:tool_call>");
        check(&seed("<function=read_file>\n<parameter=path>/a b</parameter>\n</function>"), "read_file", path());
        check(&seed("<function=now>\n</function>"), "now", json!({}));
        check(&seed("<function=read_file><parameter=count>3</parameter></function>"), "read_file", json!({"count": 3}));
        // LFM and OLMo.
        check("<|tool_call_start|>[read_file(path=\"/a b\")]<|tool_call_end|>", "read_file", path());
        check("<|tool_call_start|>[now(), now()]<|tool_call_end|>", "now", json!({}));
        check("<function_calls>\nread_file(path=\"/a b\")\n</function_calls>", "read_file", path());
        // Phi.
        check("functools[{\"name\": \"read_file\", \"arguments\": {\"path\": \"/a b\"}}]", "read_file", path());
        check("functools[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\"}]", "now", json!({}));
        check("functools[{\"name\": \"now\", \"parameters\": {}}]<|end|>", "now", json!({}));
        // ReAct.
        check("Action: read_file\nAction Input: {\"path\": \"/a b\"}", "read_file", path());
        check("Action: read_file\nAction Input: {'path': '/a b'}\n", "read_file", path());
        check("Action: now\nAction Input: {}", "now", json!({}));
        // What models invent after a call.
        check(&format!("{glm}\n<tool_response>\nx\n</tool_response>\nIt says x."), "read_file", path());
        check("Action: read_file\nAction Input: {\"path\": \"/a b\"}\nObservation: x\nDone.", "read_file", path());
    }

    #[test]
    fn incomplete_and_quoted_calls_are_not_read() {
        for text in [
            "<tool_call>\n<function=read_file>\n<parameter=path>\n/a",
            "<function=read_file><parameter=path>/a</parameter>",
            "<function=read_file>{\"path\": \"/a\"",
            "<function=read_file>{\"path\": \"/a\"}</function> is how Llama writes it.",
            "[read_file(path)]",
            "[read_file(path=\"/a\")](https://example.org)",
            "[read_file(path=\"/a\"",
            "[now()] commentary",
            "<function=now></function>)",
            "<function=now></function>\"",
            "<|tool_call>call:now{<tool_call|>",
            "functools[{\"name\": \"now\"",
            "Action: read_file\nAction Input: /a",
            "Action: read_file\nAction Input: {}\nThought: I know it.",
            "<tool_call></tool_call>",
            "```python\nnow() + 1\n```",
            "<tool_call>read_file is a tool",
            "<tool_call> now",
            "",
        ] {
            assert!(read(text, &tools()).is_err(), "{text}");
        }
    }

    #[test]
    fn known_name_follows_marks() {
        let check = |text: &str, end: usize, name: Option<&str>| {
            assert_eq!(known_name(text, end, &tools()).as_deref(), name, "{text}");
        };
        check("<tool_call>\n<function=now></function> is one", 0, Some("now"));
        check("Action: read_file\nAction Input: /a", 0, Some("read_file"));
        check("[now()] is one", 8, Some("now"));
        check("[now()](https://example.org)", 7, None);
        check("<function=fly></function> is one", 0, None);
        check("```python\nnow() + 1\n```", 16, None);
        check("<tool_call>", 11, None);
    }

    #[test]
    fn start_of_unmarked_call_is_known_early() {
        let tools = tools();
        let check = |line: &str, expected| assert_eq!(is_unmarked_call(line, &tools), expected, "{line}");
        check("[", None);
        check("[read_fi", None);
        check("[read_file(pa", Some(true));
        check("[reading]", Some(false));
        check("Act", None);
        check("Action: now\n", Some(true));
        check("Action: restart", Some(false));
        assert_eq!(is_code_call("print(no", &tools), None);
        assert_eq!(is_code_call("print(1)", &tools), Some(false));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(parts in proptest::collection::vec(
            prop_oneof![
                Just("<tool_call>"), Just("<function=now>"), Just("<parameter=a>"), Just("</parameter>"), Just("{"),
                Just("}"), Just("'a': "), Just("<arg_key>"), Just("<arg_value>"), Just("[now("), Just(")"), Just("é"),
                Just("Action: now\n"), Just("to=functions."), Just("</"), Just("\""), Just("<invoke name=\""),
            ],
            0..20,
        )) {
            let text = parts.concat();
            if let Err(at) = read(&text, &tools()) {
                prop_assert!(text.is_char_boundary(at));
            }
        }
    }
}
