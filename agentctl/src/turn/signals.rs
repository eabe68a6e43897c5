//! The signals that tell the client to end, as something to wait for.
//!
//! A thread hears them, so that the client ends also while it is blocked: by a further signal that tells it the same, or
//! some time after one that leaves nothing to wait for.

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

use crate::{
    exit::Exit,
    keyboard::{TerminalAtStart, wait_until_gone},
};

/// The signals that are remembered. Two are enough: the first cancels the turn, the second ends the client.
const REMEMBERED: usize = 4;

/// Time in which a client that is to end at once may still leave in order.
const GRACE: Duration = Duration::from_secs(2);

/// Two of a kind within this time are one: `timeout` sends its signal to the process and to its group.
const SAME: Duration = Duration::from_millis(250);

/// A signal that tells the client to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndSignal {
    /// Ctrl-C.
    Interrupt,
    /// From `kill`, `timeout`, or whoever supervises the client.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

impl EndSignal {
    /// The code with which a client ends that it ended.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Cancelled,
            Self::Terminate => Exit::Terminated,
            Self::HangUp => Exit::HungUp,
        }
    }
}

/// The fate of the turn where the client is told to end by something else than Ctrl-C, which always cancels it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// It is the client's own: it ends with it.
    Cancel,
    /// The same, but where the terminal goes it goes on: closing a window loses nothing.
    CancelUnlessHungUp,
    /// It goes on.
    Leave,
}

impl AtEnd {
    /// Returns true if this one cancels the turn.
    pub(super) fn cancels(self, signal: EndSignal) -> bool {
        match (signal, self) {
            (EndSignal::Interrupt, _) | (EndSignal::Terminate, Self::CancelUnlessHungUp) | (_, Self::Cancel) => true,
            (EndSignal::HangUp, Self::CancelUnlessHungUp) | (_, Self::Leave) => false,
        }
    }
}

/// The signals, as long as this lives. The first one of a kind does not end the process by itself any more.
#[derive(Debug)]
pub(crate) struct Signals {
    heard: mpsc::Receiver<EndSignal>,
    /// The client is stopping already.
    stopping: Arc<AtomicBool>,
    pub(super) at_end: AtEnd,
    /// One that came when nobody waited for it, and still holds.
    kept: Option<EndSignal>,
    /// The first that told the client to end its turn.
    first: Option<EndSignal>,
}

impl Signals {
    /// Listens from now on. A hang-up that whoever started the client has ignored stays ignored (`nohup`).
    ///
    /// # Errors
    /// When the system has no room for one more signal handler.
    pub(crate) fn listen(at_end: AtEnd) -> io::Result<Self> {
        Ok(Self::started(at_end)?.1)
    }

