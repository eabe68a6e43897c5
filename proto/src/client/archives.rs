//! Calls for exporting, importing, recording and replaying sessions.
//!
//! Also calls for the documents of sessions.

use std::{io, path::PathBuf};

use agentd_core::{
    archive::ImportReport,
    embedding::EmbeddingReport,
    event::Event,
    knowledge::{
        DocumentFinds, DocumentListing, DocumentProgress, DocumentQuery, KnowledgeStats, PartRange, Password, Reading,
    },
    session::SessionSummary,
};
use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use crate::{
    MAX_CHUNK_BYTES,
    client::{Client, ClientError, next_known},
    convert::{Wire, WireError, choices, mirrored},
    v1::{self, export_piece, import_piece, index_documents_response, play_event, play_request, search_documents_step},
    view::ExportedContent,
};

/// Maximum number of archive pieces waiting to be sent.
const QUEUE: usize = 4;

/// Part of an exported session.
#[derive(Debug, Clone, PartialEq)]
pub enum ExportPart {
    /// Summary of the session, sent first.
    Session(Box<SessionSummary>),
    /// Next bytes of the archive.
    Data(Vec<u8>),
    /// Next event of the session.
    Event(Box<Event>),
    /// Content of the archive, sent last.
    Summary(ExportedContent),
}

choices! { ExportPart as export_piece::Part, export_piece, "a part of a session" {
    Session(summary),
    Data(data),
    Event(event),
    Summary(content),
} }

/// A session that is being exported.
#[derive(Debug)]
pub struct ExportStream {
    pieces: tonic::Streaming<v1::ExportPiece>,
}

impl ExportStream {
    /// Returns the next part, or `None` at the end.
    ///
    /// # Errors
    /// Fails if the session cannot be read completely, or the connection fails.
    pub async fn next(&mut self) -> Result<Option<ExportPart>, ClientError> {
        while let Some(piece) = self.pieces.message().await? {
            let Some(part) = piece.part else { continue };
            let is_event = matches!(part, export_piece::Part::Event(_));
            match ExportPart::try_from(part) {
                // The event kind was added by a newer daemon. Other parts must not be skipped.
                Err(error) if is_event && error.is_unknown_kind() => {}
                known => return Ok(Some(known?)),
            }
        }
        Ok(None)
    }
}

calls! {
    /// Lists a session's documents with their states. If `path` is not empty, lists only documents under `path`.
    ///
    /// # Errors
    /// As for [`Self::index_documents`].
    fn list_documents(session: &str, path: &str) -> DocumentListing = documents.list(ListDocumentsRequest) whole;

    /// Reads pages, sheets or slides of a document.
    ///
    /// # Errors
    /// Fails as [`Self::index_documents`] does, and if the document cannot be read.
    fn read_document(session: &str, path: &str, range: PartRange, password: Option<&Password>) -> Reading =
        documents.read(v1::ReadDocumentRequest {
            session: session.to_owned(),
            path: path.to_owned(),
            first: range.first,
            count: range.count.unwrap_or_default(),
            from: range.from.to_wire(),
            password: password.map(|password| password.reveal().to_owned()),
        }) whole;

    /// Sends the texts of a session to the server for embeddings, or only counts them if `send` is false.
    ///
    /// # Errors
    /// Fails if there is no such server, if it refuses a text, or as [`Self::index_documents`] does.
    fn embed(session: &str, send: bool) -> EmbeddingReport = documents.embed(EmbedRequest) whole;

    /// Returns the size of the index over all sessions.
    ///
    /// # Errors
    /// Fails if the index is unavailable, or the connection fails.
    fn document_stats() -> KnowledgeStats = documents.stats(DocumentStatsRequest) whole;
}

