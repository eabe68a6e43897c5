//! Map of the project's code, told once: with the first turn, and again where a compaction has taken it out of view. What a
//! model was told stays as it was, so that requests go on beginning alike; the tool `repo_map` draws the living one.

use std::{path::Path, sync::Arc, time::Duration};

use agentd_core::{
    code::MapFile,
    item::{Item, ItemBody, NoticeTopic},
    model::ModelInfo,
    path,
    ports::Workspace,
    tool::ToolSpec,
};
use agentd_policy::{CallContext, read_tool, roots};
use serde_json::json;
use tokio::time::timeout;

use crate::{
    error::EngineError,
    grants::LiveGrants,
    session::{actor::Actor, view::map_search::MapSearch},
};

/// Beginning of the notice, by which it is known again.
const BEGIN: &str = "A map of the code at `/project`";
/// Time limit for drawing it. No answer waits for an index that is being made: a later turn has it.
const PATIENCE: Duration = Duration::from_millis(400);
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
        let patience = if self.map_search.tries < TRIES { PATIENCE } else { GLANCE };
        self.map_search.tries = self.map_search.tries.saturating_add(1);
        let drawn = self.shared.parts.workspaces.map(&workspace, tokens);
        let Ok(Some(drawn)) = timeout(patience, drawn).await else { return Ok(None) };
        let shown = self.shown_files(&workspace, drawn);
        self.map_search.is_empty = shown.is_empty();
        let text = notice(&begin, &shown);
        let body = ItemBody::Notice { text, topic: NoticeTopic::CodeMap, sources: Vec::new(), pictures: Vec::new() };
        Ok((!shown.is_empty()).then_some(body))
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
