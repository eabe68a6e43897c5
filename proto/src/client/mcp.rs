//! Calls about MCP servers.

use super::{Client, ClientError, McpServerView};
use crate::{
    MAX_MESSAGE_BYTES,
    convert::{self, WireError},
    v1::{self, mcp_client::McpClient},
};

impl Client {
    fn mcp(&self) -> McpClient<tonic::transport::Channel> {
        McpClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The servers of the configuration, by name.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServerView>, ClientError> {
        Ok(convert::all(self.mcp().list(v1::ListMcpServersRequest::default()).await?.into_inner().servers)?)
    }

    /// The servers that a client brought for a session, by name.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    pub async fn session_servers(&self, session: &str) -> Result<Vec<McpServerView>, ClientError> {
        let request = v1::ListMcpServersRequest { session: session.to_owned() };
        Ok(convert::all(self.mcp().list(request).await?.into_inner().servers)?)
    }

    /// Gives a session servers, in place of those that it has. Returns how they are, in that order, and the version that names them.
    ///
    /// # Errors
    /// When there is no such session, a definition makes no sense, or the connection fails.
    pub async fn set_session_servers(
        &self,
        servers: v1::SetSessionServersRequest,
    ) -> Result<(Vec<McpServerView>, u64), ClientError> {
        let set = self.mcp().set_session_servers(servers).await?.into_inner();
        Ok((convert::all(set.servers)?, set.version))
    }

    /// Starts a server now, for a project in that folder; an empty one stands for that of the last session.
    ///
    /// # Errors
    /// When there is none of that name, it cannot be started, or the connection fails.
    pub async fn start_mcp_server(&self, name: &str, folder: &str) -> Result<McpServerView, ClientError> {
        let request = v1::StartMcpServerRequest { name: name.to_owned(), folder: folder.to_owned() };
        let server = self.mcp().start(request).await?.into_inner().server;
        Ok(server.ok_or(WireError::Missing("the server"))?.try_into()?)
    }

    /// Stops a server. It is gone when this returns.
    ///
    /// # Errors
    /// When there is none of that name, or the connection fails.
    pub async fn stop_mcp_server(&self, name: &str) -> Result<(), ClientError> {
        self.mcp().stop(v1::StopMcpServerRequest { name: name.to_owned() }).await?;
        Ok(())
    }

    /// The last words of a server, oldest first, at most so many lines; 0 for all.
    ///
    /// # Errors
    /// When there is none of that name, or the connection fails.
    pub async fn mcp_server_logs(&self, name: &str, lines: u32) -> Result<Vec<String>, ClientError> {
        let request = v1::McpServerLogsRequest { name: name.to_owned(), lines };
        Ok(self.mcp().logs(request).await?.into_inner().lines)
    }

    /// Begins to log in to a server behind an address. Returns the address that the person has to open.
    ///
    /// # Errors
    /// When there is none of that name, it knows nobody, or the connection fails.
    pub async fn begin_mcp_login(&self, name: &str, redirect: &str) -> Result<String, ClientError> {
        let request = v1::BeginMcpLoginRequest { name: name.to_owned(), redirect: redirect.to_owned() };
        Ok(self.mcp().begin_login(request).await?.into_inner().address)
    }

    /// Finishes a login, with the whole address that the browser was sent back to.
    ///
    /// # Errors
    /// When nothing was begun, the token is refused, or the connection fails.
    pub async fn finish_mcp_login(&self, name: &str, came_back_to: &str) -> Result<(), ClientError> {
        let request = v1::FinishMcpLoginRequest { name: name.to_owned(), came_back_to: came_back_to.to_owned() };
        self.mcp().finish_login(request).await?;
        Ok(())
    }

    /// Finds out whether the person's `mcp_servers.yaml` could have this text.
    ///
    /// # Errors
    /// When something in it makes no sense, and when the connection fails.
    pub async fn check_mcp_servers(&self, text: &str, path: &str) -> Result<(), ClientError> {
        let request = v1::CheckMcpServersRequest { text: text.to_owned(), path: path.to_owned() };
        self.mcp().check(request).await?;
        Ok(())
    }
}
