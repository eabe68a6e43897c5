//! From the tools that there are to those that a turn shows, and why.

use std::fmt;

use agentd_context::ToolSet;
use agentd_core::{
    agent::TRANSFERS,
    catalogue::{CatalogueTool, ToolOrigin, ToolTier},
};

use super::{AgentScope, MentionedTools, ToolScope};
use crate::catalog::{FIND_TOOL, NO_PROJECT};

/// The tools by which a session hands work on: a child session has none of them.
const DELEGATES: &str = "delegate_task";

/// Why a turn shows a tool, or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Availability {
    Core,
    Enabled,
    Mentioned,
    NamedBy(String),
    ForPictures,
    ForCode,
    NotMentioned { name: String, server: Option<String> },
    Off,
    NoProject,
    NothingToFind,
    Forbidden { agent: String },
    Child,
    Allowed,
    NotAllowed,
    Shadowed { by: ToolOrigin },
}

impl Availability {
    pub(super) fn is_shown(&self) -> bool {
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

    /// Returns whether a mention is all that it takes.
    fn is_unmentioned(&self) -> bool {
        matches!(self, Self::NotMentioned { .. })
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core => f.write_str("it belongs to every turn"),
            Self::Enabled => f.write_str("it is enabled"),
            Self::Mentioned => f.write_str("it was mentioned or found in this session"),
            Self::NamedBy(agent) => write!(f, "the agent {agent} names it"),
            Self::ForPictures => f.write_str("it is for pictures, and the model sees them"),
            Self::ForCode => f.write_str("it is for code, and so is the model"),
            Self::NotMentioned { name, server: None } => write!(f, "@{name} in an input loads it for the session"),
            Self::NotMentioned { name, server: Some(server) } => {
                write!(f, "@{name} or @{server} in an input loads it for the session, and {FIND_TOOL} finds it")
            }
            Self::NothingToFind => f.write_str("every known tool of an MCP server is shown already"),
            Self::NoProject => write!(f, "its MCP server cannot be used here: {NO_PROJECT}"),
            Self::Off => f.write_str("tools.yaml says `enabled: never`, or what it works with is not configured"),
            Self::Forbidden { agent } => write!(f, "the agent {agent} does not name it"),
            Self::Child => f.write_str("a session that works for another hands nothing on"),
            Self::Allowed => f.write_str("the client allows it for this turn"),
            Self::NotAllowed => f.write_str("the client does not allow it for this turn"),
            Self::Shadowed { by } => write!(f, "another tool has its name ({by})"),
        }
    }
}

/// The tools that the turn shows: those that were mentioned or found so far behind the others, in their order.
pub(super) fn set(tools: &[CatalogueTool], loaded: &[String], reach: &ToolScope) -> ToolSet {
    let mentioned: MentionedTools = loaded.iter().cloned().collect();
    let shown = judged(tools, &mentioned, reach).filter(|(_, standing)| standing.is_shown()).map(|(tool, _)| tool);
    let (mut added, sorted): (Vec<_>, Vec<_>) = shown.partition(|tool| mentioned.contains(&tool.spec.name));
    added.sort_by_key(|tool| loaded.iter().position(|name| *name == tool.spec.name));
    ToolSet::of(&sorted).followed_by(&added)
}

/// The tools of others that a turn could show and does not, unless they are mentioned or found.
pub(super) fn hidden<'a>(tools: &'a [CatalogueTool], reach: &'a ToolScope) -> impl Iterator<Item = &'a CatalogueTool> {
    of_others(tools, reach).filter(|(_, standing)| standing.is_unmentioned()).map(|(tool, _)| tool)
}

/// The tools, whoever's, that a turn shows only where they are mentioned.
pub(super) fn unmentioned<'a>(
    tools: &'a [CatalogueTool],
    reach: &'a ToolScope,
) -> impl Iterator<Item = &'a CatalogueTool> {
    judged_each(tools, None, reach, true).filter(|(_, standing)| standing.is_unmentioned()).map(|(tool, _)| tool)
}

/// The tools of others that a turn shows, or would where they were mentioned.
pub(super) fn usable<'a>(tools: &'a [CatalogueTool], reach: &'a ToolScope) -> impl Iterator<Item = &'a CatalogueTool> {
    let is_usable = |standing: &Availability| standing.is_shown() || standing.is_unmentioned();
    of_others(tools, reach).filter(move |(_, standing)| is_usable(standing)).map(|(tool, _)| tool)
}

fn of_others<'a>(
    tools: &'a [CatalogueTool],
    reach: &'a ToolScope,
) -> impl Iterator<Item = (&'a CatalogueTool, Availability)> {
    judged_each(tools, None, reach, true).filter(|(tool, _)| tool.foreign.is_some())
}

/// Every tool, sorted by name, with where it stands.
pub(super) fn judged<'a>(
    tools: &'a [CatalogueTool],
    mentioned: &'a MentionedTools,
    reach: &'a ToolScope,
) -> impl Iterator<Item = (&'a CatalogueTool, Availability)> {
    // Whatever is mentioned, so that a turn that mentions all of them shows the same besides.
    let finds = hidden(tools, reach).next().is_some();
    judged_each(tools, Some(mentioned), reach, finds)
}

