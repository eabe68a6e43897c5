//! The task of a turn: what it is given, fixed from here on, and what it goes on from after a restart.

use std::{sync::Arc, time::Duration};

use agentd_context::text::ResultLimits;
use agentd_core::{
    agent::MAIN,
    event::{EventKind, StateChange},
    ports::{FallbackModel, Workspace},
    turn::{Denial, StopReason},
};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::{
    agents::ActiveAgent,
    attachments,
    catalog::Finds,
    config::{EngineConfig, PolicyInForce},
    error::EngineError,
    grants::LiveGrants,
    recovery::subagents,
    session::actor::{Actor, Fault, RunningTurn},
    turn::{
        Control, Limits, Phase, PromptSource, TurnContext, TurnFiles, TurnIds, TurnModels, TurnRules, TurnState,
        TurnTools, recorder::Recorder, rounds::CallRounds, route::SlotChoice, run::run, stopwatch::Stopwatch,
    },
};

/// Number of paths that a model can be held to. They are no part of its prompt; what is deeper in a larger project has
/// to be named by its whole path.
const KNOWN_PATHS: usize = 5000;

impl Actor {
    /// The state of a turn that begins now.
    pub(crate) fn fresh_state(&self) -> TurnState {
        let unfinished = self.state.last_stop.is_some_and(StopReason::can_continue);
        let compacts = self.open.as_ref().is_some_and(|open| open.compacts);
        let phase = if compacts { Phase::Compacting { unfinished } } else { Phase::Working };
        let history = self.state.seen();
        TurnState {
            rounds: CallRounds::before(self.open.as_ref().map(|open| open.turn_id), &history, self.state.last_stop),
            returned: attachments::unshown(&history),
            history,
            todos: self.state.todos.clone(),
            meter: self.state.meter.clone(),
            held: self.state.window.held,
            reset_at: Some(self.state.window).filter(|window| window.summary == 0).map_or(0, |window| window.after),
            phase,
            ..TurnState::default()
        }
    }

    /// Where the session's files are.
    pub(crate) async fn workspace(&mut self) -> Result<Arc<Workspace>, EngineError> {
        if let Some(workspace) = &self.workspace {
            return Ok(Arc::clone(workspace));
        }
        let mounts = self.state.settings.mounts();
        let found = self.shared.ports.workspaces.locate(self.state.settings.files_of(self.id), mounts).await?;
        Ok(Arc::clone(self.workspace.insert(Arc::new(found))))
    }

