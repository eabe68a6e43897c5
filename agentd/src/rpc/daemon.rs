//! The daemon itself, its storage, and the token usage and cost of its model calls.
//!
//! `Watch` is one client's event stream for all sessions. It pulls events when the connection has capacity and
//! coalesces changes of a session: one read of the session's summary from the journal covers all of them. If the client
//! is slow, the oldest events are dropped and the client is notified of the loss. A slow client never delays a session.

use std::{
    collections::{BTreeSet, VecDeque},
    process,
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    environment::ClientEnvironment,
    event::{Event, EventKind},
    ids::{InterruptId, SessionId},
};
use agentd_engine::{Engine, MissedNews, NewsReader, SessionNews};
use agentd_lsp::FoundServer;
use agentd_proto::{
    PROTOCOL_VERSION,
    client::{ConfigView, DaemonStatus, LanguageServer, ReloadOutcome},
    convert::{Wire, or_default},
    v1::{
        self,
        daemon_server::Daemon,
        spending_server::Spending,
        storage_server::Storage,
        test_model_response::Part,
        watch_event::{ConfigReloaded, InterruptOver, Kind, Lagged, SessionDeleted, Snapshot, TurnBegan, TurnOver},
    },
};
use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use crate::{
    model_test::ModelTest,
    rpc::{Refusal, ReplyStream},
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Name of a request's slot in errors.
const SLOT: &str = "the model slot";

/// Maximum length of a client name in characters. Longer names are truncated.
const MAX_CLIENT_NAME: usize = 60;

service! { Daemon:
    type TestModelStream = ReplyStream<v1::TestModelResponse>;
    type WatchStream = WatchStream;

    async fn hello(&self, request: v1::HelloRequest) -> v1::HelloResponse {
        tracing::debug!(client = request.client, version = request.version, "a client connected");
        let (salt, started_with) = self.info.started_with.sent();
        Ok(v1::HelloResponse {
            protocol_version: PROTOCOL_VERSION,
            version: VERSION.to_owned(),
            pid: process::id(),
            environment: ClientEnvironment::wanted(&self.control.passed_variables()),
            variables: self.parts().mcp.variables(),
            data_dir: self.info.data_dir.to_str().unwrap_or_default().to_owned(),
            salt,
            started_with,
        })
    }

    async fn status(&self, _: v1::StatusRequest) -> v1::StatusResponse {
        let stats = self.engine.stats();
        let (socket, languages) = (self.info.socket.borrow().clone(), Arc::clone(&self.parts().languages));
        let to_view = |FoundServer { name, hint, .. }| LanguageServer { name, hint };
        let language_servers =
            tokio::task::spawn_blocking(move || languages.found().into_iter().map(to_view).collect());
        let status = DaemonStatus {
            version: VERSION.to_owned(),
            pid: process::id(),
            uptime: self.info.started.elapsed(),
            resident_bytes: resident_bytes().await,
            live_sessions: stats.activity.sessions as u64,
            running_turns: stats.activity.open_turns as u64,
            waiting_turns: stats.activity.waiting_turns as u64,
            recovered: stats.recovered,
            socket,
            data_dir: self.info.data_dir.clone(),
            config_sources: self.control.config_sources(),
            sandbox: Some(self.parts().sandbox.status().await),
            problems: self.info.health.problems().await,
            language_servers: language_servers.await.ok(),
        };
        Ok((&status).into())
    }

    async fn examine(&self, _: v1::ExamineRequest) -> v1::ExamineResponse {
        let findings = self.info.health.examine().await;
        Ok(v1::ExamineResponse { findings: findings.iter().map(Into::into).collect() })
    }

    async fn models(&self, request: v1::ModelsRequest) -> v1::ModelsResponse {
        let slots = match request.look_up {
            true => self.engine.look_up_models().await,
            false => self.engine.ports().models.list(),
        };
        Ok(v1::ModelsResponse { slots: slots.iter().map(Into::into).collect() })
    }

    async fn list_models(&self, request: v1::ListModelsRequest) -> v1::ListModelsResponse {
        let models = self.engine.ports().models.get(or_default(request.slot, SLOT)?).listed().await?;
        Ok(v1::ListModelsResponse { models: models.iter().map(Into::into).collect() })
    }

    async fn test_model(&self, request: v1::TestModelRequest) -> Self::TestModelStream {
        let test = ModelTest::new(self.engine.probed_model(or_default(request.slot, SLOT)?).await);
        let part = |part: Part| Ok(v1::TestModelResponse { part: Some(part) });
        let plan = part(Part::Plan((&test.plan()).into()));
        let checks = stream::unfold(test, move |mut test| async move {
            let check = test.next().await?;
            Some((part(Part::Check((&check).into())), test))
        });
        // A client that does not read must not delay the daemon's shutdown.
        let ended = self.shutdown.clone().cancelled_owned();
        Ok(stream::iter([plan]).chain(checks).take_until(ended).boxed())
    }

    async fn watch(&self, request: v1::WatchRequest) -> WatchStream {
        let watch = Watch::start(self.engine.clone(), request, self.shutdown.clone()).await?;
        Ok(watch.into_stream())
    }

    async fn tools(&self, request: v1::ToolsRequest) -> v1::ToolsResponse {
        let standings = self.engine.tool_standings(self.named_session(&request.session).await?).await?;
        let shown = standings.iter().filter(|standing| standing.visible);
        Ok(v1::ToolsResponse {
            tools: shown.map(|standing| (&standing.tool.spec).into()).collect(),
            standings: standings.iter().map(Into::into).collect(),
        })
    }

    async fn agents(&self, _: v1::AgentsRequest) -> v1::AgentsResponse {
        Ok(v1::AgentsResponse { agents: self.engine.config().agents.iter().map(Into::into).collect() })
    }

    async fn stop(&self, request: v1::StopRequest) -> v1::StopResponse {
        self.control.stop(request.drain_ms.map(Duration::from_millis));
        Ok(v1::StopResponse { pid: process::id() })
    }

    async fn reload(&self, _: v1::ReloadRequest) -> v1::ReloadResponse {
        let ReloadOutcome { config_sources, notes } = self.control.reload().await?;
        Ok(v1::ReloadResponse { config_sources, notes })
    }

    async fn config(&self, _: v1::ConfigRequest) -> v1::ConfigResponse {
        let chain = self.engine.chain().into_iter();
        let view = ConfigView {
            sources: self.control.config_sources(),
            origins: self.control.config_origins(),
            chain: chain.map(|(name, about)| (name.to_owned(), about.to_owned())).collect(),
        };
        Ok((&view).into())
    }
}

service! { Storage:
    async fn show(&self, _: v1::ShowStorageRequest) -> v1::ShowStorageResponse {
        Ok((&self.parts().retention.storage().await?).into())
    }

    async fn clean(&self, request: v1::CleanRequest) -> v1::CleanResponse {
        let client: String = request.client.chars().take(MAX_CLIENT_NAME).collect();
        let by = if client.is_empty() { "client" } else { client.as_str() };
        Ok((&self.parts().retention.clean(by, request.dry_run).await?).into())
    }
}

service! { Spending:
    async fn show(&self, request: v1::ShowSpendingRequest) -> v1::ShowSpendingResponse {
        Ok((&self.engine.usage(request.try_into()?).await?).into())
    }

    async fn counters(&self, request: v1::CountersRequest) -> v1::CountersResponse {
        let (since, until) = (Wire::from_wire(request.since, "since")?, Wire::from_wire(request.until, "until")?);
        let days = self.engine.ports().store.counters(since, until).await?;
        Ok(v1::CountersResponse { days: days.iter().map(Into::into).collect() })
    }
}

/// Returns the resident memory of this process in bytes, if the system reports it.
async fn resident_bytes() -> Option<u64> {
    let status = tokio::fs::read_to_string("/proc/self/status").await.ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

const DEFAULT_SESSIONS: usize = 100;

/// Maximum number of sessions in a snapshot.
const MAX_SESSIONS: usize = 1000;

/// Maximum number of questions and answers that a watch remembers, so that each is reported only once.
const MAX_SENT: usize = 1024;

/// Event stream of one `Watch` call.
pub(super) type WatchStream = ReplyStream<v1::WatchEvent>;

/// State of a watch, including events that are ready to be sent.
pub(super) struct Watch {
    engine: Engine,
    news: NewsReader,
    request: v1::WatchRequest,
    ready: VecDeque<Kind>,
    /// Sessions that have changed since they were last sent.
    changed: BTreeSet<SessionId>,
    /// Questions (false) and answers (true) that have already been sent, oldest first. The parent session of a subagent
    /// repeats the subagent's questions and answers.
    sent: VecDeque<(InterruptId, bool)>,
    shutdown: CancellationToken,
}

impl Watch {
    /// Starts a watch for future events.
    pub(super) async fn start(
        engine: Engine,
        request: v1::WatchRequest,
        shutdown: CancellationToken,
    ) -> Result<Self, Refusal> {
        // Events that occur while the snapshot is read are sent after it.
        let news = engine.watch();
        let (ready, changed, sent) = (VecDeque::new(), BTreeSet::new(), VecDeque::new());
        let mut watch = Self { engine, news, request, ready, changed, sent, shutdown };
        watch.add_snapshot().await?;
        Ok(watch)
    }

    /// Converts the watch into the client's stream.
    pub(super) fn into_stream(self) -> WatchStream {
        stream::unfold(Some(self), |watch| async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(Some(kind)) => Some((Ok(v1::WatchEvent { kind: Some(kind) }), Some(watch))),
                Ok(None) => None,
                Err(refusal) => Some((Err(refusal.into()), None)),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<Kind>, Refusal> {
        loop {
            if let Some(kind) = self.ready.pop_front() {
                return Ok(Some(kind));
            }
            let news = match self.news.try_next() {
                Some(news) => news,
                None => match self.changed.pop_first() {
                    Some(session) => {
                        self.ready.extend(self.summary(session).await?.map(Kind::SessionChanged));
                        continue;
                    }
                    None => tokio::select! {
                        news = self.news.next() => match news {
                            Some(news) => news,
                            None => return Ok(None),
                        },
                        () = self.shutdown.cancelled() => return Err(Refusal::stopping()),
                    },
                },
            };
            match news {
                Ok(news) => self.handle(news).await?,
                Err(MissedNews(missed)) => {
                    self.changed.clear();
                    self.ready.push_back(Kind::Lagged(Lagged { missed }));
                    self.add_snapshot().await?;
                }
            }
        }
    }

    /// Adds a snapshot of the current state, if the client requested one.
    async fn add_snapshot(&mut self) -> Result<(), Refusal> {
        if !self.request.snapshot {
            return Ok(());
        }
        let limit = match usize::try_from(self.request.limit).unwrap_or(usize::MAX) {
            0 => DEFAULT_SESSIONS,
            limit => limit.min(MAX_SESSIONS),
        };
        let page = self.engine.filtered_page(None, limit, self.request.children, &Default::default()).await?;
        let interrupts = super::policy::limit_previews(self.engine.interrupts(None).await?);
        self.ready.push_back(Kind::Snapshot(Snapshot {
            more: page.next.is_some(),
            sessions: page.sessions.iter().map(Into::into).collect(),
            interrupts: interrupts.iter().map(Into::into).collect(),
        }));
        Ok(())
    }

    async fn handle(&mut self, news: SessionNews) -> Result<(), Refusal> {
        match news {
            SessionNews::Created(session) => {
                self.ready.extend(self.summary(session).await?.map(Kind::SessionCreated));
            }
            SessionNews::Deleted { is_child: true, .. } if !self.request.children => {}
            SessionNews::Deleted { session, .. } => {
                self.changed.remove(&session);
                self.ready.push_back(Kind::SessionDeleted(SessionDeleted { session_id: session.to_string() }));
            }
            // The parent session repeats a subagent's questions.
            SessionNews::Fact { is_child: true, .. } if !self.request.children => {}
            SessionNews::Fact { session, seq, is_event, .. } => {
                if is_event && let Some(event) = self.engine.stored_event(session, seq).await? {
                    self.queue(&event);
                }
                self.changed.insert(session);
            }
            SessionNews::Reconfigured => self.ready.push_back(Kind::ConfigReloaded(ConfigReloaded {})),
        }
        Ok(())
    }

    /// Adds the event, unless it repeats an event that has already been sent.
    fn queue(&mut self, event: &Event) {
        let question = match &event.kind {
            EventKind::InterruptRaised { interrupt } => Some((interrupt.id, false)),
            EventKind::InterruptResolved { interrupt_id, .. } => Some((*interrupt_id, true)),
            _ => None,
        };
        if let Some(question) = question {
            if self.sent.contains(&question) {
                return;
            }
            if self.sent.len() == MAX_SENT {
                self.sent.pop_front();
            }
            self.sent.push_back(question);
        }
        self.ready.extend(dedicated_event(event));
    }

    /// Returns the current summary of a session, or `None` if the session was deleted or is filtered out.
    async fn summary(&self, session: SessionId) -> Result<Option<v1::SessionSummary>, Refusal> {
        let summary = self.engine.summary(session).await?;
        let shown = summary.filter(|summary| self.request.children || summary.parent.is_none());
        Ok(shown.as_ref().map(Into::into))
    }
}

/// Returns the watch event for a session event, if there is one. The change of the session is reported separately.
fn dedicated_event(event: &Event) -> Option<Kind> {
    let session_id = event.session_id.to_string();
    let turn_id = || event.turn_id.map(|turn| turn.to_string()).unwrap_or_default();
    match &event.kind {
        EventKind::TurnStarted { model, .. } => {
            Some(Kind::TurnStarted(TurnBegan { session_id, turn_id: turn_id(), model: model.clone() }))
        }
        EventKind::TurnEnded { result } => {
            let result = v1::TurnResult::from(result.as_ref());
            let v1::TurnResult { turn_id, stop_reason, error, .. } = result;
            Some(Kind::TurnEnded(TurnOver { session_id, turn_id, stop_reason, error, seq: event.seq }))
        }
        EventKind::InterruptRaised { interrupt } => Some(Kind::InterruptRaised(interrupt.as_ref().into())),
        EventKind::InterruptResolved { interrupt_id, answer, by, .. } => Some(Kind::InterruptResolved(InterruptOver {
            session_id,
            interrupt_id: interrupt_id.to_string(),
            answer: Some(answer.into()),
            by: Some(by.into()),
        })),
        _ => None,
    }
}
