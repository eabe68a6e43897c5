//! Conversions for sessions: settings, todo lists, files, search hits and undo.

use std::path::Path;

use agentd_core::{
    agent::Parent,
    archive::ImportReport,
    files::{EarlierFiles, EntryKind, FileEntry, FileListing, FilePiece, FilesCopied, Picture, UploadReceipt},
    folder::AddedFolder,
    ids::TurnId,
    import_origin::ImportOrigin,
    search::{SearchHit, SearchKind, SearchResult},
    session::{
        Mount, SessionFilter, SessionMode, SessionSettings, SessionStatus, SessionSummary, StoredSession, Todo,
        TodoPriority, TodoStatus,
    },
    undo::{TurnChoice, UndoOutcome, UndoReport, UndoRequest, UndoneFile},
    worktree::SessionWorktree,
};

use crate::{
    convert::{Wire, WireError, mirrored, project::valid_marks},
    v1::{self, undo_request::Turn},
    view::{ExportedContent, ForkReply, NewSession, PruneReport, SessionView},
};

mirrored!(SessionStatus, "the status of a session", [Idle, Running, Waiting, Interrupted]);
mirrored!(TodoStatus, "the status of a todo", [Pending, InProgress, Completed]);
mirrored!(TodoPriority, "the priority of a todo", [High, Medium, Low]);
mirrored!(SessionMode, "the mode of a session", [Ask, AcceptEdits, Plan, Auto]);
mirrored!(EntryKind, "the kind of a file", [File, Folder, Link, Other]);
mirrored!(SearchKind, "the kind of a match", [Person, Model, Call, Result, Notice]);
mirrored!(UndoOutcome, "the outcome of an undone file", [Done, Already, Conflict, Failed]);

mirrored! { PruneReport as v1::PruneSessionsResponse: count bytes kept sessions problems }
mirrored! { Parent as v1::Parent: session agent .. tools: Vec::new() }
mirrored! {
    Mount as v1::Mount: path writable
        => |mount| absolute(&mount.path, "the path of the project").map(|()| mount)
}
mirrored! {
    AddedFolder as v1::AddedFolder: at path writable
        => |folder| absolute(&folder.path, "the path of a folder").map(|()| folder)
}
mirrored! { Todo as v1::Todo: id content status ? priority }
mirrored! {
    SessionSummary as v1::SessionSummary:
        id title turns last_seq status parent project folders worktree, created_at = created_at "the creation time of a session",
        updated_at = updated_at "the last use of a session", usage = usage "the usage of a session"
}
mirrored! { SessionSettings as v1::SessionSettings }
mirrored! {
    SessionView as v1::Session:
        pending, live_turn = live_turn_id "the live turn"
        @ session: StoredSession {
            todos open_turn reset_seq agents, summary = summary "the summary of a session",
            settings = settings "the settings of a session" ? window
            // Queued turns are internal to the daemon; clients receive their number.
            .. queue: Vec::new(), handed_over: Default::default(), tools: Vec::new(), surroundings: None
        }
}
mirrored! {
    ForkReply as v1::ForkSessionResponse:
        turn earlier, session = session "the new session"
        @ files: FilesCopied {
            , files = files_copied "the files", bytes = bytes_copied "the size of the files", left_out = files_left_out "the skipped files"
        }
}
mirrored! {
    ExportedContent as v1::ExportSummary:
        events @ files: FilesCopied { files, bytes = file_bytes "the size of the files", left_out = files_left_out "the skipped files" }
}
mirrored! {
    ImportReport as v1::ImportResponse:
        session_id title former_id turns events subagents interrupted left_out pins
        @ files: FilesCopied { files, bytes = file_bytes "the size of the files" .. left_out: 0 }
}
mirrored! {
    SessionFilter as v1::SessionFilter: project statuses words, since = since "the time of the filter"
}
mirrored! { EarlierFiles as v1::EarlierFiles: restored shared folder left }
mirrored! { FileListing as v1::ListFilesResponse: entries cut }
mirrored! { Picture as v1::Picture: path media_type width height bytes }
mirrored! { UploadReceipt as v1::UploadResponse: path picture problem }
mirrored! { FileEntry as v1::FileEntry: path kind size, modified = modified "the time of a file" }
mirrored! { FilePiece as v1::ReadFileResponse: content size, modified = modified "the time of a file" }
mirrored! { SearchResult as v1::SearchResponse: hits unsearched }
mirrored! {
    SearchHit as v1::SearchHit: session_id title seq kind excerpt marks, at = at "the time of a match"
        => |hit| Ok(SearchHit { marks: valid_marks(&hit.excerpt, hit.marks), ..hit })
}
mirrored! { UndoReport as v1::UndoReport: turn_id turn redo preview files }
mirrored! { UndoneFile as v1::UndoneFile: path change outcome reason diff }

