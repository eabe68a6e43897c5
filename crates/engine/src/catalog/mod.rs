//! Selects the tools that a turn shows. No side effects.
//!
//! - [`ToolCatalog`]: all tools, including those implemented by links. Rebuilt only if the toolbox returns another
//!   catalogue.
//! - [`ToolScope`]: upper bound on a turn's tools, regardless of mentions, given by the turn's agent, depth and model.
//! - [`Availability`]: the decision on each tool, with its reason.
//! - [`ToolFinder`]: finds hidden tools, which the model can then call; scores how well a tool matches a query, and
//!   suggests names for unknown tools.

mod search;

use std::{collections::BTreeSet, fmt, sync::Arc};

use agentd_context::ToolSet;
use agentd_core::{
    agent::TRANSFER_PREFIX,
    catalogue::{Catalogue, CatalogueTool, ServerCard, ToolLabel, ToolOrigin, ToolStanding, ToolTier},
    tool::{Effect, ToolSpec},
};
use agentd_policy::ForeignTools;

pub(crate) use crate::catalog::search::ToolFinder;

/// Tool with which a model finds tools that a turn does not show.
pub(crate) const FIND_TOOL: &str = "find_tool";

/// Reason why a session has no tools of an MCP server that requires a project.
pub(crate) const NO_PROJECT: &str = "its entry in mcp_servers.yaml names the project, and this session has none";

/// Tool with which an agent delegates. Subagents have neither this tool nor transfers.
pub(crate) const DELEGATE: &str = "delegate_task";

/// Tools of links that users may disable. Tools that other links mention to the model cannot be disabled.
pub(crate) const HIDEABLE: [&str; 2] = [DELEGATE, FIND_TOOL];

/// Tools shown in a tiny window. Any other tool must be mentioned or found.
const TINY_SET: [&str; 7] =
    ["edit_file", FIND_TOOL, "grep", "list_files", "read_file", "run_bash_command", "write_file"];

/// Tools mentioned by users or agents, by the names used in calls.
pub(crate) type MentionedTools = BTreeSet<String>;

/// All tools, shown or not.
#[derive(Debug)]
pub(crate) struct ToolCatalog {
    /// Source catalogue, for checking if this catalogue is current.
    source: Arc<Catalogue>,
    /// All tools, sorted by name. Among tools with the same name, calls refer to the first.
    tools: Vec<CatalogueTool>,
    /// Tools of a turn without mentions and limits.
    plain: ToolSet,
}

impl ToolCatalog {
    /// Combines the tools of a catalogue with those implemented by links.
    pub(crate) fn new(source: Arc<Catalogue>, own: &[ToolSpec]) -> Self {
        let mut tools: Vec<CatalogueTool> = own.iter().map(|spec| label_tool(spec, &source)).collect();
        tools.extend(source.tools.iter().cloned());
        // Links take precedence over the toolbox, and built-in tools over foreign ones, so that no tool can intercept
        // calls by using another one's name.
        let rank = |tool: &CatalogueTool| match tool.origin {
            ToolOrigin::Conversation => 0,
            ToolOrigin::BuiltIn => 1,
            ToolOrigin::Mcp { .. } => 2,
        };
        tools.sort_by(|a, b| (&a.spec.name, rank(a)).cmp(&(&b.spec.name, rank(b))));
        let catalog = Self { source, tools, plain: ToolSet::none() };
        Self { plain: catalog.set(&[], &ToolScope::default()), ..catalog }
    }

    /// Returns true if `self` was built from this catalogue.
    pub(crate) fn is_built_from(&self, catalogue: &Arc<Catalogue>) -> bool {
        Arc::ptr_eq(&self.source, catalogue)
    }

    /// Returns the tools that a turn may use, given the tools mentioned or found so far.
    pub(crate) fn shown(&self, loaded_tools: &[String], scope: &ToolScope) -> ToolSet {
        if loaded_tools.is_empty() && *scope == ToolScope::default() {
            return self.plain.clone();
        }
        self.set(loaded_tools, scope)
    }

