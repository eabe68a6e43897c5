//! Spellings of calls that models write and their servers should have read.

use std::iter;

use agentd_core::tool::ToolSpec;

use super::call::{is_known, names_in, without_tag};

/// Beginnings of calls: of Hermes and Qwen, DeepSeek, Kimi, Mistral, LM Studio, Llama, MiniMax and gpt-oss.
const MARKS: [&str; 18] = [
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
];

/// A mark that counts only at the beginning of an answer, for it has nothing odd in it.
const RECIPIENT: &str = "to=functions.";

/// Marks before the name of a tool.
const BEFORE_NAME: [&str; 10] = [
    "<function=",
    "invoke name=\"",
    "<|tool_call_begin|>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁begin｜>",
    "[TOOL_CALLS]",
    "<tool_call>",
    "<tool_name>",
    "<name>",
    "to=",
];

/// The longest name of a tool.
const MAX_NAME: usize = 64;

/// The marks that a call can begin with at this place of an answer.
pub(super) fn marks(is_first: bool) -> impl Iterator<Item = &'static str> {
    MARKS.into_iter().chain(iter::once(RECIPIENT).filter(move |_| is_first))
}

/// The first name of a tool in a call of one of these spellings. Unknown names count, too, as a spelling has a place for
/// them.
pub(super) fn named_in(text: &str, tools: &[ToolSpec]) -> Option<String> {
    let behind = |mark: &str| {
        let (_, rest) = text.split_once(mark)?;
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("functions.").unwrap_or(rest);
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "_-.".contains(letter)));
        Some(&rest[..end.unwrap_or(rest.len())])
    };
    let names = names_in(text).chain(BEFORE_NAME.into_iter().filter_map(behind));
    let names: Vec<&str> = names.filter(|name| (1..=MAX_NAME).contains(&name.len())).collect();
    names.iter().find(|name| is_known(name, tools)).or(names.first()).map(|name| (*name).to_owned())
}

/// Returns true if a text is nothing but a mark, such as some servers leave before the calls that they have read.
pub(crate) fn is_mark(text: &str) -> bool {
    without_tag(text.trim()) == Some("")
}

/// The name of a tool without what the spelling of gpt-oss and others leaves in it.
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
    fn names_are_cleaned() {
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
