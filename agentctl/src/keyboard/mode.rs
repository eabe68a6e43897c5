//! Sets and restores the terminal's mode for reading keys.
//!
//! The terminal still generates signals, such as that of Ctrl-C. Only Ctrl-Z is read as a key, so that the terminal is
//! restored before the process stops.

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

/// Sequences that enable and disable bracketed paste.
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
const MARK_NO_PASTES: &[u8] = b"\x1b[?2004l";

/// Terminal mode at the start of the process, to restore it without waiting for another thread.
#[derive(Debug)]
pub(crate) struct TerminalAtStart(Option<Termios>);

impl TerminalAtStart {
    /// Stores the current mode of the terminal.
    pub(crate) fn remember() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    /// Restores the mode without a lock, and without output that could block.
    pub(crate) fn put_back(&self) {
        // Changing the mode would stop a background process.
        let is_in_front = || tcgetpgrp(io::stdin()).ok() == Some(getpgrp());
        let Some(before) = self.0.as_ref().filter(|_| is_in_front()) else { return };
        let has_room = poll(&mut [PollFd::new(io::stderr().as_fd(), PollFlags::POLLOUT)], PollTimeout::ZERO);
        if !is_plain() && has_room.is_ok_and(|ready| ready > 0) {
            let _ = write(io::stderr(), MARK_NO_PASTES);
        }
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, before);
    }
}

/// Terminal modes before and while keys are read. Dropping it restores the previous mode.
#[derive(Debug)]
pub(super) struct Mode {
    before: Termios,
    ours: Termios,
    /// True if the terminal supports control sequences, so that keys are read individually.
    is_smart: bool,
    is_set: bool,
}

impl Mode {
    /// Sets the mode of the terminal, if this process is in the foreground. The mode of a plain terminal is not
    /// changed, because it delivers lines.
    ///
    /// # Errors
    /// Fails if the mode of the terminal cannot be read.
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

    /// Sets the mode if it is not set. Shells change the mode while a process is stopped. Returns true if keys may be
    /// read; reading would stop a background process.
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
        // The library distinguishes Ctrl-J from Enter only after it has enabled its raw mode, which is then replaced.
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

    /// Returns true if the terminal delivers lines instead of keys.
    pub(super) fn has_lines(&self) -> bool {
        !self.is_smart
    }

    /// Restores the previous mode of the terminal.
    pub(super) fn put_back(&mut self) {
        if std::mem::take(&mut self.is_set) {
            // Fails if the terminal is gone.
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
