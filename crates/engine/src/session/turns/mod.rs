//! Starts, resumes, cancels and ends turns of a session.

pub(crate) mod interrupts;
pub(crate) mod launch;
pub(crate) mod queue;

use std::{collections::HashMap, sync::Arc, time::Duration};

use agentd_context::compaction::plan::CompactionRequest;
use agentd_core::{
    context::CompactionCause,
    error::ErrorKind,
    event::{EventKind, StateChange},
    ids::{CallId, SessionId, TraceId, TurnId},
    item::Item,
    routing::Planning,
    turn::{IfBusy, StartTurn, StopReason, TurnError, TurnOptions, TurnResult},
};
use tokio::{task::JoinError, time::Instant};

use crate::{
    attachments::Attachment,
    client::{FileLines, TurnStart},
    error::{EngineError, refuse_if},
    large_input::UserInput,
    recovery,
    session::{
        actor::{Actor, Fault, NextMove, OpenTurn, StartedTurn},
        turns::queue::{CONTINUED_NOTICE, InputContext, added_tokens, interruption},
    },
    turn::{
        TurnOutcome,
        answering::AnswerMode,
        recorder::{TurnMessage, whole},
        route,
    },
};

impl Actor {
    pub(super) async fn start(&mut self, start: TurnStart) -> Result<StartedTurn, Fault> {
        if self.draining.is_some() {
            return Err(EngineError::stopping().into());
        }
        let TurnStart { mut start, lines } = start;
        self.check_input(&start)?;
        launch::check_form(&start, self.open.is_some())?;
        self.check_options(&mut start)?;
        match (&self.open, start.if_busy) {
            (None, _) => {
                let turn_id = TurnId::generate();
                self.lines.insert(turn_id, lines);
                let begin_result = self.begin(turn_id, start, false).await;
                if begin_result.is_err() {
                    self.lines.remove(&turn_id);
                }
                begin_result
            }
            // Input that arrives after a cancel is not withdrawn by that cancel.
            (Some(open), IfBusy::Steer) if open.is_cancelled() => self.enqueue(start, lines).await,
            (Some(_), IfBusy::Steer) if start.planning.is_some_and(|planning| planning != Planning::Never) => {
                let message = "text added to a running turn cannot begin with a plan";
                Err(EngineError::invalid(message, "queue it as a separate turn: --if-busy queue").into())
            }
            (Some(open), IfBusy::Steer) => {
                let turn_id = open.turn_id;
                let events = self.journal.subscribe(self.journal.head(), Some(turn_id), Some(turn_id));
                let input = UserInput::whole(start.text.unwrap_or_default(), start.typed_bytes);
                self.steer(Some(turn_id), input, start.whole).await?;
                if let Some(open) = &self.open {
                    open.file_lines.join(lines.files);
                }
                Ok(StartedTurn { turn_id, events, joined: true })
            }
            (Some(_), IfBusy::Queue) => self.enqueue(start, lines).await,
            (Some(open), IfBusy::Refuse) => Err(self.busy(open).into()),
        }
    }

    pub(super) fn busy(&self, open: &OpenTurn) -> EngineError {
        let id = self.id;
        if open.running.is_none() || !self.interrupts.is_empty() {
            EngineError::new(ErrorKind::Busy, format!("turn {} of this session waits for an answer", open.turn_id))
                .with_hint(format!("show the question with agentctl interrupts, or the turn with agentctl attach {id}"))
        } else {
            EngineError::busy(
                format!("turn {} of this session is running", open.turn_id),
                format!(
                    "see it with agentctl attach {id} (Ctrl-C cancels it); clients can also queue a turn or add \
                     to this one"
                ),
            )
        }
    }

