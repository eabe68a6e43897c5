//! Interrupts of a turn. Each interrupt is answered once, by any client or by its deadline.

use std::{path::Path, sync::Arc, time::Duration};

use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact, DecidedBy},
    error::ErrorKind,
    event::{EventKind, StateChange},
    grant::{Grant, GrantScope},
    ids::{CallId, InterruptId, TurnId},
    interrupt::{Answer, AnsweredBy, Ask, AskedBy, Interrupt},
    policy::Verdict,
    session::SessionSettings,
};
use agentd_policy::{CallContext, is_shallow, roots};
use jiff::SignedDuration;
use serde_json::Value;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    error::EngineError,
    grants::{SessionPermissions, unknown_grant},
    recovery::withdrawal,
    session::actor::{
        Actor, Fault, NextMove,
        state::{PendingInterrupt, default_rejection},
    },
    session::settings::named_client,
    turn::recorder::ResolvedInterrupt,
};

/// Maximum wait for a deadline before the clock is checked again.
const MAX_SLEEP: Duration = Duration::from_secs(30);

impl Actor {
    /// Raises an interrupt for the turn, unless the answer is already known.
    pub(crate) async fn ask(
        &mut self,
        turn_id: TurnId,
        call_id: CallId,
        ask: Ask,
        waiter: oneshot::Sender<ResolvedInterrupt>,
    ) -> Result<(), Fault> {
        // Secrets are not remembered, so the user is asked for them again.
        let earlier = match ask.writable_project() {
            Some(_) => self.interrupts.project_refusal(&call_id),
            None => self.interrupts.answered.get(&call_id).and_then(|answers| answers.answer_to(&ask)).cloned(),
        };
        let earlier = earlier.filter(|_| !ask.is_secret());
        if let Some(answered) = earlier.or_else(|| self.granted(&ask)) {
            let _ = waiter.send(answered);
            return Ok(());
        }
        let Err(waiter) = self.interrupts.reattach(&call_id, &ask, waiter) else { return Ok(()) };
        let config = self.shared.config();
        let raised_at = self.shared.ports.clock.now();
        let deadline = config
            .interrupt_deadline
            .and_then(|limit| SignedDuration::try_from(limit).ok())
            .and_then(|limit| raised_at.checked_add(limit).ok());
        let on_deadline = deadline.map(|_| default_answer(&ask, config.interrupt_default.clone()));
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
        // The interrupt is stored before it is published, so that a question cannot be lost.
        let raised_event = EventKind::InterruptRaised { interrupt: Box::new(interrupt.clone()) };
        self.interrupts.pending.push(PendingInterrupt { interrupt, waiter: Some(waiter) });
        self.commit(Some(turn_id), vec![raised_event]).await
    }

    /// Accepts an answer. If no task waits for the answer, because the daemon was restarted after the question, the
    /// turn is resumed.
    pub(crate) async fn answer(&mut self, id: InterruptId, answer: Answer, client: String) -> Result<(), Fault> {
        let Some(interrupt) = self.interrupts.get(id) else { return Err(self.not_pending_error(id).await?.into()) };
        if let Some(problem) = answer.misfit(&interrupt.ask) {
            return Err(EngineError::new(ErrorKind::InvalidInput, format!("invalid answer: {problem}")).into());
        }
        if matches!(&answer, Answer::Edit { args } if !is_shallow(args)) {
            return Err(EngineError::new(ErrorKind::InvalidInput, "the edited arguments are nested too deeply").into());
        }
        let ask = interrupt.ask.clone();
        if let Answer::Edit { args } = &answer {
            self.refuse_denied_edit(&ask, args).await?;
        }
        if let Some((rules, scope)) = answer.kept(&ask) {
            self.audit_grants(rules, scope, &client).await?;
        }
        if let Some(settings) = self.with_writable_project(&ask, &answer) {
            self.approve_writable_project(&settings, &client).await?;
        }
        self.resolve(id, answer, AnsweredBy::Client(client)).await
    }

