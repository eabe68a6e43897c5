//! The conversation at a terminal, and the same for scripts that pipe lines in.
//!
//! - [`conversation`]: the loop, which knows neither terminal nor daemon. Lines come from [`editor`] where a
//!   person sits and from [`stdin`] elsewhere; [`slash`] tells commands from text.
//! - [`chat`]: what the loop does over the daemon's socket: turns, commands, moving between sessions.
//! - [`mentions`]: files that a text names with `#`, handed over with it.
//! - [`asker`]: approvals and questions; [`question`] is how they look and which key means what,
//!   [`console`] where keys come from.

mod asker;
mod chat;
mod console;
mod conversation;
mod editor;
mod mentions;
mod question;
mod slash;
mod stdin;

use std::io::{self, IsTerminal as _};

use agentd_core::model::Slot;

pub(crate) use asker::TerminalAsker;

use self::{
    chat::Chat,
    conversation::Lines,
    editor::{Editor, Known},
    stdin::StdinLines,
};
use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    render::look::Look,
    session::Place,
};

/// Holds a conversation until its input ends.
///
/// # Errors
/// When the session that was named is not there, the daemon is lost at the start, standard input is no text,
/// standard output is closed, or the person left while a turn was running.
pub(crate) async fn run(daemon: Daemon, place: Place, slot: Option<Slot>) -> anyhow::Result<Exit> {
    let present = io::stdin().is_terminal() && io::stderr().is_terminal();
    let known = Known::default();
    let mut lines: Box<dyn Lines> = if present {
        // A person without a history is better off than one without a conversation.
        let history = daemon::data_dir().ok().map(|folder| folder.join("history"));
        Box::new(Editor::open(history.as_deref(), known.clone(), Look::detect().out_color)?)
    } else {
        Box::new(StdinLines::open()?)
    };
    let mut chat = Chat::open(daemon, place, slot, present, known).await?;
    let exit = conversation::hold(lines.as_mut(), &mut chat, present).await;
    chat.farewell();
    exit
}
