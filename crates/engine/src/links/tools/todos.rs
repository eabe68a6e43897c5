//! The todo list: `todo_write`, `todo_read`, and a reminder where it changed.

use agentd_context::text::one_line;
use agentd_core::{
    item::NoticeTopic,
    session::{Todo, TodoPriority, TodoStatus},
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::turn::{
    TurnContext, TurnState,
    hooks::{Hook, Invocation, Link, Next, Preview, Reminder, done},
    request::reminder_or_over,
};

const WRITE: &str = "todo_write";
/// Said of an empty list, and where it is empty again.
const NO_TODOS: &str = "The todo list is empty.";
const READ: &str = "todo_read";
/// Entries of a list at the most.
const MAX_TODOS: usize = 100;
/// Characters of an entry at the most.
const MAX_CONTENT: usize = 1000;
/// Characters of an id; a longer one becomes a number.
const MAX_ID: usize = 40;

pub(crate) struct Todos;

impl Link for Todos {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Nothing>(READ, Effect::Read), ToolSpec::of::<Arguments>(WRITE, Effect::State)]
    }

    fn reminder(&self, _: &TurnContext, state: &TurnState) -> Option<Reminder> {
        reminder_or_over(state, NoticeTopic::Todos, reminder(&state.todos), NO_TODOS)
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        let shown = || read(&call.call.arguments).map(|todos| Some(list(&todos)));
        (call.call.name == WRITE).then(|| std::future::ready(shown()).boxed())
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        let output = match call.call.name.as_str() {
            WRITE => match read(&call.call.arguments) {
                Ok(todos) => {
                    let output = ToolOutput::ok(list(&todos));
                    call.record.entries().effects.todos = Some(todos);
                    output
                }
                Err(output) => output,
            },
            READ => ToolOutput::ok(list(&call.state.todos)),
            _ => return next.run(call),
        };
        done(output)
    }
}

/// Shows the todo list of this session.
#[derive(JsonSchema)]
struct Nothing {}

/// Replaces the todo list of this session. Use it for work of three steps or more: write the whole list first, keep exactly
/// one entry in_progress while you work on it, and mark each completed as soon as it is done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The whole list, in order.
    todos: Vec<Entry>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Keep it when you change an entry; leave it out for a new one.
    id: Option<String>,
    #[schemars(description = "What is to be done.")]
    content: String,
    #[schemars(with = "String", extend("enum" = ["pending", "in_progress", "completed"]))]
    status: TodoStatus,
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["high", "medium", "low"]))]
    priority: TodoPriority,
}

fn read(arguments: &str) -> Result<Vec<Todo>, ToolOutput> {
    let todos = serde_json::from_str::<Arguments>(arguments).map_err(|error| error.to_string()).and_then(validate);
    todos.map_err(|problem| {
        ToolOutput::error(ToolErrorCode::InvalidArgs, format!("the todo list was not changed: {problem}"))
    })
}

fn validate(arguments: Arguments) -> Result<Vec<Todo>, String> {
    if arguments.todos.len() > MAX_TODOS {
        return Err(format!("a list has at most {MAX_TODOS} entries; join small ones"));
    }
    let under_way = arguments.todos.iter().filter(|entry| entry.status == TodoStatus::InProgress).count();
    if under_way > 1 {
        return Err(format!("{under_way} entries are in_progress; only one may be, set the others to pending"));
    }
    let mut todos: Vec<Todo> = Vec::with_capacity(arguments.todos.len());
    for (index, entry) in arguments.todos.into_iter().enumerate() {
        let content = entry.content.trim();
        if content.is_empty() {
            return Err(format!("entry {} has no content; say what is to be done", index + 1));
        }
        if content.chars().count() > MAX_CONTENT {
            return Err(format!("entry {} is longer than {MAX_CONTENT} characters; shorten it", index + 1));
        }
        let wanted = entry.id.filter(|id| !id.trim().is_empty() && id.chars().count() <= MAX_ID);
        let id = free_id(&todos, wanted, index + 1);
        todos.push(Todo { id, content: content.to_owned(), status: entry.status, priority: entry.priority });
    }
    Ok(todos)
}

/// The wanted id if nobody has it, else the first number from the entry's own that nobody has.
fn free_id(todos: &[Todo], wanted: Option<String>, number: usize) -> String {
    let taken = |id: &str| todos.iter().any(|todo| todo.id == id);
    match wanted {
        Some(id) if !taken(&id) => id,
        _ => (number..).map(|n| n.to_string()).find(|id| !taken(id)).unwrap_or_default(),
    }
}

fn list(todos: &[Todo]) -> String {
    if todos.is_empty() {
        return NO_TODOS.to_owned();
    }
    let mut text = String::new();
    for todo in todos {
        let mark = match todo.status {
            TodoStatus::Pending => "[ ]",
            TodoStatus::InProgress => "[>]",
            TodoStatus::Completed => "[x]",
        };
        let priority = match todo.priority {
            TodoPriority::High => " (high)",
            TodoPriority::Medium => "",
            TodoPriority::Low => " (low)",
        };
        text.push_str(&format!("{mark} {}. {}{priority}\n", todo.id, todo.content));
    }
    text
}

/// Reminder for the model: the current entry, the next, and how many more.
fn reminder(todos: &[Todo]) -> Option<String> {
    if todos.is_empty() {
        return None;
    }
    let current = todos.iter().find(|todo| todo.status == TodoStatus::InProgress);
    let mut pending = todos.iter().filter(|todo| todo.status == TodoStatus::Pending);
    let next = pending.next();
    let more = pending.count();
    let current = current.map(|todo| format!("Current todo: {}.", one_line(&todo.content)));
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    let next = next.map(|todo| format!("Next: {}{more}", one_line(&todo.content)));
    Some(match (current, next) {
        (None, None) => "All todos are completed.".to_owned(),
        (None, Some(next)) => format!("No todo is in progress. {next}"),
        (Some(current), None) => format!("{current} It is the last."),
        (Some(current), Some(next)) => format!("{current} {next}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &str, expected: Result<&str, &str>) {
        match (read(arguments), expected) {
            (Ok(todos), Ok(text)) => assert_eq!(list(&todos), text, "{arguments}"),
            (Err(output), Err(part)) => assert!(output.text.contains(part), "{output:?} should say {part:?}"),
            (read, _) => panic!("{arguments}: {read:?}"),
        }
    }

    #[test]
    fn lists_are_checked() {
        check(r#"{"todos": []}"#, Ok("The todo list is empty."));
        check(
            r#"{"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress", "priority": "high"}]}"#,
            Ok("[x] 1. a\n[>] 2. b (high)\n"),
        );
        check(
            r#"{"todos": [{"id": "2", "content": "a", "status": "pending"}, {"content": "b", "status": "pending"}]}"#,
            Ok("[ ] 2. a\n[ ] 3. b\n"),
        );
        let two =
            r#"{"todos": [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]}"#;
        check(two, Err("only one may be"));
        check(r#"{"todos": [{"content": "  ", "status": "pending"}]}"#, Err("entry 1 has no content"));
        check(r#"{"todos": [{"content": "a", "status": "done"}]}"#, Err("unknown variant `done`"));
        check("not json", Err("expected"));
    }
}
