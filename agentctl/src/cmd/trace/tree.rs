//! The tree of a turn in the terminal: indented names, and figures in columns at the right. For a running turn, parts
//! are printed as they end. Hidden characters are escaped in calls and decisions; prose is sanitized.

use agentd_core::{
    Timestamp,
    event::{Event, EventKind},
    ids::SessionId,
    interrupt::{Answer, AnsweredBy, Ask},
    model::Slot,
    turn::StopReason,
    usage::Usage,
    visible,
};
use agentd_trace::{InterruptSpan, ModelCallSpan, Span, SpanKind, ToolSpan, TurnTrace, turns};
use anstyle::Style;
use serde_json::json;

use crate::{
    cmd::trace,
    daemon::Daemon,
    exit::Exit,
    report,
    terminal::{
        self, BAD, CODE, QUIET, STRONG, TerminalStyle, WARN, clean_line, clip, dollars, duration, number, paint, width,
    },
};

/// Number of columns if the output is not a terminal.
pub(super) const DEFAULT_COLUMNS: usize = 120;

/// Widths of the figures: start, duration, tokens, cost.
const FIGURE_WIDTHS: [usize; 4] = [9, 9, 13, 9];
/// Minimum columns for bars to be shown, and the width of a bar.
const MIN_BAR_COLUMNS: usize = 110;
const BAR_WIDTH: usize = 20;
/// Number of columns below which only the duration is shown.
const MIN_FIGURE_COLUMNS: usize = 60;

/// Layout of the lines of a turn.
#[derive(Clone, Copy)]
struct Layout {
    columns: usize,
    color: bool,
    /// Start of the turn. Times in rows are relative to this moment.
    from: Timestamp,
    whole_ms: u64,
    has_bars: bool,
}

/// Renders all lines of a turn.
pub(super) fn lines(turn: &TurnTrace, columns: usize, color: bool) -> Vec<String> {
    let sheet = Layout::of(turn, columns, color);
    let mut lines = vec![sheet.heading(), sheet.turn(turn, "")];
    sheet.spans(&turn.spans, "", &mut lines);
    lines
}

impl Layout {
    fn of(turn: &TurnTrace, columns: usize, color: bool) -> Self {
        Self {
            columns: columns.max(20),
            color,
            from: turn.at,
            whole_ms: turn.duration_ms().max(1),
            has_bars: columns >= MIN_BAR_COLUMNS,
        }
    }

    /// Returns the line with the column names.
    fn heading(&self) -> String {
        let names = ["START", "TIME", "TOKENS", "COST"].map(str::to_owned);
        let line = self.row("", "", &names, "");
        paint(self.color, STRONG, &line)
    }

    fn turn(&self, turn: &TurnTrace, before: &str) -> String {
        let label = of_turn(turn);
        let figures = self.figures(turn.at, turn.duration_ms(), &turn.usage);
        self.labelled(before, &label, STRONG, &figures, &self.bar(turn.at, turn.end))
    }

    /// Appends the lines of these spans and of their children.
    fn spans(&self, spans: &[Span], before: &str, lines: &mut Vec<String>) {
        for (at, span) in spans.iter().enumerate() {
            let is_last = at + 1 == spans.len();
            let branch = if is_last { "└ " } else { "├ " };
            lines.push(self.span(span, &format!("{before}{branch}")));
            let below = format!("{before}{}", if is_last { "  " } else { "│ " });
            self.spans(&span.children, &below, lines);
            if let SpanKind::Subagent(work) = &span.kind {
                for turn in &work.turns {
                    lines.push(self.turn(turn, &below));
                    self.spans(&turn.spans, &below, lines);
                }
            }
        }
    }

    fn span(&self, span: &Span, before: &str) -> String {
        let label = Label::of(span);
        let style = match &span.kind {
            _ if label.is_bad => BAD,
            SpanKind::Tool(_) => CODE,
            SpanKind::Interrupt(_) => WARN,
            SpanKind::ModelCall(_) | SpanKind::Subagent(_) => STRONG,
            _ => QUIET,
        };
        let figures = self.figures(span.at, span.duration_ms(), &span.usage());
        self.labelled(before, &label, style, &figures, &self.bar(span.at, span.end))
    }

