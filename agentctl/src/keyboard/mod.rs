//! The keyboard while the client works: the user may type ahead, and cannot answer a question by accident.
//!
//! One thread reads the terminal while a [`KeyboardGuard`] exists. A key goes to a question if one is shown and a
//! typing pause preceded the key. Otherwise it goes to [`TypeAhead`], and is sent later.
//!
//! - [`typed`]: queued messages and the line that is being written, without I/O.
//! - [`mode`]: sets and restores the terminal's mode for reading keys. [`reader`]: the thread.
//! - [`hangup`]: detects a terminal that is gone. [`lines`]: lines that were typed while no keys were read.

mod hangup;
mod lines;
mod mode;
mod reader;
pub(crate) mod typed;

use std::{
    collections::VecDeque,
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nix::sys::stat::{SFlag, fstat};
use tokio::sync::Notify;

use self::{hangup::is_gone_now, mode::Mode, reader::Reader};
pub(crate) use self::{hangup::wait_until_gone, mode::TerminalAtStart, typed::TypeAhead};
pub(crate) use crate::composer::{Key, Press};
use crate::terminal::sanitize::clean;

/// Maximum number of buffered keys. Faster input is not typing, and is dropped.
const MOST_KEYS: usize = 64 * 1024;

/// Delay between attempts to lock the terminal.
const PAUSE: Duration = Duration::from_millis(2);

/// The keyboard; `None` without a terminal. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Keyboard(Option<Arc<Shared>>);

/// State shared by the reader, the driver of a turn and a question.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes questions, which wait on a thread.
    pressed: Condvar,
    /// Wakes the driver of a turn.
    heard: Notify,
    /// True if keys are only read for questions, because standard output goes to another program, such as a pager,
    /// which may read them.
    yields: bool,
    /// True while another program, such as an editor, uses the terminal.
    is_lent: AtomicBool,
    /// Locked by the thread that reads the terminal.
    terminal: Mutex<Option<Mode>>,
}

#[derive(Debug, Default)]
struct State {
    presses: VecDeque<Press>,
    typed: TypeAhead,
    holders: usize,
    reader: Option<Reader>,
}

impl Keyboard {
    /// Returns the keyboard of this process's terminal. Requires that standard input and standard error are terminals,
    /// so that the user sees the input.
    pub(crate) fn of_terminal() -> Self {
        let is_seen = io::stdin().is_terminal() && io::stderr().is_terminal();
        let yields = is_pipe();
        Self(is_seen.then(|| Arc::new(Shared { yields, ..Shared::default() })))
    }

    /// Returns a keyboard without a terminal.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Reads keys until all guards are dropped. If the terminal cannot be read, there are no keys.
    pub(crate) fn hold(&self) -> KeyboardGuard {
        if let Some(shared) = &self.0 {
            let mut state = shared.state();
            state.holders += 1;
            if state.reader.is_none()
                && let Some(mut terminal) = shared.terminal()
            {
                *terminal = Mode::take().ok();
                drop(terminal);
                state.reader = Reader::start(Arc::clone(shared)).ok();
            }
        }
        KeyboardGuard(self.clone())
    }

    /// Reads keys during a turn, unless another program may read them.
    pub(crate) fn hold_ahead(&self) -> Option<KeyboardGuard> {
        let yields = self.0.as_ref().is_some_and(|shared| shared.yields);
        (!yields).then(|| self.hold())
    }

    /// Returns the next key; never completes without a keyboard. Cancel safe.
    pub(crate) async fn next(&self) -> Press {
        self.take_next(|state| state.presses.pop_front()).await
    }

    /// Returns the next message for the running turn, typed while a question has the keys. Never completes without a
    /// keyboard.
    pub(crate) async fn next_steer(&self) -> String {
        self.take_next(|state| state.typed.next_steer()).await
    }

    /// Waits until no answer to a question is being typed. Never completes without a keyboard.
    pub(crate) async fn rest(&self) {
        self.take_next(|state| (!state.typed.is_answering).then_some(())).await;
    }

    /// Waits until `take` returns a value.
    async fn take_next<T>(&self, take: fn(&mut State) -> Option<T>) -> T {
        let Some(shared) = &self.0 else { return std::future::pending().await };
        loop {
            // Created before the check, so that no change between both is missed.
            let heard = shared.heard.notified();
            if let Some(taken) = take(&mut shared.state()) {
                return taken;
            }
            heard.await;
        }
    }

