//! Launches a turn: checks the client's options, or inherits those of the continued turn, and spawns the task. Also
//! rebuilds the state of an open turn after a restart.

use std::{sync::Arc, time::Duration};

use agentd_context::text::ResultLimits;
use agentd_core::{
    agent::{MAIN, TRANSFER_PREFIX},
    answer_schema::AnswerSchema,
    client_tool::ClientTool,
    event::{EventKind, StateChange},
    files::SessionTree,
    ids::TurnId,
    input::AttachedPart,
    ports::{FallbackModel, Workspace},
    turn::{Denial, IfBusy, MAX_TURN_INSTRUCTIONS, StartTurn, StopReason, TurnOptions},
};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{self, ActiveAgent},
    answer_form::AnswerForm,
    attachments::{self, Attachment},
    catalog::{ToolFinder, ToolScope},
    client::{self, ClientTools, OfferedTools},
    config::PolicyInForce,
    error::{EngineError, refuse_if},
    grants::LiveGrants,
    mentions,
    recovery::subagents,
    session::{
        actor::{Actor, Fault, RunningTurn},
        settings,
    },
    turn::{
        Control, Limits, Phase, PromptSource, TurnContext, TurnFiles, TurnIds, TurnModels, TurnRules, TurnState,
        TurnTools, recorder::Recorder, rounds::CallRounds, route::SlotChoice, run::run, stopwatch::Stopwatch,
    },
};

/// Maximum number of project paths to which the embedded model's output can be constrained. The paths are not part of
/// the model's prompt. In a larger project, paths beyond this number must be named in full.
const KNOWN_PATHS: usize = 5000;

