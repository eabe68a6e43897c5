//! Tools that the client of a turn answers itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    files::PreparedPicture,
    tool::{Effect, ToolSpec},
};

/// Beginning of the names by which models call tools of clients.
pub const CLIENT_TOOL_PREFIX: &str = "client_";

/// Tools of one turn at the most.
pub const MAX_CLIENT_TOOLS: usize = 64;

/// Length of a tool's name at the most.
pub const MAX_CLIENT_TOOL_NAME: usize = 48;

/// Length of a tool's description at the most, in bytes.
pub const MAX_CLIENT_TOOL_DESCRIPTION: usize = 4 << 10;

/// Length of a tool's schema at the most, in bytes.
pub const MAX_CLIENT_TOOL_SCHEMA: usize = 32 << 10;

/// Length of an answer's words at the most, in bytes.
pub const MAX_CLIENT_ANSWER: usize = 4 << 20;

/// A tool that the client of a turn answers itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientTool {
    /// Its name, as the client knows it.
    pub name: String,
    /// Its purpose and when to use it.
    pub description: String,
    /// JSON schema of the arguments, an object.
    pub parameters: Value,
    /// Set if a call only looks.
    pub only_looks: bool,
}

impl ClientTool {
    /// The name by which models call it.
    pub fn called(&self) -> String {
        format!("{CLIENT_TOOL_PREFIX}{}", self.name)
    }

    /// The tool as models see it. One that changes something counts as a command does: nobody knows its reach.
    pub fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.called(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            effect: if self.only_looks { Effect::Read } else { Effect::Execute },
        }
    }
}

/// A call of a client's tool, as the client is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientToolCall {
    /// Joins it to the answer.
    pub call_id: String,
    /// The tool, by the name that the client gave it.
    pub name: String,
    /// The arguments, a JSON object.
    pub arguments: String,
}

/// Answer of a client to a call of its tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientToolAnswer {
    /// The words for the model.
    pub text: String,
    /// Set if it failed.
    pub failed: bool,
    /// A picture beside the words, fit for models.
    pub picture: Option<PreparedPicture>,
}
