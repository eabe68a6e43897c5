//! A session's project: its trusted agents, its surroundings, the map of its code, and the tools and mentions of its
//! turns.
//!
//! Agents are looked up when a turn begins and stay the same for that turn. Surroundings are looked up by the first
//! turn and stay the same from then on, even after a restart. If the client moves to another folder, a notice is
//! appended to the history. The map is sent with the first turn, and again after a compaction has removed it from the
//! visible history. Text that was sent to a model never changes, so that requests share a prefix; the tool `repo_map`
//! draws the current map.

use std::{path::Path, sync::Arc, time::Duration};

use agentd_context::{
    system::{moved, starts_at, surroundings},
    text::typed_part,
    toolset,
};
use agentd_core::{
    agent::{AgentCard, Agents},
    catalogue::ToolStanding,
    code::MapFile,
    environment::ClientEnvironment,
    event::{EventKind, StateChange},
    guide::Skill,
    item::{Item, ItemBody, NoticeTopic},
    model::{ModelInfo, Slot},
    path,
    ports::Workspace,
    surroundings::{MachineFacts, Surroundings},
    turn::StartTurn,
};
use agentd_policy::read_tool;
use tokio::time::timeout;

use crate::{
    agents::{self, ProjectAgents},
    attachments::Attachment,
    catalog::{MentionedTools, ToolCatalog, ToolFinder, ToolScope},
    config::PolicyInForce,
    error::Result,
    mentions::{self, KnownNames, Mentions},
    session::actor::{Actor, Fault, MapSearch},
    turn::{hooks::Reminder, read_rules, route::SlotChoice},
};

/// Time limit for reading a project's agents. On a timeout, the turn runs without these agents.
const AGENTS_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for reading facts and skills of a project. No answer waits for a hanging disk.
const FACTS_TIMEOUT: Duration = Duration::from_millis(500);

/// Start of the notice, by which it is recognised.
const MAP_PREFIX: &str = "A map of the code at `/project`";
/// Time limit for drawing the map. No answer waits for an index that is being built, because a later turn gets the map.
const MAP_TIMEOUT: Duration = Duration::from_millis(400);
/// Number of turns that wait for the full `MAP_TIMEOUT`; later turns use only a map that is ready.
const FULL_TRIES: u8 = 2;
/// Time limit for getting a map that is ready.
const READY_MAP_TIMEOUT: Duration = Duration::from_millis(50);
/// Fraction of a context window that a map may use: one part in `WINDOW_DIVISOR`.
const WINDOW_DIVISOR: u64 = 32;
/// Minimum size of a useful map, in tokens.
const MIN_TOKENS: usize = 400;

/// Maximum number of tools loaded into a session by mention or search.
const MAX_LOADED: usize = 1024;

impl Actor {
    /// Returns all agents of the session, including those of its project.
    pub(crate) fn all_agents(&self) -> Arc<Agents> {
        self.project.and(&self.shared.config().agents)
    }

    /// Loads the agents of the session's project, if the project is trusted.
    pub(crate) async fn load_project_agents(&mut self) -> Result<()> {
        if self.state.settings.project.is_none() {
            self.project = ProjectAgents::default();
            return Ok(());
        }
        let workspace = self.workspace().await?;
        let standing = timeout(AGENTS_TIMEOUT, self.shared.ports.workspaces.project(&workspace)).await;
        if standing.is_err() {
            tracing::warn!(session = %self.id, "the project's agents are left out: the disk did not respond in time");
        }
        self.project.update(standing.unwrap_or_default(), &self.shared.config().agents);
        Ok(())
    }

