//! A session open in the editor, and the MCP servers that the editor provides for it. The daemon runs these servers for
//! that session only. A failing server is reported and does not affect the session. The daemon does not store the
//! servers, so they are registered again after a restart.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use agent_client_protocol_schema::v1::{HttpHeader, McpServer, SessionConfigOption, SessionId as WireId};
use agentd_core::{
    ids::{InterruptId, SessionId},
    session::SessionMode,
};
use agentd_proto::{
    client::{McpServerState, McpServerView},
    v1::{ServerProgram, ServerUrl, SessionServer, SetSessionServersRequest, session_server::Address},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{message::lock, updates::Updates};
use crate::{daemon::Daemon, terminal::clean_line, turn::SocketLine};

/// A session that was created, loaded or resumed on this connection.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) id: SessionId,
    /// The session id in the protocol's type.
    pub(super) wire: WireId,
    /// Real path of the folder named by the editor.
    pub(super) folder: PathBuf,
    /// Folder as named by the editor.
    named: PathBuf,
    /// Locked while settings are changed, or loaded and sent, so that the editor never receives outdated settings after
    /// a change.
    pub(super) settings: tokio::sync::Mutex<()>,
    /// Locked until a cancellation reaches the daemon, so that the cancellation does not hit a later prompt.
    pub(super) cancelling: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<SessionState>,
}

/// A turn whose prompt ended with a question. The next prompt resumes the turn.
#[derive(Debug)]
pub(super) struct SuspendedTurn {
    /// Connection to the turn. The next prompt reads the events since the question from this connection.
    pub(super) line: SocketLine,
    /// Translator of the turn's events.
    pub(super) updates: Updates,
    /// Questions that were asked as text.
    pub(super) asked: HashSet<InterruptId>,
}

/// A turn of another client that has been followed without a prompt since the session was opened.
#[derive(Debug)]
pub(super) struct FollowedTurn {
    /// Token that cancels the turn.
    pub(super) cancel: CancellationToken,
    /// Token that hands the turn over to a prompt.
    pub(super) handover: CancellationToken,
    /// Task that follows the turn.
    pub(super) task: JoinHandle<()>,
}

/// A folder open in the editor.
#[derive(Debug, Clone)]
pub(super) struct EditorFolder {
    /// Real path of the folder.
    pub(super) real: PathBuf,
    /// Path as named by the editor.
    pub(super) named: PathBuf,
}

/// Mutable state of a session.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// Cancels the running prompt.
    prompt: Option<CancellationToken>,
    /// The turn that is followed without a prompt.
    guest: Option<FollowedTurn>,
    /// Mode last sent to the editor.
    pub(super) mode: SessionMode,
    /// Options last sent to the editor.
    pub(super) options: Vec<SessionConfigOption>,
    /// Messages to send with the next turn, if the editor does not support notices.
    pub(super) notices: Vec<String>,
    /// Pending questions that were asked as text. The next message answers them.
    pub(super) questions: HashSet<InterruptId>,
    /// The turn suspended by a question asked as text, in the state known to the editor.
    pub(super) suspended: Option<Box<SuspendedTurn>>,
    /// MCP servers provided by the editor.
    servers: Option<EditorServers>,
    /// The task that watches for changes; it ends with the session.
    pub(super) watch: Option<JoinHandle<()>>,
}

