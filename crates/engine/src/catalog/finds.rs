//! What the model of a turn finds of the tools that the turn does not show. What it has found it may call: it stands behind
//! the other tools from the next request on, and in all turns to come, as what people mention does.

use std::{collections::BTreeMap, sync::Arc};

use agentd_context::ToolSet;
use agentd_core::catalogue::{CatalogueTool, ServerCard};
use tokio::sync::watch;

use super::{FIND_TOOL, ToolCatalog, ToolScope, nearest::nearest, servers::servers, words};

/// Tools that one search tells of at the most.
const MOST_TOLD: usize = 8;
/// Tools that were mentioned or found and that leave room for finds, at the most.
const MOST_FOUND: usize = 48;

/// The tools of a turn: what it shows, and what its model finds.
pub(crate) struct Finds {
    /// As it was when the turn began: what is found is what was there then.
    stock: Arc<ToolCatalog>,
    reach: ToolScope,
    /// Tools that the turn shows without a find of its own.
    shown: ToolSet,
    now: watch::Sender<Now>,
}

/// Tools so far.
struct Now {
    /// Those that were mentioned or found in the session, in the order in which they came.
    loaded: Vec<String>,
    tools: ToolSet,
}

/// Result of a search.
pub(crate) struct Hits<'a> {
    /// The tools that fit best, the best first.
    pub(crate) best: Vec<&'a CatalogueTool>,
    /// Number of further ones.
    pub(crate) more: usize,
}

impl Finds {
    /// The finds of a turn that shows these tools, some of them because they were mentioned or found so far.
    pub(crate) fn new(stock: Arc<ToolCatalog>, reach: ToolScope, shown: ToolSet, loaded: Vec<String>) -> Self {
        let now = watch::Sender::new(Now { loaded, tools: shown.clone() });
        Self { stock, reach, shown, now }
    }

    /// The tools that were mentioned or found in the session so far, in the order in which they came.
    pub(crate) fn names(&self) -> Vec<String> {
        self.now.borrow().loaded.clone()
    }

    /// The MCP servers that the turn may use, and whose tools were not known when it began.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = &ServerCard> {
        self.stock.unlisted(&self.reach)
    }

    /// The same, and those that the turn could use if the session had a project.
    pub(crate) fn unusable(&self) -> impl Iterator<Item = &ServerCard> {
        let otherwise = ToolScope { without_project: false, ..self.reach.clone() };
        let is_unusable =
            move |server: &ServerCard| server.is_unlisted || server.needs_project && self.reach.without_project;
        self.stock.servers().iter().filter(move |server| is_unusable(server) && otherwise.may_use(server))
    }

    /// Which MCP servers there are, for the system message of the turn.
    pub(crate) fn about_servers(&self) -> String {
        servers(&self.stock, &self.reach, self.shown.get(FIND_TOOL).is_some())
    }

    /// The tools that the next request shows.
    pub(crate) fn tools(&self) -> ToolSet {
        self.now.borrow().tools.clone()
    }

    /// A tool that the turn shows because its model found it.
    pub(crate) fn get(&self, name: &str) -> Option<&CatalogueTool> {
        let is_found = self.shown.get(name).is_none() && self.now.borrow().tools.get(name).is_some();
        if is_found { self.stock.get(name) } else { None }
    }

    /// The tools that fit best of those that the turn does not show.
    pub(crate) fn search(&self, query: &str) -> Hits<'_> {
        let query = words::of_query(query);
        let fitting = self.hidden().map(|tool| (words::fit(&query, tool), tool)).filter(|(fit, _)| *fit > 0);
        let mut fitting: Vec<(u32, &CatalogueTool)> = fitting.collect();
        fitting.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.spec.name.cmp(&b.spec.name)));
        let more = fitting.len().saturating_sub(MOST_TOLD);
        Hits { best: fitting.into_iter().take(MOST_TOLD).map(|(_, tool)| tool).collect(), more }
    }

    /// Lets the model call what it has found. Returns the names for which there is no room any more.
    pub(crate) fn show(&self, found: &[&CatalogueTool]) -> Vec<String> {
        let mut left = Vec::new();
        self.now.send_modify(|now| {
            let is_new = |tool: &&&CatalogueTool| now.tools.get(&tool.spec.name).is_none();
            let new: Vec<&CatalogueTool> = found.iter().filter(is_new).copied().collect();
            let room = MOST_FOUND.saturating_sub(now.loaded.len()).min(new.len());
            let (added, none) = new.split_at(room);
            now.loaded.extend(added.iter().map(|tool| tool.spec.name.clone()));
            now.tools = now.tools.followed_by(added);
            left = none.iter().map(|tool| tool.spec.name.clone()).collect();
        });
        left
    }

    /// The servers of the tools that can be found, and how many there are of each, in the order of their names.
    pub(crate) fn servers(&self) -> Vec<(&str, usize)> {
        let mut servers = BTreeMap::new();
        for foreign in self.hidden().filter_map(|tool| tool.foreign.as_ref()) {
            *servers.entry(foreign.server.as_str()).or_insert(0) += 1;
        }
        servers.into_iter().collect()
    }

    /// Returns whether a tool has exactly that name, shown or not.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.stock.get(name).is_some()
    }

    /// The tool of that name that there is and the turn does not show, with the reason.
    pub(crate) fn why_not(&self, name: &str) -> Option<String> {
        let why = self.stock.why_not(name, &super::MentionedTools::new(), &self.reach)?;
        Some(if name == FIND_TOOL { format!("{why}{}", self.not_known_yet()) } else { why })
    }

    /// Which servers have not said which tools they have, as an addition to a sentence; empty where all have.
    pub(crate) fn not_known_yet(&self) -> String {
        let names: Vec<&str> = self.unlisted().map(|server| server.name.as_str()).take(MOST_TOLD).collect();
        if names.is_empty() { String::new() } else { format!("; the tools of {} are not known yet", names.join(", ")) }
    }

    /// The tools that a model may have meant that calls one which is not there, in words: of those that it is shown, and of
    /// those that it could find. None where there is none.
    pub(crate) fn meant_by(&self, called: &str) -> Option<String> {
        let tools = self.tools();
        let hidden = self.hidden().map(|tool| tool.spec.name.as_str());
        let known = tools.specs.iter().map(|tool| tool.name.as_str()).chain(hidden);
        let told = |name: &str| match tools.get(name) {
            Some(_) => name.to_owned(),
            None => format!("{name} ({FIND_TOOL} finds it)"),
        };
        let near: Vec<String> = nearest(called, known).into_iter().map(told).collect();
        (!near.is_empty()).then(|| near.join(", "))
    }

    fn hidden(&self) -> impl Iterator<Item = &CatalogueTool> {
        self.stock.hidden(&self.reach).filter(|tool| self.shown.get(&tool.spec.name).is_none())
    }
}