    /// Determines the surroundings of a turn from this client, if they are unknown. Returns a notice for the model if
    /// the surroundings differ from the instructions.
    pub(crate) async fn find_project(&mut self, client: &ClientEnvironment) -> Result<Option<ItemBody>> {
        let workspace = self.workspace().await?;
        let project = workspace.project.as_ref().map(|mount| mount.path.clone());
        let client = client.folder().map(Path::to_owned);
        let before = self.state.surroundings.as_ref().filter(|before| before.project == project).cloned();
        self.new_surroundings = None;
        let Some(before) = before else {
            let Some(facts) = self.facts(&workspace, client.as_deref()).await else { return Ok(None) };
            let text = surroundings(&facts, project.as_deref());
            self.new_surroundings = Some(Surroundings { project, client, start: facts.start, text });
            return Ok(None);
        };
        if client.is_none() || client == before.client {
            // Commands do not start in the folder that the instructions state, and the notice about the new folder is
            // no longer visible to the model.
            let notice_text = moved(&before.start);
            let is_seen =
                |item: &Arc<Item>| matches!(&item.body, ItemBody::Notice { text, .. } if *text == notice_text);
            let is_forgotten =
                !starts_at(&before.text, &before.start) && !self.state.visible_history().iter().any(is_seen);
            return Ok(is_forgotten.then(|| ItemBody::notice(notice_text)));
        }
        let Some(MachineFacts { start, .. }) = self.facts(&workspace, client.as_deref()).await else { return Ok(None) };
        let notice = (start != before.start).then(|| ItemBody::notice(moved(&start)));
        if notice.is_some() {
            self.new_surroundings = Some(Surroundings { client, start, ..before });
        }
        Ok(notice)
    }

    /// Returns the text in the instructions that describes the surroundings; empty if no turn has begun.
    pub(crate) fn surroundings(&self) -> &str {
        let current = self.new_surroundings.as_ref().or(self.state.surroundings.as_ref());
        current.map(|current| current.text.as_str()).unwrap_or_default()
    }

    async fn facts(&self, workspace: &Workspace, client: Option<&Path>) -> Option<MachineFacts> {
        let workspaces = &self.shared.ports.workspaces;
        let facts = timeout(FACTS_TIMEOUT, workspaces.facts(workspace, client)).await.unwrap_or_default();
        // A project that cannot be read gets no facts, because the facts might be wrong.
        facts.filter(|facts| workspace.project.is_none() || !facts.start.is_empty())
    }

    /// Draws the map for a new turn, unless a map is already visible to its model.
    pub(crate) async fn map(&mut self, model: &ModelInfo) -> Result<Option<ItemBody>> {
        let max = self.shared.config().map_tokens;
        let window = usize::try_from(self.shared.windows.of(model) / WINDOW_DIVISOR).unwrap_or(usize::MAX);
        let tokens = max.min(window);
        let workspace = self.workspace().await?;
        let Some(project) = workspace.project.as_ref().filter(|_| tokens >= MIN_TOKENS.min(max) && max > 0) else {
            return Ok(None);
        };
        // A subagent gets no map, because it has its task and the tools.
        if self.state.settings.parent.is_some() {
            return Ok(None);
        }
        let prefix = map_prefix(&project.path);
        let is_map = |item: &Arc<Item>| matches!(&item.body, ItemBody::Notice { topic: NoticeTopic::CodeMap, text, .. } if text.starts_with(&prefix));
        if self.state.visible_history().iter().any(is_map) {
            // A new map is drawn when this map is no longer visible to the model.
            self.map_search = MapSearch::default();
            return Ok(None);
        }
        if self.map_search.project != project.path {
            self.map_search = MapSearch { project: project.path.clone(), ..MapSearch::default() };
        }
        if self.map_search.is_empty {
            return Ok(None);
        }
        let limit = if self.map_search.tries < FULL_TRIES { MAP_TIMEOUT } else { READY_MAP_TIMEOUT };
        self.map_search.tries = self.map_search.tries.saturating_add(1);
        let drawn = self.shared.ports.workspaces.map(&workspace, tokens);
        let Ok(Some(drawn)) = timeout(limit, drawn).await else { return Ok(None) };
        // The map includes only files that the rules let a model read without asking.
        let (settings, grants) = (self.state.settings.clone(), self.shared.permanent_grants.now());
        let in_force = PolicyInForce(self.shared.config.clone());
        let rules = read_rules(in_force, settings, grants, Arc::clone(&workspace), read_tool(), None, "{}".to_owned());
        let may_show = |file: &MapFile| rules.allow(&format!("/project/{}", file.path));
        let shown: Vec<MapFile> = drawn.into_iter().filter(may_show).collect();
        self.map_search.is_empty = shown.is_empty();
        let text = notice(&prefix, &shown);
        Ok((!shown.is_empty()).then(|| Reminder::new(NoticeTopic::CodeMap, text).notice()))
    }