impl OpenSession {
    /// Creates an idle session.
    pub(super) fn new(id: SessionId, folder: EditorFolder) -> Self {
        let EditorFolder { real, named } = folder;
        Self {
            id,
            wire: WireId::new(id.to_string()),
            folder: real,
            named,
            settings: tokio::sync::Mutex::default(),
            cancelling: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Returns the path of a project's folder as named by the editor.
    pub(super) fn named(&self, project: &Path) -> PathBuf {
        if project == self.folder { self.named.clone() } else { project.to_owned() }
    }

    /// Locks the mutable state.
    pub(super) fn state(&self) -> MutexGuard<'_, SessionState> {
        lock(&self.state)
    }

    /// Starts a prompt. Returns `None` if one is running.
    pub(super) fn begin(&self) -> Option<CancellationToken> {
        let mut state = self.state();
        state.prompt.is_none().then(|| state.prompt.insert(CancellationToken::new()).clone())
    }

    /// Ends the running prompt.
    pub(super) fn end(&self) {
        self.state().prompt = None;
    }

    /// Cancels the turn of the running prompt, or the turn followed without a prompt. Returns false if neither exists.
    pub(super) fn cancel(&self) -> bool {
        let state = self.state();
        let guest = state.guest.as_ref().filter(|guest| !guest.task.is_finished()).map(|guest| &guest.cancel);
        state.prompt.as_ref().or(guest).inspect(|cancel| cancel.cancel()).is_some()
    }

    /// Follows a turn without a prompt, unless a prompt is running.
    pub(super) fn follow(&self, follow: impl FnOnce() -> FollowedTurn) {
        let mut state = self.state();
        if state.prompt.is_none() {
            state.guest = Some(follow());
        }
    }

    /// Takes over the turn that is followed without a prompt. If the turn is still running, it is stored as suspended.
    pub(super) async fn take_over(&self) {
        let Some(guest) = self.state().guest.take() else { return };
        if !guest.cancel.is_cancelled() {
            guest.handover.cancel();
        }
        // The task leaves nothing to take over if it panicked.
        let _ = guest.task.await;
    }

    /// Returns true if changes by other clients are watched.
    pub(super) fn is_watched(&self) -> bool {
        self.state().watch.as_ref().is_some_and(|watch| !watch.is_finished())
    }

    /// Stops watching for changes.
    pub(super) fn unwatch(&self) {
        if let Some(watch) = self.state().watch.take() {
            watch.abort();
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.unwatch();
    }
}

/// Servers that the editor provided for a session.
#[derive(Clone)]
struct EditorServers {
    named: Vec<McpServer>,
    /// Version of the list in the daemon.
    version: u64,
}

/// Shows only the number of servers; the other fields may contain secrets.
impl fmt::Debug for EditorServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EditorServers").field(&self.named.len()).finish()
    }
}

/// Registers the servers for a session that is being opened. Returns messages about unavailable servers. An empty list
/// keeps the servers of other clients.
pub(super) async fn register_servers(daemon: &Daemon, session: &OpenSession, named: &[McpServer]) -> Vec<String> {
    if named.is_empty() {
        return Vec::new();
    }
    if let Some(host) = daemon.client.host() {
        return vec![format!("the MCP servers of the editor are of this machine, and are not started at {host}")];
    }
    let (known, servers): (Vec<McpServer>, Vec<SessionServer>) =
        named.iter().filter_map(|server| Some((server.clone(), wire(server)?))).unzip();
    let mut notices: Vec<String> = Vec::new();
    if known.len() < named.len() {
        notices.push("an MCP server of the editor uses an unsupported transport".to_owned());
    }
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    match daemon.client.set_session_servers(request(daemon, session, servers)).await {
        Ok((views, version)) => {
            session.state().servers = Some(EditorServers { named: known, version });
            notices.extend(names.iter().zip(&views).filter_map(|(name, view)| availability_notice(name, view)));
        }
        Err(error) => {
            let reason = clean_line(&error.to_string());
            notices.push(format!("the MCP servers of the editor are not used in this session: {reason}"));
        }
    }
    notices
}

/// Registers the servers again if the daemon has lost them, for example in a restart. Errors are ignored, because the
/// model reports unavailable servers.
pub(super) async fn register_servers_again(daemon: &Daemon, session: &OpenSession) {
    let Some(known) = session.state().servers.clone() else { return };
    match daemon.client.session_servers(&session.id.to_string()).await {
        Ok(servers) if servers.is_empty() => {}
        _ => return,
    }
    let servers = known.named.iter().filter_map(wire).collect();
    if let Ok((_, version)) = daemon.client.set_session_servers(request(daemon, session, servers)).await
        && let Some(known) = &mut session.state().servers
    {
        known.version = version;
    }
}

