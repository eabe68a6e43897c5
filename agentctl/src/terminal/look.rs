//! What the terminal can do, asked once, and how large it is, asked whenever it matters.
//!
//! A plain terminal (`TERM=dumb`, or none) obeys nothing: it is sent words and newlines, and no escape at all. People who
//! have a terminal read to them ask for one with `chat --plain` ([`become_plain`]).

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal as _},
    os::unix::process::CommandExt as _,
    process::Command,
};

use anstream::{AutoStream, ColorChoice};

/// Environment variable of the terminal's kind.
const KIND: &str = "TERM";
/// The kind that obeys nothing.
const DUMB: &str = "dumb";
/// Environment variable with the kind that the terminal had before this process called it plain.
const KIND_BEFORE: &str = "AGENTCTL_TERM";

/// Capabilities of the client's two outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TerminalStyle {
    /// Standard output is a terminal, of whatever kind: words are written there as they come.
    pub(crate) out_shown: bool,
    /// Standard output is a terminal that obeys cursor movements: Markdown may be repainted there.
    pub(crate) out_terminal: bool,
    /// Colours on standard output.
    pub(crate) out_color: bool,
    /// Standard error is a terminal, of whatever kind.
    pub(crate) err_shown: bool,
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

    /// Columns for lines on the terminal; a usual number where there is none.
    pub(crate) fn columns(&self) -> usize {
        if self.out_shown || self.err_shown { (self.size)().0 } else { 100 }
    }
}

/// True for a terminal that obeys no cursor movements.
pub(crate) fn is_plain() -> bool {
    env::var_os(KIND).is_none_or(|kind| kind == DUMB)
}

/// Starts this program again, in place of this process, on a terminal that is taken for a plain one. It comes back only
/// where that fails, and says why.
pub(crate) fn become_plain() -> io::Error {
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    if let Some(kind) = env::var_os(KIND) {
        command.env(KIND_BEFORE, kind);
    }
    command.args(arguments).env(KIND, DUMB).env_remove("CLICOLOR_FORCE").exec()
}

/// The terminal's kind, for a program that has it for itself.
pub(crate) fn kind_for_programs() -> Option<OsString> {
    env::var_os(KIND_BEFORE).or_else(|| env::var_os(KIND))
}

fn terminal_size() -> (usize, usize) {
    match crossterm::terminal::size() {
        // Some terminals in containers and pipes say 0.
        Ok((columns @ 1.., rows @ 1..)) => (usize::from(columns), usize::from(rows)),
        _ => (80, 24),
    }
}
