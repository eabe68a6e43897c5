//! Tools implemented without the toolbox: the todo list, questions to the user, and the client's tools.
//!
//! - `todo_write` and `todo_read`: the todo list, with a reminder when it changes.
//! - `ask_human`: a question from the model to the user.
//! - Client tools: calls are sent to the client, and its answers become results. Answers are limited in size and
//!   sanitised. If the client disconnects, calls to its tools end with an error written for the model.

use std::time::Duration;

use agentd_context::text::one_line;
use agentd_core::{
    client_tool::{ClientToolAnswer, ClientToolCall, MAX_CLIENT_ANSWER},
    interrupt::{Answer, Ask},
    item::NoticeTopic,
    session::{Todo, TodoPriority, TodoStatus},
    tool::{Effect, ToolErrorCode, ToolOutput, ToolSpec},
    turn::OnInterrupt,
    untrusted,
};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::timeout;

use crate::{
    links::results::pictures,
    turn::{
        Flow, TurnContext, TurnExit, TurnState, dispatch,
        hooks::{Hook, Invocation, Link, Next, Preview, Reminder, done},
        request::reminder_or_over,
    },
};

const TODO_WRITE: &str = "todo_write";
/// Text for an empty list, also used as a reminder when the list became empty.
const NO_TODOS: &str = "The todo list is empty.";
const TODO_READ: &str = "todo_read";
/// Maximum number of entries.
const MAX_TODOS: usize = 100;
/// Maximum length of an entry, in characters.
const MAX_CONTENT: usize = 1000;
/// Maximum length of an ID, in characters. A longer ID is replaced by a number.
const MAX_ID: usize = 40;

pub(crate) struct Todos;

impl Link for Todos {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<Nothing>(TODO_READ, Effect::Read), ToolSpec::of::<TodoList>(TODO_WRITE, Effect::State)]
    }

    fn reminder(&self, _: &TurnContext, state: &TurnState) -> Option<Reminder> {
        reminder_or_over(state, NoticeTopic::Todos, reminder(&state.todos), NO_TODOS)
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        let shown = || read(&call.call.arguments).map(|todos| Some(list(&todos)));
        (call.call.name == TODO_WRITE).then(|| std::future::ready(shown()).boxed())
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        let output = match call.call.name.as_str() {
            TODO_WRITE => match read(&call.call.arguments) {
                Ok(todos) => {
                    let output = ToolOutput::ok(list(&todos));
                    call.record.entries().effects.todos = Some(todos);
                    output
                }
                Err(output) => output,
            },
            TODO_READ => ToolOutput::ok(list(&call.state.todos)),
            _ => return next.run(call),
        };
        done(output)
    }
}

/// Shows the todo list of this session.
#[derive(JsonSchema)]
struct Nothing {}

/// Replaces the todo list of this session. Use it for work of three or more steps: write the whole list first, keep exactly
/// one entry in_progress while you work on it, and mark each completed as soon as it is done.
#[derive(Deserialize, JsonSchema)]
#[serde(rename = "Arguments", deny_unknown_fields)]
struct TodoList {
    /// The whole list, in order.
    #[serde(alias = "plan")]
    todos: Vec<Entry>,
    #[serde(rename = "explanation")]
    #[schemars(skip)]
    _explanation: Option<IgnoredAny>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// Keep it when you change an entry; omit it for a new one.
    id: Option<String>,
    #[serde(alias = "description", alias = "step")]
    #[schemars(description = "The task.")]
    content: String,
    /// Wording of other systems for a task in progress.
    #[serde(rename = "activeForm")]
    #[schemars(skip)]
    _active_form: Option<IgnoredAny>,
    #[schemars(with = "String", extend("enum" = ["pending", "in_progress", "completed"]))]
    status: TodoStatus,
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["high", "medium", "low"]))]
    priority: TodoPriority,
}

fn read(arguments: &str) -> Result<Vec<Todo>, ToolOutput> {
    let todos = serde_json::from_str::<TodoList>(arguments).map_err(|error| error.to_string()).and_then(validate);
    todos.map_err(|problem| {
        ToolOutput::error(ToolErrorCode::InvalidArgs, format!("the todo list was not changed: {problem}"))
    })
}