    /// Starts a turn. A turn without input continues with the current agent. A turn with input uses the agent named in
    /// `StartTurn`, or the session's own agent.
    pub(super) async fn begin(
        &mut self,
        turn_id: TurnId,
        mut start: StartTurn,
        was_queued: bool,
    ) -> Result<StartedTurn, Fault> {
        self.load_project_agents().await?;
        self.check_agent(&start)?;
        if start.text.is_none() && start.compact.is_none() {
            // Options that `StartTurn` does not set are inherited, so that a restart or another client cannot widen
            // them.
            if let Some(before) = self.last_turn_options().await?.0 {
                start.options = start.options.or(*before);
            }
            start.slot = start.slot.or(start.options.slot);
        }
        let before = (self.state.settings.agent.clone(), self.state.agents.clone());
        let named = start.options.agent.as_deref();
        let agent_changes = if start.text.is_some() { self.activate_agent(named) } else { Vec::new() };
        self.options = start.options.clone();
        let began = self.begin_as(turn_id, start, was_queued, agent_changes).await;
        self.lines.remove(&turn_id);
        if began.is_err() {
            self.options = TurnOptions::default();
            // The journal does not contain the change.
            (self.state.settings.agent, self.state.agents) = before;
        }
        began
    }

    /// Starts a turn for the active agent. `TurnStarted` is stored before it is published.
    async fn begin_as(
        &mut self,
        turn_id: TurnId,
        mut start: StartTurn,
        was_queued: bool,
        agent_changes: Vec<EventKind>,
    ) -> Result<StartedTurn, Fault> {
        let form = self.form(&start).await?;
        // A turn that only compacts adds no notices.
        let has_input = start.compact.is_none();
        let attached = if has_input { self.attached(&start.attached).await? } else { Vec::new() };
        let (intent, intent_usage) = match self.intent(&start).filter(|_| has_input) {
            Some(intent) => {
                let (intent, intent_usage) =
                    self.confirmed_intent(intent, start.text.as_deref().unwrap_or_default()).await;
                (Some(intent), intent_usage)
            }
            None => (None, None),
        };
        if has_input && self.has_pictures(&attached) {
            self.look_up_vision().await;
        }
        let routed = self.choose(start.slot, &attached, intent.as_ref());
        let choice = routed.of_agent(self.active_agent().own_slot());
        let slot = choice.slot;
        self.check_model(slot)?;
        let needs_plan = has_input && self.begins_with_plan(&start, intent.as_ref());
        let model = self.model(slot);
        let (is_embedded, no_form) = (model.info().embedded, || "the built-in model cannot answer with a schema");
        let hint = "choose a model that can (see docs/models.md), or omit the schema";
        refuse_if(form.is_some() && is_embedded, no_form, hint)?;
        if !model.is_known() {
            // The window size decides how tools are described from the first request on. Only models that were never
            // queried are queried here.
            self.look_up(choice).await;
        }
        let mentions = if has_input { self.mentions(&start, &attached, slot).await? } else { Arc::default() };
        let moved_notice = if has_input { self.find_project(&start.environment).await? } else { None };
        let mut notices =
            if has_input { self.opening_notices(slot, &*model, &attached, &mentions).await? } else { Vec::new() };
        notices.extend(moved_notice);
        if start.text.is_some() {
            notices.extend(self.map(model.info()).await?);
        } else if has_input && self.state.last_stop == Some(StopReason::Cancelled) {
            notices.push(interruption(CONTINUED_NOTICE));
        }
        let user_input = match start.text.take() {
            Some(text) => {
                let input = UserInput::whole(text, start.typed_bytes);
                let (mentions, added_tokens) = (&mentions.tools, added_tokens(&start));
                let input_context =
                    InputContext { choice, mentions, attached: &attached, notices: &notices, added_tokens };
                Some(self.fit_input(input, start.whole, input_context).await?)
            }
            None => None,
        };
        let configured = self.shared.config().max_steps;
        let max_steps = start.max_steps.or(configured).unwrap_or_else(|| model.info().default_max_steps()).max(1);
        let loading = self.newly_loaded(&mentions, &attached, slot);
        let (fallback, fallback_event) = self.immediate_fallback(slot).unzip();
        let answer_schema = form.as_ref().map(|form| form.schema.clone());
        let (client_tools, client_warning) = self.offer_client_tools(turn_id, &start.tools)?;
        let attached: Vec<_> = attached.into_iter().filter(|file| file.selected.is_none()).collect();
        let handed_over = attached.iter().map(|file| file.path.clone()).collect();
        let of_file = |file: Attachment| StateChange::HandedOver { path: file.path, picture: file.picture };
        let trace_id = TraceId::generate();
        let (now, first_seq) = (self.shared.ports.clock.now(), self.journal.head() + 1);
        self.open = Some(OpenTurn {
            started: Some(Instant::now()),
            choice: routed,
            fallback,
            max_steps,
            answering: AnswerMode::new(start.on_interrupt, start.while_connected),
            client: Some(start.client.clone()).filter(|client| !client.is_empty()),
            environment: Arc::new(start.environment.clone()),
            handed_over: attached.into_iter().map(of_file).collect(),
            compacts: start.compact.is_some(),
            generates_title: start.generate_title,
            form,
            client_tools,
            file_lines: Arc::new(FileLines::new(self.lines.remove(&turn_id).unwrap_or_default().files)),
            mentions: Some(mentions),
            ..OpenTurn::new(turn_id, trace_id, now, first_seq)
        });
        // The turn is counted early, because the disk may be slow and a client that wants to stop the daemon checks for
        // running turns.
        self.gauge.set(true, !self.interrupts.is_empty());
        let stored = user_input.as_ref().and_then(|user_input| self.stored_warning(user_input, choice));
        let notices = notices.into_iter().map(|body| Item::new(turn_id, body));
        let plan = needs_plan.then(|| Item::new(turn_id, route::plan_notice()));
        let input: Vec<Item> = notices
            .chain(user_input.map(|user_input| Item::new(turn_id, user_input.body(false))))
            .chain(plan)
            .collect();
        let mut state = self.fresh_state();
        let options = Some(Box::new(start.options)).filter(|options| !options.is_default());
        if let Some(strategy) = start.compact {
            state.compact = Some(CompactionRequest { cause: CompactionCause::Person, strategy });
        }
        if let Some(EventKind::UsageUpdated { turn, .. }) = &intent_usage {
            state.usage = *turn;
        }
        for item in &input {
            state.note(Arc::new(item.clone()));
        }
        if let Err(fault) = self.launch(state).await {
            self.open = None;
            return Err(fault);
        }
        let events = self.journal.subscribe(self.journal.head(), Some(turn_id), Some(turn_id));
        let model = model.info().id.clone();
        let (reason, environment, compacts) = (choice.reason().to_owned(), start.environment, start.compact.is_some());
        let mut facts = vec![EventKind::TurnStarted {
            trace_id,
            slot,
            model,
            reason,
            rule: choice.rule,
            max_steps,
            compacts,
            environment,
            handed_over,
            answer_schema,
            options,
        }];
        facts.extend(client_warning);
        facts.extend(intent.map(|intent| EventKind::IntentClassified { intent }));
        facts.extend(intent_usage);
        facts.extend(fallback_event);
        facts.extend(agent_changes);
        let new_surroundings = self.new_surroundings.clone().map(StateChange::Surroundings);
        facts.extend(new_surroundings.map(|change| EventKind::StateChanged { change }));
        facts.extend(loading);
        facts.extend(input.into_iter().flat_map(whole));
        facts.extend(stored);
        // Warning for the user about the project, sent once.
        facts.extend(self.project.warning.take());
        facts.extend(was_queued.then(|| self.dequeued_fact()));
        // In the meantime, the turn already calls its model.
        self.commit(Some(turn_id), facts).await?;
        self.new_surroundings = None;
        Ok(StartedTurn { turn_id, events, joined: false })
    }