    /// Returns the tools that the turn shows. Mentioned or found tools are appended in the order of `loaded_tools`.
    fn set(&self, loaded_tools: &[String], scope: &ToolScope) -> ToolSet {
        let mentioned: MentionedTools = loaded_tools.iter().cloned().collect();
        let shown =
            self.availabilities(&mentioned, scope).filter(|(_, standing)| standing.is_shown()).map(|(tool, _)| tool);
        let (mut added, sorted): (Vec<_>, Vec<_>) = shown.partition(|tool| mentioned.contains(&tool.spec.name));
        added.sort_by_key(|tool| loaded_tools.iter().position(|name| *name == tool.spec.name));
        ToolSet::of(&sorted).followed_by(&added)
    }

    /// Returns true if a turn shows the tool only after a mention.
    pub(crate) fn needs_mention(&self, name: &str, scope: &ToolScope) -> bool {
        let mut judged = self.availabilities_of(None, scope, true);
        judged.any(|(tool, standing)| tool.spec.name == name && standing.is_unmentioned())
    }

    /// Returns all tools, each with the reason why a turn shows it or not.
    pub(crate) fn standings(&self, mentioned: &MentionedTools, scope: &ToolScope) -> Vec<ToolStanding> {
        let entry = |(tool, standing): (&CatalogueTool, Availability<'_>)| ToolStanding {
            tool: tool.clone(),
            visible: standing.is_shown(),
            why: standing.to_string(),
        };
        self.availabilities(mentioned, scope).map(entry).collect()
    }

    /// Returns all tools, sorted by name, each with its availability.
    fn availabilities<'a>(
        &'a self,
        mentioned: &'a MentionedTools,
        scope: &'a ToolScope,
    ) -> impl Iterator<Item = (&'a CatalogueTool, Availability<'a>)> {
        // This is independent of mentions, so that mentioning every tool does not change the other tools.
        let can_find = self.hidden(scope).next().is_some();
        self.availabilities_of(Some(mentioned), scope, can_find)
    }

    fn availabilities_of<'a>(
        &'a self,
        mentioned: Option<&'a MentionedTools>,
        scope: &'a ToolScope,
        can_find: bool,
    ) -> impl Iterator<Item = (&'a CatalogueTool, Availability<'a>)> {
        self.tools.iter().enumerate().map(move |(index, tool)| {
            let first = self.tools[..index].iter().rev().take_while(|before| before.spec.name == tool.spec.name).last();
            let standing = match first {
                Some(first) => Availability::Shadowed { by: &first.origin },
                None if !can_find && tool.spec.name == FIND_TOOL => Availability::NothingToFind,
                None => standing(tool, mentioned, scope),
            };
            (tool, standing)
        })
    }

    /// Finds the tool to which a call with this name refers, even if the turn does not show it.
    pub(crate) fn get(&self, name: &str) -> Option<&CatalogueTool> {
        let first = self.tools.partition_point(|tool| tool.spec.name.as_str() < name);
        self.tools.get(first).filter(|tool| tool.spec.name == name)
    }

    /// Returns the configured MCP servers, sorted by name.
    pub(crate) fn servers(&self) -> &[ServerCard] {
        &self.source.servers
    }

    /// Returns the MCP servers that a turn may use but that have not yet listed their tools.
    pub(crate) fn unlisted<'a>(&'a self, scope: &'a ToolScope) -> impl Iterator<Item = &'a ServerCard> {
        self.source.servers.iter().filter(move |server| server.is_unlisted && scope.may_use(server))
    }

    /// Returns the owners of foreign tools, by the tools' names.
    pub(crate) fn owners(&self) -> ForeignTools {
        let of_other = |tool: &CatalogueTool| Some((tool.spec.name.clone(), tool.foreign.clone()?));
        let is_callable =
            |tool: &&CatalogueTool| self.get(&tool.spec.name).is_some_and(|first| std::ptr::eq(first, *tool));
        self.tools.iter().filter(is_callable).filter_map(of_other).collect()
    }

    /// Returns true if any tool of an MCP server is known.
    pub(crate) fn has_tools_of(&self, server: &str) -> bool {
        self.tools.iter().any(|tool| is_tool_of(tool, server))
    }

    /// Returns the foreign tools that a turn may use, mentioned or not.
    pub(crate) fn usable<'a>(&'a self, scope: &'a ToolScope) -> impl Iterator<Item = &'a CatalogueTool> {
        let is_usable = |standing: &Availability<'_>| standing.is_shown() || standing.is_unmentioned();
        self.foreign_tools(scope).filter(move |(_, standing)| is_usable(standing)).map(|(tool, _)| tool)
    }

    /// Returns the foreign tools that a turn shows only if they are mentioned or found.
    pub(crate) fn hidden<'a>(&'a self, scope: &'a ToolScope) -> impl Iterator<Item = &'a CatalogueTool> {
        self.foreign_tools(scope).filter(|(_, standing)| standing.is_unmentioned()).map(|(tool, _)| tool)
    }

    fn foreign_tools<'a>(
        &'a self,
        scope: &'a ToolScope,
    ) -> impl Iterator<Item = (&'a CatalogueTool, Availability<'a>)> {
        self.availabilities_of(None, scope, true).filter(|(tool, _)| tool.foreign.is_some())
    }

    /// Returns the names of all tools, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.spec.name.as_str())
    }

    /// Returns the reason why a turn does not show a tool; `None` if the turn shows the tool or there is no such tool.
    pub(crate) fn hidden_reason(&self, name: &str, mentioned: &MentionedTools, scope: &ToolScope) -> Option<String> {
        let (_, standing) = self.availabilities(mentioned, scope).find(|(tool, _)| tool.spec.name == name)?;
        (!standing.is_shown()).then(|| standing.to_string())
    }

    /// Returns the specifications of all tools to which calls can refer, sorted by name.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let mut specs: Vec<ToolSpec> = self.tools.iter().map(|tool| tool.spec.clone()).collect();
        specs.dedup_by(|later, first| later.name == first.name);
        specs
    }
}

