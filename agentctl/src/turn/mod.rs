//! Turns as a client lives through them, shared by `run`, `attach` and `chat`.
//!
//! - [`mod@line`]: the line to one turn. Events come in, answers and cancels go out, and a line that broke is taken
//!   up again where it was. Events of subagents come between those of the session for which they work.
//! - [`mod@drive`]: events go to a [`Renderer`], interrupts to an [`Asker`], Ctrl-C to the daemon; what is typed meanwhile is
//!   kept ([`crate::keyboard`]).
//! - [`ForeseeingAsker`]: what an edit would do is shown before it is the answer, with another yes or no.
//! - [`signals`]: Ctrl-C and other ways to be told to end, as something to wait for.
//! - [`BuiltinNotice`]: tells the person when the small built-in model answers, because it is easily taken for more than it is.

mod drive;
pub(crate) mod line;
pub(crate) mod signals;

use std::io;

use agentd_core::{
    event::{Event, EventKind},
    interrupt::{Answer, Ask, Interrupt},
    model::{ModelInfo, SlotInfo},
    turn::TurnResult,
};
use agentd_proto::client::Client;
use futures_util::future::BoxFuture;

use crate::{
    daemon::{Daemon, ShellNote},
    failure::Failure,
    keyboard::TypeAhead,
};

pub(crate) use drive::{Person, drive, mode_note};
pub(crate) use line::{Arrival, Line, SocketLine};
pub(crate) use signals::{AtEnd, Signals};

/// Said when the daemon is gone.
pub(crate) const LOST: &str = "the connection to the daemon was lost; waiting for it to come back";

/// Shows a turn as it happens. Calls come in the order of the events; each event comes once.
///
/// A renderer around another one overrides [`Renderer::inner`]: without it, what it does not take itself is lost.
pub(crate) trait Renderer: Send {
    /// The renderer around which this one is: it gets all calls that this one does not take.
    fn inner(&mut self) -> Option<&mut dyn Renderer> {
        None
    }

    /// Shows one event. `TurnEnded` comes here too, before [`Renderer::finish`].
    ///
    /// # Errors
    /// When nothing can be written any more; a broken pipe ends the client quietly.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Shows one event of a subagent, where those are wanted ([`SocketLine::with_children`]).
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn child(&mut self, event: &Event) -> io::Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.child(event))
    }

    /// Shows what the turn came to. Nothing of the turn follows.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn finish(&mut self, result: &TurnResult) -> io::Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.finish(result))
    }

    /// Takes everything that moves off the screen: the turn goes on unseen.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn leave(&mut self) -> io::Result<()> {
        self.inner().map_or(Ok(()), Renderer::leave)
    }

    /// Takes away what moves, for a question follows on the same screen.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn pause(&mut self) -> io::Result<()> {
        self.inner().map_or(Ok(()), Renderer::pause)
    }

    /// Shows what is typed while the turn runs, where there is a place for it.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn typed(&mut self, typed: &TypeAhead) -> io::Result<()> {
        self.inner().map_or(Ok(()), |inner| inner.typed(typed))
    }

    /// Tells that the daemon is gone and waited for.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn lost(&mut self) -> io::Result<()> {
        match self.inner() {
            Some(inner) => inner.lost(),
            None => self.note(LOST),
        }
    }

    /// Shows one line of the client itself, such as that the daemon is gone and waited for. The text is ours.
    ///
    /// # Errors
    /// As [`Renderer::event`].
    fn note(&mut self, text: &str) -> io::Result<()> {
        use io::Write as _;
        match self.inner() {
            Some(inner) => inner.note(text),
            None => writeln!(anstream::stderr(), "{text}"),
        }
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

/// The most that is said of this shell's environment, in lines.
const MOST_NOTES: usize = 2;

/// Notice about the built-in model, and how to get a better one: with what is set already, where something is.
pub(crate) fn builtin_notice(daemon: &Daemon) -> String {
    let is = "This is the small built-in model: it runs without a network and makes mistakes.";
    let notes: Vec<String> = daemon.shell_notes(true).iter().take(MOST_NOTES).map(ShellNote::line).collect();
    if !notes.is_empty() {
        return format!("{is}\n{}", notes.join("\n"));
    }
    format!(
        "{is}\nFor a better one set MODEL_BASIC_BASE_URL (and MODEL_BASIC_API_KEY) or name one in models.yaml, and restart the \
         daemon: agentctl stop."
    )
}

/// Says it before the first turn that the built-in model answers.
pub(crate) struct BuiltinNotice {
    inner: Box<dyn Renderer>,
    builtin: Vec<ModelInfo>,
    /// None once it was said.
    notice: Option<String>,
}

impl BuiltinNotice {
    /// Around a renderer, with the models as the daemon lists them.
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

/// An asker whose edits are shown before they are given.
pub(crate) struct ForeseeingAsker<A> {
    asker: A,
    client: Client,
}

impl<A: Asker> ForeseeingAsker<A> {
    /// Asks by this asker, and the daemon of this client what an edit would do.
    pub(crate) fn new(asker: A, client: Client) -> Self {
        Self { asker, client }
    }

    async fn decide(&mut self, interrupt: &Interrupt) -> Option<Answer> {
        let mut shown = interrupt.clone();
        // The arguments of which the person is shown what they would do, where these are no longer the model's.
        let mut edited = None;
        loop {
            let answer = self.asker.ask(&shown).await?;
            match (answer, &edited) {
                (Answer::Edit { args }, _) => match self.client.foresee(interrupt.id, &args).await {
                    Ok(mut ask) => {
                        // The call is the person's own by now.
                        if let Ask::Approval { reason, .. } = &mut ask {
                            *reason = if reason.is_empty() { EDITED.to_owned() } else { format!("{EDITED}; {reason}") };
                        }
                        shown.ask = ask;
                        edited = Some(args);
                    }
                    // It is asked again, as it stood.
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

/// Waits for something, or for ever where there is nothing to wait for.
pub(crate) async fn or_never<T>(something: Option<impl Future<Output = T>>) -> T {
    match something {
        Some(something) => something.await,
        None => std::future::pending().await,
    }
}

/// Said of a call that is the person's own by now.
pub(crate) const EDITED: &str = "you changed it, and this is what would run now";