impl Actor {
    /// Rejects an empty or too long input, and a turn without input if there is no turn to continue.
    pub(crate) fn check_input(&self, start: &StartTurn) -> Result<(), EngineError> {
        let limit = self.shared.config().max_input_bytes;
        match &start.text {
            Some(text) if text.len() > limit => Err(EngineError::invalid(
                format!("the input has {} bytes; at most {limit} are allowed", text.len()),
                "put it in a file and attach it: agentctl run --file PATH",
            )),
            Some(_) if start.compact.is_some() => Err(EngineError::invalid(
                "a turn that compacts the history accepts no input",
                "compact first, then send a prompt",
            )),
            Some(text) if text.trim().is_empty() => Err(EngineError::invalid("the input is empty", "enter a prompt")),
            None if start.compact.is_none() && self.open.is_none() && !self.can_continue() => {
                Err(EngineError::invalid("there is no turn to continue: the last one was completed", "enter a prompt"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the last turn can be continued. A withdrawn turn cannot be continued if the history is empty.
    fn can_continue(&self) -> bool {
        let was_withdrawn =
            || self.state.last_stop == Some(StopReason::Cancelled) && self.state.visible_history().is_empty();
        self.state.last_stop.is_some_and(StopReason::can_continue) && !was_withdrawn()
    }

    /// Rejects options that a turn cannot honour, and sets the slot of the chosen model.
    pub(crate) fn check_options(&self, start: &mut StartTurn) -> Result<(), EngineError> {
        let joins = self.open.is_some() && start.if_busy == IfBusy::Steer;
        let has_extras = !(start.attached.is_empty() && start.tools.is_empty() && start.options.is_default());
        let joined = || "a running turn accepts only text, not parts, tools, instructions or limits";
        refuse_if(joins && has_extras, joined, "queue it as a separate turn: --if-busy queue")?;
        let compacts = || "a turn that compacts the history accepts no parts, tools, instructions or limits";
        refuse_if(start.compact.is_some() && has_extras, compacts, "compact first, then give them with the input")?;
        let has_only_parts = start.text.is_none() && !start.attached.is_empty();
        refuse_if(has_only_parts, || "the input has parts but no text", "say in `text` what to do with them")?;
        if let Some(instructions) = &start.options.instructions {
            let empty = || "the instructions of the turn are empty";
            refuse_if(instructions.trim().is_empty(), empty, "omit the instructions")?;
            let (bytes, limit) = (instructions.len(), MAX_TURN_INSTRUCTIONS);
            let size = || format!("the instructions have {bytes} bytes; at most {limit} are allowed");
            refuse_if(bytes > limit, size, "attach the rest as a file")?;
        }
        self.check_tools(start)?;
        if let Some(id) = &start.options.model {
            let slot = start.slot.or(self.state.settings.slot).unwrap_or_default();
            settings::check(&*self.shared.ports.models, slot, id)?;
            (start.slot, start.options.slot) = (Some(slot), Some(slot));
        }
        Ok(())
    }

    /// Rejects an unknown agent. An agent that is not enabled can be named explicitly. The project's agents must be
    /// loaded.
    pub(crate) fn check_agent(&self, start: &StartTurn) -> Result<(), EngineError> {
        let Some(id) = &start.options.agent else { return Ok(()) };
        refuse_if(start.text.is_none(), || "a resumed turn keeps its agent", "send a prompt with the agent")?;
        let of_subagent = || "the session of a subagent cannot use another agent";
        refuse_if(self.state.settings.parent.is_some(), of_subagent, "use the agent in one of your sessions")?;
        let is_unknown = id != MAIN && self.all_agents().get(id).is_none();
        let unknown = || format!("no such agent: {:?}", id.chars().take(100).collect::<String>());
        refuse_if(is_unknown, unknown, "list all agents with `agentctl agents`")
    }

    fn check_tools(&self, start: &StartTurn) -> Result<(), EngineError> {
        let catalog = self.catalog();
        let canonical = |name: &str| self.canonical(name);
        client::check(&start.tools, &catalog, canonical)?;
        let is_client_tool = |name: &str| start.tools.iter().any(|tool| tool.name == name || tool.called() == name);
        // A subagent inherits the list of its parent turn and may lack some of the tools. Missing tools are not
        // allowed.
        if self.state.settings.parent.is_some() {
            return Ok(());
        }
        let mut allowed = start.options.allowed_tools.iter().flatten();
        let is_transfer = |name: &str| name.starts_with(TRANSFER_PREFIX);
        let is_unlisted =
            |name: &str| catalog.unlisted(&ToolScope::default()).any(|server| name.starts_with(&server.prefix));
        let tool_exists = |name: &str| catalog.get(&self.canonical(name)).is_some() || is_unlisted(name);
        let unknown = allowed.find(|name| !is_client_tool(name) && !is_transfer(name) && !tool_exists(name));
        let Some(unknown) = unknown else { return Ok(()) };
        let shown: String = unknown.chars().take(100).collect();
        let hint = "list all tools with `agentctl tools` or Daemon.Tools";
        Err(EngineError::invalid(format!("no such tool in the allowed tools: {shown:?}"), hint))
    }

    /// Returns the options and answer schema of the last turn that ran here and did more than compact. Options of
    /// imported turns are ignored, because another user may have chosen them.
    pub(crate) async fn last_turn_options(
        &self,
    ) -> Result<(Option<Box<TurnOptions>>, Option<AnswerSchema>), EngineError> {
        let store = &self.shared.ports.store;
        let turns = store.turns(self.id).await?;
        let imported = self.state.settings.imported.as_ref().map_or(0, |origin| origin.events);
        for turn in turns.iter().rev().take_while(|turn| turn.began > imported) {
            let first = store.events(self.id, turn.began.saturating_sub(1), 1).await?.into_iter().next();
            if let Some(EventKind::TurnStarted { compacts: false, options, answer_schema, .. }) =
                first.as_ref().map(|event| &event.kind)
            {
                return Ok((options.clone(), answer_schema.clone()));
            }
        }
        Ok((None, None))
    }

    /// Returns the answer form of a new turn. A turn without input inherits the previous turn's form.
    pub(crate) async fn form(&self, start: &StartTurn) -> Result<Option<Arc<AnswerForm>>, Fault> {
        let continues = start.text.is_none() && start.compact.is_none();
        let previous_schema =
            if start.answer_schema.is_none() && continues { self.last_turn_options().await?.1 } else { None };
        Ok(AnswerForm::of(start.answer_schema.as_ref().or(previous_schema.as_ref()))?)
    }

    /// Maps a foreign tool name to the canonical name of the engine's tool.
    pub(crate) fn canonical(&self, name: &str) -> String {
        let ours = agents::canonical_name(name);
        self.shared.ports.toolbox.canonical_name(ours).to_owned()
    }

    /// Reads pending uploaded files and the attached parts of the input.
    pub(crate) async fn attached(&mut self, parts: &[AttachedPart]) -> Result<Vec<Attachment>, Fault> {
        if self.state.handed_over.is_empty() && parts.is_empty() {
            return Ok(Vec::new());
        }
        let tree = SessionTree { workspace: self.workspace().await?, state: Arc::clone(&self.state.files) };
        Ok(attachments::read(&*self.shared.ports.workspaces, &tree, &self.state.handed_over, parts).await)
    }

    /// Records that the client of an open or queued turn has disconnected.
    pub(crate) async fn client_left(&mut self, turn: TurnId) -> Result<(), Fault> {
        if let Some(queued) = self.queue.iter_mut().find(|queued| queued.turn_id == turn) {
            queued.start.note_disconnect();
        } else if let Some(open) = self.open.as_ref().filter(|open| open.turn_id == turn) {
            open.answering.disconnect();
        }
        Ok(())
    }

    /// Returns the tools offered by the client of a new turn, or a warning if the client has already disconnected.
    pub(crate) fn offer_client_tools(
        &mut self,
        turn: TurnId,
        tools: &[ClientTool],
    ) -> Result<(OfferedTools, Option<EventKind>), EngineError> {
        if tools.is_empty() {
            return Ok((None, None));
        }
        match self.lines.get_mut(&turn).and_then(|lines| lines.tools.take()).filter(|line| !line.is_gone()) {
            Some(line) => Ok((Some(Arc::new(ClientTools::new(tools, line)?)), None)),
            None => {
                let message =
                    "the client that offers tools has disconnected; the turn continues without them".to_owned();
                Ok((
                    None,
                    Some(EventKind::Warning { code: "client_tools_gone".to_owned(), message, retry_in_ms: None }),
                ))
            }
        }
    }

    /// Creates the state of a turn that starts now.
    pub(crate) fn fresh_state(&self) -> TurnState {
        let unfinished = self.state.last_stop.is_some_and(StopReason::can_continue);
        let compacts = self.open.as_ref().is_some_and(|open| open.compacts);
        let phase = if compacts { Phase::Compacting { unfinished } } else { Phase::Working };
        let history = self.state.visible_history();
        TurnState {
            rounds: CallRounds::before(self.open.as_ref().map(|open| open.turn_id), &history, self.state.last_stop),
            history,
            todos: self.state.todos.clone(),
            meter: self.state.meter.clone(),
            visible_at_undo: self.state.window.held,
            reset_at: Some(self.state.window).filter(|window| window.summary == 0).map_or(0, |window| window.after),
            phase,
            ..TurnState::default()
        }
    }

    /// Locates the session's workspace, and caches it.
    pub(crate) async fn workspace(&mut self) -> Result<Arc<Workspace>, EngineError> {
        if let Some(workspace) = &self.workspace {
            return Ok(Arc::clone(workspace));
        }
        let mounts = self.state.settings.mounts();
        let found = self.shared.ports.workspaces.locate(self.state.settings.files_of(self.id), mounts).await?;
        Ok(Arc::clone(self.workspace.insert(Arc::new(found))))
    }

    /// Spawns the task of the open turn.
    pub(crate) async fn launch(&mut self, state: TurnState) -> Result<(), Fault> {
        let workspace = self.workspace().await?;
        let config = self.shared.config();
        let active_agent = self.active_agent();
        active_agent.check()?;
        let Some(open) = &self.open else { return Ok(()) };
        let choice = open.choice.of_agent(active_agent.own_slot());
        let slot = choice.slot;
        let pictures = attachments::pictures(&state.history).next().is_some();
        let turn_id = open.turn_id;
        let mentions = match open.mentions.clone() {
            Some(mentions) => mentions,
            None => {
                let input = mentions::last_input(&state.history);
                let mentions = self.resolve_mentions(input, slot, pictures).await?;
                let loading = self.newly_loaded(&mentions, &[], slot);
                self.commit(Some(turn_id), loading.into_iter().collect()).await?;
                mentions
            }
        };
        let finder = self.finder(&mentions.tools, slot, pictures, &state.history);
        let models = self.models(choice);
        let (model, chat) = (models.model.info(), models.chat.info());
        let known_paths = if model.embedded {
            self.shared.ports.workspaces.paths(&workspace, KNOWN_PATHS).await?
        } else {
            Vec::new()
        };
        // The last answer may be written by another model, which reads the same results.
        let window = models.windows.of(model).min(models.windows.of(chat));
        let prompt = PromptSource {
            system: self.system(&active_agent.instructions(&config), &finder, &workspace),
            known_paths,
            results: ResultLimits::of(config.large_result_tokens, config.feedback_tokens, window),
        };
        let Some(open) = &self.open else { return Ok(()) };
        let shared = &self.shared;
        let (recorder, messages) = Recorder::new(open.turn_id);
        let cancel = CancellationToken::new();
        let context = TurnContext {
            ids: TurnIds { session: self.id, turn: open.turn_id, trace: open.trace_id, client: open.client.clone() },
            settings: self.state.settings.clone(),
            limits: Limits {
                max_steps: open.max_steps,
                time: self.options.time_ms.map(Duration::from_millis).into_iter().chain(config.turn_time_limit).min(),
                tokens: self.options.tokens.into_iter().chain(config.turn_token_budget).min(),
            },
            config,
            options: self.options.clone(),
            rules: TurnRules {
                policy: PolicyInForce(shared.config.clone()),
                grants: LiveGrants { of_session: self.grants.subscribe(), permanent: shared.permanent_grants.clone() },
                answering: open.answering.clone(),
                answered: self.interrupts.answered.clone(),
            },
            models,
            answer_form: open.form.clone(),
            prompt,
            tools: TurnTools {
                visible: finder.tools(),
                finder,
                client_tools: open.client_tools.clone(),
                mentions,
                chain: Arc::clone(&shared.chain),
                subagents: Arc::clone(&shared.subagents),
                in_flight: open.in_flight.clone(),
                delegated: Arc::default(),
            },
            files: TurnFiles {
                workspace,
                session: self.state.settings.files_of(self.id),
                folders_created: OnceCell::new(),
                state: self.files.subscribe(),
                client_files: Arc::clone(&open.file_lines),
            },
            recorder,
            ports: Arc::clone(&shared.ports),
            control: Control {
                calls: cancel.child_token(),
                cancel: cancel.clone(),
                stopwatch: Stopwatch::start(state.worked).into(),
                environment: Arc::clone(&open.environment),
            },
            active_agent,
        };
        let span = tracing::info_span!("turn", session = %self.id, turn = %open.turn_id, trace = %open.trace_id);
        let task = tokio::spawn(tracing::Instrument::instrument(run(Arc::new(context), state), span));
        if let Some(open) = &mut self.open {
            open.running = Some(RunningTurn { cancel, cancelled_for: None, messages, task });
        }
        Ok(())
    }

    /// Returns the models of a turn. A fallback model also writes the last answer.
    fn models(&self, choice: SlotChoice) -> TurnModels {
        let shared = &self.shared;
        let fallback = self.open.as_ref().and_then(|open| open.fallback.clone());
        let (slot, model, (chat_slot, chat)) = match fallback {
            Some(FallbackModel { slot, model }) => (slot, Arc::clone(&model), (slot, model)),
            None => (choice.slot, self.model(choice.slot), self.chat(choice)),
        };
        TurnModels {
            slot,
            model,
            has_fallback: self.has_fallback(choice.slot),
            chat_slot,
            chat,
            summary: shared.config().summary_slot.filter(|own| *own != slot).map(|own| (own, self.model(own))),
            calibration: Arc::clone(&shared.calibration),
            windows: Arc::clone(&shared.windows),
        }
    }

    /// Builds the system message that starts with `text`.
    pub(crate) fn system(&self, text: &str, finder: &ToolFinder, workspace: &Workspace) -> String {
        agentd_context::system(text, &finder.describe_servers(), workspace, self.surroundings(), self.state.created_at)
    }

    /// Resumes the open turn after a restart, from its events in the journal. If that fails, for example because the
    /// turn's folder no longer exists, the turn ends with the error. The turn must not stay open, because nothing could
    /// continue it and the session could not be loaded.
    pub(crate) async fn resume(&mut self) -> Result<(), Fault> {
        let state = self.replayed_state().await?;
        match self.load_project_agents().await {
            Ok(()) => self.continue_turn(state).await,
            Err(error) => self.fail(&error).await,
        }
    }

    /// Rebuilds the state of the open turn from the journal.
    pub(crate) async fn replayed_state(&self) -> Result<TurnState, Fault> {
        let mut state = self.fresh_state();
        // The size of the items that the turn added since the last count is unknown here.
        state.meter.start_over();
        if let Some(open) = &self.open {
            let events = self.turn_events(open.turn_id, open.first_seq).await?;
            for event in &events {
                state.replay(event);
            }
            for Denial { call_id, tool, reason } in subagents::denials(&self.shared.ports, &events).await? {
                state.note_denial(call_id, tool, reason);
            }
        }
        Ok(state)
    }

    /// Returns the active agent of the session.
    pub(crate) fn active_agent(&self) -> ActiveAgent {
        ActiveAgent::of(&self.state.settings, &self.state.agents, &self.all_agents())
    }

    /// Makes the session's own agent active; a `named` agent becomes the session's own agent. Returns the facts of the
    /// changes.
    pub(crate) fn activate_agent(&mut self, named: Option<&str>) -> Vec<EventKind> {
        let mut facts = Vec::new();
        let own = named.map(|id| (id != MAIN).then(|| id.to_owned()));
        if let Some(own) = own.filter(|own| *own != self.state.settings.agent) {
            self.state.settings.agent = own;
            let settings = self.state.settings.clone();
            facts.push(EventKind::StateChanged { change: StateChange::Settings { settings } });
        }
        facts.extend(self.restore_own_agent());
        self.state.agents = self.state.settings.agent.iter().cloned().collect();
        facts
    }

    /// Creates the fact that makes the session's own agent active again, if another agent is active.
    pub(crate) fn restore_own_agent(&self) -> Option<EventKind> {
        let stack: Vec<String> = self.state.settings.agent.iter().cloned().collect();
        (self.state.agents != stack).then_some(EventKind::StateChanged { change: StateChange::Agent { stack } })
    }

    /// Continues the open turn with another agent, which is already recorded in the journal, or with newly available
    /// tools.
    pub(crate) async fn transfer_turn(&mut self, mut state: TurnState) -> Result<(), Fault> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        let Some(running) = open.running.take() else { return Ok(()) };
        if let Some(reason) = running.cancelled_for {
            return self.end(state.outcome(reason, None)).await;
        }
        state.delegated = 0;
        if state.phase == Phase::HandingOff {
            state.phase = Phase::Working;
        } else {
            // The input may mention the new tools.
            open.mentions = None;
        }
        self.continue_turn(state).await
    }

    /// Continues the open turn in a new task.
    pub(crate) async fn continue_turn(&mut self, state: TurnState) -> Result<(), Fault> {
        match self.launch(state).await {
            Err(Fault::Request(error)) => self.fail(&error).await,
            launched => launched,
        }
    }

    /// Ends the open turn with an error, because the turn cannot continue.
    async fn fail(&mut self, error: &EngineError) -> Result<(), Fault> {
        let state = self.replayed_state().await?;
        self.end(state.outcome(StopReason::Failed, Some(error.to_turn_error()))).await
    }
}

/// Rejects an answer schema that does not compile or does not fit the turn.
pub(crate) fn check_form(start: &StartTurn, joins: bool) -> Result<(), EngineError> {
    let Some(schema) = &start.answer_schema else { return Ok(()) };
    let compacts = || "a turn that compacts the history has no answer for a schema";
    refuse_if(start.compact.is_some(), compacts, "omit the schema")?;
    let is_fixed = joins && start.if_busy == IfBusy::Steer;
    let fixed = || "the answer schema of a running turn cannot be changed";
    refuse_if(is_fixed, fixed, "queue the input instead: agentctl run --if-busy queue")?;
    AnswerForm::compile(schema).map(drop)
}
