//! Parts of a conversation in a form that no server refuses: what one of them refuses makes its session useless for good.

use std::borrow::Cow;

use serde_json::json;

use crate::wire::readable;

/// The longest tool name that providers accept.
const MAX_NAME: usize = 64;

/// Stands where the person must speak, and nobody does.
pub(crate) const GO_ON: &str = "(go on)";
/// Stands for a result without words.
pub(crate) const NO_OUTPUT: &str = "(no output)";
/// Stands before pictures without words.
pub(crate) const PICTURES: &str = "(pictures)";

/// Returns whether a text says nothing. Most servers take blank words, but some, and gateways in front of others, refuse the
/// whole conversation for them.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns whether a text has only letters, digits, `_` and `-`, and at least one of them.
pub(crate) fn is_plain_id(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_plain)
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

/// The name of a tool without foreign characters.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return "unknown".into();
    }
    if name.len() <= MAX_NAME && is_plain_id(name) {
        return name.into();
    }
    name.chars().take(MAX_NAME).map(|character| if is_plain(character) { character } else { '_' }).collect()
}

/// The arguments of a call as a JSON object, byte for byte where they are one that every reader takes: many servers read
/// them to write them in their own form.
pub(crate) fn tool_arguments(arguments: &str) -> Cow<'_, str> {
    if arguments.trim().is_empty() {
        return "{}".into();
    }
    if readable::is_object(arguments) {
        return arguments.into();
    }
    json!({ "invalid_json": arguments }).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_poison_the_conversation_is_made_harmless() {
        let check = |name: &str, arguments: &str, expected: (&str, &str)| {
            assert_eq!((tool_name(name).as_ref(), tool_arguments(arguments).as_ref()), expected);
        };
        check("read_file", "", ("read_file", "{}"));
        check("", "{\"a\":", ("unknown", r#"{"invalid_json":"{\"a\":"}"#));
        check("functions.read file", "[1]", ("functions_read_file", r#"{"invalid_json":"[1]"}"#));
        check("x", r#"{"a":"\ud83d"}"#, ("x", r#"{"invalid_json":"{\"a\":\"\\ud83d\"}"}"#));
        assert_eq!(tool_name(&"x".repeat(100)).len(), MAX_NAME);
    }
}
