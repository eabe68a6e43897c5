//! Requests to models and their answers, as they were on the wire.

use agentd_core::{
    error::ErrorKind,
    exchange::{Exchange, KeptExchanges},
};

use super::{Client, ClientError, ClientErrorKind};
use crate::{
    MAX_MESSAGE_BYTES,
    v1::{self, trace_piece::Part, traces_client::TracesClient},
};

/// Bytes of exchanges that are read at once.
const MAX_TRACE_BYTES: usize = 256 << 20;

impl Client {
    /// Reads exchanges of a session: those with these numbers, or all without their bodies where none is given.
    ///
    /// # Errors
    /// When nothing is kept of the session, there is no exchange of a number, or the connection fails.
    pub async fn exchanges(&self, session: &str, numbers: &[u64]) -> Result<KeptExchanges, ClientError> {
        let mut client = TracesClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let request = v1::ReadTraceRequest { session: session.to_owned(), numbers: numbers.to_vec() };
        let mut pieces = client.read(request).await?.into_inner();
        let mut text = Vec::new();
        while let Some(piece) = pieces.message().await? {
            match piece.part {
                Some(Part::Data(data)) if text.len() + data.len() <= MAX_TRACE_BYTES => text.extend(data),
                Some(Part::Data(_)) => return Err(unreadable("the exchanges have more than 256 MiB")),
                Some(Part::Summary(v1::TraceSummary { remarks })) => {
                    return Ok(KeptExchanges { exchanges: parsed(&text)?, remarks });
                }
                None => {}
            }
        }
        Err(unreadable("the daemon ended the list of exchanges too early"))
    }
}

fn parsed(text: &[u8]) -> Result<Vec<Exchange>, ClientError> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(serde_json::from_slice)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(&format!("an exchange cannot be read: {error}")))
}

fn unreadable(why: &str) -> ClientError {
    ClientError::new(ClientErrorKind::Answered(ErrorKind::Internal), why)
}
