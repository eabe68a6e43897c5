//! Extensions: projects and project trust, plugins, skills, and MCP servers.
//!
//! Plugins and skills are listed with their problems, added and removed. MCP servers are either configured or provided
//! by clients for their sessions.

use std::path::PathBuf;

use agentd_core::{
    environment::ClientEnvironment,
    error::ErrorKind,
    guide::{SkillListing, SkillReport},
    ids::SessionId,
    ports::Skills as _,
    untrusted,
};
use agentd_mcp::{
    Health,
    config::{HttpWire, ServerAddress},
    pool::ServerReport,
    session::{ServerRefusal, SessionServer},
};
use agentd_proto::{
    client::{McpServerState, McpServerView},
    convert::WireError,
    v1::{
        self, check_skill_request, mcp_server::Mcp, plugins_server::Plugins, projects_server::Projects,
        session_server::Address, show_plugin_request, skills_server::Skills,
    },
};

use crate::{
    config::{check_mcp_file, nearest},
    failure::{Failure, blocking},
    rpc::{Context, Refusal, absolute},
};

/// Error message if a skill could not be read.
const UNREADABLE: &str = "could not read the skill";

service! { Projects:
    async fn show(&self, request: v1::ShowProjectRequest) -> v1::Project {
        Ok((&self.engine.show_project(absolute(request.folder)?).await?).into())
    }

    async fn trust(&self, request: v1::TrustProjectRequest) -> v1::Project {
        Ok((&self.engine.trust_project(absolute(request.folder)?, request.hash, request.client).await?).into())
    }

    async fn distrust(&self, request: v1::DistrustProjectRequest) -> v1::Project {
        Ok((&self.engine.distrust_project(absolute(request.folder)?, request.client).await?).into())
    }
}

service! { Plugins:
    async fn list(&self, request: v1::ListPluginsRequest) -> v1::ListPluginsResponse {
        let plugins = match request.as_known {
            // Reports of the most recent check of the plugin files.
            true => self.control.source.plugins.installed().iter().map(|plugin| plugin.report.clone()).collect(),
            false => self.control.list_plugins().await?,
        };
        Ok(v1::ListPluginsResponse { plugins: plugins.iter().map(Into::into).collect() })
    }

    async fn show(&self, request: v1::ShowPluginRequest) -> v1::Plugin {
        let report = match request.what {
            Some(show_plugin_request::What::Folder(folder)) => self.control.inspect_plugin(absolute(folder)?).await?,
            Some(show_plugin_request::What::Name(name)) => {
                let found = self.control.list_plugins().await?.into_iter().find(|report| report.name == name);
                found.ok_or_else(|| unknown("plugin", &name, "`agentctl plugin list` shows all"))?
            }
            None => return Err(Refusal::invalid("missing folder or name").into()),
        };
        Ok((&report).into())
    }

    async fn add(&self, request: v1::AddPluginRequest) -> v1::Plugin {
        let v1::AddPluginRequest { folder, hash, source, client } = request;
        Ok((&self.control.add_plugin(absolute(folder)?, hash, source, client).await?).into())
    }

    async fn remove(&self, request: v1::RemovePluginRequest) -> v1::RemovePluginResponse {
        let removed = self.control.remove_plugin(request.name, request.client).await?;
        Ok(v1::RemovePluginResponse { plugin: removed.as_ref().map(Into::into) })
    }
}

service! { Skills:
    async fn list(&self, request: v1::ListSkillsRequest) -> v1::ListSkillsResponse {
        let reports = self.reports(&request.session).await?;
        let skills = reports.into_iter().map(|report| (&SkillReport { text: String::new(), ..report }).into());
        Ok(v1::ListSkillsResponse { skills: skills.collect() })
    }

    async fn check(&self, request: v1::CheckSkillRequest) -> v1::SkillReport {
        let skill_store = self.parts().skills.clone();
        let report = match request.what {
            Some(check_skill_request::What::Folder(folder)) => {
                let folder = absolute(folder)?;
                blocking(UNREADABLE, move || skill_store.check(&folder)).await?
            }
            Some(check_skill_request::What::Name(name)) => {
                let named = self.reports(&request.session).await?.into_iter().filter(|report| report.skill.name == name);
                // If several skills share this name, the usable one is in use.
                let used = named.min_by_key(|report| !report.usable);
                used.ok_or_else(|| unknown("skill", &name, "`agentctl skills list` shows all"))?
            }
            None => {
                let refusal = Refusal::invalid("missing folder or name");
                return Err(refusal.with_hint("pass a skill or a folder").into());
            }
        };
        Ok((&report).into())
    }

    async fn add(&self, request: v1::AddSkillRequest) -> v1::SkillReport {
        let (skill_store, folder) = (self.parts().skills.clone(), absolute(request.folder)?);
        let mut added = [blocking(UNREADABLE, move || skill_store.add(&folder, request.replace)).await??];
        self.note_listings(None, &mut added).await?;
        Ok((&added[0]).into())
    }
}

