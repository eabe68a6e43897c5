//! The client's event loop for one turn: renders events, asks the user, and handles keys and signals.

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
    turn::{StopReason, TurnResult},
    visible,
};
use anyhow::Result;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    ASIDE_CANCELLED, Asides, Asker, Destination, Renderer, Signals,
    line::{Arrival, Line},
    mode_note, or_never,
    signals::EndSignal,
};
use crate::{
    daemon,
    exit::Exit,
    failure::Failure,
    keyboard::{Key, Keyboard, TypeAhead, typed::STILLNESS},
    report::short_id,
    terminal::{attention::Attention, clean_line},
};

/// Maximum number of queued events while the user answers a question. Above this limit, text deltas are dropped; the
/// completed items arrive later.
const MAX_BACKLOG: usize = 10_000;

/// Input that leaves another client's turn, if it is typed alone.
const LEAVE_INPUT: &str = "q";

/// Duration after which the user may have switched to other work.
const LONG_TURN: Duration = Duration::from_secs(10);

/// Interval at which the status below the turn is drawn again, because it shows the time.
pub(crate) const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for the turn to end after the client received an end signal. Supervisors kill the client some time later.
const END_LIMIT: Duration = Duration::from_secs(8);

/// Time limit for a steering message in flight after the client received an end signal.
const STEER_LIMIT: Duration = Duration::from_secs(2);

/// Access to the user of this client while a turn runs.
pub(crate) struct Person<'a> {
    pub(crate) asker: &'a mut dyn Asker,
    pub(crate) signals: &'a mut Signals,
    pub(crate) keyboard: &'a Keyboard,
    /// Side questions, which may outlast the turn.
    pub(crate) asides: &'a mut Asides,
    /// Decides where a typed text goes.
    pub(crate) route: fn(&str) -> Destination,
    /// Method to notify the user about questions and the end of a long turn.
    pub(crate) attention: Attention,
    /// True if another client started the turn. Ctrl-C then asks before cancelling, and Ctrl-D or `q` leaves the turn.
    pub(crate) is_guest: bool,
}

/// Follows a turn until it has ended, and returns its result.
///
/// The first Ctrl-C cancels the turn. Events are still read, because the end of the turn reports what was done. The
/// second Ctrl-C leaves the turn. Esc also cancels, but never leaves. Other signals are handled as configured in
/// [`Signals`].
///
/// Returns `None` if the line ended without the end of the turn: nothing was running, the user left another client's
/// turn, or the user postponed an answer to do something else ([`Asker::leaves`]).
///
/// # Errors
/// Returns a [`Failure`] if the daemon is lost or refuses the turn, or if the user left, and an [`std::io::Error`] of
/// the renderer.
pub(crate) async fn drive<L: Line>(
    line: &mut L,
    renderer: &mut dyn Renderer,
    person: Person<'_>,
) -> Result<Option<TurnResult>> {
    let Person { asker, signals, keyboard, asides, route, attention, is_guest } = person;
    let hold = keyboard.hold_ahead();
    let mut driver = Driver {
        line,
        renderer,
        signals,
        keyboard,
        asides,
        route,
        attention,
        begun: Instant::now(),
        confirms_cancel: is_guest,
        is_guest,
        backlog: VecDeque::new(),
        asked: HashSet::new(),
        cancelled: false,
        escape_ignored_until: None,
        cancel_deadline: None,
        leave_at: None,
        status_at: hold.is_some().then(|| Instant::now() + STATUS_INTERVAL),
    };
    let followed = driver.follow(asker).await;
    if followed.is_ok() {
        signals.set_stopping(false);
    }
    drop(hold);
    keyboard.typed(TypeAhead::end_turn);
    if !matches!(followed, Ok(Some(_))) {
        // Prints what the renderer holds back, and stops its animations. An error is ignored, because a failure already
        // reports why the turn ended.
        let _ = renderer.leave();
    }
    followed
}

