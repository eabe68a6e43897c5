//! Sessions that leave for another machine, and that come from one.
//!
//! - This file: what leaves, and what never travels. A session is read up to the event that was its last when its actor was
//!   asked, so that what leaves is whole, also while a turn runs. What an import that was cut off has left behind is settled here.
//! - [`importing`]: what comes, from anybody. Here too: the end of turns that were open when their session left, pure. Such a turn
//!   never goes on: whatever it waits for, and whatever a person had said to it, nothing of it runs here. It ends as one does
//!   that a stop of the daemon has cut off.

pub mod importing;

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

use crate::{error::EngineError, front::Engine, recovery};

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

/// Turns that are open at once. Few are in a journal: one that runs, and such as never ran.
const MAX_OPEN: usize = 1000;
/// Bytes of words and questions that wait in open turns.
const MAX_HELD: usize = 64 << 20;

/// Why questions are withdrawn.
const LEFT: &str = "the session was moved while this waited";

/// Turns that have begun and not ended, and questions that wait, as far as the events were seen.
#[derive(Default)]
pub(super) struct OpenTurns {
    turns: Vec<OpenTurn>,
    pending: BTreeMap<InterruptId, Interrupt>,
    /// Bytes that are held.
    held: usize,
}

struct OpenTurn {
    began: Timestamp,
    /// Its events, as far as its end depends on them: without texts.
    events: Vec<Arc<Event>>,
    /// Its end, as far as it is known.
    result: TurnResult,
}

impl OpenTurns {
    /// Takes note of the next event.
    ///
    /// # Errors
    /// When more is open than any session has.
    pub(super) fn take(&mut self, event: &Event) -> Result<(), &'static str> {
        match &event.kind {
            EventKind::TurnStarted { trace_id, .. } => {
                let Some(id) = event.turn_id else { return Ok(()) };
                if self.turns.len() == MAX_OPEN {
                    return Err("more turns are open than a session has");
                }
                let result = TurnResult::new(id, *trace_id, StopReason::Interrupted);
                self.turns.push(OpenTurn { began: event.at, events: Vec::new(), result });
            }
            EventKind::TurnEnded { .. } => self.turns.retain(|turn| Some(turn.result.turn_id) != event.turn_id),
            EventKind::InterruptRaised { interrupt } => {
                self.held += serde_json::to_vec(interrupt).map_or(0, |text| text.len());
                self.pending.insert(interrupt.id, (**interrupt).clone());
            }
            EventKind::InterruptResolved { interrupt_id, .. } => {
                self.pending.remove(interrupt_id);
            }
            _ => {
                if let Some(turn) = self.turns.iter_mut().find(|turn| Some(turn.result.turn_id) == event.turn_id) {
                    self.held += turn.take(event);
                }
            }
        }
        if self.held > MAX_HELD { Err("open turns hold more than a session can") } else { Ok(()) }
    }

    /// The facts that end what is open, each with its turn; none where nothing is.
    pub(super) fn endings(self, session_id: SessionId, at: Timestamp) -> Vec<(Option<TurnId>, EventKind)> {
        let asked = self.pending.into_values();
        let mut facts: Vec<_> = asked.map(|asked| (Some(asked.turn_id), recovery::withdrawn(asked, LEFT))).collect();
        for turn in self.turns.into_iter().rev() {
            let turn_id = Some(turn.result.turn_id);
            facts.extend(turn.ending(session_id, at).into_iter().map(|fact| (turn_id, fact)));
        }
        facts
    }
}

/// Bytes of an event without texts, about.
const EVENT: usize = 500;

/// Takes the texts out of an item.
fn empty(body: &mut ItemBody) {
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
    /// Takes note of an event, and returns the bytes that it holds on to.
    fn take(&mut self, event: &Event) -> usize {
        let mut event = event.clone();
        let mut held = 0;
        match &mut event.kind {
            EventKind::ItemCompleted { item, .. } => {
                match &mut item.body {
                    ItemBody::AgentMessage { text } => self.result.text = std::mem::take(text),
                    ItemBody::ToolResult(_) => self.result.tool_used = true,
                    _ => {}
                }
                empty(&mut item.body);
                item.origin = None;
            }
            EventKind::UsageUpdated { step, turn, .. } => (self.result.steps, self.result.usage) = (*step, *turn),
            EventKind::ItemStarted { item } => {
                match &item.body {
                    // Words that nobody was given yet: the end of the turn tells them.
                    ItemBody::UserMessage { text, .. } => held = text.len(),
                    _ => empty(&mut item.body),
                }
                item.origin = None;
            }
            _ => return 0,
        }
        self.events.push(Arc::new(event));
        held + EVENT
    }

    fn ending(mut self, session_id: SessionId, at: Timestamp) -> Vec<EventKind> {
        let turn_id = self.result.turn_id;
        let mut facts = recovery::recover(session_id, turn_id, &self.events, &HashMap::new(), Vec::new()).facts;
        self.result.duration_ms = u64::try_from(at.duration_since(self.began).as_millis()).unwrap_or_default();
        facts.push(EventKind::TurnEnded { result: Box::new(self.result) });
        facts
    }
}