    pub(super) async fn cancel(&mut self, turn: Option<TurnId>) -> Result<(), Fault> {
        if let Some(index) = turn.and_then(|turn| self.queue.iter().position(|queued| queued.turn_id == turn)) {
            let Some(queued) = self.queue.remove(index) else { return Ok(()) };
            return self.record_unrun_turn(queued, StopReason::Cancelled, None).await;
        }
        self.open_turn(turn)?;
        match self.open.as_mut().and_then(|open| open.running.as_mut()) {
            Some(running) => {
                running.cancelled_for.get_or_insert(StopReason::Cancelled);
                running.cancel.cancel();
                Ok(())
            }
            None => self.end_idle_turn(StopReason::Cancelled).await,
        }
    }

    /// Returns the ID of the open turn if it is the `wanted` turn.
    pub(super) fn open_turn(&self, wanted: Option<TurnId>) -> Result<TurnId, EngineError> {
        match (&self.open, wanted) {
            (Some(open), None) => Ok(open.turn_id),
            (Some(open), Some(wanted)) if open.turn_id == wanted => Ok(wanted),
            (_, Some(wanted)) => Err(EngineError::new(ErrorKind::Conflict, format!("turn {wanted} is not running"))
                .with_hint("it has ended or never existed")),
            (None, None) => Err(EngineError::new(ErrorKind::Conflict, "no turn of this session is running")),
        }
    }