struct Driver<'a, L> {
    line: &'a mut L,
    renderer: &'a mut dyn Renderer,
    signals: &'a mut Signals,
    keyboard: &'a Keyboard,
    asides: &'a mut Asides,
    route: fn(&str) -> Destination,
    attention: Attention,
    begun: Instant,
    is_guest: bool,
    /// True if the next Ctrl-C only asks for confirmation.
    confirms_cancel: bool,
    /// Events received while a question was open.
    backlog: VecDeque<Event>,
    /// Questions already asked, to avoid repeating them after a reconnect.
    asked: HashSet<InterruptId>,
    /// True once the turn was cancelled.
    cancelled: bool,
    /// Time until which Esc is ignored, because a question was just dismissed.
    escape_ignored_until: Option<Instant>,
    /// Deadline for the end of a cancelled turn.
    cancel_deadline: Option<Instant>,
    /// Time at which the turn is left, if nothing is typed after the `q`.
    leave_at: Option<Instant>,
    /// Time at which the status is drawn again; `None` if keys are only read for questions.
    status_at: Option<Instant>,
}

impl<L: Line> Driver<'_, L> {
    async fn follow(&mut self, asker: &mut dyn Asker) -> Result<Option<TurnResult>> {
        // Text typed before the start of the turn is sent to this turn.
        self.steer().await?;
        let mut last = None;
        while let Some(event) = self.next().await? {
            self.renderer.event(&event)?;
            match event.kind {
                EventKind::ItemCompleted { item, .. }
                    if matches!(item.body, ItemBody::UserMessage { steered: true, .. }) =>
                {
                    self.keyboard.typed(TypeAhead::read);
                    self.show_typed();
                }
                EventKind::StateChanged { change: StateChange::Withdrawn { input, added, .. } } if self.cancelled => {
                    self.keyboard.typed(|typed| typed.withdraw(input, added));
                }
                EventKind::TurnEnded { result } => {
                    let is_ours = self.cancelled || !self.line.ends_with(result.turn_id);
                    if result.stop_reason == StopReason::Cancelled && !is_ours {
                        self.renderer.note("the turn was cancelled by another client")?;
                    }
                    self.renderer.finish(&result)?;
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
                    let is_settled = self.ask(&interrupt, asker).await?;
                    if !is_settled && asker.leaves() {
                        self.renderer.leave()?;
                        self.renderer.note("the turn waits; /interrupts asks again")?;
                        return Ok(None);
                    }
                    self.steer().await?;
                }
                _ => {}
            }
        }
        Ok(last)
    }

    /// Returns the next event. Queued events come first.
    async fn next(&mut self) -> Result<Option<Event>> {
        if let Some(event) = self.backlog.pop_front() {
            return Ok(Some(event));
        }
        loop {
            tokio::select! {
                // Biased, so that a busy stream starves neither Ctrl-C nor the keys.
                biased;
                signal = self.signals.next() => self.on_end_signal(signal).await?,
                () = or_never(self.cancel_deadline.map(sleep_until)) => {
                    return Err(self.abandoned_error("the turn did not end in time").into());
                }
                () = or_never(self.leave_at.map(sleep_until)) => {
                    self.leave_at = None;
                    if self.keyboard.typed(|typed| typed.take_if(LEAVE_INPUT)) {
                        return self.leave();
                    }
                }
                press = self.keyboard.next() => match press.key {
                    Key::Resize => self.show_typed(),
                    Key::Resume => {
                        self.renderer.redraw()?;
                        self.show_typed();
                    }
                    Key::Escape if self.keyboard.typed(|typed| typed.composer.is_choosing()) => {
                        self.keyboard.typed(|typed| typed.press(press));
                        self.show_typed();
                    }
                    Key::Escape
                        if self.cancelled
                            || self.escape_ignored_until.is_some_and(|until| Instant::now() < until) => {}
                    Key::Escape => self.on_end_signal(EndSignal::Interrupt).await?,
                    Key::Leave if self.is_guest && !self.keyboard.typed(|typed| typed.is_writing()) => {
                        return self.leave();
                    }
                    Key::Enter if self.is_guest && self.keyboard.typed(|typed| typed.take_if(LEAVE_INPUT)) => {
                        return self.leave();
                    }
                    Key::Mode => self.next_mode().await?,
                    _ => {
                        let is_leave = self.is_guest && press.key == Key::Char('q');
                        let is_alone = is_leave && !self.keyboard.typed(|typed| typed.is_writing());
                        // A `q` may be the start of a message, so more input is awaited briefly.
                        self.leave_at = is_alone.then(|| Instant::now() + STILLNESS);
                        self.keyboard.typed(|typed| typed.press(press));
                        if let Some(note) = self.keyboard.typed(|typed| typed.note.take()) {
                            self.renderer.note(note)?;
                        }
                        self.steer().await?;
                    }
                },
                () = or_never(self.status_at.map(sleep_until)) => {
                    self.status_at = Some(Instant::now() + STATUS_INTERVAL);
                    self.show_typed();
                }
                aside = self.asides.next(async {}) => self.renderer.aside(aside)?,
                arrival = self.line.next() => match arrival? {
                    Some(Arrival::Event(event)) => return Ok(Some(*event)),
                    Some(Arrival::Child(event)) => self.renderer.child(&event)?,
                    // This client provides no files.
                    Some(Arrival::FileRequested(..)) => {}
                    Some(Arrival::Note(note)) => self.renderer.note(&note)?,
                    Some(Arrival::Lost) => self.renderer.lost()?,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Leaves a turn that continues in the daemon.
    fn leave(&mut self) -> Result<Option<Event>> {
        self.renderer.leave()?;
        self.renderer.note(&format!("left; the turn continues: {}", self.line.attach_command()))?;
        Ok(None)
    }

    /// Sends typed text to the turn. Rejected text is sent after the end of the turn.
    async fn steer(&mut self) -> Result<()> {
        while let Some(text) = self.keyboard.typed(TypeAhead::next_steer) {
            self.send_steer(text).await?;
        }
        self.show_typed();
        Ok(())
    }

    /// Shows the typed text. Errors are ignored, because the next event detects a closed terminal.
    fn show_typed(&mut self) {
        if self.status_at.is_some() {
            self.keyboard.typed(|typed| self.renderer.typed(typed).ok());
        }
    }

    async fn send_steer(&mut self, text: String) -> Result<()> {
        let destination = (self.route)(&text);
        if let Destination::Aside(question) = destination {
            self.asides.ask(question);
            return Ok(());
        }
        let (mut is_sent, mut end_signal) = (false, None);
        if !self.cancelled && destination == Destination::Turn {
            let mut steer = std::pin::pin!(self.line.steer(text.clone()));
            tokio::select! {
                biased;
                signal = self.signals.next() => end_signal = Some(signal),
                result = &mut steer => is_sent = result.is_ok(),
            }
            if end_signal.is_some() {
                // The daemon may have received the text already, so queueing it could send it twice.
                is_sent = timeout(STEER_LIMIT, steer).await.is_ok_and(|result| result.is_ok());
            }
        }
        self.keyboard.typed(|typed| if is_sent { typed.given(text) } else { typed.defer(text) });
        match end_signal {
            Some(signal) => self.on_end_signal(signal).await,
            None => Ok(()),
        }
    }

    /// Switches the session to its next mode, which applies from the turn's next call on.
    async fn next_mode(&mut self) -> Result<()> {
        tokio::select! {
            biased;
            signal = self.signals.next() => self.on_end_signal(signal).await,
            set = self.line.next_mode() => Ok(self.renderer.note(&match set {
                Ok(mode) => mode_note(mode),
                Err(failure) => format!("the mode was not changed: {failure}"),
            })?),
        }
    }

    /// Cancels the side questions, or the turn if there are none. Leaves the turn if it was cancelled before or should
    /// continue.
    async fn on_end_signal(&mut self, signal: EndSignal) -> Result<()> {
        if signal == EndSignal::Interrupt && self.asides.cancel() {
            return Ok(self.renderer.note(ASIDE_CANCELLED)?);
        }
        if self.cancelled {
            return Err(self.abandoned_error("left before the turn ended").into());
        }
        if signal == EndSignal::Interrupt && std::mem::take(&mut self.confirms_cancel) {
            self.renderer.note("Ctrl-C again cancels the turn; Ctrl-D or q leaves it running")?;
            return Ok(());
        }
        if !self.signals.at_end.cancels(signal) {
            let failure = Failure::new(ErrorKind::Conflict, "detached; the turn continues");
            let hint = format!("follow it with `{}`", self.line.attach_command());
            anyhow::bail!(Failure { exit: signal.exit(), ..failure.hint(hint) });
        }
        self.cancelled = true;
        self.signals.set_stopping(true);
        self.renderer.note(match signal {
            EndSignal::Interrupt => "cancelling the turn; Ctrl-C again leaves at once",
            EndSignal::Terminate | EndSignal::HangUp => {
                self.cancel_deadline = Some(Instant::now() + END_LIMIT);
                "ending: cancelling the turn"
            }
        })?;
        // If the line is broken, `next` cancels the turn after reconnecting.
        self.line.cancel().await;
        Ok(())
    }

    /// Returns the failure of a client that ends before the cancelled turn has ended.
    fn abandoned_error(&self, message: &str) -> Failure {
        let hint = format!("it is being cancelled; see how it ended with `{}`", self.line.attach_command());
        Failure { exit: self.signals.exit(Exit::Cancelled), ..Failure::new(ErrorKind::Conflict, message).hint(hint) }
    }

    /// Sends the user's answer. Returns true if the question is settled. A late answer does not fail the turn. If the
    /// daemon rejects the answer, such as an edit that the rules deny, the question stays open.
    async fn answer(&mut self, interrupt: &Interrupt, answer: Answer) -> Result<bool> {
        let Err(failure) = self.line.answer(interrupt.id, answer).await else { return Ok(true) };
        let id = short_id(interrupt.id);
        self.renderer.note(&match failure.kind {
            ErrorKind::Conflict | ErrorKind::NotFound => format!("no longer needed: {failure}"),
            ErrorKind::InvalidInput => format!("the answer was refused: {failure}"),
            _ => format!("the answer was refused: {failure}; retry with `agentctl answer {id} …`"),
        })?;
        Ok(failure.kind != ErrorKind::InvalidInput)
    }

    /// Shows the number of queued questions without an answer.
    fn show_waiting_questions(&mut self) {
        let raised = self.backlog.iter().filter_map(|event| match &event.kind {
            EventKind::InterruptRaised { interrupt } => Some(interrupt),
            _ => None,
        });
        let open = raised.filter(|interrupt| !self.backlog.iter().any(|event| settles(event, interrupt)));
        self.renderer.set_waiting_questions(open.count());
    }

    /// Asks the user, unless another client answers first. Returns false if the user left the question open.
    async fn ask(&mut self, interrupt: &Interrupt, asker: &mut dyn Asker) -> Result<bool> {
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
        self.show_waiting_questions();
        loop {
            let mut asking = asker.ask(interrupt);
            let is_settled = loop {
                tokio::select! {
                    biased;
                    signal = self.signals.next() => {
                        drop(asking);
                        self.on_end_signal(signal).await?;
                        // Otherwise, the signal ended a side question, or is to be confirmed.
                        break self.cancelled;
                    }
                    // Nothing that is being typed is lost.
                    aside = self.asides.next(self.keyboard.rest()) => {
                        drop(asking);
                        self.renderer.aside(aside)?;
                        break false;
                    }
                    // The question's line shows that the text was sent.
                    text = self.keyboard.next_steer() => self.send_steer(text).await?,
                    answer = &mut asking => {
                        drop(asking);
                        let Some(answer) = answer else { return Ok(false) };
                        break self.answer(interrupt, answer).await?;
                    }
                    arrival = self.line.next() => {
                        let event = match arrival? {
                            Some(Arrival::Event(event)) => event,
                            // If the renderer shows subagents, no question is on the screen.
                            Some(Arrival::Child(event)) => {
                                self.renderer.child(&event)?;
                                continue;
                            }
                            // A note would overwrite the question. A line that stays broken fails the answer.
                            Some(Arrival::Note(_) | Arrival::Lost | Arrival::FileRequested(..)) => continue,
                            None => return Ok(true),
                        };
                        let settled = settles(&event, interrupt);
                        let other_answer = answered_elsewhere(&event, interrupt);
                        if self.backlog.len() < MAX_BACKLOG || event.kind.is_stored() {
                            self.backlog.push_back(*event);
                            self.show_waiting_questions();
                        }
                        if settled {
                            drop(asking);
                            // The user may have pressed Esc to dismiss the question, so it must not cancel the turn.
                            self.escape_ignored_until = Some(Instant::now() + STILLNESS);
                            other_answer.map_or(Ok(()), |note| self.renderer.note(&note))?;
                            return Ok(true);
                        }
                    }
                }
            };
            if is_settled {
                return Ok(true);
            }
            self.renderer.pause()?;
        }
    }
}

/// Returns a message about an answer from another client.
fn answered_elsewhere(event: &Event, interrupt: &Interrupt) -> Option<String> {
    let EventKind::InterruptResolved { interrupt_id, answer, by: AnsweredBy::Client(client), .. } = &event.kind else {
        return None;
    };
    let outcome = match answer {
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
    (*interrupt_id == interrupt.id).then(|| format!("{outcome}, from {from}"))
}

/// Returns true if the interrupt needs no answer after this event.
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
