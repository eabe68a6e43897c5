//! Calls for sessions. A session is identified by its ID or a unique prefix of the ID.

use agentd_core::{
    Timestamp,
    context::{CompactionReport, ContextView, Window},
    error::ErrorKind,
    files::{FileListing, FilePiece, UploadReceipt},
    folder::AddedFolder,
    ids::SessionId,
    model::{Slot, SlotInfo},
    search::SearchResult,
    session::{Mount, SessionFilter, SessionMode, SessionSettings, SessionSummary},
    undo::{UndoReport, UndoRequest},
};
use futures_util::{StreamExt as _, stream};
use tokio::{io::AsyncRead, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    Client, ClientError, ClientErrorKind, ForkReply, NewSession, NumberedItem, PruneReport, SessionView, SideAnswer,
    archives::{Piece, SendError, send_pieces},
};
use crate::{
    MAX_UPLOAD_BYTES,
    convert::{self, Wire as _, WireError},
    v1::{self, ask_response, upload_chunk::Part},
};

/// Maximum number of file pieces waiting to be sent.
const UPLOAD_QUEUE: usize = 4;

calls! {
    /// Returns one session.
    ///
    /// # Errors
    /// Fails if no session or several sessions match, or the connection fails.
    fn session(session: &str) -> SessionView = sessions_client.get(GetSessionRequest) whole;

    /// Sets the title of a session.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn rename_session(session: &str, title: &str) -> () = sessions_client.rename(RenameSessionRequest) nothing;

    /// Excludes a session from cleanups, or includes it again.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn pin_session(session: &str, pinned: bool) -> () = sessions_client.pin(PinSessionRequest) nothing;

    /// Resets a session's history, so that earlier items are hidden from models.
    ///
    /// # Errors
    /// Fails if there is no such session, a turn is running in it, or the connection fails.
    fn reset_session(session: &str) -> () = sessions_client.reset(ResetSessionRequest) nothing;

    /// Deletes a session permanently.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn delete_session(session: &str) -> () = sessions_client.delete(DeleteSessionRequest) nothing;

    /// Sets the pinned rules of a session, which are repeated to the model whenever it no longer sees them. Takes
    /// effect with the next turn.
    ///
    /// # Errors
    /// Fails if there is no such session, there are too many rules, a rule is too long, or the connection fails.
    fn set_pins(session: &str, pins: Vec<String>) -> () = sessions_client.set_pins(SetPinsRequest) nothing;

    /// Creates a session from a copy of another session's history, up to the end of the given turn, or everything
    /// before an open turn. With `earlier_files`, the new session's files are restored to their state at that time.
    ///
    /// # Errors
    /// Fails if there is no such session or turn, the turn has not ended, or the connection fails.
    fn fork_session(session: &str, at_turn: Option<u64>, title: Option<&str>, earlier_files: bool) -> ForkReply =
        sessions_client.fork(ForkSessionRequest) whole;

    /// Permanently deletes the matching sessions that have been unused since the given time, or only reports them.
    ///
    /// # Errors
    /// Fails if the sessions cannot be listed, or the connection fails.
    fn prune_sessions(filter: &SessionFilter, unused_since: Timestamp, dry_run: bool) -> PruneReport =
        sessions_client.prune(v1::PruneSessionsRequest {
            filter: Some(filter.into()), unused_since: unused_since.to_wire(), dry_run,
        }) whole;

    /// Sets a session's mode. Takes effect with the next call, even in a running turn. `client` is the name of this
    /// client, for the audit log.
    ///
    /// # Errors
    /// Fails if there is no such session, the session belongs to a subagent, or the connection fails.
    fn set_mode(session: &str, mode: SessionMode, client: &str) -> () =
        sessions_client.set_mode(SetModeRequest) nothing;

    /// Sets the slot of a session, and the model on the slot's server. Without a model, the slot's own model is used;
    /// without a slot, routing decides. Takes effect with the next turn.
    ///
    /// # Errors
    /// Fails if there is no such session, the session belongs to a subagent, the slot has no server with more than one
    /// model, or the connection fails.
    fn set_model(session: &str, slot: Option<Slot>, model: Option<&str>) -> SlotInfo =
        sessions_client.set_model(SetModelRequest) needed slot "the model";

    /// Searches one session, or all sessions if `session` is empty. Results are sorted by relevance, best first.
    ///
    /// # Errors
    /// Fails if the query contains no search terms, there is no such session, or the connection fails.
    fn search(query: &str, session: &str, limit: usize) -> SearchResult = sessions_client.search(SearchRequest) whole;

    /// Returns the last `limit` items of a session completed by an event above `after_seq`, oldest first.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn items(session: &str, after_seq: u64, limit: usize) -> Vec<NumberedItem> =
        sessions_client.items(ListItemsRequest + before_seq: 0) all items;

    /// Returns items like [`Self::items`], but only those completed by an event below `before_seq`; 0 for no bound.
    ///
    /// # Errors
    /// As for [`Self::items`].
    fn items_between(session: &str, after_seq: u64, before_seq: u64, limit: usize) -> Vec<NumberedItem> =
        sessions_client.items(ListItemsRequest) all items;

    /// Reverts the file changes of a turn, or previews the revert.
    ///
    /// # Errors
    /// Fails if there is no such session or turn, a turn is running in it, the files cannot be written, or the
    /// connection fails.
    fn undo(session: &str, request: &UndoRequest) -> UndoReport =
        sessions_client.undo(convert::undo_to_wire(session, request)) whole;

    /// Returns the contents of the context window for a session's next request.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    fn context(session: &str) -> ContextView = sessions_client.context(ContextRequest) whole;

    /// Lists a folder of a session, or one file, by the paths that tools use.
    ///
    /// # Errors
    /// Fails if there is no such session or file, or the connection fails.
    fn list_files(session: &str, path: &str) -> FileListing = sessions_client.list_files(ListFilesRequest) whole;

    /// Reads a piece of a file, starting at a byte offset.
    ///
    /// # Errors
    /// As for [`Self::list_files`].
    fn read_file(session: &str, path: &str, offset: u64) -> FilePiece =
        sessions_client.read_file(ReadFileRequest) whole;
}

