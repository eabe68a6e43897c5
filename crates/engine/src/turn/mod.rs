//! One turn: from an input to its `TurnEnded`.
//!
//! [`run::run`] is the loop. Each round, [`step::next`] decides purely what comes next from the [`TurnState`],
//! and one of `sample` (ask the model), `dispatch` (run its calls) and `finalize` (write the last answer) does
//! it. What is fixed for the turn is its [`TurnContext`]; everything that happened goes to the session through
//! the [`recorder::Recorder`].

pub(crate) mod answering;
pub(crate) mod call_record;
pub(crate) mod dispatch;
pub(crate) mod execute;
pub(crate) mod files;
pub(crate) mod finalize;
pub(crate) mod hooks;
pub(crate) mod level;
mod person;
pub(crate) mod recorder;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod run;
pub(crate) mod sample;
mod sampler;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod stopwatch;
pub(crate) mod subagents;

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use agentd_core::{
    agent::Subagent,
    catalogue::Foreign,
    environment::ClientEnvironment,
    error::ModelError,
    guide::GuideLimits,
    ids::{CallId, ItemId, SessionId, TraceId, TurnId},
    interrupt::Ask,
    model::{ModelInfo, Slot},
    policy::Verdict,
    ports::{Audit, Clock, Model, ReadRules, Snapshots, Store, ToolContext, Toolbox, Workspace},
    session::SessionSettings,
    state_files::StateFiles,
    tool::{Effect, ToolCall, ToolSpec},
    turn::{Denial, StopReason, TurnError},
};
use agentd_policy::{Facts, roots};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::state::{TurnOutcome, TurnState};
use self::{
    answering::Answering,
    files::SessionFiles,
    recorder::{Answered, Answers, Recorder},
    stopwatch::Stopwatch,
};
use crate::{
    agents::{active::Acting, delegate_tool},
    catalog::Finds,
    config::PolicyInForce,
    context::{ToolSet, long_text::ResultLimits, tokens::Scales, windows::Windows},
    grants::LiveGrants,
    mentions::Mentions,
    turn::{hooks::Chain, subagents::Subagents},
};

/// What is fixed while a turn runs: a reload of the configuration changes later turns, never this one, but for the rules.
pub(crate) struct TurnContext {
    pub(crate) session_id: SessionId,
    pub(crate) turn_id: TurnId,
    pub(crate) trace_id: TraceId,
    pub(crate) settings: SessionSettings,
    /// Who works.
    pub(crate) acting: Acting,
    pub(crate) policy: PolicyInForce,
    /// What people allowed, as it stands now.
    pub(crate) grants: LiveGrants,
    /// The files of the session's own state, as they stand now.
    pub(crate) state_files: watch::Receiver<Arc<StateFiles>>,
    /// The way in which interrupts are answered.
    pub(crate) answering: Answering,
    /// What people answered to calls of this turn before it was taken up again.
    pub(crate) answered: HashMap<CallId, Answers>,
    pub(crate) environment: Arc<ClientEnvironment>,
    pub(crate) slot: Slot,
    pub(crate) model: Arc<dyn Model>,
    /// The slot and the model that write the last answer.
    pub(crate) chat_slot: Slot,
    pub(crate) chat: Arc<dyn Model>,
    /// The visible tools as the turn began.
    pub(crate) tools: ToolSet,
    /// The visible tools as they are now, with what the model has found, and what else it can find.
    pub(crate) finds: Finds,
    /// What the turn's input mentions.
    pub(crate) mentions: Arc<Mentions>,
    pub(crate) toolbox: Arc<dyn Toolbox>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) files: SessionFiles,
    pub(crate) snapshots: Arc<dyn Snapshots>,
    pub(crate) audit: Arc<dyn Audit>,
    /// The journal, to be searched; what happens goes to it by way of the session alone.
    pub(crate) store: Arc<dyn Store>,
    /// Paths for models whose arguments are constrained; empty for all others.
    pub(crate) known_paths: Vec<String>,
    /// Above which sizes results are not shown whole.
    pub(crate) results: ResultLimits,
    pub(crate) chain: Arc<Chain>,
    pub(crate) limits: Limits,
    pub(crate) system_prompt: String,
    /// How a model is asked to sum up a history.
    pub(crate) compact_prompt: Arc<str>,
    /// What was learned of how models count tokens.
    pub(crate) scales: Arc<Scales>,
    /// How large the windows of models are, as their servers said.
    pub(crate) windows: Arc<Windows>,
    pub(crate) max_message_history: usize,
    pub(crate) guide_limits: GuideLimits,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Arc<dyn Clock>,
    /// Sessions that work for calls of this turn.
    pub(crate) subagents: Arc<dyn Subagents>,
    /// Calls that an earlier life of the daemon began, and that a session still works for.
    pub(crate) under_way: HashMap<CallId, UnderWay>,
    /// What was taken for calls of this turn by sessions that work for them, and by who asked the model, in tokens.
    pub(crate) delegated: Arc<AtomicU64>,
    /// Who started the turn, by the name that it gave.
    pub(crate) client: Option<String>,
    pub(crate) cancel: CancellationToken,
    pub(crate) stopwatch: Arc<Stopwatch>,
}

/// A call that was begun, and that another session works for.
#[derive(Debug, Clone)]
pub(crate) struct UnderWay {
    /// The item of its result.
    pub(crate) item: ItemId,
    /// Who works for it.
    pub(crate) subagent: Subagent,
}

/// What a turn may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_steps: u32,
    pub(crate) time: Option<Duration>,
    pub(crate) tokens: Option<u64>,
    pub(crate) parallel_calls: usize,
}

