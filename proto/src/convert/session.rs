//! Sessions: their settings, todo lists and files, what was found in them, and what was undone.

use std::{ops::Range, path::PathBuf};

use agentd_core::{
    agent::Parent,
    archive::ImportReport,
    files::{EarlierFiles, EntryKind, FileEntry, FileListing, FilePiece, FilesCopied, Picture, UploadReceipt},
    folder::AddedFolder,
    import_origin::ImportOrigin,
    model::Slot,
    search::{SearchHit, SearchKind, SearchResult},
    session::{
        Mount, SessionFilter, SessionMode, SessionSettings, SessionStatus, SessionSummary, StoredSession, Todo,
        TodoPriority, TodoStatus,
    },
    undo::{TurnChoice, UndoOutcome, UndoReport, UndoRequest, UndoneFile},
    worktree::SessionWorktree,
};

use crate::convert::{Wire, WireError, mirrored, or_default, project::marks};
use crate::{
    v1::{self, undo_request::Turn},
    view::{ExportedContent, ForkReply, NewSession, PruneReport, SessionView},
};

mirrored!(SessionStatus, "the status of a session", [Idle, Running, Waiting, Interrupted]);
mirrored!(TodoStatus, "the status of a todo", [Pending, InProgress, Completed]);
mirrored!(TodoPriority, "the priority of a todo", [High, Medium, Low]);
mirrored!(SessionMode, "the mode of a session", [Ask, AcceptEdits, Plan, Auto]);
mirrored!(EntryKind, "the kind of a file", [File, Folder, Link, Other]);
mirrored!(SearchKind, "the kind of a find", [Person, Model, Call, Result, Notice]);
mirrored!(UndoOutcome, "what came of an undone file", [Done, Already, Conflict, Failed]);

mirrored! { PruneReport as v1::PruneSessionsResponse: count bytes kept sessions problems }
mirrored! { Parent as v1::Parent: session agent .. tools: Vec::new() }
mirrored! { Mount as v1::Mount }
mirrored! { AddedFolder as v1::AddedFolder }
mirrored! { Todo as v1::Todo: id content status ? priority }
mirrored! {
    SessionSummary as v1::SessionSummary:
        id title turns last_seq status parent project folders worktree, created_at = created_at "the birth of a session",
        updated_at = updated_at "the last use of a session", usage = usage "the usage of a session"
}
mirrored! { SessionSettings as v1::SessionSettings }
mirrored! { SessionView as v1::Session }
mirrored! { EarlierFiles as v1::EarlierFiles: restored shared folder left }
mirrored! { FileListing as v1::ListFilesResponse: entries cut }
mirrored! { Picture as v1::Picture: path media_type width height bytes }
mirrored! { UploadReceipt as v1::UploadResponse: path picture problem }
mirrored! { FileEntry as v1::FileEntry: path kind size, modified = modified "the time of a file" }
mirrored! { FilePiece as v1::ReadFileResponse: content size, modified = modified "the time of a file" }
mirrored! { SearchResult as v1::SearchResponse: hits unsearched }
mirrored! { SearchHit as v1::SearchHit }
mirrored! { UndoReport as v1::UndoReport: turn_id turn redo preview files }
mirrored! { UndoneFile as v1::UndoneFile: path change outcome reason diff }

impl From<&SearchHit> for v1::SearchHit {
    fn from(hit: &SearchHit) -> Self {
        let mark = |mark: &Range<usize>| v1::search_hit::Mark { start: mark.start.to_wire(), end: mark.end.to_wire() };
        Self {
            session_id: hit.session_id.to_wire(),
            title: hit.title.clone(),
            seq: hit.seq,
            at: hit.at.to_wire(),
            kind: hit.kind.to_wire(),
            excerpt: hit.excerpt.clone(),
            marks: hit.marks.iter().map(mark).collect(),
        }
    }
}

impl TryFrom<v1::SearchHit> for SearchHit {
    type Error = WireError;

    fn try_from(hit: v1::SearchHit) -> Result<Self, WireError> {
        let marks = marks(&hit.excerpt, hit.marks.iter().map(|mark| (mark.start, mark.end)));
        Ok(Self {
            session_id: Wire::from_wire(hit.session_id, "the session of a find")?,
            title: hit.title,
            seq: hit.seq,
            at: Wire::from_wire(hit.at, "the time of a find")?,
            kind: Wire::from_wire(hit.kind, "the kind of a find")?,
            excerpt: hit.excerpt,
            marks,
        })
    }
}

