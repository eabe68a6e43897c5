//! What the model of a turn finds of the tools that the turn does not show. What it has found it may call: it stands behind
//! the other tools from the next request on, also in the turns to come that still see that it was found.

use std::{collections::BTreeMap, sync::Arc};

use agentd_context::ToolSet;
use agentd_core::{
    catalogue::CatalogueTool,
    item::{Item, ItemBody},
};
use tokio::sync::watch;

use super::{FIND_TOOL, ToolCatalog, ToolScope, nearest::nearest, servers::servers, words};

/// Tools that one search tells of at the most.
const MOST_TOLD: usize = 8;
/// Tools that are shown because they were found, at the most: of more, those that were found last in the turns before.
const MOST_FOUND: usize = 48;

/// The tools of a turn: what it shows, and what its model finds.
pub(crate) struct Finds {
    /// As it was when the turn began: what is found is what was there then.
    stock: Arc<ToolCatalog>,
    reach: ToolScope,
    /// Tools that the turn shows without a find.
    shown: ToolSet,
    now: watch::Sender<Now>,
}

/// Finds so far.
struct Now {
    names: Vec<String>,
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
    /// The finds of a turn that shows these tools, with those of the turns before it.
    pub(crate) fn new(stock: Arc<ToolCatalog>, reach: ToolScope, shown: ToolSet, history: &[Arc<Item>]) -> Self {
        let mut names: Vec<String> = Vec::new();
        let found = history.iter().flat_map(|item| match &item.body {
            ItemBody::ToolResult(result) => result.found.as_slice(),
            _ => &[],
        });
        for name in found {
            if shown.get(name).is_none() && !names.contains(name) {
                names.push(name.clone());
            }
        }
        if !names.is_empty() {
            let hidden: Vec<&str> = stock.hidden(&reach).map(|tool| tool.spec.name.as_str()).collect();
            names.retain(|name| hidden.contains(&name.as_str()));
            names.drain(..names.len().saturating_sub(MOST_FOUND));
        }
        let tools = with_found(&stock, &shown, &names);
        Self { stock, reach, shown, now: watch::Sender::new(Now { names, tools }) }
    }

    /// Which MCP servers there are, for the system message of the turn.
    pub(crate) fn about_servers(&self) -> String {
        servers(&self.stock, &self.reach, self.shown.get(FIND_TOOL).is_some())
    }

    /// The tools that the next request shows.
    pub(crate) fn tools(&self) -> ToolSet {
        self.now.borrow().tools.clone()
    }

    /// A tool that was found.
    pub(crate) fn get(&self, name: &str) -> Option<&CatalogueTool> {
        if self.now.borrow().names.iter().any(|found| found == name) { self.stock.get(name) } else { None }
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
            for name in found.iter().map(|tool| &tool.spec.name) {
                if now.names.contains(name) {
                    continue;
                }
                if now.names.len() < MOST_FOUND { now.names.push(name.clone()) } else { left.push(name.clone()) }
            }
            now.tools = with_found(&self.stock, &self.shown, &now.names);
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

    /// The tool of that name that there is and the turn does not show, with the reason.
    pub(crate) fn why_not(&self, name: &str) -> Option<String> {
        self.stock.why_not(name, &super::MentionedTools::new(), &self.reach)
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

fn with_found(stock: &ToolCatalog, shown: &ToolSet, names: &[String]) -> ToolSet {
    let found: Vec<&CatalogueTool> = names.iter().filter_map(|name| stock.get(name)).collect();
    shown.with_found(&found)
}
