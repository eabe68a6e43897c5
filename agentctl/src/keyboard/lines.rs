//! Lines that were typed while nobody read keys, and which the terminal keeps. They end with a line feed, as it makes one of
//! every Enter then; read key by key, that would be Ctrl-J.

use std::io;

use nix::{
    poll::{PollFlags, PollTimeout},
    sys::termios::{LocalFlags, tcgetattr},
    unistd::read,
};

use super::hangup::found;

/// Bytes of them at the most. Nobody types as many.
const MOST: usize = 64 * 1024;

/// All whole lines that the terminal keeps. A line that is begun stays there.
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

/// True if a read waits for nothing, and lines are what is read.
fn is_there() -> bool {
    let is_by_lines = || tcgetattr(io::stdin()).is_ok_and(|mode| mode.local_flags.contains(LocalFlags::ICANON));
    found(PollFlags::POLLIN, PollTimeout::ZERO).is_ok_and(|found| found == PollFlags::POLLIN) && is_by_lines()
}