impl Context {
    /// Returns reports on all skills, including the skills of the session's project if `session` is not empty.
    async fn reports(&self, session: &str) -> Result<Vec<SkillReport>, Refusal> {
        let session = self.named_session(session).await?;
        let workspace = match session {
            Some(session) => Some(self.engine.workspace(session).await?),
            None => None,
        };
        let mut reports = self.parts().skills.reports(workspace.as_ref()).await;
        self.note_listings(session, &mut reports).await?;
        Ok(reports)
    }

    /// Adds to each report the form in which the skill is listed to models.
    async fn note_listings(&self, session: Option<SessionId>, reports: &mut [SkillReport]) -> Result<(), Refusal> {
        let skills = self.engine.skills(session).await?;
        for report in reports.iter_mut().filter(|report| report.usable) {
            let listed = skills.iter().find(|(skill, _)| skill.path == report.skill.path);
            report.shown = listed.map_or(SkillListing::None, |(_, form)| *form);
        }
        Ok(())
    }

    /// Sets the MCP servers of a session from a request.
    async fn set_servers(&self, request: v1::SetSessionServersRequest) -> Result<(Vec<ServerReport>, u64), Refusal> {
        let session = self.session(&request.session).await?;
        if session.show().await?.session.settings.parent.is_some() {
            return Err(Refusal::invalid("a subagent uses the MCP servers of its parent session")
                .with_hint("set them for the parent session"));
        }
        let servers = request.servers.into_iter().map(definition).collect::<Result<Vec<_>, _>>()?;
        let client = ClientEnvironment::unchecked(request.environment).allowed(&self.control.passed_variables());
        let session_servers = &self.parts().session_servers;
        let set = session_servers.set(session.id(), &servers, &client, request.replaces).await?;
        tracing::info!(session = %session.id(), servers = set.servers.len(), "a client has set the MCP servers of a session");
        // The session may have been deleted meanwhile.
        if let Err(refusal) = self.session_id(&request.session).await {
            session_servers.remove(session.id()).await;
            return Err(refusal);
        }
        Ok((set.servers, set.version))
    }

    /// Returns the name if a server with this name exists, otherwise an error with a suggestion.
    fn check_server_name(&self, name: String) -> Result<String, Refusal> {
        let reports = self.parts().mcp.report();
        if reports.iter().any(|server| server.name == name) {
            return Ok(name);
        }
        let shown: String = name.chars().take(80).collect();
        let hint = match nearest(&shown, reports.iter().map(|server| server.name.as_str())) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "`agentctl mcp list` shows them, and `agentctl mcp add` adds one".to_owned(),
        };
        Err(Refusal::new(ErrorKind::NotFound, format!("no such MCP server: {shown}")).with_hint(hint))
    }
}

fn unknown(kind: &str, name: &str, hint: &str) -> Refusal {
    let shown: String = name.chars().take(80).collect();
    Refusal::new(ErrorKind::NotFound, format!("no such {kind}: {shown:?}")).with_hint(hint)
}

