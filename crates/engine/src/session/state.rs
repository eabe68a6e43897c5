//! What a session's actor remembers of its journal: the newest items, and what the state changes add up to.

use std::{collections::VecDeque, sync::Arc};

use agentd_core::{
    Timestamp,
    event::{Event, EventKind, StateChange},
    item::Item,
    session::{SessionSettings, StoredSession, Todo},
    state_files::StateFiles,
    turn::StopReason,
};

/// Items that are kept in memory at the least, where there are as many. More than any window holds, so that the
/// cost of a step does not depend on how long the session is.
pub(crate) const KEPT_ITEMS: usize = 400;

/// What a session's actor remembers.
pub(crate) struct SessionState {
    pub(crate) created_at: Timestamp,
    pub(crate) settings: SessionSettings,
    pub(crate) todos: Vec<Todo>,
    /// The files of the session's own state.
    pub(crate) files: Arc<StateFiles>,
    /// The newest items that a model may see.
    pub(crate) history: VecDeque<Arc<Item>>,
    /// How the last turn ended, as far as it is known.
    pub(crate) last_stop: Option<StopReason>,
}

impl SessionState {
    pub(crate) fn restore(stored: &StoredSession, items: Vec<(u64, Item)>, files: StateFiles) -> Self {
        Self {
            created_at: stored.summary.created_at,
            settings: stored.settings.clone(),
            todos: stored.todos.clone(),
            files: Arc::new(files),
            history: items.into_iter().map(|(_, item)| Arc::new(item)).collect(),
            last_stop: None,
        }
    }

    pub(crate) fn newborn(created_at: Timestamp, settings: SessionSettings) -> Self {
        Self {
            created_at,
            settings,
            todos: Vec::new(),
            files: Arc::default(),
            history: VecDeque::new(),
            last_stop: None,
        }
    }

    /// Takes in a stored event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ItemCompleted { item, .. } => self.remember(item),
            EventKind::TurnEnded { result } => self.last_stop = Some(result.stop_reason),
            EventKind::StateChanged { change } => match change {
                StateChange::Todos { todos } => self.todos.clone_from(todos),
                StateChange::Settings { settings } => self.settings.clone_from(settings),
                StateChange::File(change) => Arc::make_mut(&mut self.files).apply(change, event.at),
                StateChange::Reset => {
                    self.files = Arc::default();
                    self.history.clear();
                    // What was set aside cannot be continued.
                    self.last_stop = None;
                }
                StateChange::Title { .. } | StateChange::Queue { .. } | StateChange::Undone { .. } => {}
            },
            _ => {}
        }
    }

    fn remember(&mut self, item: &Item) {
        self.history.push_back(Arc::new(item.clone()));
        if self.history.len() >= 2 * KEPT_ITEMS {
            self.history.drain(..KEPT_ITEMS);
        }
    }
}
