//! Lines that were typed while no keys were read, buffered by the terminal. They end with a line feed, because the
//! terminal converts each Enter. Read as a key, the line feed would be Ctrl-J.

use std::io;

use nix::{
    poll::{PollFlags, PollTimeout},
    sys::termios::{LocalFlags, tcgetattr},
    unistd::read,
};

use super::hangup::found;

/// Maximum number of bytes, which is more than anyone types.
const MOST: usize = 64 * 1024;

/// Reads all complete lines from the terminal. An incomplete line stays there.
pub(super) fn kept() -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < MOST && is_there() {
        match read(io::stdin(), &mut buffer) {
            Ok(length @ 1..) => bytes.extend_from_slice(&buffer[..length]),
            Ok(0) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns true if a read would not block, and the terminal delivers lines.
fn is_there() -> bool {
    let is_by_lines = || tcgetattr(io::stdin()).is_ok_and(|mode| mode.local_flags.contains(LocalFlags::ICANON));
    found(PollFlags::POLLIN, PollTimeout::ZERO).is_ok_and(|found| found == PollFlags::POLLIN) && is_by_lines()
}
