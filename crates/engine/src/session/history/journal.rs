//! The one writer of a session's facts: number, store, publish, in that order.

use std::sync::Arc;

use agentd_core::{
    Timestamp,
    error::StoreError,
    event::{Event, EventKind},
    ids::{ItemId, SessionId, TurnId},
    item::{Item, ItemBody},
    ports::{Clock, Store},
    session::SessionSettings,
};

use crate::{
    error::EngineError,
    recovery::{close_cut_off, is_input},
    session::registry::subscribers::{Origin, Subscribers, Subscription},
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
