//! The available tools, and the conditions under which a turn shows them.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::tool::ToolSpec;

/// All available tools at one point in time. The value is shared and replaced on any change, so derived data is valid
/// as long as the address is the same.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    /// Tools sorted by name. If several tools have the same name, the first one is called.
    pub tools: Vec<CatalogueTool>,
    /// Settings of tools by name, including tools handled by the engine.
    pub labels: BTreeMap<String, ToolLabel>,
    /// Configured MCP servers, sorted by name, including servers whose tools are unknown.
    pub servers: Vec<ServerCard>,
}

/// MCP server as shown to models and users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerCard {
    /// Name of the entry in `mcp_servers.yaml`.
    pub name: String,
    /// The server's one-line description of itself, sanitised for display. Empty if the server has no description or
    /// was never reached.
    pub about: String,
    /// True if the server cannot be used because its configuration entry is invalid.
    pub is_broken: bool,
    /// Prefix of the server's tool names.
    pub prefix: String,
    /// True if the server's tools are still unknown.
    pub is_unlisted: bool,
    /// True if the server's entry refers to the project. Sessions without a project cannot use the server.
    pub needs_project: bool,
    /// True if the server's tools are available to all agents, even those with a list of tools.
    pub always_available: bool,
}

/// MCP server whose list of tools is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlistedServer {
    /// Name of the server.
    pub name: String,
    /// Reason why the list is missing, shown to users.
    pub why: String,
    /// True if the request for the list is still running.
    pub is_late: bool,
}

/// Source of a third-party tool, with the names used in rules and questions. No field depends on later messages of the
/// server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignTool {
    /// Name of the MCP server.
    pub server: String,
    /// Name of the tool on the server, sanitised for display.
    pub tool: String,
    /// Rule that covers every call to the tool, regardless of the name that models use.
    pub rule: String,
    /// Rule that covers every call to any of the server's tools.
    pub server_rule: String,
    /// Fingerprint that distinguishes the server's configuration entry from other entries with the same name.
    pub entry: String,
    /// True if the user's configuration allows the tool to run without approval.
    pub granted: bool,
    /// True if the server's entry refers to the project. Sessions without a project cannot use the tool.
    pub needs_project: bool,
}

/// Tool with properties that are not sent to models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogueTool {
    /// Definition of the tool as sent to models.
    #[serde(flatten)]
    pub spec: ToolSpec,
    /// Component that executes calls to the tool.
    pub origin: ToolOrigin,
    /// Tier and purpose of the tool.
    #[serde(flatten)]
    pub label: ToolLabel,
    /// Token for the current meaning of the tool's name, if the meaning can change. Only the toolbox interprets the
    /// token. A call either reaches the tool with this meaning or fails, see
    /// [`ToolContext::stands_for`](crate::ports::ToolContext::stands_for).
    #[serde(skip)]
    pub stands_for: Option<Arc<str>>,
    /// Source of the tool, if it is a third-party tool.
    #[serde(skip)]
    pub foreign: Option<Arc<ForeignTool>>,
}

/// Visibility and purpose of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLabel {
    /// Condition under which the tool is shown.
    pub tier: ToolTier,
    /// True if the tool is available to all agents, even those with a list of tools.
    pub always_available: bool,
    /// Purpose of the tool, used for grouping in lists.
    pub category: String,
    /// Search terms. The tags `vision` and `code` also select the models for which the tool is shown without being
    /// mentioned.
    pub tags: Vec<String>,
}

names! {
    /// Condition under which a tool is shown.
    #[derive(Default, PartialOrd, Ord)]
    pub enum ToolTier {
        /// Shown in every turn.
        Core = "core",
        /// Shown in every turn unless the user disables it.
        #[default]
        Enabled = "enabled",
        /// Shown in turns that mention the tool.
        Discovered = "discovered",
        /// Never shown, even if it is mentioned.
        Off = "off",
    }
}

/// Component that executes calls to a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// The daemon's built-in tools.
    BuiltIn,
    /// The engine, using the state of the conversation, as for `todo_write`.
    Conversation,
    /// An MCP server that provides the tool.
    Mcp {
        /// Name of the entry in `mcp_servers.yaml`.
        server: String,
    },
}

/// Tool with its visibility in one turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolStanding {
    /// The tool with its properties.
    #[serde(flatten)]
    pub tool: CatalogueTool,
    /// True if the turn shows the tool.
    pub visible: bool,
    /// Reason for the visibility as one sentence.
    pub why: String,
}

impl CatalogueTool {
    /// Creates one of the daemon's own tools, whose name always has the same meaning.
    pub fn own(spec: ToolSpec, origin: ToolOrigin, label: ToolLabel) -> Self {
        Self { spec, origin, label, stands_for: None, foreign: None }
    }
}

impl Catalogue {
    /// Creates a catalogue of tools with one origin. All tools are shown.
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