    fn figures(&self, at: Timestamp, took: u64, usage: &Usage) -> [String; 4] {
        let began = u64::try_from(at.duration_since(self.from).as_millis()).unwrap_or(0);
        let money = match usage.cost_microusd {
            Some(cost) if usage.unpriced_calls > 0 => format!("{}+?", dollars(cost)),
            Some(cost) => dollars(cost),
            None if usage.unpriced_calls > 0 => "?".to_owned(),
            None => String::new(),
        };
        let took = if took == 0 && usage.tokens() == 0 { String::new() } else { duration(took) };
        [duration(began), took, tokens(usage), money]
    }

    fn labelled(&self, before: &str, label: &Label, style: Style, figures: &[String; 4], bar: &str) -> String {
        let columns = self.name_columns().saturating_sub(width(before));
        let (kind, subject) = (clip(&label.kind, columns), &label.subject);
        let subject = clip(subject, columns.saturating_sub(width(&kind) + 1));
        let rest = clip(&label.rest, columns.saturating_sub(width(&kind) + width(&subject) + 2));
        let mut painted = paint(self.color, style, &kind);
        let mut plain = width(&kind);
        for (text, style) in [(&subject, if label.is_bad { BAD } else { Style::new() }), (&rest, QUIET)] {
            if !text.is_empty() && text != "…" {
                painted.push(' ');
                painted.push_str(&paint(self.color, style, text));
                plain += 1 + width(text);
            }
        }
        painted.push_str(&" ".repeat(columns.saturating_sub(plain)));
        self.row(before, &painted, figures, bar)
    }

    /// Joins a name and its figures to a line. The caller pads a non-empty name to its column.
    fn row(&self, before: &str, name: &str, figures: &[String; 4], bar: &str) -> String {
        let blank =
            if name.is_empty() { " ".repeat(self.name_columns().saturating_sub(width(before))) } else { String::new() };
        let mut line = format!("{}{name}{blank}", paint(self.color, QUIET, before));
        for (at, (figure, columns)) in figures.iter().zip(FIGURE_WIDTHS).enumerate() {
            if at == 1 || self.columns >= MIN_FIGURE_COLUMNS {
                line.push_str(&format!(" {figure:>columns$}"));
            }
        }
        if self.has_bars && !bar.is_empty() {
            line.push_str("  ");
            line.push_str(&paint(self.color, QUIET, bar));
        }
        line.trim_end().to_owned()
    }

    /// Returns the number of columns for the name.
    fn name_columns(&self) -> usize {
        let figures: usize = match self.columns {
            ..MIN_FIGURE_COLUMNS => FIGURE_WIDTHS[1] + 1,
            _ => FIGURE_WIDTHS.iter().map(|columns| columns + 1).sum(),
        };
        let figures = if self.has_bars { figures + BAR_WIDTH + 2 } else { figures };
        // One column is left free, because some terminals wrap a line that fills the whole width.
        self.columns.saturating_sub(figures + 1)
    }

    /// Returns a bar that shows the position of a row's time within the turn.
    fn bar(&self, at: Timestamp, end: Timestamp) -> String {
        let position = |moment: Timestamp| {
            let since = u64::try_from(moment.duration_since(self.from).as_millis()).unwrap_or(0);
            let position = u128::from(since) * BAR_WIDTH as u128 / u128::from(self.whole_ms);
            usize::try_from(position).unwrap_or(BAR_WIDTH).min(BAR_WIDTH)
        };
        let from = position(at).min(BAR_WIDTH - 1);
        let to = position(end).max(from + 1);
        format!("{}{}", "·".repeat(from), "━".repeat(to - from)) + &"·".repeat(BAR_WIDTH - to)
    }
}

/// Maximum bytes of a text that are shown in its row.
const MAX_TEXT_BYTES: usize = 2000;

/// Label of a row: its kind, its subject, and details.
struct Label {
    kind: String,
    subject: String,
    rest: String,
    is_bad: bool,
}

impl Label {
    fn new(kind: impl Into<String>, subject: impl Into<String>, rest: impl Into<String>) -> Self {
        Self { kind: kind.into(), subject: subject.into(), rest: rest.into(), is_bad: false }
    }

