//! A session as the page of `agentctl trace --html`: all turns with texts, calls, results, times and usage, and nothing that is loaded.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use agentd_core::{event::Event, ids::SessionId, session::SessionSummary};
use agentd_trace::{TurnTrace, nest, turns};

use super::EventWriter;
use crate::cmd::trace::{fetch::slim, page};

/// Gathers events until the page can be written.
pub(super) struct Html<'a> {
    out: &'a mut (dyn Write + Send),
    session: Option<(SessionId, String)>,
    events: BTreeMap<SessionId, Vec<Event>>,
}

impl<'a> Html<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        Self { out, session: None, events: BTreeMap::new() }
    }
}

impl EventWriter for Html<'_> {
    fn begin(&mut self, session: &SessionSummary) -> io::Result<()> {
        self.session = Some((session.id, session.title.clone()));
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.events.entry(event.session_id).or_default().push(slim(event.clone()));
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        let Some((session_id, title)) = &self.session else { return Ok(()) };
        let own = self.events.remove(session_id).unwrap_or_default();
        let mut trees = turns(&own);
        drop(own);
        let of_subagents = std::mem::take(&mut self.events);
        let known: BTreeMap<SessionId, Vec<TurnTrace>> =
            of_subagents.into_iter().map(|(id, events)| (id, turns(&events))).collect();
        nest(&mut trees, &known);
        let page = page::render(&page::PageData { title, session_id: *session_id, turns: &trees })?;
        self.out.write_all(page.as_bytes())
    }
}
