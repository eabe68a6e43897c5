//! Initialization, and the sessions of an editor: new, load, resume, list, close and delete. Initialization needs no
//! daemon and advertises only supported capabilities.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest, CancelNotification, CloseSessionRequest,
        CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse, Error, Implementation, InitializeRequest,
        InitializeResponse, ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse,
        McpCapabilities, McpServer, NewSessionRequest, NewSessionResponse, PromptCapabilities, ResumeSessionRequest,
        ResumeSessionResponse, SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
        SessionDeleteCapabilities, SessionId as WireId, SessionInfo, SessionListCapabilities,
        SessionResumeCapabilities, SessionUpdate,
    },
};
use agentd_core::{
    error::ErrorKind,
    folder::MAX_FOLDERS,
    ids::SessionId,
    session::{Mount, SessionSummary},
};
use agentd_proto::client::{NewSession, SessionView};
use serde_json::{Value, json};

use super::{
    bridge::{self, Bridge, Editor, OfferedSettings},
    content,
    message::{self, Result, lock},
    prompt,
    session::{self, EditorFolder, OpenSession},
};
use crate::{
    daemon::{self, Daemon},
    mount, project,
    report::short_id,
    terminal::clean_line,
};

/// The only authentication method: agentd has no accounts.
const LOCAL_AUTH: &str = "local";

/// Stores the editor's capabilities and returns those of agentctl.
pub(super) fn initialize(bridge: &Bridge, request: &InitializeRequest) -> InitializeResponse {
    let editor = Editor::of(request);
    let files = editor.files.filter(|_| !bridge.is_elsewhere());
    *lock(&bridge.editor) = Editor { files, ..editor };
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true).sse(true))
        .session_capabilities(sessions);
    let local = AuthMethodAgent::new(LOCAL_AUTH, "This machine").description(
        "agentd runs locally and needs no account; `agentctl models add` stores the key of a model's provider",
    );
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new("agentd", env!("CARGO_PKG_VERSION")).title("agentd"))
        .auth_methods(vec![AuthMethod::Agent(local)])
}

/// Succeeds if the daemon can be reached; nothing else is needed.
pub(super) async fn authenticate(bridge: &Bridge, request: &AuthenticateRequest) -> Result<Value> {
    if request.method_id.0.as_ref() != LOCAL_AUTH {
        return Err(
            message::invalid_params(format!("unknown authentication method; the only one is {LOCAL_AUTH}")).into()
        );
    }
    bridge.daemon().await?;
    Ok(json!({}))
}

/// An opened session. Its updates are sent after the response, because the editor learns the session's id from the
/// response.
#[derive(Debug)]
pub(super) struct OpenedSession {
    settings_offer: OfferedSettings,
    pub(super) session: Arc<OpenSession>,
    pub(super) updates: Vec<SessionUpdate>,
    pub(super) notices: Vec<String>,
    /// The daemon and the session's state, to follow a running turn afterwards.
    pub(super) running: Option<(Daemon, SessionView)>,
}

/// Reply to a request that opens a session.
type OpenReply<T> = Result<(T, OpenedSession)>;

/// Creates a session with access to the editor's folder.
pub(super) async fn new(bridge: &Arc<Bridge>, request: &NewSessionRequest) -> OpenReply<NewSessionResponse> {
    let folder = folder(bridge.is_elsewhere(), &request.cwd)?;
    let daemon = bridge.daemon().await?;
    let (client, host) = (&daemon.client, daemon.client.host());
    let project = match host {
        None => {
            let of_daemon = [daemon::data_dir(), daemon::config_dir()].into_iter().flatten();
            mount::editor_folder(&folder.real, of_daemon)
        }
        // Many folders of an editor exist on its own machine only.
        Some(_) if client.project(&folder.real.to_string_lossy()).await.is_err() => None,
        Some(_) => mount::editor_folder(&folder.real, [client.hello().data_dir.clone()]),
    };
    let mut notices = Vec::new();
    let place = host.map(|host| format!(" of {host}")).unwrap_or_default();
    if project.is_none() {
        let shown = display_path(&folder.real);
        notices.push(format!("{shown} is not a project folder{place}, so the session sees no folder"));
    }
    let further: &[PathBuf] = if host.is_some() { &[] } else { request.additional_directories.as_slice() };
    if further.len() < request.additional_directories.len() {
        notices
            .push("the further folders of the editor are of this machine, so the session does not see them".to_owned());
    }
    let folders = further_folders(further, project.as_ref(), &mut notices);
    let view = client.create_session(&NewSession { project, folders, ..NewSession::default() }).await?;
    notices.extend(view.session.settings.folders.iter().map(|folder| {
        let mode = if folder.writable { "writable with approval" } else { "read-only" };
        format!("{} = {} ({mode})", folder.at, display_path(&folder.path))
    }));
    if let Some(report) = project::load_report(&daemon.client, Some(&folder.real)).await
        && let Some(notice) = project::notice(&report)
    {
        notices.push(format!("{notice}; {}", project::trust_hint(&report)));
    }
    let opened = open(bridge, &daemon, &view, &folder, &request.mcp_servers, notices).await?;
    let response = NewSessionResponse::new(opened.session.wire.clone());
    Ok((response.modes(opened.settings_offer.modes()).config_options(opened.settings_offer.options.clone()), opened))
}