fn validate(arguments: TodoList) -> Result<Vec<Todo>, String> {
    if arguments.todos.len() > MAX_TODOS {
        return Err(format!("at most {MAX_TODOS} entries are allowed; merge small ones"));
    }
    let in_progress = arguments.todos.iter().filter(|entry| entry.status == TodoStatus::InProgress).count();
    if in_progress > 1 {
        return Err(format!("{in_progress} entries are in_progress; only one is allowed: set the others to pending"));
    }
    let mut todos: Vec<Todo> = Vec::with_capacity(arguments.todos.len());
    for (index, entry) in arguments.todos.into_iter().enumerate() {
        let content = entry.content.trim();
        if content.is_empty() {
            return Err(format!("entry {} has no content; describe the task", index + 1));
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

/// Returns the wanted ID if it is free, and otherwise the first free number from `number` on.
fn free_id(todos: &[Todo], wanted: Option<String>, number: usize) -> String {
    let is_used = |id: &str| todos.iter().any(|todo| todo.id == id);
    match wanted {
        Some(id) if !is_used(&id) => id,
        _ => (number..).map(|n| n.to_string()).find(|id| !is_used(id)).unwrap_or_default(),
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

/// Returns the reminder with the current entry, the next entry, and the number of other entries.
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
        (Some(current), None) => format!("{current} It is the last one."),
        (Some(current), Some(next)) => format!("{current} {next}"),
    })
}

const ASK_HUMAN: &str = "ask_human";

pub(crate) struct Questions;

/// Asks the user a question and waits for the answer. Use it only for what only the user knows. Do not use it to ask for
/// permission to use a tool: approval is requested automatically.
#[derive(Deserialize, JsonSchema)]
#[serde(rename = "Arguments", deny_unknown_fields)]
struct QuestionArguments {
    /// The question, one sentence.
    question: String,
    #[schemars(description = "What the user needs to know to answer.")]
    context: Option<String>,
    /// The answer to take if none is given.
    default: Option<String>,
    #[serde(default = "required_by_default")]
    #[schemars(description = "Reject an empty answer. Default true.")]
    required: bool,
    /// Type of an input field in other systems.
    #[serde(rename = "input_type")]
    #[schemars(skip)]
    _input_type: Option<IgnoredAny>,
    /// Answers to choose from, if any: 2 to 9, a few words each. The user may give another one.
    #[serde(default)]
    choices: Vec<String>,
}

/// Allowed number of choices, unless there are none. Each is selected with a single key.
const CHOICES: std::ops::RangeInclusive<usize> = 2..=9;
/// Maximum length of a choice, in characters.
const MAX_CHOICE: usize = 120;

fn required_by_default() -> bool {
    true
}

impl Link for Questions {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::of::<QuestionArguments>(ASK_HUMAN, Effect::State)]
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        (call.call.name == ASK_HUMAN).then(|| std::future::ready(arguments(call).map(|_| None)).boxed())
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if call.call.name == ASK_HUMAN { answer(call).boxed() } else { next.run(call) }
    }
}

async fn answer(call: &Invocation<'_>) -> Flow<ToolOutput> {
    let arguments = match arguments(call) {
        Ok(arguments) => arguments,
        Err(output) => return Ok(output),
    };
    match call.context.rules.answering.now() {
        OnInterrupt::Wait => ask_user(call, arguments).await,
        OnInterrupt::Approve | OnInterrupt::Deny => Ok(match arguments.default {
            Some(default) => ToolOutput::ok(default),
            None => ToolOutput::error(
                ToolErrorCode::Denied,
                "this run cannot ask the user; continue with what you know and state your assumptions",
            ),
        }),
        OnInterrupt::Fail => {
            let reason = format!("a question needs an answer: {}", arguments.question);
            Err(TurnExit::Denied(call.denial(ASK_HUMAN, reason)))
        }
    }
}