    /// Stores and publishes messages of the turn. Adjacent facts are stored with one commit.
    pub(super) async fn handle_messages(&mut self, messages: Vec<TurnMessage>) -> Result<(), Fault> {
        let Some(turn_id) = self.open.as_ref().map(|open| open.turn_id) else { return Ok(()) };
        let mut facts = Vec::new();
        for message in messages {
            if let TurnMessage::Facts(several) = message {
                facts.extend(several);
                continue;
            }
            self.commit(Some(turn_id), std::mem::take(&mut facts)).await?;
            match message {
                TurnMessage::Facts(_) => {}
                TurnMessage::Delta { item_id, text } => self.journal.publish_delta(turn_id, item_id, text),
                TurnMessage::Flush(done) => {
                    let _ = done.send(());
                }
                TurnMessage::Child(fact) => self.republish(turn_id, *fact).await?,
                TurnMessage::Ask { call_id, ask, answer } => self.ask(turn_id, call_id, *ask, answer).await?,
                TurnMessage::Withdraw { call_id } => self.withdraw(turn_id, &call_id).await?,
                TurnMessage::Compact { item_id, replaced, compaction, stored } => {
                    self.compact(turn_id, item_id, &replaced, *compaction, stored).await?;
                }
                TurnMessage::TakeSteers(reply) => {
                    let _ = reply.send(self.take_steers(turn_id).await?);
                }
                TurnMessage::FailOver { state, call } => Box::pin(self.fail_over(*state, *call)).await?,
                TurnMessage::Transfer(state) => Box::pin(self.transfer_turn(*state)).await?,
                TurnMessage::End { outcome, is_stored } => {
                    let _ = is_stored.send(Box::pin(self.request_end(*outcome)).await?);
                }
            }
        }
        self.commit(Some(turn_id), facts).await
    }

    /// Ends the turn, unless input was added to it. Returns true if the turn ended.
    async fn request_end(&mut self, mut outcome: TurnOutcome) -> Result<bool, Fault> {
        if let Some(open) = &self.open
            && let Some(running) = &open.running
        {
            let turn_id = open.turn_id;
            let has_steers = !open.steers.is_empty();
            if outcome.reason.is_model_answer() && has_steers {
                return Ok(false);
            }
            if let (StopReason::Cancelled, Some(reason)) = (outcome.reason, running.cancelled_for) {
                outcome.reason = reason;
            }
            if has_steers && outcome.reason != StopReason::Cancelled {
                let message = "the added text came too late for this turn; the model reads it in the next one";
                let late = EventKind::Warning {
                    code: "added_too_late".to_owned(),
                    message: message.to_owned(),
                    retry_in_ms: None,
                };
                self.commit(Some(turn_id), vec![late]).await?;
            }
        }
        self.end(outcome).await?;
        Ok(true)
    }

