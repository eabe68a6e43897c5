//! Export, import, recording and replay of sessions, and logged model requests with their answers.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use agentd_archive::foreign::ForeignFormat;
use agentd_core::{error::ErrorKind, event::Event, exchange::StoredExchanges};
use agentd_exchange::ReadFailure;
use agentd_proto::{
    MAX_CHUNK_BYTES,
    client::ExportedContent,
    v1::{
        self, ExportForm, archives_server::Archives, export_piece, import_piece, play_event, play_request,
        replays_server::Replays, trace_piece, traces_server::Traces,
    },
};
use agentd_replay::{MAX_RECORDING, Play, PlayProblem, Recording, Redaction};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use crate::{
    archives::{
        self, BlockingSender, PieceReader, PieceWriter, SourcePiece,
        export::{ExportFailure, Exporter},
        stream_blocking,
    },
    replay::{PlayError, PlayOptions, PlayOutcome, Player},
    rpc::{Refusal, ReplyStream, absolute},
};

type Piece = Result<v1::ExportPiece, Status>;

service! { Archives:
    type ExportStream = ReplyStream<v1::ExportPiece>;

    async fn export(&self, request: v1::ExportRequest) -> Self::ExportStream {
        let form = ExportForm::try_from(request.form)
            .map_err(|_| Refusal::invalid("unknown export form"))?;
        let id = self.session_id(&request.session).await?;
        let export = self.engine.export_session(id).await?;
        if let (Some(parent), true) = (export.summary.parent, form != ExportForm::Events) {
            return Err(Refusal::invalid("this session is a subagent, and its files belong to its parent")
                .with_hint(format!("`agentctl sessions export {parent}` exports both"))
                .into());
        }
        let redact = request.redact.then(|| Arc::new(self.control.log.redactor().with_patterns()) as Redaction);
        let exporter = Exporter::new(self.engine.clone(), export, redact);
        let summary = (&exporter.summary()).into();
        let pieces = stream_blocking(move |sink| {
            let exported = sink.send(Ok(piece(export_piece::Part::Session(summary))));
            let exported = exported.map_err(ExportFailure::from).and_then(|()| write(&exporter, form, sink));
            match exported {
                Ok(()) => {}
                Err(ExportFailure::Io(error)) => tracing::debug!("an export ended early: {error}"),
                Err(ExportFailure::Engine(error)) => {
                    // A client that no longer reads does not need the error.
                    let _ = sink.send(Err(Refusal::from(error).into()));
                }
            }
        });
        Ok(pieces.boxed())
    }

    async fn import(&self, request: Streaming<v1::ImportPiece>) -> v1::ImportResponse {
        let mut pieces = request;
        let first = pieces.next().await.transpose()?.and_then(|piece| piece.part);
        let Some(import_piece::Part::Header(v1::ImportHeader { as_new, from, client })) = first else {
            return Err(Refusal::invalid("the first piece of an import must be its header").into());
        };
        let format = if from.is_empty() { None } else { Some(from.parse::<ForeignFormat>().map_err(unknown_format)?) };
        let (sender, queue) = mpsc::channel(archives::QUEUE);
        let (engine, source) = (self.engine.clone(), PieceReader::new(queue));
        let import = tokio::task::spawn_blocking(move || match format {
            None => archives::archive(engine, source, as_new, client),
            Some(format) => archives::foreign(engine, source, format, as_new, client),
        });
        forward_pieces(pieces, sender).await;
        let imported = import.await.map_err(|error| {
            tracing::error!("an import ended early: {error}");
            Refusal::new(ErrorKind::Internal, "the import ended early")
        })?;
        Ok((&imported?).into())
    }
}

fn unknown_format(message: String) -> Refusal {
    Refusal::invalid(message)
        .with_hint("--from accepts claude-code, codex or opencode; without it, the input must be an archive")
}

fn write(exporter: &Exporter, form: ExportForm, sink: &BlockingSender<Piece>) -> Result<(), ExportFailure> {
    let content = if form == ExportForm::Events {
        let events = exporter.events(&mut |event| sink.send(Ok(piece(export_piece::Part::Event((&event).into())))))?;
        ExportedContent { events, ..ExportedContent::default() }
    } else {
        exporter.archive(PieceWriter::new(sink, |data| Ok(piece(export_piece::Part::Data(data)))))?
    };
    // If the summary is missing, the client detects that the export is incomplete.
    Ok(sink.send(Ok(piece(export_piece::Part::Summary((&content).into()))))?)
}

fn piece(part: export_piece::Part) -> v1::ExportPiece {
    v1::ExportPiece { part: Some(part) }
}