impl Client {
    /// Exports a session as an archive.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    pub async fn export_archive(&self, session: &str, redact: bool) -> Result<ExportStream, ClientError> {
        self.export(session, v1::ExportForm::Archive, redact).await
    }

    /// Exports the stored events of a session and its subagents.
    ///
    /// # Errors
    /// As for [`Self::export_archive`].
    pub async fn export_events(&self, session: &str, redact: bool) -> Result<ExportStream, ClientError> {
        self.export(session, v1::ExportForm::Events, redact).await
    }

    async fn export(&self, session: &str, form: v1::ExportForm, redact: bool) -> Result<ExportStream, ClientError> {
        let request = v1::ExportRequest { session: session.to_owned(), form: form.into(), redact };
        Ok(ExportStream { pieces: self.archives_client().export(request).await?.into_inner() })
    }

    /// Imports a session from an archive, or from the history of the program named in `from`.
    ///
    /// # Errors
    /// Fails if the file is rejected or cannot be read, or the connection fails. In these cases nothing is imported.
    pub async fn import(
        &self,
        content: impl AsyncRead + Send,
        from: Option<&str>,
        as_new: bool,
        client: &str,
    ) -> Result<ImportReport, ClientError> {
        let header = v1::ImportHeader { as_new, from: from.unwrap_or_default().to_owned(), client: client.to_owned() };
        let first = v1::ImportPiece { part: Some(import_piece::Part::Header(header)) };
        let (pieces, queue) = mpsc::channel(QUEUE);
        let frames = stream::iter([first]).chain(ReceiverStream::new(queue));
        let mut archives = self.archives_client();
        let piece = |piece| {
            let part = Some(match piece {
                Piece::Data(data) => import_piece::Part::Data(data),
                Piece::Abort => import_piece::Part::Abort(v1::ImportAbort {}),
            });
            v1::ImportPiece { part }
        };
        let (read, answer) = tokio::join!(send_pieces(content, None, pieces, piece), archives.import(frames));
        // If both failed, the unreadable file is the cause.
        if let Err(SendError::Unreadable(error)) = read {
            return Err(ClientError::invalid(format!("could not read the file to import: {error}")));
        }
        Ok(answer?.into_inner().try_into()?)
    }
}

/// A piece of a file that is sent to the daemon.
pub(super) enum Piece {
    /// Next bytes of the file.
    Data(Vec<u8>),
    /// The file is incomplete.
    Abort,
}

/// Error while sending a file to the daemon.
pub(super) enum SendError {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The file exceeds the size limit.
    TooLarge,
}

/// Reads a file into the queue, piece by piece. A read error is reported to the daemon before the queue ends, so that
/// an incomplete file is not mistaken for a complete one.
pub(super) async fn send_pieces<M>(
    content: impl AsyncRead,
    limit: Option<usize>,
    pieces: mpsc::Sender<M>,
    message: impl Fn(Piece) -> M,
) -> Result<(), SendError> {
    let mut content = std::pin::pin!(content);
    let mut total = 0;
    loop {
        let mut piece = Vec::new();
        let failed = match (&mut content).take(MAX_CHUNK_BYTES as u64).read_to_end(&mut piece).await {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                total += bytes;
                limit.is_some_and(|limit| total > limit).then_some(SendError::TooLarge)
            }
            Err(error) => Some(SendError::Unreadable(error)),
        };
        if let Some(error) = failed {
            // If the call has ended, there is nothing left to abort.
            let _ended = pieces.send(message(Piece::Abort)).await;
            return Err(error);
        }
        // If the daemon closes the stream early, its response contains the reason.
        if pieces.send(message(Piece::Data(piece))).await.is_err() {
            return Ok(());
        }
    }
}

/// Size of the pieces of a recording, in bytes per message.
const RECORDING_PIECE_BYTES: usize = 256 << 10;

/// A recording, with the options for its replay.
#[derive(Debug, Clone, Default)]
pub struct PlayRequest {
    /// Text of the recording.
    pub text: Vec<u8>,
    /// Parts that run live instead of from the recording.
    pub mode: PlayMode,
    /// Absolute path of the project, if the session has one.
    pub project: Option<PathBuf>,
    /// True if tools may change the project.
    pub writable: bool,
    /// True if tool calls that require approval run without it.
    pub approve: bool,
    /// True if the recording is to be returned with the current requests instead of being compared with them.
    pub update: bool,
}

/// Parts of a replay that run live instead of from the recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlayMode {
    /// Nothing runs live. Each request must match the recorded one.
    #[default]
    Strict,
    /// Tools run live; answers of models are recorded.
    LiveTools,
    /// The model runs live; results of tools are recorded.
    LiveModel,
}

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlayReport {
    /// All deviations from the recording.
    pub problems: Vec<PlayProblem>,
    /// Number of replayed turns.
    pub turns: u32,
}

/// A deviation from the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlayProblem {
    /// Number of the turn, from 1.
    pub turn: u32,
    /// Number of the model's answer in the turn, from 1.
    pub step: u32,
    /// Description in one sentence.
    pub message: String,
    /// First position in the request that differs; empty if the deviation is not in a request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Difference at that position, as a unified diff.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

mirrored! { PlayReport as v1::PlayOutcome: problems turns }
mirrored! { PlayProblem as v1::PlayProblem: turn step message place diff }

/// A step of a replay.
#[derive(Debug)]
pub enum PlayStep {
    /// An event of the replayed session.
    Event(Box<Event>),
    /// A piece of the updated recording.
    Data(Vec<u8>),
    /// Result of the replay, sent last.
    Outcome(PlayReport),
}

