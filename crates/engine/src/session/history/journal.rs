//! The one writer of a session's facts: number, store, publish, in that order; and the readers of its events.
//!
//! A reader never stalls a turn. Each has a bounded queue; what does not fit is not sent, and the reader sees
//! by the session's last number that it is behind. It then reads the stored events it missed from the journal.
//! So a slow reader loses deltas and nothing else.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use agentd_core::{
    Timestamp,
    error::StoreError,
    event::{Event, EventKind},
    ids::{ItemId, SessionId, TurnId},
    item::{Item, ItemBody},
    ports::{Clock, Store},
    session::SessionSettings,
};
use tokio::sync::mpsc;

use crate::{
    error::EngineError,
    recovery::{close_cut_off, is_input},
};

/// Numbers, stores and publishes the events of one session.
pub(crate) struct Journal {
    session: SessionId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    subscribers: Subscribers,
    /// The number of the last stored event.
    head: u64,
    /// The settings of a session that is not in the journal yet: its first facts bring it there.
    unborn: Option<SessionSettings>,
    /// Items that were started and not completed, with the text they hold so far. Each must be completed
    /// before its turn ends, whatever happens to the turn.
    open: Vec<Item>,
}

impl Journal {
    pub(crate) fn new(session: SessionId, head: u64, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { session, store, clock, subscribers: Subscribers::new(head), head, unborn: None, open: Vec::new() }
    }

    /// Of a session that nobody knows yet. It is stored together with its first facts: one wait for the disk.
    pub(crate) fn unborn(
        session: SessionId,
        settings: SessionSettings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { unborn: Some(settings), ..Self::new(session, 0, store, clock) }
    }

    /// Stores the facts, all or none, and then shows them. After an error the session must be loaded again:
    /// nobody knows whether the facts are in the journal.
    pub(crate) async fn commit(
        &mut self,
        turn: Option<TurnId>,
        facts: Vec<EventKind>,
    ) -> Result<Vec<Arc<Event>>, EngineError> {
        if facts.is_empty() {
            return Ok(Vec::new());
        }
        let at = self.clock.now();
        let events = self.number(turn, at, self.head, facts);
        self.store(&events).await?;
        self.show(&events);
        Ok(events)
    }

    /// Appends events, the first of which bring the session into the journal.
    async fn store(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        let at = events.first().map_or_else(|| self.clock.now(), |first| first.at);
        match self.unborn.take() {
            Some(settings) => self.store.create_session(self.session, at, settings, events.to_vec()).await,
            None => self.store.append(events.to_vec()).await,
        }
    }

    fn number(&self, turn: Option<TurnId>, at: Timestamp, after: u64, facts: Vec<EventKind>) -> Vec<Arc<Event>> {
        let numbered = facts.into_iter().zip(after + 1..);
        let event = |(kind, seq)| Arc::new(Event { session_id: self.session, turn_id: turn, seq, at, kind });
        numbered.map(event).collect()
    }

    fn show(&mut self, stored: &[Arc<Event>]) {
        for event in stored {
            self.head = event.seq;
            self.track(&event.kind);
            self.subscribers.publish(event);
        }
    }

    /// Shows text that was added to an open item. It is stored when the item is completed.
    pub(crate) fn publish_delta(&mut self, turn: TurnId, item_id: ItemId, text: String) {
        let Some(held) = self.open.iter_mut().find(|item| item.id == item_id).and_then(text_of) else { return };
        let offset = held.len() as u64;
        held.push_str(&text);
        let event = self.delta(turn, item_id, offset, text);
        self.subscribers.publish(&event);
    }

    /// Knows of no open items any more: what an earlier life left behind is read anew.
    pub(crate) fn forget_open(&mut self) {
        self.open.clear();
    }

    /// Takes note of items that an earlier life of the daemon started, and that this one completes.
    pub(crate) fn reopen(&mut self, items: &[Item]) {
        self.open.extend_from_slice(items);
    }

    /// The completions of all items that are still open. A tool that was still running is not told of as if it had
    /// succeeded with nothing to say. What a person added stands behind them: the model reads it next.
    pub(crate) fn close_open(&self) -> Vec<EventKind> {
        let close = |item: &&Item| close_cut_off(item, "the turn ended");
        let (added, cut): (Vec<&Item>, Vec<&Item>) = self.open.iter().partition(|item| is_input(item));
        let all = cut.iter().chain(&added).map(close);
        all.map(|(item, status)| EventKind::ItemCompleted { item, status }).collect()
    }

