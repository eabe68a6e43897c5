//! The tree of a turn in the terminal: names with what is below them, and figures in columns at the right.

use agentd_core::usage::Usage;
use agentd_trace::{Span, SpanKind, TurnTrace};
use anstyle::Style;

use super::label::{self, Label};
use crate::terminal::paint::{BAD, CODE, QUIET, STRONG, WARN, clip, dollars, duration, paint, width};

/// Columns where there is no terminal.
pub(super) const USUAL_COLUMNS: usize = 120;

/// Columns of the figures: when it began, how long it took, tokens, money.
const FIGURES: [usize; 4] = [9, 9, 13, 9];
/// Columns from which a bar has room, and those that it takes.
const WIDE: usize = 110;
const BAR: usize = 20;
/// Columns below which only the time is shown.
const NARROW: usize = 60;

/// Columns of the terminal, and what has room in them.
#[derive(Clone, Copy)]
pub(super) struct Sheet {
    columns: usize,
    color: bool,
    /// The turn whose times the rows are measured by.
    from: agentd_core::Timestamp,
    whole_ms: u64,
    has_bars: bool,
}

/// All lines of a turn.
pub(super) fn lines(turn: &TurnTrace, columns: usize, color: bool) -> Vec<String> {
    let sheet = Sheet::of(turn, columns, color);
    let mut lines = vec![sheet.heading(), sheet.turn(turn, "")];
    sheet.spans(&turn.spans, "", &mut lines);
    lines
}

impl Sheet {
    pub(super) fn of(turn: &TurnTrace, columns: usize, color: bool) -> Self {
        Self {
            columns: columns.max(20),
            color,
            from: turn.at,
            whole_ms: turn.duration_ms().max(1),
            has_bars: columns >= WIDE,
        }
    }

    /// The same without bars: of a turn that runs nobody knows how long it will be.
    pub(super) fn without_bars(self) -> Self {
        Self { has_bars: false, ..self }
    }

    /// The names of the columns.
    pub(super) fn heading(&self) -> String {
        let names = ["START", "TIME", "TOKENS", "COST"].map(str::to_owned);
        let line = self.row("", "", &names, "");
        paint(self.color, STRONG, &line)
    }

    pub(super) fn turn(&self, turn: &TurnTrace, before: &str) -> String {
        let label = label::of_turn(turn);
        let figures = self.figures(turn.at, turn.duration_ms(), &turn.usage);
        self.labelled(before, &label, STRONG, &figures, &self.bar(turn.at, turn.end))
    }

    /// Lines of spans and of what is below them.
    pub(super) fn spans(&self, spans: &[Span], before: &str, lines: &mut Vec<String>) {
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

    fn figures(&self, at: agentd_core::Timestamp, took: u64, usage: &Usage) -> [String; 4] {
        let began = u64::try_from(at.duration_since(self.from).as_millis()).unwrap_or(0);
        let money = match usage.cost_microusd {
            Some(cost) if usage.unpriced_calls > 0 => format!("{}+?", dollars(cost)),
            Some(cost) => dollars(cost),
            None if usage.unpriced_calls > 0 => "?".to_owned(),
            None => String::new(),
        };
        let took = if took == 0 && usage.tokens() == 0 { String::new() } else { duration(took) };
        [duration(began), took, label::tokens(usage), money]
    }

    fn labelled(&self, before: &str, label: &Label, style: Style, figures: &[String; 4], bar: &str) -> String {
        let room = self.room().saturating_sub(width(before));
        let (kind, subject) = (clip(&label.kind, room), &label.subject);
        let subject = clip(subject, room.saturating_sub(width(&kind) + 1));
        let rest = clip(&label.rest, room.saturating_sub(width(&kind) + width(&subject) + 2));
        let mut painted = paint(self.color, style, &kind);
        let mut plain = width(&kind);
        for (text, style) in [(&subject, if label.is_bad { BAD } else { Style::new() }), (&rest, QUIET)] {
            if !text.is_empty() && text != "…" {
                painted.push(' ');
                painted.push_str(&paint(self.color, style, text));
                plain += 1 + width(text);
            }
        }
        painted.push_str(&" ".repeat(room.saturating_sub(plain)));
        self.row(before, &painted, figures, bar)
    }

    /// A line of a name, which is as wide as there is room for it already, and its figures.
    fn row(&self, before: &str, name: &str, figures: &[String; 4], bar: &str) -> String {
        let blank = if name.is_empty() { " ".repeat(self.room().saturating_sub(width(before))) } else { String::new() };
        let mut line = format!("{}{name}{blank}", paint(self.color, QUIET, before));
        for (at, (figure, columns)) in figures.iter().zip(FIGURES).enumerate() {
            if at == 1 || self.columns >= NARROW {
                line.push_str(&format!(" {figure:>columns$}"));
            }
        }
        if self.has_bars && !bar.is_empty() {
            line.push_str("  ");
            line.push_str(&paint(self.color, QUIET, bar));
        }
        line.trim_end().to_owned()
    }

    /// Columns of the name.
    fn room(&self) -> usize {
        let figures: usize = match self.columns {
            ..NARROW => FIGURES[1] + 1,
            _ => FIGURES.iter().map(|columns| columns + 1).sum(),
        };
        let figures = if self.has_bars { figures + BAR + 2 } else { figures };
        // The last column is left free: some terminals break a line that fills it.
        self.columns.saturating_sub(figures + 1)
    }

    /// The time of a row within its turn, as a bar.
    fn bar(&self, at: agentd_core::Timestamp, end: agentd_core::Timestamp) -> String {
        let place = |moment: agentd_core::Timestamp| {
            let since = u64::try_from(moment.duration_since(self.from).as_millis()).unwrap_or(0);
            let place = u128::from(since) * BAR as u128 / u128::from(self.whole_ms);
            usize::try_from(place).unwrap_or(BAR).min(BAR)
        };
        let from = place(at).min(BAR - 1);
        let to = place(end).max(from + 1);
        format!("{}{}", "·".repeat(from), "━".repeat(to - from)) + &"·".repeat(BAR - to)
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