pub(crate) fn is_tool_of(tool: &CatalogueTool, server: &str) -> bool {
    tool.foreign.as_ref().is_some_and(|foreign| foreign.server == server)
}

/// Labels a link's tool. The tool belongs to every session, unless the link lets users disable it.
fn label_tool(spec: &ToolSpec, catalogue: &Catalogue) -> CatalogueTool {
    let entry = catalogue.labels.get(&spec.name).cloned().unwrap_or_default();
    // An agent that names its tools can change files only if it names a tool that changes files.
    let always_available = spec.effect != Effect::Write || entry.always_available;
    let can_be_disabled = HIDEABLE.contains(&spec.name.as_str());
    let label = if can_be_disabled { entry } else { ToolLabel { tier: ToolTier::Core, always_available, ..entry } };
    CatalogueTool::own(spec.clone(), ToolOrigin::Conversation, label)
}

/// Upper bound on a turn's tools, regardless of mentions. The default allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolScope {
    /// Scope of the agent, if it is not the main agent.
    pub(crate) agent: Option<AgentScope>,
    /// Tools that the client allows for the turn; `None` allows all.
    pub(crate) only: Option<BTreeSet<String>>,
    /// True if the session is a subagent, which cannot hand over work.
    pub(crate) is_child: bool,
    /// True if there are pictures and the turn's model has vision.
    pub(crate) has_vision: bool,
    /// True if the turn uses the code model.
    pub(crate) for_code: bool,
    /// True if descriptions are shortened because the window is small.
    pub(crate) brief: bool,
    /// True if only a few tools are shown because the window is tiny.
    pub(crate) is_tiny: bool,
    /// True if the session has no project.
    pub(crate) without_project: bool,
}

/// Tools that an agent may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentScope {
    /// ID of the agent.
    pub(crate) id: String,
    /// Tools named by the agent; `None` gives it the main agent's tools. An agent can use a named tool even if the tool
    /// must otherwise be mentioned.
    pub(crate) tools: Option<BTreeSet<String>>,
}