    /// The model's unfinished words to the person when it was interrupted.
    pub(crate) fn open_words(&self) -> Option<String> {
        self.open.iter().rev().find_map(|item| match &item.body {
            ItemBody::AgentMessage { text } if !text.is_empty() => Some(text.clone()),
            _ => None,
        })
    }

    /// A reader of everything after `seen`.
    pub(crate) fn subscribe(&mut self, seen: u64, live_turn: Option<TurnId>) -> Subscription {
        let catch_up = match live_turn {
            None => Vec::new(),
            Some(turn) => self
                .open
                .iter()
                .filter_map(|item| Some((item.id, text_of(&mut item.clone())?.clone())))
                .filter(|(_, text)| !text.is_empty())
                .map(|(id, text)| self.delta(turn, id, 0, text))
                .collect(),
        };
        let origin = Origin { session: self.session, live_turn, store: Arc::clone(&self.store) };
        self.subscribers.add(origin, seen.min(self.head), catch_up)
    }

    /// Returns whether its session is not in the journal yet.
    pub(crate) fn is_unborn(&self) -> bool {
        self.unborn.is_some()
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn has_readers(&mut self) -> bool {
        self.subscribers.any()
    }

    /// Ends all readers, with a reason.
    pub(crate) fn close(&mut self, error: EngineError) {
        self.subscribers.close(error);
    }

    fn delta(&self, turn: TurnId, item_id: ItemId, offset: u64, text: String) -> Arc<Event> {
        let kind = EventKind::ItemDelta { item_id, offset, text };
        Arc::new(Event { session_id: self.session, turn_id: Some(turn), seq: self.head, at: self.clock.now(), kind })
    }

    fn track(&mut self, kind: &EventKind) {
        match kind {
            EventKind::ItemStarted { item } => self.open.push(item.clone()),
            EventKind::ItemCompleted { item, .. } => self.open.retain(|open| open.id != item.id),
            _ => {}
        }
    }
}

/// The text that deltas add to.
fn text_of(item: &mut Item) -> Option<&mut String> {
    match &mut item.body {
        ItemBody::AgentMessage { text } | ItemBody::Reasoning { text } => Some(text),
        ItemBody::ToolResult(result) => Some(&mut result.text),
        ItemBody::UserMessage { .. } | ItemBody::ToolCall(_) | ItemBody::Compaction(_) | ItemBody::Notice { .. } => {
            None
        }
    }
}

/// Events that wait for one reader at the most.
const QUEUE: usize = 256;
/// Events that are read from the journal at once when a reader is behind.
const PAGE: usize = 256;
/// Bytes that neighbouring deltas are merged up to.
const MERGED_DELTA: usize = 16 << 10;

/// State that the writer and all readers of a session share.
#[derive(Debug, Default)]
struct Shared {
    /// The number of the last stored event. Raised before an event is sent, so that a reader with an empty
    /// queue who has seen this number has missed nothing.
    head: AtomicU64,
    /// Why there will be no more events, where there was a reason.
    closed: OnceLock<EngineError>,
}

/// The writer's side: all readers of one session.
pub(crate) struct Subscribers {
    shared: Arc<Shared>,
    readers: Vec<mpsc::Sender<Arc<Event>>>,
}

impl Subscribers {
    pub(crate) fn new(head: u64) -> Self {
        Self { shared: Arc::new(Shared { head: AtomicU64::new(head), closed: OnceLock::new() }), readers: Vec::new() }
    }

    /// Sends an event to everybody who has room for it and forgets those who left.
    pub(crate) fn publish(&mut self, event: &Arc<Event>) {
        if event.kind.is_stored() {
            self.shared.head.store(event.seq, Ordering::Release);
        }
        self.readers
            .retain(|reader| !matches!(reader.try_send(Arc::clone(event)), Err(mpsc::error::TrySendError::Closed(_))));
    }

    /// A new reader who has seen everything up to `seen`. `catch_up` is published to it alone: what open items
    /// hold so far.
    pub(crate) fn add(&mut self, origin: Origin, seen: u64, catch_up: Vec<Arc<Event>>) -> Subscription {
        let (sender, queue) = mpsc::channel(QUEUE);
        for event in catch_up {
            // The queue is new: it is full only if more items are open than it holds, and then deltas may be lost.
            let _ = sender.try_send(event);
        }
        self.readers.push(sender);
        Subscription {
            shared: Arc::clone(&self.shared),
            queue,
            origin,
            seen,
            ready: VecDeque::new(),
            held: None,
            turn: None,
        }
    }

