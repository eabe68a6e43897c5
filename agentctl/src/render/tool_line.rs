//! A tool call in one quiet line: name, main argument, what came of it, how long it took.

use agentd_core::tool::{FileChangeKind, ToolCall, ToolResult};
use serde_json::Value;

use super::{
    paint::{BAD, GOOD, QUIET, STRONG, clip, duration, number, paint, width},
    sanitize::clean_line,
};

/// The arguments that say best what a call is about, in order.
const MAIN_ARGUMENTS: [&str; 9] =
    ["path", "file_path", "command", "pattern", "query", "question", "url", "glob", "name"];

/// What a call is about: its main argument, clean and on one line.
pub(crate) fn main_argument(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(args) => argument_of(&args),
        Err(_) => clean_line(arguments),
    }
}

/// As [`main_argument`], for arguments that were read already.
pub(crate) fn argument_of(args: &Value) -> String {
    let Value::Object(fields) = args else {
        return clean_line(args.as_str().unwrap_or_default());
    };
    let main = MAIN_ARGUMENTS.iter().filter_map(|name| fields.get(*name)).find_map(Value::as_str);
    let text = main.or_else(|| fields.values().find_map(Value::as_str)).unwrap_or_default();
    clean_line(text)
}

/// The line of a call that has ended. `columns` bounds its width.
pub(crate) fn tool_line(call: Option<&ToolCall>, result: &ToolResult, columns: usize, color: bool) -> String {
    let name = clean_line(&result.name);
    let argument = call.map(|call| main_argument(&call.arguments)).unwrap_or_default();
    let outcome = summary(result);
    let took = duration(result.duration_ms);
    let (sign, sign_style) = if result.error.is_some() { ("✗", BAD) } else { ("●", GOOD) };
    // The sign, the arrow, the dot and the spaces between.
    let room = columns.saturating_sub(width(&name) + width(&took) + 10);
    let outcome_room = if argument.is_empty() { room } else { room - (room / 2).min(width(&argument)) };
    let outcome = clip(&outcome, outcome_room.max(8));
    let argument = clip(&argument, room.saturating_sub(width(&outcome)).max(8));
    let argument = if argument.is_empty() { argument } else { format!(" {argument}") };
    let outcome_style = if result.error.is_some() { BAD } else { QUIET };
    format!(
        "{} {}{} {} {} {}",
        paint(color, sign_style, sign),
        paint(color, STRONG, &name),
        paint(color, QUIET, &argument),
        paint(color, QUIET, "→"),
        paint(color, outcome_style, &outcome),
        paint(color, QUIET, &format!("· {took}")),
    )
}

/// What came of a call, in a few words.
fn summary(result: &ToolResult) -> String {
    let text = result.text.trim();
    let first = clean_line(text.lines().next().unwrap_or_default());
    if let Some(error) = result.error {
        return if first.is_empty() { error.as_str().to_owned() } else { without_code(&first, error.as_str()) };
    }
    match result.files.as_slice() {
        [] => {}
        [file] => return format!("{} {}", done(file.change), clean_line(&file.path)),
        files => return format!("changed {} files", files.len()),
    }
    match text.lines().count() {
        0 => "done".to_owned(),
        1 => first,
        lines => format!("{} lines", number(lines as u64)),
    }
}

/// A message without the code that models are told with it: people read the words.
fn without_code(message: &str, code: &str) -> String {
    let words = message.strip_prefix(code).map(|rest| rest.trim_start_matches([':', ' ']));
    words.filter(|words| !words.is_empty()).unwrap_or(message).to_owned()
}

fn done(change: FileChangeKind) -> &'static str {
    match change {
        FileChangeKind::Created => "created",
        FileChangeKind::Modified => "changed",
        FileChangeKind::Deleted => "deleted",
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        ids::CallId,
        tool::{FileChange, ToolErrorCode},
    };

    use super::*;

    fn line(arguments: &str, result: ToolResult, columns: usize) -> String {
        let call = ToolCall { call_id: result.call_id.clone(), name: result.name.clone(), arguments: arguments.into() };
        tool_line(Some(&call), &result, columns, false)
    }

    fn result(name: &str, text: &str) -> ToolResult {
        ToolResult {
            call_id: CallId::from("call_1".to_owned()),
            name: name.into(),
            text: text.into(),
            error: None,
            files: Vec::new(),
            takes_back: None,
            duration_ms: 12,
        }
    }

    #[test]
    fn a_line_says_what_was_done_and_what_came_of_it() {
        assert_eq!(line("{}", result("now", "12:00"), 80), "● now → 12:00 · 12 ms");
        assert_eq!(
            line(r#"{"path":"a.txt"}"#, result("read_file", "a\nb\n"), 80),
            "● read_file a.txt → 2 lines · 12 ms"
        );
        assert_eq!(line("{broken", result("read_file", ""), 80), "● read_file {broken → done · 12 ms");
        let files = vec![FileChange::new("a.txt", FileChangeKind::Created)];
        let written = ToolResult { files, ..result("write_file", "wrote 3 bytes") };
        assert_eq!(
            line(r#"{"content":"x","path":"a.txt"}"#, written, 80),
            "● write_file a.txt → created a.txt · 12 ms"
        );
        let failed = ToolResult { error: Some(ToolErrorCode::Path), ..result("read_file", "no such file\nmore") };
        assert_eq!(line(r#"{"path":"a\u001b[2J"}"#, failed, 80), "✗ read_file a → no such file · 12 ms");
        let coded = ToolResult { error: Some(ToolErrorCode::Path), ..result("read_file", "E_PATH: no such file") };
        assert_eq!(line("{}", coded, 80), "✗ read_file → no such file · 12 ms");
        let bare = ToolResult { error: Some(ToolErrorCode::Path), ..result("read_file", "") };
        assert_eq!(line("{}", bare, 80), "✗ read_file → E_PATH · 12 ms");
    }

    #[test]
    fn a_line_is_one_line() {
        let command = format!(r#"{{"command":"echo {}\nrm -rf x"}}"#, "漢字".repeat(50));
        let line = line(&command, result("run_bash_command", &"word ".repeat(50)), 60);
        assert!(width(&line) <= 60, "{line}");
        assert!(!line.contains('\n'));
    }
}
