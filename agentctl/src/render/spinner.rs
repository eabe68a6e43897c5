//! A spinner on standard error while there is nothing to read. It never turns while text streams.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::{
    look::TerminalStyle,
    paint::{QUIET, clip, paint},
};

/// Interval of its frames. Slow enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);

/// A line at the bottom that says what is waited for; nothing where standard error is no terminal.
#[derive(Debug)]
pub(crate) struct Spinner {
    bar: Option<ProgressBar>,
    /// The rows below it: how far it is.
    lines: Vec<String>,
    /// Last rows: status and input.
    below: Vec<String>,
    look: TerminalStyle,
}

impl Spinner {
    pub(crate) fn new(look: TerminalStyle) -> Self {
        Self { bar: None, lines: Vec::new(), below: Vec::new(), look }
    }

    /// Says what is waited for. The text must be clean.
    pub(crate) fn show(&mut self, what: &str) {
        self.show_lines(what, std::iter::empty());
    }

    /// The same, with rows about how far it is.
    pub(crate) fn show_lines(&mut self, what: &str, lines: impl Iterator<Item = String>) {
        if !self.look.err_terminal {
            return;
        }
        let columns = self.look.columns().saturating_sub(1);
        let lines: Vec<String> = lines.map(|line| paint(self.look.err_color, QUIET, &clip(&line, columns))).collect();
        if lines != self.lines {
            self.lines = lines;
            self.style_bar();
        }
        // Room for the spinner itself, the time and a free column.
        let what = clip(what, self.look.columns().saturating_sub(12));
        if let Some(bar) = &self.bar {
            bar.set_message(what);
            return;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
            .with_style(self.style())
            .with_prefix(self.rows())
            .with_message(what);
        bar.enable_steady_tick(TICK);
        self.bar = Some(bar);
    }

    /// Shows rows below it. They must be clean and fit the window.
    pub(crate) fn below(&mut self, rows: Vec<String>) {
        if rows != self.below {
            self.below = rows;
            self.style_bar();
        }
    }

    fn style_bar(&self) {
        if let Some(bar) = &self.bar {
            bar.set_style(self.style());
            bar.set_prefix(self.rows());
        }
    }

    /// The rows below it.
    fn rows(&self) -> String {
        let rows: Vec<&str> = self.lines.iter().chain(&self.below).map(String::as_str).collect();
        rows.join("\n")
    }

    fn style(&self) -> ProgressStyle {
        let color = self.look.err_color;
        let row = if color { "{spinner:.cyan} {msg:.dim} {elapsed:.dim}" } else { "{spinner} {msg} {elapsed}" };
        let rows = if self.lines.is_empty() && self.below.is_empty() { "" } else { "\n{prefix}" };
        ProgressStyle::with_template(&format!("{row}{rows}")).unwrap_or_else(|_| ProgressStyle::default_spinner())
    }

    /// Takes it off the screen, so that others may write.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.clear();
    }
}