    /// Creates the label of a span.
    fn of(span: &Span) -> Self {
        let mut label = match &span.kind {
            SpanKind::Input { text, steered } => Self::new(if *steered { "added" } else { "input" }, "", prose(text)),
            SpanKind::ModelCall(call) => Self::of_call(call),
            SpanKind::Message { text } => Self::new("says", "", prose(text)),
            SpanKind::Reasoning { text } => Self::new("thinks", "", prose(text)),
            SpanKind::Tool(tool) => Self::of_tool(tool),
            SpanKind::Interrupt(asked) => Self::of_question(asked),
            SpanKind::Subagent(work) => Self::new("agent", seen(&work.name), prose(&work.task)),
            SpanKind::Compaction { report, .. } => {
                let tokens = report.as_ref().map(|report| (number(report.tokens_before), number(report.tokens_after)));
                let tokens = tokens.map(|(before, after)| format!("{before} to {after} tokens"));
                Self::new("compaction", "", tokens.unwrap_or_default())
            }
            SpanKind::Notice { topic, text } => Self::new("notice", report::word(topic), prose(text)),
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
        let about = if call.is_estimated { "about " } else { "" };
        let first = call.first_token_ms.map(|first| format!("first token {about}{}", duration(first)));
        let retried = (call.retries > 0).then(|| format!("{} retried", call.retries));
        let rest: Vec<String> = first.into_iter().chain(retried).collect();
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
        let subject = match &asked.ask {
            Ask::Approval { tool, .. } => format!("{}?", seen(tool)),
            Ask::Question { question, .. } => prose(question),
        };
        let Some(answer) = &asked.answer else { return Self::new("asks", subject, "no answer") };
        let answer = match answer {
            Answer::Approve => "approved".to_owned(),
            Answer::Reject { reason: Some(reason) } => format!("rejected: {}", prose(reason)),
            Answer::Reject { reason: None } => "rejected".to_owned(),
            Answer::Always { .. } | Answer::Keep { .. } => "approved, and added as a grant".to_owned(),
            Answer::Edit { .. } => "approved with other arguments".to_owned(),
            Answer::Text { text } => prose(text),
        };
        let by = match &asked.by {
            Some(AnsweredBy::Client(name)) => format!(" by {}", seen(name)),
            Some(AnsweredBy::Deadline) => " at the deadline".to_owned(),
            Some(AnsweredBy::Daemon) => " by the daemon".to_owned(),
            None => String::new(),
        };
        Self::new("asks", subject, format!("{answer}{by}"))
    }
}

/// Returns the label of a turn: its number, its outcome, and the agent and model.
fn of_turn(turn: &TurnTrace) -> Label {
    let reason = turn.outcome.as_ref().map(|end| end.reason);
    let end = reason.map_or_else(|| "not ended".to_owned(), |reason| report::word(reason).replace('_', " "));
    let mut rest = vec![seen(&turn.agent)];
    rest.extend(turn.slot.map(Slot::as_str).map(str::to_owned));
    rest.push(seen(&turn.model));
    rest.extend((turn.waited_ms > 0).then(|| format!("waited {}", duration(turn.waited_ms))));
    let error = turn.outcome.as_ref().and_then(|end| end.error.as_ref());
    rest.extend(error.map(|error| prose(&error.message)));
    rest.retain(|part| !part.is_empty());
    let is_bad = reason.is_some_and(|reason| reason != StopReason::Completed);
    Label { is_bad, ..Label::new(format!("turn {}", turn.number), end, rest.join(" · ")) }
}

/// Formats prompt and completion tokens.
fn tokens(usage: &Usage) -> String {
    if usage.tokens() == 0 {
        return String::new();
    }
    format!("{}>{}", short_number(usage.prompt_tokens), short_number(usage.completion_tokens))
}

/// Formats a number in a short form.
fn short_number(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{}.{}k", n / 1000, n % 1000 / 100),
        _ => format!("{}.{:02}M", n / 1_000_000, n % 1_000_000 / 10_000),
    }
}

fn prose(text: &str) -> String {
    clean_line(&text[..text.floor_char_boundary(MAX_TEXT_BYTES)])
}

fn seen(text: &str) -> String {
    visible::line(&text[..text.floor_char_boundary(MAX_TEXT_BYTES)])
}

