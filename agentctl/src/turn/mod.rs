//! Follows turns for `run`, `attach` and `chat`.
//!
//! - [`mod@line`]: the connection to one turn: events, answers and cancellations. A broken connection is resumed after
//!   the last event. Events of subagents are interleaved with those of their parent session.
//! - [`mod@drive`]: passes events to a [`Renderer`], interrupts to an [`Asker`] and Ctrl-C to the daemon. Text typed
//!   while the turn runs is stored ([`crate::keyboard`]).
//! - [`ForeseeingAsker`]: previews the effect of an edited call and asks for confirmation.
//! - [`aside`]: side questions beside the turn.
//! - [`signals`]: Ctrl-C and termination signals as a future.
//! - [`BuiltinNotice`]: warns the user that answers come from the small built-in model, whose abilities are easily
//!   overestimated.

pub(crate) mod aside;
mod drive;
pub(crate) mod line;
pub(crate) mod signals;

use std::io;

use agentd_core::{
    event::{Event, EventKind},
    interrupt::{Answer, Ask, Interrupt},
    model::{ModelInfo, SlotInfo},
    session::SessionMode,
    turn::TurnResult,
};
use agentd_proto::client::Client;
use futures_util::future::BoxFuture;

use crate::{
    daemon::{Daemon, ShellNote},
    failure::Failure,
    keyboard::TypeAhead,
};

pub(crate) use aside::{ASIDE_CANCELLED, ASIDE_CUT, Aside, Asides, Destination};
pub(crate) use drive::{Person, STATUS_INTERVAL, drive};
pub(crate) use line::{Arrival, Line, SocketLine};
pub(crate) use signals::{AtEnd, Signals};

/// Message about a lost connection.
pub(crate) const LOST: &str = "the connection to the daemon was lost; waiting for it to come back";

/// Shows a turn as it happens. Methods are called in the order of events; each event is delivered once.
///
/// A wrapper around another renderer must override [`Renderer::inner`]; otherwise, calls that it does not handle are
/// lost.
pub(crate) trait Renderer: Send {
    /// Returns the wrapped renderer, which receives all calls that this renderer does not handle.
    fn inner(&mut self) -> Option<&mut dyn Renderer> {
        None
    }

    /// Shows one event. `TurnEnded` is also passed here, before [`Renderer::finish`].
    ///
    /// # Errors
    /// Fails if the output cannot be written; a broken pipe ends the client without a message.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Shows one event of a subagent, if enabled by [`SocketLine::with_children`].
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn child(&mut self, event: &Event) -> io::Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.child(event))
    }

    /// Shows the result of the turn. No events of the turn follow.
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn finish(&mut self, result: &TurnResult) -> io::Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.finish(result))
    }

    /// Clears animations from the screen, because the turn continues without this client.
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn leave(&mut self) -> io::Result<()> {
        self.inner().map_or(Ok(()), Renderer::leave)
    }

    /// Clears animations, because a question is about to be shown on the same screen.
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn pause(&mut self) -> io::Result<()> {
        self.inner().map_or(Ok(()), Renderer::pause)
    }

    /// Shows text typed while the turn runs, if there is space for it.
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn typed(&mut self, typed: &TypeAhead) -> io::Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.typed(typed))
    }

    /// Takes the number of questions that wait after the one on the screen.
    fn set_waiting_questions(&mut self, number: usize) {
        if let Some(inner) = self.inner() {
            inner.set_waiting_questions(number);
        }
    }

    /// Draws the lines at the bottom again after the process was stopped, because the cursor may be anywhere.
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn redraw(&mut self) -> io::Result<()> {
        self.inner().map_or(Ok(()), Renderer::redraw)
    }

    /// Shows that the connection to the daemon is lost.
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn lost(&mut self) -> io::Result<()> {
        match self.inner() {
            Some(inner) => inner.lost(),
            None => self.note(LOST),
        }
    }

    /// Shows a side question with its answer, once no other text is in progress.
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn aside(&mut self, aside: Aside) -> io::Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.aside(aside))
    }

    /// Shows one line of the client. The text is trusted and not sanitized.
    ///
    /// # Errors
    /// As for [`Renderer::event`].
    fn note(&mut self, text: &str) -> io::Result<()> {
        use io::Write as _;
        match self.inner() {
            Some(inner) => inner.note(text),
            None => writeln!(anstream::stderr(), "{text}"),
        }
    }
}

/// Asks the user of this client.
pub(crate) trait Asker: Send {
    /// Asks until the answer is valid ([`Answer::misfit`]). `None` leaves the interrupt pending, for another client or
    /// for later.
    ///
    /// The future is dropped early if another client answered or the turn ended. Dropping it must remove the question
    /// from the screen and restore the terminal. The renderer is not called while the future runs.
    fn ask<'a>(&'a mut self, interrupt: &'a Interrupt) -> BoxFuture<'a, Option<Answer>>;