choices! { PlayStep as play_event::Kind, play_event, "a step of a replay" {
    Event(event),
    Data(data),
    Outcome(report),
} }

/// Steps of a replay.
pub struct PlayStream(Streaming<v1::PlayEvent>);

impl PlayStream {
    /// Returns the next step, or `None` after the last.
    ///
    /// # Errors
    /// Fails if the recording cannot be replayed, or the connection fails.
    pub async fn next(&mut self) -> Result<Option<PlayStep>, ClientError> {
        next_known(&mut self.0, |event| Wire::from_wire(event.kind, "a step")).await
    }
}

fn parts(start: v1::PlayStart, text: &[u8]) -> Vec<v1::PlayRequest> {
    let pieces = text.chunks(RECORDING_PIECE_BYTES).map(|piece| play_request::Part::Data(piece.to_vec()));
    std::iter::once(play_request::Part::Start(start))
        .chain(pieces)
        .map(|part| v1::PlayRequest { part: Some(part) })
        .collect()
}

impl Client {
    /// Returns the recording of a session as text.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    pub async fn record(&self, session: &str) -> Result<Vec<u8>, ClientError> {
        let request = v1::RecordRequest { session: session.to_owned() };
        let mut pieces = self.replays().record(request).await?.into_inner();
        let mut text = Vec::new();
        while let Some(piece) = pieces.message().await? {
            text.extend_from_slice(&piece.data);
        }
        Ok(text)
    }

    /// Replays a recording.
    ///
    /// # Errors
    /// Fails if the daemon rejects the recording, or the connection fails.
    pub async fn play(&self, request: PlayRequest) -> Result<PlayStream, ClientError> {
        let PlayRequest { text, mode, project, writable, approve, update } = request;
        let mode = match mode {
            PlayMode::Strict => v1::PlayMode::Unspecified,
            PlayMode::LiveTools => v1::PlayMode::LiveTools,
            PlayMode::LiveModel => v1::PlayMode::LiveModel,
        };
        let project = project.to_wire();
        let start = v1::PlayStart { mode: mode.into(), project, writable, approve, update };
        let parts = parts(start, &text);
        Ok(PlayStream(self.replays().play(stream::iter(parts)).await?.into_inner()))
    }
}

impl Client {
    /// Indexes documents of a session, or all documents if `paths` is empty, and reports the progress to `show`.
    ///
    /// # Errors
    /// Fails if there is no such session or file, the index is unavailable, or the connection fails.
    pub async fn index_documents(
        &self,
        session: &str,
        paths: &[String],
        again: bool,
        mut show: impl FnMut(DocumentProgress),
    ) -> Result<DocumentListing, ClientError> {
        let request = v1::IndexDocumentsRequest { session: session.to_owned(), paths: paths.to_vec(), again };
        let mut steps = self.documents().index(request).await?.into_inner();
        while let Some(step) = steps.message().await? {
            match step.part {
                Some(index_documents_response::Part::Progress(step)) => show(step.try_into()?),
                Some(index_documents_response::Part::Done(done)) => return Ok(done.try_into()?),
                // The step kind was added by a newer daemon.
                None => {}
            }
        }
        Err(WireError::Missing("the result of indexing").into())
    }

    /// Searches documents of a session, or all documents if `paths` is empty. Documents that are not indexed yet are
    /// indexed first; their progress is reported to `show`.
    ///
    /// # Errors
    /// As for [`Self::index_documents`].
    pub async fn search_documents(
        &self,
        session: &str,
        paths: &[String],
        query: &DocumentQuery,
        mut show: impl FnMut(DocumentProgress),
    ) -> Result<DocumentFinds, ClientError> {
        let request = v1::SearchDocumentsRequest {
            session: session.to_owned(),
            paths: paths.to_vec(),
            query: query.text.clone(),
            regex: query.regex,
            limit: query.limit.to_wire(),
            neighbours: query.neighbours,
        };
        let mut steps = match self.documents().search_with_progress(request.clone()).await {
            // The daemon is too old for this method.
            Err(status) if status.code() == Code::Unimplemented => {
                return Ok(self.documents().search(request).await?.into_inner().try_into()?);
            }
            steps => steps?.into_inner(),
        };
        while let Some(step) = steps.message().await? {
            match step.part {
                Some(search_documents_step::Part::Progress(step)) => show(step.try_into()?),
                Some(search_documents_step::Part::Done(done)) => return Ok(done.try_into()?),
                // The step kind was added by a newer daemon.
                None => {}
            }
        }
        Err(WireError::Missing("the search result").into())
    }
}
