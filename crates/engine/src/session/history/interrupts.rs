//! The one map of questions that wait for a person.

use std::collections::{HashMap, HashSet};

use agentd_core::{
    Timestamp,
    ids::{CallId, InterruptId},
    interrupt::{Answer, Ask, Interrupt},
};
use tokio::sync::oneshot;

use crate::turn::recorder::{CallAnswers, ResolvedInterrupt};

/// The interrupts of a session's open turn.
#[derive(Default)]
pub(crate) struct Interrupts {
    pending: Vec<Pending>,
    /// Answers of this turn, by the call that asked: a call that is dispatched again after a restart gets the
    /// answer that was given, and nobody is asked twice.
    answered: HashMap<CallId, CallAnswers>,
    /// Questions of sessions that work for calls of this turn. They wait themselves; here they are only told.
    of_children: Vec<Interrupt>,
    /// All that was told of them in this turn.
    told: HashSet<InterruptId>,
}

struct Pending {
    interrupt: Interrupt,
    /// The turn's end; nobody while no turn runs, after a restart.
    waiter: Option<oneshot::Sender<ResolvedInterrupt>>,
}

impl Interrupts {
    /// Restores the questions of the open turn from the journal.
    pub(crate) fn restore(
        pending: Vec<Interrupt>,
        answered: HashMap<CallId, CallAnswers>,
        of_children: Vec<Interrupt>,
        told: HashSet<InterruptId>,
    ) -> Self {
        let pending = pending.into_iter().map(|interrupt| Pending { interrupt, waiter: None }).collect();
        Self { pending, answered, of_children, told }
    }

    /// Takes note of what a child asks; false where that is known.
    pub(crate) fn add_of_child(&mut self, interrupt: &Interrupt) -> bool {
        let is_new = self.told.insert(interrupt.id);
        if is_new {
            self.of_children.push(interrupt.clone());
        }
        is_new
    }

    /// Takes out what a child no longer asks, if it is known to.
    pub(crate) fn resolve_of_child(&mut self, id: InterruptId) -> Option<Interrupt> {
        let index = self.of_children.iter().position(|interrupt| interrupt.id == id)?;
        Some(self.of_children.remove(index))
    }

    /// The answer that a call got before to what it asks.
    pub(crate) fn answer_to(&self, call: &CallId, ask: &Ask) -> Option<&ResolvedInterrupt> {
        self.answered.get(call)?.to(ask)
    }

    /// All answers that calls of this turn got before.
    pub(crate) fn answered(&self) -> HashMap<CallId, CallAnswers> {
        self.answered.clone()
    }

    /// Lets the waiter of a call that has asked the same before wait again. Whether a call may run is asked once, whatever
    /// has changed in how it is put.
    pub(crate) fn wait_again(
        &mut self,
        call: &CallId,
        ask: &Ask,
        waiter: oneshot::Sender<ResolvedInterrupt>,
    ) -> Result<(), oneshot::Sender<ResolvedInterrupt>> {
        let is_same = |asked: &Ask| match ask {
            Ask::Approval { .. } => matches!(asked, Ask::Approval { .. }),
            Ask::Question { .. } => asked == ask,
        };
        let is_meant = |pending: &&mut Pending| {
            pending.interrupt.call_id.as_ref() == Some(call) && is_same(&pending.interrupt.ask)
        };
        match self.pending.iter_mut().find(is_meant) {
            None => Err(waiter),
            Some(pending) => {
                pending.waiter = Some(waiter);
                Ok(())
            }
        }
    }

    pub(crate) fn add(&mut self, interrupt: Interrupt, waiter: oneshot::Sender<ResolvedInterrupt>) {
        self.pending.push(Pending { interrupt, waiter: Some(waiter) });
    }

    pub(crate) fn get(&self, id: InterruptId) -> Option<&Interrupt> {
        self.pending.iter().map(|pending| &pending.interrupt).find(|interrupt| interrupt.id == id)
    }

    /// Takes the interrupt out and hands its answer to the turn, if one waits.
    pub(crate) fn resolve(&mut self, id: InterruptId, answered: ResolvedInterrupt) {
        let Some(index) = self.pending.iter().position(|pending| pending.interrupt.id == id) else { return };
        let Pending { interrupt, waiter } = self.pending.remove(index);
        if let Some(call) = interrupt.call_id.filter(|_| !interrupt.ask.is_secret()) {
            self.answered.entry(call).or_default().note(answered.clone());
        }
        if let Some(waiter) = waiter {
            // The turn may have been cancelled meanwhile; then nobody needs the answer.
            let _ = waiter.send(answered);
        }
    }

    /// Takes out what a call waits for, and nobody gets an answer.
    pub(crate) fn withdraw(&mut self, call: &CallId) -> Vec<Interrupt> {
        let of_call = |pending: &mut Pending| pending.interrupt.call_id.as_ref() == Some(call);
        self.pending.extract_if(.., of_call).map(|pending| pending.interrupt).collect()
    }

    pub(crate) fn pending(&self) -> Vec<Interrupt> {
        self.pending.iter().map(|pending| &pending.interrupt).chain(&self.of_children).cloned().collect()
    }

    /// Returns whether nobody is asked, by the turn or by those that work for it.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.of_children.is_empty()
    }

    /// Forgets everything, at the end of the turn.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.answered.clear();
        self.of_children.clear();
        self.told.clear();
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
                let default = Answer::Reject { reason: Some("no answer in time".to_owned()) };
                (pending.interrupt.id, pending.interrupt.on_deadline.clone().unwrap_or(default))
            })
            .collect()
    }
}
