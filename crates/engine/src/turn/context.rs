//! Context of a turn: everything that stays fixed while the turn runs.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use agentd_context::{ToolSet, text::ResultLimits, tokens::TokenCalibration, windows::ContextWindows};
use agentd_core::{
    agent::Subagent,
    answer_schema::AnswerSchema,
    audit::{AuditEntry, AuditFact},
    catalogue::ForeignTool,
    environment::ClientEnvironment,
    error::WorkspaceError,
    exchange::{ExchangePurpose, ExchangeSource, RequestTap},
    grant::Grant,
    ids::{CallId, ItemId, SessionId, TraceId, TurnId},
    interrupt::Ask,
    item::ItemBody,
    model::{ModelInfo, Slot},
    policy::{Confinement, Verdict},
    ports::{ArtifactDir, Model, Person, ReadRules, SessionTree, Sight, ToolContext, ToolUser, Workspace},
    session::SessionSettings,
    state_files::StateFiles,
    tool::{Effect, ToolCall, ToolErrorCode, ToolSpec},
    turn::{OnInterrupt, StopReason, TurnOptions},
};
use agentd_policy::{CallContext, Policy, read_tool, roots};
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{self, ActiveAgent},
    answer_form::AnswerForm,
    catalog::{DELEGATE, ToolFinder},
    client::{FileLines, OfferedTools},
    config::{EngineConfig, PolicyInForce, Ports},
    error::EngineError,
    grants::LiveGrants,
    mentions::Mentions,
    turn::{
        Flow, TurnExit, TurnState,
        answering::{AnswerMode, OpenQuestion},
        hooks::{Chain, Subagents},
        recorder::{CallAnswers, Recorder, ResolvedInterrupt},
        state::Phase,
        stopwatch::Stopwatch,
    },
};

/// Minimum extra time for an answer in progress when the turn's time limit is reached.
const ANSWER_GRACE: Duration = Duration::from_secs(10);

/// Fixed state of a running turn. Except for the rules, a configuration reload affects only later turns.
pub(crate) struct TurnContext {
    pub(crate) ids: TurnIds,
    /// Agent that runs the turn.
    pub(crate) active_agent: ActiveAgent,
    pub(crate) settings: SessionSettings,
    pub(crate) limits: Limits,
    /// Configuration at the start of the turn.
    pub(crate) config: Arc<EngineConfig>,
    /// Options that the client chose for the turn.
    pub(crate) options: TurnOptions,
    pub(crate) rules: TurnRules,
    pub(crate) models: TurnModels,
    /// Schema that the answer must match.
    pub(crate) answer_form: Option<Arc<AnswerForm>>,
    pub(crate) prompt: PromptSource,
    pub(crate) tools: TurnTools,
    pub(crate) files: TurnFiles,
    pub(crate) recorder: Recorder,
    pub(crate) control: Control,
    pub(crate) ports: Arc<Ports>,
}

/// IDs of a turn for storage and tracing.
pub(crate) struct TurnIds {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) trace: TraceId,
    /// Name given by the client that started the turn.
    pub(crate) client: Option<String>,
}

/// Inputs to the decision whether a call runs.
pub(crate) struct TurnRules {
    pub(crate) policy: PolicyInForce,
    /// Live grants of the session.
    pub(crate) grants: LiveGrants,
    /// Policy for answering interrupts.
    pub(crate) answering: AnswerMode,
    /// Answers that users gave to calls of this turn before it was resumed.
    pub(crate) answered: HashMap<CallId, CallAnswers>,
}

/// The models of a turn, and their calibration data.
pub(crate) struct TurnModels {
    pub(crate) slot: Slot,
    pub(crate) model: Arc<dyn Model>,
    /// True if another model can answer instead of the turn's model.
    pub(crate) has_fallback: bool,
    /// Slot and model for the final answer.
    pub(crate) chat_slot: Slot,
    pub(crate) chat: Arc<dyn Model>,
    /// Slot and model that summarise histories, if these are not the turn's own.
    pub(crate) summary: Option<(Slot, Arc<dyn Model>)>,
    /// Calibration of token counts.
    pub(crate) calibration: Arc<TokenCalibration>,
    /// Window sizes of models, as reported by their servers.
    pub(crate) windows: Arc<ContextWindows>,
}

