//! Keeps what is typed during a turn off the screen.
//!
//! An answer is repainted as it streams, and keys that the terminal echoes into it would spoil it. They are not lost: the
//! terminal keeps them for whoever reads next, which is the prompt. Questions throw them away before they ask.

use std::io::{self, IsTerminal as _};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

/// The terminal without its echo. Dropping it brings the echo back.
#[derive(Debug)]
pub(crate) struct Quiet {
    /// How the terminal was; none where it was not changed.
    before: Option<Termios>,
}

impl Quiet {
    /// Silences the terminal from which keys come, if they come from one. Ctrl-C works as before.
    pub(crate) fn begin() -> Self {
        let input = io::stdin();
        // A terminal that cannot be asked, or that nobody looks at, is left as it is.
        let looks = input.is_terminal() && io::stderr().is_terminal();
        let before = looks.then(|| tcgetattr(&input).ok()).flatten();
        if let Some(before) = &before {
            let mut silent = before.clone();
            silent.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL);
            let _ = tcsetattr(&input, SetArg::TCSANOW, &silent);
        }
        Self { before }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone needs no echo.
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, before);
        }
    }
}
