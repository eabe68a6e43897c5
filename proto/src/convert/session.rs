//! Sessions, their settings and todo lists.

use std::path::PathBuf;

use agentd_core::{
    agent::Parent,
    files::{EarlierFiles, FilesCopied},
    folder::AddedFolder,
    import_origin::ImportOrigin,
    model::Slot,
    session::{
        Mount, SessionFilter, SessionMode, SessionSettings, SessionStatus, SessionSummary, StoredSession, Todo,
        TodoPriority, TodoStatus,
    },
    worktree::SessionWorktree,
};

use super::{
    WireError, all, enum_to_wire, id, mirrored, model::optional_slot_to_wire, moment, optional_enum, optional_moment,
    part, required, required_enum, to_moment,
};
use crate::{
    v1,
    view::{ForkReply, NewSession, PruneReport, SessionView},
};

mirrored!(SessionStatus, "the status of a session", [Idle, Running, Waiting, Interrupted]);

mirrored!(TodoStatus, "the status of a todo", [Pending, InProgress, Completed]);

mirrored!(TodoPriority, "the priority of a todo", [High, Medium, Low]);

mirrored!(SessionMode, "the mode of a session", [Ask, AcceptEdits, Plan, Auto]);

/// A request to set a session's mode.
pub(crate) fn set_mode_to_wire(session: &str, mode: SessionMode, client: &str) -> v1::SetModeRequest {
    v1::SetModeRequest { session: session.to_owned(), mode: enum_to_wire(mode), client: client.to_owned() }
}

/// The mode that a request names.
///
/// # Errors
/// When it names none.
pub fn mode_of(request: &v1::SetModeRequest) -> Result<SessionMode, WireError> {
    required_enum(request.mode)
}

/// A filter of sessions.
pub(crate) fn filter_to_wire(filter: &SessionFilter) -> v1::SessionFilter {
    v1::SessionFilter {
        project: filter.project.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
        since: filter.since.map(to_moment),
        statuses: filter.statuses.iter().copied().map(enum_to_wire).collect(),
        words: filter.words.clone(),
    }
}

/// A filter of sessions, as a client gives it; none where it gives none.
///
/// # Errors
/// When it makes no sense.
pub fn session_filter(filter: Option<v1::SessionFilter>) -> Result<SessionFilter, WireError> {
    let v1::SessionFilter { project, since, statuses, words } = filter.unwrap_or_default();
    let project = if project.is_empty() { None } else { Some(PathBuf::from(project)) };
    let statuses = statuses.into_iter().map(required_enum).collect::<Result<_, _>>()?;
    Ok(SessionFilter { project, since: optional_moment(since, "the first use of sessions")?, statuses, words })
}

impl From<&PruneReport> for v1::PruneSessionsResponse {
    fn from(report: &PruneReport) -> Self {
        let PruneReport { count, bytes, kept, sessions, problems } = report;
        let sessions = sessions.iter().map(Into::into).collect();
        Self { count: *count, bytes: *bytes, kept: *kept, sessions, problems: problems.clone() }
    }
}

impl TryFrom<v1::PruneSessionsResponse> for PruneReport {
    type Error = WireError;

    fn try_from(report: v1::PruneSessionsResponse) -> Result<Self, WireError> {
        let v1::PruneSessionsResponse { count, bytes, kept, sessions, problems } = report;
        Ok(Self { count, bytes, kept, sessions: all(sessions)?, problems })
    }
}

/// A request to set a session's slot and model.
pub(crate) fn set_model_to_wire(session: &str, slot: Option<Slot>, model: Option<&str>) -> v1::SetModelRequest {
    let model = model.map(str::to_owned);
    v1::SetModelRequest { session: session.to_owned(), slot: optional_slot_to_wire(slot), model }
}

/// The slot that a request names, if it names one.
///
/// # Errors
/// When it is none that is known.
pub fn chosen_slot(request: &v1::SetModelRequest) -> Result<Option<Slot>, WireError> {
    optional_enum(request.slot)
}

impl From<&SessionSettings> for v1::SessionSettings {
    fn from(settings: &SessionSettings) -> Self {
        Self {
            confirm_write: Some(settings.confirm_write),
            confirm_exec: Some(settings.confirm_exec),
            slot: optional_slot_to_wire(settings.slot),
            project: settings.project.as_ref().map(Into::into),
            grants: settings.grants.iter().map(|grant| grant.rule.clone()).collect(),
            parent: settings
                .parent
                .as_ref()
                .map(|parent| v1::Parent { session: parent.session.to_string(), agent: parent.agent.clone() }),
            agent: settings.agent.clone(),
            pinned: settings.pinned,
            mode: enum_to_wire(settings.mode),
            model: settings.model.clone(),
            pins: settings.pins.clone(),
            folders: settings.folders.iter().map(Into::into).collect(),
            worktree: settings.worktree.as_ref().map(Into::into),
            former_project: settings.former_project.as_ref().map(|path| path.to_string_lossy().into_owned()),
            trace: settings.trace,
            imported_events: settings.imported.as_ref().map(|imported| imported.events),
        }
    }
}

