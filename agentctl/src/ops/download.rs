//! Files of a session, from the daemon.

use std::io;

use agentd_core::{error::ErrorKind, files::FilePiece};
use agentd_proto::client::Client;

use crate::failure::Failure;

/// Hands the pieces of a file on, one after the other. A file that changes meanwhile is none that anybody wrote.
///
/// # Errors
/// When it cannot be read, or was changed meanwhile.
pub(crate) async fn each_piece(
    client: &Client,
    session: &str,
    path: &str,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> anyhow::Result<u64> {
    let mut first: Option<FilePiece> = None;
    let mut offset = 0;
    loop {
        let piece = client.read_file(session, path, offset).await?;
        if first.as_ref().is_some_and(|first| (first.size, first.modified) != (piece.size, piece.modified)) {
            return Err(Failure::new(ErrorKind::Conflict, format!("{path} was changed while it was being read"))
                .hint("get it again")
                .into());
        }
        if piece.content.is_empty() {
            return Ok(offset);
        }
        take(&piece.content)?;
        offset += piece.content.len() as u64;
        if offset >= piece.size {
            return Ok(offset);
        }
        first.get_or_insert(FilePiece { content: Vec::new(), ..piece });
    }
}
