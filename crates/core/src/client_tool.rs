//! Tools that are executed by the client of a turn.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    files::PreparedPicture,
    tool::{Effect, ToolSpec},
};

/// Prefix of the names that models use for client tools.
pub const CLIENT_TOOL_PREFIX: &str = "client_";

/// Maximum number of client tools in one turn.
pub const MAX_CLIENT_TOOLS: usize = 64;

/// Maximum length of a tool name.
pub const MAX_CLIENT_TOOL_NAME: usize = 48;

/// Maximum length of a tool description, in bytes.
pub const MAX_CLIENT_TOOL_DESCRIPTION: usize = 4 << 10;

/// Maximum size of a tool schema, in bytes.
pub const MAX_CLIENT_TOOL_SCHEMA: usize = 32 << 10;

/// Maximum length of an answer's text, in bytes.
pub const MAX_CLIENT_ANSWER: usize = 4 << 20;

/// Tool that is executed by the client of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientTool {
    /// Name used by the client, without the prefix.
    pub name: String,
    /// Purpose of the tool, and when to use it.
    pub description: String,
    /// JSON Schema of the arguments, whose type is `object`.
    pub parameters: Value,
    /// True if calls only read.
    pub only_looks: bool,
}

impl ClientTool {
    /// Returns the name that models use for the tool.
    pub fn called(&self) -> String {
        format!("{CLIENT_TOOL_PREFIX}{}", self.name)
    }

    /// Returns the tool in the form that models see. A tool that changes anything is treated like a command, because
    /// its effects are unknown.
    pub fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.called(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            effect: if self.only_looks { Effect::Read } else { Effect::Execute },
        }
    }
}

/// Call to a client's tool, as sent to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientToolCall {
    /// ID that the answer must repeat.
    pub call_id: String,
    /// Name of the tool as defined by the client.
    pub name: String,
    /// Arguments as a JSON object.
    pub arguments: String,
}

/// Client's answer to a call to its tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientToolAnswer {
    /// Text for the model.
    pub text: String,
    /// True if the call failed.
    pub failed: bool,
    /// Picture in addition to the text, prepared for models.
    pub picture: Option<PreparedPicture>,
}
