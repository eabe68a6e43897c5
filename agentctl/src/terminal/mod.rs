//! The terminal: what it can do, the colours and widths of text, and text made harmless for it.
//!
//! - [`attention`]: the bell, notifications, the window's title, and what is copied.
//! - [`look`], [`paint`]: what the terminal can do, the colours, and the widths of text.
//! - [`sanitize`]: no prose of a model or a tool reaches a terminal but through it. What a person decides on goes through
//!   [`agentd_core::visible`] instead, which leaves nothing out.

pub(crate) mod ask;
pub(crate) mod attention;
pub(crate) mod look;
pub(crate) mod paint;
pub(crate) mod sanitize;

use std::io::{IsTerminal as _, Write as _, stderr, stdin};

/// Returns whether there is a person to be asked.
pub(crate) fn is_attended() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Tells the person something that is not the answer.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr(), "{}", fitted(&sanitize::clean(text)));
}

/// Tells the person several things, a line each.
pub(crate) fn note_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) {
    lines.into_iter().for_each(|line| note(&sanitize::clean_line(line.as_ref())));
}

/// A text for standard error: broken between words where that is a terminal, so that no word or id is cut in two.
pub(crate) fn fitted(text: &str) -> String {
    let look = look::TerminalStyle::detect();
    if !look.err_shown {
        return text.to_owned();
    }
    let columns = look.columns().saturating_sub(1);
    text.lines().flat_map(|line| paint::fold(line, columns)).collect::<Vec<_>>().join("\n")
}