/// Inputs for requests and summaries.
pub(crate) struct PromptSource {
    pub(crate) system: String,
    /// Paths for models with constrained arguments; empty for all other models.
    pub(crate) known_paths: Vec<String>,
    /// Sizes above which results are truncated.
    pub(crate) results: ResultLimits,
}

/// The tools of a turn, and the components that run them.
pub(crate) struct TurnTools {
    /// Visible tools at the start of the turn.
    pub(crate) visible: ToolSet,
    /// Currently visible tools, including tools that the model has found, and the tools that the model can still find.
    pub(crate) finder: ToolFinder,
    /// Visible tools that the client answers.
    pub(crate) client_tools: OfferedTools,
    /// Mentions in the turn's input.
    pub(crate) mentions: Arc<Mentions>,
    pub(crate) chain: Arc<Chain>,
    /// Runs subagents for calls of this turn.
    pub(crate) subagents: Arc<dyn Subagents>,
    /// Calls still running in a subagent since before a restart.
    pub(crate) in_flight: HashMap<CallId, InFlightCall>,
    /// Tokens spent on behalf of this turn by subagents and by tools that called the model.
    pub(crate) delegated: Arc<AtomicU64>,
}

/// The files of a turn.
pub(crate) struct TurnFiles {
    pub(crate) workspace: Arc<Workspace>,
    /// Session to which the files belong.
    pub(crate) session: SessionId,
    /// Set once the session's folders exist.
    pub(crate) folders_created: OnceCell<()>,
    /// Live files of the session's own state.
    pub(crate) state: watch::Receiver<Arc<StateFiles>>,
    /// Live connections to clients that have project files open.
    pub(crate) client_files: Arc<FileLines>,
}

impl TurnFiles {
    /// Returns the current files that are visible to tools.
    pub(crate) fn tree(&self) -> SessionTree {
        SessionTree { workspace: Arc::clone(&self.workspace), state: Arc::clone(&self.state.borrow()) }
    }
}

/// Cancellation and time limits of a turn.
pub(crate) struct Control {
    pub(crate) cancel: CancellationToken,
    /// Token that stops the calls in flight on cancellation, or when the turn's time is over.
    pub(crate) calls: CancellationToken,
    pub(crate) stopwatch: Arc<Stopwatch>,
    pub(crate) environment: Arc<ClientEnvironment>,
}

/// A call that was started and on which a subagent works.
#[derive(Debug, Clone)]
pub(crate) struct InFlightCall {
    /// Item of the call's result.
    pub(crate) item: ItemId,
    /// Subagent that works on the call.
    pub(crate) subagent: Subagent,
}

/// Limits of a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_steps: u32,
    pub(crate) time: Option<Duration>,
    pub(crate) tokens: Option<u64>,
}

impl TurnContext {
    /// Creates the session's folders if they are missing. This is done lazily before the first tool runs, so that a
    /// turn without tools does not wait for the disk. Without the folders, no tool may run.
    pub(crate) async fn make_folders(&self) -> Flow {
        let TurnFiles { workspace, session, folders_created, .. } = &self.files;
        let open = || async { self.ports.workspaces.open(*session, workspace.mounts()).await.map(drop) };
        let creation = folders_created.get_or_try_init(open).await;
        creation.map(drop).map_err(|error| TurnExit::Failed(EngineError::from(error).to_turn_error()))
    }

    /// Stores a tool's output where tools can read it, and returns its path for tools.
    pub(crate) async fn store_result(&self, name: String, content: Vec<u8>) -> Result<String, WorkspaceError> {
        self.ports.workspaces.keep(self.files.session, ArtifactDir::LargeToolResults, name, content).await
    }