impl Client {
    /// Creates a session.
    ///
    /// # Errors
    /// Fails if the settings are invalid, the journal cannot be written, or the connection fails.
    pub async fn create_session(&self, new: &NewSession) -> Result<SessionView, ClientError> {
        check_paths(new.project.iter().chain(&new.folders))?;
        let request = v1::CreateSessionRequest { settings: Some(new.into()), title: new.title.clone() };
        Ok(self.sessions_client().create(request).await?.into_inner().try_into()?)
    }

    /// Returns up to `limit` sessions, most recently used first.
    ///
    /// # Errors
    /// Fails if the journal cannot be read, or the connection fails.
    pub async fn sessions(&self, limit: usize) -> Result<Vec<SessionSummary>, ClientError> {
        Ok(self.filtered_sessions("", limit, false, &SessionFilter::default()).await?.0)
    }

    /// Returns a page of the sessions that match a filter, and the cursor of the next page, if any. `after` is the
    /// cursor of this page, empty for the first page. With `children`, each session is followed by its subagent
    /// sessions, which do not count towards the limit.
    ///
    /// # Errors
    /// Fails as [`Self::sessions`] does, and if `after` is not a valid cursor.
    pub async fn filtered_sessions(
        &self,
        after: &str,
        limit: usize,
        children: bool,
        filter: &SessionFilter,
    ) -> Result<(Vec<SessionSummary>, Option<String>), ClientError> {
        let (limit, after) = (limit.to_wire(), after.to_owned());
        let filter = Some(filter).filter(|filter| !filter.is_empty()).map(Into::into);
        let request = v1::ListSessionsRequest { limit, children, after, filter };
        let v1::ListSessionsResponse { sessions, next } = self.sessions_client().list(request).await?.into_inner();
        Ok((convert::all(sessions)?, Some(next).filter(|next| !next.is_empty())))
    }

    /// Returns the ID of the only session whose ID starts with `prefix`.
    ///
    /// # Errors
    /// Fails if no session or several sessions match, or the connection fails.
    pub async fn find_session(&self, prefix: &str) -> Result<SessionId, ClientError> {
        let request = v1::FindSessionRequest { prefix: prefix.to_owned() };
        Ok(self.sessions_client().find(request).await?.into_inner().session_id.parse().map_err(WireError::from)?)
    }

    /// Replaces all settings of a session. The folders in `settings` are added to the session's current folders, or
    /// replace them if `only_these_folders` is set.
    ///
    /// # Errors
    /// Fails if there is no such session, the settings are invalid, or the connection fails.
    pub async fn configure_session(
        &self,
        session: &str,
        settings: &SessionSettings,
        only_these_folders: bool,
    ) -> Result<(), ClientError> {
        let folders: Vec<Mount> = settings.folders.iter().map(AddedFolder::mount).collect();
        check_paths(settings.project.iter().chain(&folders))?;
        let (session, settings) = (session.to_owned(), Some(settings.into()));
        let request = v1::ConfigureSessionRequest { session, settings, only_these_folders };
        self.sessions_client().configure(request).await?;
        Ok(())
    }

    /// Undoes the last compaction of a session. Returns the new window and the report of the undone compaction.
    ///
    /// # Errors
    /// Fails if there is no such session, a turn is running in it, there is no compaction, or the connection fails.
    pub async fn undo_compaction(&self, session: &str) -> Result<(Window, CompactionReport), ClientError> {
        let request = v1::UndoCompactionRequest { session: session.to_owned() };
        let answer = self.sessions_client().undo_compaction(request).await?.into_inner();
        let undone = convert::part(answer.undone, "the undone compaction")?;
        Ok((answer.window.unwrap_or_default().try_into()?, undone))
    }

