//! A terminal that is gone: its window was closed, or the connection to it was lost.

use std::{io, os::fd::AsFd as _, thread, time::Duration};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

/// Waits for keys, so long at the most. The library that reads them reads on for ever where the terminal is gone, so it is
/// asked only while the terminal is there.
///
/// # Errors
/// When the terminal is gone.
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

/// Returns true if the terminal is gone, or cannot be asked any more.
pub(super) fn is_gone_now() -> bool {
    is_gone(PollFlags::empty(), PollTimeout::ZERO).unwrap_or(true)
}

/// Waits on this thread until the terminal is gone. One that cannot be asked never is.
pub(crate) fn wait_until_gone() {
    loop {
        match is_gone(PollFlags::empty(), PollTimeout::NONE) {
            Ok(true) => return,
            Ok(false) => {}
            Err(_) => thread::park(),
        }
    }
}

/// Waits for something of standard input, and looks whether it is gone.
fn is_gone(wanted: PollFlags, patience: PollTimeout) -> io::Result<bool> {
    Ok(found(wanted, patience)?.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL))
}

/// Findings about standard input, after a wait of so long at the most; none where a signal ended it.
pub(super) fn found(wanted: PollFlags, patience: PollTimeout) -> io::Result<PollFlags> {
    let stdin = io::stdin();
    let mut looked = [PollFd::new(stdin.as_fd(), wanted)];
    match poll(&mut looked, patience) {
        Ok(_) => Ok(looked[0].revents().unwrap_or(PollFlags::empty())),
        Err(Errno::EINTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}
