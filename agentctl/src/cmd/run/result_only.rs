//! The result of a turn as one JSON object.

use std::io::{self, Write as _};

use agentd_core::{
    event::{Event, EventKind},
    ids::SessionId,
    turn::TurnResult,
    visible,
};

use crate::{
    render::jsonl::{self, TurnNotes},
    terminal::sanitize::clean_line,
    turn::Renderer,
};

/// Prints the result as one JSON object and nothing before it.
#[derive(Debug)]
pub(super) struct ResultOnly {
    pub(super) session: SessionId,
    /// Set if the person is told what is waited for, because somebody has to answer from elsewhere.
    pub(super) waits: bool,
    pub(super) notes: TurnNotes,
}

impl Renderer for ResultOnly {
    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.notes.take(event);
        match &event.kind {
            EventKind::Warning { code, message } if code == "input_stored" => self.note(&clean_line(message)),
            EventKind::InterruptRaised { interrupt } if self.waits => {
                self.note(&format!("the turn waits for an answer: agentctl answer {} …", interrupt.id))
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, result: &TurnResult) -> io::Result<()> {
        let line = visible::json(jsonl::result(self.session, result, &self.notes)?.to_string());
        io::stdout().write_all(format!("{line}\n").as_bytes())
    }
}
