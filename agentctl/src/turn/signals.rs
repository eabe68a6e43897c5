//! Receives signals that end the client, as a future.
//!
//! Threads receive the signals, so that even a blocked client ends: either on a repeated signal, or some time after a
//! signal that does not cancel the turn.

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator, low_level,
};
use tokio::sync::mpsc;

use super::or_never;
use crate::{
    exit::Exit,
    keyboard::{TerminalAtStart, wait_until_gone},
};

/// Number of buffered signals. Two are enough: the first cancels the turn, the second ends the client.
const SIGNAL_CAPACITY: usize = 4;

/// Time for an orderly exit before the process is ended.
const GRACE: Duration = Duration::from_secs(2);

/// Equal signals within this time count as one: `timeout` signals both the process and its group.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(250);

/// A signal that ends the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndSignal {
    /// SIGINT, sent by Ctrl-C.
    Interrupt,
    /// SIGTERM from `kill`, `timeout` or a supervisor.
    Terminate,
    /// SIGHUP: the terminal was closed.
    HangUp,
}

impl EndSignal {
    /// Returns the exit code of a client ended by this signal.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Cancelled,
            Self::Terminate => Exit::Terminated,
            Self::HangUp => Exit::HungUp,
        }
    }
}

/// Effect of a termination signal on the turn. Ctrl-C always cancels the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// The turn belongs to the client and is cancelled.
    Cancel,
    /// The turn is cancelled, unless the terminal was closed: closing a window loses no work.
    CancelUnlessHungUp,
    /// The turn continues without the client.
    Leave,
}

impl AtEnd {
    /// Returns true if this signal cancels the turn.
    pub(super) fn cancels(self, signal: EndSignal) -> bool {
        match (signal, self) {
            (EndSignal::Interrupt, _) | (EndSignal::Terminate, Self::CancelUnlessHungUp) | (_, Self::Cancel) => true,
            (EndSignal::HangUp, Self::CancelUnlessHungUp) | (_, Self::Leave) => false,
        }
    }
}

/// Receives the signals. While this value exists, the first signal of a kind does not end the process.
#[derive(Debug)]
pub(crate) struct Signals {
    receiver: mpsc::Receiver<EndSignal>,
    /// True while the client is stopping.
    stopping: Arc<AtomicBool>,
    pub(super) at_end: AtEnd,
    /// A signal that arrived between turns and is still valid.
    pending: Option<EndSignal>,
    /// First signal of the current turn.
    first: Option<EndSignal>,
}

impl Signals {
    /// Starts listening. If SIGHUP is ignored (`nohup`), it stays ignored.
    ///
    /// # Errors
    /// Fails if the signal handlers cannot be installed.
    pub(crate) fn listen(at_end: AtEnd) -> io::Result<Self> {
        Ok(Self::started(at_end)?.1)
    }