    /// Describes the agent, session and client on whose behalf the user is asked.
    async fn asked_by(&self) -> AskedBy {
        let stored = self.shared.ports.store.session(self.id).await.ok().flatten();
        AskedBy {
            agent: self.active_agent().name().to_owned(),
            session_title: stored.map(|stored| stored.summary.title).filter(|title| !title.is_empty()),
            client: self.open.as_ref().and_then(|open| open.client.clone()),
        }
    }

    /// Republishes a subagent's question, or the answer to it. A grant for the subagent's session also applies to this
    /// session, which is the only session visible to the user.
    pub(crate) async fn republish(&mut self, turn_id: TurnId, fact: EventKind) -> Result<(), Fault> {
        let interrupts = &mut self.interrupts;
        let granted = match &fact {
            EventKind::InterruptRaised { interrupt } if interrupts.published.insert(interrupt.id) => {
                interrupts.of_children.push((**interrupt).clone());
                None
            }
            EventKind::InterruptResolved { interrupt_id, answer, by, .. } => {
                let Some(index) = interrupts.of_children.iter().position(|interrupt| interrupt.id == *interrupt_id)
                else {
                    return Ok(());
                };
                let asked = interrupts.of_children.remove(index);
                let granted = answer.kept(&asked.ask).filter(|(_, scope)| *scope == GrantScope::Session);
                granted.and_then(|(rules, _)| self.grants_of_answer(rules, by))
            }
            _ => return Ok(()),
        };
        self.commit(Some(turn_id), [fact].into_iter().chain(granted).collect()).await
    }

    /// Returns the settings change that adds the grants of an answer.
    fn grants_of_answer(&self, rules: &[String], by: &AnsweredBy) -> Option<EventKind> {
        let (at, by) = (Some(self.shared.ports.clock.now()), by.client().map(str::to_owned));
        self.with_grants(rules.iter().map(|rule| Grant { rule: rule.clone(), at, by: by.clone() }))
    }

    /// Rejects edited arguments that the rules deny, while the user can still give another answer. The gate judges the
    /// arguments again before the call runs.
    async fn refuse_denied_edit(&mut self, ask: &Ask, args: &Value) -> Result<(), Fault> {
        let Ask::Approval { tool, .. } = ask else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        let catalog = self.catalog();
        let Some(tool) = catalog.get(tool) else { return Ok(()) };
        let workspace = self.workspace().await?;
        let facts = CallContext {
            tool: &tool.spec,
            foreign: tool.foreign.as_deref(),
            arguments: &args.to_string(),
            // Links are resolved by the gate.
            followed: None,
            // The start folder only affects which grants apply, and no grant overrides a denial.
            start: None,
            settings: &self.state.settings,
            roots: &roots(&workspace),
            memories: workspace.memories.as_deref(),
            kept: &shared.permanent_grants.now(),
            held: shared.ports.toolbox.can_enforce_read_only().await,
            contained: shared.ports.toolbox.can_contain_commands().await,
        };
        match shared.config().policy.judge(&facts).verdict {
            Verdict::Deny { reason } => Err(denied_edit_error(&reason).into()),
            Verdict::Allow | Verdict::Ask { .. } => Ok(()),
        }
    }

    /// Records the grants of an answer in the audit log before they apply. If recording fails, nothing is granted and
    /// the question stays pending. The answer itself is recorded before the call runs.
    async fn audit_grants(&self, rules: &[String], scope: GrantScope, client: &str) -> Result<(), EngineError> {
        for rule in rules {
            let by = named_client(client);
            let fact = AuditFact::GrantAdded { rule: rule.clone(), scope: scope.as_str().to_owned(), by };
            let entry = AuditEntry::of_session(self.shared.ports.clock.now(), self.id, fact);
            self.shared.ports.audit.record(entry).await.map_err(|error| {
                let hint = error.hint().map(|hint| format!("{hint}; ")).unwrap_or_default();
                EngineError::new(error.kind(), format!("nothing granted; the question is still pending: {error}"))
                    .with_hint(format!("{hint}grants require a working audit log; then answer again"))
            })?;
        }
        Ok(())
    }

