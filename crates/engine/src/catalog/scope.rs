//! What a turn may use at the most, whatever is mentioned.

use std::collections::BTreeSet;

use agentd_core::{catalogue::ServerCard, model::Slot};

/// Upper bound on a turn's tools, whatever is mentioned. The default forbids nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolScope {
    /// The agent that speaks, where it is not the main one.
    pub(crate) agent: Option<AgentScope>,
    /// The tools that the client of the turn allows; all where none.
    pub(crate) only: Option<BTreeSet<String>>,
    /// Set if the session is a child of another: it hands nothing on.
    pub(crate) is_child: bool,
    /// Set if there are pictures, and the turn's model sees them.
    pub(crate) sees: bool,
    /// Set if the turn's model is the one for code.
    pub(crate) codes: bool,
    /// Set if tools are described in a few words, since the window has little room for them.
    pub(crate) brief: bool,
    /// Set if the session has no project.
    pub(crate) without_project: bool,
}

/// Tools that an agent may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentScope {
    /// Its id.
    pub(crate) id: String,
    /// The tools that it names; where it names none, it has what the main agent has. A tool that is discovered only is
    /// there for an agent that names it.
    pub(crate) tools: Option<BTreeSet<String>>,
}

impl ToolScope {
    /// Returns true if the turn may use tools of that MCP server, whichever it has.
    pub(crate) fn may_use(&self, server: &ServerCard) -> bool {
        let has = |names: &BTreeSet<String>| names.iter().any(|name| name.starts_with(&server.prefix));
        let named = self.agent.as_ref().and_then(|agent| agent.tools.as_ref());
        !(server.needs_project && self.without_project)
            && (server.always_available || named.is_none_or(has))
            && self.only.as_ref().is_none_or(has)
    }

    /// The same for the model of a slot.
    pub(crate) fn with_model(self, slot: Slot, sees: bool, brief: bool) -> Self {
        Self { sees, codes: slot == Slot::Code, brief, ..self }
    }
}
