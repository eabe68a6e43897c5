//! A spinner on standard error while there is nothing to read. It never turns while text streams.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{look::Look, paint::clip};

/// How often it turns. Slow enough to cost nothing.
const TICK: Duration = Duration::from_millis(100);

/// A line at the bottom that says what is waited for; nothing where standard error is no terminal.
#[derive(Debug)]
pub(crate) struct Spinner {
    bar: Option<ProgressBar>,
    look: Look,
}

impl Spinner {
    pub(crate) fn new(look: Look) -> Self {
        Self { bar: None, look }
    }

    /// Says what is waited for. The text must be clean.
    pub(crate) fn show(&mut self, what: &str) {
        if !self.look.err_terminal {
            return;
        }
        // Room for the spinner itself, the time and a free column.
        let what = clip(what, self.look.columns().saturating_sub(12));
        if let Some(bar) = &self.bar {
            bar.set_message(what);
            return;
        }
        let template =
            if self.look.err_color { "{spinner:.cyan} {msg:.dim} {elapsed:.dim}" } else { "{spinner} {msg} {elapsed}" };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar =
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style).with_message(what);
        bar.enable_steady_tick(TICK);
        self.bar = Some(bar);
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
