//! MCP servers.

use std::path::PathBuf;

use agentd_core::error::ErrorKind;
use agentd_mcp::{Health, pool::ServerReport};
use agentd_proto::{
    client::{McpServerState, McpServerView},
    v1::{self, mcp_server::Mcp},
};
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

#[tonic::async_trait]
impl Mcp for Context {
    async fn list(
        &self,
        request: Request<v1::ListMcpServersRequest>,
    ) -> Result<Response<v1::ListMcpServersResponse>, Status> {
        let v1::ListMcpServersRequest { session } = request.into_inner();
        let reports = match session.as_str() {
            "" => self.control.mcp().report(),
            session => self.list_session_servers(session).await?,
        };
        let servers = reports.iter().map(|server| (&view(server)).into()).collect();
        Ok(Response::new(v1::ListMcpServersResponse { servers }))
    }

    async fn start(
        &self,
        request: Request<v1::StartMcpServerRequest>,
    ) -> Result<Response<v1::StartMcpServerResponse>, Status> {
        let v1::StartMcpServerRequest { name, folder } = request.into_inner();
        let name = self.known(name)?;
        let folder = Some(PathBuf::from(folder)).filter(|folder| folder.is_absolute());
        let report = self.control.mcp().start(&name, folder).await.map_err(|why| Refusal {
            kind: ErrorKind::Conflict,
            message: format!("the MCP server {name} could not be started: {why}"),
            hint: Some(format!("`agentctl mcp logs {name}` shows its log")),
        })?;
        Ok(Response::new(v1::StartMcpServerResponse { server: Some((&view(&report)).into()) }))
    }

    async fn stop(
        &self,
        request: Request<v1::StopMcpServerRequest>,
    ) -> Result<Response<v1::StopMcpServerResponse>, Status> {
        let name = self.known(request.into_inner().name)?;
        self.control.mcp().stop(&name).await.map_err(Refusal::invalid)?;
        Ok(Response::new(v1::StopMcpServerResponse {}))
    }

    async fn logs(
        &self,
        request: Request<v1::McpServerLogsRequest>,
    ) -> Result<Response<v1::McpServerLogsResponse>, Status> {
        let v1::McpServerLogsRequest { name, lines } = request.into_inner();
        let name = self.known(name)?;
        let most = if lines == 0 { usize::MAX } else { usize::try_from(lines).unwrap_or(usize::MAX) };
        let lines = self.control.mcp().log(&name).map(|log| log.last(most)).unwrap_or_default();
        Ok(Response::new(v1::McpServerLogsResponse { lines }))
    }

    async fn begin_login(
        &self,
        request: Request<v1::BeginMcpLoginRequest>,
    ) -> Result<Response<v1::BeginMcpLoginResponse>, Status> {
        let v1::BeginMcpLoginRequest { name, redirect } = request.into_inner();
        let name = self.known(name)?;
        let begun = self.control.mcp().begin_login(&name, &redirect).await;
        Ok(Response::new(v1::BeginMcpLoginResponse { address: begun.map_err(|why| no_login(&name, &why))? }))
    }

    async fn finish_login(
        &self,
        request: Request<v1::FinishMcpLoginRequest>,
    ) -> Result<Response<v1::FinishMcpLoginResponse>, Status> {
        let v1::FinishMcpLoginRequest { name, came_back_to } = request.into_inner();
        let name = self.known(name)?;
        self.control.mcp().finish_login(&name, &came_back_to).await.map_err(|why| no_login(&name, &why))?;
        Ok(Response::new(v1::FinishMcpLoginResponse {}))
    }

    async fn check(
        &self,
        request: Request<v1::CheckMcpServersRequest>,
    ) -> Result<Response<v1::CheckMcpServersResponse>, Status> {
        let v1::CheckMcpServersRequest { text, path } = request.into_inner();
        self.control.try_mcp(text, PathBuf::from(path))?;
        Ok(Response::new(v1::CheckMcpServersResponse {}))
    }

    async fn set_session_servers(
        &self,
        request: Request<v1::SetSessionServersRequest>,
    ) -> Result<Response<v1::SetSessionServersResponse>, Status> {
        // Whoever gives up the call does not leave it half done.
        let (context, request) = (self.clone(), request.into_inner());
        let set = tokio::spawn(async move { Context::set_session_servers(&context, request).await });
        let (servers, version) = set.await.map_err(|_| Refusal::stopping())??;
        let servers = servers.iter().map(|server| (&view(server)).into()).collect();
        Ok(Response::new(v1::SetSessionServersResponse { servers, version }))
    }
}

impl Context {
    /// The name of a server, if there is one of that name.
    fn known(&self, name: String) -> Result<String, Refusal> {
        let reports = self.control.mcp().report();
        if reports.iter().any(|server| server.name == name) {
            return Ok(name);
        }
        let shown: String = name.chars().take(80).collect();
        let hint = match crate::config::nearest(&shown, reports.iter().map(|server| server.name.as_str())) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "`agentctl mcp list` shows them, and `agentctl mcp add` adds one".to_owned(),
        };
        let message = format!("there is no MCP server `{shown}`");
        Err(Refusal { kind: ErrorKind::NotFound, message, hint: Some(hint) })
    }
}

fn no_login(name: &str, why: &str) -> Refusal {
    Refusal {
        kind: ErrorKind::Conflict,
        message: format!("could not log in to the MCP server {name}: {why}"),
        hint: Some("put the key of a server that uses one into `headers` of mcp_servers.yaml".to_owned()),
    }
}

fn view(server: &ServerReport) -> McpServerView {
    let (state, reason) = match &server.health {
        _ if server.config.as_ref().is_some_and(|config| !config.enabled) => (McpServerState::Disabled, String::new()),
        Health::Stopped => (McpServerState::Stopped, String::new()),
        Health::Starting => (McpServerState::Starting, String::new()),
        Health::Running(_) => (McpServerState::Running, String::new()),
        Health::Down { why, .. } => (McpServerState::Down, why.to_string()),
    };
    McpServerView {
        name: server.name.clone(),
        state,
        reason,
        transport: server.config.as_ref().map(|config| config.transport().to_owned()).unwrap_or_default(),
        place: server.config.as_ref().map(|config| config.place()).unwrap_or_default(),
        connections: u32::try_from(server.connections).unwrap_or(u32::MAX),
        says_it_is: agentd_core::untrusted::told(&server.says_it_is),
        protocol: agentd_core::untrusted::told(&server.protocol),
        reached: server.tools.is_some(),
        tools: server.tools.clone().unwrap_or_default(),
        notes: server.notes.clone(),
    }
}