    /// Waits on this thread up to `patience` for the next key.
    pub(crate) fn wait(&self, patience: Duration) -> Option<Press> {
        let Some(shared) = &self.0 else {
            std::thread::sleep(patience);
            return None;
        };
        let state = shared.state();
        let waited = shared.pressed.wait_timeout_while(state, patience, |state| state.presses.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.presses.pop_front()
    }

    /// Reads or changes the input that was typed ahead.
    pub(crate) fn typed<T: Default>(&self, look: impl FnOnce(&mut TypeAhead) -> T) -> T {
        let Some(shared) = &self.0 else { return T::default() };
        let looked = look(&mut shared.state().typed);
        shared.heard.notify_waiters();
        looked
    }

    /// Reads lines that were typed while no keys were read, before other code reads them. Must not be called while the
    /// keyboard is held.
    pub(crate) fn take_in_lines(&self) {
        if self.0.is_none() {
            return;
        }
        let (lines, at) = (lines::kept(), Instant::now());
        let keys = lines.chars().filter(|c| *c == '\n' || !c.is_control());
        let key = |c| if c == '\n' { Key::Enter } else { Key::Char(c) };
        self.typed(|typed| keys.for_each(|c| typed.press(Press { key: key(c), at })));
    }

    /// Restores the terminal for a program, runs the program, and then reads keys again.
    pub(crate) fn lend<T>(&self, run: impl FnOnce() -> T) -> T {
        let Some(shared) = &self.0 else { return run() };
        shared.is_lent.store(true, Ordering::Relaxed);
        let mut terminal = shared.terminal();
        if let Some(Some(mode)) = terminal.as_deref_mut() {
            mode.put_back();
        }
        let done = run();
        shared.is_lent.store(false, Ordering::Relaxed);
        done
    }

    /// Prints input that was not sent, so that it can be copied. For clients that end with their turn.
    pub(crate) fn report_unsent(&self) {
        let line = self.typed(|typed| {
            typed.put_back();
            typed.take_line()
        });
        if !line.trim().is_empty() {
            let mut text = "typed meanwhile and not sent:\n".to_owned();
            text.extend(clean(&line).lines().map(|line| format!("  {line}\n")));
            let _ = anstream::stderr().write_all(text.as_bytes());
        }
    }

    /// Creates a keyboard whose keys are pressed by tests.
    #[cfg(test)]
    pub(crate) fn scripted() -> Self {
        Self(Some(Arc::new(Shared {
            state: Mutex::new(State { reader: Some(Reader::nobody()), ..State::default() }),
            ..Shared::default()
        })))
    }

    /// Presses a key, as the reader does.
    #[cfg(test)]
    pub(crate) fn press(&self, key: Key, at: Instant) {
        if let Some(shared) = &self.0 {
            shared.take_in(Press { key, at });
        }
    }
}

/// Returns true if standard output goes to another program.
fn is_pipe() -> bool {
    let kind = fstat(io::stdout()).map(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT);
    kind.is_ok_and(|kind| kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread uses the terminal, and locks it. Returns `None` if the terminal is gone, because a
    /// thread that reads it may block forever.
    fn terminal(&self) -> Option<MutexGuard<'_, Option<Mode>>> {
        loop {
            match self.terminal.try_lock() {
                Ok(terminal) => return Some(terminal),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if is_gone_now() => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn take_in(&self, press: Press) {
        let mut state = self.state();
        if state.presses.len() < MOST_KEYS {
            state.presses.push_back(press);
        }
        drop(state);
        self.pressed.notify_all();
        self.heard.notify_waiters();
    }
}

/// Guard during which keys are read. When the last guard is dropped, unread keys become typed ahead.
#[derive(Debug)]
pub(crate) struct KeyboardGuard(Keyboard);

impl Drop for KeyboardGuard {
    fn drop(&mut self) {
        let Some(shared) = &self.0.0 else { return };
        let mut state = shared.state();
        state.holders = state.holders.saturating_sub(1);
        if state.holders > 0 {
            return;
        }
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.stop();
        }
        if let Some(mut mode) = shared.terminal().and_then(|mut terminal| terminal.take()) {
            mode.put_back();
        }
        let mut state = shared.state();
        let left: Vec<Press> = state.presses.drain(..).collect();
        left.into_iter().for_each(|press| state.typed.press(press));
    }
}
