//! Links that check an answer and ask the model again if necessary.
//!
//! - Unusable answers: the model is notified and asked again with its tools, and the user is warned.
//! - Structured answers: the model is shown the schema, and the answer that would end the turn is checked. If the
//!   answer does not match, the model gets the reasons and another try.
//! - Open todos: a turn that wrote todos and ends with open ones is asked once to finish the todos or to explain why
//!   they stay open.
//! - Repeated calls with the same results: the model is warned once, then the turn ends. A file that is read again
//!   unchanged is not shown again.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    item::{Item, ItemBody, NoticeTopic},
    model::ModelInfo,
    session::{SessionMode, Todo, TodoStatus},
    tool::{FollowedLink, ToolCall, ToolOutput},
};
use serde_json::Value;
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    links::results::READ_FILE,
    turn::{
        Phase, TurnContext, TurnState,
        hooks::{Hook, Invocation, Link, Next, Reminder, done},
        request::reminder_or_over,
        rounds::{END_AFTER, WARN_AFTER, fingerprint},
        unusable_answers::Problem,
    },
};

/// Time limit for checking one answer, because schemas can be arbitrarily expensive.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Text before the schema in the notice.
const SCHEMA_PROMPT: &str = "The answer that ends this turn must be one JSON document that matches the JSON Schema below, \
    and nothing else: no text before or after it, and no code fence. Until then, work and call tools as usual. This \
    applies to this turn only.";

/// Reminder in the next turn without a schema, because the text above stays in the history.
const NO_SCHEMA: &str = "The answer of this turn has no special form: answer in plain text again.";

pub(crate) struct StructuredAnswer;

impl Link for StructuredAnswer {
    fn reminder(&self, context: &TurnContext, state: &TurnState) -> Option<Reminder> {
        // A plan is plain text.
        if state.phase == Phase::Planning {
            return None;
        }
        let now = context.answer_form.as_ref().map(|form| format!("{SCHEMA_PROMPT}\n\n{}", form.schema.text()));
        reminder_or_over(state, NoticeTopic::AnswerForm, now, NO_SCHEMA)
    }

    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        Box::pin(async move {
            let (Some(form), Phase::Working, Some(answer)) = (&context.answer_form, state.phase, &state.answer) else {
                return Ok(());
            };
            let (form, answer) = (Arc::clone(form), answer.clone());
            let checking = timeout(CHECK_TIMEOUT, spawn_blocking(move || form.check(&answer)));
            let checked = context.or_cancelled(checking).await?.ok().and_then(Result::ok);
            let unchecked = || Err(vec![format!("it could not be checked within {} seconds", CHECK_TIMEOUT.as_secs())]);
            match checked.unwrap_or_else(unchecked) {
                Ok(document) => state.answer = Some(document),
                Err(reasons) => state.record_problem(Some(Problem::WrongForm { reasons }), false),
            }
            Ok(())
        })
    }
}

pub(crate) struct AskAgain;

impl Link for AskAgain {
    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        Box::pin(async move {
            // Results come first, because the notice must follow them.
            if !state.asks_model() {
                return Ok(());
            }
            let written = state.answer_tokens;
            let Some((problem, times)) = state.unusable.take_unreported() else { return Ok(()) };
            let info = context.models.model.info();
            let (notice, warning) = notice_and_warning(problem, info, written);
            if let Some((code, message)) = warning.filter(|_| times == 1) {
                context.recorder.warn(code, message).await?;
            }
            context.append_notice(state, ItemBody::advice(notice)).await
        })
    }
}

