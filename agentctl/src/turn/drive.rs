//! The loop of a client around one turn.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind, StateChange},
    grant::GrantScope,
    ids::InterruptId,
    interrupt::{Answer, AnsweredBy, Ask, Interrupt},
    item::ItemBody,
    session::SessionMode,
    turn::{StopReason, TurnResult},
    visible,
};
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    Asker, Renderer, Signals,
    line::{Arrival, Line},
    or_never,
    signals::EndSignal,
};
use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    keyboard::{Key, Keyboard, TypeAhead, typed::STILLNESS},
    report::short_id,
    terminal::{attention::Attention, sanitize::clean_line},
};

/// Maximum number of events that are stored while a person thinks. Beyond it pieces of text are dropped: the items come
/// whole later.
const BACKLOG: usize = 10_000;

/// Leaves a turn of somebody else's, where it is all that is typed.
const LEAVE: &str = "q";

/// The time after which a person may have turned to something else.
const LONG_TURN: Duration = Duration::from_secs(10);

/// The time that a turn may take to end when the client was told to. Those who supervise it kill it some time after.
const END_PATIENCE: Duration = Duration::from_secs(8);

/// The time for which words to the turn are waited for once the client was told to end.
const STEER_PATIENCE: Duration = Duration::from_secs(2);

/// The person before the client, as far as they can reach it while a turn runs.
pub(crate) struct Person<'a> {
    pub(crate) asker: &'a mut dyn Asker,
    pub(crate) signals: &'a mut Signals,
    pub(crate) keyboard: &'a Keyboard,
    /// The words that may be added to the turn as they are; others wait for its end.
    pub(crate) may_steer: fn(&str) -> bool,
    /// The way in which they are called when they are asked something, and when a long turn ends.
    pub(crate) attention: Attention,
    /// The turn is somebody else's: Ctrl-C asks before it cancels it, and Ctrl-D or `q` leaves it.
    pub(crate) is_guest: bool,
}

/// Follows a turn until it has ended, and hands back what it came to.
///
/// The first Ctrl-C cancels the turn and goes on reading, because the turn's end tells what was done; the second one
/// leaves. Esc cancels too, and never leaves. Other signals do as [`Signals`] says. None is returned where the line ended
/// without the turn's end: nothing was running, the person left a turn of somebody else's, or put an answer off and has
/// something else to do ([`Asker::leaves`]).
///
/// # Errors
/// A [`Failure`] when the daemon is lost or refuses, or the person left; an [`std::io::Error`] of the renderer.
pub(crate) async fn drive<L: Line>(
    line: &mut L,
    renderer: &mut dyn Renderer,
    person: Person<'_>,
) -> anyhow::Result<Option<TurnResult>> {
    let Person { asker, signals, keyboard, may_steer, attention, is_guest } = person;
    let hold = keyboard.hold_ahead();
    let mut driver = Driver {
        line,
        signals,
        keyboard,
        shows_keys: hold.is_some(),
        may_steer,
        attention,
        begun: Instant::now(),
        unconfirmed: is_guest,
        is_guest,
        backlog: VecDeque::new(),
        asked: HashSet::new(),
        cancelled: false,
        deaf_until: None,
        due: None,
        leaving: None,
    };
    let followed = driver.follow(renderer, asker).await;
    if followed.is_ok() {
        signals.set_stopping(false);
    }
    drop(hold);
    keyboard.typed(TypeAhead::end_turn);
    if followed.is_err() {
        // What moves must not outlive the turn; why it ends is told by the failure.
        let _ = renderer.leave();
    }
    followed
}

struct Driver<'a, L> {
    line: &'a mut L,
    signals: &'a mut Signals,
    keyboard: &'a Keyboard,
    /// Keys are read all the time, not for questions only.
    shows_keys: bool,
    may_steer: fn(&str) -> bool,
    attention: Attention,
    begun: Instant,
    is_guest: bool,
    /// A Ctrl-C cancels nothing yet: it asks for another one.
    unconfirmed: bool,
    /// Events that came while a person was asked.
    backlog: VecDeque<Event>,
    /// Questions asked here, so that a line that was reconnected asks nothing twice.
    asked: HashSet<InterruptId>,
    /// Set once the turn was told to end.
    cancelled: bool,
    /// Until when Esc is not for the turn: a question has just gone away.
    deaf_until: Option<Instant>,
    /// Until when it may take to end.
    due: Option<Instant>,
    /// When the turn is left, if the line is still the `q` that was typed.
    leaving: Option<Instant>,
}

