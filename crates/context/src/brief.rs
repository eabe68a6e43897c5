//! Tools in a few words, for models whose window has little room for them: twenty tools in full are half of a window of
//! 8,192 tokens, and each of them stands in every request.

use agentd_core::tool::ToolSpec;
use serde_json::{Map, Value};

/// Tokens of a window in which tools are described in a few words.
const SMALL_WINDOW: u64 = 12_288;

/// Returns whether tools are described in a few words in a window of so many tokens.
pub fn is_for(window: u64) -> bool {
    window <= SMALL_WINDOW
}

/// The same tool with the first sentence of each text. Names, types and what is required stay, so that the same calls are
/// right; an argument that may be left out says no more than its name where it is only on or off.
pub fn brief(tool: &ToolSpec) -> ToolSpec {
    ToolSpec { description: first_sentence(&tool.description), parameters: shortened(&tool.parameters), ..tool.clone() }
}

fn shortened(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => Value::Object(keywords.iter().map(keyword).collect()),
        Value::Array(schemas) => schemas.iter().map(shortened).collect(),
        other => other.clone(),
    }
}

fn keyword((name, value): (&String, &Value)) -> (String, Value) {
    let value = match (name.as_str(), value) {
        ("description", Value::String(text)) => first_sentence(text).into(),
        // Values are no schemas, whatever they look like.
        ("enum" | "const" | "required", value) => value.clone(),
        ("properties", Value::Object(arguments)) => Value::Object(arguments.iter().map(argument).collect()),
        (_, value) => shortened(value),
    };
    (name.clone(), value)
}

/// An argument that bears the name of a keyword is an argument.
fn argument((name, schema): (&String, &Value)) -> (String, Value) {
    let mut schema = shortened(schema);
    if let Some(keywords) = schema.as_object_mut()
        && is_switch(keywords)
    {
        keywords.remove("description");
    }
    (name.clone(), schema)
}

fn is_switch(keywords: &Map<String, Value>) -> bool {
    keywords.get("type").is_some_and(|kind| kind == "boolean")
}

/// Up to the end of the first sentence: a full stop before a space and a capital letter, or the end of a line that ends one.
fn first_sentence(text: &str) -> String {
    let text = text.trim();
    let ends = text.match_indices(['.', '!', '?']).map(|(at, stop)| at + stop.len());
    let is_end = |at: &usize| {
        let rest = &text[*at..];
        let next = rest.trim_start().chars().next();
        rest.len() > rest.trim_start().len()
            && next.is_some_and(|letter| letter.is_alphanumeric() && !letter.is_lowercase())
    };
    let end = ends.into_iter().find(is_end).unwrap_or(text.len());
    text[..end].replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_keeps_what_a_call_needs() {
        let tool = ToolSpec {
            name: "grep".to_owned(),
            description: "Searches text files, e.g. *.rs, line by line. Hidden ones are left out.\nMore.".to_owned(),
            parameters: json!({
                "type": "object",
                "description": "One. Two.",
                "properties": {
                    "description": {"type": "string", "description": "Words of the person. Never others."},
                    "all": {"type": "boolean", "description": "Also what is hidden."},
                    "mode": {"type": "string", "enum": ["a. B", "c"]},
                },
                "required": ["description"],
                "additionalProperties": false,
            }),
            effect: Effect::Read,
        };
        let expected = ToolSpec {
            description: "Searches text files, e.g. *.rs, line by line.".to_owned(),
            parameters: json!({
                "type": "object",
                "description": "One.",
                "properties": {
                    "description": {"type": "string", "description": "Words of the person."},
                    "all": {"type": "boolean"},
                    "mode": {"type": "string", "enum": ["a. B", "c"]},
                },
                "required": ["description"],
                "additionalProperties": false,
            }),
            ..tool.clone()
        };
        assert_eq!(brief(&tool), expected);
    }

    proptest! {
        #[test]
        fn a_sentence_is_a_beginning_and_nothing_is_shortened_twice(text in "\\PC{0,60}") {
            let first = first_sentence(&text);
            prop_assert!(text.trim().replace('\n', " ").starts_with(&first));
            prop_assert_eq!(first_sentence(&first), first.trim());
        }
    }
}
