//! Interrupts: raised for the turn, answered once by anybody, or by their deadline.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact, DecidedBy},
    error::ErrorKind,
    event::{EventKind, StateChange},
    grant::{Grant, GrantScope},
    ids::{CallId, InterruptId, TurnId},
    interrupt::{Answer, AnsweredBy, Ask, AskedBy, Interrupt},
    policy::Verdict,
};
use agentd_policy::{CallContext, is_shallow, roots};
use jiff::SignedDuration;
use serde_json::Value;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    error::EngineError,
    grants::{SessionPermissions, not_kept},
    recovery::withdrawn,
    session::actor::{
        Actor, Fault, Next,
        state::{Pending, no_answer},
    },
    turn::recorder::ResolvedInterrupt,
};

/// Time that a deadline is waited for before the clock is looked at again.
const GLANCE: Duration = Duration::from_secs(30);

impl Actor {
    /// The turn needs a person, unless the answer is known already.
    pub(crate) async fn ask(
        &mut self,
        turn_id: TurnId,
        call_id: CallId,
        ask: Ask,
        waiter: oneshot::Sender<ResolvedInterrupt>,
    ) -> Result<(), Fault> {
        // A secret is asked again rather than kept.
        let known = self.interrupts.answered.get(&call_id).and_then(|answers| answers.to(&ask));
        let known = known.filter(|_| !ask.is_secret()).cloned();
        if let Some(answered) = known.or_else(|| self.granted(&ask)) {
            let _ = waiter.send(answered);
            return Ok(());
        }
        let Err(waiter) = self.interrupts.wait_again(&call_id, &ask, waiter) else { return Ok(()) };
        let config = self.shared.config();
        let raised_at = self.shared.ports.clock.now();
        let deadline = config
            .interrupt_deadline
            .and_then(|limit| SignedDuration::try_from(limit).ok())
            .and_then(|limit| raised_at.checked_add(limit).ok());
        let on_deadline = deadline.map(|_| fitting(&ask, config.interrupt_default.clone()));
        let asked_by = self.asked_by().await;
        let interrupt = Interrupt {
            id: InterruptId::generate(),
            session_id: self.id,
            turn_id,
            call_id: Some(call_id),
            asked_by,
            ask,
            raised_at,
            deadline,
            on_deadline,
        };
        // Stored first: a question that nobody can lose is the only one worth asking.
        let raised = EventKind::InterruptRaised { interrupt: Box::new(interrupt.clone()) };
        self.interrupts.pending.push(Pending { interrupt, waiter: Some(waiter) });
        self.commit(Some(turn_id), vec![raised]).await
    }

    /// Takes an answer. When no task waits for it, because the daemon was started anew since it asked, the turn
    /// goes on.
    pub(crate) async fn answer(&mut self, id: InterruptId, answer: Answer, client: String) -> Result<(), Fault> {
        let Some(interrupt) = self.interrupts.get(id) else { return Err(self.why_not(id).await?.into()) };
        if let Some(problem) = answer.misfit(&interrupt.ask) {
            return Err(EngineError::new(ErrorKind::InvalidInput, format!("the answer does not fit: {problem}")).into());
        }
        if matches!(&answer, Answer::Edit { args } if !is_shallow(args)) {
            return Err(EngineError::new(ErrorKind::InvalidInput, "the edited arguments nest too deeply").into());
        }
        let ask = interrupt.ask.clone();
        if let Answer::Edit { args } = &answer {
            self.refuse_denied_edit(&ask, args).await?;
        }
        if let Some((rules, scope)) = answer.kept(&ask) {
            self.record_kept(rules, scope, &client).await?;
        }
        self.resolve(id, answer, AnsweredBy::Client(client)).await
    }

    /// For whom a person is asked.
    async fn asked_by(&self) -> AskedBy {
        let stored = self.shared.ports.store.session(self.id).await.ok().flatten();
        AskedBy {
            agent: self.acting().name().to_owned(),
            session_title: stored.map(|stored| stored.summary.title).filter(|title| !title.is_empty()),
            client: self.open.as_ref().and_then(|open| open.client.clone()),
        }
    }

