//! Drives one turn: events go to a [`Renderer`], interrupts to an [`Asker`], Ctrl-C to the daemon.

use std::io;

use agentd_core::{
    event::Event,
    interrupt::{Answer, Interrupt},
    turn::TurnResult,
};
use futures_util::future::BoxFuture;

/// Shows a turn as it happens. Calls come in the order of the events; each event comes once.
pub(crate) trait Renderer: Send {
    /// Shows one event. `TurnEnded` comes here too, before [`Renderer::finish`].
    ///
    /// # Errors
    /// When nothing can be written any more; a broken pipe ends the client quietly.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Shows what the turn came to. Nothing follows.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn finish(&mut self, result: &TurnResult) -> io::Result<()>;
}

/// Asks the person who sits before this client.
pub(crate) trait Asker: Send {
    /// Asks until there is an answer that fits ([`Answer::misfit`]). None leaves the interrupt pending, for another
    /// client or another day.
    ///
    /// The future is dropped before it is done when another client answered or the turn ended: it then takes its
    /// question off the screen and leaves the terminal as it found it. The renderer is not called while it runs.
    fn ask<'a>(&'a mut self, interrupt: &'a Interrupt) -> BoxFuture<'a, Option<Answer>>;
}
