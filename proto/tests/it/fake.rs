//! A small server that implements the protocol's services over a real socket.

use std::path::{Path, PathBuf};

use agentd_core::{
    event::{Event, EventKind},
    ids::{SessionId, TurnId},
    turn::TurnResult,
};
use agentd_proto::{
    SESSION_ID_HEADER, TURN_ID_HEADER,
    socket::bind,
    v1::{
        self,
        daemon_server::{Daemon, DaemonServer},
        turns_server::{Turns, TurnsServer},
    },
};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tempfile::TempDir;
use tonic::{Request, Response, Status, Streaming, transport::Server};

use crate::samples;

/// A daemon of another version that sends messages unknown to its client.
#[derive(Clone)]
struct Fake {
    protocol_version: u32,
}

pub(crate) struct FakeDaemon {
    _home: TempDir,
    path: PathBuf,
}

impl FakeDaemon {
    pub(crate) async fn start(protocol_version: u32) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("agentd.sock");
        let (incoming, _) = bind(&path).await.unwrap();
        let fake = Fake { protocol_version };
        let router = Server::builder().add_service(TurnsServer::new(fake.clone())).add_service(DaemonServer::new(fake));
        tokio::spawn(async move { router.serve_with_incoming(incoming.into_stream()).await.unwrap() });
        Self { _home: home, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

type EventStream = BoxStream<'static, Result<v1::Event, Status>>;

#[tonic::async_trait]
impl Turns for Fake {
    type TurnStream = EventStream;
    type SubscribeStream = EventStream;

    /// Sends two events of unknown kinds, then the end.
    async fn turn(&self, _: Request<Streaming<v1::TurnRequest>>) -> Result<Response<EventStream>, Status> {
        let (session_id, turn_id) = (SessionId::generate(), TurnId::generate());
        let result = Box::new(TurnResult { turn_id, ..samples::results().remove(0) });
        let kind = EventKind::TurnEnded { result };
        let ended = v1::Event::from(&Event { session_id, turn_id: Some(turn_id), ..samples::event(kind) });
        let unknown = v1::Event { kind: None, ..ended.clone() };
        let (request_id, path) = ("file-1".into(), "a.txt".into());
        let asks = v1::event::FileRequested { request_id, path, action: None };
        let newer = v1::Event { kind: Some(v1::event::Kind::FileRequested(asks)), ..ended.clone() };
        let mut response = Response::new(stream::iter([unknown.clone(), newer, unknown, ended].map(Ok)).boxed());
        response.metadata_mut().insert(SESSION_ID_HEADER, session_id.to_string().parse().unwrap());
        response.metadata_mut().insert(TURN_ID_HEADER, turn_id.to_string().parse().unwrap());
        Ok(response)
    }

    async fn subscribe(&self, _: Request<v1::SubscribeRequest>) -> Result<Response<EventStream>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn steer_turn(&self, _: Request<v1::SteerTurnRequest>) -> Result<Response<v1::SteerTurnResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn cancel_turn(&self, _: Request<v1::CancelTurnRequest>) -> Result<Response<v1::CancelTurnResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

#[tonic::async_trait]
impl Daemon for Fake {
    async fn hello(&self, _: Request<v1::HelloRequest>) -> Result<Response<v1::HelloResponse>, Status> {
        let (protocol_version, version) = (self.protocol_version, "9.9.9".into());
        Ok(Response::new(v1::HelloResponse { protocol_version, version, pid: 42, ..Default::default() }))
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
        Ok(Response::new(stream::iter([unknown, known, end].map(Ok)).boxed()))
    }

    async fn examine(&self, _: Request<v1::ExamineRequest>) -> Result<Response<v1::ExamineResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        Err(Status::unimplemented("not here"))
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
        Err(Status::unimplemented("not here"))
    }

    async fn stop(&self, _: Request<v1::StopRequest>) -> Result<Response<v1::StopResponse>, Status> {
        Ok(Response::new(v1::StopResponse { pid: 42 }))
    }

    async fn reload(&self, _: Request<v1::ReloadRequest>) -> Result<Response<v1::ReloadResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn config(&self, _: Request<v1::ConfigRequest>) -> Result<Response<v1::ConfigResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}
