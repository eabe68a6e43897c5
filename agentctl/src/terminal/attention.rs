//! Terminal features other than text: the bell or a desktop notification, the window title during a chat, and the
//! clipboard, which is written with OSC 52.

use std::{
    env,
    ffi::OsStr,
    io::{self, IsTerminal as _, Write as _},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{look::TerminalStyle, sanitize::clean_line};

/// Environment variable with `bell`, `osc9` or `off`.
const VARIABLE: &str = "AGENTCTL_NOTIFY";

/// Maximum number of characters in a notification.
const MAX_NOTIFICATION: usize = 120;

/// Method of getting the user's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attention {
    /// No signal is sent.
    Off,
    /// The bell, which terminals and tmux show in their own ways.
    Bell,
    /// A desktop notification as defined by iTerm2: `OSC 9 ; text BEL`.
    Notification,
}

impl Attention {
    /// Returns the method for this process's terminal, unless the variable overrides it.
    pub(crate) fn of_terminal() -> Self {
        let has_terminal = io::stdin().is_terminal() && TerminalStyle::detect().err_terminal;
        if has_terminal { Self::choose(|name| env::var_os(name)) } else { Self::Off }
    }

    fn choose<T: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<T>) -> Self {
        let is = |name: &str, values: &[&str]| {
            variable(name).is_some_and(|value| values.iter().any(|known| value.as_ref() == OsStr::new(known)))
        };
        match () {
            () if is(VARIABLE, &["off", "none", "0"]) => Self::Off,
            () if is(VARIABLE, &["bell"]) => Self::Bell,
            () if is(VARIABLE, &["osc9"]) => Self::Notification,
            // tmux does not forward notifications, but supports the bell.
            () if variable("TMUX").is_some() => Self::Bell,
            () if is("TERM_PROGRAM", &["iTerm.app", "WezTerm", "ghostty"]) || is("TERM", &["xterm-kitty"]) => {
                Self::Notification
            }
            () => Self::Bell,
        }
    }

    /// Signals the user, with a short reason for a notification.
    pub(crate) fn call(self, reason: &str) {
        let _ = write(&self.sequence(reason));
    }

    fn sequence(self, reason: &str) -> String {
        match self {
            Self::Off => String::new(),
            Self::Bell => "\x07".to_owned(),
            Self::Notification => format!("\x1b]9;{}\x07", printable(reason, MAX_NOTIFICATION)),
        }
    }
}

/// Maximum number of characters in a title.
const MAX_TITLE: usize = 80;

/// The window title. The previous title is restored at the end if the terminal supports it.
#[derive(Debug, Default)]
pub(crate) struct WindowTitle {
    /// Current title; `None` if titles are not supported.
    shown: Option<String>,
}

impl WindowTitle {
    /// Saves the current title, if the terminal has one.
    pub(crate) fn take() -> Self {
        if !TerminalStyle::detect().err_terminal {
            return Self::default();
        }
        let _ = write("\x1b[22;2t");
        Self { shown: Some(String::new()) }
    }

    /// Sets the title, unless it is unchanged.
    pub(crate) fn set(&mut self, title: &str) {
        let Some(shown) = &mut self.shown else { return };
        let title = printable(title, MAX_TITLE);
        if *shown != title {
            let _ = write(&format!("\x1b]2;{title}\x07"));
            *shown = title;
        }
    }
}

impl Drop for WindowTitle {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write("\x1b[23;2t");
        }
    }
}

fn printable(text: &str, longest: usize) -> String {
    clean_line(text).chars().filter(|c| !c.is_control()).take(longest).collect()
}

/// Writes a sequence to standard error. Fails if the terminal is closed.
fn write(sequence: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(sequence.as_bytes())?;
    err.flush()
}

/// Maximum bytes of copied text. Many terminals ignore longer text.
pub(crate) const MAX_CLIPBOARD_BYTES: usize = 74_000;

/// Copies a text to the clipboard. The terminal does not report success.
///
/// # Errors
/// Fails if the terminal is closed.
pub(crate) fn copy(text: &str) -> io::Result<()> {
    write(&sequence(text, env::var_os("TMUX").is_some()))
}

/// Builds the sequence. In tmux, the plain sequence sets the buffer of tmux and the wrapped one is passed to the outer
/// terminal; the settings of tmux decide which one takes effect.
fn sequence(text: &str, in_tmux: bool) -> String {
    let plain = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    if in_tmux { format!("{plain}\x1bPtmux;\x1b{plain}\x1b\\") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_method_is_detected_unless_configured() {
        #[track_caller]
        fn check(variables: &[(&str, &'static str)], expected: Attention) {
            let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            assert_eq!(Attention::choose(variable), expected, "{variables:?}");
        }
        check(&[("TERM", "xterm-256color")], Attention::Bell);
        check(&[("TERM", "xterm-kitty")], Attention::Notification);
        check(&[("TERM_PROGRAM", "iTerm.app")], Attention::Notification);
        check(&[("TERM_PROGRAM", "iTerm.app"), ("TMUX", "/tmp/tmux")], Attention::Bell);
        check(&[("TERM_PROGRAM", "iTerm.app"), ("AGENTCTL_NOTIFY", "off")], Attention::Off);
        check(&[("TMUX", "/tmp/tmux"), ("AGENTCTL_NOTIFY", "osc9")], Attention::Notification);
    }

    #[test]
    fn foreign_text_cannot_end_an_escape_sequence() {
        let text = printable("app: rm\x1b\\\x07\x1b]52;c;x\u{9c}\n", MAX_TITLE);
        assert!(text.starts_with("app: rm") && !text.contains(char::is_control), "{text:?}");
        assert_eq!(printable(&"x".repeat(500), MAX_TITLE).len(), MAX_TITLE);
        let text = Attention::Notification.sequence("asks: rm\x1b\\\x07\x1b]0;x\u{9c}\n");
        assert!(text.starts_with("\x1b]9;asks: rm") && text.ends_with('\x07'), "{text:?}");
        assert!(!text[1..text.len() - 1].contains(char::is_control), "{text:?}");
        let sequences =
            [Attention::Notification, Attention::Bell, Attention::Off].map(|method| method.sequence("asks"));
        assert_eq!(sequences, ["\x1b]9;asks\x07", "\x07", ""]);
    }

    #[test]
    fn clipboard_text_is_encoded_and_passed_through_tmux() {
        assert_eq!(sequence("hé\u{1b}\u{7}", false), "\u{1b}]52;c;aMOpGwc=\u{7}");
        assert_eq!(sequence("a", true), "\u{1b}]52;c;YQ==\u{7}\u{1b}Ptmux;\u{1b}\u{1b}]52;c;YQ==\u{7}\u{1b}\\");
    }
}
