//! The project of a session: the agents that it brings along, as far as the person trusts it; where the session works, as its
//! instructions tell; and the map of its code.
//!
//! Agents are looked up when a turn begins, and a turn keeps them. Surroundings are looked up when the first turn begins, and are the
//! same from there on, also after a restart; another folder of the client is told behind the history. The map is told once: with the
//! first turn, and again where a compaction has taken it out of view. What a model was told stays as it was, so that requests go on
//! beginning alike; the tool `repo_map` draws the living one.

use std::{path::Path, sync::Arc, time::Duration};

use agentd_context::system::{moved, starts_at, surroundings};
use agentd_core::{
    agent::Agents,
    code::MapFile,
    environment::ClientEnvironment,
    event::{EventKind, StateChange},
    item::{Item, ItemBody, NoticeTopic},
    model::ModelInfo,
    path,
    ports::Workspace,
    surroundings::{MachineFacts, Surroundings},
    tool::ToolSpec,
};
use agentd_policy::{CallContext, read_tool, roots};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    agents::active::ProjectAgents,
    error::EngineError,
    grants::LiveGrants,
    session::actor::{Actor, MapSearch},
    turn::hooks::Reminder,
};

/// Time limit for looking at a project. Where it passes, the project's agents are not there.
const PATIENCE: Duration = Duration::from_secs(5);

impl Actor {
    /// All agents of the session.
    pub(crate) fn all_agents(&self) -> Arc<Agents> {
        self.project.and(&self.shared.config().agents)
    }

    /// Looks whether the session's project is trusted, and takes its agents.
    pub(crate) async fn look_at_project(&mut self) -> Result<(), EngineError> {
        if self.state.settings.project.is_none() {
            self.project = ProjectAgents::default();
            return Ok(());
        }
        let workspace = self.workspace().await?;
        let looked = timeout(PATIENCE, self.shared.ports.workspaces.project(&workspace)).await;
        if looked.is_err() {
            tracing::warn!(session = %self.id, "the project's agents are left out: the disk did not answer in time");
        }
        let configured = Arc::clone(&self.shared.config().agents);
        self.project.follow(looked.unwrap_or_default(), &configured);
        Ok(())
    }

    /// A word to people about the project, once.
    pub(crate) fn project_warning(&mut self) -> Option<EventKind> {
        self.project.warning.take()
    }
}

/// Time limit for looking at a project. No answer waits for a disk that hangs.
const LOOK_PATIENCE: Duration = Duration::from_millis(500);

impl Actor {
    /// Finds out where a turn of this client works, where that is not known. Returns what its model is to be told of it
    /// besides the instructions.
    pub(crate) async fn look_around(&mut self, client: &ClientEnvironment) -> Result<Option<ItemBody>, EngineError> {
        let workspace = self.workspace().await?;
        let project = workspace.project.as_ref().map(|mount| mount.path.clone());
        let client = client.folder().map(Path::to_owned);
        let known = self.state.surroundings.as_ref().filter(|known| known.project == project).cloned();
        self.found_out = None;
        let Some(known) = known else {
            let Some(facts) = self.facts(&workspace, client.as_deref()).await else { return Ok(None) };
            let text = surroundings(&facts, project.as_deref());
            self.found_out = Some(Surroundings { project, client, start: facts.start, text });
            return Ok(None);
        };
        if client.is_none() || client == known.client {
            return Ok(self.forgotten_move(&known));
        }
        let Some(MachineFacts { start, .. }) = self.facts(&workspace, client.as_deref()).await else { return Ok(None) };
        let told = (start != known.start).then(|| ItemBody::notice(moved(&start)));
        if told.is_some() {
            self.found_out = Some(Surroundings { client, start, ..known });
        }
        Ok(told)
    }

    /// Where commands start now, where the instructions say otherwise and what was told of it is out of view.
    fn forgotten_move(&self, known: &Surroundings) -> Option<ItemBody> {
        let words = moved(&known.start);
        let has_moved = !starts_at(&known.text, &known.start);
        let is_seen = |item: &Arc<Item>| matches!(&item.body, ItemBody::Notice { text, .. } if *text == words);
        (has_moved && !self.state.seen().iter().any(is_seen)).then(|| ItemBody::notice(words))
    }

    /// The fact to be stored of it, with the start of the turn.
    pub(crate) fn found_out(&self) -> Option<EventKind> {
        let found = self.found_out.clone()?;
        Some(EventKind::StateChanged { change: StateChange::Surroundings(found) })
    }

    /// The words of the instructions about it; none where no turn has begun.
    pub(crate) fn surroundings(&self) -> &str {
        let known = self.found_out.as_ref().or(self.state.surroundings.as_ref());
        known.map(|known| known.text.as_str()).unwrap_or_default()
    }

