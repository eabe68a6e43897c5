//! Completions and status of the prompt: fetched between turns, and read by the line editor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_core::{
    catalogue::ToolTier,
    ids::SessionId,
    plugin::PluginReport,
    project::{ProjectReport, ProjectTrust},
};
use agentd_proto::client::Client;

use super::own_commands::{self, OwnCommand};
use crate::{
    project,
    render::{
        context::percent,
        status::{self, ChatStatus, SharedStatus},
    },
    report::{count, short_ids},
    terminal::sanitize::clean_line,
};

/// Number of sessions that can be completed.
const COMPLETED_SESSIONS: usize = 50;

/// Completions besides the commands; refreshed before each prompt.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompletionCache {
    known: Arc<Mutex<KnownNames>>,
    /// Status line of the prompt.
    pub(crate) status: SharedStatus,
}

/// Names that can be completed, each with a description.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    /// Short ids of sessions with their titles, last used first.
    pub(crate) sessions: Vec<(String, String)>,
    /// Names that can be mentioned: tools, skills, agents, MCP servers.
    pub(crate) mentions: Vec<(String, String)>,
    /// Own commands of the user, plugins and the project.
    pub(crate) commands: Vec<(String, String)>,
}

impl CompletionCache {
    /// Fetches all completions and the status. If a request fails, its completions are missing.
    pub(crate) async fn learn(&self, client: &Client, session: Option<SessionId>) {
        self.learn_sessions(client).await;
        if let Some(session) = session {
            self.learn_status(client, session).await;
        }
        let project = project::load_report(client, self.status().folder.map(|mount| mount.path)).await;
        self.learn_names(client, session, project.as_ref()).await;
        self.learn_commands(&own_commands::plugins(client).await, project.as_ref());
    }

    /// Collects the own commands of the user, of plugins and of the project.
    fn learn_commands(&self, plugins: &[PluginReport], project: Option<&ProjectReport>) {
        let commands = own_commands::all(plugins, project).commands.into_iter();
        let about =
            |command: OwnCommand| (command.name, format!("{}: {}", command.origin.as_str(), command.description));
        self.names().commands = commands.map(about).collect();
    }

    /// Locks the names that can be completed.
    pub(crate) fn names(&self) -> MutexGuard<'_, KnownNames> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the status line.
    pub(crate) fn change_status(&self, change: impl FnOnce(&mut ChatStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns a copy of the current status.
    pub(crate) fn status(&self) -> ChatStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn learn_sessions(&self, client: &Client) {
        if let Ok(sessions) = client.sessions(COMPLETED_SESSIONS).await {
            let ids = short_ids(sessions.iter().map(|session| session.id));
            let titles = sessions.iter().map(|session| agentd_core::visible::line(&session.title));
            self.names().sessions = ids.into_iter().zip(titles).collect();
        }
    }

    /// Fetches the names that can be mentioned.
    async fn learn_names(&self, client: &Client, session: Option<SessionId>, project: Option<&ProjectReport>) {
        let session = session.map(|id| id.to_string()).unwrap_or_default();
        let (tools, skills, agents, servers) =
            tokio::join!(client.tools(&session), client.skills(&session), client.agents(), client.mcp_servers());
        let entry = |name: &str, about: String| (clean_line(name), clean_line(&about));
        let tools = tools.unwrap_or_default().into_iter().filter(|standing| standing.tool.label.tier != ToolTier::Off);
        let tools = tools.map(|standing| {
            let about = standing.tool.spec.description;
            let first = about.split(". ").next().unwrap_or_default().trim_end_matches('.');
            entry(&standing.tool.spec.name, format!("tool: {first}"))
        });
        let skills = skills.unwrap_or_default().into_iter().filter(|found| found.usable);
        let skills = skills.map(|found| entry(&found.skill.name, format!("skill: {}", found.skill.description)));
        let of_project = project.filter(|project| project.trust == ProjectTrust::Trusted);
        let of_project = of_project.into_iter().flat_map(|project| project.agents.clone());
        let agents = agents.unwrap_or_default().into_iter().chain(of_project);
        let agents = agents.map(|card| entry(&card.id, format!("agent: {}", card.description)));
        let servers = servers.unwrap_or_default().into_iter().filter(|server| !server.tools.is_empty());
        let servers =
            servers.map(|server| entry(&server.name, format!("MCP server: {}", count(server.tools.len(), "tool"))));
        // Of equal names, the first one is meant.
        let names = tools.chain(skills).chain(agents).chain(servers);
        let mut names: Vec<(String, String)> = names.collect();
        names.sort_by(|left, right| left.0.cmp(&right.0));
        names.dedup_by(|later, first| later.0 == first.0);
        self.names().mentions = names;
    }

    /// Fetches the status of a session. If that fails, the prompt shows the last known status.
    pub(crate) async fn learn_status(&self, client: &Client, session: SessionId) {
        let session = session.to_string();
        let (context, view) = tokio::join!(client.context(&session), client.session(&session));
        let Ok(view) = view else { return };
        let questions = view.pending.len();
        let stored = view.session;
        let project = stored.settings.project.as_ref().filter(|_| client.host().is_none());
        let branch = project.and_then(|mount| status::branch(&mount.path));
        self.change_status(|status| {
            status.agent = stored.agents.last().map(|agent| clean_line(agent)).unwrap_or_default();
            status.mode = stored.settings.mode;
            status.folder = stored.settings.project;
            status.added = stored.settings.folders;
            status.branch = branch;
            status.questions = questions;
            status.cost = stored.summary.usage.cost_microusd.filter(|cost| *cost > 0);
            if let Ok(view) = &context {
                status.model = clean_line(&view.model);
                status.window = Some(view.window);
            }
            status.fullness = context.ok().map(|view| percent(view.tokens, view.window));
        });
    }
}