    /// Creates an audit entry about a call.
    pub(crate) fn audit_entry(&self, call: &ToolCall, fact: AuditFact) -> AuditEntry {
        AuditEntry {
            at: self.ports.clock.now(),
            trace_id: Some(self.ids.trace),
            session_id: Some(self.ids.session),
            turn_id: Some(self.ids.turn),
            call_id: Some(call.call_id.clone()),
            fact,
        }
    }

    /// Returns the schema that the answer must match.
    pub(crate) fn answer_schema(&self) -> Option<Arc<AnswerSchema>> {
        self.answer_form.as_ref().map(|form| form.schema.clone().into())
    }

    /// Returns the recorder for a request of this turn.
    pub(crate) fn tap(&self, step: u32, purpose: ExchangePurpose) -> RequestTap {
        let source = || ExchangeSource {
            owner: self.settings.files_of(self.ids.session),
            session_id: self.ids.session,
            turn_id: Some(self.ids.turn),
            trace_id: Some(self.ids.trace),
            step,
            purpose,
            agent: self.active_agent.name().to_owned(),
        };
        self.ports.exchanges.tap(&source, self.settings.trace)
    }

    /// Waits for the future, or fails when the turn is cancelled. The future is cancelled by dropping it.
    pub(crate) async fn or_cancelled<T>(&self, future: impl Future<Output = T>) -> Flow<T> {
        tokio::select! {
            biased;
            () = self.control.cancel.cancelled() => Err(TurnExit::Finished(StopReason::Cancelled)),
            output = future => Ok(output),
        }
    }

    /// Returns the working time by which an answer that starts now must be complete, if the turn has a time limit. The
    /// deadline includes a grace period, since an answer that is nearly complete is worth more than none.
    pub(crate) fn answer_deadline(&self) -> Option<Duration> {
        let time = self.limits.time?;
        Some(time.max(self.control.stopwatch.worked()).saturating_add(ANSWER_GRACE.max(time / 4)))
    }

    /// Waits for model output until working time `latest`, or fails when this time is reached or the turn is cancelled.
    pub(crate) async fn or_deadline<T>(&self, latest: Option<Duration>, future: impl Future<Output = T>) -> Flow<T> {
        tokio::select! {
            biased;
            output = self.or_cancelled(future) => output,
            () = self.control.stopwatch.reaches(latest) => Err(TurnExit::Finished(StopReason::TimeLimit)),
        }
    }

