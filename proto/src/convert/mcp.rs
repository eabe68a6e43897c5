//! MCP servers.

use super::{WireError, enum_to_wire, mirrored, required_enum};
use crate::{
    v1,
    view::{McpServerState, McpServerView},
};

mirrored!(McpServerState, "how an MCP server is", [Stopped, Starting, Running, Down, Disabled]);

impl From<&McpServerView> for v1::McpServer {
    fn from(server: &McpServerView) -> Self {
        Self {
            name: server.name.clone(),
            state: enum_to_wire(server.state),
            reason: server.reason.clone(),
            transport: server.transport.clone(),
            place: server.place.clone(),
            connections: server.connections,
            says_it_is: server.says_it_is.clone(),
            tools: server.tools.clone(),
            reached: server.reached,
            notes: server.notes.clone(),
            protocol: server.protocol.clone(),
        }
    }
}

impl TryFrom<v1::McpServer> for McpServerView {
    type Error = WireError;

    fn try_from(server: v1::McpServer) -> Result<Self, WireError> {
        Ok(Self {
            name: server.name,
            state: required_enum(server.state)?,
            reason: server.reason,
            transport: server.transport,
            place: server.place,
            connections: server.connections,
            says_it_is: server.says_it_is,
            tools: server.tools,
            reached: server.reached,
            notes: server.notes,
            protocol: server.protocol,
        })
    }
}
