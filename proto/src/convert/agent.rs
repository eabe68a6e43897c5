//! Agents.

use agentd_core::agent::AgentCard;

use super::{WireError, model::optional_slot_to_wire, optional_enum};
use crate::v1::{self, agent_card::Names};

impl From<&AgentCard> for v1::AgentCard {
    fn from(card: &AgentCard) -> Self {
        let names = |names: &Option<Vec<String>>| names.clone().map(|names| Names { names });
        Self {
            id: card.id.clone(),
            enabled: card.enabled,
            description: card.description.clone(),
            prompt: card.prompt.clone(),
            tools: names(&card.tools),
            skills: names(&card.skills),
            slot: optional_slot_to_wire(card.slot),
            max_steps: card.max_steps,
        }
    }
}

impl TryFrom<v1::AgentCard> for AgentCard {
    type Error = WireError;

    fn try_from(card: v1::AgentCard) -> Result<Self, WireError> {
        Ok(Self {
            id: card.id,
            enabled: card.enabled,
            description: card.description,
            prompt: card.prompt,
            tools: card.tools.map(|tools| tools.names),
            skills: card.skills.map(|skills| skills.names),
            slot: optional_enum(card.slot)?,
            max_steps: card.max_steps,
        })
    }
}
