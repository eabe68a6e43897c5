//! Words for a span in a line of the terminal. What ran or a person decided on is shown with every character; prose is
//! sanitized.

use agentd_core::{
    interrupt::{Answer, AnsweredBy, Ask},
    model::Slot,
    usage::Usage,
    visible,
};
use agentd_trace::{InterruptSpan, ModelCallSpan, Span, SpanKind, ToolSpan, TurnTrace};

use crate::terminal::{
    paint::{duration, number},
    sanitize::clean_line,
};

/// Bytes of a text that are looked at for its line.
const LOOKED_AT: usize = 2000;

/// Words of a span: its kind, its subject, and the rest.
pub(super) struct Label {
    pub(super) kind: String,
    pub(super) subject: String,
    pub(super) rest: String,
    pub(super) is_bad: bool,
}

impl Label {
    fn new(kind: impl Into<String>, subject: impl Into<String>, rest: impl Into<String>) -> Self {
        Self { kind: kind.into(), subject: subject.into(), rest: rest.into(), is_bad: false }
    }

    /// Words of a span.
    pub(super) fn of(span: &Span) -> Self {
        let mut label = match &span.kind {
            SpanKind::Input { text, steered } => Self::new(if *steered { "added" } else { "input" }, "", prose(text)),
            SpanKind::ModelCall(call) => Self::of_call(call),
            SpanKind::Message { text } => Self::new("says", "", prose(text)),
            SpanKind::Reasoning { text } => Self::new("thinks", "", prose(text)),
            SpanKind::Tool(tool) => Self::of_tool(tool),
            SpanKind::Interrupt(asked) => Self::of_question(asked),
            SpanKind::Subagent(work) => Self::new("agent", seen(&work.name), prose(&work.task)),
            SpanKind::Compaction { report, .. } => Self::new(
                "compaction",
                "",
                match report {
                    Some(report) => {
                        format!("{} to {} tokens", number(report.tokens_before), number(report.tokens_after))
                    }
                    None => String::new(),
                },
            ),
            SpanKind::Notice { topic, text } => Self::new(
                "notice",
                serde_json::to_value(topic).ok().and_then(|it| Some(it.as_str()?.to_owned())).unwrap_or_default(),
                prose(text),
            ),
            SpanKind::Warning { code, message } => {
                Self { is_bad: true, ..Self::new("warning", seen(code), prose(message)) }
            }
            SpanKind::Choice { choice, reason } => Self::new("choice", seen(choice), prose(reason)),
        };
        if span.is_open {
            label.rest = format!("(no end) {}", label.rest);
        }
        label
    }

    fn of_call(call: &ModelCallSpan) -> Self {
        let kind = if call.step == 0 { "model".to_owned() } else { format!("step {}", call.step) };
        let mut rest = Vec::new();
        if let Some(first) = call.first_token_ms {
            let about = if call.is_estimated { "about " } else { "" };
            rest.push(format!("first token {about}{}", duration(first)));
        }
        if call.retries > 0 {
            rest.push(format!("{} retried", call.retries));
        }
        Self::new(kind, seen(&call.model), rest.join(", "))
    }

    fn of_tool(tool: &ToolSpan) -> Self {
        let arguments = seen(tool.ran_with.as_ref().unwrap_or(&tool.arguments));
        let end = match (tool.error, tool.exit_code) {
            (Some(code), _) => format!("{} ", code.as_str()),
            (None, Some(code)) if code != 0 => format!("exit {code} "),
            _ => String::new(),
        };
        Self { is_bad: !end.is_empty(), ..Self::new("tool", seen(&tool.name), format!("{end}{arguments}")) }
    }

    fn of_question(asked: &InterruptSpan) -> Self {
        let what = match &asked.ask {
            Ask::Approval { tool, .. } => format!("{}?", seen(tool)),
            Ask::Question { question, .. } => prose(question),
        };
        let Some(answer) = &asked.answer else { return Self::new("asks", what, "no answer") };
        let answer = match answer {
            Answer::Approve => "approved".to_owned(),
            Answer::Reject { reason: Some(reason) } => format!("rejected: {}", prose(reason)),
            Answer::Reject { reason: None } => "rejected".to_owned(),
            Answer::Always { .. } | Answer::Keep { .. } => "approved, and kept as a rule".to_owned(),
            Answer::Edit { .. } => "approved with other arguments".to_owned(),
            Answer::Text { text } => prose(text),
        };
        let by = match &asked.by {
            Some(AnsweredBy::Client(name)) => format!(" by {}", seen(name)),
            Some(AnsweredBy::Deadline) => " at the deadline".to_owned(),
            Some(AnsweredBy::Daemon) => " by the daemon".to_owned(),
            None => String::new(),
        };
        Self::new("asks", what, format!("{answer}{by}"))
    }
}

/// Words of a turn: its number, how it ended, and who worked with which model.
pub(super) fn of_turn(turn: &TurnTrace) -> Label {
    let reason = turn.outcome.as_ref().map(|end| end.reason);
    let end = match reason {
        Some(reason) => {
            serde_json::to_value(reason).ok().and_then(|it| Some(it.as_str()?.replace('_', " "))).unwrap_or_default()
        }
        None => "not over".to_owned(),
    };
    let mut rest = vec![seen(&turn.agent)];
    rest.extend(turn.slot.map(Slot::as_str).map(str::to_owned));
    rest.push(seen(&turn.model));
    if turn.waited_ms > 0 {
        rest.push(format!("waited {}", duration(turn.waited_ms)));
    }
    let error = turn.outcome.as_ref().and_then(|end| end.error.as_ref());
    rest.extend(error.map(|error| prose(&error.message)));
    rest.retain(|part| !part.is_empty());
    let is_bad = reason.is_some_and(|reason| reason != agentd_core::turn::StopReason::Completed);
    Label { is_bad, ..Label::new(format!("turn {}", turn.number), end, rest.join(" · ")) }
}

/// Tokens of requests and answers.
pub(super) fn tokens(usage: &Usage) -> String {
    if usage.tokens() == 0 {
        return String::new();
    }
    format!("{}>{}", few(usage.prompt_tokens), few(usage.completion_tokens))
}

/// A number in few characters.
fn few(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{}.{}k", n / 1000, n % 1000 / 100),
        _ => format!("{}.{:02}M", n / 1_000_000, n % 1_000_000 / 10_000),
    }
}

fn prose(text: &str) -> String {
    clean_line(&text[..text.floor_char_boundary(LOOKED_AT)])
}

fn seen(text: &str) -> String {
    visible::line(&text[..text.floor_char_boundary(LOOKED_AT)])
}
