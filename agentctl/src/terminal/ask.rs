//! Line input from the terminal, with or without echo.

use std::io::{self, BufRead as _, Read as _, Write as _};

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};

/// Ctrl-C as a byte, for a terminal mode that does not turn it into a signal.
const CTRL_C: u8 = 3;

/// Value that disables a control character (`_POSIX_VDISABLE` on Linux).
const DISABLED: u8 = 0;

/// Prompts for a line with echo. Returns `None` on Ctrl-C or Ctrl-D. Ctrl-C does not end the program, so that the
/// caller can restore its state.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub(crate) fn line(question: &str) -> io::Result<Option<String>> {
    let changed = ChangedTerminal::begin(|terminal| {
        // Ctrl-C ends the line like Enter, instead of sending a signal.
        terminal.control_chars[SpecialCharacterIndices::VINTR as usize] = DISABLED;
        terminal.control_chars[SpecialCharacterIndices::VEOL as usize] = CTRL_C;
    });
    write!(anstream::stderr(), "{question}")?;
    let mut line = Vec::new();
    let mut stdin = io::stdin().lock();
    let is_cancelled = loop {
        let bytes = match stdin.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let end = bytes.iter().position(|byte| matches!(*byte, b'\n' | CTRL_C));
        let (consumed_bytes, last) = (end.map_or(bytes.len(), |at| at + 1), end.map(|at| bytes[at]));
        line.extend_from_slice(&bytes[..consumed_bytes]);
        stdin.consume(consumed_bytes);
        match last {
            Some(CTRL_C) => break true,
            Some(_) => break false,
            None if consumed_bytes == 0 => break line.is_empty(),
            None => {}
        }
    };
    drop(changed);
    if is_cancelled {
        writeln!(anstream::stderr())?;
        return Ok(None);
    }
    let line = String::from_utf8_lossy(&line);
    Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Returns the item with the entered number, counted from 1.
pub(crate) fn numbered<'a, T>(input: &str, offered: &'a [T]) -> Option<&'a T> {
    offered.get(input.trim().parse::<usize>().ok()?.checked_sub(1)?)
}

/// Asks for confirmation.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub(crate) fn confirm(question: &str) -> io::Result<bool> {
    Ok(line(question)?.is_some_and(|answer| matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
}

/// Prompts for a line without echo. Returns `None` on Ctrl-C or Ctrl-D.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub(crate) fn hidden(question: &str) -> io::Result<Option<String>> {
    let hidden = ChangedTerminal::begin(|terminal| {
        terminal.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL | LocalFlags::ICANON | LocalFlags::ISIG);
        terminal.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        terminal.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
    })?;
    write!(anstream::stderr(), "{question}")?;
    let line = hidden_line()?;
    drop(hidden);
    writeln!(anstream::stderr())?;
    Ok(line)
}

/// Reads a line in raw mode. Returns `None` on Ctrl-C or Ctrl-D.
fn hidden_line() -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte? {
            b'\r' | b'\n' => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            CTRL_C => return Ok(None),
            4 if bytes.is_empty() => return Ok(None),
            // Ctrl-U.
            21 => bytes.clear(),
            8 | 127 => {
                // Removes a whole character, including all of its bytes.
                while bytes.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
            }
            byte if byte >= b' ' => bytes.push(byte),
            _ => {}
        }
    }
    Ok(None)
}

/// A terminal with changed settings, which are restored on drop.
struct ChangedTerminal(Termios);

impl ChangedTerminal {
    fn begin(change: impl FnOnce(&mut Termios)) -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut changed = before.clone();
        change(&mut changed);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &changed)?;
        Ok(Self(before))
    }
}

impl Drop for ChangedTerminal {
    fn drop(&mut self) {
        // Fails only if the terminal was closed.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}
