//! Detects that the terminal is gone: its window was closed, or the connection to it was lost.

use std::{io, os::fd::AsFd as _, thread, time::Duration};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

/// Waits up to `patience` for keys. The library that reads keys loops forever if the terminal is gone, so it must only
/// be called while the terminal exists.
///
/// # Errors
/// Fails if the terminal is gone.
pub(super) fn wait_for_keys(patience: Duration) -> io::Result<()> {
    let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
    if is_gone(PollFlags::POLLIN, patience)? { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

/// Waits up to `patience` for input, and returns true if there is any.
///
/// # Errors
/// Fails if the terminal is gone.
pub(super) fn has_input(patience: Duration) -> io::Result<bool> {
    wait_for_keys(patience)?;
    Ok(found(PollFlags::POLLIN, PollTimeout::ZERO)?.contains(PollFlags::POLLIN))
}

/// Returns true if the terminal is gone, or cannot be polled.
pub(super) fn is_gone_now() -> bool {
    is_gone(PollFlags::empty(), PollTimeout::ZERO).unwrap_or(true)
}

/// Waits on this thread until the terminal is gone. Never returns if the terminal cannot be polled.
pub(crate) fn wait_until_gone() {
    loop {
        match is_gone(PollFlags::empty(), PollTimeout::NONE) {
            Ok(true) => return,
            Ok(false) => {}
            Err(_) => thread::park(),
        }
    }
}

/// Polls standard input, and returns true if it is gone.
fn is_gone(wanted: PollFlags, patience: PollTimeout) -> io::Result<bool> {
    Ok(found(wanted, patience)?.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL))
}

/// Polls standard input for up to `patience`, and returns the flags; empty if a signal interrupted it.
pub(super) fn found(wanted: PollFlags, patience: PollTimeout) -> io::Result<PollFlags> {
    let stdin = io::stdin();
    let mut looked = [PollFd::new(stdin.as_fd(), wanted)];
    match poll(&mut looked, patience) {
        Ok(_) => Ok(looked[0].revents().unwrap_or(PollFlags::empty())),
        Err(Errno::EINTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}
