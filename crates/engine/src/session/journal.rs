//! The only writer of a session's facts, and the readers of its events. The writer numbers, stores and publishes, in
//! that order.
//!
//! A reader never stalls a turn. Each reader has a bounded queue, and an event that does not fit is not sent. The
//! reader notices the gap by the session's last sequence number and reads the missed stored events from the journal.
//! Therefore, a slow reader loses only deltas.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    ids::{ItemId, SessionId, TurnId},
    item::{Item, ItemBody},
    ports::{Clock, Store},
    session::SessionSettings,
};
use tokio::sync::mpsc;

use crate::{
    config::Ports,
    error::{EngineError, Result},
    recovery::{close_cut_off, is_input},
};

/// Numbers, stores and publishes the events of one session.
pub(crate) struct Journal {
    session: SessionId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    shared: Arc<JournalState>,
    readers: Vec<mpsc::Sender<Arc<Event>>>,
    /// Settings of a session that is not yet in the journal. The first commit also creates the session, so that the
    /// client waits for the disk only once.
    initial_settings: Option<SessionSettings>,
    /// Items that were started but not completed, with their text so far. Each item must be completed before its turn
    /// ends, for any reason.
    open: Vec<Item>,
}

impl Journal {
    pub(crate) fn new(session: SessionId, head: u64, ports: &Ports, initial_settings: Option<SessionSettings>) -> Self {
        let (store, clock) = (Arc::clone(&ports.store), Arc::clone(&ports.clock));
        let shared = Arc::new(JournalState { head: AtomicU64::new(head), closed: OnceLock::new() });
        Self { session, store, clock, shared, readers: Vec::new(), initial_settings, open: Vec::new() }
    }

    /// Stores the facts atomically, and then publishes them. After an error, the session must be reloaded, because it
    /// is unknown whether the facts are in the journal.
    pub(crate) async fn commit(&mut self, turn_id: Option<TurnId>, facts: Vec<EventKind>) -> Result<Vec<Arc<Event>>> {
        if facts.is_empty() {
            return Ok(Vec::new());
        }
        let (session_id, at) = (self.session, self.clock.now());
        let event = |(kind, seq)| Arc::new(Event { session_id, turn_id, seq, at, kind });
        let events: Vec<Arc<Event>> = facts.into_iter().zip(self.head() + 1..).map(event).collect();
        match self.initial_settings.take() {
            Some(settings) => self.store.create_session(session_id, at, settings, events.clone()).await?,
            None => self.store.append(events.clone()).await?,
        }
        for event in &events {
            match &event.kind {
                EventKind::ItemStarted { item } => self.open.push(item.clone()),
                EventKind::ItemCompleted { item, .. } => self.open.retain(|open| open.id != item.id),
                _ => {}
            }
            self.publish(event);
        }
        Ok(events)
    }

    /// Sends an event to every reader whose queue has room, and drops closed readers.
    fn publish(&mut self, event: &Arc<Event>) {
        if event.kind.is_stored() {
            self.shared.head.store(event.seq, Ordering::Release);
        }
        self.readers
            .retain(|reader| !matches!(reader.try_send(Arc::clone(event)), Err(mpsc::error::TrySendError::Closed(_))));
    }

    /// Publishes text that was added to an open item. The text is stored when the item is completed.
    pub(crate) fn publish_delta(&mut self, turn: TurnId, item_id: ItemId, text: String) {
        let Some(current) = self.open.iter_mut().find(|item| item.id == item_id).and_then(text_of) else { return };
        let offset = current.len() as u64;
        current.push_str(&text);
        let event = self.delta(turn, item_id, offset, text);
        self.publish(&event);
    }

    /// Adopts items that were started before a restart, so that this process completes them.
    pub(crate) fn reopen(&mut self, items: &[Item]) {
        self.open.extend_from_slice(items);
    }

    /// Forgets all open items, before the items left open by the last run are read again.
    pub(crate) fn forget_open(&mut self) {
        self.open.clear();
    }