    /// Starts the task of the open turn.
    pub(crate) async fn launch(&mut self, state: TurnState) -> Result<(), Fault> {
        let workspace = self.workspace().await?;
        let config = self.shared.config();
        let acting = self.acting();
        acting.check()?;
        let Some(open) = &self.open else { return Ok(()) };
        let choice = open.choice.of_agent(acting.own_slot());
        let slot = choice.slot;
        let pictures = attachments::pictures(&state.history).next().is_some();
        let turn_id = open.turn_id;
        let mentions = match open.mentions.clone() {
            Some(mentions) => mentions,
            None => {
                let mentions = self.mentioned_last(&state.history, slot, pictures).await?;
                let loading = self.loading(&mentions, &[], slot);
                self.commit(Some(turn_id), loading.into_iter().collect()).await?;
                mentions
            }
        };
        let finds = self.finds(&mentions.tools, slot, pictures, &state.history);
        let models = self.models(choice);
        let prompt = self.prompt(&config, &acting, &models, &finds, &workspace).await?;
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
                grants: LiveGrants { of_session: self.grants.subscribe(), kept: shared.kept.clone() },
                answering: open.answering.clone(),
                answered: self.interrupts.answered.clone(),
            },
            models,
            answer_form: open.form.clone(),
            prompt,
            tools: TurnTools {
                visible: finds.tools(),
                finds,
                of_client: open.of_client.clone(),
                mentions,
                chain: Arc::clone(&shared.chain),
                subagents: Arc::clone(&shared.subagents),
                in_flight: open.under_way.clone(),
                delegated: Arc::default(),
            },
            files: TurnFiles {
                workspace,
                session: self.state.settings.files_of(self.id),
                are_made: OnceCell::new(),
                state: self.files.subscribe(),
                of_client: Arc::clone(&open.file_lines),
            },
            recorder,
            ports: Arc::clone(&shared.ports),
            control: Control {
                calls: cancel.child_token(),
                cancel: cancel.clone(),
                stopwatch: Stopwatch::start(state.worked).into(),
                environment: Arc::clone(&open.environment),
            },
            acting,
        };
        let span = tracing::info_span!("turn", session = %self.id, turn = %open.turn_id, trace = %open.trace_id);
        let task = tokio::spawn(tracing::Instrument::instrument(run(Arc::new(context), state), span));
        if let Some(open) = &mut self.open {
            open.running = Some(RunningTurn { cancel, cancelled_for: None, messages, task });
        }
        Ok(())
    }

    /// Models of a turn with that choice. One that stands in writes the last answer, too.
    fn models(&self, choice: SlotChoice) -> TurnModels {
        let shared = &self.shared;
        let stand_in = self.open.as_ref().and_then(|open| open.stand_in.clone());
        let (slot, model, (chat_slot, chat)) = match stand_in {
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
            scales: Arc::clone(&shared.scales),
            windows: Arc::clone(&shared.windows),
        }
    }

    /// The system message that begins with this text.
    pub(crate) fn system(&self, text: &str, finds: &Finds, workspace: &Workspace) -> String {
        agentd_context::system(text, &finds.about_servers(), workspace, self.surroundings(), self.state.created_at)
    }

    /// Ingredients of a turn's requests.
    async fn prompt(
        &self,
        config: &EngineConfig,
        acting: &ActiveAgent,
        models: &TurnModels,
        finds: &Finds,
        workspace: &Workspace,
    ) -> Result<PromptSource, EngineError> {
        let (model, chat) = (models.model.info(), models.chat.info());
        let known_paths =
            if model.embedded { self.shared.ports.workspaces.paths(workspace, KNOWN_PATHS).await? } else { Vec::new() };
        // The last answer may be written by another model, which reads the same results.
        let window = models.windows.of(model).min(models.windows.of(chat));
        Ok(PromptSource {
            system: self.system(&acting.instructions(config), finds, workspace),
            known_paths,
            results: ResultLimits::of(config.large_result_tokens, config.feedback_tokens, window),
        })
    }

    /// Goes on with the open turn after a restart, from what the journal has of it. One that cannot, for its folder
    /// is gone, ends with the reason: it must not stay open, where nothing could move it and no session would load.
    pub(crate) async fn resume(&mut self) -> Result<(), Fault> {
        let state = self.replayed_state().await?;
        match self.look_at_project().await {
            Ok(()) => self.go_on(state).await,
            Err(error) => self.fail(&error).await,
        }
    }

    /// The state of the open turn, from the journal.
    pub(crate) async fn replayed_state(&self) -> Result<TurnState, Fault> {
        let mut state = self.fresh_state();
        // What the turn has added since the last count is not known here.
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

    /// The agent of the session.
    pub(crate) fn acting(&self) -> ActiveAgent {
        ActiveAgent::of(&self.state.settings, &self.state.agents, &self.all_agents())
    }

    /// Has the session's own agent work, which that one becomes if it is named. Returns the facts where anything changes.
    pub(crate) fn turn_to(&mut self, named: Option<&str>) -> Vec<EventKind> {
        let mut facts = Vec::new();
        let own = named.map(|id| (id != MAIN).then(|| id.to_owned()));
        if let Some(own) = own.filter(|own| *own != self.state.settings.agent) {
            self.state.settings.agent = own;
            let settings = self.state.settings.clone();
            facts.push(EventKind::StateChanged { change: StateChange::Settings { settings } });
        }
        facts.extend(self.back_to_own());
        self.state.agents = self.state.settings.agent.iter().cloned().collect();
        facts
    }

    /// The session's own agent works again, where another one did.
    pub(crate) fn back_to_own(&self) -> Option<EventKind> {
        let stack: Vec<String> = self.state.settings.agent.iter().cloned().collect();
        (self.state.agents != stack).then_some(EventKind::StateChanged { change: StateChange::Agent { stack } })
    }

    /// The open turn goes on with another agent, which is told in the journal already, or with tools that were not known before.
    pub(crate) async fn hand_on(&mut self, mut state: TurnState) -> Result<(), Fault> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        let Some(running) = open.running.take() else { return Ok(()) };
        if let Some(reason) = running.cancelled_for {
            return self.end(state.outcome(reason, None)).await;
        }
        state.delegated = 0;
        if state.phase == Phase::HandingOff {
            state.phase = Phase::Working;
        } else {
            // The input may mention what has come.
            open.mentions = None;
        }
        self.go_on(state).await
    }

    /// Continues the open turn in a task of its own, from here.
    pub(crate) async fn go_on(&mut self, state: TurnState) -> Result<(), Fault> {
        match self.launch(state).await {
            Err(Fault::Request(error)) => self.fail(&error).await,
            launched => launched,
        }
    }

    /// Ends the open turn, which cannot go on.
    async fn fail(&mut self, error: &EngineError) -> Result<(), Fault> {
        let state = self.replayed_state().await?;
        self.end(state.outcome(StopReason::Failed, Some(error.to_turn_error()))).await
    }
}
