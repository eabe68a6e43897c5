//! Exports sessions to other machines, and imports them.
//!
//! - This file exports sessions, after removing data that never leaves the machine. A session is exported up to the
//!   event that was the last one when the export began, so that the export is consistent even while a turn is running.
//!   Interrupted imports are also cleaned up here.
//! - [`import`] imports archives from any source. Turns that were open when the session was exported are ended here,
//!   without side effects. Such a turn never continues: neither its pending calls nor the user's input run here. It
//!   ends like a turn that was interrupted because the daemon stopped.

pub mod import;

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Read},
    sync::Arc,
};

use agentd_core::{
    Timestamp,
    archive::{ArchivedSession, TreeFile},
    context::ContextView,
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    files::FilesCopied,
    ids::{InterruptId, SessionId, TurnId},
    interrupt::Interrupt,
    item::ItemBody,
    session::{SessionSettings, SessionSummary},
    tool::FileChange,
    turn::{StopReason, TurnResult},
};
use tokio::runtime::Handle;

use crate::{
    error::{EngineError, Result},
    front::Engine,
    recovery,
};

/// Events read from the journal at a time.
const PAGE: usize = 500;

/// A session prepared for export.
#[derive(Debug, Clone)]
pub struct SessionExport {
    /// Summary of the session for lists.
    pub summary: SessionSummary,
    /// The session, followed by its subagents.
    pub sessions: Vec<ArchivedSession>,
}

impl Engine {
    /// Describes a session and its subagents for export, with all events stored so far.
    ///
    /// # Errors
    /// Fails if there is no such session, or the journal cannot be read.
    pub async fn export_session(&self, id: SessionId) -> Result<SessionExport> {
        let session = self.session(id).await?;
        let stored = session.show().await?.session;
        // The context of a session cannot be measured if the session's project no longer exists.
        let context = session.context().await.ok().map(|view| ContextView { imported: false, ..view });
        let mut sessions = vec![ArchivedSession { context, ..archived(stored.summary.clone(), stored.settings) }];
        for child in self.shared.ports.store.children(id).await? {
            let Some(stored) = self.shared.ports.store.session(child.id).await? else { continue };
            sessions.push(archived(stored.summary, stored.settings));
        }
        Ok(SessionExport { summary: stored.summary, sessions })
    }

    /// Returns a page of exportable events after `after`. An empty page is the end.
    ///
    /// # Errors
    /// Fails if the session is gone, or the journal cannot be read.
    pub async fn exported_events(&self, session: &ArchivedSession, after: u64) -> Result<Vec<Event>> {
        let page = usize::try_from(session.events.saturating_sub(after)).unwrap_or(PAGE).min(PAGE);
        if page == 0 {
            return Ok(Vec::new());
        }
        let events = self.shared.ports.store.events(session.id, after, page).await?;
        if events.is_empty() {
            let message = format!("session {} was removed during the export", session.id);
            return Err(EngineError::new(ErrorKind::NotFound, message));
        }
        Ok(events.into_iter().map(|event| without_private_data(Event::clone(&event))).collect())
    }

    /// Passes each exportable file of a session to `take`. Blocks.
    ///
    /// # Errors
    /// Returns the first error from `take` or from reading the files.
    pub fn exported_files(
        &self,
        id: SessionId,
        take: &mut (dyn FnMut(TreeFile, &mut dyn Read) -> io::Result<()> + Send),
    ) -> Result<FilesCopied> {
        match self.shared.ports.workspaces.transport() {
            Some(transport) => Ok(transport.each_file(id, take)?),
            None => Ok(FilesCopied::default()),
        }
    }

    /// Cleans up interrupted imports. Called at start, before any import.
    ///
    /// # Errors
    /// Fails if the files cannot be read.
    pub async fn settle_imports(&self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let settled = tokio::task::spawn_blocking(move || {
            let Some(transport) = shared.ports.workspaces.transport() else { return Ok(()) };
            let runtime = Handle::current();
            // If the journal cannot be read, nothing is removed.
            transport
                .clean_up(&|id| runtime.block_on(shared.ports.store.session(id)).map_or(true, |found| found.is_some()))
        });
        match settled.await {
            Ok(settled) => Ok(settled?),
            Err(error) => {
                tracing::error!("could not clean up interrupted imports: {error}");
                Ok(())
            }
        }
    }
}

fn archived(summary: SessionSummary, settings: SessionSettings) -> ArchivedSession {
    let settings = SessionSettings { grants: Vec::new(), imported: None, ..settings };
    let (id, created_at, events) = (summary.id, summary.created_at, summary.last_seq);
    ArchivedSession { id, created_at, settings, events, context: None }
}

/// Maximum length of a session title, in characters.
const MAX_TITLE: usize = 200;

/// Removes the parts of an event that never leave the machine.
pub(crate) fn without_private_data(mut event: Event) -> Event {
    match &mut event.kind {
        // The turn's options are not removed, because a replay needs them. They affect no other turn.
        EventKind::TurnStarted { environment, .. } => *environment = Default::default(),
        EventKind::ItemStarted { item } | EventKind::ItemCompleted { item, .. } => {
            if let ItemBody::ToolResult(result) = &mut item.body {
                strip_undo_data(&mut result.files);
            }
        }
        EventKind::TurnEnded { result } => strip_undo_data(&mut result.files),
        EventKind::StateChanged { change } => match change {
            StateChange::Settings { settings } => {
                settings.grants.clear();
                settings.imported = None;
            }
            StateChange::Queue { added, .. } => *added = None,
            StateChange::Undone { files, .. } => strip_undo_data(files),
            StateChange::Title { title } if title.chars().count() > MAX_TITLE => {
                *title = title.chars().take(MAX_TITLE).collect();
            }
            _ => {}
        },
        _ => {}
    }
    event
}

