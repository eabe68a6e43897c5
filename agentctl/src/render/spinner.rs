//! A spinner on standard error while the turn waits. It is never shown while text streams.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::{
    look::TerminalStyle,
    paint::{QUIET, clip, paint},
};

/// Interval of the frames, slow enough to use little CPU.
const TICK: Duration = Duration::from_millis(100);

/// Line at the bottom that shows what the turn waits for. Hidden unless standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Spinner {
    bar: Option<ProgressBar>,
    /// Rows with progress below the spinner.
    lines: Vec<String>,
    /// Last rows: status and input.
    below: Vec<String>,
    look: TerminalStyle,
}

impl Spinner {
    pub(crate) fn new(look: TerminalStyle) -> Self {
        Self { bar: None, lines: Vec::new(), below: Vec::new(), look }
    }

    /// Shows what the turn waits for. The text must be clean.
    pub(crate) fn show(&mut self, what: &str) {
        self.show_lines(what, std::iter::empty());
    }

    /// Shows what the turn waits for, with rows of progress.
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
        // Leaves space for the spinner, the time and a free column.
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

    /// Shows rows below the spinner. They must be clean and fit the window.
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

    /// Returns the rows below the spinner.
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

    /// Removes the spinner from the screen, so that other output may follow.
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
