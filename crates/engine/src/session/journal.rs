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
    error::EngineError,
    recovery::{close_cut_off, is_input},
};

/// Numbers, stores and publishes the events of one session.
pub(crate) struct Journal {
    session: SessionId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    readers: Vec<mpsc::Sender<Arc<Event>>>,
    /// The settings of a session that is not in the journal yet: its first facts bring it there, with one wait for the disk.
    unborn: Option<SessionSettings>,
    /// Items that were started and not completed, with the text they hold so far. Each must be completed
    /// before its turn ends, whatever happens to the turn.
    open: Vec<Item>,
}

impl Journal {
    pub(crate) fn new(session: SessionId, head: u64, ports: &Ports, unborn: Option<SessionSettings>) -> Self {
        let (store, clock) = (Arc::clone(&ports.store), Arc::clone(&ports.clock));
        let shared = Arc::new(Shared { head: AtomicU64::new(head), closed: OnceLock::new() });
        Self { session, store, clock, shared, readers: Vec::new(), unborn, open: Vec::new() }
    }

    /// Stores the facts, all or none, and then shows them. After an error the session must be loaded again:
    /// nobody knows whether the facts are in the journal.
    pub(crate) async fn commit(
        &mut self,
        turn_id: Option<TurnId>,
        facts: Vec<EventKind>,
    ) -> Result<Vec<Arc<Event>>, EngineError> {
        if facts.is_empty() {
            return Ok(Vec::new());
        }
        let (session_id, at) = (self.session, self.clock.now());
        let event = |(kind, seq)| Arc::new(Event { session_id, turn_id, seq, at, kind });
        let events: Vec<Arc<Event>> = facts.into_iter().zip(self.head() + 1..).map(event).collect();
        match self.unborn.take() {
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

    /// Sends an event to everybody who has room for it and forgets those who left.
    fn publish(&mut self, event: &Arc<Event>) {
        if event.kind.is_stored() {
            self.shared.head.store(event.seq, Ordering::Release);
        }
        self.readers
            .retain(|reader| !matches!(reader.try_send(Arc::clone(event)), Err(mpsc::error::TrySendError::Closed(_))));
    }

    /// Shows text that was added to an open item. It is stored when the item is completed.
    pub(crate) fn publish_delta(&mut self, turn: TurnId, item_id: ItemId, text: String) {
        let Some(held) = self.open.iter_mut().find(|item| item.id == item_id).and_then(text_of) else { return };
        let offset = held.len() as u64;
        held.push_str(&text);
        let event = self.delta(turn, item_id, offset, text);
        self.publish(&event);
    }

    /// Takes note of items that an earlier life of the daemon started, and that this one completes.
    pub(crate) fn reopen(&mut self, items: &[Item]) {
        self.open.extend_from_slice(items);
    }

    /// Knows of no open items any more: what an earlier life left behind is read anew.
    pub(crate) fn forget_open(&mut self) {
        self.open.clear();
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

    /// A reader of everything after `seen`, or of what is `only` of one turn. One that comes while a turn runs is sent what open
    /// items hold so far.
    pub(crate) fn subscribe(&mut self, seen: u64, live_turn: Option<TurnId>, only: Option<TurnId>) -> Subscription {
        let (sender, queue) = mpsc::channel(QUEUE);
        for item in self.open.iter().filter(|_| live_turn.is_some()) {
            let text = text_of(&mut item.clone()).cloned().unwrap_or_default();
            if let Some(turn) = live_turn.filter(|_| !text.is_empty()) {
                // The queue is new: it is full only if more items are open than it holds, and then deltas may be lost.
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
            held: None,
            turn: only,
        }
    }

    /// Returns whether its session is not in the journal yet.
    pub(crate) fn is_unborn(&self) -> bool {
        self.unborn.is_some()
    }

    /// The number of the last stored event.
    pub(crate) fn head(&self) -> u64 {
        self.shared.head.load(Ordering::Acquire)
    }

    /// Forgets readers who left, and says whether any is there.
    pub(crate) fn has_readers(&mut self) -> bool {
        self.readers.retain(|reader| !reader.is_closed());
        !self.readers.is_empty()
    }

    /// Ends all readers, with a reason.
    pub(crate) fn close(&mut self, error: EngineError) {
        let _ = self.shared.closed.set(error);
        self.readers.clear();
    }

    fn delta(&self, turn: TurnId, item_id: ItemId, offset: u64, text: String) -> Arc<Event> {
        let kind = EventKind::ItemDelta { item_id, offset, text };
        Arc::new(Event { session_id: self.session, turn_id: Some(turn), seq: self.head(), at: self.clock.now(), kind })
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

/// A reader of one session's events, in order, without a gap in the stored ones.
pub struct Subscription {
    session: SessionId,
    live_turn: Option<TurnId>,
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Arc<Event>>,
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
        self.live_turn
    }

    /// The session that is read.
    pub fn session_id(&self) -> SessionId {
        self.session
    }

    /// Returns whether everything stored so far was handed out. Deltas may still wait.
    pub fn is_current(&self) -> bool {
        self.ready.is_empty() && self.seen >= self.shared.head.load(Ordering::Acquire)
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
            let event = match self.held.take().or_else(|| self.queue.try_recv().ok()) {
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

    async fn read_page(&mut self) -> Result<(), EngineError> {
        let page = self.store.events(self.session, self.seen, PAGE).await?;
        if page.is_empty() {
            // The journal has less than the writer said: it was deleted meanwhile.
            return Err(EngineError::new(ErrorKind::NotFound, "the session is gone"));
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