    /// Asks a session's model a side question, which neither needs nor changes its history. Dropping the future cancels
    /// the question. `show` gets the text of the answer as it arrives, and `None` if the answer starts over. `client` is
    /// the name of this client, for the audit log.
    ///
    /// # Errors
    /// Fails if there is no such session, the question is empty or too long, no model answers, or the connection fails.
    pub async fn ask_aside(
        &self,
        session: &str,
        question: &str,
        client: &str,
        mut show: impl FnMut(Option<&str>),
    ) -> Result<SideAnswer, ClientError> {
        let (session, question, client) = (session.to_owned(), question.to_owned(), client.to_owned());
        let mut parts = self.sessions_client().ask(v1::AskRequest { session, question, client }).await?.into_inner();
        let mut text = String::new();
        while let Some(v1::AskResponse { part }) = parts.message().await? {
            match part {
                Some(ask_response::Part::Text(more)) => {
                    show(Some(&more));
                    text.push_str(&more);
                }
                Some(ask_response::Part::Retracted(_)) => {
                    show(None);
                    text.clear();
                }
                Some(ask_response::Part::Done(done)) => {
                    let usage = convert::part(done.usage, "the usage of an answer")?;
                    return Ok(SideAnswer { text, model: done.model, usage, truncated: done.truncated });
                }
                // A newer daemon added the kind of part.
                None => {}
            }
        }
        Err(ClientError::new(ClientErrorKind::Answered(ErrorKind::Conflict), "the answer was cut off")
            .with_hint("the session or the daemon was closed meanwhile; ask again"))
    }

    /// Uploads a file to the session's `uploads/`. Returns its path for tools, and the picture for models, if it is
    /// one.
    ///
    /// # Errors
    /// Fails if there is no such session, the file is larger than [`MAX_UPLOAD_BYTES`], reading it fails, or the
    /// connection fails.
    pub async fn upload(
        &self,
        session: &str,
        name: &str,
        content: impl AsyncRead + Send,
    ) -> Result<UploadReceipt, ClientError> {
        let header = v1::UploadHeader { session: session.to_owned(), name: name.to_owned(), path: None };
        self.send_file(header, name, content).await
    }

    /// Writes or replaces a file of a session at any path to which its tools may write, and returns the path.
    ///
    /// # Errors
    /// Fails as [`Self::upload`] does, and if tools may not write to the path.
    pub async fn write_file(
        &self,
        session: &str,
        path: &str,
        content: impl AsyncRead + Send,
    ) -> Result<String, ClientError> {
        let header = v1::UploadHeader { session: session.to_owned(), name: String::new(), path: Some(path.to_owned()) };
        Ok(self.send_file(header, path, content).await?.path)
    }

    async fn send_file(
        &self,
        header: v1::UploadHeader,
        name: &str,
        content: impl AsyncRead + Send,
    ) -> Result<UploadReceipt, ClientError> {
        let first = v1::UploadChunk { part: Some(Part::Header(header)) };
        let chunk = |piece| {
            let part = Some(match piece {
                Piece::Data(data) => Part::Data(data),
                Piece::Abort => Part::Abort(v1::UploadAbort {}),
            });
            v1::UploadChunk { part }
        };
        let refused = |error| match error {
            SendError::TooLarge => too_large(name),
            SendError::Unreadable(error) => {
                ClientError::invalid(format!("could not read {name:?} for the upload: {error}"))
            }
        };
        let (chunks, queue) = mpsc::channel(UPLOAD_QUEUE);
        let frames = stream::iter([first]).chain(ReceiverStream::new(queue));
        let mut client = self.sessions_client();
        let sending = send_pieces(content, Some(MAX_UPLOAD_BYTES), chunks, chunk);
        let (read, answer) = tokio::join!(sending, client.upload(frames));
        // If both failed, the unreadable file is the cause; the daemon's error only states that the upload was aborted.
        read.map_err(refused)?;
        Ok(answer?.into_inner().try_into()?)
    }
}

/// Creates the error for a file with this name that is larger than [`MAX_UPLOAD_BYTES`].
pub fn too_large(name: &str) -> ClientError {
    let limit = MAX_UPLOAD_BYTES / 1024 / 1024;
    ClientError::invalid(format!("{name:?} exceeds the upload limit of {limit} MiB"))
        .with_hint("pass its folder with -C DIR instead")
}

/// Rejects paths that are not UTF-8: text on the wire is UTF-8, so such a path would be changed by the conversion.
pub(super) fn check_paths<'m>(mut mounts: impl Iterator<Item = &'m Mount>) -> Result<(), ClientError> {
    match mounts.find(|mount| mount.path.to_str().is_none()) {
        Some(mount) => Err(ClientError::invalid(format!("the path {} is not valid UTF-8", mount.path.display()))
            .with_hint("rename the folder, or use a symlink to it")),
        None => Ok(()),
    }
}
