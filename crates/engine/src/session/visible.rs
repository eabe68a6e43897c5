//! Which tools the turns of this session show.

use agentd_core::{catalogue::ToolStanding, model::Slot};

use super::actor::{Actor, Fault};
use crate::{
    prompt::ToolSet,
    tools::{Mentioned, Reach},
    turn::route::route,
};

impl Actor {
    /// Every tool, and why the next turn would show it or not.
    pub(super) fn tools(&self) -> Result<Vec<ToolStanding>, Fault> {
        let sight = self.sight(&[]);
        let pictures = sight.pictures;
        let (slot, _) = route(None, self.state.settings.slot, sight);
        Ok(self.shared.stock().standings(&Mentioned::new(), &self.reach(slot, pictures)))
    }

    /// What a turn with that model shows.
    pub(super) fn shown(&self, mentioned: &Mentioned, slot: Slot, pictures: bool) -> ToolSet {
        self.shared.stock().shown(mentioned, &self.reach(slot, pictures))
    }

    /// What a turn may use at the most: by who speaks in this session, by how deep it stands, by its model.
    fn reach(&self, slot: Slot, pictures: bool) -> Reach {
        let sees = pictures && self.shared.parts.models.get(slot).info().sees_pictures;
        let is_child = self.state.settings.parent.is_some();
        Reach { is_child, ..Reach::default() }.with_model(slot, sees)
    }
}
