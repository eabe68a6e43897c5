//! A session that the editor has open, and the MCP servers that it names for it: the daemon runs them for that session alone. One
//! that is broken is told of, and harms nothing. The daemon forgets them when it ends, so they are brought again then.

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
use crate::{daemon::Daemon, terminal::sanitize::clean_line, turn::SocketLine};

/// A session that was made, loaded or resumed on this connection.
#[derive(Debug)]
pub(super) struct OpenSession {
    pub(super) id: SessionId,
    /// The same id, as the protocol has it.
    pub(super) wire: WireId,
    /// The real path of the folder that the editor named.
    pub(super) folder: PathBuf,
    /// The same as it named it.
    named: PathBuf,
    /// Held while settings are changed, or read and told: what was read before a change is never told behind it.
    pub(super) settings: tokio::sync::Mutex<()>,
    /// Held while a cancel is on its way to the daemon: a prompt that comes after it is not cancelled by it.
    pub(super) cancelling: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<SessionState>,
}

/// A turn whose prompt has ended with a question, and which goes on with the next one.
#[derive(Debug)]
pub(super) struct SuspendedTurn {
    /// The line to it: what happens meanwhile comes with the next prompt.
    pub(super) line: SocketLine,
    /// The translator of its events.
    pub(super) updates: Updates,
    /// Questions that were put in words.
    pub(super) asked: HashSet<InterruptId>,
}

/// A turn of another process that is followed, without a prompt, since the session was opened.
#[derive(Debug)]
pub(super) struct FollowedTurn {
    /// Cancels the turn.
    pub(super) cancel: CancellationToken,
    /// Leaves the turn to a prompt.
    pub(super) handover: CancellationToken,
    /// The task that follows.
    pub(super) task: JoinHandle<()>,
}

/// A folder that an editor has open.
#[derive(Debug, Clone)]
pub(super) struct EditorFolder {
    /// Its real path.
    pub(super) real: PathBuf,
    /// Its path as the editor names it.
    pub(super) named: PathBuf,
}

/// Things about it that change.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// Ends the prompt that runs.
    prompt: Option<CancellationToken>,
    /// The turn that is followed without a prompt.
    guest: Option<FollowedTurn>,
    /// The mode that the editor was told of.
    pub(super) mode: SessionMode,
    /// The options that the editor was told of.
    pub(super) options: Vec<SessionConfigOption>,
    /// Words that wait for the next turn, where the editor shows no notices.
    pub(super) notices: Vec<String>,
    /// Questions that were put in words, which the next message answers.
    pub(super) questions: HashSet<InterruptId>,
    /// The turn that such a question suspended, as far as the editor was told of it.
    pub(super) suspended: Option<Box<SuspendedTurn>>,
    /// MCP servers that the editor brought.
    servers: Option<EditorServers>,
    /// The task that hears of changes, which ends with the session.
    pub(super) watch: Option<JoinHandle<()>>,
}

impl OpenSession {
    /// A session with nothing under way.
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

    /// The name that the editor has for a project's folder.
    pub(super) fn named(&self, project: &Path) -> PathBuf {
        if project == self.folder { self.named.clone() } else { project.to_owned() }
    }

    /// Its state.
    pub(super) fn state(&self) -> MutexGuard<'_, SessionState> {
        lock(&self.state)
    }

    /// Begins a prompt; none where one runs.
    pub(super) fn begin(&self) -> Option<CancellationToken> {
        let mut state = self.state();
        state.prompt.is_none().then(|| state.prompt.insert(CancellationToken::new()).clone())
    }

    /// Ends the prompt that ran.
    pub(super) fn end(&self) {
        self.state().prompt = None;
    }

    /// Cancels the turn of the prompt that runs, or that is followed without one, and tells whether there was one.
    pub(super) fn cancel(&self) -> bool {
        let state = self.state();
        let guest = state.guest.as_ref().filter(|guest| !guest.task.is_finished()).map(|guest| &guest.cancel);
        state.prompt.as_ref().or(guest).inspect(|cancel| cancel.cancel()).is_some()
    }

    /// Follows a turn without a prompt, unless a prompt runs.
    pub(super) fn follow(&self, follow: impl FnOnce() -> FollowedTurn) {
        let mut state = self.state();
        if state.prompt.is_none() {
            state.guest = Some(follow());
        }
    }

    /// Takes over the turn that is followed without a prompt: where it goes on, it is suspended after this.
    pub(super) async fn take_over(&self) {
        let Some(guest) = self.state().guest.take() else { return };
        if !guest.cancel.is_cancelled() {
            guest.handover.cancel();
        }
        // One that broke has nothing to hand over.
        let _ = guest.task.await;
    }

    /// Returns whether changes from elsewhere are heard.
    pub(super) fn is_watched(&self) -> bool {
        self.state().watch.as_ref().is_some_and(|watch| !watch.is_finished())
    }

    /// Ends the task that hears of changes.
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

