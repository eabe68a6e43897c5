//! Interrupts: raised for the turn, answered once by anybody, or by their deadline.

use agentd_core::{
    audit::DecidedBy,
    error::ErrorKind,
    event::{EventKind, StateChange},
    ids::{CallId, InterruptId, TurnId},
    interrupt::{Answer, AnsweredBy, Ask, Interrupt},
};
use jiff::SignedDuration;
use tokio::sync::oneshot;

use super::actor::{Actor, Fault, Next};
use crate::{error::EngineError, policy, turn::recorder::Answered};

impl Actor {
    /// The turn needs a person, unless the answer is known already.
    pub(super) async fn ask(
        &mut self,
        turn_id: TurnId,
        call_id: CallId,
        ask: Ask,
        waiter: oneshot::Sender<Answered>,
    ) -> Result<(), Fault> {
        if let Some(answered) = self.interrupts.answer_to(&call_id).cloned().or_else(|| self.granted(&ask)) {
            let _ = waiter.send(answered);
            return Ok(());
        }
        let Err(waiter) = self.interrupts.wait_again(&call_id, waiter) else { return Ok(()) };
        let config = self.shared.config();
        let raised_at = self.shared.parts.clock.now();
        let deadline = config
            .interrupt_deadline
            .and_then(|limit| SignedDuration::try_from(limit).ok())
            .and_then(|limit| raised_at.checked_add(limit).ok());
        let on_deadline = deadline.map(|_| fitting(&ask, config.interrupt_default.clone()));
        let interrupt = Interrupt {
            id: InterruptId::generate(),
            session_id: self.id,
            turn_id,
            call_id: Some(call_id),
            ask,
            raised_at,
            deadline,
            on_deadline,
        };
        // Stored first: a question that nobody can lose is the only one worth asking.
        let raised = EventKind::InterruptRaised { interrupt: Box::new(interrupt.clone()) };
        self.interrupts.add(interrupt, waiter);
        self.commit(Some(turn_id), vec![raised]).await
    }

    /// Takes an answer. When no task waits for it, because the daemon was started anew since it asked, the turn
    /// goes on.
    pub(super) async fn answer(&mut self, id: InterruptId, answer: Answer, client: String) -> Result<(), Fault> {
        let Some(interrupt) = self.interrupts.get(id) else { return Err(self.why_not(id).await?.into()) };
        if let Some(problem) = answer.misfit(&interrupt.ask) {
            return Err(EngineError::new(ErrorKind::InvalidInput, format!("the answer does not fit: {problem}")).into());
        }
        if matches!(&answer, Answer::Edit { args } if !policy::is_shallow(args)) {
            return Err(EngineError::new(ErrorKind::InvalidInput, "the edited arguments nest too deeply").into());
        }
        self.resolve(id, answer, AnsweredBy::Client(client)).await
    }

    async fn resolve(&mut self, id: InterruptId, answer: Answer, by: AnsweredBy) -> Result<(), Fault> {
        let Some(interrupt) = self.interrupts.get(id).cloned() else { return Ok(()) };
        let (call_id, answered) = (interrupt.call_id.clone(), Answered::new(&answer, &by));
        let mut facts = vec![EventKind::InterruptResolved { interrupt_id: id, call_id, answer: answer.clone(), by }];
        if let (Answer::Always, Ask::Approval { grant: Some(grant), .. }) = (&answer, &interrupt.ask) {
            let mut settings = self.state.settings.clone();
            if !settings.grants.contains(grant) {
                settings.grants.push(grant.clone());
            }
            facts.push(EventKind::StateChanged { change: StateChange::Settings { settings } });
        }
        self.commit(Some(interrupt.turn_id), facts).await?;
        self.interrupts.resolve(id, answered);
        let parked = self.open.as_ref().is_some_and(|open| open.running.is_none());
        if parked && self.draining.is_none() { self.resume().await } else { Ok(()) }
    }

    /// Deadlines have passed: their defaults are the answers.
    pub(super) async fn deadline_passed(&mut self) -> Result<Next, EngineError> {
        for (id, answer) in self.interrupts.overdue(self.shared.parts.clock.now()) {
            if let Err(fault) = self.resolve(id, answer, AnsweredBy::Deadline).await {
                match fault {
                    Fault::Fatal(error) => return Err(error),
                    Fault::Request(error) => {
                        tracing::error!(session = %self.id, "a parked turn could not go on: {error}")
                    }
                }
            }
        }
        Ok(Next::Go)
    }

    /// The answers that end all questions of a turn that ends.
    pub(super) fn withdraw_all(&self) -> Vec<EventKind> {
        let withdraw = |interrupt: Interrupt| EventKind::InterruptResolved {
            interrupt_id: interrupt.id,
            call_id: interrupt.call_id,
            answer: Answer::Reject { reason: Some("the turn ended".to_owned()) },
            by: AnsweredBy::Daemon,
        };
        self.interrupts.pending().into_iter().map(withdraw).collect()
    }

    /// A rule that was granted since the turn froze its settings.
    fn granted(&self, ask: &Ask) -> Option<Answered> {
        match ask {
            Ask::Approval { grant: Some(grant), .. } if self.state.settings.grants.contains(grant) => {
                Some(Answered { answer: Answer::Approve, by: DecidedBy::Grant })
            }
            _ => None,
        }
    }

    async fn why_not(&self, id: InterruptId) -> Result<EngineError, EngineError> {
        Ok(match self.shared.parts.store.interrupt(id).await? {
            Some(stored) if stored.interrupt.session_id == self.id && stored.answer.is_some() => {
                EngineError::new(ErrorKind::Conflict, format!("interrupt {id} was answered before"))
                    .with_hint("agentctl interrupts shows what waits")
            }
            _ => EngineError::new(ErrorKind::NotFound, format!("no interrupt {id} waits for an answer"))
                .with_hint("agentctl interrupts shows what waits"),
        })
    }
}

/// The configured default, or a refusal where it does not fit what is asked.
fn fitting(ask: &Ask, default: Answer) -> Answer {
    let answer = match ask {
        Ask::Question { default: Some(text), .. } => Answer::Text { text: text.clone() },
        _ => default,
    };
    match answer.misfit(ask) {
        None => answer,
        Some(_) => Answer::Reject { reason: Some("nobody answered in time".to_owned()) },
    }
}