    async fn facts(&self, workspace: &Workspace, client: Option<&Path>) -> Option<MachineFacts> {
        let workspaces = &self.shared.ports.workspaces;
        let facts = timeout(LOOK_PATIENCE, workspaces.facts(workspace, client)).await.unwrap_or_default();
        // Of a project that cannot be looked at nothing is told that may be wrong.
        facts.filter(|facts| workspace.project.is_none() || !facts.start.is_empty())
    }
}

/// Beginning of the notice, by which it is known again.
const BEGIN: &str = "A map of the code at `/project`";
/// Time limit for drawing it. No answer waits for an index that is being made: a later turn has it.
const MAP_PATIENCE: Duration = Duration::from_millis(400);
/// Turns that wait so long; those behind them take what is ready.
const TRIES: u8 = 2;
/// Time limit for what is ready.
const GLANCE: Duration = Duration::from_millis(50);
/// Share of a window that a map may take.
const SHARE: u64 = 32;
/// Size below which a map says too little, in tokens.
const LEAST_TOKENS: usize = 400;

impl Actor {
    /// The map for a turn that begins, where its model has not been told one.
    pub(crate) async fn map(&mut self, model: &ModelInfo) -> Result<Option<ItemBody>, EngineError> {
        let most = self.shared.config().map_tokens;
        let window = usize::try_from(self.shared.windows.of(model) / SHARE).unwrap_or(usize::MAX);
        let tokens = most.min(window);
        let workspace = self.workspace().await?;
        let Some(project) = workspace.project.as_ref().filter(|_| tokens >= LEAST_TOKENS.min(most) && most > 0) else {
            return Ok(None);
        };
        // Who works for another session has its task, and the tools.
        if self.state.settings.parent.is_some() {
            return Ok(None);
        }
        let begin = begin(&project.path);
        let is_map = |item: &Arc<Item>| matches!(&item.body, ItemBody::Notice { topic: NoticeTopic::CodeMap, text, .. } if text.starts_with(&begin));
        if self.state.seen().iter().any(is_map) {
            // When it is out of view, another one is drawn.
            self.map_search = MapSearch::default();
            return Ok(None);
        }
        if self.map_search.project != project.path {
            self.map_search = MapSearch { project: project.path.clone(), ..MapSearch::default() };
        }
        if self.map_search.is_empty {
            return Ok(None);
        }
        let patience = if self.map_search.tries < TRIES { MAP_PATIENCE } else { GLANCE };
        self.map_search.tries = self.map_search.tries.saturating_add(1);
        let drawn = self.shared.ports.workspaces.map(&workspace, tokens);
        let Ok(Some(drawn)) = timeout(patience, drawn).await else { return Ok(None) };
        let shown = self.shown_files(&workspace, drawn);
        self.map_search.is_empty = shown.is_empty();
        let text = notice(&begin, &shown);
        Ok((!shown.is_empty()).then(|| Reminder::new(NoticeTopic::CodeMap, text).notice()))
    }

    /// The files that the rules let a model read without asking.
    fn shown_files(&self, workspace: &Workspace, files: Vec<MapFile>) -> Vec<MapFile> {
        let grants = LiveGrants { of_session: self.grants.subscribe(), kept: self.shared.kept.clone() };
        let (settings, kept) = (grants.of_session().over(&self.state.settings), grants.for_good());
        let (policy, tool): (_, ToolSpec) = (self.shared.policy_in_force(), read_tool());
        let roots = roots(workspace);
        let may_show = |file: &MapFile| {
            let arguments = json!({ "path": format!("/project/{}", file.path) }).to_string();
            policy.may_show(&CallContext {
                tool: &tool,
                foreign: None,
                arguments: &arguments,
                followed: None,
                start: None,
                settings: &settings,
                roots: &roots,
                memories: workspace.memories.as_deref(),
                kept: &kept,
                // It is no command that is judged here.
                held: true,
                contained: true,
            })
        };
        files.into_iter().filter(may_show).collect()
    }
}

/// Beginning of the notice about a project, by which it is known again.
fn begin(project: &Path) -> String {
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|letter| letter.is_alphanumeric() || "._-".contains(*letter)).collect();
    format!("{BEGIN} ({name}), ")
}

fn notice(begin: &str, files: &[MapFile]) -> String {
    let shown = |file: &MapFile| MapFile { path: path::shown(&file.path).into_owned(), lines: file.lines.clone() };
    let map = MapFile::render(&files.iter().map(shown).collect::<Vec<_>>());
    let plain: String = map.chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect();
    format!(
        "{begin}drawn from its files as they are now: the definitions that most other code uses, with their lines. It \
         leaves out most of the code; search_code, find_symbol, outline and repo_map find the rest.\n\n{}",
        plain.trim_end()
    )
}
