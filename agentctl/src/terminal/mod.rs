//! The terminal: its capabilities, colours and text widths, and sanitizing of text.
//!
//! - [`ask`]: line input, with or without echo.
//! - [`attention`]: the bell, notifications, the window title and the clipboard.
//! - [`look`], [`mod@paint`]: capabilities of the terminal, colours, and text widths.
//! - [`sanitize`]: sanitizes all prose from models and tools before a terminal shows it. Text that a user bases a
//!   decision on uses [`agentd_core::visible`] instead, which omits nothing.

pub(crate) mod ask;
pub(crate) mod attention;
pub(crate) mod look;
pub(crate) mod paint;
pub(crate) mod sanitize;

use std::io::{IsTerminal as _, Write as _, stderr, stdin};

pub(crate) use self::{
    look::TerminalStyle,
    paint::{BAD, CODE, GOOD, QUIET, STRONG, WARN, clip, dollars, duration, fold, money, number, paint, width},
    sanitize::{clean, clean_line},
};

/// Returns true if a user can be asked.
pub(crate) fn is_attended() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Prints a message for the user on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", fitted(&clean(text)));
}

/// Prints messages for the user on standard error, one per line.
pub(crate) fn note_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) {
    lines.into_iter().for_each(|line| note(&clean_line(line.as_ref())));
}

/// Prepares text for standard error. On a terminal, the text is wrapped between words, so that no word or id is split.
pub(crate) fn fitted(text: &str) -> String {
    let look = TerminalStyle::detect();
    if !look.err_shown {
        return text.to_owned();
    }
    let columns = look.columns().saturating_sub(1);
    text.lines().flat_map(|line| fold(line, columns)).collect::<Vec<_>>().join("\n")
}