    /// Forgets readers who left, and says whether any is there.
    pub(crate) fn any(&mut self) -> bool {
        self.readers.retain(|reader| !reader.is_closed());
        !self.readers.is_empty()
    }

    /// Ends all readers, with a reason.
    pub(crate) fn close(&mut self, error: EngineError) {
        let _ = self.shared.closed.set(error);
        self.readers.clear();
    }
}

/// Where a reader's events come from.
pub(crate) struct Origin {
    pub(crate) session: SessionId,
    pub(crate) live_turn: Option<TurnId>,
    pub(crate) store: Arc<dyn Store>,
}

/// A reader of one session's events, in order, without a gap in the stored ones.
pub struct Subscription {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Arc<Event>>,
    origin: Origin,
    /// The number of the last stored event that was handed out.
    seen: u64,
    /// Events read from the journal, not handed out yet.
    ready: VecDeque<Arc<Event>>,
    /// An event out of the queue that must wait for those before it.
    held: Option<Arc<Event>>,
    /// The turn whose events are wanted; all where absent.
    turn: Option<TurnId>,
}

impl Subscription {
    /// The turn that was running when the reader came.
    pub fn live_turn(&self) -> Option<TurnId> {
        self.origin.live_turn
    }

    /// The session that is read.
    pub fn session_id(&self) -> SessionId {
        self.origin.session
    }

    /// Returns whether everything stored so far was handed out. Deltas may still wait.
    pub fn is_current(&self) -> bool {
        self.ready.is_empty() && self.seen >= self.shared.head.load(Ordering::Acquire)
    }

    /// Only the events of one turn.
    pub(crate) fn only(mut self, turn: TurnId) -> Self {
        self.turn = Some(turn);
        self
    }

    /// The next event; none when the session was closed without a reason.
    ///
    /// Cancel safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Arc<Event>, EngineError>> {
        loop {
            match self.next_of_session().await? {
                Ok(event) if self.turn.is_some() && event.turn_id != self.turn => {}
                other => return Some(other),
            }
        }
    }

    async fn next_of_session(&mut self) -> Option<Result<Arc<Event>, EngineError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.seen = event.seq;
                return Some(Ok(event));
            }
            let event = match self.take_queued() {
                Some(event) => event,
                None if self.is_behind() => match self.read_page().await {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                },
                None => match self.queue.recv().await {
                    Some(event) => event,
                    None => return self.shared.closed.get().cloned().map(Err),
                },
            };
            if event.seq > self.seen + u64::from(event.kind.is_stored()) {
                // Something before it was not sent. The journal has it, and this event again if it is stored.
                self.held = Some(event);
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

    fn is_behind(&self) -> bool {
        self.shared.head.load(Ordering::Acquire) > self.seen
    }

    fn take_queued(&mut self) -> Option<Arc<Event>> {
        self.held.take().or_else(|| self.queue.try_recv().ok())
    }

    async fn read_page(&mut self) -> Result<(), EngineError> {
        let page = self.origin.store.events(self.origin.session, self.seen, PAGE).await?;
        if page.is_empty() {
            // The journal has less than the writer said: it was deleted meanwhile.
            return Err(EngineError::new(agentd_core::error::ErrorKind::NotFound, "the session is gone"));
        }
        self.ready.extend(page);
        Ok(())
    }

    /// Merges the deltas that wait right behind this one, so that a reader who is a little behind catches up
    /// with one message instead of many.
    fn merge_deltas(&mut self, first: Arc<Event>) -> Arc<Event> {
        let EventKind::ItemDelta { item_id, offset, text } = &first.kind else { return first };
        let mut merged: Option<String> = None;
        while self.held.is_none() && merged.as_ref().map_or(text.len(), String::len) < MERGED_DELTA {
            let Ok(event) = self.queue.try_recv() else { break };
            match &event.kind {
                EventKind::ItemDelta { item_id: next, offset: at, text: more }
                    if next == item_id
                        && event.seq == first.seq
                        && *at == offset + merged.as_ref().map_or(text.len(), String::len) as u64 =>
                {
                    merged.get_or_insert_with(|| text.clone()).push_str(more);
                }
                _ => self.held = Some(event),
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