impl TryFrom<v1::SessionSettings> for SessionSettings {
    type Error = WireError;

    fn try_from(settings: v1::SessionSettings) -> Result<Self, WireError> {
        // What a client does not mention is asked about: an approval must never vanish by omission.
        let grants = settings.grants.iter().map(|rule| rule.as_str().into()).collect();
        let parent = settings.parent.clone().map(TryInto::try_into).transpose()?;
        let (pinned, pins, agent) = (settings.pinned, settings.pins.clone(), settings.agent.clone());
        let former_project = settings.former_project.clone().map(|path| Box::new(path.into()));
        let imported = settings.imported_events.map(|events| Box::new(ImportOrigin { events, context: None }));
        let rest = settings_over(Self::default(), settings)?;
        Ok(Self { grants, parent, agent, pinned, pins, former_project, imported, ..rest })
    }
}

/// The settings of a new session: what the client says, and `base` where it says nothing.
///
/// # Errors
/// When the client says what makes no sense.
pub fn settings_over(base: SessionSettings, said: v1::SessionSettings) -> Result<SessionSettings, WireError> {
    Ok(SessionSettings {
        confirm_write: said.confirm_write.unwrap_or(base.confirm_write),
        confirm_exec: said.confirm_exec.unwrap_or(base.confirm_exec),
        slot: optional_enum(said.slot)?.or(base.slot),
        project: said.project.map(TryInto::try_into).transpose()?.or(base.project),
        // Rules are checked where they are kept, and not brought along.
        grants: base.grants,
        // The daemon alone says who works for whom.
        parent: base.parent,
        // A turn says it.
        agent: base.agent,
        // Only a session that is there can be pinned.
        pinned: base.pinned,
        pins: base.pins,
        mode: optional_enum(said.mode)?.unwrap_or(base.mode),
        model: said.model.or(base.model),
        folders: if said.folders.is_empty() { base.folders } else { all(said.folders)? },
        worktree: said.worktree.map(Into::into).or(base.worktree),
        // Only a session that was imported has had one.
        former_project: base.former_project,
        trace: said.trace.or(base.trace),
        imported: base.imported,
    })
}

impl TryFrom<v1::Parent> for Parent {
    type Error = WireError;

    fn try_from(parent: v1::Parent) -> Result<Self, WireError> {
        Ok(Self { session: id(&parent.session)?, agent: parent.agent, tools: Vec::new() })
    }
}

impl From<&NewSession> for v1::SessionSettings {
    fn from(new: &NewSession) -> Self {
        Self {
            confirm_write: new.confirm_write,
            confirm_exec: new.confirm_exec,
            slot: optional_slot_to_wire(new.slot),
            project: new.project.as_ref().map(Into::into),
            grants: Vec::new(),
            parent: None,
            agent: None,
            pinned: false,
            mode: new.mode.map(enum_to_wire).unwrap_or_default(),
            model: new.model.clone(),
            pins: Vec::new(),
            worktree: new.worktree.as_deref().map(|name| (&SessionWorktree::wish(name)).into()),
            former_project: None,
            trace: new.trace,
            imported_events: None,
            folders: new.folders.iter().cloned().map(|mount| (&AddedFolder::unnamed(mount)).into()).collect(),
        }
    }
}

impl From<&Mount> for v1::Mount {
    fn from(mount: &Mount) -> Self {
        Self { path: mount.path.to_string_lossy().into_owned(), writable: mount.writable }
    }
}

impl TryFrom<v1::Mount> for Mount {
    type Error = WireError;

    fn try_from(mount: v1::Mount) -> Result<Self, WireError> {
        let path = PathBuf::from(mount.path);
        if !path.is_absolute() {
            return Err(WireError::Value { what: "the path of the project", problem: "must be absolute" });
        }
        Ok(Self { path, writable: mount.writable })
    }
}

impl From<&AddedFolder> for v1::AddedFolder {
    fn from(folder: &AddedFolder) -> Self {
        let path = folder.path.to_string_lossy().into_owned();
        Self { at: folder.at.clone(), path, writable: folder.writable }
    }
}

impl TryFrom<v1::AddedFolder> for AddedFolder {
    type Error = WireError;

    fn try_from(folder: v1::AddedFolder) -> Result<Self, WireError> {
        let path = PathBuf::from(folder.path);
        if !path.is_absolute() {
            return Err(WireError::Value { what: "the path of a folder", problem: "must be absolute" });
        }
        Ok(Self { at: folder.at, path, writable: folder.writable })
    }
}

impl From<&Todo> for v1::Todo {
    fn from(todo: &Todo) -> Self {
        Self {
            id: todo.id.clone(),
            content: todo.content.clone(),
            status: enum_to_wire(todo.status),
            priority: enum_to_wire(todo.priority),
        }
    }
}

