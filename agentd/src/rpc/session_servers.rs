//! MCP servers that clients bring for sessions: from the wire to the definitions that are checked below.

use agentd_core::{environment::ClientEnvironment, error::ErrorKind};
use agentd_mcp::{
    SessionServers,
    config::{HttpWire, ServerAddress},
    pool::ServerReport,
    session::{ServerRefusal, SessionServer},
};
use agentd_proto::{
    convert::WireError,
    v1::{self, session_server::Address},
};

use super::{Context, Refusal};

impl Context {
    /// Gives a session the servers of a request.
    pub(super) async fn set_session_servers(
        &self,
        request: v1::SetSessionServersRequest,
    ) -> Result<(Vec<ServerReport>, u64), Refusal> {
        let session = self.session(&request.session).await?;
        if session.show().await?.session.settings.parent.is_some() {
            return Err(Refusal::invalid("a session that works for another has the MCP servers of that one")
                .with_hint("bring them for the other session"));
        }
        let servers = request.servers.into_iter().map(definition).collect::<Result<Vec<_>, _>>()?;
        let client = ClientEnvironment::unjudged(request.environment).allowed(&self.control.passed_variables());
        let brought = self.brought()?;
        let set = brought.set(session.id(), &servers, &client, request.replaces).await?;
        tracing::info!(session = %session.id(), servers = set.servers.len(), "a client has set the MCP servers of a session");
        // It may have been deleted meanwhile.
        if let Err(gone) = self.session_id(&request.session).await {
            brought.remove(session.id()).await;
            return Err(gone);
        }
        Ok((set.servers, set.version))
    }

    /// The servers of a session.
    pub(super) async fn list_session_servers(&self, session: &str) -> Result<Vec<ServerReport>, Refusal> {
        let session = self.session_id(session).await?;
        Ok(self.brought()?.of(session).map(|pool| pool.report()).unwrap_or_default())
    }

    fn brought(&self) -> Result<&SessionServers, Refusal> {
        self.control.session_servers().ok_or_else(|| Refusal::invalid("this daemon takes no MCP servers of clients"))
    }
}

fn definition(server: v1::SessionServer) -> Result<SessionServer, WireError> {
    let address = match server.address.ok_or(WireError::Missing("the program or the address of an MCP server"))? {
        Address::Program(v1::ServerProgram { command, args, env, cwd }) => ServerAddress::Stdio {
            command,
            args: args.iter().map(|arg| arg.as_str().into()).collect(),
            env: env.into_iter().map(|(name, value)| (name, value.into())).collect(),
            cwd: cwd.into(),
        },
        Address::Url(v1::ServerUrl { url, headers, sse }) => ServerAddress::Http {
            url: url.as_str().into(),
            headers: headers.into_iter().map(|(name, value)| (name, value.into())).collect(),
            wire: if sse { HttpWire::Sse } else { HttpWire::Streamable },
            client: None,
        },
    };
    Ok(SessionServer { name: server.name, address })
}

impl From<ServerRefusal> for Refusal {
    fn from(ServerRefusal { message, hint }: ServerRefusal) -> Self {
        Self { kind: ErrorKind::InvalidInput, message, hint: Some(hint) }
    }
}
