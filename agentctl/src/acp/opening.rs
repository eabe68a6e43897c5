//! Sessions that the editor opens: new ones, and those that there are, with their history or without it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_client_protocol_schema::v1::{
    LoadSessionRequest, LoadSessionResponse, McpServer, NewSessionRequest, NewSessionResponse, ResumeSessionRequest,
    ResumeSessionResponse, SessionId as WireId, SessionUpdate,
};
use agentd_core::{error::ErrorKind, folder::MAX_FOLDERS, ids::SessionId, session::Mount};
use agentd_proto::client::{NewSession, SessionView};

use super::{
    bridge::Bridge,
    commands,
    refusal::{self, Trouble},
    replay, servers,
    session::{EditorFolder, OpenSession},
    settings::Offer,
    watch,
};
use crate::{
    daemon::{self, Daemon},
    mount, project,
    report::short_id,
    terminal::sanitize::clean_line,
};

/// A session that was opened: what the editor is answered, and what it is told after that, because it knows no session before.
#[derive(Debug)]
pub(super) struct OpenedSession<T> {
    pub(super) response: T,
    pub(super) session: Arc<OpenSession>,
    pub(super) updates: Vec<SessionUpdate>,
    pub(super) notices: Vec<String>,
    /// The turn that runs in it, to be followed after that.
    pub(super) running: Option<(Daemon, SessionView)>,
}

/// Makes a session that sees the editor's folder.
pub(super) async fn new(
    bridge: &Arc<Bridge>,
    request: &NewSessionRequest,
) -> Result<OpenedSession<NewSessionResponse>, Trouble> {
    let folder = folder(&request.cwd)?;
    let of_daemon = [daemon::data_dir(), daemon::config_dir()].into_iter().flatten();
    let project = mount::editor_folder(&folder.real, of_daemon);
    let mut notices = Vec::new();
    if project.is_none() {
        notices.push(format!("{} is no project's folder, so the session sees no folder of yours", shown(&folder.real)));
    }
    let folders = further_folders(&request.additional_directories, project.as_ref(), &mut notices);
    let daemon = bridge.daemon().await?;
    let new = NewSession { project, folders, ..NewSession::default() };
    let view = daemon.client.create_session(&new).await?;
    notices.extend(view.session.settings.folders.iter().map(|folder| {
        let mode = if folder.writable { "writable, after asking" } else { "read-only" };
        format!("{} = {} ({mode})", folder.at, shown(&folder.path))
    }));
    if let Some(report) = project::look(&daemon.client, &folder.real).await
        && let Some(notice) = project::notice(&report)
    {
        notices.push(format!("{notice}; {}", project::way(&report)));
    }
    let opened = open(bridge, &daemon, &view, &folder, &request.mcp_servers, notices).await?;
    let (modes, options) = (opened.response.modes(), opened.response.options.clone());
    let response = NewSessionResponse::new(opened.session.wire.clone()).modes(modes).config_options(options);
    Ok(opened.answering(response))
}

/// The further folders of an editor that a new session sees. A list of them may have come with a repository, so those in hidden
/// places or away from the home and the first folder can only be read; each is told of. A file has one path, so none of them lies
/// in another. One that cannot be seen is told of, too, and stops nothing.
fn further_folders(named: &[PathBuf], project: Option<&Mount>, notices: &mut Vec<String>) -> Vec<Mount> {
    let mut folders: Vec<Mount> = Vec::new();
    for path in named {
        let of_daemon = [daemon::data_dir(), daemon::config_dir()].into_iter().flatten();
        let Some(real) = folder(path).ok().map(|folder| folder.real).filter(|real| std::fs::read_dir(real).is_ok())
        else {
            notices.push(format!("{} cannot be read, so the session does not see it", shown(path)));
            continue;
        };
        if folders.len() == MAX_FOLDERS {
            notices.push(format!("a session sees {MAX_FOLDERS} further folders, so not {}", shown(&real)));
            continue;
        }
        let beside = project.and_then(|project| project.path.parent());
        let Some(mount) = mount::further_folder(&real, beside, of_daemon) else {
            notices.push(format!("{} is no project's folder, so the session does not see it", shown(&real)));
            continue;
        };
        let mut others = project.into_iter().chain(&folders);
        if others.clone().any(|other| real.starts_with(&other.path)) {
            continue;
        }
        match others.find(|other| other.path.starts_with(&real)) {
            Some(inner) => {
                let inner = shown(&inner.path);
                notices.push(format!("{} holds {inner}, so the session does not see all of it", shown(&real)));
            }
            None => folders.push(mount),
        }
    }
    folders
}