/// Reduces changes to path and kind. The data for undoing them stays on this machine.
fn strip_undo_data(files: &mut [FileChange]) {
    for file in files {
        *file = FileChange::new(std::mem::take(&mut file.path), file.change);
    }
}

/// Maximum number of open turns in a journal. Usually there are few: a running turn, and turns that never ran.
const MAX_OPEN: usize = 1000;
/// Size limit of pending questions and other data of open turns, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Reason given for withdrawn questions.
const MOVED_REASON: &str = "the session was moved in the meantime";

/// Open turns and pending questions in the events read so far.
#[derive(Default)]
pub(super) struct OpenTurns {
    turns: Vec<OpenTurn>,
    pending: BTreeMap<InterruptId, Interrupt>,
    /// Approximate size of the collected data, in bytes.
    bytes: usize,
}

struct OpenTurn {
    began: Timestamp,
    /// Events on which the turn's end depends, without texts.
    events: Vec<Arc<Event>>,
    /// Result of the turn, based on the events so far.
    result: TurnResult,
}

impl OpenTurns {
    /// Processes the next event.
    ///
    /// # Errors
    /// Fails if more turns or questions are open than any session can have.
    pub(super) fn record(&mut self, event: &Event) -> Result<(), &'static str> {
        match &event.kind {
            EventKind::TurnStarted { trace_id, .. } => {
                let Some(id) = event.turn_id else { return Ok(()) };
                if self.turns.len() == MAX_OPEN {
                    return Err("more turns are open than a session may have");
                }
                let result = TurnResult::new(id, *trace_id, StopReason::Interrupted);
                self.turns.push(OpenTurn { began: event.at, events: Vec::new(), result });
            }
            EventKind::TurnEnded { .. } => self.turns.retain(|turn| Some(turn.result.turn_id) != event.turn_id),
            EventKind::InterruptRaised { interrupt } => {
                self.bytes += serde_json::to_vec(interrupt).map_or(0, |text| text.len());
                self.pending.insert(interrupt.id, (**interrupt).clone());
            }
            EventKind::InterruptResolved { interrupt_id, .. } => {
                self.pending.remove(interrupt_id);
            }
            _ => {
                if let Some(turn) = self.turns.iter_mut().find(|turn| Some(turn.result.turn_id) == event.turn_id) {
                    self.bytes += turn.record(event);
                }
            }
        }
        if self.bytes > MAX_BYTES { Err("open turns have more data than a session may have") } else { Ok(()) }
    }

    /// Returns the event kinds that end all open turns and questions, each with its turn.
    pub(super) fn endings(self, session_id: SessionId, at: Timestamp) -> Vec<(Option<TurnId>, EventKind)> {
        let asked = self.pending.into_values();
        let mut facts: Vec<_> =
            asked.map(|asked| (Some(asked.turn_id), recovery::withdrawal(asked, MOVED_REASON))).collect();
        for turn in self.turns.into_iter().rev() {
            let turn_id = Some(turn.result.turn_id);
            facts.extend(turn.ending(session_id, at).into_iter().map(|fact| (turn_id, fact)));
        }
        facts
    }
}

/// Approximate size of an event without texts, in bytes.
const EVENT_BYTES: usize = 500;

/// Clears the texts of an item.
fn clear_text(body: &mut ItemBody) {
    match body {
        ItemBody::ToolCall(call) => call.arguments.clear(),
        ItemBody::ToolResult(result) => {
            result.text.clear();
            result.details = None;
        }
        ItemBody::AgentMessage { text }
        | ItemBody::Notice { text, .. }
        | ItemBody::Reasoning { text }
        | ItemBody::UserMessage { text, .. } => text.clear(),
        ItemBody::Compaction(compaction) => compaction.summary.clear(),
    }
}

impl OpenTurn {
    /// Processes an event, and returns the number of bytes that the event adds.
    fn record(&mut self, event: &Event) -> usize {
        let mut event = event.clone();
        let mut bytes = 0;
        match &mut event.kind {
            EventKind::ItemCompleted { item, .. } => {
                match &mut item.body {
                    ItemBody::AgentMessage { text } => self.result.text = std::mem::take(text),
                    ItemBody::ToolResult(_) => self.result.tool_used = true,
                    _ => {}
                }
                clear_text(&mut item.body);
                item.origin = None;
            }
            EventKind::UsageUpdated { step, turn, .. } => (self.result.steps, self.result.usage) = (*step, *turn),
            EventKind::ItemStarted { item } => {
                match &item.body {
                    // Input that the model has not received is reported at the end of the turn.
                    ItemBody::UserMessage { text, .. } => bytes = text.len(),
                    _ => clear_text(&mut item.body),
                }
                item.origin = None;
            }
            _ => return 0,
        }
        self.events.push(Arc::new(event));
        bytes + EVENT_BYTES
    }

    fn ending(mut self, session_id: SessionId, at: Timestamp) -> Vec<EventKind> {
        let turn_id = self.result.turn_id;
        let mut facts = recovery::recover(session_id, turn_id, &self.events, &HashMap::new(), Vec::new()).facts;
        self.result.duration_ms = u64::try_from(at.duration_since(self.began).as_millis()).unwrap_or_default();
        facts.push(EventKind::TurnEnded { result: Box::new(self.result) });
        facts
    }
}
