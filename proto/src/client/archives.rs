//! Calls about sessions that travel.

use agentd_core::{archive::ImportReport, error::ErrorKind, event::Event, session::SessionSummary};
use futures_util::{StreamExt as _, stream};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;

use super::{Client, ClientError, ClientErrorKind};
use crate::{
    MAX_CHUNK_BYTES, MAX_MESSAGE_BYTES,
    v1::{self, archives_client::ArchivesClient, export_piece, import_piece::Part},
    view::ExportedContent,
};

/// Pieces of an archive that may wait to be sent.
const QUEUE: usize = 4;

/// Part of a session that is read.
#[derive(Debug, Clone, PartialEq)]
pub enum ExportPart {
    /// Its summary for lists; first.
    Session(Box<SessionSummary>),
    /// The next bytes of the archive.
    Data(Vec<u8>),
    /// The next event.
    Event(Box<Event>),
    /// Content of the archive; last.
    Content(ExportedContent),
}

/// A session that is being read.
#[derive(Debug)]
pub struct ExportStream {
    pieces: tonic::Streaming<v1::ExportPiece>,
}

impl ExportStream {
    /// The next part; none at the end.
    ///
    /// # Errors
    /// When the session cannot be read to its end, or the connection fails.
    pub async fn next(&mut self) -> Result<Option<ExportPart>, ClientError> {
        while let Some(piece) = self.pieces.message().await? {
            let part = match piece.part {
                Some(export_piece::Part::Session(summary)) => ExportPart::Session(Box::new(summary.try_into()?)),
                Some(export_piece::Part::Data(data)) => ExportPart::Data(data),
                Some(export_piece::Part::Event(event)) => match Event::try_from(event) {
                    Ok(event) => ExportPart::Event(Box::new(event)),
                    Err(error) if error.is_unknown_kind() => continue,
                    Err(error) => return Err(error.into()),
                },
                Some(export_piece::Part::Summary(summary)) => ExportPart::Content(summary.into()),
                None => continue,
            };
            return Ok(Some(part));
        }
        Ok(None)
    }
}

impl Client {
    fn archives_client(&self) -> ArchivesClient<tonic::transport::Channel> {
        ArchivesClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Reads a session as an archive.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    pub async fn export_archive(&self, session: &str, redact: bool) -> Result<ExportStream, ClientError> {
        self.export(session, v1::ExportForm::Archive, redact).await
    }

    /// Reads the stored events of a session, and those of the sessions that work for it.
    ///
    /// # Errors
    /// As of [`Self::export_archive`].
    pub async fn export_events(&self, session: &str, redact: bool) -> Result<ExportStream, ClientError> {
        self.export(session, v1::ExportForm::Events, redact).await
    }

    async fn export(&self, session: &str, form: v1::ExportForm, redact: bool) -> Result<ExportStream, ClientError> {
        let request = v1::ExportRequest { session: session.to_owned(), form: form.into(), redact };
        Ok(ExportStream { pieces: self.archives_client().export(request).await?.into_inner() })
    }

    /// Has the daemon take a session in: from an archive, or from the history of the program that `from` names.
    ///
    /// # Errors
    /// When it is refused, reading it fails, or the connection fails. Nothing of it is taken in then.
    pub async fn import(
        &self,
        content: impl AsyncRead + Send,
        from: Option<&str>,
        as_new: bool,
        client: &str,
    ) -> Result<ImportReport, ClientError> {
        let header = v1::ImportHeader { as_new, from: from.unwrap_or_default().to_owned(), client: client.to_owned() };
        let first = v1::ImportPiece { part: Some(Part::Header(header)) };
        let (pieces, queue) = mpsc::channel(QUEUE);
        let frames = stream::iter([first]).chain(ReceiverStream::new(queue));
        let mut archives = self.archives_client();
        let (read, answer) = tokio::join!(send(content, pieces), archives.import(frames));
        // A file that cannot be read is the cause where both failed.
        read?;
        Ok(answer?.into_inner().try_into()?)
    }
}

/// Reads a file piece by piece into the queue. Half a file must not be taken for a whole one, so a failure is told to the
/// daemon before the queue ends.
async fn send(content: impl AsyncRead, pieces: mpsc::Sender<v1::ImportPiece>) -> Result<(), ClientError> {
    let mut content = std::pin::pin!(content);
    loop {
        let mut piece = Vec::new();
        match (&mut content).take(MAX_CHUNK_BYTES as u64).read_to_end(&mut piece).await {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                let abort = v1::ImportPiece { part: Some(Part::Abort(v1::ImportAbort {})) };
                // Nobody listens where the call has ended.
                let _ended = pieces.send(abort).await;
                let message = format!("could not read the file to import: {error}");
                return Err(ClientError::new(ClientErrorKind::Answered(ErrorKind::InvalidInput), message));
            }
        }
        // The daemon that hangs up early says why in its answer.
        if pieces.send(v1::ImportPiece { part: Some(Part::Data(piece)) }).await.is_err() {
            return Ok(());
        }
    }
}
