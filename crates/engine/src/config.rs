//! Settings for sessions and turns, and the ports through which they reach their environment.

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
    /// System prompt of every session.
    pub system_prompt: String,
    /// Agents other than the main agent.
    pub agents: Arc<Agents>,
    /// Additional system prompt of subagents.
    pub subagent_prompt: String,
    /// Prompt for summarising a history.
    pub compact_prompt: Arc<str>,
    /// Rules on which calls may run.
    pub policy: Arc<Policy>,
    /// Settings of a new session.
    pub session_defaults: SessionSettings,
    /// Maximum number of history messages in a request, excluding the running turn; from 10 to 100. With `None`, only
    /// the model's window limits the history.
    pub max_message_history: Option<usize>,
    /// Slot that summarises histories. `None` uses the turn's slot, whose server has most of the prompt cached.
    pub summary_slot: Option<Slot>,
    /// True if compacted passages that match an input are shown to the model.
    pub recall: bool,
    /// Maximum size of a project's code map in a request, in tokens; 0 disables the map.
    pub map_tokens: usize,
    /// Setting that decides which turns begin with a plan, unless their client decides.
    pub planning: Planning,
    /// True if a model classifies inputs that the heuristics cannot classify.
    pub ask_intent: bool,
    /// True if the model of a new session makes its title, where the client of the first turn wants one.
    pub titles: bool,
    /// Limits on the size of instruction files that are read.
    pub guides: GuideLimits,
    /// Maximum number of steps of a turn if the client sets no limit. `None` uses the model's default.
    pub max_steps: Option<u32>,
    /// Time limit for a turn, excluding time spent waiting for users.
    pub turn_time_limit: Option<Duration>,
    /// Maximum number of tokens (requests and answers) of a turn.
    pub turn_token_budget: Option<u64>,
    /// Maximum number of read-only calls of one step that run in parallel.
    pub parallel_calls: usize,
    /// Size in estimated tokens above which a result is stored in a file and shown in part. Never more than a quarter
    /// of the model's window.
    pub large_result_tokens: u64,
    /// Size in estimated tokens above which command output is reduced to its relevant lines. `None` disables this.
    pub feedback_tokens: Option<u64>,
    /// Time limit for answering an interrupt; `None` waits forever.
    pub interrupt_deadline: Option<Duration>,
    /// Answer used when the deadline passes.
    pub interrupt_default: Answer,
    /// Maximum number of queued turns.
    pub queue_limit: usize,
    /// Time after which a session without a turn and readers is unloaded from memory.
    pub idle_unload: Duration,
    /// Maximum size of an input, in bytes.
    pub max_input_bytes: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            system_prompt: "You are a helpful assistant.".to_owned(),
            agents: Arc::default(),
            subagent_prompt: "You work for another agent.".to_owned(),
            compact_prompt: Arc::from("Summarise the history."),
            policy: Arc::default(),
            session_defaults: SessionSettings::default(),
            max_message_history: None,
            summary_slot: None,
            recall: true,
            map_tokens: 1000,
            planning: Planning::default(),
            ask_intent: false,
            titles: true,
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

/// Ports of the engine. Unlike the settings, ports never change.
pub struct Ports {
    /// Models that sessions can use.
    pub models: Arc<dyn Models>,
    /// Tools that models can call.
    pub toolbox: Arc<dyn Toolbox>,
    /// Journal of all sessions.
    pub store: Arc<dyn Store>,
    /// Files of the sessions.
    pub workspaces: Arc<dyn Workspaces>,
    /// Converts pictures for models. Without this port, no pictures are shown.
    pub pictures: Option<Arc<dyn Pictures>>,
    /// Snapshots of the files that calls change.
    pub snapshots: Arc<dyn Snapshots>,
    /// Language servers that check edits.
    pub languages: Arc<dyn Languages>,
    /// Log of all decisions on calls.
    pub audit: Arc<dyn Audit>,
    /// Recorder of raw exchanges with models.
    pub exchanges: Arc<dyn Exchanges>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

/// Current rules. A call is judged by the rules at the time of the call, not by the rules at the start of its turn.
#[derive(Clone)]
pub(crate) struct PolicyInForce(pub(crate) watch::Receiver<Arc<EngineConfig>>);

impl PolicyInForce {
    pub(crate) fn now(&self) -> Arc<Policy> {
        Arc::clone(&self.0.borrow().policy)
    }
}