    /// Lists every tool with the reason why the next turn would offer it or not.
    pub(crate) async fn tools(&mut self) -> Result<Vec<ToolStanding>, Fault> {
        // An open turn keeps its agents.
        if self.open.is_none() {
            self.load_project_agents().await?;
        }
        let pictures = self.has_pictures(&[]);
        let active_agent = self.active_agent();
        let slot = self.choose(None, &[], None).of_agent(active_agent.own_slot()).slot;
        let scope = self.scope(slot, pictures);
        let loaded_tools = self.loaded_tools(&MentionedTools::new(), &scope, &self.state.visible_history());
        let loaded_tools: MentionedTools = loaded_tools.into_iter().collect();
        Ok(active_agent.standings(self.catalog().standings(&loaded_tools, &scope)))
    }

    /// Returns all tools available to this session. A subagent has its parent's tools.
    pub(crate) fn catalog(&self) -> Arc<ToolCatalog> {
        let parent = self.state.settings.parent.as_ref();
        self.shared.catalog_of(parent.map_or(self.id, |parent| parent.session))
    }

    /// Returns the tools that a turn with this model offers and can find, if it continues from `history`.
    pub(crate) fn finder(
        &self,
        mentioned: &MentionedTools,
        slot: Slot,
        pictures: bool,
        history: &[Arc<Item>],
    ) -> ToolFinder {
        let (catalog, scope) = (self.catalog(), self.scope(slot, pictures));
        let loaded_tools = self.loaded_tools(mentioned, &scope, history);
        let shown = if Arc::ptr_eq(&catalog, &self.shared.catalog()) {
            self.shared.toolsets.tools(&catalog, &loaded_tools, &scope, &self.active_agent())
        } else {
            // The shared cache is not used for the catalogue of a single session.
            agents::toolset(&catalog, &loaded_tools, &scope, &self.active_agent())
        };
        let shown = match self.open.as_ref().and_then(|open| open.client_tools.as_ref()) {
            Some(tools) => shown.followed_by(&tools.for_scope(&scope)),
            None => shown,
        };
        ToolFinder::new(catalog, scope, shown, loaded_tools)
    }

    /// Returns the tools mentioned or found so far, followed by those mentioned now. A tool never changes its position,
    /// so that each request starts like the previous one.
    fn loaded_tools(&self, mentioned: &MentionedTools, scope: &ToolScope, history: &[Arc<Item>]) -> Vec<String> {
        let catalog = self.catalog();
        let mut loaded_tools = self.state.tools.clone();
        let mut add = |name: &String| {
            if loaded_tools.len() < MAX_LOADED && !loaded_tools.contains(name) && catalog.needs_mention(name, scope) {
                loaded_tools.push(name.clone());
            }
        };
        // Journals of earlier versions record found tools only in the results.
        let found = history.iter().flat_map(|item| match &item.body {
            ItemBody::ToolResult(result) => result.found.as_slice(),
            _ => &[],
        });
        let parent = self.state.settings.parent.as_ref();
        found.chain(parent.into_iter().flat_map(|parent| &parent.tools)).chain(mentioned).for_each(&mut add);
        loaded_tools
    }

    /// Returns the change to the session's loaded tools caused by the mentions in its next input; `None` if nothing
    /// changes.
    pub(crate) fn newly_loaded(&self, mentions: &Mentions, attached: &[Attachment], slot: Slot) -> Option<EventKind> {
        let history = self.state.visible_history();
        let scope = self.scope(slot, self.has_pictures(attached));
        let names = self.loaded_tools(&mentions.tools, &scope, &history);
        (names != self.state.tools).then_some(EventKind::StateChanged { change: StateChange::Tools { names } })
    }

