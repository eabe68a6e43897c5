//! How a turn gives work to subagents.

use agentd_core::{agent::Subagent, ids::SessionId, tool::ToolOutput};
use futures_util::future::BoxFuture;

use super::{Stop, hooks::Invocation};

/// Sessions that work for calls of other sessions.
pub(crate) trait Subagents: Send + Sync {
    /// Runs the task in a subagent, and returns its result.
    fn run<'a>(&'a self, call: &'a Invocation<'a>, task: Task) -> BoxFuture<'a, Result<ToolOutput, Stop>>;

    /// Follows a subagent that works for this call since before a restart, and returns its result.
    fn resume<'a>(
        &'a self,
        call: &'a Invocation<'a>,
        subagent: Subagent,
        max_steps: u32,
    ) -> BoxFuture<'a, Result<ToolOutput, Stop>>;

    /// Whether a subagent is still in memory, where only its parent was closed.
    fn is_alive(&self, id: SessionId) -> BoxFuture<'_, bool>;
}

/// What a subagent shall do.
pub(crate) struct Task {
    /// In words, for the subagent.
    pub(crate) text: String,
    /// Which agent a new one is; none for one that is like the main agent.
    pub(crate) agent: Option<String>,
    /// Whether the call names that agent.
    pub(crate) is_named: bool,
    /// The steps that it may take.
    pub(crate) max_steps: u32,
    /// The earlier one that shall go on.
    pub(crate) context_id: Option<SessionId>,
}
