//! The conversation at a terminal, and for scripts that pipe lines in.
//!
//! - [`conversation`]: the loop, independent of terminal and daemon. Lines come from [`prompt`] at a terminal, and from
//!   [`stdin`] elsewhere. [`slash`] distinguishes commands from text.
//! - [`chat`]: actions of the loop over the daemon's socket: turns and questions. [`commands`]: slash commands.
//!   [`uploads`]: files of a message. [`message`]: a message with its extras.
//! - [`help`], [`overview`], [`copy`], [`diff`]: commands that show something. [`shell`]: commands after `!`.
//! - [`own_commands`]: own commands of the user, plugins and the project. [`prepared`]: turns with their prompts, and
//!   `/init`. [`trusting`]: notices about the project's files, and `/trust`.
//! - [`btw`]: side questions. [`advice`]: the greeting, and advice below it.
//! - [`replay`]: the last turns of a resumed session.
//! - [`moving`]: commands that go to other sessions. [`picker`]: lists to choose from, opened by [`choice`].
//! - [`history`]: commands that compact, pin and undo. [`rewind`]: `/rewind`. [`show`]: `/show`.
//! - [`completion`]: completions of the prompt. [`own_editor`]: the user's editor. [`modes`]: `/mode`. [`models`]:
//!   `/model`. [`clipboard`]: pasted pictures.
//! - [`plain`]: prompt and questions on a terminal without escape sequences.
//! - [`known`]: names for completions, and the status of the prompt.
//! - [`watch`]: detects turns of other clients in the session. [`joining`]: follows them and adds messages to them.
//! - [`mentions`]: completion of names after `@` and `#`, and the uploaded files of a session.
//! - [`asker`]: approvals and questions. [`question`]: their layout and keys. [`edit`]: edits of a call. [`console`]:
//!   their terminal. [`pager`]: long texts.

mod advice;
mod asker;
mod btw;
mod chat;
mod choice;
mod clipboard;
mod commands;
mod completion;
mod console;
mod conversation;
mod copy;
mod diff;
mod edit;
mod help;
mod history;
mod joining;
mod known;
mod mentions;
mod message;
mod models;
mod modes;
mod moving;
mod overview;
pub(crate) mod own_commands;
mod own_editor;
pub(crate) mod pager;
mod picker;
mod plain;
pub(crate) mod prepared;
mod prompt;
mod question;
pub(crate) mod replay;
mod rewind;
mod secret;
mod shell;
mod show;
mod slash;
mod stdin;
mod trusting;
mod uploads;
mod watch;

use std::io::{self, IsTerminal as _};

use self::{
    chat::Chat, completion::Completions, conversation::Lines, known::CompletionCache, plain::PlainLines,
    prompt::Prompt, stdin::StdinLines,
};
use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    flags::CommandLine,
    keyboard::Keyboard,
    session::SessionTarget,
    terminal::look::is_plain,
};
pub(crate) use asker::TerminalAsker;

/// Runs a conversation until its input ends. `first` is the first input.
///
/// # Errors
/// Fails if the session does not exist, the daemon is lost at the start, standard input is not text, standard output is
/// closed, or the user left while a turn was running.
pub(crate) async fn run(
    daemon: Daemon,
    place: SessionTarget,
    mut first: Option<String>,
    command_line: CommandLine,
) -> anyhow::Result<Exit> {
    let present = io::stdin().is_terminal() && io::stderr().is_terminal();
    let keyboard = Keyboard::of_terminal();
    let known = CompletionCache::default();
    if present && !is_plain() {
        let history = daemon::data_dir().ok().map(|folder| folder.join("history"));
        keyboard.typed(|typed| {
            history.iter().for_each(|path| typed.composer.open_history(path));
            typed.composer.set_completer(Box::new(Completions(known.clone())));
        });
    }
    if let Some(first) = first.take_if(|_| present) {
        keyboard.typed(|typed| {
            typed.composer.remember(&first);
            typed.defer(first);
        });
    }
    let mut lines: Box<dyn Lines> = if present && is_plain() {
        Box::new(PlainLines::new(keyboard.clone()))
    } else if present {
        Box::new(Prompt::new(keyboard.clone(), known.clone()))
    } else {
        Box::new(StdinLines::open(first)?)
    };
    let mut chat = Chat::open(daemon, place, present.then_some(keyboard), known, command_line).await?;
    let exit = conversation::hold(lines.as_mut(), &mut chat, present).await;
    chat.farewell().await;
    exit
}