/// Forwards the client's pieces until there are no more or the import ends. If the client disconnects, this future is
/// dropped, and the import receives no end marker.
async fn forward_pieces(
    mut pieces: impl Stream<Item = Result<v1::ImportPiece, Status>> + Unpin,
    queue: mpsc::Sender<SourcePiece>,
) {
    while let Some(piece) = pieces.next().await {
        let piece = match piece.map(|piece| piece.part) {
            Ok(Some(import_piece::Part::Data(data))) if data.len() <= MAX_CHUNK_BYTES => Ok(Some(data)),
            Ok(Some(import_piece::Part::Data(_))) => Err(io::Error::other("a piece is larger than 1 MiB")),
            Ok(Some(import_piece::Part::Abort(_))) => Err(io::Error::other("the client aborted")),
            Ok(_) => Err(io::Error::other("unknown kind of piece")),
            Err(status) => Err(io::Error::other(status.message().to_owned())),
        };
        let is_last = piece.is_err();
        if queue.send(piece).await.is_err() || is_last {
            return;
        }
    }
    // If the send fails, the import has already ended.
    let _ = queue.send(Ok(None)).await;
}

/// Maximum number of queued events of a replay.
const QUEUE: usize = 64;

/// Size of one message of a recording, in bytes.
const PIECE: usize = if MAX_CHUNK_BYTES < 256 << 10 { MAX_CHUNK_BYTES } else { 256 << 10 };