impl TryFrom<v1::Todo> for Todo {
    type Error = WireError;

    fn try_from(todo: v1::Todo) -> Result<Self, WireError> {
        Ok(Self {
            id: todo.id,
            content: todo.content,
            status: required_enum(todo.status)?,
            priority: optional_enum(todo.priority)?.unwrap_or_default(),
        })
    }
}

impl From<&SessionSummary> for v1::SessionSummary {
    fn from(summary: &SessionSummary) -> Self {
        Self {
            id: summary.id.to_string(),
            title: summary.title.clone(),
            created_at: Some(to_moment(summary.created_at)),
            updated_at: Some(to_moment(summary.updated_at)),
            turns: summary.turns,
            last_seq: summary.last_seq,
            status: enum_to_wire(summary.status),
            usage: Some((&summary.usage).into()),
            parent: summary.parent.map(|parent| parent.to_string()),
            project: summary.project.as_ref().map(Into::into),
            folders: summary.folders.iter().map(Into::into).collect(),
            worktree: summary.worktree.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<v1::SessionSummary> for SessionSummary {
    type Error = WireError;

    fn try_from(summary: v1::SessionSummary) -> Result<Self, WireError> {
        Ok(Self {
            id: id(&summary.id)?,
            title: summary.title,
            created_at: moment(summary.created_at, "the birth of a session")?,
            updated_at: moment(summary.updated_at, "the last use of a session")?,
            turns: summary.turns,
            last_seq: summary.last_seq,
            status: required_enum(summary.status)?,
            usage: required(summary.usage, "the usage of a session")?.into(),
            parent: summary.parent.map(|parent| id(&parent)).transpose()?,
            project: summary.project.map(Mount::try_from).transpose()?,
            folders: all(summary.folders)?,
            worktree: summary.worktree.map(Into::into),
        })
    }
}

impl From<&ForkReply> for v1::ForkSessionResponse {
    fn from(forked: &ForkReply) -> Self {
        let ForkReply { session, turn, files, earlier } = forked;
        Self {
            session: Some(session.into()),
            turn: *turn,
            files_copied: files.files,
            bytes_copied: files.bytes,
            files_left_out: files.left_out,
            earlier: earlier.clone().map(Into::into),
        }
    }
}

impl TryFrom<v1::ForkSessionResponse> for ForkReply {
    type Error = WireError;

    fn try_from(wire: v1::ForkSessionResponse) -> Result<Self, WireError> {
        let session = wire.session.ok_or(WireError::Missing("the new session"))?.try_into()?;
        let files = FilesCopied { files: wire.files_copied, bytes: wire.bytes_copied, left_out: wire.files_left_out };
        Ok(Self { session, turn: wire.turn, files, earlier: wire.earlier.map(Into::into) })
    }
}

impl From<EarlierFiles> for v1::EarlierFiles {
    fn from(files: EarlierFiles) -> Self {
        let EarlierFiles { restored, shared, folder, left } = files;
        Self { restored, shared, folder, left }
    }
}

impl From<v1::EarlierFiles> for EarlierFiles {
    fn from(files: v1::EarlierFiles) -> Self {
        let v1::EarlierFiles { restored, shared, folder, left } = files;
        Self { restored, shared, folder, left }
    }
}

impl From<&SessionView> for v1::Session {
    fn from(view: &SessionView) -> Self {
        let session = &view.session;
        Self {
            summary: Some((&session.summary).into()),
            settings: Some((&session.settings).into()),
            todos: session.todos.iter().map(Into::into).collect(),
            pending: view.pending.iter().map(Into::into).collect(),
            live_turn_id: view.live_turn.map(|turn| turn.to_string()),
            open_turn: session
                .open_turn
                .map(|(turn, first_seq)| v1::session::OpenTurn { turn_id: turn.to_string(), first_seq }),
            reset_seq: session.reset_seq,
            window: Some((&session.window).into()),
            agents: session.agents.clone(),
        }
    }
}

impl TryFrom<v1::Session> for SessionView {
    type Error = WireError;

    fn try_from(session: v1::Session) -> Result<Self, WireError> {
        let open_turn = match session.open_turn {
            Some(open) => Some((id(&open.turn_id)?, open.first_seq)),
            None => None,
        };
        Ok(Self {
            session: StoredSession {
                summary: part(session.summary, "the summary of a session")?,
                settings: part(session.settings, "the settings of a session")?,
                todos: all(session.todos)?,
                open_turn,
                // What waits is for the daemon to know; a client is told how many do.
                queue: Vec::new(),
                reset_seq: session.reset_seq,
                window: session.window.map(Into::into).unwrap_or_default(),
                handed_over: Default::default(),
                agents: session.agents,
                tools: Vec::new(),
                surroundings: None,
            },
            pending: all(session.pending)?,
            live_turn: session.live_turn_id.map(|turn| id(&turn)).transpose()?,
        })
    }
}
