//! Requests to models and their answers, as they were on the wire.

use std::io::{self, Write as _};

use agentd_core::{error::ErrorKind, exchange::KeptExchanges};
use agentd_exchange::ReadFailure;
use agentd_proto::v1::{self, trace_piece::Part, traces_server::Traces};
use futures_util::StreamExt as _;
use tonic::Status;

use super::{Refusal, ReplyStream};
use crate::archives::{Outlet, PieceWriter, poured};

/// Exchanges that are read at once.
const MAX_NUMBERS: usize = 16;

/// Hint on how to have requests kept.
const HOW: &str = "only what is sent from then on can be kept: `agentctl run --trace` does it for a session, \
                   `trace: {requests: true}` in agentd.yaml for all";

type Piece = Result<v1::TracePiece, Status>;

service! { Traces:
    type ReadStream = ReplyStream<v1::TracePiece>;

    async fn read(&self, request: v1::ReadTraceRequest) -> Self::ReadStream {
        if request.numbers.len() > MAX_NUMBERS {
            return Err(Refusal::invalid(format!("at most {MAX_NUMBERS} exchanges are read at once")).into());
        }
        let id = self.session_id(&request.session).await?;
        let stored = self.engine.session(id).await?.show().await?;
        let owner = stored.session.settings.files_of(id);
        let mut kept = self.parts()?.exchanges.read(owner, request.numbers).await?;
        if owner != id {
            kept.exchanges.retain(|exchange| exchange.source.session_id == id);
        }
        let pieces = poured(move |outlet| {
            if let Err(error) = write(&kept, outlet) {
                tracing::debug!("a client did not read all exchanges: {error}");
            }
        });
        Ok(pieces.boxed())
    }
}

fn write(kept: &KeptExchanges, outlet: &Outlet<Piece>) -> io::Result<()> {
    let mut writer = PieceWriter::new(outlet, |data| Ok(v1::TracePiece { part: Some(Part::Data(data)) }));
    for exchange in &kept.exchanges {
        serde_json::to_writer(&mut writer, exchange)?;
        writer.write_all(b"\n")?;
    }
    writer.flush()?;
    // Without it the client knows that something is missing.
    let summary = v1::TraceSummary { remarks: kept.remarks.clone() };
    outlet.send(Ok(v1::TracePiece { part: Some(Part::Summary(summary)) }))
}

impl From<ReadFailure> for Refusal {
    fn from(failure: ReadFailure) -> Self {
        let refusal = |kind, message: String, hint: String| Self::new(kind, message).with_hint(hint);
        match failure {
            ReadFailure::NothingKept => {
                refusal(ErrorKind::NotFound, "no requests of this session are kept".to_owned(), HOW.to_owned())
            }
            ReadFailure::NoSuchNumber { number, kept: (first, last) } => refusal(
                ErrorKind::NotFound,
                format!("there is no request {number} of this session"),
                format!("{first} to {last} are kept; `agentctl trace --requests` lists them"),
            ),
            ReadFailure::Io(error) => refusal(
                ErrorKind::Storage,
                format!("could not read the trace: {error}"),
                "the folder `traces` in the data folder must be yours and readable".to_owned(),
            ),
        }
    }
}