service! { Replays:
    type RecordStream = ReplyStream<v1::RecordingPiece>;
    type PlayStream = ReplyStream<v1::PlayEvent>;

    async fn record(&self, request: v1::RecordRequest) -> Self::RecordStream {
        let id = self.session_id(&request.session).await?;
        let recording = self.parts().player.record(&self.engine, id).await?;
        let pieces: Vec<_> = pieces(&recording)?.into_iter().map(|data| Ok(v1::RecordingPiece { data })).collect();
        Ok(stream::iter(pieces).boxed())
    }

    async fn play(&self, request: Streaming<v1::PlayRequest>) -> Self::PlayStream {
        let player = Arc::clone(&self.parts().player);
        let (start, recording) = receive(request).await?;
        let update = start.update;
        let options = options(start)?;
        let (sender, events) = mpsc::channel(QUEUE);
        let engine = self.engine.clone();
        let shutdown = self.shutdown.clone();
        // This task ends with the replay, which ends when the client disconnects or the daemon stops.
        tokio::spawn(async move {
            let stop = shutdown.child_token();
            let playing = play(player, engine, recording, options, update, sender.clone(), stop.clone());
            tokio::pin!(playing);
            let status = tokio::select! {
                playing = &mut playing => playing.err(),
                () = sender.closed() => {
                    // The replay must end before its folder is removed.
                    stop.cancel();
                    playing.await.err()
                }
            };
            if let Some(status) = status {
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(ReceiverStream::new(events).boxed())
    }
}

/// Runs a replay and forwards its events.
async fn play(
    player: Arc<Player>,
    engine: agentd_engine::Engine,
    recording: Recording,
    options: PlayOptions,
    update: bool,
    client: mpsc::Sender<Result<v1::PlayEvent, Status>>,
    stop: CancellationToken,
) -> Result<(), Status> {
    let (events, mut receiver) = mpsc::channel::<Arc<Event>>(QUEUE);
    let forward_events = async {
        while let Some(event) = receiver.recv().await {
            let event = v1::PlayEvent { kind: Some(play_event::Kind::Event((&*event).into())) };
            if client.send(Ok(event)).await.is_err() {
                break;
            }
        }
        // Dropping the receiver ends the replay.
        drop(receiver);
    };
    let (outcome, ()) = tokio::join!(player.play(&engine, recording, options, events, &stop), forward_events);
    let PlayOutcome { problems, turns, learned } = outcome.map_err(Refusal::from)?;
    let learned = learned.filter(|_| update).map(|recording| pieces(&recording)).transpose()?;
    for data in learned.into_iter().flatten() {
        let _ = client.send(Ok(v1::PlayEvent { kind: Some(play_event::Kind::Data(data)) })).await;
    }
    let outcome = v1::PlayOutcome {
        problems: problems.into_iter().map(problem).collect(),
        turns: u32::try_from(turns).unwrap_or(u32::MAX),
    };
    let _ = client.send(Ok(v1::PlayEvent { kind: Some(play_event::Kind::Outcome(outcome)) })).await;
    Ok(())
}

fn options(start: v1::PlayStart) -> Result<PlayOptions, Status> {
    let play = match (start.mode(), start.update) {
        (v1::PlayMode::Unspecified, false) => Play::Strict,
        (v1::PlayMode::Unspecified, true) => Play::Learn,
        (_, true) => {
            return Err(
                Refusal::invalid("only a replay with recorded answers and results can update its recording").into()
            );
        }
        (v1::PlayMode::LiveTools, false) => Play::LiveTools,
        (v1::PlayMode::LiveModel, false) => Play::LiveModel,
    };
    let project: Option<PathBuf> = start.project.map(absolute).transpose()?;
    Ok(PlayOptions { play, project, writable: start.writable, approve: start.approve })
}

/// Receives a recording. A recording is only replayed if it is complete.
async fn receive(
    mut parts: impl Stream<Item = Result<v1::PlayRequest, Status>> + Unpin,
) -> Result<(v1::PlayStart, Recording), Status> {
    let first = parts.next().await.transpose()?.and_then(|request| request.part);
    let Some(play_request::Part::Start(start)) = first else {
        return Err(Refusal::invalid("the first message of a replay must be its start").into());
    };
    let mut text = Vec::new();
    while let Some(request) = parts.next().await {
        let Some(play_request::Part::Data(data)) = request?.part else {
            return Err(Refusal::invalid("only pieces of the recording may follow the start of a replay").into());
        };
        if text.len() + data.len() > MAX_RECORDING {
            let message = format!("the recording is larger than {} MiB", MAX_RECORDING >> 20);
            return Err(Refusal::invalid(message).into());
        }
        text.extend_from_slice(&data);
    }
    let text = String::from_utf8(text).map_err(|_| Refusal::invalid("the recording is not UTF-8"))?;
    let read = tokio::task::spawn_blocking(move || agentd_replay::read(&text)).await;
    let read = read.map_err(|_| Refusal::stopping())?;
    let recording = read.map_err(|error| {
        Refusal::invalid(error.to_string()).with_hint("`agentctl sessions record SESSION` creates a recording")
    })?;
    Ok((start, recording))
}

fn pieces(recording: &Recording) -> Result<Vec<Vec<u8>>, Status> {
    let text = agentd_replay::write(recording)
        .map_err(|error| Status::internal(format!("could not write the recording: {error}")))?;
    Ok(text.as_bytes().chunks(PIECE).map(<[u8]>::to_vec).collect())
}

fn problem(problem: PlayProblem) -> v1::PlayProblem {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let PlayProblem { turn, step, message, difference } = problem;
    let (place, diff) = difference.map(|difference| (difference.place, difference.diff)).unwrap_or_default();
    v1::PlayProblem { turn: number(turn), step: number(step), message, place, diff }
}

impl From<PlayError> for Refusal {
    fn from(error: PlayError) -> Self {
        let message = error.to_string();
        match error {
            PlayError::Store(_) | PlayError::Folder(_) => Self::new(ErrorKind::Storage, message),
            PlayError::Recording(_) => Self::invalid(message).with_hint("record a shorter session"),
            PlayError::NoProject => Self::invalid(message).with_hint("pass one with -C DIR"),
            PlayError::Stopping => Self::stopping(),
            PlayError::Engine(engine) => engine.into(),
        }
    }
}

/// Maximum number of model exchanges in one request.
const MAX_EXCHANGES: usize = 16;

/// Hint on how to enable request logging.
const RECORD_HINT: &str = "record future requests with `agentctl run --trace` for a session, or with \
                   `trace: {requests: true}` in agentd.yaml for all";

service! { Traces:
    type ReadStream = ReplyStream<v1::TracePiece>;

    async fn read(&self, request: v1::ReadTraceRequest) -> Self::ReadStream {
        if request.numbers.len() > MAX_EXCHANGES {
            return Err(Refusal::invalid(format!("at most {MAX_EXCHANGES} exchanges can be read at once")).into());
        }
        let id = self.session_id(&request.session).await?;
        let view = self.engine.session(id).await?.show().await?;
        let owner = view.session.settings.files_of(id);
        let mut stored = self.parts().exchanges.read(owner, request.numbers).await?;
        if owner != id {
            stored.exchanges.retain(|exchange| exchange.source.session_id == id);
        }
        let pieces = stream_blocking(move |sink| {
            if let Err(error) = write_exchanges(&stored, sink) {
                tracing::debug!("a client did not read all exchanges: {error}");
            }
        });
        Ok(pieces.boxed())
    }
}

fn write_exchanges(stored: &StoredExchanges, sink: &BlockingSender<Result<v1::TracePiece, Status>>) -> io::Result<()> {
    let mut writer = PieceWriter::new(sink, |data| Ok(v1::TracePiece { part: Some(trace_piece::Part::Data(data)) }));
    for exchange in &stored.exchanges {
        serde_json::to_writer(&mut writer, exchange)?;
        writer.write_all(b"\n")?;
    }
    writer.flush()?;
    // If the summary is missing, the client detects that the output is incomplete.
    let summary = v1::TraceSummary { remarks: stored.remarks.clone() };
    sink.send(Ok(v1::TracePiece { part: Some(trace_piece::Part::Summary(summary)) }))
}

impl From<ReadFailure> for Refusal {
    fn from(failure: ReadFailure) -> Self {
        match failure {
            ReadFailure::NothingStored => {
                Self::new(ErrorKind::NotFound, "no requests of this session are stored").with_hint(RECORD_HINT)
            }
            ReadFailure::NoSuchNumber { number, stored: (first, last) } => {
                Self::new(ErrorKind::NotFound, format!("no request {number} in this session"))
                    .with_hint(format!("{first} to {last} are stored; `agentctl trace --requests` lists them"))
            }
            ReadFailure::Io(error) => Self::new(ErrorKind::Storage, format!("could not read the trace: {error}"))
                .with_hint("you must own the folder `traces` in the data folder, and it must be readable"),
        }
    }
}