    /// Returns true if postponing an answer also leaves the turn.
    fn leaves(&self) -> bool {
        false
    }
}

/// Asks no questions: interrupts remain pending for other clients.
#[derive(Debug, Default)]
pub(crate) struct NonInteractive;

impl Asker for NonInteractive {
    fn ask<'a>(&'a mut self, _: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(std::future::ready(None))
    }
}

/// Maximum number of hint lines about this shell's environment.
const MAX_NOTES: usize = 2;

/// Returns a notice about the built-in model, with hints for using a better model, based on variables that are already
/// set.
pub(crate) fn builtin_notice(daemon: &Daemon) -> String {
    let intro = "This is the small built-in model: it runs without a network and makes mistakes.";
    let notes: Vec<String> = daemon.shell_notes(true).iter().take(MAX_NOTES).map(ShellNote::line).collect();
    if !notes.is_empty() {
        return format!("{intro}\n{}", notes.join("\n"));
    }
    format!(
        "{intro}\nFor a better one set MODEL_BASIC_BASE_URL (and MODEL_BASIC_API_KEY) or name one in models.yaml, \
         and restart the daemon: agentctl stop."
    )
}

/// Renderer that shows a notice before the first turn of the built-in model.
pub(crate) struct BuiltinNotice {
    inner: Box<dyn Renderer>,
    builtin: Vec<ModelInfo>,
    /// The notice; `None` after it was shown.
    notice: Option<String>,
}

impl BuiltinNotice {
    /// Wraps a renderer; `slots` are the models as listed by the daemon.
    pub(crate) fn new(inner: Box<dyn Renderer>, slots: Vec<SlotInfo>, daemon: &Daemon) -> Self {
        let builtin: Vec<_> = slots.into_iter().map(|slot| slot.model).filter(|model| model.embedded).collect();
        let notice = (!builtin.is_empty()).then(|| builtin_notice(daemon));
        Self { inner, builtin, notice }
    }
}

impl Renderer for BuiltinNotice {
    fn inner(&mut self) -> Option<&mut dyn Renderer> {
        Some(self.inner.as_mut())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::TurnStarted { model, .. } = &event.kind
            && self.builtin.iter().any(|builtin| builtin.id == *model)
            && let Some(notice) = self.notice.take()
        {
            self.inner.note(&notice)?;
        }
        self.inner.event(event)
    }
}

/// Asker that previews an edited call before it is sent as the answer.
pub(crate) struct ForeseeingAsker<A> {
    asker: A,
    client: Client,
}

impl<A: Asker> ForeseeingAsker<A> {
    /// Wraps an asker; `client` requests the previews.
    pub(crate) fn new(asker: A, client: Client) -> Self {
        Self { asker, client }
    }

    async fn decide(&mut self, interrupt: &Interrupt) -> Option<Answer> {
        let mut shown = interrupt.clone();
        // Edited arguments whose preview is being shown.
        let mut edited = None;
        loop {
            let answer = self.asker.ask(&shown).await?;
            match (answer, &edited) {
                (Answer::Edit { args }, _) => match self.client.foresee(interrupt.id, &args).await {
                    Ok(mut ask) => {
                        // The edited call comes from the user.
                        if let Ask::Approval { reason, .. } = &mut ask {
                            *reason = if reason.is_empty() { EDITED.to_owned() } else { format!("{EDITED}; {reason}") };
                        }
                        shown.ask = ask;
                        edited = Some(args);
                    }
                    // If the preview fails, the question is repeated with the unchanged preview.
                    Err(error) => {
                        let Failure { message, hint, .. } = Failure::from(error);
                        crate::terminal::note(&message);
                        hint.iter().for_each(|hint| crate::terminal::note(&format!("hint: {hint}")));
                    }
                },
                (Answer::Approve, Some(args)) => return Some(Answer::Edit { args: args.clone() }),
                (answer, _) => return Some(answer),
            }
        }
    }
}

impl<A: Asker> Asker for ForeseeingAsker<A> {
    fn ask<'a>(&'a mut self, interrupt: &'a Interrupt) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(self.decide(interrupt))
    }

    fn leaves(&self) -> bool {
        self.asker.leaves()
    }
}

/// Returns a message about a changed mode.
pub(crate) fn mode_note(mode: SessionMode) -> String {
    format!("mode: {mode} · {}", mode.description())
}

/// Awaits the future, or waits forever if there is none.
pub(crate) async fn or_never<T>(something: Option<impl Future<Output = T>>) -> T {
    match something {
        Some(something) => something.await,
        None => std::future::pending().await,
    }
}

/// Reason shown for a call that the user edited.
pub(crate) const EDITED: &str = "you edited the call; this would run now";
