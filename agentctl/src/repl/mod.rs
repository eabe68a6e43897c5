//! The conversation at a terminal, and the same for scripts that pipe lines in.
//!
//! - [`conversation`]: the loop, which knows neither terminal nor daemon. Lines come from [`prompt`] where a
//!   person sits and from [`stdin`] elsewhere; [`slash`] tells commands from text.
//! - [`chat`]: what the loop does over the daemon's socket: turns and what waits; [`commands`] are the slash commands,
//!   [`uploads`] the files that go with what is said, [`message`] all that does.
//! - [`help`], [`overview`], [`copy`], [`diff`]: its commands that tell. [`shell`]: `!`, a command of the person's.
//! - [`own_commands`]: commands of the person's and the project's own. [`prepared`]: turns with their prompts, and `/init`.
//!   [`trusting`]: what the project brings along, and `/trust`.
//! - [`btw`]: side questions. [`advice`]: the greeting, and what stands below it.
//! - [`replay`]: the last turns of a session that is taken up.
//! - [`moving`]: its commands that go to other sessions, [`picker`] a list to choose from, which [`choice`] opens.
//! - [`history`]: its commands that compact and undo, [`rewind`] the one that goes back. [`show`]: the one that shows a result whole.
//! - [`completion`]: what the prompt completes. [`own_editor`]: the person's editor. [`modes`]: `/mode`. [`models`]: `/model`.
//!   [`clipboard`]: pictures that are pasted.
//! - [`plain`]: prompt and questions on a terminal that obeys nothing.
//! - [`known`]: what the prompt completes and shows besides the commands.
//! - [`watch`]: finds out when another client's turn is at work in the session, [`joining`] shows it and speaks to it.
//! - [`mentions`]: completion of names behind `@` and `#`, and the files that a session has.
//! - [`asker`]: approvals and questions; [`question`] is how they look and which key means what, [`edit`] changes a call,
//!   [`console`] where its keys come from, [`pager`] what shows the long ones whole.

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

/// Holds a conversation until its input ends. `first` is said before all else.
///
/// # Errors
/// When the session that was named is not there, the daemon is lost at the start, standard input is no text,
/// standard output is closed, or the person left while a turn was running.
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
