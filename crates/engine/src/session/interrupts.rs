//! The one map of questions that wait for a person.

use std::collections::HashMap;

use agentd_core::{
    Timestamp,
    ids::{CallId, InterruptId},
    interrupt::{Answer, Ask, Interrupt},
};
use tokio::sync::oneshot;

use crate::turn::recorder::{Answered, Answers};

/// The interrupts of a session's open turn.
#[derive(Default)]
pub(crate) struct Interrupts {
    pending: Vec<Pending>,
    /// Answers of this turn, by the call that asked: a call that is dispatched again after a restart gets the
    /// answer that was given, and nobody is asked twice.
    answered: HashMap<CallId, Answers>,
}

struct Pending {
    interrupt: Interrupt,
    /// The turn's end; nobody while no turn runs, after a restart.
    waiter: Option<oneshot::Sender<Answered>>,
}

impl Interrupts {
    /// What the journal knows of the open turn.
    pub(crate) fn restore(pending: Vec<Interrupt>, answered: HashMap<CallId, Answers>) -> Self {
        let pending = pending.into_iter().map(|interrupt| Pending { interrupt, waiter: None }).collect();
        Self { pending, answered }
    }

    /// The answer that a call got before to what it asks.
    pub(crate) fn answer_to(&self, call: &CallId, ask: &Ask) -> Option<&Answered> {
        self.answered.get(call)?.to(ask)
    }

    /// All answers that calls of this turn got before.
    pub(crate) fn answered(&self) -> HashMap<CallId, Answers> {
        self.answered.clone()
    }

    /// Lets the waiter of a call that has asked before wait again.
    pub(crate) fn wait_again(
        &mut self,
        call: &CallId,
        waiter: oneshot::Sender<Answered>,
    ) -> Result<(), oneshot::Sender<Answered>> {
        match self.pending.iter_mut().find(|pending| pending.interrupt.call_id.as_ref() == Some(call)) {
            None => Err(waiter),
            Some(pending) => {
                pending.waiter = Some(waiter);
                Ok(())
            }
        }
    }

    pub(crate) fn add(&mut self, interrupt: Interrupt, waiter: oneshot::Sender<Answered>) {
        self.pending.push(Pending { interrupt, waiter: Some(waiter) });
    }

    pub(crate) fn get(&self, id: InterruptId) -> Option<&Interrupt> {
        self.pending.iter().map(|pending| &pending.interrupt).find(|interrupt| interrupt.id == id)
    }

    /// Takes the interrupt out and hands its answer to the turn, if one waits.
    pub(crate) fn resolve(&mut self, id: InterruptId, answered: Answered) {
        let Some(index) = self.pending.iter().position(|pending| pending.interrupt.id == id) else { return };
        let Pending { interrupt, waiter } = self.pending.remove(index);
        if let Some(call) = interrupt.call_id {
            self.answered.entry(call).or_default().note(answered.clone());
        }
        if let Some(waiter) = waiter {
            // The turn may have been cancelled meanwhile; then nobody needs the answer.
            let _ = waiter.send(answered);
        }
    }

    pub(crate) fn pending(&self) -> Vec<Interrupt> {
        self.pending.iter().map(|pending| pending.interrupt.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Forgets everything, at the end of the turn.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.answered.clear();
    }

    /// The interrupt whose deadline comes first.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.pending.iter().filter_map(|pending| pending.interrupt.deadline).min()
    }

    /// The interrupts whose deadline has passed, each with the answer that is taken now.
    pub(crate) fn overdue(&self, now: Timestamp) -> Vec<(InterruptId, Answer)> {
        self.pending
            .iter()
            .filter(|pending| pending.interrupt.deadline.is_some_and(|deadline| deadline <= now))
            .map(|pending| {
                let default = Answer::Reject { reason: Some("nobody answered in time".to_owned()) };
                (pending.interrupt.id, pending.interrupt.on_deadline.clone().unwrap_or(default))
            })
            .collect()
    }
}
