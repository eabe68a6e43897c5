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
    session::actor::{Actor, Fault, Next},
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
        let known = self.interrupts.answer_to(&call_id, &ask).filter(|_| !ask.is_secret()).cloned();
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
        self.interrupts.add(interrupt, waiter);
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
        let kept = kept_by(&interrupt.ask, &answer);
        if let Answer::Edit { args } = &answer {
            let ask = interrupt.ask.clone();
            self.refuse_denied_edit(&ask, args).await?;
        }
        self.record_kept(kept, &client).await?;
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
        let mut facts = Vec::new();
        match &fact {
            EventKind::InterruptRaised { interrupt } if self.interrupts.add_of_child(interrupt) => facts.push(fact),
            EventKind::InterruptResolved { interrupt_id, answer, by, .. } => {
                let Some(interrupt) = self.interrupts.resolve_of_child(*interrupt_id) else { return Ok(()) };
                if let Some((rules, GrantScope::Session)) = answer.kept(&interrupt.ask) {
                    facts.extend(self.grants_of_answer(rules, by));
                }
                facts.insert(0, fact);
            }
            _ => {}
        }
        self.commit(Some(turn_id), facts).await
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
    async fn record_kept(&self, kept: Vec<(String, GrantScope)>, client: &str) -> Result<(), EngineError> {
        for (rule, scope) in kept {
            let by = AnsweredBy::Client(client.to_owned());
            let fact = AuditFact::GrantAdded { rule, scope: scope.as_str().to_owned(), by };
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
        if permissions.are_those_of(&self.state.settings) {
            return Ok(());
        }
        let settings = permissions.over(&self.state.settings);
        self.change(StateChange::Settings { settings }).await
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
        let Some(interrupt) = self.interrupts.get(id).cloned() else { return Ok(()) };
        let (call_id, answered) =
            (interrupt.call_id.clone(), ResolvedInterrupt::new(Some(interrupt.ask.clone()), &answer, &by));
        let scope = answer.kept(&interrupt.ask).map(|(_, scope)| scope);
        let kept = match answer.kept(&interrupt.ask) {
            Some((rules, GrantScope::Session)) => self.grants_of_answer(rules, &by),
            _ => None,
        };
        let shown = answer.shown(&interrupt.ask);
        let mut facts = vec![EventKind::InterruptResolved { interrupt_id: id, call_id, answer: shown, by }];
        facts.extend(kept);
        // Rules that are kept for good are stored with the answer, by the journal itself.
        self.commit(Some(interrupt.turn_id), facts).await?;
        if scope == Some(GrantScope::ForGood)
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
            if let Err(fault) = self.resolve(id, answer, AnsweredBy::Deadline).await {
                match fault {
                    Fault::Fatal(error) => return Err(error),
                    Fault::Request(error) => {
                        tracing::error!(session = %self.id, "a parked turn could not be resumed: {error}")
                    }
                }
            }
        }
        Ok(Next::Go)
    }

    /// The answers that end all questions of a turn that ends.
    pub(crate) fn withdraw_all(&self) -> Vec<EventKind> {
        self.interrupts.pending().into_iter().map(|interrupt| withdrawn(interrupt, "the turn ended")).collect()
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
        match ask {
            Ask::Approval { grants, wider, for_good, .. } => {
                let kept = self.shared.kept.now();
                let held = |rule: &String| {
                    self.state.settings.grants.iter().chain(kept.iter()).any(|grant| grant.rule == *rule)
                };
                let is_held = |(at, rule): (usize, &String)| held(rule) || for_good.get(at).is_some_and(held);
                let covered = !grants.is_empty() && grants.iter().enumerate().all(is_held) || wider.iter().any(held);
                covered.then(|| ResolvedInterrupt { answer: Answer::Approve, by: DecidedBy::Grant, asked: None })
            }
            _ => None,
        }
    }

    async fn why_not(&self, id: InterruptId) -> Result<EngineError, EngineError> {
        Ok(match self.shared.ports.store.interrupt(id).await? {
            Some(stored) if stored.interrupt.session_id == self.id && stored.answer.is_some() => {
                EngineError::new(ErrorKind::Conflict, format!("interrupt {id} was answered before"))
                    .with_hint("agentctl interrupts shows what waits")
            }
            _ => EngineError::new(ErrorKind::NotFound, format!("no interrupt {id} waits for an answer"))
                .with_hint("agentctl interrupts shows what waits"),
        })
    }
}

/// The rules deny what a person wrote in the place of a call.
pub(crate) fn denied_edit(reason: &str) -> EngineError {
    EngineError::new(ErrorKind::InvalidInput, format!("the edited arguments are denied: {reason}"))
        .with_hint("the question is still pending: edit it differently, approve it unchanged, or reject it")
}

/// The rules that an answer keeps.
fn kept_by(ask: &Ask, answer: &Answer) -> Vec<(String, GrantScope)> {
    let kept = answer.kept(ask).map(|(rules, scope)| rules.iter().map(move |rule| (rule.clone(), scope)));
    kept.into_iter().flatten().collect()
}

/// The configured default, or a refusal where it does not fit what is asked.
fn fitting(ask: &Ask, default: Answer) -> Answer {
    let answer = match ask {
        Ask::Question { default: Some(text), .. } => Answer::Text { text: text.clone() },
        _ => default,
    };
    match answer.misfit(ask) {
        None => answer,
        Some(_) => Answer::Reject { reason: Some("no answer in time".to_owned()) },
    }
}
