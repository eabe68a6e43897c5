//! Requests to models and their answers, as they were on the wire.

use std::io::{self, Write as _};

use agentd_core::{error::ErrorKind, exchange::KeptExchanges};
use agentd_exchange::ReadFailure;
use agentd_proto::v1::{self, trace_piece::Part, traces_server::Traces};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use super::{Context, Refusal};
use crate::archives::pipe::{Outlet, PieceWriter, QUEUE};

/// Exchanges that are read at once.
const MAX_NUMBERS: usize = 16;

/// Hint on how to have requests kept.
const HOW: &str = "only what is sent from then on can be kept: `agentctl run --trace` does it for a session, \
                   `trace: {requests: true}` in agentd.yaml for all";

type Piece = Result<v1::TracePiece, Status>;

#[tonic::async_trait]
impl Traces for Context {
    type ReadStream = BoxStream<'static, Piece>;

    async fn read(&self, request: Request<v1::ReadTraceRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let v1::ReadTraceRequest { session, numbers } = request.into_inner();
        if numbers.len() > MAX_NUMBERS {
            return Err(Refusal::invalid(format!("at most {MAX_NUMBERS} exchanges are read at once")).into());
        }
        let id = self.session_id(&session).await?;
        let stored = self.engine.session(id).await.map_err(Refusal::from)?.show().await.map_err(Refusal::from)?;
        let owner = stored.session.settings.files_of(id);
        let log = self.control.exchanges().ok_or_else(|| Refusal::from(ReadFailure::NothingKept))?;
        let mut kept = log.read(owner, numbers).await.map_err(Refusal::from)?;
        if owner != id {
            kept.exchanges.retain(|exchange| exchange.source.session_id == id);
        }
        let (sender, pieces) = mpsc::channel(QUEUE);
        let outlet = Outlet::new(sender);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = write(&kept, &outlet) {
                tracing::debug!("a client did not read all exchanges: {error}");
            }
        });
        let pieces = stream::unfold(pieces, |mut pieces| async move { Some((pieces.recv().await?, pieces)) });
        Ok(Response::new(pieces.boxed()))
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
        match failure {
            ReadFailure::NothingKept => Self {
                kind: ErrorKind::NotFound,
                message: "no requests of this session are kept".to_owned(),
                hint: Some(HOW.to_owned()),
            },
            ReadFailure::NoSuchNumber { number, kept: (first, last) } => Self {
                kind: ErrorKind::NotFound,
                message: format!("there is no request {number} of this session"),
                hint: Some(format!("{first} to {last} are kept; `agentctl trace --requests` lists them")),
            },
            ReadFailure::Io(error) => Self {
                kind: ErrorKind::Storage,
                message: format!("could not read the trace: {error}"),
                hint: Some("the folder `traces` in the data folder must be yours and readable".to_owned()),
            },
        }
    }
}