fn judged_each<'a>(
    tools: &'a [CatalogueTool],
    mentioned: Option<&'a MentionedTools>,
    reach: &'a ToolScope,
    finds: bool,
) -> impl Iterator<Item = (&'a CatalogueTool, Availability)> {
    tools.iter().enumerate().map(move |(index, tool)| {
        let first = tools[..index].iter().rev().take_while(|before| before.spec.name == tool.spec.name).last();
        let standing = match first {
            Some(first) => Availability::Shadowed { by: first.origin.clone() },
            None if !finds && tool.spec.name == FIND_TOOL => Availability::NothingToFind,
            None => standing(tool, mentioned, reach),
        };
        (tool, standing)
    })
}

fn standing(tool: &CatalogueTool, mentioned: Option<&MentionedTools>, reach: &ToolScope) -> Availability {
    let (name, label) = (tool.spec.name.as_str(), &tool.label);
    if label.tier == ToolTier::Off {
        return Availability::Off;
    }
    if reach.without_project && tool.foreign.as_ref().is_some_and(|foreign| foreign.needs_project) {
        return Availability::NoProject;
    }
    if reach.is_child && (name == DELEGATES || name.starts_with(TRANSFERS)) {
        return Availability::Child;
    }
    if reach.only.as_ref().is_some_and(|only| !only.contains(name)) {
        return Availability::NotAllowed;
    }
    if let Some(AgentScope { id, tools: Some(named) }) = &reach.agent
        && !label.always_available
    {
        let id = id.clone();
        return if named.contains(name) { Availability::NamedBy(id) } else { Availability::Forbidden { agent: id } };
    }
    let tagged = |tag: &str| label.tags.iter().any(|known| known == tag);
    match label.tier {
        ToolTier::Core => Availability::Core,
        ToolTier::Enabled => Availability::Enabled,
        _ if reach.only.is_some() => Availability::Allowed,
        _ if mentioned.is_some_and(|mentioned| mentioned.contains(name)) => Availability::Mentioned,
        _ if reach.sees && tagged("vision") => Availability::ForPictures,
        _ if reach.codes && tagged("code") => Availability::ForCode,
        _ => {
            let server = tool.foreign.as_ref().map(|foreign| foreign.server.clone());
            Availability::NotMentioned { name: name.to_owned(), server }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use agentd_core::{
        catalogue::ToolLabel,
        tool::{Effect, ToolSpec},
    };

    use super::*;

    fn tool(name: &str, tier: ToolTier, tags: &[&str]) -> CatalogueTool {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: serde_json::json!({}),
            effect: Effect::Read,
        };
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let label = ToolLabel { tier, always_available: name == "ask_human", tags, ..ToolLabel::default() };
        CatalogueTool { spec, origin: ToolOrigin::BuiltIn, label, stands_for: None, foreign: None }
    }

    fn tools() -> Vec<CatalogueTool> {
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
        let stolen = CatalogueTool { origin: ToolOrigin::Mcp { server: "rogue".to_owned() }, ..tools[3].clone() };
        tools.insert(4, stolen);
        tools
    }

    #[track_caller]
    fn check(mentioned: &[&str], reach: &ToolScope, expected: &[&str]) {
        let loaded: Vec<String> = mentioned.iter().map(|name| (*name).to_owned()).collect();
        let set = set(&tools(), &loaded, reach);
        let names: Vec<&str> = set.specs.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_turn_shows_what_it_may() {
        let any = ToolScope::default();
        check(&[], &any, &["ask_human", "grep", "read_file", "transfer_to_x"]);
        check(&["lint", "nothing", "shell"], &any, &["ask_human", "grep", "read_file", "transfer_to_x", "lint"]);
        // In the order in which they came, and what was there before stays where it was.
        check(&["lint", "draw"], &any, &["ask_human", "grep", "read_file", "transfer_to_x", "lint", "draw"]);
        let child = ToolScope { is_child: true, ..any.clone() };
        check(&["delegate_task"], &child, &["ask_human", "grep", "read_file"]);
        let sees = ToolScope { sees: true, ..any.clone() };
        check(&[], &sees, &["ask_human", "draw", "grep", "read_file", "transfer_to_x"]);
        let codes = ToolScope { codes: true, ..any.clone() };
        check(&[], &codes, &["ask_human", "grep", "lint", "read_file", "transfer_to_x"]);
        let named = |names: &[&str]| {
            let tools = Some(names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>());
            ToolScope { agent: Some(AgentScope { id: "x".to_owned(), tools }), ..ToolScope::default() }
        };
        check(&["delegate_task"], &named(&["lint", "shell", "grep"]), &["ask_human", "grep", "lint"]);
        let free = ToolScope { agent: Some(AgentScope { id: "x".to_owned(), tools: None }), ..any };
        check(&[], &free, &["ask_human", "grep", "read_file", "transfer_to_x"]);
    }

    #[test]
    fn each_says_why() {
        let tools = tools();
        let (mentioned, reach) = (MentionedTools::from(["lint".to_owned()]), ToolScope::default());
        let why: Vec<String> = judged(&tools, &mentioned, &reach).map(|(_, standing)| standing.to_string()).collect();
        assert_eq!(
            why,
            [
                "it belongs to every turn",
                "@delegate_task in an input loads it for the session",
                "@draw in an input loads it for the session",
                "it is enabled",
                "another tool has its name (built in)",
                "it was mentioned or found in this session",
                "it belongs to every turn",
                "tools.yaml says `enabled: never`, or what it works with is not configured",
                "it is enabled",
            ]
        );
    }
}