/// The request for a session.
pub fn undo_to_wire(session: &str, request: &UndoRequest) -> v1::UndoRequest {
    v1::UndoRequest {
        session: session.to_owned(),
        turn: request.turn.map(|turn| match turn {
            TurnChoice::Number(number) => Turn::Number(number),
            TurnChoice::Id(id) => Turn::TurnId(id.to_string()),
            TurnChoice::Since(number) => Turn::Since(number),
            TurnChoice::All => Turn::All(true),
        }),
        redo: request.redo,
        preview: request.preview,
        client: request.client.clone(),
    }
}

impl TryFrom<v1::UndoRequest> for UndoRequest {
    type Error = WireError;

    fn try_from(request: v1::UndoRequest) -> Result<Self, WireError> {
        let turn = match request.turn {
            Some(Turn::Number(number)) => Some(TurnChoice::Number(number)),
            Some(Turn::TurnId(turn)) => Some(TurnChoice::Id(turn.parse()?)),
            Some(Turn::Since(number)) => Some(TurnChoice::Since(number)),
            Some(Turn::All(true)) => Some(TurnChoice::All),
            Some(Turn::All(false)) | None => None,
        };
        Ok(Self { turn, redo: request.redo, preview: request.preview, client: request.client })
    }
}

impl From<&ImportReport> for v1::ImportResponse {
    fn from(report: &ImportReport) -> Self {
        let ImportReport { title, turns, events, subagents, files, interrupted, left_out, pins, .. } = report.clone();
        Self {
            session_id: report.session_id.to_wire(),
            title,
            former_id: report.former_id.to_wire(),
            turns,
            events,
            subagents,
            files: files.files,
            file_bytes: files.bytes,
            interrupted,
            left_out,
            pins,
        }
    }
}

impl TryFrom<v1::ImportResponse> for ImportReport {
    type Error = WireError;

    fn try_from(report: v1::ImportResponse) -> Result<Self, WireError> {
        let v1::ImportResponse { session_id, title, former_id, turns, events, subagents, .. } = report;
        Ok(Self {
            session_id: Wire::from_wire(session_id, "the session")?,
            title,
            former_id: Wire::from_wire(former_id, "the former session")?,
            turns,
            events,
            subagents,
            files: FilesCopied { files: report.files, bytes: report.file_bytes, left_out: 0 },
            interrupted: report.interrupted,
            left_out: report.left_out,
            pins: report.pins,
        })
    }
}

impl From<&ExportedContent> for v1::ExportSummary {
    fn from(content: &ExportedContent) -> Self {
        let FilesCopied { files, bytes, left_out } = content.files;
        Self { events: content.events, files, file_bytes: bytes, files_left_out: left_out }
    }
}

impl From<v1::ExportSummary> for ExportedContent {
    fn from(summary: v1::ExportSummary) -> Self {
        let v1::ExportSummary { events, files, file_bytes, files_left_out } = summary;
        Self { events, files: FilesCopied { files, bytes: file_bytes, left_out: files_left_out } }
    }
}

/// The mode that a request names.
///
/// # Errors
/// When it names none.
pub fn mode_of(request: &v1::SetModeRequest) -> Result<SessionMode, WireError> {
    Wire::from_wire(request.mode, "the mode of a session")
}

/// A filter of sessions.
pub(crate) fn filter_to_wire(filter: &SessionFilter) -> v1::SessionFilter {
    v1::SessionFilter {
        project: filter.project.to_wire(),
        since: filter.since.to_wire(),
        statuses: filter.statuses.to_wire(),
        words: filter.words.clone(),
    }
}

/// A filter of sessions, as a client gives it; none where it gives none.
///
/// # Errors
/// When it makes no sense.
pub fn session_filter(filter: Option<v1::SessionFilter>) -> Result<SessionFilter, WireError> {
    let v1::SessionFilter { project, since, statuses, words } = filter.unwrap_or_default();
    Ok(SessionFilter {
        project: Wire::from_wire(project, "the project")?,
        since: Wire::from_wire(since, "the first use of sessions")?,
        statuses: Wire::from_wire(statuses, "the status of a session")?,
        words,
    })
}

/// The slot that a request names, if it names one.
///
/// # Errors
/// When it is none that is known.
pub fn chosen_slot(request: &v1::SetModelRequest) -> Result<Option<Slot>, WireError> {
    Wire::from_wire(request.slot, "the model slot")
}

