//! The terminal's mode while keys are read one by one, and its way back.
//!
//! Signals stay with the terminal: Ctrl-C is a signal, as ever. Only Ctrl-Z is read as a key, so that the terminal is left as
//! it was found before the process stops.

use std::{
    io::{self, Write as _},
    os::fd::AsFd as _,
};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use nix::{
    libc::_POSIX_VDISABLE,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::termios::{InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr},
    unistd::{getpgrp, tcgetpgrp, write},
};

use crate::terminal::look::is_plain;

/// Has the terminal mark what is pasted, and stop that.
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
const MARK_NO_PASTES: &[u8] = b"\x1b[?2004l";

/// The terminal as the process found it, for an end that waits for no other thread.
#[derive(Debug)]
pub(crate) struct TerminalAtStart(Option<Termios>);

impl TerminalAtStart {
    /// Remembers the terminal as it is now.
    pub(crate) fn remember() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    /// Puts it back, without a lock and without output that would have to wait.
    pub(crate) fn put_back(&self) {
        // A process in the background that tried would be stopped.
        let is_in_front = || tcgetpgrp(io::stdin()).ok() == Some(getpgrp());
        let Some(before) = self.0.as_ref().filter(|_| is_in_front()) else { return };
        let has_room = poll(&mut [PollFd::new(io::stderr().as_fd(), PollFlags::POLLOUT)], PollTimeout::ZERO);
        if !is_plain() && has_room.is_ok_and(|ready| ready > 0) {
            let _ = write(io::stderr(), MARK_NO_PASTES);
        }
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, before);
    }
}

/// The terminal as it was, and as it is while keys are read. Dropping it puts it back.
#[derive(Debug)]
pub(super) struct Mode {
    before: Termios,
    ours: Termios,
    /// The terminal knows control sequences, and its keys are read one by one.
    is_smart: bool,
    is_set: bool,
}

impl Mode {
    /// Takes the terminal from which keys come over, where this process may now. A plain one stays as it is: it hands over
    /// lines.
    ///
    /// # Errors
    /// When the terminal cannot be asked.
    pub(super) fn take() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut ours = before.clone();
        ours.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL | LocalFlags::ICANON | LocalFlags::IEXTEN);
        // Enter is a carriage return, so that it differs from Ctrl-J.
        ours.input_flags.remove(InputFlags::ICRNL);
        ours.control_chars[SpecialCharacterIndices::VSUSP as usize] = _POSIX_VDISABLE;
        ours.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        ours.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        let is_smart = !is_plain();
        let mut mode = Self { before, ours, is_smart, is_set: false };
        mode.ensure();
        Ok(mode)
    }

    /// Sets it where it is not set: also after the process was stopped, for shells change it then. Returns whether keys may be
    /// read: a process in the background that tried would be stopped.
    pub(super) fn ensure(&mut self) -> bool {
        if tcgetpgrp(io::stdin()).ok() != Some(getpgrp()) {
            self.is_set = false;
            return false;
        }
        if !self.is_smart {
            return true;
        }
        let is_ours = |now: Termios| now.local_flags == self.ours.local_flags;
        if self.is_set && tcgetattr(io::stdin()).is_ok_and(is_ours) {
            return true;
        }
        // The library only tells Ctrl-J from Enter if it knows of a raw mode. The mode itself is ours.
        let _ = enable_raw_mode();
        self.is_set = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.ours).is_ok();
        self.mark(MARK_PASTES);
        self.is_set
    }

    /// Sets the mode again, so that the library is notified of keys that it left in the terminal: it reads up to 1024
    /// bytes at a time, and then waits for new ones.
    pub(super) fn signal_keys(&self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.ours);
    }

    /// True where lines come and no keys.
    pub(super) fn has_lines(&self) -> bool {
        !self.is_smart
    }

    /// Puts the terminal back as it was.
    pub(super) fn put_back(&mut self) {
        if std::mem::take(&mut self.is_set) {
            // A terminal that is gone needs no mode.
            self.mark(MARK_NO_PASTES);
            let _ = disable_raw_mode();
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
        }
    }

    fn mark(&self, sequence: &[u8]) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(sequence).and_then(|()| err.flush());
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        self.put_back();
    }
}