impl<L: Line> Driver<'_, L> {
    async fn follow(
        &mut self,
        renderer: &mut dyn Renderer,
        asker: &mut dyn Asker,
    ) -> anyhow::Result<Option<TurnResult>> {
        // What was typed before the turn had begun is for it.
        self.steer(renderer).await?;
        let mut last = None;
        while let Some(event) = self.next(renderer).await? {
            renderer.event(&event)?;
            match event.kind {
                EventKind::ItemCompleted { item, .. }
                    if matches!(item.body, ItemBody::UserMessage { steered: true, .. }) =>
                {
                    self.keyboard.typed(TypeAhead::read);
                    self.show_typed(renderer);
                }
                EventKind::StateChanged { change: StateChange::Withdrawn { input, added, .. } } if self.cancelled => {
                    self.keyboard.typed(|typed| typed.withdraw(input, added));
                }
                EventKind::TurnEnded { result } => {
                    let is_ours = self.cancelled || !self.line.ends_with(result.turn_id);
                    if result.stop_reason == StopReason::Cancelled && !is_ours {
                        renderer.note("the turn was cancelled from elsewhere")?;
                    }
                    renderer.finish(&result)?;
                    let is_last = self.line.ends_with(result.turn_id);
                    last = Some(*result);
                    if is_last {
                        if self.begun.elapsed() >= LONG_TURN {
                            self.attention.call("agentd: the turn has ended");
                        }
                        break;
                    }
                }
                EventKind::InterruptRaised { interrupt } => {
                    let is_settled = self.ask(&interrupt, renderer, asker).await?;
                    if !is_settled && asker.leaves() {
                        renderer.leave()?;
                        renderer.note("the turn waits; /interrupts asks again")?;
                        return Ok(None);
                    }
                    self.steer(renderer).await?;
                }
                _ => {}
            }
        }
        Ok(last)
    }

    /// The next event, older ones first.
    async fn next(&mut self, renderer: &mut dyn Renderer) -> anyhow::Result<Option<Event>> {
        if let Some(event) = self.backlog.pop_front() {
            return Ok(Some(event));
        }
        loop {
            tokio::select! {
                // In this order, so that a stream that never pauses cannot drown Ctrl-C, nor the keys.
                biased;
                signal = self.signals.next() => self.told_to_end(signal, renderer).await?,
                () = or_never(self.due.map(sleep_until)) => return Err(self.left("the turn has not ended in time").into()),
                () = or_never(self.leaving.map(sleep_until)) => {
                    self.leaving = None;
                    if self.keyboard.typed(|typed| typed.take_if(LEAVE)) {
                        return self.leave(renderer);
                    }
                }
                press = self.keyboard.next() => match press.key {
                    Key::Escape if self.cancelled || self.deaf_until.is_some_and(|until| Instant::now() < until) => {}
                    Key::Escape => self.told_to_end(EndSignal::Interrupt, renderer).await?,
                    Key::Leave if self.is_guest && !self.keyboard.typed(|typed| typed.is_writing()) => {
                        return self.leave(renderer);
                    }
                    Key::Enter if self.is_guest && self.keyboard.typed(|typed| typed.take_if(LEAVE)) => {
                        return self.leave(renderer);
                    }
                    Key::Mode => self.next_mode(renderer).await?,
                    _ => {
                        let is_leave = self.is_guest && press.key == Key::Char('q');
                        let is_alone = is_leave && !self.keyboard.typed(|typed| typed.is_writing());
                        // The first letter of a message, unless nothing follows.
                        self.leaving = is_alone.then(|| Instant::now() + STILLNESS);
                        self.keyboard.typed(|typed| typed.press(press));
                        self.steer(renderer).await?;
                    }
                },
                arrival = self.line.next() => match arrival? {
                    Some(Arrival::Event(event)) => return Ok(Some(*event)),
                    Some(Arrival::Child(event)) => renderer.child(&event)?,
                    // None is held here.
                    Some(Arrival::FileRequested(..)) => {}
                    Some(Arrival::Note(note)) => renderer.note(&note)?,
                    Some(Arrival::Lost) => renderer.lost()?,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Leaves a turn that goes on.
    fn leave(&self, renderer: &mut dyn Renderer) -> anyhow::Result<Option<Event>> {
        renderer.leave()?;
        renderer.note(&format!("left; the turn continues: {}", self.line.attach_command()))?;
        Ok(None)
    }

    /// Gives the turn what was typed for it. What it does not take waits for its end.
    async fn steer(&mut self, renderer: &mut dyn Renderer) -> anyhow::Result<()> {
        while let Some(text) = self.keyboard.typed(TypeAhead::next_steer) {
            self.give(text, renderer).await?;
        }
        self.show_typed(renderer);
        Ok(())
    }

    /// A terminal that takes no words is found out by the next event.
    fn show_typed(&self, renderer: &mut dyn Renderer) {
        if self.shows_keys {
            self.keyboard.typed(|typed| renderer.typed(typed).ok());
        }
    }

    async fn give(&mut self, text: String, renderer: &mut dyn Renderer) -> anyhow::Result<()> {
        let (mut given, mut heard) = (false, None);
        if !self.cancelled && (self.may_steer)(&text) {
            let mut steer = std::pin::pin!(self.line.steer(text.clone()));
            tokio::select! {
                biased;
                signal = self.signals.next() => heard = Some(signal),
                taken = &mut steer => given = taken.is_ok(),
            }
            if heard.is_some() {
                // The daemon may have it already: what was not heard of would be said twice.
                given = timeout(STEER_PATIENCE, steer).await.is_ok_and(|taken| taken.is_ok());
            }
        }
        self.keyboard.typed(|typed| if given { typed.given(text) } else { typed.defer(text) });
        match heard {
            Some(signal) => self.told_to_end(signal, renderer).await,
            None => Ok(()),
        }
    }

    /// Sets the session to its next mode. It holds for the turn's next call.
    async fn next_mode(&mut self, renderer: &mut dyn Renderer) -> anyhow::Result<()> {
        tokio::select! {
            biased;
            signal = self.signals.next() => self.told_to_end(signal, renderer).await,
            set = self.line.next_mode() => Ok(renderer.note(&match set {
                Ok(mode) => mode_note(mode),
                Err(failure) => format!("the mode was not changed: {failure}"),
            })?),
        }
    }

    /// Cancels the turn, or leaves it: where that was done before, or the turn is to go on.
    async fn told_to_end(&mut self, signal: EndSignal, renderer: &mut dyn Renderer) -> anyhow::Result<()> {
        if self.cancelled {
            return Err(self.left("left before the turn had ended").into());
        }
        if signal == EndSignal::Interrupt && std::mem::take(&mut self.unconfirmed) {
            renderer.note("Ctrl-C again cancels the turn; Ctrl-D or q leaves it running")?;
            return Ok(());
        }
        if !self.signals.at_end.cancels(signal) {
            anyhow::bail!(Failure {
                exit: signal.exit(),
                kind: ErrorKind::Conflict,
                message: "detached; the turn continues".to_owned(),
                hint: Some(format!("follow it with `{}`", self.line.attach_command())),
            });
        }
        self.cancelled = true;
        self.signals.set_stopping(true);
        renderer.note(match signal {
            EndSignal::Interrupt => "cancelling the turn; Ctrl-C again leaves at once",
            EndSignal::Terminate | EndSignal::HangUp => {
                self.due = Some(Instant::now() + END_PATIENCE);
                "ending: cancelling the turn"
            }
        })?;
        // A line that is broken right now is taken up again by `next`, and cancels then.
        self.line.cancel().await;
        Ok(())
    }

    /// The client ends before its turn, which was told to.
    fn left(&self, why: &str) -> Failure {
        Failure {
            exit: self.signals.exit(Exit::Cancelled),
            kind: ErrorKind::Conflict,
            message: why.to_owned(),
            hint: Some(format!("it is being cancelled; see how it ended with `{}`", self.line.attach_command())),
        }
    }

    /// Hands the person's answer on, and tells whether it is settled with that. An answer that comes too late is no
    /// failure of the turn; one that the daemon will not have, such as an edit that the rules deny, is no answer yet.
    async fn answer(
        &mut self,
        interrupt: &Interrupt,
        answer: Answer,
        renderer: &mut dyn Renderer,
    ) -> anyhow::Result<bool> {
        let Err(failure) = self.line.answer(interrupt.id, answer).await else { return Ok(true) };
        let id = short_id(interrupt.id);
        renderer.note(&match failure.kind {
            ErrorKind::Conflict | ErrorKind::NotFound => format!("not needed any more: {failure}"),
            ErrorKind::InvalidInput => format!("answer refused: {failure}"),
            _ => format!("answer refused: {failure}; give it with `agentctl answer {id} …`"),
        })?;
        Ok(failure.kind != ErrorKind::InvalidInput)
    }

    /// Asks the person, unless somebody else answers first. False where they left the question open.
    async fn ask(
        &mut self,
        interrupt: &Interrupt,
        renderer: &mut dyn Renderer,
        asker: &mut dyn Asker,
    ) -> anyhow::Result<bool> {
        if self.cancelled
            || self.backlog.iter().any(|event| settles(event, interrupt))
            || !self.asked.insert(interrupt.id)
            || !self.line.is_pending(interrupt.id).await
        {
            return Ok(true);
        }
        self.attention.call(&match &interrupt.ask {
            Ask::Approval { tool, .. } => format!("agentd: may {tool} run?"),
            Ask::Question { question, .. } => format!("agentd: {question}"),
        });
        let mut asking = asker.ask(interrupt);
        loop {
            tokio::select! {
                biased;
                signal = self.signals.next() => {
                    drop(asking);
                    self.told_to_end(signal, renderer).await?;
                    return Ok(true);
                }
                // The row of the question tells of it.
                text = self.keyboard.next_steer() => self.give(text, renderer).await?,
                answer = &mut asking => {
                    drop(asking);
                    let Some(answer) = answer else { return Ok(false) };
                    if self.answer(interrupt, answer, renderer).await? {
                        return Ok(true);
                    }
                    renderer.pause()?;
                    asking = asker.ask(interrupt);
                }
                arrival = self.line.next() => {
                    let event = match arrival? {
                        Some(Arrival::Event(event)) => event,
                        // A renderer that shows them has no question on its screen.
                        Some(Arrival::Child(event)) => {
                            renderer.child(&event)?;
                            continue;
                        }
                        // It would be written over the question. If the line stays broken, the answer will tell.
                        Some(Arrival::Note(_) | Arrival::Lost | Arrival::FileRequested(..)) => continue,
                        None => return Ok(true),
                    };
                    let settled = settles(&event, interrupt);
                    let elsewhere = answered_elsewhere(&event, interrupt);
                    if self.backlog.len() < BACKLOG || event.kind.is_stored() {
                        self.backlog.push_back(*event);
                    }
                    if settled {
                        drop(asking);
                        // An Esc that was meant for the question cancels nothing.
                        self.deaf_until = Some(Instant::now() + STILLNESS);
                        elsewhere.map_or(Ok(()), |note| renderer.note(&note))?;
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// The words for a mode that was set.
pub(crate) fn mode_note(mode: SessionMode) -> String {
    format!("mode: {mode} · {}", mode.description())
}

/// The words for an answer that another client has given.
fn answered_elsewhere(event: &Event, interrupt: &Interrupt) -> Option<String> {
    let EventKind::InterruptResolved { interrupt_id, answer, by: AnsweredBy::Client(client), .. } = &event.kind else {
        return None;
    };
    let what = match answer {
        Answer::Approve => "approved".to_owned(),
        Answer::Reject { reason: None } => "rejected".to_owned(),
        Answer::Reject { reason: Some(reason) } => format!("rejected ({})", visible::line(reason)),
        Answer::Always { scope: GrantScope::Session } => "approved, for this session".to_owned(),
        Answer::Always { scope: GrantScope::ForGood } => "approved, for good".to_owned(),
        Answer::Keep { rule, .. } => format!("approved, with the rule {}", visible::line(rule)),
        Answer::Edit { .. } => "approved with other arguments".to_owned(),
        Answer::Text { text } => format!("answered ({})", visible::line(text)),
    };
    let from = if client == daemon::CLIENT { "another terminal".to_owned() } else { clean_line(client) };
    (*interrupt_id == interrupt.id).then(|| format!("{what}, from {from}"))
}

/// Returns whether the interrupt needs no answer any more after this event.
fn settles(event: &Event, interrupt: &Interrupt) -> bool {
    match &event.kind {
        EventKind::InterruptResolved { interrupt_id, .. } => *interrupt_id == interrupt.id,
        EventKind::TurnEnded { result } => result.turn_id == interrupt.turn_id,
        _ => false,
    }
}

#[cfg(test)]
#[path = "drive_tests.rs"]
mod tests;
