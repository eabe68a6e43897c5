//! The way to the writing thread: bounded by number and by bytes. What finds no room is counted.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{self, SyncSender, TrySendError},
    },
};

use agentd_core::ids::SessionId;

use crate::writer::Command;

/// Commands that may wait.
const PLACES: usize = 1024;

/// Bytes that may wait.
const ROOM: usize = 64 << 20;

/// State that sender and thread share.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    waiting: AtomicUsize,
    has_lost: AtomicBool,
    lost: Mutex<BTreeMap<SessionId, u64>>,
}

impl QueueState {
    /// Counts a line that is missing in the trace of a session.
    pub(crate) fn lose(&self, session: SessionId) {
        self.lose_many(session, 1);
    }

    /// Counts lines that are missing in the trace of a session.
    pub(crate) fn lose_many(&self, session: SessionId, count: u64) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner).entry(session).or_default() += count;
        self.has_lost.store(true, Ordering::Release);
    }

    /// Forgets what is missing in the trace of a session that is gone.
    pub(crate) fn forget(&self, session: SessionId) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }

    /// Lines that are missing since it was asked last.
    pub(crate) fn take_lost(&self) -> BTreeMap<SessionId, u64> {
        if !self.has_lost.swap(false, Ordering::AcqRel) {
            return BTreeMap::new();
        }
        std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the room of a command back.
    pub(crate) fn free(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// The sender's side.
#[derive(Clone)]
pub(crate) struct Queue {
    commands: SyncSender<Command>,
    state: Arc<QueueState>,
}

impl Queue {
    /// A queue, the thread's side, and what both know.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Command>, Arc<QueueState>) {
        let (commands, receiver) = mpsc::sync_channel(PLACES);
        let state = Arc::new(QueueState::default());
        (Self { commands, state: Arc::clone(&state) }, receiver, state)
    }

    /// Puts a command of so many bytes into the queue, if there is room. It is made only then. Says whether it was.
    pub(crate) fn offer(&self, session: SessionId, bytes: usize, command: impl FnOnce() -> Command) -> bool {
        let before = self.state.waiting.fetch_add(bytes, Ordering::AcqRel);
        // One that is larger than all of the room still fits where nothing waits.
        let has_room = before == 0 || before.saturating_add(bytes) <= ROOM;
        if has_room && self.commands.try_send(command()).is_ok() {
            return true;
        }
        self.state.free(bytes);
        self.state.lose(session);
        false
    }

    /// Puts a command into the queue that somebody waits for. It may block; false where the thread is gone.
    pub(crate) fn send(&self, command: Command) -> bool {
        match self.commands.try_send(command) {
            Ok(()) => true,
            Err(TrySendError::Full(command)) => self.commands.send(command).is_ok(),
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}
