//! Turns as a client lives through them, shared by `run`, `attach` and `chat`.
//!
//! - [`mod@line`]: the line to one turn. Events come in, answers and cancels go out, and a line that broke is taken
//!   up again where it was.
//! - [`mod@drive`]: events go to a [`Renderer`], interrupts to an [`Asker`], Ctrl-C to the daemon; what is typed meanwhile is
//!   kept ([`crate::keyboard`]).
//! - `foreseen`: what an edit would do is shown before it is the answer.
//! - `children`: the events of subagents, between those of the session for which they work.
//! - [`signals`]: Ctrl-C and other ways to be told to end, as something to wait for.
//! - [`builtin`]: tells the person when the small built-in model answers.

use std::io;

use agentd_core::{
    event::Event,
    interrupt::{Answer, Interrupt},
    turn::TurnResult,
};
use futures_util::future::BoxFuture;

use crate::keyboard::TypeAhead;

pub(crate) mod builtin;
mod children;
mod drive;
pub(crate) mod foreseen;
pub(crate) mod line;
pub(crate) mod signals;

pub(crate) use drive::{Person, drive, mode_note};
pub(crate) use foreseen::ForeseeingAsker;
pub(crate) use line::{Arrival, Line, SocketLine};
pub(crate) use signals::{AtEnd, Signals};

/// Said when the daemon is gone.
pub(crate) const LOST: &str = "the connection to the daemon was lost; waiting for it to come back";

/// Shows a turn as it happens. Calls come in the order of the events; each event comes once.
pub(crate) trait Renderer: Send {
    /// Shows one event. `TurnEnded` comes here too, before [`Renderer::finish`].
    ///
    /// # Errors
    /// When nothing can be written any more; a broken pipe ends the client quietly.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Shows one event of a subagent, where those are wanted ([`SocketLine::with_children`]).
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn child(&mut self, _: &Event) -> io::Result<()> {
        Ok(())
    }

    /// Shows what the turn came to. Nothing of the turn follows.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn finish(&mut self, result: &TurnResult) -> io::Result<()>;

    /// Takes everything that moves off the screen: the turn goes on unseen.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn leave(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Takes away what moves, for a question follows on the same screen. Without a default, so that no renderer around
    /// another one forgets to pass it on.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn pause(&mut self) -> io::Result<()>;

    /// Shows what is typed while the turn runs, where there is a place for it.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn typed(&mut self, _: &TypeAhead) -> io::Result<()> {
        Ok(())
    }

    /// Tells that the daemon is gone and waited for.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn lost(&mut self) -> io::Result<()> {
        self.note(LOST)
    }

    /// Shows one line of the client itself, such as that the daemon is gone and waited for. The text is ours.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn note(&mut self, text: &str) -> io::Result<()> {
        use io::Write as _;
        writeln!(anstream::stderr(), "{text}")
    }
}

/// Asks the person who sits before this client.
pub(crate) trait Asker: Send {
    /// Asks until there is an answer that fits ([`Answer::misfit`]). None leaves the interrupt pending, for another
    /// client or another day.
    ///
    /// The future is dropped before it is done when another client answered or the turn ended: it then takes its
    /// question off the screen and leaves the terminal as it found it. The renderer is not called while it runs.
    fn ask<'a>(&'a mut self, interrupt: &'a Interrupt) -> BoxFuture<'a, Option<Answer>>;

    /// Returns whether the turn is left to wait, and no longer followed, when the person puts an answer off.
    fn leaves(&self) -> bool {
        false
    }
}

/// Asks nobody: interrupts stay pending, and other clients answer them.
#[derive(Debug, Default)]
pub(crate) struct NonInteractive;

impl Asker for NonInteractive {
    fn ask<'a>(&'a mut self, _: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(std::future::ready(None))
    }
}
