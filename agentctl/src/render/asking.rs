//! Texts about a question for a user: its origin, its reason, and the effects of the answers. Shared by all clients
//! that show questions.

use agentd_core::{
    Timestamp,
    grant::GrantScope,
    interrupt::{Answer, AnsweredBy, Ask, AskedBy, Interrupt},
    policy::{Layer, Risk},
    visible,
};
use anstyle::Style;

use super::{diff::Room, tool_line::call_line};
use crate::{
    report,
    terminal::{
        paint::{QUIET, WARN, clip, width},
        sanitize::clean_line,
    },
};

/// Returns the risk as text.
pub(crate) fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "low risk",
        Risk::Medium => "medium risk",
        Risk::High => "high risk",
        Risk::Critical => "CRITICAL risk",
    }
}

/// Returns the origin of a question: its agent, session and client.
pub(crate) fn who(by: &AskedBy) -> String {
    let agent = match by.agent.as_str() {
        "main" => "the main agent".to_owned(),
        other => format!("the agent {}", visible::line(other)),
    };
    // A model often wrote the title, so it must not close its quotation marks and continue as text of the client.
    let title = by.session_title.as_deref().map(|title| format!(" in \"{}\"", visible::line(title).replace('"', "'")));
    let client = by.client.as_deref().map(|client| format!(", started by {}", visible::line(client)));
    format!("{agent}{}{}", title.unwrap_or_default(), client.unwrap_or_default())
}

/// Returns the reason of a question, with the layer and the rule that caused it.
pub(crate) fn why(reason: &str, layer: Option<Layer>, rule: Option<&str>) -> String {
    let (reason, rule) = (visible::line(reason), visible::line(rule.unwrap_or_default()));
    let layer = layer.map(|layer| match layer {
        Layer::Checker => "what is known of the tool",
        Layer::Global => "a global rule",
        Layer::Tool => "a rule about the tool",
        Layer::Default => "the defaults",
        Layer::Grant => "a kept rule",
    });
    match layer {
        None => reason,
        // The rule of a checker is its reason.
        Some(layer) if rule.is_empty() || rule == reason => format!("{reason} ({layer})"),
        Some(layer) => format!("{reason} ({layer}: {rule})"),
    }
}

/// Returns the lines about a question for a client that does not ask it: the call or the text, and the commands that
/// answer it and show all of it.
pub(super) fn raised(interrupt: &Interrupt) -> [(Style, String); 3] {
    let what = match &interrupt.ask {
        Ask::Approval { tool, args, .. } => call_line(tool, args),
        Ask::Question { question, .. } => visible::line(question),
    };
    let id = report::short_id(interrupt.id);
    [
        (WARN, format!("? {}", what.trim_end())),
        (QUIET, format!("  answer it with: agentctl answer {id} …")),
        (QUIET, format!("  see it in full: agentctl interrupts {id}")),
    ]
}

/// Returns the line about an answer. Answers of clients are only shown where the questions are lines.
pub(super) fn resolved(by: &AnsweredBy, shows_interrupts: bool) -> Option<String> {
    match by {
        AnsweredBy::Client(client) => shows_interrupts.then(|| format!("answered by {}", clean_line(client))),
        AnsweredBy::Deadline => Some("no answer in time".to_owned()),
        AnsweredBy::Daemon => Some("question withdrawn".to_owned()),
    }
}

/// Returns the answers to choose from, each with its number.
pub(crate) fn choices(choices: &[String]) -> impl Iterator<Item = String> {
    choices.iter().enumerate().map(|(at, choice)| format!("{}  {}", at + 1, visible::line(choice)))
}

/// Returns a sentence about the deadline and the default answer, if there is a deadline.
pub(crate) fn unanswered(interrupt: &Interrupt, now: Timestamp) -> Option<String> {
    let deadline = interrupt.deadline?;
    let left = deadline.duration_since(now).as_millis().max(0);
    let left = report::span(u64::try_from(left).unwrap_or_default());
    let then = match &interrupt.on_deadline {
        Some(Answer::Approve) => "it is approved".to_owned(),
        Some(Answer::Text { text }) => format!("the answer is \"{}\"", visible::line(text)),
        _ => "it is rejected".to_owned(),
    };
    Some(format!("unless answered within {left}, {then}"))
}

/// Returns a rule, with an explanation if it covers more than its text suggests.
pub(crate) fn rule(rule: &str) -> String {
    let rule = visible::line(rule);
    match rule.strip_suffix("_*") {
        _ if rule.contains([' ', ':']) => rule,
        Some(_) => format!("{rule}, which covers every call of every tool of that MCP server"),
        None => format!("{rule}, which covers every call of it"),
    }
}

/// Returns the rules, each in one row, as many as fit into the room. Also returns true if all of them are shown without
/// clipping.
pub(crate) fn rules(rules: &[String], room: Room) -> (Vec<String>, bool) {
    let kept = if rules.len() <= room.rows { rules.len() } else { room.rows.saturating_sub(1) };
    let whole: Vec<String> = rules[..kept].iter().map(|kept| rule(kept)).collect();
    let is_whole = kept == rules.len() && whole.iter().all(|rule| width(rule) <= room.columns);
    let mut shown: Vec<String> = whole.iter().map(|rule| clip(rule, room.columns)).collect();
    if kept < rules.len() {
        shown.push(format!("… and {} more rules", rules.len() - kept));
    }
    (shown, is_whole)
}

/// Returns a message about the rules that an `always` has kept.
pub(crate) fn kept(scope: GrantScope, kept: &[String]) -> String {
    /// Enough for a message, because the question showed the rules, and `agentctl grants` lists them.
    const SHOWN: Room = Room { rows: 5, columns: 200 };
    let place = match scope {
        GrantScope::Session => "kept for this session",
        GrantScope::ForGood => "kept for good, in every session",
    };
    format!("{place}: {}", rules(kept, SHOWN).0.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asker_and_reason_are_one_sanitised_line() {
        let by = |title: Option<&str>, client: Option<&str>| AskedBy {
            session_title: title.map(str::to_owned),
            client: client.map(str::to_owned),
            ..AskedBy::default()
        };
        assert_eq!(who(&by(None, None)), "the main agent");
        let (title, client) = (Some("Tidy\u{1b}[2J up"), Some("a\nb"));
        let shown = "the main agent in \"Tidy\\u{1b}[2J up\", started by a⏎b";
        assert_eq!(who(&by(title, client)), shown);
        let forged = by(Some("x\", started by you"), None);
        assert_eq!(who(&forged), "the main agent in \"x', started by you\"");
        let check = |layer, rule, expected: &str| assert_eq!(why("it runs a command", layer, rule), expected);
        check(None, None, "it runs a command");
        check(Some(Layer::Checker), Some("it runs a command"), "it runs a command (what is known of the tool)");
        check(Some(Layer::Default), Some("confirm_exec is on"), "it runs a command (the defaults: confirm_exec is on)");
    }
}