    /// Returns true if calls were stopped because the turn's time is over.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.control.calls.is_cancelled() && !self.control.cancel.is_cancelled()
    }

    /// Returns the error code of a call that was stopped while running.
    pub(crate) fn stop_code(&self) -> ToolErrorCode {
        if self.is_out_of_time() { ToolErrorCode::Timeout } else { ToolErrorCode::Cancelled }
    }

    /// Appends a notice for the model to the history.
    pub(crate) async fn append_notice(&self, state: &mut TurnState, notice: ItemBody) -> Flow {
        state.note(self.recorder.whole(notice, None).await?);
        Ok(())
    }

    /// Asks the user and waits for the answer or the turn's cancellation. The wait does not count as working time.
    pub(crate) async fn ask(&self, call_id: CallId, ask: Ask) -> Flow<ResolvedInterrupt> {
        let waiting = self.control.stopwatch.pause();
        let answer = self.or_cancelled(self.recorder.ask(call_id, ask)).await?;
        drop(waiting);
        answer
    }

    /// Returns true if a subagent has been working on the call since before a restart.
    pub(crate) fn is_in_flight(&self, call: &ToolCall) -> bool {
        self.tools.in_flight.contains_key(&call.call_id)
    }

    /// Returns the window of the turn's model: tokens of a request and its answer together.
    pub(crate) fn window(&self) -> u64 {
        self.models.windows.of(self.models.model.info())
    }

    /// Returns the smallest window among the models that the turn may call, because notices are written once and must
    /// fit all of them.
    pub(crate) fn smallest_window(&self) -> u64 {
        self.window().min(self.models.windows.of(self.models.chat.info()))
    }

    /// Returns the model for the next request.
    pub(crate) fn next_model(&self, state: &TurnState) -> &ModelInfo {
        if state.phase == Phase::Finalizing { self.models.chat.info() } else { self.models.model.info() }
    }

    /// Returns the window of the model for the next request.
    pub(crate) fn next_window(&self, state: &TurnState) -> u64 {
        self.models.windows.of(self.next_model(state))
    }

    /// Finds a visible tool by name or alias.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolSpec> {
        let visible = |name: &str| self.tools.visible.get(name);
        let found = || self.tools.finder.get(name).map(|tool| &tool.spec);
        // An alias that other systems use for a built-in tool resolves to that tool, unless a user's tool has the name.
        let builtin_tool = |name: &str| {
            visible(self.ports.toolbox.canonical_name(name)).or_else(|| visible(agents::canonical_name(name)))
        };
        visible(name)
            .or_else(found)
            .or_else(|| if self.tools.finder.is_known(name) { None } else { builtin_tool(name) })
    }

    /// Returns true if a call is to the built-in `delegate_task`, not to a foreign tool with that name.
    pub(crate) fn is_delegation(&self, name: &str) -> bool {
        self.tool(name).is_some_and(|tool| tool.name == DELEGATE)
    }

    /// Returns the owner of a visible tool, if it is foreign.
    pub(crate) fn foreign(&self, tool: &ToolSpec) -> Option<Arc<ForeignTool>> {
        self.tools.finder.tools().foreign(&tool.name).cloned()
    }

    /// Returns the live rules about files that a call reaches without naming them, or that its error messages would
    /// reveal. The rules judge reading these files, and the call itself as if it had named the files. For a network
    /// call, the rules judge the addresses to which the call is redirected.
    fn read_rules(&self, call: &ToolCall) -> ReadRules {
        let is_judged = |tool: &&ToolSpec| matches!(tool.effect, Effect::Read | Effect::Write | Effect::Network);
        match self.tool(&call.name).filter(is_judged) {
            Some(tool) => self.rules_of(tool.clone(), call.arguments.clone()),
            None => ReadRules::default(),
        }
    }

    /// Returns the live rules for files that are quoted without a request for them.
    pub(crate) fn quote_rules(&self) -> ReadRules {
        self.rules_of(read_tool(), "{}".to_owned())
    }

    fn rules_of(&self, tool: ToolSpec, arguments: String) -> ReadRules {
        let settings = self.rules.grants.of_session().applied_to(&self.settings);
        let (grants, foreign) = (self.rules.grants.permanent.now(), self.foreign(&tool));
        let workspace = Arc::clone(&self.files.workspace);
        read_rules(self.rules.policy.clone(), settings, grants, workspace, tool, foreign, arguments)
    }

    /// Identifies the session to adapters that start servers for it.
    pub(crate) fn tool_user(&self) -> ToolUser {
        ToolUser {
            session_id: Some(self.ids.session),
            environment: Some(Arc::clone(&self.control.environment)),
            project: self.files.workspace.project.as_ref().map(|mount| mount.path.clone()),
        }
    }

    /// Returns the handle through which a call may ask the user. The handle gives no answer if the turn runs unattended
    /// or was cancelled. The waiting time does not count as work of the turn.
    fn person(&self, call_id: &CallId) -> Person {
        if self.rules.answering.now() != OnInterrupt::Wait {
            return Person::default();
        }
        let (call_id, recorder, cancel) = (call_id.clone(), self.recorder.clone(), self.control.calls.clone());
        let stopwatch = Arc::clone(&self.control.stopwatch);
        Person::new(move |ask| {
            let (call_id, recorder, cancel) = (call_id.clone(), recorder.clone(), cancel.clone());
            let stopwatch = Arc::clone(&stopwatch);
            async move {
                let waiting = stopwatch.pause();
                let mut asked = OpenQuestion { recorder: &recorder, call_id: &call_id, answered: false };
                let answered = cancel.run_until_cancelled(recorder.ask(call_id.clone(), ask)).await;
                asked.answered = answered.is_some();
                drop((asked, waiting));
                answered?.ok().map(|answered| answered.answer)
            }
            .boxed()
        })
    }

    /// Finds the model that sees the pictures in results: the turn's own model, or else that of the vision slot. Queries
    /// their servers if this is unknown.
    pub(crate) async fn viewer(&self) -> Option<Arc<dyn Model>> {
        viewer(Arc::clone(&self.models.model), Arc::clone(&self.ports)).await
    }

    fn sight(&self) -> Sight {
        let (own, ports) = (Arc::clone(&self.models.model), Arc::clone(&self.ports));
        Sight::new(move || viewer(Arc::clone(&own), Arc::clone(&ports)).map(|viewer| viewer.is_some()).boxed())
    }

    /// Returns the environment in which one call of this turn runs.
    pub(crate) fn tool_context(&self, call: &ToolCall) -> ToolContext {
        ToolContext {
            session_id: self.ids.session,
            turn_id: self.ids.turn,
            call_id: call.call_id.clone(),
            workspace: Arc::clone(&self.files.workspace),
            state_files: Arc::clone(&self.files.state.borrow()),
            client_files: Some(Arc::clone(&self.files.client_files) as _),
            reading: self.read_rules(call),
            environment: Arc::clone(&self.control.environment),
            progress: Default::default(),
            person: self.person(&call.call_id),
            // Only a running call may ask the model.
            sampler: Default::default(),
            sight: self.sight(),
            stands_for: self.tools.finder.tools().stands_for(&call.name).cloned(),
            // The confinement is known only after the call was approved.
            confinement: Confinement::Usual,
            guarded: self.rules.policy.now().rules().guarded().clone(),
            closed: Arc::default(),
            now: self.ports.clock.now(),
            cancel: self.control.calls.clone(),
        }
    }
}

