//! Results as callers get them: bounded, and without what a terminal would obey, because they come from models and files and
//! are shown to people.

use agentd_core::{
    ids::{SessionId, TurnId},
    interrupt::{Ask, Interrupt},
    turn::{StopReason, TurnResult},
    visible,
};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use crate::{
    failure::Failure,
    terminal::sanitize::{clean, clean_line},
};

/// The answer of a turn at the most, in characters.
const LONGEST_ANSWER: usize = 100_000;
/// A part of anything else at the most, in characters.
const LONGEST_PART: usize = 8_000;
/// A part of what somebody decides on at the most, in characters.
const LONGEST_SEEN: usize = 100_000;
/// Entries of a list at the most.
const MOST: usize = 100;
/// Maximum nesting of what a model wrote.
const DEEPEST: usize = 16;

/// A turn that has ended.
pub(super) fn ended(session: SessionId, result: &TurnResult) -> CallToolResult {
    let text = clean(&result.text);
    let (text, is_cut) = cut(&text, LONGEST_ANSWER);
    let denials = result.denials.iter().take(MOST);
    let mut shown = json!({
        "status": "ended",
        "session_id": session,
        "turn_id": result.turn_id,
        "text": text,
        "stop_reason": result.stop_reason,
        "denials": denials.map(|denial| json!({
            "tool": line(&denial.tool), "reason": line(&denial.reason),
        })).collect::<Vec<_>>(),
        "interrupts": [],
        "files": result.files.iter().take(MOST).map(|file| json!({
            "path": line(&file.path), "change": file.change,
        })).collect::<Vec<_>>(),
    });
    if is_cut {
        shown["note"] = json!(format!("the text is cut here; `agentctl sessions show {session}` has all of it"));
    }
    if let Some(error) = &result.error {
        shown["error"] = json!({
            "kind": error.kind, "message": line(&error.message), "hint": error.hint.as_deref().map(line),
        });
    }
    let failed = matches!(
        result.stop_reason,
        StopReason::Failed | StopReason::Interrupted | StopReason::Suspended | StopReason::NoAnswer
    );
    if failed {
        shown["note"] = json!("ask again with this session_id and without a prompt to continue the turn");
        return CallToolResult::structured_error(shown);
    }
    CallToolResult::structured(shown)
}

/// A turn that waits.
pub(super) fn waits(session: SessionId, turn: TurnId, pending: &[Interrupt], note: &str) -> CallToolResult {
    CallToolResult::structured(json!({
        "status": "waiting",
        "session_id": session,
        "turn_id": turn,
        "text": "",
        "stop_reason": null,
        "denials": [],
        "interrupts": pending.iter().take(MOST).map(interrupt).collect::<Vec<_>>(),
        "note": note,
    }))
}

/// A pending interrupt as JSON.
pub(super) fn interrupt(interrupt: &Interrupt) -> Value {
    let mut shown = json!({
        "id": interrupt.id,
        "asked_by": line(&interrupt.asked_by.agent),
        "deadline": interrupt.deadline,
    });
    let more = match &interrupt.ask {
        Ask::Question { question, context, default, required, choices, secret } => json!({
            "kind": "question",
            "question": seen(question),
            "context": context.as_deref().map(seen),
            "default": default.as_deref().map(seen),
            "required": required,
            "secret": secret.then_some(true),
            "choices": (!choices.is_empty()).then(|| choices.iter().map(|choice| seen(choice)).collect::<Vec<_>>()),
        }),
        Ask::Approval { tool, args, risk, reason, preview, .. } => json!({
            "kind": "approval",
            "tool": visible::line(tool),
            "args": value(args),
            "risk": risk,
            "reason": visible::line(reason),
            "preview": preview.as_deref().map(seen),
        }),
    };
    if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
        // What is not there has no key.
        shown.extend(more.into_iter().filter(|(_, value)| !value.is_null()));
        shown.retain(|_, value| !value.is_null());
    }
    shown
}

/// A call that did not come about, as a result that a model can read.
pub(super) fn failed(error: &anyhow::Error) -> CallToolResult {
    let Failure { message, hint, .. } = Failure::from_any(error);
    let hint = hint.map(|hint| format!("\nhint: {}", part(&hint))).unwrap_or_default();
    CallToolResult::error(vec![ContentBlock::text(format!("{}{hint}", part(&message)))])
}

/// A text of bounded length, in one line.
pub(super) fn line(text: &str) -> String {
    clean_line(&part(text))
}

/// A text of bounded length.
pub(super) fn part(text: &str) -> String {
    let text = clean(text);
    let (start, is_cut) = cut(&text, LONGEST_PART);
    if is_cut { format!("{start} […]") } else { start.to_owned() }
}