/// Servers that the editor brought for a session.
#[derive(Clone)]
struct EditorServers {
    named: Vec<McpServer>,
    /// Names them in the daemon.
    version: u64,
}

/// Their number only: the rest may be secret.
impl fmt::Debug for EditorServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EditorServers").field(&self.named.len()).finish()
    }
}

/// Brings the servers of a session that is opened. Returns the words about those that are not there. An editor that names none
/// leaves those of others.
pub(super) async fn bring_servers(daemon: &Daemon, session: &OpenSession, named: &[McpServer]) -> Vec<String> {
    if named.is_empty() {
        return Vec::new();
    }
    let (known, servers): (Vec<McpServer>, Vec<SessionServer>) =
        named.iter().filter_map(|server| Some((server.clone(), wire(server)?))).unzip();
    let mut notices: Vec<String> = Vec::new();
    if known.len() < named.len() {
        notices.push("an MCP server of the editor is reached in a way that agentd does not know".to_owned());
    }
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    match daemon.client.set_session_servers(request(daemon, session, servers)).await {
        Ok((views, version)) => {
            session.state().servers = Some(EditorServers { named: known, version });
            notices.extend(names.iter().zip(&views).filter_map(|(name, view)| trouble(name, view)));
        }
        Err(error) => {
            let why = clean_line(&error.to_string());
            notices.push(format!("the MCP servers of the editor are not used in this session: {why}"));
        }
    }
    notices
}

/// Brings servers again to a daemon that has forgotten them, as after a restart. Whoever uses them hears from the model what is
/// not there.
pub(super) async fn bring_servers_again(daemon: &Daemon, session: &OpenSession) {
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

/// Ends the servers that the editor brought for a session that it closes, unless another client has brought others since.
pub(super) async fn take_back_servers(daemon: &Daemon, session: &OpenSession) {
    let Some(known) = session.state().servers.take() else { return };
    let request = SetSessionServersRequest {
        session: session.id.to_string(),
        replaces: Some(known.version),
        ..SetSessionServersRequest::default()
    };
    // Where the daemon is gone, so are they.
    let _ = daemon.client.set_session_servers(request).await;
}

fn request(daemon: &Daemon, session: &OpenSession, servers: Vec<SessionServer>) -> SetSessionServersRequest {
    let environment = daemon.environment_in(&session.folder);
    let environment = environment.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    SetSessionServersRequest { session: session.id.to_string(), servers, environment, replaces: None }
}

/// A server in the form of the daemon, or `None` for an unknown transport.
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

/// The words about a server that is not there.
fn trouble(name: &str, view: &McpServerView) -> Option<String> {
    let name = clean_line(name);
    match view.state {
        McpServerState::Down => {
            Some(format!("the MCP server {name} of the editor is not there: {}", clean_line(&view.reason)))
        }
        McpServerState::Starting => Some(format!(
            "the MCP server {name} of the editor has not answered yet; its tools are there from the turn after it does"
        )),
        McpServerState::Stopped | McpServerState::Running | McpServerState::Disabled => None,
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::{McpServerHttp, McpServerSse};

    use super::*;

    #[test]
    fn servers_behind_addresses_go_on_whole_and_none_is_printed() {
        let headers = || vec![HttpHeader::new("X-Key", "s3cret")];
        let http = McpServer::Http(McpServerHttp::new("web", "http://x/").headers(headers()));
        let named = [http, McpServer::Sse(McpServerSse::new("old", "http://x/").headers(headers()))];
        for (server, sse) in named.iter().zip([false, true]) {
            let headers = [("X-Key".to_owned(), "s3cret".to_owned())].into();
            let url = ServerUrl { url: "http://x/".to_owned(), headers, sse };
            assert_eq!(wire(server).unwrap().address, Some(Address::Url(url)));
        }
        let brought = EditorServers { named: named.to_vec(), version: 1 };
        assert_eq!(format!("{brought:?}"), "EditorServers(2)");
    }

    #[test]
    fn people_are_told_of_what_is_not_there_in_harmless_words() {
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
        let told = trouble("fi\u{1b}[2Jles", &view(McpServerState::Down)).unwrap();
        assert!(told.contains("files of the editor is not there: it said") && !told.contains('\u{1b}'), "{told}");
        assert!(trouble("files", &view(McpServerState::Starting)).unwrap().contains("has not answered yet"));
        assert_eq!(trouble("files", &view(McpServerState::Running)), None);
        assert_eq!(trouble("files", &view(McpServerState::Stopped)), None);
    }
}
