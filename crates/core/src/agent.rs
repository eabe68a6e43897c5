//! Agents: who works in a session, and for whom.

use serde::{Deserialize, Serialize};

use crate::ids::{CallId, SessionId};

/// For whom a session works that another one made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The session that made it.
    pub session: SessionId,
    /// The agent that works in it, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl Parent {
    /// The name under which people know who works there.
    #[must_use]
    pub fn name(&self) -> &str {
        self.agent.as_deref().unwrap_or(SUBAGENT)
    }
}

/// The agent of a session that no other one made.
pub const MAIN: &str = "main";

/// The name of a subagent for which no agent was named.
pub const SUBAGENT: &str = "subagent";

/// A session that works for a call of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subagent {
    /// The call that waits for it.
    pub call_id: CallId,
    /// The session that does the work: its events are its own.
    pub session_id: SessionId,
    /// The name under which people know it.
    pub name: String,
    /// What it shall do, in one short line.
    pub task: String,
    /// The number of the last event of that session that belongs to earlier work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
