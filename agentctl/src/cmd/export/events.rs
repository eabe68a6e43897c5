//! A line of JSON for each stored event.

use std::io::{self, Write};

use agentd_core::{event::Event, session::SessionSummary, visible};

use super::EventWriter;
use crate::render::type_first;

/// Writes events as lines.
pub(super) struct Events<'a>(&'a mut (dyn Write + Send));

impl<'a> Events<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        Self(out)
    }
}

impl EventWriter for Events<'_> {
    fn begin(&mut self, _: &SessionSummary) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let line = visible::json(serde_json::to_string(&type_first(event)?)?);
        self.0.write_all(line.as_bytes())?;
        self.0.write_all(b"\n")
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
