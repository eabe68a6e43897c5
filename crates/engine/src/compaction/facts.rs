//! What a history says for certain, without a model: what was asked, which files were changed, which commands ran and
//! what came of them, what is left. Pure.

use std::{collections::BTreeMap, sync::Arc};

use agentd_core::{
    item::{Item, ItemBody},
    session::{Todo, TodoStatus},
    tool::{FileChangeKind, ToolCall, ToolResult},
};
use serde_json::Value;

use super::transcript::shortened;

/// Lines of each list at the most; fewer in a small window.
const MAX_LINES: usize = 40;
const MIN_LINES: usize = 8;
/// Answers before the last one that are told, a line each.
const MAX_ANSWERS: usize = 2;
/// Characters of a line at the most.
const MAX_LINE: usize = 240;
/// Bytes of the request that is under way, at the most: it is given word for word.
const MAX_REQUEST: usize = 4000;

/// What a history says for certain.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// What the person asked for, a line each, the oldest first.
    pub(crate) requests: Vec<String>,
    /// How turns ended: the last words of each.
    pub(crate) answers: Vec<String>,
    /// The input of the turn that runs, word for word, where it is among what is replaced.
    pub(crate) under_way: Option<String>,
    /// What was done to files.
    pub(crate) files: Vec<String>,
    /// Commands and the first line of what came of them.
    pub(crate) commands: Vec<String>,
    /// Calls that failed and were not repeated since.
    pub(crate) problems: Vec<String>,
    /// What is left of the todo list.
    pub(crate) next: Vec<String>,
}

/// Reads the facts out of what is replaced. `goes_on` says that the last turn of it is not at its end.
pub(crate) fn facts(items: &[Arc<Item>], todos: &[Todo], goes_on: bool, window: u64) -> Facts {
    let mut facts = Facts::default();
    let mut files: BTreeMap<String, FileChangeKind> = BTreeMap::new();
    let mut open: Option<&ToolCall> = None;
    let mut said: Option<&str> = None;
    let mut failed: BTreeMap<&str, String> = BTreeMap::new();
    for item in items {
        match &item.body {
            ItemBody::UserMessage { text, .. } => {
                facts.requests.push(line(text));
                facts.answers.extend(said.take().map(line));
            }
            ItemBody::AgentMessage { text } => said = Some(text),
            ItemBody::ToolCall(call) => open = Some(call),
            ItemBody::ToolResult(result) => {
                files.extend(result.files.iter().map(|file| (file.path.clone(), file.change)));
                let call = open.filter(|call| call.call_id == result.call_id).or_else(|| call_of(items, result));
                if let Some(command) = call.and_then(command) {
                    facts.commands.push(format!("{} -> {}", line(&command), outcome(result)));
                }
                match result.error {
                    Some(_) => drop(failed.insert(&result.name, format!("{}: {}", result.name, outcome(result)))),
                    None => drop(failed.remove(result.name.as_str())),
                }
            }
            _ => {}
        }
    }
    facts.files = files.into_iter().map(|(path, change)| format!("{path} ({})", what(change))).collect();
    facts.problems = failed.into_values().collect();
    let open = todos.iter().filter(|todo| todo.status != TodoStatus::Completed);
    facts.next = open.map(|todo| line(&todo.content)).collect();
    // The last answer is what the person goes on from; those long before it are in the file.
    facts.answers.drain(..facts.answers.len().saturating_sub(MAX_ANSWERS));
    facts.answers.extend(said.map(|text| shortened(text, part_bytes(window) / 2)));
    if goes_on {
        facts.under_way = items.iter().rev().find_map(|item| match &item.body {
            ItemBody::UserMessage { text, steered: false } => Some(shortened(text, MAX_REQUEST)),
            _ => None,
        });
    }
    let lines = usize::try_from(window / 800).unwrap_or(MAX_LINES).clamp(MIN_LINES, MAX_LINES);
    for list in [
        &mut facts.requests,
        &mut facts.answers,
        &mut facts.files,
        &mut facts.commands,
        &mut facts.problems,
        &mut facts.next,
    ] {
        keep_ends(list, lines);
    }
    facts
}

/// Bytes of a part of a summary at the most, in a window of so many tokens: what a model repeats without end must not
/// fill the window anew.
pub(crate) fn part_bytes(window: u64) -> usize {
    usize::try_from(window / 4).unwrap_or(usize::MAX).clamp(600, 6000)
}

fn call_of<'a>(items: &'a [Arc<Item>], result: &ToolResult) -> Option<&'a ToolCall> {
    items.iter().find_map(|item| match &item.body {
        ItemBody::ToolCall(call) if call.call_id == result.call_id => Some(call),
        _ => None,
    })
}

/// The command line of a call that runs one.
fn command(call: &ToolCall) -> Option<String> {
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    Some(arguments.get("command")?.as_str()?.to_owned())
}

fn outcome(result: &ToolResult) -> String {
    let first = result.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("no output");
    match result.error {
        Some(code) => format!("{} {}", code.as_str(), line(first)),
        None => line(first),
    }
}

fn what(change: FileChangeKind) -> &'static str {
    match change {
        FileChangeKind::Created => "created",
        FileChangeKind::Modified => "changed",
        FileChangeKind::Deleted => "deleted",
    }
}

/// A text on one line.
fn line(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(MAX_LINE) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// Of a long list, the first few and the last ones stay.
fn keep_ends(list: &mut Vec<String>, lines: usize) {
    if list.len() > lines {
        let left_out = list.len() - lines;
        let first = lines / 4;
        list.splice(first..first + left_out, [format!("[… {left_out} more …]")]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::samples::{call_with, failed, result, user};

    #[test]
    fn commands_failures_and_requests_are_listed() {
        let items = [
            user("Build it,\nplease"),
            call_with("1", "run_bash_command", r#"{"command": "make"}"#),
            failed("1", "run_bash_command", "\nexit code 2\nerror"),
            call_with("2", "run_bash_command", r#"{"command": "make -k"}"#),
            result("2", "run_bash_command", "exit code 0"),
            call_with("3", "grep", "{}"),
            failed("3", "grep", "no such folder"),
        ];
        let facts = facts(&items, &[], true, 100_000);
        assert_eq!(facts.requests, ["Build it, please"]);
        assert_eq!(facts.under_way.as_deref(), Some("Build it,\nplease"));
        assert_eq!(facts.commands, ["make -> E_TOOL exit code 2", "make -k -> exit code 0"]);
        assert_eq!(facts.problems, ["grep: E_TOOL no such folder"]);
    }

    #[test]
    fn of_long_lists_both_ends_stay() {
        let items: Vec<_> = (0..100).map(|n| user(&n.to_string())).collect();
        let facts = facts(&items, &[], false, 100_000);
        assert_eq!(facts.requests.len(), MAX_LINES + 1);
        assert_eq!(facts.requests[0], "0");
        assert_eq!(facts.requests[MAX_LINES], "99");
        assert!(facts.requests[10].contains("60 more"));
    }
}
