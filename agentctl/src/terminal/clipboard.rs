//! The terminal's clipboard, which programs write with OSC 52.

use std::io::{self, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Bytes of text that are copied at the most: with more, many terminals take nothing.
pub(crate) const LARGEST: usize = 74_000;

/// Puts a text on the clipboard. Whether the terminal takes it, it does not say.
///
/// # Errors
/// When the terminal is gone.
pub(crate) fn copy(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(sequence(text, std::env::var_os("TMUX").is_some()).as_bytes())?;
    err.flush()
}

/// The sequence. tmux takes it for its own buffer, and hands through what is wrapped for the terminal around it: which of both
/// it does is a setting.
fn sequence(text: &str, in_tmux: bool) -> String {
    let plain = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    if in_tmux { format!("{plain}\x1bPtmux;\x1b{plain}\x1b\\") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_encoded_and_handed_through_tmux() {
        assert_eq!(sequence("hé\u{1b}\u{7}", false), "\u{1b}]52;c;aMOpGwc=\u{7}");
        assert_eq!(sequence("a", true), "\u{1b}]52;c;YQ==\u{7}\u{1b}Ptmux;\u{1b}\u{1b}]52;c;YQ==\u{7}\u{1b}\\");
    }
}
