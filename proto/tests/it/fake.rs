//! A small server with the services of the protocol, over a real socket.

use std::path::{Path, PathBuf};

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    ids::{SessionId, TurnId},
    turn::TurnResult,
};
use agentd_proto::{
    MAX_MESSAGE_BYTES, PROTOCOL_VERSION, SESSION_ID_HEADER, TURN_ID_HEADER,
    socket::bind,
    status::to_status,
    v1::{
        self,
        daemon_server::{Daemon, DaemonServer},
        turn_request::Command,
        turns_server::{Turns, TurnsServer},
    },
};
use futures_util::{StreamExt as _, stream::BoxStream};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::samples;

/// What a turn stream of this server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// One warning for every command.
    Echo,
    /// Two events that the client cannot know, then the end.
    Newer,
    /// One event, then the daemon stops.
    Stopping,
}

#[derive(Clone)]
struct Fake {
    manners: Manners,
    protocol_version: u32,
}

pub(crate) struct FakeDaemon {
    _home: TempDir,
    path: PathBuf,
    server: JoinHandle<()>,
}

impl FakeDaemon {
    pub(crate) async fn start(manners: Manners) -> Self {
        Self::start_with(manners, PROTOCOL_VERSION).await
    }

    pub(crate) async fn start_with(manners: Manners, protocol_version: u32) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("agentd.sock");
        let server = Self::serve(&path, Fake { manners, protocol_version }).await;
        Self { _home: home, path, server }
    }

    async fn serve(path: &Path, fake: Fake) -> JoinHandle<()> {
        let (incoming, _) = bind(path).await.unwrap();
        let router = Server::builder()
            .add_service(TurnsServer::new(fake.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES))
            .add_service(DaemonServer::new(fake));
        tokio::spawn(async move { router.serve_with_incoming(incoming.into_stream()).await.unwrap() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the listener; connections that are open stay so.
    pub(crate) async fn stop_listening(&mut self) {
        self.server.abort();
        let _aborted = (&mut self.server).await;
    }
}

type EventStream = BoxStream<'static, Result<v1::Event, Status>>;

fn warning(session_id: SessionId, turn: TurnId, message: &str) -> v1::Event {
    let kind = EventKind::Warning { code: "echo".into(), message: message.into() };
    (&Event { session_id, turn_id: Some(turn), ..samples::event(kind) }).into()
}

fn ended(session_id: SessionId, turn_id: TurnId) -> v1::Event {
    let result = TurnResult { turn_id, ..samples::results().remove(0) };
    let kind = EventKind::TurnEnded { result: Box::new(result) };
    (&Event { session_id, turn_id: Some(turn_id), ..samples::event(kind) }).into()
}

#[tonic::async_trait]
impl Turns for Fake {
    type TurnStream = EventStream;
    type SubscribeStream = EventStream;

    async fn turn(&self, request: Request<Streaming<v1::TurnRequest>>) -> Result<Response<EventStream>, Status> {
        let mut frames = request.into_inner();
        let Some(Command::Start(start)) = frames.message().await?.and_then(|frame| frame.command) else {
            return Err(Status::invalid_argument("no start"));
        };
        if start.session == "missing" {
            return Err(to_status(ErrorKind::NotFound, "there is no session \"missing\"", Some("list them")));
        }
        let (session, turn) = (SessionId::generate(), TurnId::generate());
        let first = warning(session, turn, "started");
        let events: EventStream = match self.manners {
            Manners::Echo => echo(frames, session, turn),
            Manners::Newer => {
                let unknown = v1::Event { kind: None, ..first.clone() };
                let (request_id, path) = ("file-1".into(), "a.txt".into());
                let asks = v1::event::FileRequested { request_id, path, action: None };
                let newer = v1::Event { kind: Some(v1::event::Kind::FileRequested(asks)), ..first };
                let events = [unknown.clone(), newer, unknown, ended(session, turn)];
                futures_util::stream::iter(events.map(Ok)).boxed()
            }
            Manners::Stopping => {
                let stop = to_status(ErrorKind::ShuttingDown, "the daemon is stopping", None);
                futures_util::stream::iter([Ok(first), Err(stop)]).boxed()
            }
        };
        let mut response = Response::new(events);
        response.metadata_mut().insert(SESSION_ID_HEADER, session.to_string().parse().unwrap());
        response.metadata_mut().insert(TURN_ID_HEADER, turn.to_string().parse().unwrap());
        Ok(response)
    }

    async fn subscribe(&self, _: Request<v1::SubscribeRequest>) -> Result<Response<EventStream>, Status> {
        Ok(Response::new(futures_util::stream::empty().boxed()))
    }

    async fn steer_turn(&self, _: Request<v1::SteerTurnRequest>) -> Result<Response<v1::SteerTurnResponse>, Status> {
        Ok(Response::new(v1::SteerTurnResponse {}))
    }

    async fn cancel_turn(&self, _: Request<v1::CancelTurnRequest>) -> Result<Response<v1::CancelTurnResponse>, Status> {
        Err(to_status(ErrorKind::Conflict, "no turn is running", None))
    }
}

/// Says every command back.
fn echo(frames: Streaming<v1::TurnRequest>, session: SessionId, turn: TurnId) -> EventStream {
    futures_util::stream::unfold(frames, move |mut frames| async move {
        let frame = frames.message().await.ok().flatten()?;
        let said = match frame.command? {
            Command::Steer(steer) => format!("steer {} bytes", steer.text.len()),
            other => format!("{other:?}"),
        };
        Some((Ok(warning(session, turn, &said)), frames))
    })
    .boxed()
}

#[tonic::async_trait]
impl Daemon for Fake {
    async fn hello(&self, _: Request<v1::HelloRequest>) -> Result<Response<v1::HelloResponse>, Status> {
        let protocol_version = self.protocol_version;
        Ok(Response::new(v1::HelloResponse {
            protocol_version,
            version: "9.9.9".into(),
            pid: 42,
            environment: Vec::new(),
            data_dir: String::new(),
            variables: Vec::new(),
            salt: Vec::new(),
            started_with: Vec::new(),
        }))
    }

    type WatchStream = BoxStream<'static, Result<v1::WatchEvent, Status>>;

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let unknown = v1::WatchEvent { kind: None };
        let reloaded = v1::watch_event::Kind::ConfigReloaded(v1::watch_event::ConfigReloaded {});
        let known = v1::WatchEvent { kind: Some(reloaded) };
        let end = v1::watch_event::TurnOver {
            session_id: SessionId::generate().to_string(),
            turn_id: TurnId::generate().to_string(),
            stop_reason: i32::MAX,
            ..Default::default()
        };
        let end = v1::WatchEvent { kind: Some(v1::watch_event::Kind::TurnEnded(end)) };
        Ok(Response::new(futures_util::stream::iter([unknown, known, end].map(Ok)).boxed()))
    }

    async fn examine(&self, _: Request<v1::ExamineRequest>) -> Result<Response<v1::ExamineResponse>, Status> {
        Ok(Response::new(v1::ExamineResponse::default()))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        Ok(Response::new(v1::StatusResponse { pid: 42, ..Default::default() }))
    }

    async fn models(&self, _: Request<v1::ModelsRequest>) -> Result<Response<v1::ModelsResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn list_models(&self, _: Request<v1::ListModelsRequest>) -> Result<Response<v1::ListModelsResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    type TestModelStream = BoxStream<'static, Result<v1::TestModelResponse, Status>>;

    async fn test_model(&self, _: Request<v1::TestModelRequest>) -> Result<Response<Self::TestModelStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn tools(&self, _: Request<v1::ToolsRequest>) -> Result<Response<v1::ToolsResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn agents(&self, _: Request<v1::AgentsRequest>) -> Result<Response<v1::AgentsResponse>, Status> {
        Err(Status::unimplemented("not faked"))
    }

    async fn stop(&self, _: Request<v1::StopRequest>) -> Result<Response<v1::StopResponse>, Status> {
        Ok(Response::new(v1::StopResponse { pid: 42 }))
    }

    async fn reload(&self, _: Request<v1::ReloadRequest>) -> Result<Response<v1::ReloadResponse>, Status> {
        Err(to_status(ErrorKind::Configuration, "agentd.yaml:3:5: unknown key", Some("did you mean `model`?")))
    }

    async fn config(&self, _: Request<v1::ConfigRequest>) -> Result<Response<v1::ConfigResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}