impl TurnContext {
    /// Waits for the future or for the turn's cancel, whichever comes first. Dropping the future is its cancel.
    pub(crate) async fn or_cancelled<T>(&self, future: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Stop::Ended(StopReason::Cancelled)),
            output = future => Ok(output),
        }
    }

    /// Asks a person and waits for the answer or the turn's cancel. The wait is not counted as work.
    pub(crate) async fn ask(&self, call_id: CallId, ask: Ask) -> Result<Answered, Stop> {
        let waiting = self.stopwatch.pause();
        let answer = self.or_cancelled(self.recorder.ask(call_id, ask)).await?;
        drop(waiting);
        answer
    }

    /// Whether another session works for the call already, since an earlier life of the daemon.
    pub(crate) fn is_under_way(&self, call: &ToolCall) -> bool {
        self.under_way.contains_key(&call.call_id)
    }

    /// The tokens that request and answer of the turn's model may have together.
    pub(crate) fn window(&self) -> u64 {
        self.windows.of(self.model.info())
    }

    /// The smallest window of the models that the turn may ask: what is told once must fit them all.
    pub(crate) fn smallest_window(&self) -> u64 {
        self.window().min(self.windows.of(self.chat.info()))
    }

    /// The model that is asked next.
    pub(crate) fn next_model(&self, state: &TurnState) -> &ModelInfo {
        if state.is_last { self.chat.info() } else { self.model.info() }
    }

    /// The tokens that the next request and its answer may have together.
    pub(crate) fn next_window(&self, state: &TurnState) -> u64 {
        self.windows.of(self.next_model(state))
    }

    /// The visible tool of that name or alias.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolSpec> {
        let own = || self.tools.get(delegate_tool::canonical_name(name));
        let found = || self.finds.get(name).map(|tool| &tool.spec);
        self.tools.get(self.toolbox.canonical_name(name)).or_else(own).or_else(found)
    }

    /// Whether a call is one of `delegate_task`: nobody else's tool of that name.
    pub(crate) fn is_delegation(&self, name: &str) -> bool {
        self.tool(name).is_some_and(|tool| tool.name == delegate_tool::NAME)
    }

    /// Whose a visible tool is, where it is somebody else's.
    pub(crate) fn foreign(&self, tool: &ToolSpec) -> Option<Arc<Foreign>> {
        self.finds.tools().foreign(&tool.name).cloned()
    }

    /// What the rules say, as they stand now, of files that the call comes upon without naming them, or of which it would
    /// tell where it goes wrong: of reading them, and of the call itself if it named them. Of a call over the network, of
    /// addresses that it is sent on to.
    fn read_rules(&self, call: &ToolCall) -> ReadRules {
        let Some(tool) = self
            .tool(&call.name)
            .filter(|tool| matches!(tool.effect, Effect::Read | Effect::Write | Effect::Network))
            .cloned()
        else {
            return ReadRules::default();
        };
        let settings = SessionSettings { grants: self.grants.of_session(), ..self.settings.clone() };
        let foreign = self.foreign(&tool);
        let (kept, in_force, workspace) = (self.grants.for_good(), self.policy.clone(), Arc::clone(&self.workspace));
        ReadRules::new(move |named| {
            let is_address = tool.effect == Effect::Network;
            let arguments = if is_address { json!({ "url": named }) } else { json!({ "path": named }) }.to_string();
            let facts = Facts {
                tool: &tool,
                foreign: foreign.as_deref(),
                arguments: &arguments,
                followed: None,
                start: None,
                settings: &settings,
                roots: &roots(&workspace),
                memories: workspace.memories.as_deref(),
                kept: &kept,
                // It is no command that is judged here.
                held: true,
            };
            if is_address { in_force.judge(&facts).verdict == Verdict::Allow } else { in_force.may_show(&facts) }
        })
    }

    /// Where one call of this turn works.
    pub(crate) fn tool_context(&self, call: &ToolCall) -> ToolContext {
        ToolContext {
            session_id: self.session_id,
            turn_id: self.turn_id,
            call_id: call.call_id.clone(),
            workspace: Arc::clone(&self.workspace),
            state_files: Arc::clone(&self.state_files.borrow()),
            reading: self.read_rules(call),
            environment: Arc::clone(&self.environment),
            progress: Default::default(),
            person: person::of_call(
                call.call_id.clone(),
                self.recorder.clone(),
                Arc::clone(&self.stopwatch),
                self.answering.now(),
                self.cancel.clone(),
            ),
            // Only a call that runs may ask it.
            sampler: Default::default(),
            stands_for: self.finds.tools().stands_for(&call.name).cloned(),
            // Only a call that was let through is known to be one.
            read_only: false,
            now: self.clock.now(),
            cancel: self.cancel.clone(),
        }
    }
}

/// Why a turn cannot go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It ends for a reason that is no failure.
    Ended(StopReason),
    /// A call needed an answer, and the client had said to fail then.
    Refused(Denial),
    /// It failed.
    Failed(TurnError),
    /// Another agent goes on with it.
    HandsOn,
    /// The session cannot store what the turn does. Nothing more may be done, not even an end be told.
    Lost,
}

impl From<ModelError> for Stop {
    fn from(error: ModelError) -> Self {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        tracing::warn!(kind = ?error.kind(), source, "the model call failed: {error}");
        Self::Failed(TurnError {
            kind: error.kind(),
            message: error.to_string(),
            hint: error.hint().map(str::to_owned),
        })
    }
}
