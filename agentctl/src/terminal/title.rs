//! The title of the terminal's window, while a conversation lives.

use std::io::{self, Write as _};

use super::{look::TerminalStyle, sanitize::clean_line};

/// Characters of a title.
const LONGEST: usize = 80;

/// The window's title. The one before it comes back at the end, where the terminal keeps it.
#[derive(Debug, Default)]
pub(crate) struct WindowTitle {
    /// None where there is no window.
    shown: Option<String>,
}

impl WindowTitle {
    /// Takes the title of a terminal that has one.
    pub(crate) fn take() -> Self {
        if !TerminalStyle::detect().err_terminal {
            return Self::default();
        }
        write("\x1b[22;2t");
        Self { shown: Some(String::new()) }
    }

    /// Shows a title, unless it stands there.
    pub(crate) fn set(&mut self, title: &str) {
        let Some(shown) = &mut self.shown else { return };
        let title = harmless(title);
        if *shown != title {
            write(&format!("\x1b]2;{title}\x07"));
            *shown = title;
        }
    }
}

impl Drop for WindowTitle {
    fn drop(&mut self) {
        if self.shown.is_some() {
            write("\x1b[23;2t");
        }
    }
}

fn harmless(title: &str) -> String {
    clean_line(title).chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

fn write(sequence: &str) {
    let mut err = io::stderr().lock();
    // A terminal that is gone has no title.
    let _ = err.write_all(sequence.as_bytes()).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folders_name_ends_no_sequence() {
        let title = harmless("app\x07\x1b]52;c;x\x1b\\\u{9c}");
        assert!(title.starts_with("app") && !title.contains(char::is_control), "{title:?}");
        assert_eq!(harmless(&"x".repeat(500)).len(), LONGEST);
    }
}
