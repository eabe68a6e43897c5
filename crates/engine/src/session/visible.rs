//! Which tools the turns of this session show.

use agentd_core::{catalogue::ToolStanding, model::Slot};

use super::actor::{Actor, Fault};
use crate::{
    prompt::ToolSet,
    tools::{AgentReach, Mentioned, Reach},
    turn::route::route,
};

impl Actor {
    /// Every tool, and why the next turn would show it or not.
    pub(super) fn tools(&self) -> Result<Vec<ToolStanding>, Fault> {
        let sight = self.sight(&[]);
        let pictures = sight.pictures;
        let (slot, _) = route(None, self.state.settings.slot, sight);
        let acting = self.acting();
        let slot = acting.slot(slot);
        Ok(acting.standings(self.shared.stock().standings(&Mentioned::new(), &self.reach(slot, pictures))))
    }

    /// What a turn with that model shows.
    pub(super) fn shown(&self, mentioned: &Mentioned, slot: Slot, pictures: bool) -> ToolSet {
        self.acting().tools(self.shared.stock().shown(mentioned, &self.reach(slot, pictures)))
    }

    /// What a turn may use at the most: by who speaks in this session, by how deep it stands, by its model.
    fn reach(&self, slot: Slot, pictures: bool) -> Reach {
        let sees = pictures && self.shared.parts.models.get(slot).info().sees_pictures;
        let acting = self.acting();
        let agent = acting.card().map(|card| AgentReach { id: card.id.clone(), tools: acting.named_tools() });
        Reach { agent, is_child: acting.is_subagent(), ..Reach::default() }.with_model(slot, sees)
    }
}
