//! The loop of a client around one turn.

use std::collections::{HashSet, VecDeque};

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    ids::InterruptId,
    interrupt::{Answer, Interrupt},
    turn::TurnResult,
};

use super::{
    Asker, CtrlC, Renderer,
    line::{Arrival, Line},
    quiet::Quiet,
};
use crate::{exit::Exit, failure::Failure};

/// How many events are kept while a person thinks. Beyond it pieces of text are dropped: the items come whole later.
const BACKLOG: usize = 10_000;

/// Follows a turn until it has ended, and hands back what it came to.
///
/// The first Ctrl-C cancels the turn and goes on reading, because the turn's end tells what was done; the second one
/// leaves. None is returned where the line ended without the turn's end: nothing was running, or the person put an
/// answer off and has something else to do ([`Asker::leaves`]).
///
/// # Errors
/// A [`Failure`] when the daemon is lost or refuses, or the person left; an [`std::io::Error`] of the renderer.
pub(crate) async fn drive(
    line: &mut dyn Line,
    renderer: &mut dyn Renderer,
    asker: &mut dyn Asker,
    ctrl_c: &mut CtrlC,
) -> anyhow::Result<Option<TurnResult>> {
    let _quiet = Quiet::begin();
    let mut driver = Driver { line, ctrl_c, backlog: VecDeque::new(), asked: HashSet::new(), cancelled: false };
    let mut last = None;
    while let Some(event) = driver.next(renderer).await? {
        renderer.event(&event)?;
        match event.kind {
            EventKind::TurnEnded { result } => {
                renderer.finish(&result)?;
                let is_last = driver.line.ends_with(result.turn_id);
                last = Some(*result);
                if is_last {
                    break;
                }
            }
            EventKind::InterruptRaised { interrupt } => {
                let asked = driver.ask(&interrupt, renderer, asker).await?;
                if asked == Asked::PutOff && asker.leaves() {
                    renderer.leave()?;
                    renderer.note("the turn waits; /interrupts asks again")?;
                    return Ok(None);
                }
            }
            _ => {}
        }
    }
    Ok(last)
}

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// It is answered, or needs no answer any more.
    Settled,
    /// The person left it open.
    PutOff,
}

struct Driver<'a> {
    line: &'a mut dyn Line,
    ctrl_c: &'a mut CtrlC,
    /// What came while a person was asked.
    backlog: VecDeque<Event>,
    /// What was asked here, so that a line that was taken up again asks nothing twice.
    asked: HashSet<InterruptId>,
    /// Whether the turn was told to end.
    cancelled: bool,
}

impl Driver<'_> {
    /// The next event, older ones first.
    async fn next(&mut self, renderer: &mut dyn Renderer) -> anyhow::Result<Option<Event>> {
        if let Some(event) = self.backlog.pop_front() {
            return Ok(Some(event));
        }
        loop {
            tokio::select! {
                // In this order, so that a stream that never pauses cannot drown Ctrl-C.
                biased;
                () = self.ctrl_c.pressed() => self.pressed(renderer).await?,
                arrival = self.line.next() => match arrival? {
                    Some(Arrival::Event(event)) => return Ok(Some(*event)),
                    Some(Arrival::Child(event)) => renderer.child(&event)?,
                    Some(Arrival::Note(note)) => renderer.note(&note)?,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Cancels the turn, or leaves if that was done before.
    async fn pressed(&mut self, renderer: &mut dyn Renderer) -> anyhow::Result<()> {
        if self.cancelled {
            return Err(Failure {
                exit: Exit::Cancelled,
                kind: ErrorKind::Conflict,
                message: "left before the turn had ended".to_owned(),
                hint: Some(format!("it is being cancelled; see how it ended with `{}`", self.line.attach_command())),
            }
            .into());
        }
        self.cancelled = true;
        renderer.note("cancelling the turn; Ctrl-C again leaves at once")?;
        // A line that is broken right now is taken up again by `next`, and cancels then.
        self.line.cancel().await;
        Ok(())
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
        let id = interrupt.id;
        renderer.note(&match failure.kind {
            ErrorKind::Conflict | ErrorKind::NotFound => format!("not needed any more: {failure}"),
            ErrorKind::InvalidInput => format!("the answer was not taken: {failure}"),
            _ => format!("the answer was not taken: {failure}; give it with `agentctl answer {id} …`"),
        })?;
        Ok(failure.kind != ErrorKind::InvalidInput)
    }

    /// Asks the person, unless somebody else answers first.
    async fn ask(
        &mut self,
        interrupt: &Interrupt,
        renderer: &mut dyn Renderer,
        asker: &mut dyn Asker,
    ) -> anyhow::Result<Asked> {
        if self.cancelled || self.backlog.iter().any(|event| settles(event, interrupt)) {
            return Ok(Asked::Settled);
        }
        if !self.asked.insert(interrupt.id) || !self.line.is_pending(interrupt.id).await {
            return Ok(Asked::Settled);
        }
        let mut asking = asker.ask(interrupt);
        loop {
            tokio::select! {
                biased;
                () = self.ctrl_c.pressed() => {
                    drop(asking);
                    self.pressed(renderer).await?;
                    return Ok(Asked::Settled);
                }
                answer = &mut asking => {
                    drop(asking);
                    let Some(answer) = answer else { return Ok(Asked::PutOff) };
                    if self.answer(interrupt, answer, renderer).await? {
                        return Ok(Asked::Settled);
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
                        Some(Arrival::Note(_)) => continue,
                        None => return Ok(Asked::Settled),
                    };
                    let settled = settles(&event, interrupt);
                    if self.backlog.len() < BACKLOG || event.kind.is_stored() {
                        self.backlog.push_back(*event);
                    }
                    if settled {
                        return Ok(Asked::Settled);
                    }
                }
            }
        }
    }
}

/// Whether the interrupt needs no answer any more after this event.
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
