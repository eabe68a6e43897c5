//! A simulated user at a terminal.

use rexpect::{
    process::WaitStatus,
    session::{PtySession, spawn_command},
};

use super::*;

/// Returns a reply that appears as contiguous text, regardless of text typed below it.
pub(super) fn says(text: &str) -> Reply {
    Reply::deltas([text])
}

/// Sequence that marks the start of a prompt.
pub(super) const PROMPT_START: &str = "\u{1b}]133;A\u{7}";

/// Returns a command for a terminal that runs `agentctl` as `"$@"` within a shell line.
pub(super) fn command_at_terminal(home: &TempHome, line: &str, args: &[&str]) -> Command {
    let client = home.agentctl_command(args);
    // A real terminal echoes input unless a program disables echoing. The library's terminal does not echo by
    // default.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("stty echo && {line}"), "sh"]).arg(client.get_program()).args(client.get_args());
    command.env_clear().envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
    if let Some(folder) = client.get_current_dir() {
        command.current_dir(folder);
    }
    command
}

/// A user at a terminal.
pub(super) struct Terminal(PtySession);

impl Terminal {
    /// Opens a chat at a terminal.
    pub(super) fn open(home: &TempHome, args: &[&str]) -> Self {
        let args: Vec<&str> = ["chat"].iter().chain(args).copied().collect();
        Self::around(home, "exec \"$@\"", &args)
    }

    /// Opens a chat, and waits for its first prompt.
    #[track_caller]
    pub(super) fn ready(home: &TempHome, args: &[&str]) -> Self {
        let mut terminal = Self::open(home, args);
        terminal.prompt();
        terminal
    }

    /// Runs `agentctl` as `"$@"` within a shell line.
    pub(super) fn around(home: &TempHome, line: &str, args: &[&str]) -> Self {
        Self(spawn_command(command_at_terminal(home, line, args), Some(60_000)).unwrap())
    }

    /// Presses Ctrl and a letter.
    pub(super) fn control(&mut self, letter: char) {
        self.0.send_control(letter).unwrap();
    }

    /// Waits until all programs in the terminal have ended.
    #[track_caller]
    pub(super) fn ends(mut self) -> String {
        self.0.exp_eof().unwrap()
    }

    #[track_caller]
    pub(super) fn sees(&mut self, text: &str) -> String {
        self.0.exp_string(text).unwrap_or_else(|error| panic!("{text:?} does not appear: {error}"))
    }

    /// Waits for the start of the prompt, and returns the text before it.
    #[track_caller]
    pub(super) fn prompt(&mut self) -> String {
        self.prompt_below("")
    }

    /// Waits for the prompt below a status line with this text, and returns the text before the prompt.
    #[track_caller]
    pub(super) fn prompt_below(&mut self, status: &str) -> String {
        let before = self.sees(PROMPT_START);
        self.sees(status);
        // The bytes of `› `. The terminal library does not decode non-ASCII characters.
        self.sees("\u{e2}\u{80}\u{ba} ");
        before
    }

    #[track_caller]
    pub(super) fn says(&mut self, line: &str) {
        self.0.send(line).unwrap();
        self.0.flush().unwrap();
        // A terminal sends a carriage return for Enter, and the editor only accepts input that has been displayed.
        self.sees(line);
        self.0.send("\r").unwrap();
        self.0.flush().unwrap();
    }

    /// Waits for these texts, one after the other.
    #[track_caller]
    pub(super) fn sees_all(&mut self, texts: &[&str]) {
        for text in texts {
            self.sees(text);
        }
    }

    /// Waits for this text, and then for the prompt.
    #[track_caller]
    pub(super) fn sees_last(&mut self, text: &str) {
        self.sees(text);
        self.prompt();
    }

    /// Enters a line, and waits for this text and the next prompt.
    #[track_caller]
    pub(super) fn hears(&mut self, line: &str, text: &str) {
        self.says(line);
        self.sees_last(text);
    }

    /// Enters a line, and waits for this text.
    #[track_caller]
    pub(super) fn says_for(&mut self, line: &str, text: &str) {
        self.says(line);
        self.sees(text);
    }

    /// Waits for this text, and presses these keys.
    #[track_caller]
    pub(super) fn answers(&mut self, text: &str, keys: &str) {
        self.sees(text);
        self.presses(keys);
    }

    /// Presses keys, and waits for this text.
    #[track_caller]
    pub(super) fn presses_for(&mut self, keys: &str, text: &str) {
        self.presses(keys);
        self.sees(text);
    }

    /// Presses keys, and waits for this text and the next prompt.
    #[track_caller]
    pub(super) fn presses_last(&mut self, keys: &str, text: &str) {
        self.presses(keys);
        self.sees_last(text);
    }

    #[track_caller]
    pub(super) fn presses(&mut self, key: &str) {
        self.0.send(key).unwrap();
        self.0.flush().unwrap();
    }

    /// Leaves the chat with Ctrl-D.
    #[track_caller]
    pub(super) fn leaves(mut self) -> String {
        self.0.send_control('d').unwrap();
        let last = self.0.exp_eof().unwrap();
        assert!(matches!(self.0.process().wait(), Ok(WaitStatus::Exited(_, 0))), "{last}");
        last
    }
}
