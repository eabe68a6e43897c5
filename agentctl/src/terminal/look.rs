//! Capabilities of the terminal, detected once, and its size, queried when needed.
//!
//! A plain terminal (`TERM=dumb`, or no `TERM`) supports no control sequences, so it only receives text and newlines.
//! `chat --plain` requests a plain terminal for users of screen readers ([`become_plain`]).

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal as _},
    os::unix::process::CommandExt as _,
    process::Command,
};

use anstream::{AutoStream, ColorChoice};

/// Environment variable with the terminal type.
const TERM_VARIABLE: &str = "TERM";
/// Terminal type without control sequences.
const DUMB_TERM: &str = "dumb";
/// Environment variable with the original terminal type, set before the switch to a plain terminal.
const ORIGINAL_TERM_VARIABLE: &str = "AGENTCTL_TERM";

/// Capabilities of standard output and standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalStyle {
    /// Standard output is a terminal of any type, so text is streamed there.
    pub(crate) out_shown: bool,
    /// Standard output supports cursor movements, so Markdown may be repainted there.
    pub(crate) out_terminal: bool,
    /// Standard output supports colours.
    pub(crate) out_color: bool,
    /// Standard error is a terminal of any type.
    pub(crate) err_shown: bool,
    /// Standard error supports cursor movements, so a spinner may be shown there.
    pub(crate) err_terminal: bool,
    /// Standard error supports colours.
    pub(crate) err_color: bool,
    /// Current columns and rows of the terminal, which may change while a turn runs.
    pub(crate) size: fn() -> (usize, usize),
}

impl TerminalStyle {
    /// Detects the capabilities. Respects `NO_COLOR`, `CLICOLOR_FORCE` and `TERM=dumb`.
    pub(crate) fn detect() -> Self {
        let is_smart = !is_plain();
        let (out_shown, err_shown) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            out_shown,
            out_terminal: is_smart && out_shown,
            out_color: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
            err_shown,
            err_terminal: is_smart && err_shown,
            err_color: AutoStream::choice(&io::stderr()) != ColorChoice::Never,
            size: terminal_size,
        }
    }

    /// Returns the number of columns of the terminal; 100 without a terminal.
    pub(crate) fn columns(&self) -> usize {
        if self.out_shown || self.err_shown { (self.size)().0 } else { 100 }
    }
}

/// Returns true for a terminal without cursor movements.
pub(crate) fn is_plain() -> bool {
    env::var_os(TERM_VARIABLE).is_none_or(|kind| kind == DUMB_TERM)
}

/// Replaces this process by the same program on a plain terminal. Only returns on failure, with the error.
pub(crate) fn become_plain() -> io::Error {
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    if let Some(kind) = env::var_os(TERM_VARIABLE) {
        command.env(ORIGINAL_TERM_VARIABLE, kind);
    }
    command.args(arguments).env(TERM_VARIABLE, DUMB_TERM).env_remove("CLICOLOR_FORCE").exec()
}

/// Returns the original terminal type, for programs that take over the terminal.
pub(crate) fn kind_for_programs() -> Option<OsString> {
    env::var_os(ORIGINAL_TERM_VARIABLE).or_else(|| env::var_os(TERM_VARIABLE))
}

fn terminal_size() -> (usize, usize) {
    match crossterm::terminal::size() {
        // Some terminals in containers and pipes report a size of 0.
        Ok((columns @ 1.., rows @ 1..)) => (usize::from(columns), usize::from(rows)),
        _ => (80, 24),
    }
}