fn arguments(call: &Invocation<'_>) -> Result<QuestionArguments, ToolOutput> {
    let refused = |text: String| ToolOutput::error(ToolErrorCode::InvalidArgs, text);
    let mut arguments: QuestionArguments = serde_json::from_str(&call.call.arguments)
        .map_err(|error| refused(format!("{ASK_HUMAN} needs {{\"question\": \"…\"}}: {error}")))?;
    for choice in &mut arguments.choices {
        *choice = choice.trim().to_owned();
    }
    match choices_problem(&arguments.choices) {
        Some(problem) => Err(refused(problem)),
        None => Ok(arguments),
    }
}

/// Returns the reason why the choices are invalid, with a hint on how to fix them.
fn choices_problem(choices: &[String]) -> Option<String> {
    if choices.is_empty() {
        return None;
    }
    if !CHOICES.contains(&choices.len()) {
        let (min, max) = CHOICES.into_inner();
        return Some(format!("choices has {} entries; give {min} to {max}, or omit choices", choices.len()));
    }
    let is_valid = |choice: &String| {
        !choice.is_empty() && choice.chars().count() <= MAX_CHOICE && !choice.chars().any(char::is_control)
    };
    if let Some(at) = choices.iter().position(|choice| !is_valid(choice)) {
        let number = at + 1;
        return Some(format!("choice {number} must be one line of 1 to {MAX_CHOICE} characters; explain in context"));
    }
    let is_repeated = |(at, choice): &(usize, &String)| {
        choices[..*at].iter().any(|earlier| earlier.to_lowercase() == choice.to_lowercase())
    };
    let (at, _) = choices.iter().enumerate().find(is_repeated)?;
    Some(format!("choice {} repeats an earlier one; each must be different", at + 1))
}

async fn ask_user(call: &Invocation<'_>, arguments: QuestionArguments) -> Flow<ToolOutput> {
    let QuestionArguments { question, context, default, required, choices, .. } = arguments;
    let ask = Ask::Question { secret: false, question, context, default: default.clone(), required, choices };
    let answered = call.ask(ask).await?;
    call.record.entries().effects.user_text = answered.user_text();
    Ok(match answered.answer {
        Answer::Text { text } if text.trim().is_empty() => {
            ToolOutput::ok(default.unwrap_or_else(|| "The user left the answer empty.".to_owned()))
        }
        Answer::Text { text } => ToolOutput::ok(text),
        Answer::Reject { reason } => ToolOutput::error(
            ToolErrorCode::Denied,
            format!("the user declined to answer: {}", reason.as_deref().unwrap_or("no reason given")),
        ),
        // The session rejects answers that do not fit.
        Answer::Approve | Answer::Always { .. } | Answer::Keep { .. } | Answer::Edit { .. } => {
            ToolOutput::error(ToolErrorCode::Tool, "the answer was not text; ask again")
        }
    })
}

/// Time limit for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Message for a model about a tool whose client has disconnected.
pub(crate) const CLIENT_GONE: &str = "the client that provided this tool has disconnected. Continue without it, and say so \
    where it matters";

pub(crate) struct ClientToolCalls;

impl Link for ClientToolCalls {
    fn prepare_call<'a>(&'a self, call: &'a Invocation<'a>) -> Hook<'a, Option<ToolOutput>> {
        let tools = call.context.tools.client_tools.as_ref();
        let problem = tools.and_then(|tools| tools.problem(&call.call.name, &call.call.arguments));
        done(problem.map(|problem| ToolOutput::error(ToolErrorCode::InvalidArgs, problem)))
    }

    fn preview<'a>(&'a self, call: &'a Invocation<'a>) -> Option<Preview<'a>> {
        client_tool_name(call).map(|_| done(None))
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        if let Some(name) = client_tool_name(call) { ask_client(call, name).boxed() } else { next.run(call) }
    }
}

fn client_tool_name<'a>(call: &Invocation<'a>) -> Option<&'a str> {
    call.context.tools.client_tools.as_ref()?.own_name(&call.call.name)
}