    /// Returns the upper bound on a turn's tools, given its agent, its nesting and its model.
    fn scope(&self, slot: Slot, pictures: bool) -> ToolScope {
        let fallback = self.open.as_ref().and_then(|open| open.fallback.as_ref());
        let model = fallback.map_or_else(|| self.model(slot), |fallback| Arc::clone(&fallback.model));
        let has_vision = pictures && model.info().sees_pictures;
        let window = match fallback {
            Some(_) => self.shared.windows.of(model.info()),
            None => self.smallest_window(SlotChoice::by_name(slot)),
        };
        // The embedded model does not read descriptions.
        let brief = !model.info().embedded && toolset::is_brief_for(window);
        let active_agent = self.active_agent();
        let only = self.options.allowed_tools.as_ref();
        ToolScope {
            agent: active_agent.scope(),
            only: only.map(|names| names.iter().map(|name| self.canonical(name)).collect()),
            is_child: active_agent.is_subagent(),
            has_vision,
            for_code: slot == Slot::Code,
            brief,
            is_tiny: brief && toolset::is_tiny(window),
            without_project: self.state.settings.project.is_none(),
        }
    }

    /// Resolves mentions in the input of a new turn. A turn without input uses the last input in the history.
    pub(crate) async fn mentions(
        &mut self,
        start: &StartTurn,
        attached: &[Attachment],
        slot: Slot,
    ) -> Result<Arc<Mentions>, Fault> {
        let (text, files) = match &start.text {
            Some(text) => {
                let files = attached.iter().map(|file| file.path.clone()).collect();
                (typed_part(text, start.typed_bytes).to_owned(), files)
            }
            None => mentions::last_input(&self.state.visible_history()),
        };
        let pictures = self.has_pictures(attached);
        self.resolve_mentions((text, files), slot, pictures).await
    }

    /// Resolves mentions in an input, given as its text and the paths of its files.
    pub(crate) async fn resolve_mentions(
        &mut self,
        (text, files): (String, Vec<String>),
        slot: Slot,
        pictures: bool,
    ) -> Result<Arc<Mentions>, Fault> {
        // The input of a subagent was written by a model.
        if self.state.settings.parent.is_some() || files.is_empty() && mentions::names(&text).is_empty() {
            return Ok(Arc::default());
        }
        let skills = self.skills().await?;
        let (shared, all) = (&self.shared, self.all_agents());
        let agents: Vec<AgentCard> = all.iter().cloned().collect();
        let canonical = |name: &str| shared.ports.toolbox.canonical_name(name).to_owned();
        let known_names =
            KnownNames { catalog: &self.catalog(), canonical: &canonical, skills: &skills, agents: &agents };
        Ok(Arc::new(Mentions::of(&text, &files, &known_names, &self.scope(slot, pictures))))
    }

    /// Returns the skills that this session can use; empty if they cannot be listed in time.
    async fn skills(&mut self) -> Result<Vec<Skill>, Fault> {
        let workspace = self.workspace().await?;
        let Some(skills) = self.shared.ports.workspaces.skills().filter(|_| self.shared.config().guides.skills) else {
            return Ok(Vec::new());
        };
        Ok(timeout(FACTS_TIMEOUT, skills.usable(Some(&workspace))).await.unwrap_or_default())
    }
}

/// Returns the start of the map notice for a project, by which it is recognised.
fn map_prefix(project: &Path) -> String {
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|letter| letter.is_alphanumeric() || "._-".contains(*letter)).collect();
    format!("{MAP_PREFIX} ({name}), ")
}

fn notice(prefix: &str, files: &[MapFile]) -> String {
    let shown = |file: &MapFile| MapFile { path: path::shown(&file.path).into_owned(), lines: file.lines.clone() };
    let map = MapFile::render(&files.iter().map(shown).collect::<Vec<_>>());
    let plain: String = map.chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect();
    format!(
        "{prefix}drawn from its current files: the most used definitions, with their lines. It leaves out most of the \
         code; search_code, find_symbol, outline and repo_map find the rest.\n\n{}",
        plain.trim_end()
    )
}
