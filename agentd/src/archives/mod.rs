//! Export and import of sessions: the connection between the engine and archive files. [`export`] writes an archive or
//! events. This module imports an archive, or the history of another application.
//!
//! This module also moves bytes between a client's stream and a blocking thread, with bounded queues in both
//! directions. A client that stops reading or writing is disconnected after a time limit.

use std::{
    io::{self, Read, Write},
    time::Duration,
};

use agentd_archive::{
    ArchiveError, Manifest, Unpack,
    foreign::{self, ForeignFormat},
    unpack,
};
use agentd_core::{
    archive::{ImportReport, TreeFile},
    event::Event,
    ids::SessionId,
};
use agentd_engine::{Engine, SessionImport};
use tokio::{runtime::Handle, sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::failure::Refusal;

pub mod export;

/// Maximum number of queued pieces.
pub const QUEUE: usize = 4;
/// Size of a piece in bytes.
const PIECE: usize = 256 << 10;
/// Time limit for a client to read or send the next piece. The limit is long, because users may view an export in a
/// pager.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(3600);

/// Sends values to a client from a blocking thread.
pub struct BlockingSender<T> {
    sender: mpsc::Sender<T>,
    runtime: Handle,
}

impl<T> BlockingSender<T> {
    /// Sends a value.
    ///
    /// # Errors
    /// Fails if the client has disconnected, or does not read within the time limit.
    pub fn send(&self, value: T) -> io::Result<()> {
        let result = self.runtime.block_on(timeout(CLIENT_TIMEOUT, self.sender.send(value)));
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client disconnected")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")),
        }
    }
}

/// Runs blocking work, and returns a stream of the values that the work sends.
pub fn stream_blocking<T: Send + 'static>(work: impl FnOnce(&BlockingSender<T>) + Send + 'static) -> ReceiverStream<T> {
    let (sender, values) = mpsc::channel(QUEUE);
    let sink = BlockingSender { sender, runtime: Handle::current() };
    tokio::task::spawn_blocking(move || work(&sink));
    ReceiverStream::new(values)
}

/// Writer that sends bytes in pieces.
pub struct PieceWriter<'a, T> {
    sink: &'a BlockingSender<T>,
    wrap: fn(Vec<u8>) -> T,
    piece: Vec<u8>,
}

impl<'a, T> PieceWriter<'a, T> {
    /// Creates a writer that wraps each piece with `wrap`.
    pub fn new(sink: &'a BlockingSender<T>, wrap: fn(Vec<u8>) -> T) -> Self {
        Self { sink, wrap, piece: Vec::with_capacity(PIECE) }
    }
}

impl<T> Write for PieceWriter<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..count]);
        if self.piece.len() == PIECE {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        self.sink.send((self.wrap)(piece))
    }
}

/// Piece sent by a client, or `None` at the end. A stream without `None` is incomplete.
pub type SourcePiece = io::Result<Option<Vec<u8>>>;

/// Reads a client's pieces as one byte stream.
pub struct PieceReader {
    pieces: mpsc::Receiver<SourcePiece>,
    runtime: Handle,
    piece: io::Cursor<Vec<u8>>,
    is_finished: bool,
}

impl PieceReader {
    /// Creates a reader for this queue. Must be called inside a runtime, and the reader must be used on a blocking
    /// thread.
    pub fn new(pieces: mpsc::Receiver<SourcePiece>) -> Self {
        Self { pieces, runtime: Handle::current(), piece: io::Cursor::default(), is_finished: false }
    }
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || buffer.is_empty() || self.is_finished {
                return Ok(read);
            }
            match self.runtime.block_on(timeout(CLIENT_TIMEOUT, self.pieces.recv())) {
                Ok(Some(piece)) => match piece? {
                    Some(piece) => self.piece = io::Cursor::new(piece),
                    None => self.is_finished = true,
                },
                Ok(None) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the client disconnected")),
                Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped sending")),
            }
        }
    }
}