/// Follows the running turn until it has ended.
pub(super) async fn follow(daemon: &Daemon, session: SessionId, json: bool) -> anyhow::Result<Exit> {
    let id = session.to_string();
    let view = daemon.client.session(&id).await?;
    let Some((turn_id, first)) = view.session.open_turn.filter(|_| view.live_turn.is_some()) else {
        terminal::note("no turn is running in this session; without --follow the last one is shown");
        return Ok(Exit::Done);
    };
    let mut stream = daemon.client.subscribe(&id, first.saturating_sub(1), true).await?;
    let mut events: Vec<Event> = Vec::new();
    let mut printed = Printer { json, number: view.session.summary.turns.max(1), spans: 0 };
    while let Some(event) = stream.next().await? {
        if event.turn_id != Some(turn_id) || !event.kind.is_stored() {
            continue;
        }
        let is_over = matches!(event.kind, EventKind::TurnEnded { .. });
        // The usage of a part arrives directly after the part's end, so a part is complete only when another event
        // follows.
        let may_print = is_over
            || events.last().is_some_and(|before| {
                use EventKind::{InterruptRaised, ItemStarted, StateChanged};
                !matches!(before.kind, ItemStarted { .. } | InterruptRaised { .. } | StateChanged { .. })
            });
        let known = events.len();
        if matches!(event.kind, EventKind::InterruptRaised { .. }) {
            terminal::note("a question waits for an answer: `agentctl interrupts` shows it");
        }
        events.push(trace::without_origin(event));
        if !may_print {
            continue;
        }
        let mut trees = turns(if is_over { &events } else { &events[..known] });
        if trees.last().is_some_and(|turn| printed.is_due(turn)) {
            trace::with_subagents(&daemon.client, &mut trees).await?;
        }
        if let Some(turn) = trees.pop() {
            printed.print(turn)?;
        }
        if is_over {
            break;
        }
    }
    Ok(Exit::Done)
}

struct Printer {
    json: bool,
    /// Number of the turn in its session.
    number: u64,
    /// Number of printed parts.
    spans: usize,
}

impl Printer {
    /// Returns the parts that have ended and have not been printed. A model's text arrives after the end of its call,
    /// so a model call at the end is only printed after the next part.
    fn next_parts<'a>(&self, turn: &'a TurnTrace) -> &'a [Span] {
        let unprinted = turn.spans.get(self.spans..).unwrap_or_default();
        let ended = unprinted.iter().take_while(|span| !span.is_open).count();
        let is_over = turn.outcome.is_some();
        let count = match unprinted.get(ended.wrapping_sub(1)) {
            _ if is_over => unprinted.len(),
            Some(Span { kind: SpanKind::ModelCall(_), .. }) if ended == unprinted.len() => ended - 1,
            _ => ended,
        };
        &unprinted[..count]
    }

    /// Returns true if the turn has ended, or a part with nested turns is about to be printed.
    fn is_due(&self, turn: &TurnTrace) -> bool {
        let has_turns = |span: &Span| span.children.iter().any(|child| matches!(child.kind, SpanKind::Subagent(_)));
        turn.outcome.is_some() || self.next_parts(turn).iter().any(has_turns)
    }

    fn print(&mut self, turn: TurnTrace) -> anyhow::Result<()> {
        let turn = TurnTrace { number: self.number, ..turn };
        let next_parts = self.next_parts(&turn);
        let count = next_parts.len();
        let look = TerminalStyle::detect();
        // The length of a running turn is unknown, so there are no bars.
        let sheet = Layout { has_bars: false, ..Layout::of(&turn, look.columns(), look.out_color) };
        if self.json {
            for span in next_parts {
                report::json_line(&json!({ "type": "span", "turn_id": turn.turn_id, "span": span }))?;
            }
        } else if count > 0 {
            let mut lines = Vec::new();
            if self.spans == 0 {
                lines.push(sheet.heading());
            }
            sheet.spans(next_parts, "", &mut lines);
            report::lines(lines)?;
        }
        self.spans += count;
        if turn.outcome.is_some() {
            if self.json {
                report::json_line(&json!({ "type": "turn", "turn": TurnTrace { spans: Vec::new(), ..turn } }))?;
            } else {
                report::lines([sheet.turn(&turn, "")])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
