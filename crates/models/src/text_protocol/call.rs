//! Whether an object is a call, and which.

use std::{borrow::Cow, collections::BTreeMap};

use agentd_core::tool::ToolSpec;
use serde_json::value::RawValue;

use crate::answer::RawCall;

/// The longest name that an unknown tool may have.
const MAX_NAME: usize = 64;

/// Keys whose text is the name of a tool.
const NAME_KEYS: [&str; 4] = ["tool", "name", "tool_name", "function"];

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Reads a balanced object as a call. An object that names a tool of the list is one; where the name is not in the
/// list, only an object that has a name, arguments and nothing foreign is, so that the model can be told of its error
/// while JSON in prose stays prose.
pub(super) fn read(object: &str, tools: &[ToolSpec]) -> Option<RawCall> {
    read_strict(object, tools).or_else(|| {
        let repaired = repair(object)?;
        read_strict(&repaired, tools)
    })
}

/// The known tool that a text names, where all of it is one object with a call.
pub(crate) fn named(object: &str, tools: &[ToolSpec]) -> Option<String> {
    let call = read(object, tools)?;
    tools.iter().any(|tool| tool.name == call.name).then_some(call.name)
}

/// The known tool that the beginning of an object names.
pub(super) fn begun(object: &str, tools: &[ToolSpec]) -> Option<String> {
    let names = NAME_KEYS.into_iter().find_map(|key| {
        let (_, rest) = object.split_once(&format!("\"{key}\""))?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        rest.split_once('"').map(|(name, _)| name)
    });
    names.filter(|name| tools.iter().any(|tool| tool.name == *name)).map(str::to_owned)
}

fn read_strict(object: &str, tools: &[ToolSpec]) -> Option<RawCall> {
    let fields: Fields<'_> = serde_json::from_str(object).ok()?;
    for wrapper in ["function", "tool_call", "function_call"] {
        if let Some(inner) = fields.get(wrapper).filter(|inner| inner.get().starts_with('{')) {
            return read_strict(inner.get(), tools);
        }
    }
    let (name_key, name) = NAME_KEYS.into_iter().find_map(|key| {
        let name: String = serde_json::from_str(fields.get(key)?.get()).ok()?;
        Some((key, name))
    })?;
    let arguments_key = ["args", "arguments", "parameters", "input"].into_iter().find(|key| fields.contains_key(*key));
    let known = tools.iter().any(|tool| tool.name == name);
    let arguments = match arguments_key.and_then(|key| fields.get(key)) {
        Some(arguments) => arguments_of(arguments)?,
        // A known tool without arguments; a name alone may be anybody's.
        None if known && (name_key == "tool" || fields.len() == 1) => "{}".to_owned(),
        None => return None,
    };
    (known || is_unmistakable(&fields, &name, name_key, &arguments)).then_some(RawCall {
        name,
        arguments,
        ..RawCall::default()
    })
}

/// The arguments' own bytes, out of a string if a model has quoted them.
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
    let usual = ["tool", "name", "args", "arguments"];
    let beside = ["id", "type", "thought", "thoughts", "reasoning"];
    matches!(name_key, "tool" | "name")
        && fields.keys().all(|key| usual.contains(&key.as_ref()) || beside.contains(&key.as_ref()))
        && arguments.starts_with('{')
        && (1..=MAX_NAME).contains(&name.len())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.'))
}

/// Mends what small models get wrong most often: line breaks inside of strings, and commas before a closing brace.
fn repair(object: &str) -> Option<String> {
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
            let kept = repaired.trim_end();
            if kept.ends_with(',') {
                repaired.truncate(kept.len() - 1);
            }
        }
        in_string = character == '"';
        repaired.push(character);
    }
    (repaired != object).then_some(repaired)
}
