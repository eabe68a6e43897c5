//! Which tools the turns of this session show, and what their inputs mention.

use std::{sync::Arc, time::Duration};

use agentd_context::{ToolSet, toolset};
use agentd_core::{
    agent::AgentCard,
    catalogue::ToolStanding,
    event::{EventKind, StateChange},
    guide::Skill,
    item::{Item, ItemBody},
    model::Slot,
    turn::StartTurn,
};
use tokio::time::timeout;

use crate::{
    agents::toolset_cache,
    attachments::{self, Attachment},
    catalog::{Finds, MentionedTools, ToolCatalog, ToolScope},
    mentions::{self, KnownAgent, KnownNames, MentionText, Mentions},
    session::actor::{Actor, Fault},
    turn::route::SlotChoice,
};

/// Time limit for listing skill names. No answer waits for a disk that hangs.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tools that a session can have shown because they were mentioned or found.
const MOST_LOADED: usize = 1024;

impl Actor {
    /// Every tool, and why the next turn would show it or not.
    pub(crate) async fn tools(&mut self) -> Result<Vec<ToolStanding>, Fault> {
        // A turn keeps what it has.
        if self.open.is_none() {
            self.look_at_project().await?;
        }
        let pictures = self.has_pictures(&[]);
        let acting = self.acting();
        let slot = self.choose(None, &[], None).of_agent(acting.own_slot()).slot;
        let reach = self.reach(slot, pictures);
        let loaded = self.loaded(&MentionedTools::new(), &reach, &self.state.seen());
        let loaded: MentionedTools = loaded.into_iter().collect();
        Ok(acting.standings(self.stock().standings(&loaded, &reach)))
    }

    /// All tools that there are for this session. One that works for another has those of that one.
    pub(crate) fn stock(&self) -> Arc<ToolCatalog> {
        let parent = self.state.settings.parent.as_ref();
        self.shared.stock_of(parent.map_or(self.id, |parent| parent.session))
    }

    /// Tools that a turn with that model shows.
    pub(crate) fn shown(&self, mentioned: &MentionedTools, slot: Slot, pictures: bool) -> ToolSet {
        self.finds(mentioned, slot, pictures, &self.state.seen()).tools()
    }

    /// The same, and what can be found, where the turn goes on from that history.
    pub(crate) fn finds(&self, mentioned: &MentionedTools, slot: Slot, pictures: bool, history: &[Arc<Item>]) -> Finds {
        let (stock, reach) = (self.stock(), self.reach(slot, pictures));
        let loaded = self.loaded(mentioned, &reach, history);
        let shown = if Arc::ptr_eq(&stock, &self.shared.stock()) {
            self.shared.toolsets.tools(&stock, &loaded, &reach, &self.acting())
        } else {
            // What one session alone has takes no place from what many share.
            toolset_cache::toolset(&stock, &loaded, &reach, &self.acting())
        };
        let shown = match self.open.as_ref().and_then(|open| open.of_client.as_ref()) {
            Some(tools) => shown.followed_by(&tools.for_scope(&reach)),
            None => shown,
        };
        Finds::new(stock, reach, shown, loaded)
    }

    /// The tools that were mentioned or found so far, and behind them what is mentioned now. None ever leaves its place:
    /// each request begins as the one before it.
    fn loaded(&self, mentioned: &MentionedTools, reach: &ToolScope, history: &[Arc<Item>]) -> Vec<String> {
        let stock = self.stock();
        let mut loaded = self.state.tools.clone();
        let mut add = |name: &String| {
            if loaded.len() < MOST_LOADED && !loaded.contains(name) && stock.needs_mention(name, reach) {
                loaded.push(name.clone());
            }
        };
        // A journal of an earlier version tells of finds with their results alone.
        let found = history.iter().flat_map(|item| match &item.body {
            ItemBody::ToolResult(result) => result.found.as_slice(),
            _ => &[],
        });
        let parent = self.state.settings.parent.as_ref();
        found.chain(parent.into_iter().flat_map(|parent| &parent.tools)).chain(mentioned).for_each(&mut add);
        loaded
    }

    /// The change of the session by what the input of its next turn mentions, if it changes anything.
    pub(crate) fn loading(&self, mentions: &Mentions, handed: &[Attachment], slot: Slot) -> Option<EventKind> {
        let history = self.state.seen();
        let reach = self.reach(slot, has_pictures(handed, &history));
        let names = self.loaded(&mentions.tools, &reach, &history);
        (names != self.state.tools).then_some(EventKind::StateChanged { change: StateChange::Tools { names } })
    }

    /// Upper bound on a turn's tools, given its agent, its nesting and its model.
    fn reach(&self, slot: Slot, pictures: bool) -> ToolScope {
        let stand_in = self.open.as_ref().and_then(|open| open.stand_in.as_ref());
        let model = stand_in.map_or_else(|| self.model(slot), |fallback| Arc::clone(&fallback.model));
        let sees = pictures && model.info().sees_pictures;
        let window = match stand_in {
            Some(_) => self.shared.windows.of(model.info()),
            None => self.least_window(SlotChoice::by_name(slot)),
        };
        // The embedded model reads no descriptions.
        let brief = !model.info().embedded && toolset::is_brief_for(window);
        let acting = self.acting();
        let (agent, is_child, only) = (acting.reach(), acting.is_subagent(), self.allowed());
        let without_project = self.state.settings.project.is_none();
        ToolScope { agent, is_child, only, without_project, ..ToolScope::default() }.with_model(slot, sees, brief)
    }

    /// The agents that can be mentioned.
    fn agents(&self) -> Vec<KnownAgent> {
        let acting = self.acting();
        let known = |card: &AgentCard| KnownAgent { id: card.id.clone(), description: card.description.clone() };
        acting.agents().iter().map(known).collect()
    }

    /// Mentions of the input of a turn that begins; of one without, of the input that it continues with.
    pub(crate) async fn mentioned(
        &mut self,
        start: &StartTurn,
        handed: &[Attachment],
        slot: Slot,
    ) -> Result<Arc<Mentions>, Fault> {
        let history = self.state.seen();
        let pictures = has_pictures(handed, &history);
        let Some(text) = &start.text else { return self.mentioned_last(&history, slot, pictures).await };
        let files: Vec<String> = handed.iter().map(|file| file.path.clone()).collect();
        let text = mentions::typed(text, start.typed_bytes);
        self.meant_by(MentionText { text, files: &files }, slot, pictures).await
    }

    /// Mentions of the last input of a history.
    pub(crate) async fn mentioned_last(
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
        let canonical = |name: &str| shared.ports.toolbox.canonical_name(name).to_owned();
        let known = KnownNames { stock: &self.stock(), canonical: &canonical, skills: &skills, agents: &agents };
        Ok(Arc::new(Mentions::of(said, &known, &self.reach(slot, pictures))))
    }

    /// The skills that this session can use.
    async fn skills(&mut self) -> Result<Vec<Skill>, Fault> {
        let workspace = self.workspace().await?;
        let Some(skills) = self.shared.ports.workspaces.skills().filter(|_| self.shared.config().guides.skills) else {
            return Ok(Vec::new());
        };
        Ok(timeout(PATIENCE, skills.usable(Some(&workspace))).await.unwrap_or_default())
    }
}

fn has_pictures(handed: &[Attachment], history: &[Arc<Item>]) -> bool {
    handed.iter().any(|file| file.picture.is_some()) || attachments::pictures(history).next().is_some()
}