    /// Returns the settings with the writable project that the answer approves. `None` for all other answers.
    fn with_writable_project(&self, ask: &Ask, answer: &Answer) -> Option<SessionSettings> {
        let shown = Path::new(ask.writable_project().filter(|_| *answer == Answer::Approve)?);
        let mut settings = self.state.settings.clone();
        settings.project.as_mut().filter(|mount| mount.path == shown)?.writable = true;
        Some(settings)
    }

    /// Checks the folders of these settings, as at the start of a turn, and records the approval of their writable
    /// project in the audit log before it applies. If this fails, the question stays pending.
    async fn approve_writable_project(&self, settings: &SessionSettings, client: &str) -> Result<(), EngineError> {
        self.check_open_folders(settings)?;
        let workspaces = &self.shared.ports.workspaces;
        let workspace = workspaces.locate(settings.files_of(self.id), settings.mounts()).await?;
        let Some(project) = workspace.project.filter(|project| settings.project.as_ref() == Some(project)) else {
            let message = "the project's path leads to another folder than you were shown";
            return Err(EngineError::new(ErrorKind::Conflict, message).with_hint("reject the question"));
        };
        let project = project.path.display().to_string();
        let fact = AuditFact::ProjectMadeWritable { project, by: named_client(client) };
        let entry = AuditEntry::of_session(self.shared.ports.clock.now(), self.id, fact);
        Ok(self.shared.ports.audit.record(entry).await?)
    }

    /// Adds a grant to this session.
    pub(crate) async fn grant(&mut self, grant: Grant) -> Result<(), Fault> {
        match self.with_grants([grant]) {
            Some(change) => self.commit(None, vec![change]).await,
            None => Ok(()),
        }
    }

    /// Revokes a grant of this session.
    pub(crate) async fn revoke(&mut self, rule: String) -> Result<(), Fault> {
        let mut settings = self.state.settings.clone();
        settings.grants.retain(|grant| grant.rule != rule);
        if settings.grants.len() == self.state.settings.grants.len() {
            return Err(unknown_grant("of this session", &rule).into());
        }
        self.change(StateChange::Settings { settings }).await
    }

    /// Replaces the session's grants and mode.
    pub(crate) async fn take_permissions(&mut self, permissions: SessionPermissions) -> Result<(), Fault> {
        self.change_settings(permissions.applied_to(&self.state.settings)).await
    }

    /// Returns the settings change that adds these grants, or `None` if the session already has all of them.
    fn with_grants(&self, grants: impl IntoIterator<Item = Grant>) -> Option<EventKind> {
        let mut settings = self.state.settings.clone();
        for grant in grants {
            if !settings.grants.iter().any(|known| known.rule == grant.rule) {
                settings.grants.push(grant);
            }
        }
        let changed = settings.grants.len() > self.state.settings.grants.len();
        changed.then_some(EventKind::StateChanged { change: StateChange::Settings { settings } })
    }

    async fn resolve(&mut self, id: InterruptId, answer: Answer, by: AnsweredBy) -> Result<(), Fault> {
        let Some(Interrupt { turn_id, call_id, ask, .. }) = self.interrupts.get(id).cloned() else { return Ok(()) };
        let answered = ResolvedInterrupt::new(Some(ask.clone()), &answer, &by);
        let grants = answer.kept(&ask);
        let granted = grants.filter(|(_, scope)| *scope == GrantScope::Session);
        let granted = granted.and_then(|(rules, _)| self.grants_of_answer(rules, &by));
        let opened = self.with_writable_project(&ask, &answer);
        let is_opened = opened.is_some();
        let opened = opened.map(|settings| EventKind::StateChanged { change: StateChange::Settings { settings } });
        let shown = answer.shown(&ask);
        let resolved = EventKind::InterruptResolved { interrupt_id: id, call_id, answer: shown, by };
        // The journal stores permanent grants together with the answer.
        self.commit(Some(turn_id), [resolved].into_iter().chain(granted).chain(opened).collect()).await?;
        if is_opened {
            // The turn continues in a new task, which locates the workspace again.
            self.workspace = None;
        }
        if grants.is_some_and(|(_, scope)| scope == GrantScope::ForGood)
            && let Err(error) = self.shared.permanent_grants.reload().await
        {
            tracing::error!(session = %self.id, "permanent grants are suspended until they can be read: {error}");
        }
        self.interrupts.resolve(id, answered);
        let parked = self.open.as_ref().is_some_and(|open| open.running.is_none());
        if parked && self.draining.is_none() { self.resume().await } else { Ok(()) }
    }

