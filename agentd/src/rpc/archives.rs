//! Sessions that leave, and that come.

use std::io;

use agentd_archive::foreign::ForeignFormat;
use agentd_core::error::ErrorKind;
use agentd_proto::{
    MAX_CHUNK_BYTES,
    client::ExportedContent,
    v1::{self, ExportForm, archives_server::Archives, export_piece, import_piece::Part},
};
use futures_util::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{Refusal, ReplyStream};
use crate::archives::{
    Outlet, PieceReader, PieceWriter, QUEUE, SourcePiece,
    export::{ExportFailure, Exporter},
    import, poured,
};

type Piece = Result<v1::ExportPiece, Status>;

service! { Archives:
    type ExportStream = ReplyStream<v1::ExportPiece>;

    async fn export(&self, request: v1::ExportRequest) -> Self::ExportStream {
        let form = ExportForm::try_from(request.form)
            .map_err(|_| Refusal::invalid("the form of the export is of a kind that is not known here"))?;
        let id = self.session_id(&request.session).await?;
        let export = self.engine.export_session(id).await?;
        if let (Some(parent), true) = (export.summary.parent, form != ExportForm::Events) {
            return Err(Refusal::invalid("this session works for another one, and its files are that one's")
                .with_hint(format!("agentctl sessions export {parent} exports both"))
                .into());
        }
        let exporter = Exporter::new(self.engine.clone(), export, request.redact.then(|| self.control.redaction()));
        let summary = (&exporter.summary()).into();
        let pieces = poured(move |outlet| {
            let exported = outlet.send(Ok(piece(export_piece::Part::Session(summary))));
            let exported = exported.map_err(ExportFailure::from).and_then(|()| write(&exporter, form, outlet));
            match exported {
                Ok(()) => {}
                Err(ExportFailure::Io(error)) => tracing::debug!("an export ended early: {error}"),
                Err(ExportFailure::Engine(error)) => {
                    // Whoever does not read any more need not know.
                    let _gone = outlet.send(Err(Refusal::from(error).into()));
                }
            }
        });
        Ok(pieces.boxed())
    }

    async fn import(&self, request: Streaming<v1::ImportPiece>) -> v1::ImportResponse {
        let mut pieces = request;
        let first = pieces.next().await.transpose()?.and_then(|piece| piece.part);
        let Some(Part::Header(v1::ImportHeader { as_new, from, client })) = first else {
            return Err(Refusal::invalid("the first piece of an import must be its header").into());
        };
        let format = if from.is_empty() { None } else { Some(from.parse::<ForeignFormat>().map_err(unknown)?) };
        let (sender, queue) = mpsc::channel(QUEUE);
        let (engine, source) = (self.engine.clone(), PieceReader::new(queue));
        let importing = tokio::task::spawn_blocking(move || match format {
            None => import::archive(engine, source, as_new, client),
            Some(format) => import::foreign(engine, source, format, as_new, client),
        });
        hand_on(pieces, sender).await;
        let imported = importing.await.map_err(|error| {
            tracing::error!("an import ended early: {error}");
            Refusal::new(ErrorKind::Internal, "the import ended early")
        })?;
        Ok((&imported?).into())
    }
}

fn unknown(message: String) -> Refusal {
    Refusal::invalid(message).with_hint("--from takes claude-code, codex or opencode; without it an archive is read")
}

fn write(exporter: &Exporter, form: ExportForm, outlet: &Outlet<Piece>) -> Result<(), ExportFailure> {
    let content = if form == ExportForm::Events {
        let events =
            exporter.events(&mut |event| outlet.send(Ok(piece(export_piece::Part::Event((&event).into())))))?;
        ExportedContent { events, ..ExportedContent::default() }
    } else {
        exporter.archive(PieceWriter::new(outlet, |data| Ok(piece(export_piece::Part::Data(data)))))?
    };
    // Without it the client knows that something is missing.
    Ok(outlet.send(Ok(piece(export_piece::Part::Summary((&content).into()))))?)
}

fn piece(part: export_piece::Part) -> v1::ExportPiece {
    v1::ExportPiece { part: Some(part) }
}

/// Hands the client's pieces on, until it has no more or nobody takes them. Where this is dropped because the client is gone,
/// no end is told.
async fn hand_on(
    mut pieces: impl Stream<Item = Result<v1::ImportPiece, Status>> + Unpin,
    queue: mpsc::Sender<io::Result<SourcePiece>>,
) {
    while let Some(piece) = pieces.next().await {
        let piece = match piece.map(|piece| piece.part) {
            Ok(Some(Part::Data(data))) if data.len() <= MAX_CHUNK_BYTES => Ok(SourcePiece::Data(data)),
            Ok(Some(Part::Data(_))) => Err(io::Error::other("a piece of it is larger than 1 MiB")),
            Ok(Some(Part::Abort(_))) => Err(io::Error::other("the client gave up")),
            Ok(_) => Err(io::Error::other("a piece of it is of a kind that is not known here")),
            Err(status) => Err(io::Error::other(status.message().to_owned())),
        };
        let is_last = piece.is_err();
        if queue.send(piece).await.is_err() || is_last {
            return;
        }
    }
    // Where nobody takes it, the import has ended before.
    let _gone = queue.send(Ok(SourcePiece::End)).await;
}
