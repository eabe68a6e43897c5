//! Sessions that leave for another machine, and that come from one.
//!
//! - This file: what leaves, and what never travels. A session is read up to the event that was its last when its actor was
//!   asked, so that what leaves is whole, also while a turn runs. What an import that was cut off has left behind is settled here.
//! - [`importing`]: what comes, from anybody. `ending`: the end of turns that were open, pure.

mod ending;
pub mod importing;

use std::{
    io::{self, Read},
    sync::Arc,
};

use agentd_core::{
    archive::{ArchivedSession, TreeFile},
    context::ContextView,
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    files::FilesCopied,
    ids::SessionId,
    item::ItemBody,
    session::{SessionSettings, SessionSummary},
    tool::FileChange,
};
use tokio::runtime::Handle;

use crate::{error::EngineError, front::Engine};

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
        for child in self.shared.ports.store.children(id).await? {
            let Some(stored) = self.shared.ports.store.session(child.id).await? else { continue };
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
        let events = self.shared.ports.store.events(session.id, after, page).await?;
        if events.is_empty() {
            let message = format!("session {} was removed while it was exported", session.id);
            return Err(EngineError::new(ErrorKind::NotFound, message));
        }
        Ok(events.into_iter().map(|event| for_travel(Event::clone(&event))).collect())
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
        match self.shared.ports.workspaces.transport() {
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

/// Characters of a session's name at the most.
const MAX_TITLE: usize = 200;

/// The event without what never travels.
pub(crate) fn for_travel(mut event: Event) -> Event {
    match &mut event.kind {
        // Wishes for the turn stay: a replay needs them. They hold for no other turn.
        EventKind::TurnStarted { environment, .. } => *environment = Default::default(),
        EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => {
            if let ItemBody::ToolResult(result) = &mut item.body {
                only_tell(&mut result.files);
            }
        }
        EventKind::TurnEnded { result } => only_tell(&mut result.files),
        EventKind::StateChanged { change } => match change {
            StateChange::Settings { settings } => {
                settings.grants.clear();
                settings.imported = None;
            }
            StateChange::Queue { added, .. } => *added = None,
            StateChange::Undone { files, .. } => only_tell(files),
            StateChange::Title { title } if title.chars().count() > MAX_TITLE => {
                *title = title.chars().take(MAX_TITLE).collect();
            }
            _ => {}
        },
        _ => {}
    }
    event
}

/// Leaves of changes what is told of them. What is needed to take them back stays on the machine.
fn only_tell(files: &mut [FileChange]) {
    for file in files {
        *file = FileChange::new(std::mem::take(&mut file.path), file.change);
    }
}

impl Engine {
    /// Settles what imports have left behind. Called at start, before any import.
    ///
    /// # Errors
    /// When the files cannot be looked at.
    pub async fn settle_imports(&self) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        let settled = tokio::task::spawn_blocking(move || {
            let Some(transport) = shared.ports.workspaces.transport() else { return Ok(()) };
            let runtime = Handle::current();
            // Where the journal cannot be read, nothing is removed.
            transport
                .settle(&|id| runtime.block_on(shared.ports.store.session(id)).map_or(true, |found| found.is_some()))
        });
        match settled.await {
            Ok(settled) => Ok(settled?),
            Err(error) => {
                tracing::error!("settling imports ended early: {error}");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::{
        Timestamp,
        ids::{SessionId, TraceId, TurnId},
    };
    use serde_json::{Value, json};

    use super::*;

    fn event(kind: Value) -> Event {
        let mut event = json!({
            "session_id": SessionId::generate(), "turn_id": TurnId::generate(), "seq": 1, "at": Timestamp::UNIX_EPOCH,
        });
        event.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    }

    #[track_caller]
    fn check(kind: Value, gone: &[&str]) {
        let before = event(kind);
        let text = serde_json::to_string(&before).unwrap();
        let after = serde_json::to_string(&for_travel(before)).unwrap();
        for word in gone {
            assert!(text.contains(word) && !after.contains(word), "{word}: {after}");
        }
    }

    #[test]
    fn permissions_environments_and_queued_turns_stay() {
        let started = json!({
            "type": "turn_started", "trace_id": TraceId::generate(), "slot": "base", "model": "m", "reason": "r",
            "max_steps": 9, "environment": {"LANG": "xx_YY"},
        });
        check(started, &["xx_YY"]);
        let settings = json!({
            "type": "state_changed", "change": {"state": "settings", "settings": {
                "confirm_write": true, "confirm_exec": true, "grants": [{"rule": "run_bash_command: make"}],
            }},
        });
        check(settings, &["run_bash_command"]);
    }
}
