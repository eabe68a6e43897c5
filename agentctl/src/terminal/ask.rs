//! Lines that a person is asked for, shown as they are typed or not.

use std::io::{self, BufRead as _, Read as _, Write as _};

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};

/// Asks, and reads a line that the terminal shows as it is typed; none at its end.
///
/// # Errors
/// When the terminal cannot be read or written.
pub(crate) fn line(question: &str) -> io::Result<Option<String>> {
    write!(anstream::stderr(), "{question}")?;
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line)?;
    if count == 0 {
        writeln!(anstream::stderr())?;
    }
    Ok((count > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Asks, and reads a line that the terminal does not show; none where it was left with Ctrl-C or Ctrl-D.
///
/// # Errors
/// When the terminal cannot be read or written.
pub(crate) fn hidden(question: &str) -> io::Result<Option<String>> {
    let hidden = Hidden::begin()?;
    write!(anstream::stderr(), "{question}")?;
    let line = hidden_line()?;
    drop(hidden);
    writeln!(anstream::stderr())?;
    Ok(line)
}

/// A line of a terminal that shows nothing; none where it was left with Ctrl-C or Ctrl-D.
fn hidden_line() -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte? {
            b'\r' | b'\n' => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            3 => return Ok(None),
            4 if bytes.is_empty() => return Ok(None),
            // Ctrl-U.
            21 => bytes.clear(),
            8 | 127 => {
                // The whole letter goes, not its last byte.
                while bytes.pop().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {}
            }
            byte if byte >= b' ' => bytes.push(byte),
            _ => {}
        }
    }
    Ok(None)
}

/// The terminal does not show what is typed, nor does it make signals of it that would leave it so. Dropping this puts it
/// back.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO | LocalFlags::ECHONL | LocalFlags::ICANON | LocalFlags::ISIG);
        hidden.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        hidden.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(io::stdin(), SetArg::TCSANOW, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone needs no mode.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}
