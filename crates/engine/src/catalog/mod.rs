//! Which tools a turn shows. All of it is pure.
//!
//! - [`ToolCatalog`]: every tool that there is, those that links answer included; made anew only where the toolbox hands out
//!   another catalogue.
//! - [`ToolScope`]: what a turn may use at the most, whatever is mentioned: by its agent, its depth, its model.
//! - `visible`: from these and from what is mentioned to what is shown, and why.
//! - [`Finds`]: what the model of a turn finds of the tools that the turn does not show, and may call from there on;
//!   `words`: how well a tool fits what is looked for, and which one a model may have meant that calls one that is not there.

mod finds;
mod visible;
mod words;

use std::{collections::BTreeSet, sync::Arc};

use agentd_context::ToolSet;
use agentd_core::{
    catalogue::{Catalogue, CatalogueTool, ServerCard, ToolLabel, ToolOrigin, ToolStanding, ToolTier},
    model::Slot,
    tool::{Effect, ToolSpec},
};
use agentd_policy::ForeignTools;

use crate::catalog::visible::Availability;

pub(crate) use crate::catalog::finds::Finds;

/// The tool by which a model finds those that a turn does not show.
pub(crate) const FIND_TOOL: &str = "find_tool";

/// Why a session has no tools of an MCP server that needs a project.
pub(crate) const NO_PROJECT: &str = "its entry in mcp_servers.yaml names the project, and this session has none";

/// The tools that people or agents mention, by the names that calls use.
pub(crate) type MentionedTools = BTreeSet<String>;

/// Every tool that there is.
#[derive(Debug)]
pub(crate) struct ToolCatalog {
    /// Its source, to know whether it still holds.
    source: Arc<Catalogue>,
    /// Sorted by name. Of those with one name the first is the one that calls mean.
    tools: Vec<CatalogueTool>,
    /// Tools of a turn that mentions nothing and may use everything.
    plain: ToolSet,
}

impl ToolCatalog {
    /// The tools of the catalogue, and those that links answer.
    pub(crate) fn new(source: Arc<Catalogue>, own: Vec<(ToolSpec, bool)>) -> Self {
        let mut tools: Vec<CatalogueTool> = own.into_iter().map(|own| labelled(own, &source)).collect();
        tools.extend(source.tools.iter().cloned());
        // Links answer before the toolbox is asked, and what is built in before what others bring: nobody takes a call by
        // choosing the name of another's tool.
        tools.sort_by(|a, b| (&a.spec.name, rank(&a.origin)).cmp(&(&b.spec.name, rank(&b.origin))));
        let plain = visible::set(&tools, &[], &ToolScope::default());
        Self { source, tools, plain }
    }

    /// Returns whether it was made from this catalogue.
    pub(crate) fn is_of(&self, catalogue: &Arc<Catalogue>) -> bool {
        Arc::ptr_eq(&self.source, catalogue)
    }

    /// Tools that a turn may use, where these were mentioned or found so far.
    pub(crate) fn shown(&self, loaded: &[String], reach: &ToolScope) -> ToolSet {
        if loaded.is_empty() && *reach == ToolScope::default() {
            return self.plain.clone();
        }
        visible::set(&self.tools, loaded, reach)
    }

    /// Returns whether a mention makes a turn show that tool, which it would not show otherwise.
    pub(crate) fn needs_mention(&self, name: &str, reach: &ToolScope) -> bool {
        visible::unmentioned(&self.tools, reach).any(|tool| tool.spec.name == name)
    }

    /// Every tool, and why a turn shows it or not.
    pub(crate) fn standings(&self, mentioned: &MentionedTools, reach: &ToolScope) -> Vec<ToolStanding> {
        let told = |(tool, standing): (&CatalogueTool, Availability)| ToolStanding {
            tool: tool.clone(),
            visible: standing.is_shown(),
            why: standing.to_string(),
        };
        visible::judged(&self.tools, mentioned, reach).map(told).collect()
    }

    /// The tool of that name that calls mean, whether a turn shows it or not.
    pub(crate) fn get(&self, name: &str) -> Option<&CatalogueTool> {
        let first = self.tools.partition_point(|tool| tool.spec.name.as_str() < name);
        self.tools.get(first).filter(|tool| tool.spec.name == name)
    }

    /// The MCP servers that are set up, sorted by name.
    pub(crate) fn servers(&self) -> &[ServerCard] {
        &self.source.servers
    }

    /// The MCP servers that a turn may use, and whose tools are not known yet.
    pub(crate) fn unlisted<'a>(&'a self, reach: &'a ToolScope) -> impl Iterator<Item = &'a ServerCard> {
        self.source.servers.iter().filter(move |server| server.is_unlisted && reach.may_use(server))
    }