    /// Returns completions of all items that are still open. A tool that was still running is not reported as a success
    /// with an empty output. User inputs come last, because the model reads them next.
    pub(crate) fn close_open(&self) -> Vec<EventKind> {
        let close = |item: &&Item| close_cut_off(item, "the turn ended");
        let (added, cut): (Vec<&Item>, Vec<&Item>) = self.open.iter().partition(|item| is_input(item));
        let all = cut.iter().chain(&added).map(close);
        all.map(|(item, status)| EventKind::ItemCompleted { item, status }).collect()
    }

    /// Returns the text of the assistant message that was being streamed when the turn was interrupted.
    pub(crate) fn streamed_text(&self) -> Option<String> {
        self.open.iter().rev().find_map(|item| match &item.body {
            ItemBody::AgentMessage { text } if !text.is_empty() => Some(text.clone()),
            _ => None,
        })
    }

    /// Subscribes to everything after `seen`, optionally `only` to the events of one turn. A reader that subscribes
    /// during a turn first receives the current text of open items.
    pub(crate) fn subscribe(&mut self, seen: u64, live_turn: Option<TurnId>, only: Option<TurnId>) -> Subscription {
        let (sender, queue) = mpsc::channel(QUEUE);
        for item in self.open.iter().filter(|_| live_turn.is_some()) {
            let text = text_of(&mut item.clone()).cloned().unwrap_or_default();
            if let Some(turn) = live_turn.filter(|_| !text.is_empty()) {
                // The queue is new, so it is full only if there are more open items than slots. In that case, deltas
                // may be lost.
                let _ = sender.try_send(self.delta(turn, item.id, 0, text));
            }
        }
        self.readers.push(sender);
        Subscription {
            session: self.session,
            live_turn,
            store: Arc::clone(&self.store),
            shared: Arc::clone(&self.shared),
            queue,
            seen: seen.min(self.head()),
            ready: VecDeque::new(),
            deferred: None,
            turn: only,
        }
    }

    /// Returns true if the session is not yet in the journal.
    pub(crate) fn is_unstored(&self) -> bool {
        self.initial_settings.is_some()
    }

    /// Returns the sequence number of the last stored event.
    pub(crate) fn head(&self) -> u64 {
        self.shared.head.load(Ordering::Acquire)
    }

    /// Drops closed readers, and returns true if any reader is left.
    pub(crate) fn has_readers(&mut self) -> bool {
        self.readers.retain(|reader| !reader.is_closed());
        !self.readers.is_empty()
    }

    /// Ends all readers with an error.
    pub(crate) fn close(&mut self, error: EngineError) {
        let _ = self.shared.closed.set(error);
        self.readers.clear();
    }

    fn delta(&self, turn: TurnId, item_id: ItemId, offset: u64, text: String) -> Arc<Event> {
        let kind = EventKind::ItemDelta { item_id, offset, text };
        Arc::new(Event { session_id: self.session, turn_id: Some(turn), seq: self.head(), at: self.clock.now(), kind })
    }
}

/// Returns the text of an item to which deltas are appended.
fn text_of(item: &mut Item) -> Option<&mut String> {
    match &mut item.body {
        ItemBody::AgentMessage { text } | ItemBody::Reasoning { text } => Some(text),
        ItemBody::ToolResult(result) => Some(&mut result.text),
        ItemBody::UserMessage { .. } | ItemBody::ToolCall(_) | ItemBody::Compaction(_) | ItemBody::Notice { .. } => {
            None
        }
    }
}

/// Capacity of a reader's queue, in events.
const QUEUE: usize = 256;
/// Number of events read from the journal at a time for a lagging reader.
const PAGE: usize = 256;
/// Size limit for merged deltas, in bytes.
const MERGED_DELTA: usize = 16 << 10;

/// State shared by the writer and all readers of a session.
#[derive(Debug, Default)]
struct JournalState {
    /// Sequence number of the last stored event. Raised before an event is sent, so that a reader that has an empty
    /// queue and has reached this number has missed nothing.
    head: AtomicU64,
    /// Error that closed the session, if any.
    closed: OnceLock<EngineError>,
}

