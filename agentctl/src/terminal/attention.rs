//! Calls for the person's attention: the bell, or a notification where the terminal is known to show one.

use std::{
    env,
    ffi::OsStr,
    io::{self, IsTerminal as _, Write as _},
};

use super::{look::TerminalStyle, sanitize::clean_line};

/// Environment variable with `bell`, `osc9` or `off`.
const VARIABLE: &str = "AGENTCTL_NOTIFY";

/// Characters of a notification.
const LONGEST: usize = 120;

/// The way in which a person who looks elsewhere is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attention {
    /// Nobody is called.
    Off,
    /// The bell, which terminals and tmux show in their own way.
    Bell,
    /// A notification of the desktop, as iTerm2 defined it: `OSC 9 ; text BEL`.
    Notification,
}

impl Attention {
    /// The way of this process's terminal, or that of the variable.
    pub(crate) fn of_terminal() -> Self {
        let is_seen = io::stdin().is_terminal() && TerminalStyle::detect().err_terminal;
        if is_seen { Self::choose(|name| env::var_os(name)) } else { Self::Off }
    }

    fn choose<T: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<T>) -> Self {
        let is = |name: &str, values: &[&str]| {
            variable(name).is_some_and(|value| values.iter().any(|known| value.as_ref() == OsStr::new(known)))
        };
        match () {
            () if is(VARIABLE, &["off", "none", "0"]) => Self::Off,
            () if is(VARIABLE, &["bell"]) => Self::Bell,
            () if is(VARIABLE, &["osc9"]) => Self::Notification,
            // tmux keeps notifications to itself, and shows a bell.
            () if variable("TMUX").is_some() => Self::Bell,
            () if is("TERM_PROGRAM", &["iTerm.app", "WezTerm", "ghostty"]) || is("TERM", &["xterm-kitty"]) => {
                Self::Notification
            }
            () => Self::Bell,
        }
    }

    /// Calls the person, with a few words of why.
    pub(crate) fn call(self, why: &str) {
        // A terminal that is gone hears nothing.
        let _ = io::stderr().write_all(self.sequence(why).as_bytes());
    }

    fn sequence(self, why: &str) -> String {
        match self {
            Self::Off => String::new(),
            Self::Bell => "\x07".to_owned(),
            Self::Notification => {
                let why: String = clean_line(why).chars().filter(|c| !c.is_control()).take(LONGEST).collect();
                format!("\x1b]9;{why}\x07")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_decides_unless_the_person_does() {
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
    fn words_of_others_end_no_sequence() {
        let told = Attention::Notification.sequence("asks: rm\x1b\\\x07\x1b]0;x\u{9c}\n");
        assert!(told.starts_with("\x1b]9;asks: rm") && told.ends_with('\x07'), "{told:?}");
        assert!(!told[1..told.len() - 1].contains(char::is_control), "{told:?}");
        assert_eq!(Attention::Bell.sequence("asks"), "\x07");
        assert_eq!(Attention::Off.sequence("asks"), "");
    }
}