    /// Tells what a session asks that works for a call of the turn, or what was answered to it. What a person keeps for the
    /// session is kept for this one: they know of no other.
    pub(crate) async fn tell_of_child(&mut self, turn_id: TurnId, fact: EventKind) -> Result<(), Fault> {
        let known = &mut self.interrupts;
        let granted = match &fact {
            EventKind::InterruptRaised { interrupt } if known.told.insert(interrupt.id) => {
                known.of_children.push((**interrupt).clone());
                None
            }
            EventKind::InterruptResolved { interrupt_id, answer, by, .. } => {
                let Some(index) = known.of_children.iter().position(|interrupt| interrupt.id == *interrupt_id) else {
                    return Ok(());
                };
                let asked = known.of_children.remove(index);
                let granted = answer.kept(&asked.ask).filter(|(_, scope)| *scope == GrantScope::Session);
                granted.and_then(|(rules, _)| self.grants_of_answer(rules, by))
            }
            _ => return Ok(()),
        };
        self.commit(Some(turn_id), [fact].into_iter().chain(granted).collect()).await
    }

    /// The session's settings with the rules that an answer keeps.
    fn grants_of_answer(&self, rules: &[String], by: &AnsweredBy) -> Option<EventKind> {
        let (at, by) = (Some(self.shared.ports.clock.now()), by.client().map(str::to_owned));
        self.with_grants(rules.iter().map(|rule| Grant { rule: rule.clone(), at, by: by.clone() }))
    }

    /// Tells a person at once that the rules deny what they wrote, while another answer can still be given. The gate
    /// judges it again before it runs.
    async fn refuse_denied_edit(&mut self, ask: &Ask, args: &Value) -> Result<(), Fault> {
        let Ask::Approval { tool, .. } = ask else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        let stock = self.stock();
        let Some(tool) = stock.get(tool) else { return Ok(()) };
        let workspace = self.workspace().await?;
        let facts = CallContext {
            tool: &tool.spec,
            foreign: tool.foreign.as_deref(),
            arguments: &args.to_string(),
            // Where links lead is for the gate to find out.
            followed: None,
            // That only says which kept rules hold, and none beats a denial.
            start: None,
            settings: &self.state.settings,
            roots: &roots(&workspace),
            memories: workspace.memories.as_deref(),
            kept: &shared.kept.now(),
            held: shared.ports.toolbox.holds_commands().await,
            contained: shared.ports.toolbox.contains_commands().await,
        };
        match shared.config().policy.judge(&facts).verdict {
            Verdict::Deny { reason } => Err(denied_edit(&reason).into()),
            Verdict::Allow | Verdict::Ask { .. } => Ok(()),
        }
    }

    /// The audit log hears which rules an answer keeps before they hold: what it cannot take is not allowed, and the
    /// question waits on. That the answer was given, it hears before the call runs.
    async fn record_kept(&self, rules: &[String], scope: GrantScope, client: &str) -> Result<(), EngineError> {
        for rule in rules {
            let by = AnsweredBy::Client(client.to_owned());
            let fact = AuditFact::GrantAdded { rule: rule.clone(), scope: scope.as_str().to_owned(), by };
            let entry = AuditEntry::of_session(self.shared.ports.clock.now(), self.id, fact);
            self.shared.ports.audit.record(entry).await.map_err(|error| {
                let hint = error.hint().map(|hint| format!("{hint}; ")).unwrap_or_default();
                EngineError::new(error.kind(), format!("nothing was kept and the question still waits: {error}"))
                    .with_hint(format!("{hint}no rule is kept that the audit log has not heard of; then answer again"))
            })?;
        }
        Ok(())
    }

    /// Keeps a rule for this session.
    pub(crate) async fn grant(&mut self, grant: Grant) -> Result<(), Fault> {
        match self.with_grants([grant]) {
            Some(change) => self.commit(None, vec![change]).await,
            None => Ok(()),
        }
    }

    /// Takes a rule of this session back.
    pub(crate) async fn revoke(&mut self, rule: String) -> Result<(), Fault> {
        let mut settings = self.state.settings.clone();
        settings.grants.retain(|grant| grant.rule != rule);
        if settings.grants.len() == self.state.settings.grants.len() {
            return Err(not_kept("for this session", &rule).into());
        }
        self.change(StateChange::Settings { settings }).await
    }

    /// Keeps these rules and no others, in this mode.
    pub(crate) async fn take_permissions(&mut self, permissions: SessionPermissions) -> Result<(), Fault> {
        self.change_settings(permissions.over(&self.state.settings)).await
    }

    /// The session's settings with these rules too, unless it has them all.
    fn with_grants(&self, grants: impl IntoIterator<Item = Grant>) -> Option<EventKind> {
        let mut settings = self.state.settings.clone();
        for grant in grants {
            if !settings.grants.iter().any(|kept| kept.rule == grant.rule) {
                settings.grants.push(grant);
            }
        }
        let changed = settings.grants.len() > self.state.settings.grants.len();
        changed.then_some(EventKind::StateChanged { change: StateChange::Settings { settings } })
    }