service! { Mcp:
    async fn list(&self, request: v1::ListMcpServersRequest) -> v1::ListMcpServersResponse {
        let reports = match self.named_session(&request.session).await? {
            None => self.parts().mcp.report(),
            Some(session) => self.parts().session_servers.of(session).map(|pool| pool.report()).unwrap_or_default(),
        };
        let servers = reports.iter().map(|server| (&view(server)).into()).collect();
        Ok(v1::ListMcpServersResponse { servers })
    }

    async fn start(&self, request: v1::StartMcpServerRequest) -> v1::StartMcpServerResponse {
        let name = self.check_server_name(request.name)?;
        let folder = Some(PathBuf::from(request.folder)).filter(|folder| folder.is_absolute());
        let report = self.parts().mcp.start(&name, folder).await.map_err(|reason| {
            Refusal::new(ErrorKind::Conflict, format!("could not start the MCP server {name}: {reason}"))
                .with_hint(format!("`agentctl mcp logs {name}` shows its log"))
        })?;
        Ok(v1::StartMcpServerResponse { server: Some((&view(&report)).into()) })
    }

    async fn stop(&self, request: v1::StopMcpServerRequest) -> v1::StopMcpServerResponse {
        let name = self.check_server_name(request.name)?;
        self.parts().mcp.stop(&name).await.map_err(Refusal::invalid)?;
        Ok(v1::StopMcpServerResponse {})
    }

    async fn logs(&self, request: v1::McpServerLogsRequest) -> v1::McpServerLogsResponse {
        let name = self.check_server_name(request.name)?;
        let limit = usize::try_from(request.lines).ok().filter(|lines| *lines > 0).unwrap_or(usize::MAX);
        let lines = self.parts().mcp.log(&name).map(|log| log.last(limit)).unwrap_or_default();
        Ok(v1::McpServerLogsResponse { lines })
    }

    async fn begin_login(&self, request: v1::BeginMcpLoginRequest) -> v1::BeginMcpLoginResponse {
        let name = self.check_server_name(request.name)?;
        let address = self.parts().mcp.begin_login(&name, &request.redirect).await;
        Ok(v1::BeginMcpLoginResponse { address: address.map_err(|reason| login_failed(&name, &reason))? })
    }

    async fn finish_login(&self, request: v1::FinishMcpLoginRequest) -> v1::FinishMcpLoginResponse {
        let name = self.check_server_name(request.name)?;
        let result = self.parts().mcp.finish_login(&name, &request.came_back_to).await;
        result.map_err(|reason| login_failed(&name, &reason))?;
        Ok(v1::FinishMcpLoginResponse {})
    }

    async fn check(&self, request: v1::CheckMcpServersRequest) -> v1::CheckMcpServersResponse {
        let sources = self.control.source.sources()?;
        check_mcp_file(&sources, request.text, request.path.into()).map_err(Failure::from)?;
        Ok(v1::CheckMcpServersResponse {})
    }

    async fn set_session_servers(&self, request: v1::SetSessionServersRequest) -> v1::SetSessionServersResponse {
        // Spawned, so that the operation completes even if the client cancels the call.
        let context = self.clone();
        let set = tokio::spawn(async move { context.set_servers(request).await });
        let (servers, version) = set.await.map_err(|_| Refusal::stopping())??;
        let servers = servers.iter().map(|server| (&view(server)).into()).collect();
        Ok(v1::SetSessionServersResponse { servers, version })
    }
}

fn login_failed(name: &str, reason: &str) -> Refusal {
    Refusal::new(ErrorKind::Conflict, format!("could not log in to the MCP server {name}: {reason}"))
        .with_hint("if the server uses a key, put it into `headers` in mcp_servers.yaml")
}

fn view(server: &ServerReport) -> McpServerView {
    let config = server.config.as_ref();
    let (state, reason) = match &server.health {
        _ if config.is_some_and(|config| !config.enabled) => (McpServerState::Disabled, String::new()),
        Health::Stopped => (McpServerState::Stopped, String::new()),
        Health::Starting => (McpServerState::Starting, String::new()),
        Health::Running(_) => (McpServerState::Running, String::new()),
        Health::Down { why, .. } => (McpServerState::Down, why.to_string()),
    };
    McpServerView {
        name: server.name.clone(),
        state,
        reason,
        transport: config.map(|config| config.transport().to_owned()).unwrap_or_default(),
        place: config.map(|config| config.place()).unwrap_or_default(),
        connections: u32::try_from(server.connections).unwrap_or(u32::MAX),
        says_it_is: untrusted::sanitize(&server.says_it_is),
        protocol: untrusted::sanitize(&server.protocol),
        reached: server.tools.is_some(),
        tools: server.tools.clone().unwrap_or_default(),
        notes: server.notes.clone(),
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
        Self::invalid(message).with_hint(hint)
    }
}