    /// The tools of an MCP server that a turn may use, mentioned or not.
    pub(crate) fn of_server<'a>(
        &'a self,
        server: &'a str,
        reach: &'a ToolScope,
    ) -> impl Iterator<Item = &'a CatalogueTool> {
        let is_of = move |tool: &CatalogueTool| tool.foreign.as_ref().is_some_and(|foreign| foreign.server == server);
        self.usable(reach).filter(move |tool| is_of(tool))
    }

    /// Whose the tools are that are somebody else's, by the names that models call them.
    pub(crate) fn others(&self) -> ForeignTools {
        let of_other = |tool: &CatalogueTool| Some((tool.spec.name.clone(), tool.foreign.clone()?));
        let calls_mean =
            |tool: &&CatalogueTool| self.get(&tool.spec.name).is_some_and(|first| std::ptr::eq(first, *tool));
        self.tools.iter().filter(calls_mean).filter_map(of_other).collect()
    }

    /// Returns whether any tool of an MCP server is known.
    pub(crate) fn has_of(&self, server: &str) -> bool {
        self.tools.iter().any(|tool| tool.foreign.as_ref().is_some_and(|foreign| foreign.server == server))
    }

    /// The tools of others that a turn may use, mentioned or not.
    pub(crate) fn usable<'a>(&'a self, reach: &'a ToolScope) -> impl Iterator<Item = &'a CatalogueTool> {
        visible::usable(&self.tools, reach)
    }

    /// Those of them that a turn shows only where they are mentioned or found.
    pub(crate) fn hidden<'a>(&'a self, reach: &'a ToolScope) -> impl Iterator<Item = &'a CatalogueTool> {
        visible::hidden(&self.tools, reach)
    }

    /// The names of all tools, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.spec.name.as_str())
    }

    /// Why a turn does not show a tool, in a sentence; none where it does, or there is no such tool.
    pub(crate) fn why_not(&self, name: &str, mentioned: &MentionedTools, reach: &ToolScope) -> Option<String> {
        let found = visible::judged(&self.tools, mentioned, reach).find(|(tool, _)| tool.spec.name == name);
        found.map(|(_, standing)| standing).filter(|standing| !standing.is_shown()).map(|standing| standing.to_string())
    }

    /// Specifications of all tools that calls can mean, sorted by name.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let mut specs: Vec<ToolSpec> = self.tools.iter().map(|tool| tool.spec.clone()).collect();
        specs.dedup_by(|later, first| later.name == first.name);
        specs
    }
}

/// Which of two with one name stands before the other.
fn rank(origin: &ToolOrigin) -> u8 {
    match origin {
        ToolOrigin::Conversation => 0,
        ToolOrigin::BuiltIn => 1,
        ToolOrigin::Mcp { .. } => 2,
    }
}

/// A link's tool. It belongs to every session, unless its link lets people decide.
fn labelled((spec, can_be_disabled): (ToolSpec, bool), catalogue: &Catalogue) -> CatalogueTool {
    let told = catalogue.labels.get(&spec.name).cloned().unwrap_or_default();
    // An agent that names its tools changes no files without naming what does.
    let always_available = spec.effect != Effect::Write || told.always_available;
    let label = if can_be_disabled { told } else { ToolLabel { tier: ToolTier::Core, always_available, ..told } };
    CatalogueTool { spec, origin: ToolOrigin::Conversation, label, stands_for: None, foreign: None }
}

/// Upper bound on a turn's tools, whatever is mentioned. The default forbids nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolScope {
    /// The agent that speaks, where it is not the main one.
    pub(crate) agent: Option<AgentScope>,
    /// The tools that the client of the turn allows; all where none.
    pub(crate) only: Option<BTreeSet<String>>,
    /// Set if the session is a child of another: it hands nothing on.
    pub(crate) is_child: bool,
    /// Set if there are pictures, and the turn's model sees them.
    pub(crate) sees: bool,
    /// Set if the turn's model is the one for code.
    pub(crate) codes: bool,
    /// Set if tools are described in a few words, since the window has little room for them.
    pub(crate) brief: bool,
    /// Set if the session has no project.
    pub(crate) without_project: bool,
}

/// Tools that an agent may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentScope {
    /// Its id.
    pub(crate) id: String,
    /// The tools that it names; where it names none, it has what the main agent has. A tool that is discovered only is
    /// there for an agent that names it.
    pub(crate) tools: Option<BTreeSet<String>>,
}

impl ToolScope {
    /// Returns true if the turn may use tools of that MCP server, whichever it has.
    pub(crate) fn may_use(&self, server: &ServerCard) -> bool {
        let has = |names: &BTreeSet<String>| names.iter().any(|name| name.starts_with(&server.prefix));
        let named = self.agent.as_ref().and_then(|agent| agent.tools.as_ref());
        !(server.needs_project && self.without_project)
            && (server.always_available || named.is_none_or(has))
            && self.only.as_ref().is_none_or(has)
    }

    /// The same for the model of a slot.
    pub(crate) fn with_model(self, slot: Slot, sees: bool, brief: bool) -> Self {
        Self { sees, codes: slot == Slot::Code, brief, ..self }
    }
}
