//! The available tools, when a turn shows them, and why.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::tool::ToolSpec;

/// All tools that are available at one moment. The value is shared, and replaced on any change, so comparing its
/// address shows whether derived data is still valid.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    /// Tools, sorted by name. If two tools share a name, calls reach the earlier one.
    pub tools: Vec<CatalogueTool>,
    /// Settings of tools by name, including tools that the engine answers itself.
    pub labels: BTreeMap<String, ToolLabel>,
    /// Configured MCP servers, sorted by name, including those without known tools.
    pub servers: Vec<ServerCard>,
}

/// An MCP server as shown to models and users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerCard {
    /// Name of the entry in `mcp_servers.yaml`.
    pub name: String,
    /// The server's one-line description of itself, sanitised for display. Empty if the server has none or was never
    /// reached.
    pub about: String,
    /// True if the server's entry is invalid, so the server is down.
    pub is_broken: bool,
    /// Prefix of the server's tool names.
    pub prefix: String,
    /// True if the server's tools are not known yet.
    pub is_unlisted: bool,
    /// True if the server's entry names the project. Sessions without a project cannot use it.
    pub needs_project: bool,
    /// True if the server's tools are available even to agents with a list of tools.
    pub always_available: bool,
}

/// An MCP server that has not listed its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedServer {
    /// Name of the server.
    pub name: String,
    /// Reason for the missing list, shown to users.
    pub why: String,
    /// True if the request for the list is still running.
    pub is_late: bool,
}

/// A third-party tool, as named in rules and questions. No field depends on what the server sends later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignTool {
    /// Name of the MCP server.
    pub server: String,
    /// Name of the tool on the server, sanitised for display.
    pub tool: String,
    /// Rule that covers every call to the tool, whatever name models use.
    pub rule: String,
    /// Rule that covers every call to any of the server's tools.
    pub server_rule: String,
    /// Distinguishes the server's configuration entry from another entry of the same name.
    pub entry: String,
    /// True if the user's configuration lets the tool run without approval.
    pub granted: bool,
    /// True if the server's entry names the project. Sessions without a project cannot use it.
    pub needs_project: bool,
}

/// A tool with the properties that models do not see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogueTool {
    /// Definition of the tool as sent to models.
    #[serde(flatten)]
    pub spec: ToolSpec,
    /// Component that answers calls to the tool.
    pub origin: ToolOrigin,
    /// Tier and purpose of the tool.
    #[serde(flatten)]
    pub label: ToolLabel,
    /// Token for the current meaning of the tool's name, if the meaning can change. Only the toolbox interprets the
    /// token. A call reaches this meaning or fails, see
    /// [`ToolContext::stands_for`](crate::ports::ToolContext::stands_for).
    #[serde(skip)]
    pub stands_for: Option<Arc<str>>,
    /// Server of the tool, if the tool is third-party.
    #[serde(skip)]
    pub foreign: Option<Arc<ForeignTool>>,
}

/// When a tool is shown, and its purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLabel {
    /// When the tool is shown.
    pub tier: ToolTier,
    /// True if the tool is available even to agents with a list of tools.
    pub always_available: bool,
    /// Purpose, for grouping in lists.
    pub category: String,
    /// Search terms. `vision` and `code` also select the models for which the tool is shown without being mentioned.
    pub tags: Vec<String>,
}

names! {
    /// When a tool is shown.
    #[derive(Default, PartialOrd, Ord)]
    pub enum ToolTier {
        /// Shown in every turn.
        Core = "core",
        /// Shown in every turn because the user has not disabled it.
        #[default]
        Enabled = "enabled",
        /// Shown in turns that mention the tool.
        Discovered = "discovered",
        /// Never shown, even if it is mentioned.
        Off = "off",
    }
}

/// Component that answers calls to a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// The tools of the daemon.
    BuiltIn,
    /// The engine, from the conversation's state, as for `todo_write`.
    Conversation,
    /// An MCP server with its tools.
    Mcp {
        /// Name of the entry in `mcp_servers.yaml`.
        server: String,
    },
}

/// A tool with its visibility in one turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolStanding {
    /// The tool with its properties.
    #[serde(flatten)]
    pub tool: CatalogueTool,
    /// True if the turn shows the tool.
    pub visible: bool,
    /// Reason for the visibility, in one sentence.
    pub why: String,
}

impl CatalogueTool {
    /// Creates one of the daemon's own tools, whose name never changes its meaning.
    pub fn own(spec: ToolSpec, origin: ToolOrigin, label: ToolLabel) -> Self {
        Self { spec, origin, label, stands_for: None, foreign: None }
    }
}

impl Catalogue {
    /// Creates a catalogue of tools with one origin, all shown.
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
