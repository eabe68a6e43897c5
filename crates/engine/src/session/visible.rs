//! Which tools the turns of this session show, and what their inputs mention.

use std::{sync::Arc, time::Duration};

use agentd_context::ToolSet;
use agentd_core::{agent::AgentCard, catalogue::ToolStanding, guide::Skill, item::Item, model::Slot, turn::StartTurn};
use tokio::time::timeout;

use super::actor::{Actor, Fault};
use crate::{
    attachments::{self, Attachment},
    catalog::{Finds, MentionedTools, ToolScope},
    mentions::{self, KnownAgent, KnownNames, MentionText, Mentions},
    turn::route::route,
};

/// Time limit for listing skill names. No answer waits for a disk that hangs.
const PATIENCE: Duration = Duration::from_millis(500);

impl Actor {
    /// Every tool, and why the next turn would show it or not.
    pub(super) fn tools(&self) -> Result<Vec<ToolStanding>, Fault> {
        let sight = self.sight(&[]);
        let pictures = sight.pictures;
        let (slot, _) = route(None, self.state.settings.slot, sight);
        let acting = self.acting();
        let slot = acting.slot(slot);
        let none = MentionedTools::new();
        let finds = self.finds(&none, slot, pictures, &self.state.seen());
        let mut standings = acting.standings(self.shared.stock().standings(&none, &self.reach(slot, pictures)));
        for standing in standings.iter_mut().filter(|standing| !standing.visible) {
            let found = finds.get(&standing.tool.spec.name);
            if found.is_some_and(|found| found.origin == standing.tool.origin) {
                (standing.visible, standing.why) = (true, "the model has found it".to_owned());
            }
        }
        Ok(standings)
    }

    /// Tools that a turn with that model shows.
    pub(super) fn shown(&self, mentioned: &MentionedTools, slot: Slot, pictures: bool) -> ToolSet {
        self.finds(mentioned, slot, pictures, &self.state.seen()).tools()
    }

    /// The same, and what can be found, where the turn goes on from that history.
    pub(super) fn finds(&self, mentioned: &MentionedTools, slot: Slot, pictures: bool, history: &[Arc<Item>]) -> Finds {
        let (stock, reach) = (self.shared.stock(), self.reach(slot, pictures));
        let shown = self.shared.toolsets.tools(&stock, mentioned, &reach, &self.acting());
        Finds::new(stock, reach, shown, history)
    }

    /// Upper bound on a turn's tools, given its agent, its nesting and its model.
    fn reach(&self, slot: Slot, pictures: bool) -> ToolScope {
        let sees = pictures && self.model(slot).info().sees_pictures;
        let acting = self.acting();
        let (agent, is_child) = (acting.reach(), acting.is_subagent());
        ToolScope { agent, is_child, ..ToolScope::default() }.with_model(slot, sees)
    }

    /// The agents that can be mentioned.
    fn agents(&self) -> Vec<KnownAgent> {
        let acting = self.acting();
        let known = |card: &AgentCard| KnownAgent { id: card.id.clone(), description: card.description.clone() };
        acting.agents().iter().map(known).collect()
    }

    /// Mentions of the input of a turn that begins; of one without, of the input that it continues with.
    pub(super) async fn mentioned(
        &mut self,
        start: &StartTurn,
        handed: &[Attachment],
        slot: Slot,
    ) -> Result<Arc<Mentions>, Fault> {
        let history = self.state.seen();
        let pictures =
            handed.iter().any(|file| file.picture.is_some()) || attachments::pictures(&history).next().is_some();
        let Some(text) = &start.text else { return self.mentioned_last(&history, slot, pictures).await };
        let files: Vec<String> = handed.iter().map(|file| file.path.clone()).collect();
        let text = mentions::typed(text, start.typed_bytes);
        self.meant_by(MentionText { text, files: &files }, slot, pictures).await
    }

    /// Mentions of the last input of a history.
    pub(super) async fn mentioned_last(
        &mut self,
        history: &[Arc<Item>],
        slot: Slot,
        pictures: bool,
    ) -> Result<Arc<Mentions>, Fault> {
        let (text, files) = mentions::last_said(history);
        self.meant_by(MentionText { text: &text, files: &files }, slot, pictures).await
    }

    async fn meant_by(&mut self, said: MentionText<'_>, slot: Slot, pictures: bool) -> Result<Arc<Mentions>, Fault> {
        // What a session is told that works for another was written by a model.
        if self.state.settings.parent.is_some() || !said.may_mention() {
            return Ok(Arc::default());
        }
        let skills = self.skills().await?;
        let (shared, agents) = (&self.shared, self.agents());
        let canonical = |name: &str| shared.parts.toolbox.canonical_name(name).to_owned();
        let known = KnownNames { stock: &shared.stock(), canonical: &canonical, skills: &skills, agents: &agents };
        Ok(Arc::new(Mentions::of(said, &known, &self.reach(slot, pictures))))
    }

    /// The skills that this session can use.
    async fn skills(&mut self) -> Result<Vec<Skill>, Fault> {
        let workspace = self.workspace().await?;
        let Some(skills) = self.shared.parts.workspaces.skills().filter(|_| self.shared.config().guides.skills) else {
            return Ok(Vec::new());
        };
        Ok(timeout(PATIENCE, skills.usable(&workspace)).await.unwrap_or_default())
    }
}