/// Opens a session and tells its history, all of it before the answer.
pub(super) async fn load(
    bridge: &Arc<Bridge>,
    request: &LoadSessionRequest,
) -> Result<OpenedSession<LoadSessionResponse>, Trouble> {
    let (daemon, view) = find(bridge, &request.session_id).await?;
    let folders = (request.cwd.as_path(), request.additional_directories.as_slice());
    let mut opened = reopen(bridge, &daemon, &view, folders, &request.mcp_servers).await?;
    replay::replay(bridge, &opened.session, &daemon, &view).await?;
    opened.running = Some((daemon, view));
    let (modes, options) = (opened.response.modes(), opened.response.options.clone());
    Ok(opened.answering(LoadSessionResponse::new().modes(modes).config_options(options)))
}

/// Opens a session whose history the editor has.
pub(super) async fn resume(
    bridge: &Arc<Bridge>,
    request: &ResumeSessionRequest,
) -> Result<OpenedSession<ResumeSessionResponse>, Trouble> {
    let (daemon, view) = find(bridge, &request.session_id).await?;
    let folders = (request.cwd.as_path(), request.additional_directories.as_slice());
    let mut opened = reopen(bridge, &daemon, &view, folders, &request.mcp_servers).await?;
    opened.running = Some((daemon, view));
    let (modes, options) = (opened.response.modes(), opened.response.options.clone());
    Ok(opened.answering(ResumeSessionResponse::new().modes(modes).config_options(options)))
}

impl<T> OpenedSession<T> {
    pub(super) fn answering<U>(self, response: U) -> OpenedSession<U> {
        let Self { session, updates, notices, running, .. } = self;
        OpenedSession { response, session, updates, notices, running }
    }
}

/// The session of an id, whole: the start of one could mean another.
async fn find(bridge: &Bridge, id: &WireId) -> Result<(Daemon, SessionView), Trouble> {
    let unknown = || refusal::unknown_session(&clean_line(&id.0));
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
    daemon: &Daemon,
    view: &SessionView,
    (cwd, further): (&Path, &[PathBuf]),
    servers: &[McpServer],
) -> Result<OpenedSession<Offer>, Trouble> {
    let folder = folder(cwd)?;
    let mut notices = Vec::new();
    let mounts = view.session.settings.mounts();
    for path in further {
        let Ok(EditorFolder { real, .. }) = self::folder(path) else { continue };
        if !mounts.names().any(|(_, mount)| real.starts_with(mount)) {
            let (id, real) = (short_id(view.session.summary.id), shown(&real));
            notices.push(format!(
                "this session does not see {real}; `agentctl chat --session {id} --add-dir '{real}'` adds it, if it may"
            ));
        }
    }
    // What a session may see and change is the person's choice, and no editor's to widen.
    match &view.session.settings.project {
        Some(Mount { path, .. }) if *path != folder.real => {
            notices.push(format!("this session works in {}, not in {}", shown(path), shown(&folder.real)));
        }
        Some(Mount { writable: false, .. }) => {
            let id = short_id(view.session.summary.id);
            let way = format!("`agentctl chat --session {id} -C {}:rw` lets it change files", shown(&folder.real));
            notices.push(format!("this session sees the folder read-only; {way}"));
        }
        Some(_) => {}
        None => notices.push("this session sees no folder of yours".to_owned()),
    }
    open(bridge, daemon, view, &folder, servers, notices).await
}

async fn open(
    bridge: &Arc<Bridge>,
    daemon: &Daemon,
    view: &SessionView,
    folder: &EditorFolder,
    servers: &[McpServer],
    mut notices: Vec<String>,
) -> Result<OpenedSession<Offer>, Trouble> {
    let settings = &view.session.settings;
    let project = settings.project.as_ref().map(|mount| mount.path.as_path());
    let session = bridge.open(view.session.summary.id, folder.clone());
    let (offer, available, missing) = tokio::join!(
        Offer::of(&daemon.client, settings),
        commands::available(&daemon.client, project),
        servers::bring(daemon, &session, servers),
    );
    let offer = offer?;
    notices.extend(missing);
    offer.told(&session);
    watch::ensure(bridge, &session, daemon, view.session.summary.last_seq).await;
    Ok(OpenedSession { response: offer, session, updates: vec![available], notices, running: None })
}

/// The folder that an editor names.
fn folder(cwd: &Path) -> Result<EditorFolder, Trouble> {
    if !cwd.is_absolute() {
        return Err(refusal::misfit("cwd must be an absolute path").into());
    }
    let real = std::fs::canonicalize(cwd)
        .map_err(|error| refusal::misfit(format!("the folder {} cannot be opened: {error}", shown(cwd))))?;
    if !real.is_dir() {
        return Err(refusal::misfit(format!("{} is not a folder", shown(&real))).into());
    }
    Ok(EditorFolder { real, named: cwd.to_owned() })
}

fn shown(path: &Path) -> String {
    clean_line(&path.display().to_string())
}