async fn viewer(own: Arc<dyn Model>, ports: Arc<Ports>) -> Option<Arc<dyn Model>> {
    for model in [own, ports.models.get(Slot::Vision)] {
        model.look_up_vision().await;
        if ports.pictures.is_some() && model.info().sees_pictures {
            return Some(model);
        }
    }
    None
}

/// Returns the rules for files that calls to a tool reach, in a session with these settings and folders.
/// `call_arguments` are the arguments of the call itself.
pub(crate) fn read_rules(
    in_force: PolicyInForce,
    settings: SessionSettings,
    grants: Arc<[Grant]>,
    workspace: Arc<Workspace>,
    tool: ToolSpec,
    foreign: Option<Arc<ForeignTool>>,
    call_arguments: String,
) -> ReadRules {
    let is_address = tool.effect == Effect::Network;
    let check = Arc::new(move |arguments: &str, check: &dyn Fn(&Policy, &CallContext<'_>) -> bool| {
        let facts = CallContext {
            tool: &tool,
            foreign: foreign.as_deref(),
            arguments,
            followed: None,
            start: None,
            settings: &settings,
            roots: &roots(&workspace),
            memories: workspace.memories.as_deref(),
            kept: &grants,
            // No command is judged here.
            held: true,
            contained: true,
        };
        check(&in_force.now(), &facts)
    });
    let check_change = Arc::clone(&check);
    let rules = ReadRules::new(move |named| {
        let arguments = if is_address { json!({ "url": named }) } else { json!({ "path": named }) }.to_string();
        check(&arguments, &|rules, facts| {
            if is_address { rules.judge(facts).verdict == Verdict::Allow } else { rules.may_show(facts) }
        })
    });
    rules.with_changes(move |named| {
        let arguments = json!({ "path": named }).to_string();
        check_change(&arguments, &|rules, facts| {
            let verdict = rules.judge(facts).verdict;
            // An approval of the call itself also covers everything that is no riskier.
            let is_within = |own: Verdict| match (&verdict, own) {
                (Verdict::Ask { risk: other, .. }, Verdict::Ask { risk: own, .. }) => *other <= own,
                _ => false,
            };
            verdict == Verdict::Allow
                || check_change(&call_arguments, &|rules, own| is_within(rules.judge(own).verdict))
        })
    })
}