/// Resolves the additional folders of a new session. The list may come from a repository, so a folder is read-only if
/// its path is hidden or lies outside of both the home folder and the first folder; [`new`] reports each folder with
/// its mode. A file must have only one path, so no folder may contain another. Skipped folders are reported and do not
/// fail the request.
fn further_folders(named: &[PathBuf], project: Option<&Mount>, notices: &mut Vec<String>) -> Vec<Mount> {
    let mut folders: Vec<Mount> = Vec::new();
    for path in named {
        let of_daemon = [daemon::data_dir(), daemon::config_dir()].into_iter().flatten();
        let Some(real) =
            folder(false, path).ok().map(|folder| folder.real).filter(|real| std::fs::read_dir(real).is_ok())
        else {
            notices.push(format!("{} cannot be read, so the session does not see it", display_path(path)));
            continue;
        };
        let name = display_path(&real);
        if folders.len() == MAX_FOLDERS {
            notices.push(format!("the session does not see {name}: the limit is {MAX_FOLDERS} further folders"));
            continue;
        }
        let first_parent = project.and_then(|project| project.path.parent());
        let Some(mount) = mount::further_folder(&real, first_parent, of_daemon) else {
            notices.push(format!("{name} is not a project folder, so the session does not see it"));
            continue;
        };
        let mut others = project.into_iter().chain(&folders);
        if others.clone().any(|other| real.starts_with(&other.path)) {
            continue;
        }
        match others.find(|other| other.path.starts_with(&real)) {
            Some(inner) => {
                let inner = display_path(&inner.path);
                notices.push(format!("{name} contains {inner}, so the session does not see all of it"));
            }
            None => folders.push(mount),
        }
    }
    folders
}

/// Opens a session and sends its history before the response.
pub(super) async fn load(bridge: &Arc<Bridge>, request: &LoadSessionRequest) -> OpenReply<LoadSessionResponse> {
    let LoadSessionRequest { session_id, cwd, additional_directories, mcp_servers, .. } = request;
    let opened = reopen(bridge, session_id, (cwd, additional_directories), mcp_servers).await?;
    if let Some((daemon, view)) = &opened.running {
        prompt::replay(bridge, &opened.session, daemon, view).await?;
    }
    let response = LoadSessionResponse::new().modes(opened.settings_offer.modes());
    Ok((response.config_options(opened.settings_offer.options.clone()), opened))
}

/// Opens a session without sending its history, which the editor already has.
pub(super) async fn resume(bridge: &Arc<Bridge>, request: &ResumeSessionRequest) -> OpenReply<ResumeSessionResponse> {
    let ResumeSessionRequest { session_id, cwd, additional_directories, mcp_servers, .. } = request;
    let opened = reopen(bridge, session_id, (cwd, additional_directories), mcp_servers).await?;
    let response = ResumeSessionResponse::new().modes(opened.settings_offer.modes());
    Ok((response.config_options(opened.settings_offer.options.clone()), opened))
}

/// Finds a session by its full id. A prefix is refused, because it could match another session.
async fn find(bridge: &Bridge, id: &WireId) -> Result<(Daemon, SessionView)> {
    let unknown = || message::unknown_session(&clean_line(&id.0));
    let session: SessionId = id.0.parse().map_err(|_| unknown())?;
    let daemon = bridge.daemon().await?;
    match daemon.client.session(&session.to_string()).await {
        Ok(view) => Ok((daemon, view)),
        Err(error) if error.answered() == Some(ErrorKind::NotFound) => Err(unknown().into()),
        Err(error) => Err(error.into()),
    }
}