/// Number of events from a foreign history that are stored at a time.
const EVENT_BATCH: usize = 64;

impl From<ArchiveError> for Refusal {
    fn from(error: ArchiveError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: Some(error.hint().to_owned()) }
    }
}

/// Imports an archive. Blocks. Must be called inside a runtime.
///
/// # Errors
/// Returns the reason if the archive is rejected. In this case, nothing from the archive is stored.
pub fn archive(engine: Engine, source: impl Read, as_new: bool, client: String) -> Result<ImportReport, Refusal> {
    let mut incoming = IncomingArchive { engine, as_new, client, import: None, runtime: Handle::current() };
    let unpacked = unpack(source, &mut incoming);
    let IncomingArchive { import, runtime, .. } = incoming;
    let Some(import) = import else {
        unpacked?;
        return Err(ArchiveError::Cut.into());
    };
    match unpacked {
        Ok(()) => Ok(runtime.block_on(import.finish())?),
        Err(refusal) => {
            runtime.block_on(import.abandon());
            Err(refusal)
        }
    }
}

/// Imports the history of another application. Blocks. Must be called inside a runtime.
///
/// # Errors
/// Same as [`archive`].
pub fn foreign(
    engine: Engine,
    source: impl Read,
    format: ForeignFormat,
    as_new: bool,
    client: String,
) -> Result<ImportReport, Refusal> {
    let runtime = Handle::current();
    let history = foreign::read(source, format)?;
    let session = history.session.id;
    let import = runtime.block_on(engine.begin_import(vec![history.session], as_new))?;
    let mut import = import.without_usage().with_origin(format.program(), &client);
    let mut events = history.events.into_iter();
    loop {
        // The batches are small, because other tasks also write to the journal.
        let batch: Vec<Event> = events.by_ref().take(EVENT_BATCH).collect();
        if batch.is_empty() {
            break;
        }
        if let Err(error) = runtime.block_on(import.add(session, batch)) {
            runtime.block_on(import.abandon());
            return Err(error.into());
        }
    }
    let report = runtime.block_on(import.finish())?;
    Ok(ImportReport { left_out: history.left_out, ..report })
}

/// Archive that is being imported.
struct IncomingArchive {
    engine: Engine,
    as_new: bool,
    client: String,
    import: Option<SessionImport>,
    runtime: Handle,
}

impl IncomingArchive {
    fn import(&mut self) -> Result<&mut SessionImport, Refusal> {
        self.import.as_mut().ok_or_else(|| ArchiveError::Foreign("it does not begin with a manifest").into())
    }
}

impl Unpack for IncomingArchive {
    type Error = Refusal;

    fn manifest(&mut self, manifest: &Manifest) -> Result<(), Refusal> {
        let import = self.engine.begin_import(manifest.sessions.clone(), self.as_new);
        let import = self.runtime.block_on(import)?;
        self.import = Some(import.with_origin(&manifest.made_by, &self.client));
        Ok(())
    }

    fn events(&mut self, session: SessionId, events: Vec<Event>) -> Result<(), Refusal> {
        let runtime = self.runtime.clone();
        Ok(runtime.block_on(self.import()?.add(session, events))?)
    }

    fn file(&mut self, file: &TreeFile, content: &mut dyn Read) -> Result<(), Refusal> {
        Ok(self.import()?.add_file(file, content)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn upload_ends_only_with_an_explicit_end() {
        for has_end_marker in [true, false] {
            let (sender, pieces) = mpsc::channel(QUEUE);
            let mut reader = PieceReader::new(pieces);
            sender.send(Ok(Some(b"half".to_vec()))).await.unwrap();
            if has_end_marker {
                sender.send(Ok(None)).await.unwrap();
            }
            drop(sender);
            let read = tokio::task::spawn_blocking(move || {
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes).map_err(|error| error.kind())
            });
            let expected = if has_end_marker { Ok(4) } else { Err(io::ErrorKind::UnexpectedEof) };
            assert_eq!(read.await.unwrap(), expected);
        }
    }
}