    /// Returns the next time to check for a deadline. The wait is capped, because the clock can be set and the machine
    /// can sleep.
    pub(crate) fn next_check(&self, at: Timestamp) -> Instant {
        let wait = at.duration_since(self.shared.ports.clock.now());
        Instant::now() + Duration::try_from(wait).unwrap_or_default().min(MAX_SLEEP)
    }

    /// Resolves interrupts with their default answers if their deadline has passed.
    pub(crate) async fn resolve_overdue(&mut self) -> Result<NextMove, EngineError> {
        for (id, answer) in self.interrupts.overdue(self.shared.ports.clock.now()) {
            match self.resolve(id, answer, AnsweredBy::Deadline).await {
                Ok(()) => {}
                Err(Fault::Fatal(error)) => return Err(error),
                Err(Fault::Request(error)) => {
                    tracing::error!(session = %self.id, "a parked turn could not be resumed: {error}")
                }
            }
        }
        Ok(NextMove::Go)
    }

    /// Withdraws the questions of a call that no longer needs an answer.
    pub(crate) async fn withdraw(&mut self, turn_id: TurnId, call: &CallId) -> Result<(), Fault> {
        let asked = self.interrupts.withdraw(call);
        if asked.is_empty() {
            return Ok(());
        }
        let facts = asked.into_iter().map(|interrupt| withdrawal(interrupt, "the question is no longer pending"));
        self.commit(Some(turn_id), facts.collect()).await
    }

    /// Approves a call if matching grants were added while the request was in transit to the session.
    fn granted(&self, ask: &Ask) -> Option<ResolvedInterrupt> {
        let Ask::Approval { grants, wider, for_good, .. } = ask else { return None };
        let permanent = self.shared.permanent_grants.now();
        let has_grant =
            |rule: &String| self.state.settings.grants.iter().chain(permanent.iter()).any(|grant| grant.rule == *rule);
        let is_granted = |(at, rule): (usize, &String)| has_grant(rule) || for_good.get(at).is_some_and(has_grant);
        let is_covered = !grants.is_empty() && grants.iter().enumerate().all(is_granted) || wider.iter().any(has_grant);
        is_covered.then(|| ResolvedInterrupt { answer: Answer::Approve, by: DecidedBy::Grant, asked: None })
    }

    async fn not_pending_error(&self, id: InterruptId) -> Result<EngineError, EngineError> {
        let stored = self.shared.ports.store.interrupt(id).await?;
        let was_answered = stored.is_some_and(|one| one.interrupt.session_id == self.id && one.answer.is_some());
        let (kind, message) = match was_answered {
            true => (ErrorKind::Conflict, format!("question {id} was already answered")),
            false => (ErrorKind::NotFound, format!("no pending question {id}")),
        };
        Ok(EngineError::new(kind, message).with_hint("list pending questions with `agentctl interrupts`"))
    }
}

/// Returns the error for edited arguments that the rules deny.
pub(crate) fn denied_edit_error(reason: &str) -> EngineError {
    EngineError::new(ErrorKind::InvalidInput, format!("the edited arguments are denied: {reason}"))
        .with_hint("the question is still pending: edit it differently, approve it unchanged, or reject it")
}

/// Returns the question's default or the configured one, or a rejection if neither fits the question.
fn default_answer(ask: &Ask, default: Answer) -> Answer {
    let answer = match ask {
        // Only a user makes a folder writable.
        _ if ask.writable_project().is_some() => default_rejection(),
        Ask::Question { default: Some(text), .. } => Answer::Text { text: text.clone() },
        _ => default,
    };
    if answer.misfit(ask).is_none() { answer } else { default_rejection() }
}