/// Returns the notice for a model whose answer has `tokens` tokens, and the code and text of a warning for the user.
/// Truncated answers get no warning, because they were already reported.
fn notice_and_warning(problem: &Problem, info: &ModelInfo, tokens: u64) -> (String, Option<(&'static str, String)>) {
    let limit = if tokens == 0 { "the token limit".to_owned() } else { format!("the token limit, at {tokens} tokens") };
    let name = |tool: &str| if tool.is_empty() { "a tool" } else { tool }.to_owned();
    match problem {
        Problem::Empty { has_reasoning } => {
            let (fault, warning) = match has_reasoning {
                true => ("had only reasoning", "reasoning, but neither text nor a call"),
                false => ("was empty", "neither text nor a call"),
            };
            let notice = format!(
                "Your last answer {fault}: it had neither text for the user nor a valid tool call. Call the next tool, \
                 with complete JSON arguments, or answer the user in text."
            );
            (notice, Some(("empty_answer", format!("the model returned {warning}; asking again"))))
        }
        Problem::CutText => {
            let advice = "Continue exactly where it stops, without repeating it, or call a tool.";
            (format!("Your answer was cut off by {limit}. {advice}"), None)
        }
        Problem::CutReasoning => {
            let advice = "Reason less: call the next tool, or answer the user in text.";
            (format!("Your last answer was cut off by {limit}, before any text or tool call. {advice}"), None)
        }
        Problem::CutCall { tool } => {
            let advice = "Write less per call: split it into several calls.";
            (format!("Your call of {} was cut off by {limit}, and did not run. {advice}", name(tool)), None)
        }
        Problem::Runaway { .. } => {
            let notice = "Your last answer was cut off because it repeated itself endlessly. Do not continue it: call \
                          the next tool, or answer the user in other words.";
            (notice.to_owned(), None)
        }
        Problem::ForeignCall { tool } => {
            let tool = name(tool);
            let (notice, warning) = if info.native_tools {
                let notice = format!(
                    "Your last answer contained a call of {tool} as text. It did not run. Call tools only through the \
                     tool interface, never in the text. Retry the call that way, or answer the user in text."
                );
                let warning = "in its text, although its server should parse calls; asking again. If this continues, set \
                            native_tools: false for the model in models.yaml, or start its server with its tool \
                            parser (vLLM: --enable-auto-tool-choice --tool-call-parser, llama.cpp: --jinja)";
                (notice, warning)
            } else {
                let notice = format!(
                    "Your last answer contained a call of {tool} in an invalid format. It did not run. To use a tool, \
                     answer with one JSON object and nothing else: {{\"tool\": \"NAME\", \"args\": {{ARGUMENTS}}}}"
                );
                (notice, "in an invalid format; asking again")
            };
            (notice, Some(("call_as_text", format!("the model called {tool} {warning}"))))
        }
        Problem::DoubtfulCall { tool } => {
            let tool = name(tool);
            let way = match info.native_tools {
                true => "call it through the tool interface",
                false => "answer with its JSON object and nothing else",
            };
            let notice = format!(
                "Your last answer contains a call of {tool} among other text, so it did not run. To make the call, \
                 {way}. If it was only an example, repeat your answer unchanged."
            );
            let warning =
                format!("the answer may be a call of {tool} or an example of one; it did not run; asking the model");
            (notice, Some(("call_in_doubt", warning)))
        }
        Problem::Filtered => ("The provider withheld your last answer.".to_owned(), None),
        Problem::WrongForm { reasons } => {
            let notice = format!(
                "Your last answer does not match the JSON Schema required for this turn:\n- {}\n\nSend the whole \
                 document again, corrected, and nothing else. Do not call tools.",
                reasons.join("\n- ")
            );
            let reasons = reasons.join("; ");
            let warning = format!("the answer does not match the schema: {reasons}; asking again");
            (notice, Some(("wrong_form", warning)))
        }
    }
}

/// Start of the notice, by which an earlier notice is recognised.
const TODOS_NOTICE: &str = "Your answer would end the work, but your todo list is not done";

/// Maximum number of named todos.
const MAX_NAMED: usize = 5;

/// Maximum length of a named todo, in characters.
const MAX_SHOWN: usize = 120;

pub(crate) struct OpenTodos;

impl Link for OpenTodos {
    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        Box::pin(async move {
            let ends = state.phase == Phase::Working && state.pending_calls.is_empty();
            let Some(answer) = state.answer.as_deref().filter(|_| ends) else { return Ok(()) };
            let open = open(&state.todos);
            if open.is_empty() || asks_user(answer) || context.rules.grants.mode() == SessionMode::Plan {
                return Ok(());
            }
            let asked = notice(&open);
            let of_turn = |item: &&Arc<Item>| item.turn_id == context.ids.turn;
            let is_tool_result = |item: &Arc<Item>| matches!(item.body, ItemBody::ToolResult(_));
            // The model is asked once per turn, and not again about a list that has not changed since the last notice.
            let was_asked = |item: &Arc<Item>| {
                matches!(&item.body, ItemBody::Notice { text, .. }
                    if *text == asked || (item.turn_id == context.ids.turn && text.starts_with(TODOS_NOTICE)))
            };
            // A turn without tool calls may be about something else.
            if !state.history.iter().filter(of_turn).any(is_tool_result) || state.history.iter().any(was_asked) {
                return Ok(());
            }
            let message =
                format!("the turn would end with {} open; asking the model about them", todo_count_text(open.len()));
            context.recorder.warn("open_todos", message).await?;
            context.append_notice(state, ItemBody::advice(asked)).await?;
            // A new answer is appended to the previous one, unless the model continues with calls.
            state.ask_for_more(context.answer_form.is_some());
            Ok(())
        })
    }
}

fn open(todos: &[Todo]) -> Vec<&Todo> {
    todos.iter().filter(|todo| todo.status != TodoStatus::Completed).collect()
}

fn todo_count_text(open: usize) -> String {
    if open == 1 { "1 todo".to_owned() } else { format!("{open} todos") }
}

fn notice(open: &[&Todo]) -> String {
    let named = open.iter().take(MAX_NAMED).map(|todo| {
        let shown: String = todo.content.chars().take(MAX_SHOWN).collect();
        format!("{}. {shown}", todo.id)
    });
    let named: Vec<String> = named.collect();
    let more = open.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    format!(
        "{TODOS_NOTICE}: {} open: {}{more}. Do what is left now, and keep the list up to date. If something cannot or should \
         not be done, say why in one sentence. Do not repeat your answer above: the user has it.",
        todo_count_text(open.len()),
        named.join("; ")
    )
}

