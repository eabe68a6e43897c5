//! What can be set about sessions and turns, and the ports through which they reach all else.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    agent::Agents,
    guide::GuideLimits,
    interrupt::Answer,
    model::Slot,
    ports::{Audit, Clock, Exchanges, Languages, Models, Pictures, Snapshots, Store, Toolbox, Workspaces},
    routing::Planning,
    session::SessionSettings,
};
use tokio::sync::watch;

use agentd_policy::Policy;

/// Settings of sessions and turns.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// The instructions that every session starts with.
    pub system_prompt: String,
    /// The agents besides the main one.
    pub agents: Arc<Agents>,
    /// Further instructions of sessions that work for another.
    pub subagent_prompt: String,
    /// Prompt for summing up a history.
    pub compact_prompt: Arc<str>,
    /// The rules about what may run.
    pub policy: Arc<Policy>,
    /// The settings of a new session.
    pub session_defaults: SessionSettings,
    /// The messages of history that a model sees at the most, those of the running turn not included; from 10 to 100. None
    /// where its window alone decides.
    pub max_message_history: Option<usize>,
    /// The slot that sums up histories; none for that of the turn, which has most of it computed already.
    pub summary_slot: Option<Slot>,
    /// Set if models are told passages of what was set aside where an input is about them.
    pub recall: bool,
    /// Size of the map of a project's code that a model is told, in tokens at most; none at 0.
    pub map_tokens: usize,
    /// Says which turns begin with a plan, where their client does not.
    pub planning: Planning,
    /// Set if a model is asked about the intent of an input of which its words say too little.
    pub ask_intent: bool,
    /// Limits on how much is read of what people wrote for models.
    pub guides: GuideLimits,
    /// The steps that a turn may take where its client names no number; the model's default where absent.
    pub max_steps: Option<u32>,
    /// Time limit of a turn, waiting for people not included.
    pub turn_time_limit: Option<Duration>,
    /// Maximum number of tokens (requests and answers) of a turn.
    pub turn_token_budget: Option<u64>,
    /// Number of read-only calls of one step that run at once.
    pub parallel_calls: usize,
    /// Above how many estimated tokens a result is kept in a file and shown in part. A quarter of the model's window is
    /// the most in any case.
    pub large_result_tokens: u64,
    /// Above how many estimated tokens what a command says is reduced to what decides; never where absent.
    pub feedback_tokens: Option<u64>,
    /// Time limit for answering an interrupt; none where absent.
    pub interrupt_deadline: Option<Duration>,
    /// The answer that is taken when the deadline passes.
    pub interrupt_default: Answer,
    /// Maximum number of turns that wait in the queue.
    pub queue_limit: usize,
    /// Time that a session without turn and readers stays in memory.
    pub idle_unload: Duration,
    /// The size of an input at the most, in bytes.
    pub max_input_bytes: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            system_prompt: "You are a helpful assistant.".to_owned(),
            agents: Arc::default(),
            subagent_prompt: "You work for another agent.".to_owned(),
            compact_prompt: Arc::from("Sum up the history."),
            policy: Arc::default(),
            session_defaults: SessionSettings::default(),
            max_message_history: None,
            summary_slot: None,
            recall: true,
            map_tokens: 1000,
            planning: Planning::default(),
            ask_intent: false,
            guides: GuideLimits::default(),
            max_steps: None,
            turn_time_limit: None,
            turn_token_budget: None,
            parallel_calls: 8,
            large_result_tokens: 20_000,
            feedback_tokens: Some(4_000),
            interrupt_deadline: None,
            interrupt_default: Answer::Reject { reason: Some("no answer in time".to_owned()) },
            queue_limit: 16,
            idle_unload: Duration::from_secs(300),
            max_input_bytes: 8 << 20,
        }
    }
}

/// Ports of the engine, without its settings, which may change.
pub struct Ports {
    /// The models.
    pub models: Arc<dyn Models>,
    /// The tools.
    pub toolbox: Arc<dyn Toolbox>,
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The sessions' files.
    pub workspaces: Arc<dyn Workspaces>,
    /// Makes pictures fit for models. Without it none is shown.
    pub pictures: Option<Arc<dyn Pictures>>,
    /// Storage of what calls change in those files.
    pub snapshots: Arc<dyn Snapshots>,
    /// The language servers.
    pub languages: Arc<dyn Languages>,
    /// The audit log.
    pub audit: Arc<dyn Audit>,
    /// Keeps what goes over the wires of models.
    pub exchanges: Arc<dyn Exchanges>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// The rules as they stand at any moment: a call is judged by those that hold when it is made, whenever its turn began.
#[derive(Clone)]
pub(crate) struct PolicyInForce(pub(crate) watch::Receiver<Arc<EngineConfig>>);

impl PolicyInForce {
    pub(crate) fn now(&self) -> Arc<Policy> {
        Arc::clone(&self.0.borrow().policy)
    }
}