    /// The same, with the way to tell them from elsewhere.
    fn started(at_end: AtEnd) -> io::Result<(SyncSender<EndSignal>, Self)> {
        let (sender, heard) = mpsc::channel(REMEMBERED);
        let signals = Self::from_heard(heard, at_end);
        let stopping = Arc::clone(&signals.stopping);
        let watch = EndWatch { sender, stopping, at_end, terminal: TerminalAtStart::remember() };
        let (source, came) = sync_channel(REMEMBERED);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        // Listening to a hang-up would undo that it is ignored.
        let kinds = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|kind| *kind != SIGHUP || !ignores_hangup(&status));
        let (mut signals_of_system, passed) = (iterator::Signals::new(kinds)?, source.clone());
        thread::Builder::new().name("agentctl-signals".to_owned()).spawn(move || {
            let which = |kind| match kind {
                SIGINT => EndSignal::Interrupt,
                SIGTERM => EndSignal::Terminate,
                _ => EndSignal::HangUp,
            };
            signals_of_system.forever().map(which).take_while(|signal| passed.send(*signal).is_ok()).for_each(drop);
        })?;
        thread::Builder::new().name("agentctl-ending".to_owned()).spawn(move || watch.follow(&came))?;
        Ok((source, signals))
    }

    /// The same for a client that is nothing without its terminal: a terminal that is gone ends it, also where the hang-up
    /// is ignored or was sent to somebody else.
    ///
    /// # Errors
    /// As [`Signals::listen`] does, or when the thread that watches cannot be started.
    pub(crate) fn of_terminal(at_end: AtEnd) -> io::Result<Self> {
        let (sender, signals) = Self::started(at_end)?;
        thread::Builder::new().name("agentctl-hangup".to_owned()).spawn(move || {
            wait_until_gone();
            let _ = sender.send(EndSignal::HangUp);
        })?;
        Ok(signals)
    }

    /// Nobody tells: what cancels comes another way.
    #[cfg(feature = "mcp-serve")]
    pub(crate) fn never() -> Self {
        Self::from_heard(mpsc::channel(REMEMBERED).1, AtEnd::Cancel)
    }

    /// Signals that come from somewhere.
    pub(crate) fn from_heard(heard: mpsc::Receiver<EndSignal>, at_end: AtEnd) -> Self {
        Self { heard, stopping: Arc::default(), at_end, kept: None, first: None }
    }

    /// Waits for the next one. Dropping the wait loses none.
    pub(crate) async fn next(&mut self) -> EndSignal {
        let next = match self.kept.take() {
            Some(kept) => kept,
            None => match self.heard.recv().await {
                Some(heard) => heard,
                // Nobody can tell any more: then nobody ever does.
                None => std::future::pending().await,
            },
        };
        self.first.get_or_insert(next);
        next
    }

    /// Waits for one that ends the client whatever it does: at a prompt any but Ctrl-C.
    pub(crate) async fn told_to_end(&mut self, at_prompt: bool) -> EndSignal {
        loop {
            match self.next().await {
                EndSignal::Interrupt if at_prompt => self.first = None,
                other => return other,
            }
        }
    }

    /// Notes whether the client is stopping: then the next signal ends it, whatever it waits for.
    pub(crate) fn set_stopping(&self, stopping: bool) {
        self.stopping.store(stopping, Ordering::Relaxed);
    }

    /// The code of a client whose turn ended like this: one that was cancelled by a signal ends by that.
    pub(crate) fn exit(&self, exit: Exit) -> Exit {
        match (exit, self.first) {
            (Exit::Cancelled, Some(first)) => first.exit(),
            (exit, _) => exit,
        }
    }

    /// Forgets the presses of Ctrl-C that nobody waited for, so that one meant for the last turn does not cancel the next.
    pub(crate) fn forget(&mut self) {
        self.first = None;
        self.set_stopping(false);
        while let Ok(heard) = self.heard.try_recv() {
            if heard != EndSignal::Interrupt {
                self.kept = Some(heard);
            }
        }
    }
}

/// Passes the signals on, and ends the process where that is not enough.
struct EndWatch {
    sender: mpsc::Sender<EndSignal>,
    stopping: Arc<AtomicBool>,
    at_end: AtEnd,
    terminal: TerminalAtStart,
}

impl EndWatch {
    fn follow(&self, came: &Receiver<EndSignal>) {
        let (mut last, mut is_ending, mut due) = (None::<(EndSignal, Instant)>, false, None::<Instant>);
        loop {
            let patience = due.map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
            let signal = match (came.recv_timeout(patience), last) {
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
            if !is_interrupt && last.is_some_and(|(which, at)| which == signal && at.elapsed() < SAME) {
                continue;
            }
            last = Some((signal, Instant::now()));
            let is_further = is_ending || self.is_stopping();
            // Nothing takes in the one before, so nothing would take in this one.
            let is_unheard = self.sender.capacity() < REMEMBERED && (is_interrupt || is_further);
            if is_unheard || due.is_some() || self.sender.is_closed() {
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

/// True where a process, of which the kernel says this, was started with the hang-up ignored.
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signals are counted from one, and a hang-up is the first.
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ctrl_c_is_forgotten_and_an_end_is_not() {
        let (sender, heard) = mpsc::channel(REMEMBERED);
        let mut signals = Signals::from_heard(heard, AtEnd::CancelUnlessHungUp);
        for signal in [EndSignal::Interrupt, EndSignal::Terminate, EndSignal::Interrupt] {
            sender.try_send(signal).unwrap();
        }
        signals.forget();
        assert_eq!(signals.next().await, EndSignal::Terminate);
        assert_eq!((signals.exit(Exit::Cancelled), signals.exit(Exit::Done)), (Exit::Terminated, Exit::Done));
        assert!(signals.at_end.cancels(EndSignal::Terminate) && !signals.at_end.cancels(EndSignal::HangUp));
    }
}