/// Removes the servers of a closed session, unless another client has replaced them.
pub(super) async fn remove_servers(daemon: &Daemon, session: &OpenSession) {
    let Some(known) = session.state().servers.take() else { return };
    let request = SetSessionServersRequest {
        session: session.id.to_string(),
        replaces: Some(known.version),
        ..SetSessionServersRequest::default()
    };
    // Fails if the daemon has stopped; then its servers have stopped as well.
    let _ = daemon.client.set_session_servers(request).await;
}

fn request(daemon: &Daemon, session: &OpenSession, servers: Vec<SessionServer>) -> SetSessionServersRequest {
    let environment = daemon.environment_in(&session.folder);
    let environment = environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    SetSessionServersRequest { session: session.id.to_string(), servers, environment, replaces: None }
}

/// Converts a server to the daemon's form. Returns `None` for an unknown transport.
fn wire(server: &McpServer) -> Option<SessionServer> {
    let url = |url: &str, headers: &[HttpHeader], sse: bool| {
        let headers = headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect();
        Address::Url(ServerUrl { url: url.to_owned(), headers, sse })
    };
    let (name, address) = match server {
        McpServer::Stdio(server) => {
            let command = server.command.to_str()?.to_owned();
            let env = server.env.iter().map(|variable| (variable.name.clone(), variable.value.clone())).collect();
            let args = server.args.clone();
            (&server.name, Address::Program(ServerProgram { command, args, env, cwd: String::new() }))
        }
        McpServer::Http(server) => (&server.name, url(&server.url, &server.headers, false)),
        McpServer::Sse(server) => (&server.name, url(&server.url, &server.headers, true)),
        _ => return None,
    };
    Some(SessionServer { name: name.clone(), address: Some(address) })
}

/// Returns a message if a server is unavailable.
fn availability_notice(name: &str, view: &McpServerView) -> Option<String> {
    let name = clean_line(name);
    match view.state {
        McpServerState::Down => {
            Some(format!("the MCP server {name} of the editor is not available: {}", clean_line(&view.reason)))
        }
        McpServerState::Starting => Some(format!(
            "the MCP server {name} of the editor has not answered yet; its tools are available in turns after its answer"
        )),
        McpServerState::Stopped | McpServerState::Running | McpServerState::Disabled => None,
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::{McpServerHttp, McpServerSse};

    use super::*;

    #[test]
    fn remote_servers_are_passed_whole_and_never_printed() {
        let headers = || vec![HttpHeader::new("X-Key", "s3cret")];
        let http = McpServer::Http(McpServerHttp::new("web", "http://x/").headers(headers()));
        let named = [http, McpServer::Sse(McpServerSse::new("old", "http://x/").headers(headers()))];
        for (server, sse) in named.iter().zip([false, true]) {
            let headers = [("X-Key".to_owned(), "s3cret".to_owned())].into();
            let url = ServerUrl { url: "http://x/".to_owned(), headers, sse };
            assert_eq!(wire(server).unwrap().address, Some(Address::Url(url)));
        }
        let servers = EditorServers { named: named.to_vec(), version: 1 };
        assert_eq!(format!("{servers:?}"), "EditorServers(2)");
    }

    #[test]
    fn missing_servers_are_reported_in_sanitised_text() {
        let view = |state| McpServerView {
            protocol: String::new(),
            name: String::new(),
            state,
            reason: "it said \u{1b}[2J".to_owned(),
            transport: String::new(),
            place: String::new(),
            connections: 0,
            says_it_is: String::new(),
            tools: Vec::new(),
            reached: false,
            notes: Vec::new(),
        };
        let message = availability_notice("fi\u{1b}[2Jles", &view(McpServerState::Down)).unwrap();
        assert!(
            message.contains("files of the editor is not available: it said") && !message.contains('\u{1b}'),
            "{message}"
        );
        assert!(
            availability_notice("files", &view(McpServerState::Starting)).unwrap().contains("has not answered yet")
        );
        assert_eq!(availability_notice("files", &view(McpServerState::Running)), None);
        assert_eq!(availability_notice("files", &view(McpServerState::Stopped)), None);
    }
}
