//! `/help` and `?`: lists of the commands and the keys.

use super::{chat::Chat, conversation::ChatBackend as _, own_commands, slash};
use crate::{
    failure::Failure,
    project,
    terminal::{look::TerminalStyle, paint::fold},
};

/// Columns of the usage of a command, and of a key.
const USAGE: usize = 16;
const KEY: usize = 23;
/// Minimum number of columns for a folded description.
const NARROWEST: usize = 20;

/// Keys at the prompt.
const AT_PROMPT: [(&str, &str); 10] = [
    ("Enter", "sends"),
    ("Alt-Enter, Ctrl-J", "begin a new line; so do a backslash at the end and an open ```"),
    ("Tab", "completes /commands, @names and #files"),
    ("Shift-Tab", "goes to the next mode"),
    ("Ctrl-X Ctrl-E, Alt-E", "opens what is written in $VISUAL or $EDITOR"),
    ("Ctrl-O", "shows the last result whole"),
    ("Esc Esc", "edits the last message: goes back to before it"),
    ("Ctrl-R, Up", "finds what was said before"),
    ("! COMMAND", "runs a command in your shell; a space before the ! makes it text"),
    ("Ctrl-D", "leaves"),
];

/// Keys while a turn runs.
const IN_TURN: [(&str, &str); 4] = [
    ("Enter", "speaks to the turn"),
    ("Tab", "keeps what is written until its end"),
    ("Up", "takes back what waits"),
    ("Esc, Ctrl-C", "cancel the turn"),
];

impl Chat {
    /// Lists all commands, and the keys.
    pub(super) async fn help(&mut self) -> Result<(), Failure> {
        for entry in &slash::TABLE {
            self.row(&format!("/{} {}", entry.name, entry.argument), entry.does, USAGE);
        }
        let folder = self.project().await?.map(|mount| mount.path);
        let project = project::load_report(&self.daemon.client, folder).await;
        let plugins = own_commands::plugins(&self.daemon.client).await;
        let own = own_commands::all(&plugins, project.as_ref());
        for command in &own.commands {
            let about = match command.description.as_str() {
                "" => command.first_lines(1).0.concat(),
                description => description.to_owned(),
            };
            let usage = format!("/{} {}", command.name, command.argument);
            self.row(&usage, &format!("{about} ({})", command.origin.as_str()), USAGE);
        }
        for problem in &own.problems {
            self.note(&format!("! {problem}"));
        }
        self.note(
            "Own commands are Markdown files in commands/ of the configuration, and .agentd/commands/ of a trusted project.",
        );
        self.keys();
        Ok(())
    }

    /// Lists the keys.
    pub(super) fn keys(&mut self) {
        self.note("at the prompt:");
        AT_PROMPT.iter().for_each(|(key, does)| self.row(&format!("  {key}"), does, KEY));
        self.note("while a turn runs:");
        IN_TURN.iter().for_each(|(key, does)| self.row(&format!("  {key}"), does, KEY));
    }

    /// Prints a row of two columns. The second one is folded if there is space for it.
    fn row(&mut self, usage: &str, does: &str, width: usize) {
        let columns = TerminalStyle::detect().columns().saturating_sub(width + 2);
        let rows = if columns < NARROWEST { vec![does.to_owned()] } else { fold(does, columns) };
        for (at, row) in rows.iter().enumerate() {
            let usage = if at == 0 { usage } else { "" };
            self.note(&format!("{usage:<width$} {row}"));
        }
    }
}