    /// Handles the end of the turn's task without a reported outcome, which is a bug.
    pub(super) async fn task_ended(&mut self, ended: Result<(), JoinError>) -> Result<NextMove, EngineError> {
        let reason = match ended {
            Ok(()) => "the turn's task ended without a result".to_owned(),
            Err(error) => format!("the turn's task failed: {error}"),
        };
        tracing::error!(session = %self.id, "{reason}");
        let error = TurnError {
            kind: ErrorKind::Internal,
            message: "an internal error ended the turn".to_owned(),
            hint: Some("the work so far is stored; see the log for details".to_owned()),
        };
        if let Some(open) = &mut self.open {
            open.running = None;
        }
        let ended = async {
            let state = self.replayed_state().await?;
            self.end(state.outcome(StopReason::Failed, Some(error))).await
        };
        ended.await.map(|()| NextMove::Go).map_err(Fault::into_error)
    }

    /// Ends an open turn that has no task.
    pub(super) async fn end_idle_turn(&mut self, reason: StopReason) -> Result<(), Fault> {
        let state = self.replayed_state().await?;
        self.end(state.outcome(reason, None)).await
    }

    /// Stores the end of the open turn: withdraws all questions, completes all items, and stores `TurnEnded` last.
    pub(super) async fn end(&mut self, outcome: TurnOutcome) -> Result<(), Fault> {
        let Some(open) = self.open.take() else { return Ok(()) };
        // Text that was still streaming is the turn's last message.
        let text = self.journal.streamed_text().unwrap_or(outcome.text);
        let is_withdrawn = outcome.reason == StopReason::Cancelled && self.state.settings.parent.is_none();
        // A turn with unread added input did more than compact.
        let unread = !open.steers.is_empty() && !is_withdrawn;
        let asked = self.interrupts.pending().into_iter();
        let mut facts: Vec<_> = asked.map(|interrupt| recovery::withdrawal(interrupt, "the turn ended")).collect();
        let mut cut_off = self.journal.close_open();
        facts.extend(recovery::unstarted_results(open.turn_id, &outcome.without_result, &cut_off));
        self.add_file_changes(open.first_seq, &mut cut_off).await;
        facts.extend(cut_off);
        if is_withdrawn {
            facts.extend(self.withdrawals(&open, &facts, outcome.only_compacted).await?);
        }
        let only_compacted = outcome.only_compacted && !unread;
        let generates_title = open.generates_title && outcome.reason == StopReason::Completed && !only_compacted;
        if outcome.reason == StopReason::Completed && !only_compacted {
            facts.extend(self.restore_own_agent());
        }
        let by_clock = || self.shared.ports.clock.now().duration_since(open.started_at);
        let duration = open
            .started
            .map_or_else(|| Duration::try_from(by_clock()).unwrap_or_default(), |started| started.elapsed());
        facts.push(EventKind::TurnEnded {
            result: Box::new(TurnResult {
                turn_id: open.turn_id,
                trace_id: open.trace_id,
                text,
                tool_used: outcome.tool_used,
                stop_reason: outcome.reason,
                error: outcome.error,
                steps: outcome.steps,
                usage: outcome.usage,
                denials: outcome.denials,
                files: outcome.files,
                duration_ms: u64::try_from(duration.as_millis()).unwrap_or_default(),
                only_compacted,
            }),
        });
        self.interrupts = Default::default();
        self.options = TurnOptions::default();
        self.state.meter = outcome.meter;
        self.commit(Some(open.turn_id), facts).await?;
        if generates_title {
            Box::pin(self.request_title()).await;
        }
        self.cancel_children(open.children);
        self.begin_next().await
    }

    /// Cancels subagents whose calls have no result although the turn has ended. Separate tasks do this, because a
    /// session must never wait for another.
    pub(super) fn cancel_children(&self, children: HashMap<CallId, SessionId>) {
        for id in children.into_values() {
            let subagents = Arc::clone(&self.shared.subagents);
            tokio::spawn(async move { subagents.cancel(id).await });
        }
    }
}
