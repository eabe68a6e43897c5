//! Options of the renderer for people: each command sets the ones that it needs.

use std::{io::Write, sync::PoisonError};

use super::Human;
use crate::{
    render::{
        spinner::Spinner,
        status::{ChatStatus, SharedStatus},
    },
    terminal::look::TerminalStyle,
};

impl<O: Write, E: Write> Human<O, E> {
    /// Shows what the person said, too: for those who did not type it themselves.
    pub(crate) fn showing_input(self) -> Self {
        Self { shows_input: true, ..self }
    }

    /// Says that `/show` shows whole what is told in a line.
    pub(crate) fn in_chat(self) -> Self {
        Self { shows_whole: " · /show", ..self }
    }

    /// Shows the status line of a chat while a turn runs, and keeps it current.
    pub(crate) fn with_status(self, status: SharedStatus) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Changes the status line, if there is one.
    pub(super) fn change_status(&self, change: impl FnOnce(&mut ChatStatus)) {
        if let Some(status) = &self.status {
            change(&mut status.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Shows nothing that moves: for what is over.
    pub(crate) fn still(self) -> Self {
        let look = TerminalStyle { err_terminal: false, ..self.look };
        Self { spinner: Spinner::new(look), ..self }
    }

    /// Writes the answer when the turn has ended with it, alone and as it is, also on a terminal; nothing of a turn that ends
    /// otherwise, whose words match no schema.
    pub(crate) fn answer_alone(self) -> Self {
        let look = TerminalStyle { out_shown: false, ..self.look };
        Self { look, answer_alone: true, ..self }
    }

    /// Writes the words of the model line by line as they come, as they are, also on a terminal.
    pub(crate) fn line_by_line(self) -> Self {
        let look = TerminalStyle { out_shown: false, ..self.look };
        Self { look, line: Some(String::new()), ..self }
    }

    /// Shows interrupts as lines, for clients that do not ask.
    pub(crate) fn showing_interrupts(self) -> Self {
        Self { shows_interrupts: true, ..self }
    }
}