/// Returns true if an answer ends in a question, which the user has to answer next.
fn asks_user(answer: &str) -> bool {
    const MARKS: [char; 3] = ['?', '？', '؟'];
    let mut last = answer.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(3);
    last.any(|line| {
        let ends = line.trim_end_matches(|letter: char| !letter.is_alphanumeric() && !MARKS.contains(&letter));
        ends.ends_with(MARKS) || line.contains("? ") || line.contains('？')
    })
}

/// Minimum size of a file result that is not repeated while it is still visible to the model, in bytes.
const MIN_BYTES: usize = 400;

/// Placeholder for a result that is already in the history.
const UNCHANGED: &str = "[unchanged since you last read it: see the result of that call above]";

pub(crate) struct Repetition;

impl Link for Repetition {
    fn before_step<'a>(&'a self, context: &'a TurnContext, state: &'a mut TurnState) -> Hook<'a> {
        let repeated = state.rounds.repeated();
        let (is_due, is_endless) = (repeated >= WARN_AFTER && !state.rounds.is_warned, repeated >= END_AFTER);
        if !state.asks_model() || !(is_due || is_endless) {
            return done(());
        }
        Box::pin(async move {
            let tool = state.rounds.tool.clone();
            let (code, times, end) =
                if is_endless { ("loop", END_AFTER, "; the turn ends") } else { ("repeated_call", WARN_AFTER, "") };
            let what: fn(usize) -> String = if state.rounds.is_unknown() {
                |times| format!("called unavailable tools in {times} answers in a row")
            } else {
                |times| format!("made the same calls {times} times in a row with the same results")
            };
            let message = format!("the model {}, {tool} last{end}", what(times));
            context.recorder.warn(code, message).await?;
            if is_due {
                let text = format!(
                    "You {}, {tool} last. Repeating them changes nothing: try a different approach, or say what \
                     blocks you.",
                    what(WARN_AFTER)
                );
                let notice = Reminder::new(NoticeTopic::Repetition, text).notice();
                context.append_notice(state, notice).await?;
            }
            Ok(())
        })
    }

    fn around_tool<'a>(&'a self, call: &'a Invocation<'a>, next: Next<'a>) -> Hook<'a, ToolOutput> {
        // The embedded model answers from the last result alone.
        if call.context.models.model.info().embedded
            || call.context.tool(&call.call.name).is_none_or(|tool| tool.name != READ_FILE)
        {
            return next.run(call);
        }
        Box::pin(async move {
            let mut output = next.run(call).await?;
            if output.error.is_none() && output.text.len() > MIN_BYTES && is_shown_above(call, &output.text) {
                let result_fingerprint = fingerprint(&output.text);
                call.record.entries().effects.unchanged = Some(result_fingerprint);
                output.text = UNCHANGED.to_owned();
            }
            Ok(output)
        })
    }
}

/// Returns true if the last result of the same file has this text and is still visible. The history contains only text
/// that is visible to the model, without text that was summarised, truncated or moved to a file.
fn is_shown_above(call: &Invocation<'_>, text: &str) -> bool {
    let history = &call.state.history;
    let is_of_file = |known: &ToolCall| {
        let adapted_call = call.context.ports.toolbox.adapt(known);
        let path = path(adapted_call.as_ref().map_or(&known.arguments, |adapted_call| &adapted_call.arguments));
        path.is_some() && path == self::path(&call.call.arguments)
    };
    let of_file = |item: &Arc<Item>| {
        let ItemBody::ToolResult(result) = &item.body else { return None };
        let is_whole = result.name == call.call.name && result.error.is_none() && result.unchanged.is_none();
        let is_call = |item: &Arc<Item>| matches!(&item.body, ItemBody::ToolCall(known) if known.call_id == result.call_id && is_of_file(known));
        (is_whole && history.iter().any(is_call)).then(|| result.text == text)
    };
    history.iter().rev().find_map(of_file) == Some(true)
}

fn path(arguments: &str) -> Option<Value> {
    serde_json::from_str::<Value>(arguments).ok()?.get_mut(FollowedLink::PATH).map(Value::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_to_the_user_are_recognised() {
        let check = |answer: &str, expected| assert_eq!(asks_user(answer), expected, "{answer}");
        check("Done.", false);
        check("Shall I go on?", true);
        check("Shall I go on?\n", true);
        check("**Which one do you want?**", true);
        check("I did a and b. Which one next? Tell me.", true);
        check("Which one?\n\n- left\n- right", true);
        check("要继续吗？", true);
        check("Why was it slow? I looked.\n\nIt was the disk.\n\nI fixed it.\n\nAll is well.", false);
        check("", false);
    }
}