    async fn resolve(&mut self, id: InterruptId, answer: Answer, by: AnsweredBy) -> Result<(), Fault> {
        let Some(Interrupt { turn_id, call_id, ask, .. }) = self.interrupts.get(id).cloned() else { return Ok(()) };
        let answered = ResolvedInterrupt::new(Some(ask.clone()), &answer, &by);
        let kept = answer.kept(&ask);
        let granted = kept.filter(|(_, scope)| *scope == GrantScope::Session);
        let granted = granted.and_then(|(rules, _)| self.grants_of_answer(rules, &by));
        let shown = answer.shown(&ask);
        let resolved = EventKind::InterruptResolved { interrupt_id: id, call_id, answer: shown, by };
        // Rules that are kept for good are stored with the answer, by the journal itself.
        self.commit(Some(turn_id), [resolved].into_iter().chain(granted).collect()).await?;
        if kept.is_some_and(|(_, scope)| scope == GrantScope::ForGood)
            && let Err(error) = self.shared.kept.reload().await
        {
            tracing::error!(session = %self.id, "what is allowed for good could not be read; nothing is until it can: {error}");
        }
        self.interrupts.resolve(id, answered);
        let parked = self.open.as_ref().is_some_and(|open| open.running.is_none());
        if parked && self.draining.is_none() { self.resume().await } else { Ok(()) }
    }

    /// When to look whether that time has come. The clock can be set, and a machine can sleep, so that it is looked at now
    /// and then.
    pub(crate) fn until(&self, at: Timestamp) -> Instant {
        let wait = at.duration_since(self.shared.ports.clock.now());
        Instant::now() + Duration::try_from(wait).unwrap_or_default().min(GLANCE)
    }

    /// Deadlines have passed: their defaults are the answers.
    pub(crate) async fn deadline_passed(&mut self) -> Result<Next, EngineError> {
        for (id, answer) in self.interrupts.overdue(self.shared.ports.clock.now()) {
            match self.resolve(id, answer, AnsweredBy::Deadline).await {
                Ok(()) => {}
                Err(Fault::Fatal(error)) => return Err(error),
                Err(Fault::Request(error)) => {
                    tracing::error!(session = %self.id, "a parked turn could not be resumed: {error}")
                }
            }
        }
        Ok(Next::Go)
    }

    /// Ends what a call asks that needs no answer any more.
    pub(crate) async fn withdraw(&mut self, turn_id: TurnId, call: &CallId) -> Result<(), Fault> {
        let asked = self.interrupts.withdraw(call);
        if asked.is_empty() {
            return Ok(());
        }
        let facts = asked.into_iter().map(|interrupt| withdrawn(interrupt, "the question is no longer pending"));
        self.commit(Some(turn_id), facts.collect()).await
    }

    /// Rules that were granted while the call was on its way here.
    fn granted(&self, ask: &Ask) -> Option<ResolvedInterrupt> {
        let Ask::Approval { grants, wider, for_good, .. } = ask else { return None };
        let kept = self.shared.kept.now();
        let held =
            |rule: &String| self.state.settings.grants.iter().chain(kept.iter()).any(|grant| grant.rule == *rule);
        let is_held = |(at, rule): (usize, &String)| held(rule) || for_good.get(at).is_some_and(held);
        let covered = !grants.is_empty() && grants.iter().enumerate().all(is_held) || wider.iter().any(held);
        covered.then(|| ResolvedInterrupt { answer: Answer::Approve, by: DecidedBy::Grant, asked: None })
    }

    async fn why_not(&self, id: InterruptId) -> Result<EngineError, EngineError> {
        let stored = self.shared.ports.store.interrupt(id).await?;
        let was_answered = stored.is_some_and(|one| one.interrupt.session_id == self.id && one.answer.is_some());
        let (kind, message) = match was_answered {
            true => (ErrorKind::Conflict, format!("interrupt {id} was answered before")),
            false => (ErrorKind::NotFound, format!("no interrupt {id} waits for an answer")),
        };
        Ok(EngineError::new(kind, message).with_hint("agentctl interrupts shows what waits"))
    }
}

/// The rules deny what a person wrote in the place of a call.
pub(crate) fn denied_edit(reason: &str) -> EngineError {
    EngineError::new(ErrorKind::InvalidInput, format!("the edited arguments are denied: {reason}"))
        .with_hint("the question is still pending: edit it differently, approve it unchanged, or reject it")
}

/// The configured default, or a refusal where it does not fit what is asked.
fn fitting(ask: &Ask, default: Answer) -> Answer {
    let answer = match ask {
        Ask::Question { default: Some(text), .. } => Answer::Text { text: text.clone() },
        _ => default,
    };
    if answer.misfit(ask).is_none() { answer } else { no_answer() }
}