/// Reader of one session's events, in order and without gaps in the stored events.
pub struct Subscription {
    session: SessionId,
    live_turn: Option<TurnId>,
    store: Arc<dyn Store>,
    shared: Arc<JournalState>,
    queue: mpsc::Receiver<Arc<Event>>,
    /// Sequence number of the last stored event that was returned.
    seen: u64,
    /// Events that were read from the journal but not returned yet.
    ready: VecDeque<Arc<Event>>,
    /// Event from the queue that must wait until earlier events are read from the journal.
    deferred: Option<Arc<Event>>,
    /// Turn to which the reader is limited, or `None` for all events.
    turn: Option<TurnId>,
}

impl Subscription {
    /// Returns the turn that was running at the time of the subscription.
    pub fn live_turn(&self) -> Option<TurnId> {
        self.live_turn
    }

    /// Returns the ID of the session whose events are read.
    pub fn session_id(&self) -> SessionId {
        self.session
    }

    /// Returns true if every event stored so far was returned. Deltas may still be queued.
    pub fn is_current(&self) -> bool {
        self.ready.is_empty() && self.seen >= self.shared.head.load(Ordering::Acquire)
    }

    /// Waits for the next event. Returns `None` if the session was closed without an error.
    ///
    /// Cancel safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Arc<Event>>> {
        loop {
            match self.next_of_session().await? {
                Ok(event) if self.turn.is_some() && event.turn_id != self.turn => {}
                other => return Some(other),
            }
        }
    }

    async fn next_of_session(&mut self) -> Option<Result<Arc<Event>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.seen = event.seq;
                return Some(Ok(event));
            }
            let event = match self.deferred.take().or_else(|| self.queue.try_recv().ok()) {
                Some(event) => event,
                None if self.shared.head.load(Ordering::Acquire) > self.seen => match self.read_page().await {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                },
                None => match self.queue.recv().await {
                    Some(event) => event,
                    None => return self.shared.closed.get().cloned().map(Err),
                },
            };
            if event.seq > self.seen + u64::from(event.kind.is_stored()) {
                // An earlier event was not sent. The journal contains that event, and also this event if it is stored.
                self.deferred = Some(event);
                if let Err(error) = self.read_page().await {
                    return Some(Err(error));
                }
            } else if event.kind.is_stored() {
                if event.seq > self.seen {
                    self.seen = event.seq;
                    return Some(Ok(event));
                }
            } else if event.seq == self.seen {
                return Some(Ok(self.merge_deltas(event)));
            }
        }
    }

    async fn read_page(&mut self) -> Result<()> {
        let page = self.store.events(self.session, self.seen, PAGE).await?;
        if page.is_empty() {
            // The journal is shorter than the announced head: the session was deleted in the meantime.
            return Err(EngineError::new(ErrorKind::NotFound, "the session was removed"));
        }
        self.ready.extend(page);
        Ok(())
    }

    /// Merges this delta with directly following deltas in the queue, so that a lagging reader catches up with one
    /// message instead of many.
    fn merge_deltas(&mut self, first: Arc<Event>) -> Arc<Event> {
        let EventKind::ItemDelta { item_id, offset, text } = &first.kind else { return first };
        let mut merged: Option<String> = None;
        while self.deferred.is_none() && merged.as_ref().map_or(text.len(), String::len) < MERGED_DELTA {
            let Ok(event) = self.queue.try_recv() else { break };
            match &event.kind {
                EventKind::ItemDelta { item_id: next, offset: at, text: more }
                    if next == item_id
                        && event.seq == first.seq
                        && *at == offset + merged.as_ref().map_or(text.len(), String::len) as u64 =>
                {
                    merged.get_or_insert_with(|| text.clone()).push_str(more);
                }
                _ => self.deferred = Some(event),
            }
        }
        match merged {
            None => first,
            Some(text) => {
                let kind = EventKind::ItemDelta { item_id: *item_id, offset: *offset, text };
                Arc::new(Event { kind, ..*first })
            }
        }
    }
}
