//! The daemon itself.

use std::{process, time::Duration};

use agentd_core::environment::ClientEnvironment;
use agentd_proto::{
    PROTOCOL_VERSION,
    client::{ConfigView, DaemonStatus, RecoveredTurn},
    convert::{listed_slot, tested_slot},
    v1::{self, daemon_server::Daemon, test_model_response::Part},
};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tonic::{Request, Response, Status};

use super::{
    Context, Refusal,
    watching::{Watch, WatchStream},
};
use crate::model_test::ModelTest;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[tonic::async_trait]
impl Daemon for Context {
    async fn hello(&self, request: Request<v1::HelloRequest>) -> Result<Response<v1::HelloResponse>, Status> {
        let caller = request.into_inner();
        tracing::debug!(client = caller.client, version = caller.version, "a client connected");
        let (salt, started_with) = self.info.started_with.sent();
        Ok(Response::new(v1::HelloResponse {
            protocol_version: PROTOCOL_VERSION,
            version: VERSION.to_owned(),
            pid: process::id(),
            environment: ClientEnvironment::wanted(&self.control.passed_variables()),
            variables: self.control.mcp().variables(),
            data_dir: self.info.data_dir.to_str().unwrap_or_default().to_owned(),
            salt,
            started_with,
        }))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        let stats = self.engine.stats();
        let socket = self.info.socket.borrow().clone();
        let status = DaemonStatus {
            version: VERSION.to_owned(),
            pid: process::id(),
            uptime: self.info.started.elapsed(),
            resident_bytes: resident_bytes().await,
            live_sessions: stats.activity.sessions as u64,
            running_turns: stats.activity.open_turns as u64,
            waiting_turns: stats.activity.waiting_turns as u64,
            recovered: stats.recovered.iter().map(recovered).collect(),
            socket,
            data_dir: self.info.data_dir.clone(),
            config_sources: self.control.config_sources(),
            sandbox: match &self.info.sandbox {
                Some(sandbox) => Some(crate::sandbox::state(sandbox.status().await)),
                None => None,
            },
            problems: match &self.info.health {
                Some(health) => health.problems().await,
                None => Vec::new(),
            },
            language_servers: match self.info.languages.clone() {
                Some(languages) => {
                    tokio::task::spawn_blocking(move || crate::boot::language_servers(&languages)).await.ok()
                }
                None => None,
            },
        };
        Ok(Response::new((&status).into()))
    }

    async fn examine(&self, _: Request<v1::ExamineRequest>) -> Result<Response<v1::ExamineResponse>, Status> {
        let findings = match &self.info.health {
            Some(health) => health.examine().await,
            None => Vec::new(),
        };
        Ok(Response::new(v1::ExamineResponse { findings: findings.iter().map(Into::into).collect() }))
    }

    async fn models(&self, request: Request<v1::ModelsRequest>) -> Result<Response<v1::ModelsResponse>, Status> {
        let look_up = request.into_inner().look_up;
        let slots = if look_up { self.engine.models_looked_up().await } else { self.engine.models() };
        Ok(Response::new(v1::ModelsResponse { slots: slots.iter().map(Into::into).collect() }))
    }

    async fn list_models(
        &self,
        request: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        let models = self.engine.listed_models(listed_slot(&request.into_inner())?).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::ListModelsResponse { models: models.iter().map(Into::into).collect() }))
    }

    type TestModelStream = BoxStream<'static, Result<v1::TestModelResponse, Status>>;

    async fn test_model(
        &self,
        request: Request<v1::TestModelRequest>,
    ) -> Result<Response<Self::TestModelStream>, Status> {
        let test = ModelTest::new(self.engine.probed_model(tested_slot(&request.into_inner())?).await);
        let part = |part: Part| Ok(v1::TestModelResponse { part: Some(part) });
        let plan = part(Part::Plan((&test.plan()).into()));
        let checks = stream::unfold(test, move |mut test| async move {
            let check = test.next().await?;
            Some((part(Part::Check((&check).into())), test))
        });
        // A client that stays away for good must not hold the stop of the daemon.
        let ended = self.shutdown.clone().cancelled_owned();
        Ok(Response::new(stream::iter([plan]).chain(checks).take_until(ended).boxed()))
    }

    type WatchStream = WatchStream;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<WatchStream>, Status> {
        let watch = Watch::start(self.engine.clone(), request.into_inner(), self.shutdown.clone()).await?;
        Ok(Response::new(watch.into_stream()))
    }

    async fn tools(&self, request: Request<v1::ToolsRequest>) -> Result<Response<v1::ToolsResponse>, Status> {
        let session = match request.into_inner().session.as_str() {
            "" => None,
            named => Some(self.session_id(named).await?),
        };
        let standings = self.engine.tool_standings(session).await.map_err(Refusal::from)?;
        let shown = standings.iter().filter(|standing| standing.visible);
        Ok(Response::new(v1::ToolsResponse {
            tools: shown.map(|standing| (&standing.tool.spec).into()).collect(),
            standings: standings.iter().map(Into::into).collect(),
        }))
    }

    async fn agents(&self, _: Request<v1::AgentsRequest>) -> Result<Response<v1::AgentsResponse>, Status> {
        Ok(Response::new(v1::AgentsResponse { agents: self.engine.agents().iter().map(Into::into).collect() }))
    }

    async fn stop(&self, request: Request<v1::StopRequest>) -> Result<Response<v1::StopResponse>, Status> {
        self.control.stop(request.into_inner().drain_ms.map(Duration::from_millis));
        Ok(Response::new(v1::StopResponse { pid: process::id() }))
    }

    async fn reload(&self, _: Request<v1::ReloadRequest>) -> Result<Response<v1::ReloadResponse>, Status> {
        let reloaded = self.control.reload().await?;
        Ok(Response::new(v1::ReloadResponse { config_sources: reloaded.config_sources, notes: reloaded.notes }))
    }

    async fn config(&self, _: Request<v1::ConfigRequest>) -> Result<Response<v1::ConfigResponse>, Status> {
        let chain = self.engine.chain().into_iter();
        let view = ConfigView {
            sources: self.control.config_sources(),
            origins: self.control.config_origins(),
            chain: chain.map(|(name, about)| (name.to_owned(), about.to_owned())).collect(),
        };
        Ok(Response::new((&view).into()))
    }
}

fn recovered(turn: &agentd_engine::recovery::RecoveredTurn) -> RecoveredTurn {
    RecoveredTurn {
        session_id: turn.session_id,
        turn_id: turn.turn_id,
        finished: turn.finished.clone(),
        never_ran: turn.never_ran.clone(),
        unknown: turn.unknown.clone(),
        goes_on: turn.goes_on,
    }
}

/// The memory that this process holds, where the system has a file that says so.
async fn resident_bytes() -> Option<u64> {
    let status = tokio::fs::read_to_string("/proc/self/status").await.ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
