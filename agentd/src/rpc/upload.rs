//! Receiving a file in pieces.

use agentd_core::error::ErrorKind;
use agentd_proto::{
    MAX_CHUNK_BYTES, MAX_UPLOAD_BYTES,
    v1::{UploadChunk, upload_chunk::Part},
};
use futures_util::{Stream, StreamExt as _};
use tonic::Status;

use super::Refusal;

/// A whole file and where it goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Upload {
    /// The session's id or unique prefix.
    pub(super) session: String,
    /// The file's name.
    pub(super) name: String,
    /// Destination, if not `uploads/`.
    pub(super) path: Option<String>,
    /// Its content.
    pub(super) content: Vec<u8>,
}

/// Receives a file. Nothing of it is kept unless all of it came.
pub(super) async fn receive(
    mut chunks: impl Stream<Item = Result<UploadChunk, Status>> + Unpin,
) -> Result<Upload, Status> {
    let first = chunks.next().await.transpose()?.and_then(|chunk| chunk.part);
    let Some(Part::Header(header)) = first else {
        return Err(Refusal::invalid("the first chunk of an upload must be its header").into());
    };
    let mut upload = Upload { session: header.session, name: header.name, path: header.path, content: Vec::new() };
    while let Some(chunk) = chunks.next().await {
        match chunk?.part {
            Some(Part::Data(data)) => add(&mut upload.content, &data)?,
            Some(Part::Abort(_)) => return Err(Refusal::invalid("the client gave up the upload").into()),
            Some(Part::Header(_)) => {
                return Err(Refusal::invalid("an upload has one header, and this is the second").into());
            }
            None => return Err(Refusal::invalid("the upload has a chunk of a kind that is not known here").into()),
        }
    }
    Ok(upload)
}

fn add(content: &mut Vec<u8>, data: &[u8]) -> Result<(), Refusal> {
    let too_large = |what: &str, limit: usize| Refusal {
        kind: ErrorKind::InvalidInput,
        message: format!("{what} is larger than {} MiB", limit / 1024 / 1024),
        hint: None,
    };
    if data.len() > MAX_CHUNK_BYTES {
        return Err(too_large("a chunk of the upload", MAX_CHUNK_BYTES).with_hint("send the file in smaller chunks"));
    }
    if content.len() + data.len() > MAX_UPLOAD_BYTES {
        return Err(too_large("the upload", MAX_UPLOAD_BYTES)
            .with_hint("let the session see the folder that holds the file instead"));
    }
    content.extend_from_slice(data);
    Ok(())
}