impl ToolScope {
    /// Returns true if the turn may use tools of this MCP server, regardless of which tools the server lists.
    pub(crate) fn may_use(&self, server: &ServerCard) -> bool {
        let has = |names: &BTreeSet<String>| names.iter().any(|name| name.starts_with(&server.prefix));
        let named = self.agent.as_ref().and_then(|agent| agent.tools.as_ref());
        !(server.needs_project && self.without_project)
            && (server.always_available || named.is_none_or(has))
            && self.only.as_ref().is_none_or(has)
    }
}

/// Reason why a turn shows a tool or not.
#[derive(Debug, Clone, Copy)]
enum Availability<'a> {
    Core,
    Enabled,
    Mentioned,
    NamedBy(&'a str),
    ForPictures,
    ForCode,
    NotMentioned { name: &'a str, server: Option<&'a str> },
    Off,
    NoProject,
    NothingToFind,
    Forbidden { agent: &'a str },
    Child,
    Allowed,
    NotAllowed,
    Shadowed { by: &'a ToolOrigin },
}

impl Availability<'_> {
    fn is_shown(&self) -> bool {
        matches!(
            self,
            Self::Core
                | Self::Enabled
                | Self::Mentioned
                | Self::Allowed
                | Self::NamedBy(_)
                | Self::ForPictures
                | Self::ForCode
        )
    }

    /// Returns true if only a mention is missing.
    fn is_unmentioned(&self) -> bool {
        matches!(self, Self::NotMentioned { .. })
    }
}

impl fmt::Display for Availability<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core => f.write_str("it belongs to every turn"),
            Self::Enabled => f.write_str("it is enabled"),
            Self::Mentioned => f.write_str("it was mentioned or found in this session"),
            Self::NamedBy(agent) => write!(f, "the agent {agent} names it"),
            Self::ForPictures => f.write_str("it is for pictures, and the model has vision"),
            Self::ForCode => f.write_str("it is for code, and the turn uses the code model"),
            Self::NotMentioned { name, server: None } => write!(f, "@{name} in an input loads it for the session"),
            Self::NotMentioned { name, server: Some(server) } => {
                write!(f, "@{name} or @{server} in an input loads it for the session, and {FIND_TOOL} finds it")
            }
            Self::NothingToFind => f.write_str("all known tools of MCP servers are already shown"),
            Self::NoProject => write!(f, "its MCP server cannot be used here: {NO_PROJECT}"),
            Self::Off => {
                f.write_str("tools.yaml has `enabled: never`, or something that it requires is not configured")
            }
            Self::Forbidden { agent } => write!(f, "the agent {agent} does not name it"),
            Self::Child => f.write_str("a subagent cannot delegate"),
            Self::Allowed => f.write_str("the client allows it for this turn"),
            Self::NotAllowed => f.write_str("the client does not allow it for this turn"),
            Self::Shadowed { by } => write!(f, "another tool has the same name ({by})"),
        }
    }
}