async fn reopen(
    bridge: &Arc<Bridge>,
    id: &WireId,
    (cwd, further): (&Path, &[PathBuf]),
    servers: &[McpServer],
) -> Result<OpenedSession> {
    let (daemon, view) = find(bridge, id).await?;
    let folder = folder(bridge.is_elsewhere(), cwd)?;
    let mut notices = Vec::new();
    let mounts = view.session.settings.mounts();
    for path in further {
        let Ok(EditorFolder { real, .. }) = self::folder(bridge.is_elsewhere(), path) else { continue };
        if !mounts.names().any(|(_, mount)| real.starts_with(mount)) {
            let (id, real) = (short_id(view.session.summary.id), display_path(&real));
            notices.push(format!(
                "this session does not see {real}; `agentctl chat --session {id} --add-dir '{real}'` adds it, if allowed"
            ));
        }
    }
    let folder_name = display_path(&folder.real);
    // The user chooses the folders of a session; an editor must not add any.
    match &view.session.settings.project {
        Some(Mount { path, .. }) if *path != folder.real => {
            notices.push(format!("this session works in {}, not in {folder_name}", display_path(path)));
        }
        Some(Mount { writable: false, .. }) => {
            let id = short_id(view.session.summary.id);
            let hint = format!("`agentctl chat --session {id} -C {folder_name}:rw` lets it change files");
            notices.push(format!("this session sees the folder read-only; {hint}"));
        }
        Some(_) => {}
        None => notices.push("this session sees no folder of yours".to_owned()),
    }
    let opened = open(bridge, &daemon, &view, &folder, servers, notices).await?;
    Ok(OpenedSession { running: Some((daemon, view)), ..opened })
}

async fn open(
    bridge: &Arc<Bridge>,
    daemon: &Daemon,
    view: &SessionView,
    folder: &EditorFolder,
    servers: &[McpServer],
    mut notices: Vec<String>,
) -> Result<OpenedSession> {
    let settings = &view.session.settings;
    let project = settings.project.as_ref().map(|mount| mount.path.as_path());
    let session = bridge.open(view.session.summary.id, folder.clone());
    let (settings_offer, available, missing) = tokio::join!(
        OfferedSettings::of(&daemon.client, settings),
        content::available_commands(&daemon.client, project),
        session::register_servers(daemon, &session, servers),
    );
    let settings_offer = settings_offer?;
    notices.extend(missing);
    settings_offer.mark_sent(&session);
    bridge::ensure_watched(bridge, &session, daemon, view.session.summary.last_seq).await;
    Ok(OpenedSession { settings_offer, session, updates: vec![available], notices, running: None })
}

/// Validates a folder named by the editor. The daemon of another machine validates its own.
fn folder(is_elsewhere: bool, cwd: &Path) -> Result<EditorFolder> {
    if !cwd.is_absolute() {
        return Err(message::invalid_params("cwd must be an absolute path").into());
    }
    if is_elsewhere {
        return Ok(EditorFolder { real: cwd.to_owned(), named: cwd.to_owned() });
    }
    let real = std::fs::canonicalize(cwd).map_err(|error| {
        message::invalid_params(format!("could not open the folder {}: {error}", display_path(cwd)))
    })?;
    if !real.is_dir() {
        return Err(message::invalid_params(format!("{} is not a folder", display_path(&real))).into());
    }
    Ok(EditorFolder { real, named: cwd.to_owned() })
}

fn display_path(path: &Path) -> String {
    clean_line(&path.display().to_string())
}

/// Number of sessions per page.
const PAGE_SIZE: usize = 50;
/// Maximum number of sessions searched.
const MAX_SESSIONS: usize = 10_000;