/// Sends the call to the client. The call's start is in the journal before the client receives the call, so that a
/// crash can be reported truthfully.
async fn ask_client(invocation: &Invocation<'_>, name: &str) -> Flow<ToolOutput> {
    let Invocation { context, call, record, .. } = invocation;
    let Some(tools) = &context.tools.client_tools else {
        return Ok(ToolOutput::error(ToolErrorCode::UnknownTool, CLIENT_GONE));
    };
    // The user may have edited the arguments since they were checked.
    if let Some(problem) = tools.problem(&call.name, &call.arguments) {
        return Ok(record.with_note(ToolOutput::error(ToolErrorCode::InvalidArgs, problem)));
    }
    dispatch::begin(invocation).await?;
    let arguments = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments.clone() };
    let request = ClientToolCall { call_id: call.call_id.to_string(), name: name.to_owned(), arguments };
    // The call may have taken effect even without an answer.
    let is_read_only = invocation.tool().is_some_and(|tool| tool.effect == Effect::Read);
    let note = if is_read_only { "" } else { "; it may or may not have taken effect" };
    let failed = |code, text: String| ToolOutput::error(code, text + note);
    let output = tokio::select! {
        biased;
        answer = timeout(ANSWER_TIMEOUT, tools.line.ask(request)) => match answer {
            Ok(Some(answer)) => to_output(invocation, answer).await?,
            Ok(None) => failed(ToolErrorCode::Tool, format!("{name}: no answer; {CLIENT_GONE}")),
            Err(_) => {
                let minutes = ANSWER_TIMEOUT.as_secs() / 60;
                failed(ToolErrorCode::Timeout, format!("the client did not answer within {minutes} minutes"))
            }
        },
        () = context.control.cancel.cancelled() => {
            failed(ToolErrorCode::Cancelled, "the turn was cancelled before the client answered".to_owned())
        }
        () = context.control.stopwatch.reaches(context.limits.time) => {
            failed(ToolErrorCode::Timeout, "the turn's time limit was reached before the client answered".to_owned())
        }
    };
    Ok(record.with_note(output))
}

/// Converts the answer into a result. The answer's content is untrusted.
async fn to_output(call: &Invocation<'_>, answer: ClientToolAnswer) -> Flow<ToolOutput> {
    let ClientToolAnswer { text, failed, picture } = answer;
    let is_long = text.len() > MAX_CLIENT_ANSWER;
    let mut text = untrusted::plain(&text[..text.floor_char_boundary(MAX_CLIENT_ANSWER)]);
    if is_long {
        text.push_str(&format!("\n[answer truncated at {} MiB]", MAX_CLIENT_ANSWER >> 20));
    }
    if failed {
        let text =
            if text.trim().is_empty() { "the client reported a failure without a reason".to_owned() } else { text };
        return Ok(ToolOutput::error(ToolErrorCode::Tool, text));
    }
    if let Some(picture) = picture {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&match pictures::show(call, picture).await? {
            Ok(showing) => format!("[its picture is {showing}]"),
            Err(reason) => format!("[its picture is not shown: {reason}]"),
        });
    }
    if text.is_empty() {
        text = "[done; no output]".to_owned();
    }
    Ok(ToolOutput::ok(text))
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
    fn todo_lists_are_validated() {
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
        check(two, Err("only one is allowed"));
        check(r#"{"todos": [{"content": "  ", "status": "pending"}]}"#, Err("entry 1 has no content"));
        check(r#"{"todos": [{"content": "a", "status": "done"}]}"#, Err("unknown variant `done`"));
        check("not json", Err("expected"));
        let of_codex = r#"{"explanation": "why", "plan": [{"step": "a", "status": "in_progress"}]}"#;
        check(of_codex, Ok("[>] 1. a\n"));
        let of_claude_code = r#"{"todos": [{"content": "a", "status": "pending", "activeForm": "Doing a"}]}"#;
        check(of_claude_code, Ok("[ ] 1. a\n"));
        check(r#"{"todos": [{"description": "a", "status": "pending"}]}"#, Ok("[ ] 1. a\n"));
    }
}
