//! Agents: the main agent of a session, named agents and subagents.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{CallId, SessionId},
    model::Slot,
};

/// Session and agent that a subagent's session works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Session that created the subagent's session.
    pub session: SessionId,
    /// Name of the agent that works in the parent session, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Tools that the parent session had mentioned or discovered at the time of delegation. The subagent's session
    /// shows these tools as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

impl Parent {
    /// Returns the agent's display name.
    pub fn name(&self) -> &str {
        self.agent.as_deref().unwrap_or(SUBAGENT)
    }
}

/// Prefix of the tools that transfer the session to another agent.
pub const TRANSFER_PREFIX: &str = "transfer_to_";

/// Agent of a session without a parent.
pub const MAIN: &str = "main";

/// Name of a subagent without a named agent.
pub const SUBAGENT: &str = "subagent";

/// Session that executes a call of another session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subagent {
    /// Call that waits for the subagent's result.
    pub call_id: CallId,
    /// Session that executes the task and stores its own events.
    pub session_id: SessionId,
    /// Display name of the agent.
    pub name: String,
    /// Task as one short line.
    pub task: String,
    /// Number of the session's last event from earlier work.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub after: u64,
}

/// Description of an agent other than the main agent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCard {
    /// Name of the agent.
    pub id: String,
    /// True if the agent is offered to models. A disabled agent only runs if the user mentions it.
    pub enabled: bool,
    /// Purpose, shown to other agents.
    pub description: String,
    /// Agent instructions, added to the general ones.
    pub prompt: String,
    /// Additional tools beyond those that every agent has. `None` gives the agent all tools of the main agent.
    pub tools: Option<Vec<String>>,
    /// Skills that are loaded before the agent starts.
    pub skills: Option<Vec<String>>,
    /// Model slot of the agent. `None` uses the turn's slot.
    pub slot: Option<Slot>,
    /// Default step limit when the agent runs as a subagent.
    pub max_steps: Option<u32>,
}

impl AgentCard {
    /// Maximum length of a name, in characters.
    pub const MAX_ID_CHARACTERS: usize = 40;

    /// Maximum prompt length in bytes. Limited because prompts are part of each request.
    pub const MAX_PROMPT_LENGTH: usize = 32 << 10;

    /// Maximum description length in characters. Limited because descriptions are part of each request of other agents.
    pub const MAX_DESCRIPTION_CHARACTERS: usize = 500;

    /// Reserved names, invalid for agents.
    pub const RESERVED: [&str; 4] = [MAIN, SUBAGENT, "human", "user"];

    /// Checks that `id` is a valid agent name. The ID becomes a part of a tool name, and users type it after an `@`.
    ///
    /// # Errors
    /// Returns the reason, starting with a lowercase letter.
    pub fn check_id(id: &str) -> Result<(), &'static str> {
        let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if id.is_empty()
            || id.len() > Self::MAX_ID_CHARACTERS
            || !id.starts_with(|letter: char| letter.is_ascii_lowercase())
        {
            return Err("a name must begin with a lower-case letter and have at most 40 characters");
        }
        if !id.chars().all(is_plain) {
            return Err("a name may contain only lower-case letters, digits and underscores");
        }
        if Self::RESERVED.contains(&id) {
            return Err("this name is reserved");
        }
        Ok(())
    }

    /// Returns the tools in the agent's list, except for transfer tools.
    pub fn named_tools(&self) -> impl Iterator<Item = &String> {
        self.tools.iter().flatten().filter(|name| !name.starts_with(TRANSFER_PREFIX))
    }

    /// Creates an enabled agent with this name and defaults for all other fields.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), enabled: true, ..Self::default() }
    }
}

/// All agents except the main agent, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agents(Vec<AgentCard>);

impl Agents {
    /// Creates the list, sorted by name.
    pub fn new(cards: impl IntoIterator<Item = AgentCard>) -> Self {
        let mut cards: Vec<AgentCard> = cards.into_iter().collect();
        cards.sort_by(|a, b| a.id.cmp(&b.id));
        Self(cards)
    }

    /// Returns the agent with this name.
    pub fn get(&self, id: &str) -> Option<&AgentCard> {
        self.0.iter().find(|card| card.id == id)
    }

    /// Merges both lists. If names conflict, the agents of `self` take precedence.
    pub fn and(&self, others: &Self) -> Self {
        let is_new = |card: &&AgentCard| self.get(&card.id).is_none();
        Self::new(self.iter().chain(others.iter().filter(is_new)).cloned())
    }

    /// Returns true if there are no agents.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over all agents.
    pub fn iter(&self) -> impl Iterator<Item = &AgentCard> + Clone {
        self.0.iter()
    }

    /// Iterates over the agents that are offered to models.
    pub fn enabled(&self) -> impl Iterator<Item = &AgentCard> + Clone {
        self.0.iter().filter(|card| card.enabled)
    }
}
