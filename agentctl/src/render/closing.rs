//! Closing lines of a turn: its problem, if any, and its usage.

use agentd_core::{
    turn::{StopReason, TurnResult},
    usage::Usage,
};

use anstyle::Style;

use crate::{
    report::count,
    terminal::{
        look::TerminalStyle,
        paint::{BAD, QUIET, WARN, duration, fold, money, number, paint},
        sanitize::{clean, clean_line},
    },
};

/// Space at which rows are not broken.
const JOINED: &str = "\u{a0}";

/// Returns the closing lines of a turn, folded at the width of the screen. `repeated` is the estimated number of tokens
/// of its requests that repeated the previous request.
pub(crate) fn lines(result: &TurnResult, repeated: u64, look: TerminalStyle) -> Vec<String> {
    let columns = if look.err_shown { look.columns() } else { usize::MAX };
    let rows = |(style, line): &(Style, String)| {
        let rows = fold(line, columns).into_iter().map(|row| row.replace(JOINED, " "));
        rows.map(|row| paint(look.err_color, *style, &row)).collect::<Vec<_>>()
    };
    closing_lines(result, repeated).iter().flat_map(rows).collect()
}

fn closing_lines(result: &TurnResult, repeated: u64) -> Vec<(Style, String)> {
    let mut lines = Vec::new();
    if let Some(error) = &result.error {
        lines.push((BAD, format!("error: {}", clean_line(&error.message))));
        if let Some(hint) = &error.hint {
            lines.extend(clean(hint).lines().map(|line| (QUIET, format!("hint: {line}"))));
        }
    } else if let Some(why) = why(result.stop_reason) {
        lines.push((WARN, why.to_owned()));
        lines.extend(hint(result.stop_reason).map(|hint| (QUIET, format!("hint: {hint}"))));
    }
    // A number stays in one row with its unit.
    lines.push((
        QUIET,
        took(result, repeated).replace(' ', JOINED).replace(&format!("{JOINED}·{JOINED}"), &format!("{JOINED}· ")),
    ));
    lines
}

/// Returns the reason why a turn stopped, unless it is complete.
fn why(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::Completed => None,
        StopReason::Cancelled => Some("cancelled"),
        StopReason::MaxSteps => Some("stopped: step limit reached"),
        StopReason::TimeLimit => Some("stopped: time limit reached"),
        StopReason::Budget => Some("stopped: token limit reached"),
        StopReason::Denied => Some("stopped: an approval was needed"),
        StopReason::Failed => Some("failed"),
        StopReason::Interrupted => Some("interrupted: the daemon died; the turn can be continued"),
        StopReason::Suspended => Some("suspended: the daemon was stopped; the turn can be continued"),
        StopReason::NoAnswer => Some("stopped: the model gave no answer, though it was asked again"),
        StopReason::Cut => Some("stopped: the answer is cut"),
        StopReason::WrongForm => Some("stopped: the answer does not match the schema"),
        StopReason::Filtered => Some("stopped: the provider withheld the answer or the rest of it"),
        StopReason::Loop => Some("stopped: the model repeated the same calls with the same results"),
    }
}

/// Returns advice for a turn that stopped without an error.
fn hint(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::NoAnswer => Some("continue the session to ask again, or try another model (--model)"),
        StopReason::Cut => Some("raise max_tokens of the model in models.yaml, or ask for a shorter answer"),
        StopReason::Loop => Some("say what it should do instead, or try another model (--model)"),
        StopReason::Filtered => Some("say it in other words, or try another model (--model)"),
        _ => None,
    }
}

/// Returns tokens and money; empty without usage.
pub(crate) fn spent(usage: &Usage, repeated: u64) -> String {
    let mut parts = Vec::new();
    if usage.prompt_tokens > 0 || usage.completion_tokens > 0 {
        parts.push(format!("{} in{}", number(usage.prompt_tokens), not_new(repeated, usage.cached_tokens)));
        parts.push(format!("{} out", number(usage.completion_tokens)));
    }
    // Unknown and zero costs are not shown after each answer.
    parts.extend(usage.cost_microusd.filter(|cost| *cost > 0).and_then(|_| money(usage)));
    parts.join(" · ")
}

/// Returns tokens, money, steps and time of a turn.
pub(crate) fn took(result: &TurnResult, repeated: u64) -> String {
    let spent = spent(&result.usage, repeated);
    let steps = if result.steps > 0 { count(result.steps, "step") } else { String::new() };
    join([spent, steps, duration(result.duration_ms)])
}

/// Turns of one chat, with their usage and time.
#[derive(Debug, Default)]
pub(crate) struct ChatTotals {
    turns: u64,
    usage: Usage,
    duration_ms: u64,
}

impl ChatTotals {
    /// Adds a turn that has ended.
    pub(crate) fn add(&mut self, result: &TurnResult) {
        self.turns += 1;
        self.usage += result.usage;
        self.duration_ms = self.duration_ms.saturating_add(result.duration_ms);
    }

    /// Returns a line with the totals, or `None` if no turn has ended.
    pub(crate) fn line(&self) -> Option<String> {
        let parts = [count(self.turns, "turn"), spent(&self.usage, 0), duration(self.duration_ms)];
        (self.turns > 0).then(|| format!("this chat: {}", join(parts)))
    }
}

/// Joins the parts that are not empty.
fn join(parts: [String; 3]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// Returns the numbers of tokens that repeated the previous request, and that the server had in its cache.
fn not_new(repeated: u64, cached: u64) -> String {
    let counts = [(repeated, "repeated"), (cached, "cached")].into_iter().filter(|(tokens, _)| *tokens > 0);
    let parts: Vec<String> = counts.map(|(tokens, what)| format!("{} {what}", number(tokens))).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_totals_sum_up_turns() {
        let mut totals = ChatTotals::default();
        assert_eq!(totals.line(), None);
        let turn = |prompt_tokens, cost_microusd, duration_ms| TurnResult {
            usage: Usage { prompt_tokens, completion_tokens: 10, cost_microusd, ..Usage::default() },
            duration_ms,
            ..crate::samples::result(StopReason::Completed)
        };
        totals.add(&turn(1_000, Some(10_000), 900));
        assert_eq!(totals.line().unwrap(), "this chat: 1 turn · 1,000 in · 10 out · $0.0100 · 900 ms");
        totals.add(&turn(500, Some(20_000), 1_100));
        assert_eq!(totals.line().unwrap(), "this chat: 2 turns · 1,500 in · 20 out · $0.0300 · 2.0 s");
    }

    #[test]
    fn repeated_tokens_are_shown_next_to_cached_ones() {
        let check = |repeated, cached, text: &str| assert_eq!(not_new(repeated, cached), text);
        check(0, 0, "");
        check(0, 7, " (7 cached)");
        check(1200, 0, " (1,200 repeated)");
        check(1200, 1150, " (1,200 repeated, 1,150 cached)");
    }
}