/// Lists a page of sessions, last used first, optionally only those of one folder.
pub(super) async fn list(bridge: &Bridge, request: &ListSessionsRequest) -> Result<ListSessionsResponse> {
    let after = request.cursor.as_deref().map(Cursor::read).transpose()?;
    let daemon = bridge.daemon().await?;
    let folder = match &request.cwd {
        Some(cwd) if !cwd.is_absolute() => return Err(message::invalid_params("cwd must be an absolute path").into()),
        Some(cwd) if bridge.is_elsewhere() => Some(cwd.clone()),
        Some(cwd) => match std::fs::canonicalize(cwd) {
            Ok(folder) => Some(folder),
            // A session of a missing folder could not be loaded, so none is listed.
            Err(_) => return Ok(ListSessionsResponse::new(Vec::new())),
        },
        None => None,
    };
    let mut sessions = daemon.client.sessions(MAX_SESSIONS).await?;
    // Sorted here, so that a page continues where the previous one ended, even if sessions were used in between.
    sessions.sort_by_key(|session| std::cmp::Reverse(Cursor::of(session)));
    sessions.retain(|session| {
        // A session without messages has no history to load.
        let is_used = session.turns > 0 || !session.title.is_empty();
        let is_in_folder = folder
            .as_ref()
            .is_none_or(|folder| session.project.as_ref().is_some_and(|project| project.path == *folder));
        is_used && is_in_folder && after.as_ref().is_none_or(|after| Cursor::of(session) < *after)
    });
    let next = (sessions.len() > PAGE_SIZE).then(|| Cursor::of(&sessions[PAGE_SIZE - 1]).encode());
    let page = sessions.iter().take(PAGE_SIZE).map(|session| info(&daemon, session)).collect();
    Ok(ListSessionsResponse::new(page).next_cursor(next))
}

fn info(daemon: &Daemon, session: &SessionSummary) -> SessionInfo {
    let own = || daemon.client.hello().data_dir.join("workspace").join(session.id.to_string());
    let folder = session.project.as_ref().map_or_else(own, |project| project.path.clone());
    let title = Some(clean_line(&session.title)).filter(|title| !title.is_empty());
    let further = session.folders.iter().map(|folder| folder.path.clone()).collect();
    SessionInfo::new(session.id.to_string(), folder)
        .additional_directories(further)
        .title(title)
        .updated_at(session.updated_at.to_string())
}

/// Position in the list: the time of last use in nanoseconds, and the session id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor(i128, SessionId);

impl Cursor {
    fn of(session: &SessionSummary) -> Self {
        Self(session.updated_at.as_nanosecond(), session.id)
    }

    fn encode(self) -> String {
        format!("{}-{}", self.0, self.1)
    }

    fn read(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('-').and_then(|(at, id)| Some(Self(at.parse().ok()?, id.parse().ok()?)));
        parts.ok_or_else(|| message::invalid_params("unknown cursor; leave it out for the first page"))
    }
}

/// Cancels the turn that runs in a session, even if another client started it. If the turn is not followed here,
/// returns a future that sends the cancellation to the daemon.
pub(super) fn cancel(
    bridge: &Arc<Bridge>,
    notification: &CancelNotification,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    let session = bridge.session(&notification.session_id).ok()?;
    // The next prompt waits for this lock, so the cancellation cannot hit its turn.
    let order = session.cancelling.clone().try_lock_owned();
    let bridge = bridge.clone();
    if session.cancel() {
        return None;
    }
    Some(async move {
        cancel_turn(&bridge, &session).await;
        drop(order);
    })
}

/// Cancels a turn that is not followed here.
async fn cancel_turn(bridge: &Bridge, session: &OpenSession) {
    session.state().questions.clear();
    let Ok(daemon) = bridge.daemon().await else { return };
    // Fails if no turn runs.
    let _ = daemon.client.cancel_turn(&session.id.to_string(), None).await;
}

/// Closes a session: cancels its turn and stops watching it.
pub(super) async fn close(bridge: &Arc<Bridge>, request: &CloseSessionRequest) -> Result<CloseSessionResponse> {
    let session = bridge.session(&request.session_id)?;
    if !session.cancel() {
        cancel_turn(bridge, &session).await;
    }
    if let Ok(daemon) = bridge.daemon().await {
        session::remove_servers(&daemon, &session).await;
    }
    bridge.close(session.id);
    Ok(CloseSessionResponse::new())
}

/// Deletes a session permanently. Succeeds if it does not exist.
pub(super) async fn delete(bridge: &Bridge, request: &DeleteSessionRequest) -> Result<DeleteSessionResponse> {
    let Ok(id) = request.session_id.0.parse::<SessionId>() else { return Ok(DeleteSessionResponse::new()) };
    let client = bridge.daemon().await?.client;
    if let Err(error) = client.delete_session(&id.to_string()).await
        && error.answered() != Some(ErrorKind::NotFound)
    {
        return Err(error.into());
    }
    bridge.close(id);
    Ok(DeleteSessionResponse::new())
}
