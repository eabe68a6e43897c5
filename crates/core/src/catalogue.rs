//! Which tools there are, whether a turn shows them or not, and why it does.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::tool::ToolSpec;

/// Every tool that there is at some moment. It is shared, and another one takes its place where anything changes: whoever
/// holds one knows by its address whether what was made of it still holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    /// The tools, sorted by name. Of two with one name the earlier is the one that calls mean.
    pub tools: Vec<CatalogueTool>,
    /// Settings of tools by name, also of those that the engine answers itself.
    pub labels: BTreeMap<String, ToolLabel>,
    /// The MCP servers that are set up, sorted by name, also those of which no tool is known.
    pub servers: Vec<ServerCard>,
}

/// An MCP server, as models and people are told of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerCard {
    /// Its name in `mcp_servers.yaml`.
    pub name: String,
    /// One line that it says of itself, fit to be shown; empty where it says nothing, or was never reached.
    pub about: String,
    /// Its entry makes no sense, so it is down.
    pub is_broken: bool,
    /// Beginning of the names of its tools.
    pub prefix: String,
    /// Set if its tools are not known yet.
    pub is_unlisted: bool,
    /// Set if its entry names the project: sessions without one cannot use it.
    pub needs_project: bool,
    /// Set if agents that name their tools have its tools all the same.
    pub always_available: bool,
}

/// An MCP server that has not listed its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedServer {
    /// Its name.
    pub name: String,
    /// The reason, for people.
    pub why: String,
    /// Set if it is still being asked.
    pub is_late: bool,
}

/// A tool of somebody else, as rules and questions name it. None of it changes with what the server says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreign {
    /// The MCP server.
    pub server: String,
    /// The tool's name there, fit to be shown.
    pub tool: String,
    /// The rule that covers any call of it, whatever models call it.
    pub rule: String,
    /// The rule that covers any call of any tool of the server.
    pub server_rule: String,
    /// Distinguishes the server's entry in the configuration from another one under the same name.
    pub entry: String,
    /// The person's configuration lets it run without asking.
    pub granted: bool,
    /// Set if the server's entry names the project: sessions without one cannot use it.
    pub needs_project: bool,
}

/// A tool, and what is known of it besides what models are told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogueTool {
    /// The tool as models see it.
    #[serde(flatten)]
    pub spec: ToolSpec,
    /// The part that answers its calls.
    pub origin: ToolOrigin,
    /// When it is shown, and what it is for.
    #[serde(flatten)]
    pub label: ToolLabel,
    /// Meaning of its name, where that can change, in a word that only its toolbox reads. A call reaches that or
    /// nothing: see [`ToolContext::stands_for`](crate::ports::ToolContext::stands_for).
    #[serde(skip)]
    pub stands_for: Option<Arc<str>>,
    /// Whose it is, where it is somebody else's.
    #[serde(skip)]
    pub foreign: Option<Arc<Foreign>>,
}

/// When a tool is shown, and what it is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLabel {
    /// When it is shown.
    pub tier: ToolTier,
    /// Set if agents that name their tools have it all the same.
    pub always_available: bool,
    /// Its purpose, in lists.
    pub category: String,
    /// Words to find it by. `vision` and `code` also say with which models it comes without being mentioned.
    pub tags: Vec<String>,
}

names! {
    /// When a tool is shown.
    #[derive(Default, PartialOrd, Ord)]
    pub enum ToolTier {
        /// Always.
        Core = "core",
        /// Always, because nobody switched it off.
        #[default]
        Enabled = "enabled",
        /// In turns that mention it.
        Discovered = "discovered",
        /// Never, whoever mentions it.
        Off = "off",
    }
}

/// The part that answers the calls of a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// The daemon.
    BuiltIn,
    /// The conversation itself, as it answers `todo_write`.
    Conversation,
    /// An MCP server.
    Mcp {
        /// Its name in `mcp_servers.yaml`.
        server: String,
    },
}

/// A tool as a turn stands to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolStanding {
    /// The tool.
    #[serde(flatten)]
    pub tool: CatalogueTool,
    /// Set if the turn shows it.
    pub visible: bool,
    /// Why, or why not, in a sentence.
    pub why: String,
}

impl CatalogueTool {
    /// A tool of our own, whose name means one thing.
    pub fn own(spec: ToolSpec, origin: ToolOrigin, label: ToolLabel) -> Self {
        Self { spec, origin, label, stands_for: None, foreign: None }
    }
}

impl Catalogue {
    /// The tools of one origin, all of them shown.
    pub fn of(specs: &[ToolSpec], origin: &ToolOrigin) -> Self {
        let tool = |spec: &ToolSpec| CatalogueTool::own(spec.clone(), origin.clone(), ToolLabel::default());
        Self { tools: specs.iter().map(tool).collect(), ..Self::default() }
    }
}

impl std::fmt::Display for ToolOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::Conversation => f.write_str("conversation"),
            Self::Mcp { server } => write!(f, "mcp {server}"),
        }
    }
}
