//! Agents: who works in a session, and for whom.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{CallId, SessionId},
    model::Slot,
};

/// For whom a session works that another one made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The session that made it.
    pub session: SessionId,
    /// The agent that works in it, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tools that were mentioned or found in that session when it gave the work away: this one shows them, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

impl Parent {
    /// The name under which people know who works there.
    pub fn name(&self) -> &str {
        self.agent.as_deref().unwrap_or(SUBAGENT)
    }
}

/// Prefix of the tools by which an agent hands the session to another one.
pub const TRANSFERS: &str = "transfer_to_";

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
    /// Its task, in one short line.
    pub task: String,
    /// The number of the last event of that session that belongs to earlier work.
    #[serde(default, skip_serializing_if = "crate::usage::is_zero")]
    pub after: u64,
}

/// Description of an agent besides the main one.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCard {
    /// Its name.
    pub id: String,
    /// Set if models are offered it. One that is not works where a person mentions it.
    pub enabled: bool,
    /// Its purpose, for other agents.
    pub description: String,
    /// Its own instructions, besides the general ones.
    pub prompt: String,
    /// The tools that it has, besides those that every agent has; all of the main agent's where absent.
    pub tools: Option<Vec<String>>,
    /// The skills that it reads before it begins.
    pub skills: Option<Vec<String>>,
    /// The slot that it uses; that of the turn where absent.
    pub slot: Option<Slot>,
    /// The steps that it may take as a subagent where nobody says otherwise.
    pub max_steps: Option<u32>,
}

impl AgentCard {
    /// The characters of a name at the most.
    pub const LONGEST_ID: usize = 40;

    /// The bytes of a prompt at the most: it is sent with each request.
    pub const LONGEST_PROMPT: usize = 32 << 10;

    /// The characters of a description at the most: it is sent with each request of other agents.
    pub const LONGEST_DESCRIPTION: usize = 500;

    /// Names that no agent can have.
    pub const RESERVED: [&str; 4] = [MAIN, SUBAGENT, "human", "user"];

    /// Refuses what cannot be the name of an agent: it becomes a part of a tool's name, and is typed after an `@`.
    ///
    /// # Errors
    /// The reason, which begins in lower case.
    pub fn check_id(id: &str) -> Result<(), &'static str> {
        let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if id.is_empty() || id.len() > Self::LONGEST_ID || !id.starts_with(|letter: char| letter.is_ascii_lowercase()) {
            return Err("a name begins with a small letter and has at most 40 characters");
        }
        if !id.chars().all(plain) {
            return Err("a name has lower-case letters, digits and underscores");
        }
        if Self::RESERVED.contains(&id) {
            return Err("this name has a meaning already");
        }
        Ok(())
    }

    /// The tools that it names, without those by which it hands the session on.
    pub fn named_tools(&self) -> impl Iterator<Item = &String> {
        self.tools.iter().flatten().filter(|name| !name.starts_with(TRANSFERS))
    }

    /// An agent of that name of which nothing else is known.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), enabled: true, ..Self::default() }
    }
}

/// All agents besides the main one, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agents(Vec<AgentCard>);

impl Agents {
    /// These.
    pub fn new(cards: impl IntoIterator<Item = AgentCard>) -> Self {
        let mut cards: Vec<AgentCard> = cards.into_iter().collect();
        cards.sort_by(|a, b| a.id.cmp(&b.id));
        Self(cards)
    }

    /// The one of that name.
    pub fn get(&self, id: &str) -> Option<&AgentCard> {
        self.0.iter().find(|card| card.id == id)
    }

    /// These and others, of which none takes the place of one of these.
    pub fn and(&self, others: &Self) -> Self {
        let is_new = |card: &&AgentCard| self.get(&card.id).is_none();
        Self::new(self.iter().chain(others.iter().filter(is_new)).cloned())
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &AgentCard> + Clone {
        self.0.iter()
    }

    /// Those that models are offered.
    pub fn enabled(&self) -> impl Iterator<Item = &AgentCard> + Clone {
        self.0.iter().filter(|card| card.enabled)
    }
}