/// Creates the undo request for a session.
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
        // A confirmation setting that the client omits stays enabled: omitting a field must never disable it.
        let grants = settings.grants.iter().map(|rule| rule.as_str().into()).collect();
        let parent = Wire::from_wire(settings.parent.clone(), "the parent")?;
        let (pinned, pins, agent) = (settings.pinned, settings.pins.clone(), settings.agent.clone());
        let former_project = settings.former_project.clone().map(|path| Box::new(path.into()));
        let imported = settings.imported_events.map(|events| Box::new(ImportOrigin { events, context: None }));
        let rest = settings_over(Self::default(), settings)?;
        Ok(Self { grants, parent, agent, pinned, pins, former_project, imported, ..rest })
    }
}

/// Merges the client's settings for a new session with `base`, which provides the settings that the client omits.
///
/// # Errors
/// Fails if a setting of the client is invalid.
pub fn settings_over(base: SessionSettings, requested: v1::SessionSettings) -> Result<SessionSettings, WireError> {
    Ok(SessionSettings {
        confirm_write: requested.confirm_write.unwrap_or(base.confirm_write),
        confirm_exec: requested.confirm_exec.unwrap_or(base.confirm_exec),
        slot: <Option<_> as Wire<_>>::from_wire(requested.slot, "the model slot")?.or(base.slot),
        project: <Option<_> as Wire<_>>::from_wire(requested.project, "the project")?.or(base.project),
        mode: <Option<_> as Wire<_>>::from_wire(requested.mode, "the mode of a session")?.unwrap_or(base.mode),
        model: requested.model.or(base.model),
        folders: if requested.folders.is_empty() { base.folders } else { super::all(requested.folders)? },
        worktree: <Option<_> as Wire<_>>::from_wire(requested.worktree, "the worktree")?.or(base.worktree),
        trace: requested.trace.or(base.trace),
        // All other settings come from `base`: grants are checked where they are stored, only the daemon sets parents,
        // the agent is set by a turn, and only an existing session can be pinned or imported.
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
            worktree: new.worktree.as_deref().map(|name| SessionWorktree::request(name).to_wire()),
            trace: new.trace,
            folders: new.folders.iter().map(|mount| AddedFolder::unnamed(mount.clone()).to_wire()).collect(),
            ..Self::default()
        }
    }
}

/// Rejects a path that is relative to the current directory.
fn absolute(path: &Path, field: &'static str) -> Result<(), WireError> {
    if path.is_absolute() { Ok(()) } else { Err(WireError::Value { field, problem: "must be absolute" }) }
}

/// An open turn and the number of its first event.
impl Wire<v1::session::OpenTurn> for (TurnId, u64) {
    fn to_wire(&self) -> v1::session::OpenTurn {
        v1::session::OpenTurn { turn_id: self.0.to_string(), first_seq: self.1 }
    }

    fn from_wire(open: v1::session::OpenTurn, _: &'static str) -> Result<Self, WireError> {
        Ok((open.turn_id.parse()?, open.first_seq))
    }
}