/// A text that somebody decides on: every character can be seen, and where it is cut, that is said with how much is missing.
fn seen(text: &str) -> String {
    let (start, is_cut) = cut(text, LONGEST_SEEN);
    let shown = visible::lines(start);
    if !is_cut {
        return shown;
    }
    let more = text[start.len()..].chars().count();
    format!(
        "{shown}\n[… {more} more characters: `agentctl interrupts` shows all; do not approve what you have not seen]"
    )
}

/// Arguments that a model wrote; as a text, cut, where they are too long or too deep.
fn value(args: &Value) -> Value {
    let text = args.to_string();
    if text.len() > LONGEST_SEEN { Value::String(seen(&text)) } else { seen_value(args, DEEPEST) }
}

fn seen_value(value: &Value, deep: usize) -> Value {
    match value {
        Value::String(text) => Value::String(visible::lines(text)),
        Value::Array(_) | Value::Object(_) if deep == 0 => Value::String(visible::lines(&value.to_string())),
        Value::Array(values) => values.iter().map(|value| seen_value(value, deep - 1)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (visible::line(key), seen_value(value, deep - 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The first characters of a text, and whether there are more.
fn cut(text: &str, longest: usize) -> (&str, bool) {
    match text.char_indices().nth(longest) {
        Some((at, _)) => (&text[..at], true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        error::ErrorKind,
        ids::{InterruptId, TraceId},
        interrupt::AskedBy,
        policy::Risk,
        turn::TurnError,
        usage::Usage,
    };

    use super::*;

    fn result(text: &str, stop_reason: StopReason) -> TurnResult {
        TurnResult {
            turn_id: TurnId::generate(),
            trace_id: TraceId::generate(),
            text: text.to_owned(),
            tool_used: false,
            stop_reason,
            error: None,
            steps: 1,
            usage: Usage::default(),
            denials: Vec::new(),
            files: Vec::new(),
            duration_ms: 0,
            only_compacted: false,
        }
    }

    fn content(result: CallToolResult) -> Value {
        result.structured_content.unwrap()
    }

    #[test]
    fn answers_are_bounded_and_clean() {
        let long = "é\u{1b}]0;x\u{7}".repeat(LONGEST_ANSWER + 1);
        let shown = content(ended(SessionId::generate(), &result(&long, StopReason::Completed)));
        assert_eq!(shown["text"].as_str().unwrap(), "é".repeat(LONGEST_ANSWER));
        assert!(shown["note"].as_str().unwrap().contains("agentctl sessions show"));
        let short = content(ended(SessionId::generate(), &result("a", StopReason::Completed)));
        assert!(short.get("note").is_none());
    }

    #[test]
    fn turns_that_failed_are_errors_and_say_how_to_go_on() {
        let error = TurnError { kind: ErrorKind::Auth, message: "no\u{1b}[2J key".to_owned(), hint: None };
        let failed = TurnResult { error: Some(error), ..result("", StopReason::Failed) };
        let failed = ended(SessionId::generate(), &failed);
        assert_eq!(failed.is_error, Some(true));
        let shown = content(failed);
        assert_eq!(shown["error"], json!({"kind": "auth", "message": "no key", "hint": null}));
        assert!(shown["note"].as_str().unwrap().contains("without a prompt"));
        let limited = ended(SessionId::generate(), &result("half", StopReason::MaxSteps));
        assert_eq!(limited.is_error, Some(false));
        assert_eq!(content(limited)["stop_reason"], "max_steps");
    }

    #[test]
    fn what_waits_is_shown_without_teeth() {
        let shown = interrupt(&Interrupt {
            id: InterruptId::generate(),
            session_id: SessionId::generate(),
            turn_id: TurnId::generate(),
            call_id: None,
            asked_by: AskedBy::default(),
            ask: Ask::Approval {
                tool: "run_bash_command".to_owned(),
                args: json!({"command": "ls\u{1b}[2J \u{202e}x", "deep": [[{"a\u{7}": 1}]], "none": null}),
                risk: Risk::Low,
                reason: "it\nruns".to_owned(),
                preview: None,
                layer: None,
                rule: None,
                grants: Vec::new(),
                wider: Vec::new(),
                for_good: Vec::new(),
                owner: None,
            },
            raised_at: Timestamp::UNIX_EPOCH,
            deadline: None,
            on_deadline: None,
        });
        assert_eq!(
            shown["args"],
            json!({"command": "ls\\u{1b}[2J \\u{202e}x", "deep": [[{"a\\u{7}": 1}]], "none": null})
        );
        assert_eq!((&shown["kind"], &shown["reason"]), (&json!("approval"), &json!("it⏎runs")));
        assert!(shown.get("preview").is_none() && shown.get("deadline").is_none());
        let long = value(&json!({"text": "x".repeat(LONGEST_SEEN)}));
        assert!(long.as_str().unwrap().contains("\n[… 11 more characters: `agentctl interrupts` shows all"));
    }
}
