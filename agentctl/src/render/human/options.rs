//! Options of the renderer for people.

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
    /// Also shows the input of the user, for clients that did not send it.
    pub(crate) fn showing_input(self) -> Self {
        Self { shows_input: true, ..self }
    }

    /// Adds a hint at `/show` to shortened texts.
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

    /// Disables animations, for replays.
    pub(crate) fn still(self) -> Self {
        let look = TerminalStyle { err_terminal: false, ..self.look };
        Self { spinner: Spinner::new(look), ..self }
    }

    /// Writes only the answer, verbatim and at the end of the turn, also on a terminal. Writes nothing if the turn ends
    /// without an answer, because other text does not match the schema.
    pub(crate) fn answer_alone(self) -> Self {
        let look = TerminalStyle { out_shown: false, ..self.look };
        Self { look, answer_alone: true, ..self }
    }

    /// Writes the model's text verbatim and line by line while it streams, also on a terminal.
    pub(crate) fn line_by_line(self) -> Self {
        let look = TerminalStyle { out_shown: false, ..self.look };
        Self { look, line: Some(String::new()), ..self }
    }

    /// Shows interrupts as lines, for clients that do not ask.
    pub(crate) fn showing_interrupts(self) -> Self {
        Self { shows_interrupts: true, ..self }
    }
}
