//! Sessions that leave for another machine, and that come from one.
//!
//! - This file: what leaves. A session is read up to the event that was its last when its actor was asked, so that what
//!   leaves is whole, also while a turn runs.
//! - [`importing`]: what comes, from anybody. `scrub`: what never travels, pure. `ending`: the end of turns that were open,
//!   pure. `settling`: what an import that was cut off has left behind.

mod ending;
pub mod importing;
mod scrub;
mod settling;

use std::io::{self, Read};

use agentd_core::{
    archive::{ArchivedSession, TreeFile},
    context::ContextView,
    error::ErrorKind,
    event::Event,
    files::FilesCopied,
    ids::SessionId,
    session::{SessionSettings, SessionSummary},
};

use super::Engine;
use crate::error::EngineError;

/// Events that are read from the journal at once.
const PAGE: usize = 500;

/// A session as it leaves.
#[derive(Debug, Clone)]
pub struct SessionExport {
    /// Its summary for lists.
    pub summary: SessionSummary,
    /// The session, and behind it those that work for it.
    pub sessions: Vec<ArchivedSession>,
}

impl Engine {
    /// Describes a session, and those that work for it, as they leave: with all events that are stored now.
    ///
    /// # Errors
    /// When there is no such session, or the journal cannot be read.
    pub async fn export_session(&self, id: SessionId) -> Result<SessionExport, EngineError> {
        let session = self.session(id).await?;
        let stored = session.show().await?.session;
        // A session whose project is gone has no request to weigh.
        let context = session.context().await.ok().map(|view| ContextView { imported: false, ..view });
        let mut sessions = vec![ArchivedSession { context, ..archived(stored.summary.clone(), stored.settings) }];
        for child in self.shared.parts.store.children(id).await? {
            let Some(stored) = self.shared.parts.store.session(child.id).await? else { continue };
            sessions.push(archived(stored.summary, stored.settings));
        }
        Ok(SessionExport { summary: stored.summary, sessions })
    }

    /// The events of a session behind that number, as they leave: a page, which is empty behind the last.
    ///
    /// # Errors
    /// When the session is gone, or the journal cannot be read.
    pub async fn exported_events(&self, session: &ArchivedSession, after: u64) -> Result<Vec<Event>, EngineError> {
        let page = usize::try_from(session.events.saturating_sub(after)).unwrap_or(PAGE).min(PAGE);
        if page == 0 {
            return Ok(Vec::new());
        }
        let events = self.shared.parts.store.events(session.id, after, page).await?;
        if events.is_empty() {
            let message = format!("session {} was removed while it was exported", session.id);
            return Err(EngineError::new(ErrorKind::NotFound, message));
        }
        Ok(events.into_iter().map(|event| scrub::for_travel(Event::clone(&event))).collect())
    }

    /// Shows the files of a session that leave with it. Blocks.
    ///
    /// # Errors
    /// The first of `take`, or why the files cannot be read.
    pub fn exported_files(
        &self,
        id: SessionId,
        take: &mut (dyn FnMut(TreeFile, &mut dyn Read) -> io::Result<()> + Send),
    ) -> Result<FilesCopied, EngineError> {
        match self.shared.parts.workspaces.transport() {
            Some(transport) => Ok(transport.each_file(id, take)?),
            None => Ok(FilesCopied::default()),
        }
    }
}

fn archived(summary: SessionSummary, settings: SessionSettings) -> ArchivedSession {
    let settings = SessionSettings { grants: Vec::new(), imported: None, ..settings };
    let (id, created_at, events) = (summary.id, summary.created_at, summary.last_seq);
    ArchivedSession { id, created_at, settings, events, context: None }
}
