//! The thread that reads the terminal.

use std::{
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use crossterm::event;
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::{Pid, read},
};

use super::{
    Key, Press, Shared,
    hangup::{has_input, is_gone_now, wait_for_keys},
    mode::Mode,
};

/// Time limit for one poll of the terminal, and thus for the end of the thread.
const GLANCE: Duration = Duration::from_millis(20);
/// Time limit for one poll of an idle keyboard, so that an idle prompt uses little CPU.
const IDLE_GLANCE: Duration = Duration::from_millis(100);
/// Time after the last key from which the keyboard is idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Handle of the thread.
#[derive(Debug)]
pub(super) struct Reader {
    stop: Arc<AtomicBool>,
    /// Disconnected once the thread has ended.
    ended: mpsc::Receiver<()>,
}

impl Reader {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub(super) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (alive, ended) = mpsc::sync_channel::<()>(1);
        thread::Builder::new().name("agentctl-keys".to_owned()).spawn(move || {
            let _alive = alive;
            let (mut line, mut last_key) = (Vec::new(), Instant::now());
            // The thread ends if the terminal is gone.
            while !stopped.load(Ordering::Relaxed) && look(&shared, &mut line, &mut last_key).is_ok() {}
        })?;
        Ok(Self { stop, ended })
    }

    /// Creates a handle without a thread.
    #[cfg(test)]
    pub(super) fn nobody() -> Self {
        Self { stop: Arc::default(), ended: mpsc::sync_channel(1).1 }
    }

    /// Ends the thread, and waits until it has ended, or the terminal is gone, on which the library may block forever.
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        while self.ended.recv_timeout(GLANCE) == Err(RecvTimeoutError::Timeout) && !is_gone_now() {}
    }
}

/// Handles the next key, or waits briefly for one. On a terminal that delivers lines, handles the next line.
fn look(shared: &Shared, line: &mut Vec<u8>, last_key: &mut Instant) -> io::Result<()> {
    if shared.is_lent.load(Ordering::Relaxed) {
        thread::sleep(GLANCE);
        return Ok(());
    }
    let Some(mut terminal) = shared.terminal() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    if !terminal.as_mut().is_some_and(Mode::ensure) {
        drop(terminal);
        thread::sleep(GLANCE);
        return Ok(());
    }
    if terminal.as_ref().is_some_and(Mode::has_lines) {
        return look_at_lines(shared, line);
    }
    // Keys that arrived with the last one are in the library already, so the terminal is awaited only if there are none.
    wait_for_keys(Duration::ZERO)?;
    if !event::poll(Duration::ZERO)? {
        let glance = if last_key.elapsed() < IDLE_AFTER { GLANCE } else { IDLE_GLANCE };
        if has_input(glance)?
            && !event::poll(Duration::ZERO)?
            && let Some(mode) = terminal.as_ref()
        {
            mode.signal_keys();
        }
        return Ok(());
    }
    *last_key = Instant::now();
    let key = match Key::of(event::read()?) {
        Some(Key::Suspend) => {
            if let Some(mode) = terminal.as_mut() {
                suspend(mode)?;
            }
            Key::Resume
        }
        Some(key) => key,
        None => return Ok(()),
    };
    drop(terminal);
    shared.take_in(Press { key, at: Instant::now() });
    Ok(())
}

/// Converts each line to a paste and an Enter, while the terminal is locked.
fn look_at_lines(shared: &Shared, begun: &mut Vec<u8>) -> io::Result<()> {
    let mut bytes = [0; 4096];
    if !has_input(GLANCE)? {
        return Ok(());
    }
    let read = match read(io::stdin(), &mut bytes) {
        Ok(read) => read,
        Err(Errno::EINTR) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let at = Instant::now();
    if read == 0 {
        shared.take_in(Press { key: Key::Leave, at });
        return Ok(());
    }
    begun.extend_from_slice(&bytes[..read]);
    while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = begun.drain(..=end).collect();
        let text = String::from_utf8_lossy(&line[..end]).into_owned();
        shared.take_in(Press { key: Key::Paste(text), at });
        shared.take_in(Press { key: Key::Enter, at });
    }
    Ok(())
}

/// Stops the process and those beside it in its pipeline, as the terminal does if Ctrl-Z is not read as a key.
fn suspend(mode: &mut Mode) -> io::Result<()> {
    // The shell writes below the row of the cursor, where the status line is.
    io::stderr().write_all(b"\r\n\x1b[J")?;
    mode.put_back();
    kill(Pid::from_raw(0), Signal::SIGTSTP)?;
    // The stop may reach this thread a little later than it reaches others.
    thread::sleep(GLANCE);
    Ok(())
}
