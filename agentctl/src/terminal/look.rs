//! What the terminal can do, asked once, and how large it is, asked whenever it matters.

use std::io::{self, IsTerminal as _};

use anstream::{AutoStream, ColorChoice};

/// Capabilities of the client's two outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalStyle {
    /// Standard output is a terminal that obeys cursor movements: Markdown may be repainted there.
    pub(crate) out_terminal: bool,
    /// Colours on standard output.
    pub(crate) out_color: bool,
    /// Standard error is a terminal that obeys cursor movements: a spinner may turn there.
    pub(crate) err_terminal: bool,
    /// Colours on standard error.
    pub(crate) err_color: bool,
    /// The terminal's columns and rows now; people change them while a turn runs.
    pub(crate) size: fn() -> (usize, usize),
}

impl TerminalStyle {
    /// Detects those of this process. Heeds `NO_COLOR`, `CLICOLOR_FORCE` and `TERM=dumb`.
    pub(crate) fn detect() -> Self {
        let smart = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self {
            out_terminal: smart && io::stdout().is_terminal(),
            out_color: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            err_terminal: smart && io::stderr().is_terminal(),
            err_color: AutoStream::choice(&io::stderr()) != ColorChoice::Never,
            size: terminal_size,
        }
    }

    /// Columns for lines on the terminal; a usual number where there is none.
    pub(crate) fn columns(&self) -> usize {
        if self.out_terminal || self.err_terminal { (self.size)().0 } else { 100 }
    }
}

fn terminal_size() -> (usize, usize) {
    match crossterm::terminal::size() {
        // Some terminals in containers and pipes say 0.
        Ok((columns @ 1.., rows @ 1..)) => (usize::from(columns), usize::from(rows)),
        _ => (80, 24),
    }
}
