//! Calls of tools in the words of the protocol: kind, title, places, input.

use agent_client_protocol_schema::v1::{ToolCallLocation, ToolKind};
use agentd_core::{tool_table, visible};
use serde_json::Value;

use super::{edits, output, places::Places};
use crate::{render::tool_line::call_line, report};

/// The tool that runs commands.
pub(super) const SHELL: &str = "run_bash_command";
/// Characters of a title. The content of a call has what does not fit.
const LONGEST_TITLE: usize = 500;

/// The arguments of a call as JSON; a string where they are none.
pub(super) fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Kind of a tool, in the terms of the protocol.
pub(super) fn kind(tool: &str) -> ToolKind {
    match tool_table::ToolKind::of(tool) {
        tool_table::ToolKind::Look => ToolKind::Read,
        tool_table::ToolKind::Edit => ToolKind::Edit,
        tool_table::ToolKind::Search => ToolKind::Search,
        tool_table::ToolKind::Run => ToolKind::Execute,
        tool_table::ToolKind::Fetch => ToolKind::Fetch,
        tool_table::ToolKind::Think => ToolKind::Think,
        tool_table::ToolKind::Other => ToolKind::Other,
    }
}

/// Title of a call: a command, or a tool and what it is about.
pub(super) fn title(tool: &str, args: &Value) -> String {
    let title = report::cut(&call_line(tool, args), LONGEST_TITLE);
    // Editors take a title for Markdown, which would change what it says.
    if tool == SHELL || is_markup(&title) { output::code_span(&title) } else { title }
}

/// Returns true if Markdown may show a title as something else than its letters.
fn is_markup(title: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let strays = title.split(|letter| !is_word(letter)).any(|word| word.starts_with('_') || word.ends_with('_'));
    strays || !title.chars().all(|letter| is_word(letter) || " ./,;=+-…".contains(letter))
}

/// The files that a call is about.
pub(super) fn locations(tool: &str, args: &Value, places: &Places) -> Vec<ToolCallLocation> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let named: Vec<String> = match tool {
        "apply_patch" => edits::files_of_patch(text("patch").unwrap_or_default()),
        SHELL => text("directory").map(str::to_owned).into_iter().collect(),
        _ => text("path").map(str::to_owned).into_iter().collect(),
    };
    // Of a document the number is a page.
    let line = args.get("offset").and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok());
    let line = line.filter(|_| tool == "read_file");
    let real = named.iter().filter(|path| visible::is_plain(path)).filter_map(|path| places.real(path));
    real.map(|path| ToolCallLocation::new(path).line(line)).collect()
}

/// The arguments of a call as editors show them: without texts that are too long, and with hidden characters written out.
pub(super) fn input(args: &Value, longest: usize) -> Value {
    let shown = |text: &str| if visible::is_plain(text) { text.to_owned() } else { visible::lines(text) };
    match args {
        Value::String(text) => shown(&output::cut(text, longest)).into(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (shown(name), input(value, longest))).collect(),
        Value::Array(values) => values.iter().map(|value| input(value, longest)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_have_titles_and_places() {
        let places = Places { project: Some("/p".into()), workspace: "/w".into(), ..Places::default() };
        let check = |tool: &str, args: Value, expected: (&str, &[(&str, Option<u32>)])| {
            let locations = locations(tool, &args, &places);
            let told: Vec<_> = locations.iter().map(|place| (place.path.to_str().unwrap(), place.line)).collect();
            assert_eq!((title(tool, &args).as_str(), told.as_slice()), expected, "{tool}");
        };
        check("read_file", json!({"path": "a.rs", "offset": 7}), ("read_file a.rs", &[("/p/a.rs", Some(7))]));
        check("edit_file", json!({"path": "/project/a.rs"}), ("edit_file /project/a.rs", &[("/p/a.rs", None)]));
        check(SHELL, json!({"command": "make test"}), ("`$ make test`", &[]));
        check(SHELL, json!({"command": "ls", "directory": "/outputs"}), ("`$ ls`", &[("/w/outputs", None)]));
        check(SHELL, json!({"command": "a\u{1b}[2Jb"}), ("`$ a\\u{1b}[2Jb`", &[]));
        check("now", json!({}), ("now", &[]));
        check("mcp_x_y", json!("{broken"), ("`mcp_x_y {broken`", &[]));
        check("read_url", json!({"url": "[a](http://b)"}), ("`read_url [a](http://b)`", &[]));
        check("read_file", json!({"path": "__init__.py"}), ("`read_file __init__.py`", &[("/p/__init__.py", None)]));
        let patch = "*** Begin Patch\n*** Delete File: a\n*** Delete File: outputs/b\n*** End Patch";
        let files: &[_] = &[("/p/a", None), ("/w/outputs/b", None)];
        check("apply_patch", json!({"patch": patch}), ("apply_patch a, outputs/b", files));
    }
}