fn standing<'a>(tool: &'a CatalogueTool, mentioned: Option<&MentionedTools>, scope: &'a ToolScope) -> Availability<'a> {
    let (name, label) = (tool.spec.name.as_str(), &tool.label);
    if label.tier == ToolTier::Off {
        return Availability::Off;
    }
    if scope.without_project && tool.foreign.as_ref().is_some_and(|foreign| foreign.needs_project) {
        return Availability::NoProject;
    }
    if scope.is_child && (name == DELEGATE || name.starts_with(TRANSFER_PREFIX)) {
        return Availability::Child;
    }
    if scope.only.as_ref().is_some_and(|only| !only.contains(name)) {
        return Availability::NotAllowed;
    }
    if let Some(AgentScope { id, tools: Some(named) }) = &scope.agent
        && !label.always_available
    {
        return if named.contains(name) { Availability::NamedBy(id) } else { Availability::Forbidden { agent: id } };
    }
    let has_tag = |tag: &str| label.tags.iter().any(|other| other == tag);
    let is_left_out = scope.is_tiny && !TINY_SET.contains(&name);
    match if is_left_out { ToolTier::Discovered } else { label.tier } {
        ToolTier::Core => Availability::Core,
        ToolTier::Enabled => Availability::Enabled,
        _ if scope.only.is_some() => Availability::Allowed,
        _ if mentioned.is_some_and(|mentioned| mentioned.contains(name)) => Availability::Mentioned,
        _ if scope.has_vision && has_tag("vision") => Availability::ForPictures,
        _ if scope.for_code && has_tag("code") => Availability::ForCode,
        _ => {
            let server = tool.foreign.as_ref().map(|foreign| foreign.server.as_str());
            Availability::NotMentioned { name, server }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, tier: ToolTier, tags: &[&str]) -> CatalogueTool {
        let spec = ToolSpec { name: name.to_owned(), ..agentd_policy::read_tool() };
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let label = ToolLabel { tier, always_available: name == "ask_human", tags, ..ToolLabel::default() };
        CatalogueTool::own(spec, ToolOrigin::BuiltIn, label)
    }

    fn tools() -> ToolCatalog {
        let mut tools = vec![
            tool("ask_human", ToolTier::Core, &[]),
            tool("delegate_task", ToolTier::Discovered, &[]),
            tool("draw", ToolTier::Discovered, &["vision"]),
            tool("grep", ToolTier::Enabled, &[]),
            tool("lint", ToolTier::Discovered, &["code"]),
            tool("read_file", ToolTier::Core, &[]),
            tool("shell", ToolTier::Off, &["code"]),
            tool("transfer_to_x", ToolTier::Enabled, &[]),
        ];
        let shadowed_tool =
            CatalogueTool { origin: ToolOrigin::Mcp { server: "rogue".to_owned() }, ..tools[3].clone() };
        tools.push(shadowed_tool);
        ToolCatalog::new(Arc::new(Catalogue { tools, ..Catalogue::default() }), &[])
    }

    #[track_caller]
    fn check(mentioned: &[&str], scope: &ToolScope, expected: &[&str]) {
        let loaded_tools: Vec<String> = mentioned.iter().map(|name| (*name).to_owned()).collect();
        let set = tools().shown(&loaded_tools, scope);
        let names: Vec<&str> = set.specs.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn turn_shows_only_tools_in_its_scope() {
        let any = ToolScope::default();
        check(&[], &any, &["ask_human", "grep", "read_file", "transfer_to_x"]);
        check(&["lint", "nothing", "shell"], &any, &["ask_human", "grep", "read_file", "transfer_to_x", "lint"]);
        // Mentioned tools are appended in order, and all other tools keep their positions.
        check(&["lint", "draw"], &any, &["ask_human", "grep", "read_file", "transfer_to_x", "lint", "draw"]);
        let child_scope = ToolScope { is_child: true, ..any.clone() };
        check(&["delegate_task"], &child_scope, &["ask_human", "grep", "read_file"]);
        let vision_scope = ToolScope { has_vision: true, ..any.clone() };
        check(&[], &vision_scope, &["ask_human", "draw", "grep", "read_file", "transfer_to_x"]);
        let code_scope = ToolScope { for_code: true, ..any.clone() };
        check(&[], &code_scope, &["ask_human", "grep", "lint", "read_file", "transfer_to_x"]);
        let tiny_scope = ToolScope { is_tiny: true, ..any.clone() };
        check(&["ask_human"], &tiny_scope, &["grep", "read_file", "ask_human"]);
        let named = |names: &[&str]| {
            let tools = Some(names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>());
            ToolScope { agent: Some(AgentScope { id: "x".to_owned(), tools }), ..ToolScope::default() }
        };
        check(&["delegate_task"], &named(&["lint", "shell", "grep"]), &["ask_human", "grep", "lint"]);
        let unrestricted_scope = ToolScope { agent: Some(AgentScope { id: "x".to_owned(), tools: None }), ..any };
        check(&[], &unrestricted_scope, &["ask_human", "grep", "read_file", "transfer_to_x"]);
    }
}