impl From<&SessionSettings> for v1::SessionSettings {
    fn from(settings: &SessionSettings) -> Self {
        Self {
            confirm_write: Some(settings.confirm_write),
            confirm_exec: Some(settings.confirm_exec),
            slot: settings.slot.to_wire(),
            project: settings.project.to_wire(),
            grants: settings.grants.iter().map(|grant| grant.rule.clone()).collect(),
            parent: settings.parent.to_wire(),
            agent: settings.agent.clone(),
            pinned: settings.pinned,
            mode: settings.mode.to_wire(),
            model: settings.model.clone(),
            pins: settings.pins.clone(),
            folders: settings.folders.to_wire(),
            worktree: settings.worktree.to_wire(),
            former_project: settings.former_project.to_wire(),
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
        let parent = Wire::from_wire(settings.parent.clone(), "the parent")?;
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
        slot: <Option<_> as Wire<_>>::from_wire(said.slot, "the model slot")?.or(base.slot),
        project: <Option<_> as Wire<_>>::from_wire(said.project, "the project")?.or(base.project),
        mode: <Option<_> as Wire<_>>::from_wire(said.mode, "the mode of a session")?.unwrap_or(base.mode),
        model: said.model.or(base.model),
        folders: if said.folders.is_empty() { base.folders } else { super::all(said.folders)? },
        worktree: <Option<_> as Wire<_>>::from_wire(said.worktree, "the worktree")?.or(base.worktree),
        trace: said.trace.or(base.trace),
        // Rules are checked where they are kept. The daemon alone says who works for whom, a turn names its agent, and only a
        // session that is there can be pinned, or was imported.
        ..base
    })
}

impl From<&NewSession> for v1::SessionSettings {
    fn from(new: &NewSession) -> Self {
        Self {
            confirm_write: new.confirm_write,
            confirm_exec: new.confirm_exec,
            slot: new.slot.to_wire(),
            project: new.project.to_wire(),
            mode: new.mode.to_wire(),
            model: new.model.clone(),
            worktree: new.worktree.as_deref().map(|name| SessionWorktree::wish(name).to_wire()),
            trace: new.trace,
            folders: new.folders.iter().map(|mount| AddedFolder::unnamed(mount.clone()).to_wire()).collect(),
            ..Self::default()
        }
    }
}

impl From<&Mount> for v1::Mount {
    fn from(mount: &Mount) -> Self {
        Self { path: mount.path.to_wire(), writable: mount.writable }
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
        let path = folder.path.to_wire();
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

impl From<&ForkReply> for v1::ForkSessionResponse {
    fn from(forked: &ForkReply) -> Self {
        let ForkReply { session, turn, files, earlier } = forked;
        Self {
            session: session.to_wire(),
            turn: *turn,
            files_copied: files.files,
            bytes_copied: files.bytes,
            files_left_out: files.left_out,
            earlier: earlier.to_wire(),
        }
    }
}

impl TryFrom<v1::ForkSessionResponse> for ForkReply {
    type Error = WireError;

    fn try_from(wire: v1::ForkSessionResponse) -> Result<Self, WireError> {
        let session = Wire::from_wire(wire.session, "the new session")?;
        let files = FilesCopied { files: wire.files_copied, bytes: wire.bytes_copied, left_out: wire.files_left_out };
        Ok(Self { session, turn: wire.turn, files, earlier: Wire::from_wire(wire.earlier, "the earlier files")? })
    }
}

impl From<&SessionView> for v1::Session {
    fn from(view: &SessionView) -> Self {
        let session = &view.session;
        Self {
            summary: session.summary.to_wire(),
            settings: session.settings.to_wire(),
            todos: session.todos.to_wire(),
            pending: view.pending.to_wire(),
            live_turn_id: view.live_turn.to_wire(),
            open_turn: session
                .open_turn
                .map(|(turn, first_seq)| v1::session::OpenTurn { turn_id: turn.to_string(), first_seq }),
            reset_seq: session.reset_seq,
            window: session.window.to_wire(),
            agents: session.agents.clone(),
        }
    }
}

impl TryFrom<v1::Session> for SessionView {
    type Error = WireError;

    fn try_from(session: v1::Session) -> Result<Self, WireError> {
        let open = |open: v1::session::OpenTurn| Ok::<_, WireError>((open.turn_id.parse()?, open.first_seq));
        Ok(Self {
            session: StoredSession {
                summary: Wire::from_wire(session.summary, "the summary of a session")?,
                settings: Wire::from_wire(session.settings, "the settings of a session")?,
                todos: Wire::from_wire(session.todos, "todos")?,
                open_turn: session.open_turn.map(open).transpose()?,
                // What waits is for the daemon to know; a client is told how many do.
                queue: Vec::new(),
                reset_seq: session.reset_seq,
                window: or_default(session.window, "the window")?,
                handed_over: Default::default(),
                agents: session.agents,
                tools: Vec::new(),
                surroundings: None,
            },
            pending: Wire::from_wire(session.pending, "pending")?,
            live_turn: Wire::from_wire(session.live_turn_id, "the live turn")?,
        })
    }
}