    /// Starts listening, and returns a sender for signals from other sources.
    fn started(at_end: AtEnd) -> io::Result<(SyncSender<EndSignal>, Self)> {
        let (sender, receiver) = mpsc::channel(SIGNAL_CAPACITY);
        let signals = Self::from_receiver(receiver, at_end);
        let stopping = Arc::clone(&signals.stopping);
        let watch = EndWatch { sender, stopping, at_end, terminal: TerminalAtStart::remember() };
        let (source, received) = sync_channel(SIGNAL_CAPACITY);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        // A handler would also receive an ignored SIGHUP, so none is installed for it.
        let kinds = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|kind| *kind != SIGHUP || !ignores_hangup(&status));
        let (mut signals_of_system, forwarder) = (iterator::Signals::new(kinds)?, source.clone());
        thread::Builder::new().name("agentctl-signals".to_owned()).spawn(move || {
            let which = |kind| match kind {
                SIGINT => EndSignal::Interrupt,
                SIGTERM => EndSignal::Terminate,
                _ => EndSignal::HangUp,
            };
            signals_of_system.forever().map(which).take_while(|signal| forwarder.send(*signal).is_ok()).for_each(drop);
        })?;
        thread::Builder::new().name("agentctl-ending".to_owned()).spawn(move || watch.follow(&received))?;
        Ok((source, signals))
    }

    /// Starts listening for a client that needs its terminal. A closed terminal ends the client, even if SIGHUP is
    /// ignored or was sent to another process.
    ///
    /// # Errors
    /// As for [`Signals::listen`], or if the watching thread cannot be started.
    pub(crate) fn of_terminal(at_end: AtEnd) -> io::Result<Self> {
        let (sender, signals) = Self::started(at_end)?;
        thread::Builder::new().name("agentctl-hangup".to_owned()).spawn(move || {
            wait_until_gone();
            let _ = sender.send(EndSignal::HangUp);
        })?;
        Ok(signals)
    }

    /// Creates a value that receives no signals; the turn is cancelled by other means.
    #[cfg(feature = "mcp-serve")]
    pub(crate) fn never() -> Self {
        Self::from_receiver(mpsc::channel(SIGNAL_CAPACITY).1, AtEnd::Cancel)
    }

    /// Creates a value that receives signals from a channel.
    pub(crate) fn from_receiver(receiver: mpsc::Receiver<EndSignal>, at_end: AtEnd) -> Self {
        Self { receiver, stopping: Arc::default(), at_end, pending: None, first: None }
    }

    /// Waits for the next signal. This method is cancel safe.
    pub(crate) async fn next(&mut self) -> EndSignal {
        let next = match self.pending.take() {
            Some(pending) => Some(pending),
            None => self.receiver.recv().await,
        };
        // Without senders, no signal can arrive.
        let next = or_never(next.map(std::future::ready)).await;
        self.first.get_or_insert(next);
        next
    }

    /// Waits for the next signal at a prompt, where Ctrl-C cancels nothing.
    pub(crate) async fn next_at_prompt(&mut self) -> EndSignal {
        let signal = self.next().await;
        self.first = self.first.filter(|first| *first != EndSignal::Interrupt);
        signal
    }

    /// Waits for a signal that ends the client. At a prompt, Ctrl-C is ignored.
    pub(crate) async fn end_signal(&mut self, at_prompt: bool) -> EndSignal {
        loop {
            match self.next().await {
                EndSignal::Interrupt if at_prompt => self.first = None,
                other => return other,
            }
        }
    }

    /// Sets or clears the stopping flag. While it is set, the next signal ends the client, even if the client is
    /// blocked.
    pub(crate) fn set_stopping(&self, stopping: bool) {
        self.stopping.store(stopping, Ordering::Relaxed);
    }

    /// Returns the exit code of the client. A cancellation caused by a signal gets the code of that signal.
    pub(crate) fn exit(&self, exit: Exit) -> Exit {
        match (exit, self.first) {
            (Exit::Cancelled, Some(first)) => first.exit(),
            (exit, _) => exit,
        }
    }

    /// Discards buffered Ctrl-C presses, so that a press during the last turn does not cancel the next one.
    pub(crate) fn forget(&mut self) {
        self.first = None;
        self.set_stopping(false);
        while let Ok(signal) = self.receiver.try_recv() {
            if signal != EndSignal::Interrupt {
                self.pending = Some(signal);
            }
        }
    }
}

/// Forwards the signals, and ends the process if the client does not react to them.
struct EndWatch {
    sender: mpsc::Sender<EndSignal>,
    stopping: Arc<AtomicBool>,
    at_end: AtEnd,
    terminal: TerminalAtStart,
}

impl EndWatch {
    fn follow(&self, received: &Receiver<EndSignal>) {
        let (mut last, mut is_ending, mut due) = (None::<(EndSignal, Instant)>, false, None::<Instant>);
        loop {
            let timeout = due.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
            let signal = match (received.recv_timeout(timeout), last) {
                (Ok(signal), _) => signal,
                (Err(RecvTimeoutError::Timeout), Some((signal, _))) if is_ending || self.is_stopping() => {
                    self.end(signal)
                }
                (Err(RecvTimeoutError::Timeout), _) => {
                    due = None;
                    continue;
                }
                (Err(RecvTimeoutError::Disconnected), _) => return,
            };
            let is_interrupt = signal == EndSignal::Interrupt;
            if !is_interrupt && last.is_some_and(|(which, at)| which == signal && at.elapsed() < DUPLICATE_WINDOW) {
                continue;
            }
            last = Some((signal, Instant::now()));
            let is_further = is_ending || self.is_stopping();
            // The previous signal is still buffered, so the client is not receiving signals.
            let is_backlogged = self.sender.capacity() < SIGNAL_CAPACITY && (is_interrupt || is_further);
            if is_backlogged || due.is_some() || self.sender.is_closed() {
                self.end(signal);
            }
            is_ending |= !is_interrupt;
            let _ = self.sender.try_send(signal);
            if is_further || !self.at_end.cancels(signal) {
                due = Some(Instant::now() + GRACE);
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn end(&self, signal: EndSignal) -> ! {
        self.terminal.put_back();
        low_level::exit(i32::from(signal.exit().code()))
    }
}

/// Returns true if `/proc/self/status` shows that SIGHUP is ignored.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit 0 is signal 1, SIGHUP.
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ctrl_c_is_cleared_but_termination_is_kept() {
        let (sender, receiver) = mpsc::channel(SIGNAL_CAPACITY);
        let mut signals = Signals::from_receiver(receiver, AtEnd::CancelUnlessHungUp);
        for signal in [EndSignal::Interrupt, EndSignal::Terminate, EndSignal::Interrupt] {
            sender.try_send(signal).unwrap();
        }
        signals.forget();
        assert_eq!(signals.next().await, EndSignal::Terminate);
        assert_eq!((signals.exit(Exit::Cancelled), signals.exit(Exit::Done)), (Exit::Terminated, Exit::Done));
        assert!(signals.at_end.cancels(EndSignal::Terminate) && !signals.at_end.cancels(EndSignal::HangUp));
    }
}
