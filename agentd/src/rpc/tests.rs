//! The services on a real engine, over a real socket, through the client and through bare frames.

use std::{sync::Mutex, time::Duration};

use agentd_core::{
    environment::ClientEnvironment,
    error::ErrorKind,
    event::{Event, EventKind},
    ids::InterruptId,
    interrupt::Answer,
    item::ItemBody,
    model::Slot,
    ports::Workspaces,
    turn::{IfBusy, OnInterrupt, StartTurn, StopReason},
};
use agentd_engine::{EngineConfig, Ports};
use agentd_index::{Extractor, IndexConfig, Library, Limits};
use agentd_proto::{
    MAX_CHUNK_BYTES, MAX_PROMPT_BYTES, MAX_UPLOAD_BYTES,
    client::{Client, ClientError, EventStream, NewSession, SessionChoice, StartRequest, TurnStream},
    socket::{bind, connect},
    v1::{
        self,
        sessions_client::SessionsClient,
        turn_request::{Command, Start, Steer},
        turns_client::TurnsClient,
        upload_chunk::Part,
    },
};
use agentd_testkit::{
    memory_audit::MemoryAudit,
    memory_disk::MemoryDisk,
    memory_store::MemoryStore,
    scripted::{NoWorkspaces, OneModel, Play, ScriptedModel, ScriptedTools, StoppedClock, calls, says},
};
use futures_util::{FutureExt as _, stream};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use super::*;

mod searches;

struct FakeControl {
    stops: Mutex<Vec<Option<Duration>>>,
    mcp: Arc<McpPool>,
}

impl Default for FakeControl {
    fn default() -> Self {
        let mcp = McpPool::new(agentd_mcp::pool::PoolParts {
            config: Default::default(),
            catalogues: agentd_mcp::catalogue::CatalogueFolder::new("/nonexistent".into()),
            guard: "/nonexistent".into(),
            logins: agentd_mcp::login::Logins::new("/nonexistent".into()),
            environment: Default::default(),
            clean: Default::default(),
            reserved: Box::new(|_| false),
            owner: agentd_mcp::pool::PoolOwner::Daemon,
            plugin_check: Default::default(),
        });
        Self { stops: Mutex::default(), mcp }
    }
}

impl Control for FakeControl {
    fn stop(&self, drain: Option<Duration>) {
        self.stops.lock().unwrap().push(drain);
    }

    fn reload(&self) -> BoxFuture<'_, Result<ReloadOutcome, Refusal>> {
        let refusal = Refusal::invalid("line 3").with_hint("mend it");
        std::future::ready(Err(refusal)).boxed()
    }

    fn try_rules(&self, text: String, _: PathBuf) -> Result<Arc<agentd_policy::Policy>, Refusal> {
        Err(Refusal::invalid(text))
    }

    fn mcp(&self) -> &Arc<McpPool> {
        &self.mcp
    }

    fn try_mcp(&self, text: String, _: PathBuf) -> Result<(), Refusal> {
        Err(Refusal::invalid(text))
    }

    fn each_audited(&self, _: &mut dyn FnMut(agentd_core::audit::AuditLine)) -> Result<(), Refusal> {
        Ok(())
    }

    fn config_sources(&self) -> Vec<String> {
        vec!["built-in".to_owned()]
    }

    fn config_origins(&self) -> Vec<agentd_proto::client::ConfigOrigin> {
        Vec::new()
    }

    fn passed_variables(&self) -> Vec<String> {
        vec!["EDITOR_*".to_owned()]
    }
}

struct Daemon {
    _home: tempfile::TempDir,
    path: PathBuf,
    engine: Engine,
    tools: Arc<ScriptedTools>,
    control: Arc<FakeControl>,
    shutdown: CancellationToken,
    served: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Daemon {
    async fn start(script: impl IntoIterator<Item = Play>) -> Self {
        Self::start_with(script, Arc::new(NoWorkspaces), documents::SEARCH_PATIENCE).await
    }

    async fn start_with(
        script: impl IntoIterator<Item = Play>,
        workspaces: Arc<dyn Workspaces>,
        search_patience: Duration,
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("agentd.sock");
        let tools = ScriptedTools::new();
        let audit = Arc::new(MemoryAudit::default());
        let engine = Engine::new(
            Ports {
                models: Arc::new(OneModel(ScriptedModel::new(script))),
                toolbox: Arc::clone(&tools) as _,
                store: Arc::new(MemoryStore::new()),
                workspaces,
                pictures: None,
                snapshots: Arc::new(MemoryDisk::default()),
                languages: Arc::new(agentd_core::ports::NoLanguages),
                exchanges: agentd_core::ports::NoExchanges::port(),
                audit: Arc::clone(&audit) as _,
                clock: Arc::new(StoppedClock::default()),
            },
            EngineConfig::default(),
        );
        let info = DaemonInfo {
            started: Instant::now(),
            socket: watch::Sender::new(path.clone()).subscribe(),
            data_dir: home.path().to_owned(),
            health: None,
            started_with: StartVariables::new(Vec::new(), []),
        };
        let worker = Extractor::new("/nonexistent".into(), Limits::default(), 1);
        let knowledge = Arc::new(Library::new(worker, IndexConfig::new(home.path().join("index"), Arc::new(|| 0))));
        let (control, shutdown) = (Arc::new(FakeControl::default()), CancellationToken::new());
        let context = Context {
            engine: engine.clone(),
            audit,
            knowledge,
            info: Arc::new(info),
            control: Arc::clone(&control) as _,
            shutdown: shutdown.clone(),
            search_patience,
        };
        let router = router_of(context).await.unwrap();
        let (incoming, _) = bind(&path).await.unwrap();
        let served = tokio::spawn(serve(router, incoming.into_stream(), shutdown.clone(), Duration::from_millis(200)));
        Self { _home: home, path, engine, tools, control, shutdown, served }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.path).await.unwrap()
    }

    /// A connection for frames that the client would never send.
    async fn bare(&self) -> Channel {
        let path = self.path.clone();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(connect(&path).await?)) }
        });
        Endpoint::from_static("http://agentd.local").connect_with_connector(connector).await.unwrap()
    }
}

fn start(session: SessionChoice, text: &str) -> StartRequest {
    let start = StartTurn {
        text: Some(text.to_owned()),
        compact: None,
        typed_bytes: None,
        whole: false,
        answer_schema: None,
        slot: None,
        max_steps: None,
        planning: None,
        on_interrupt: OnInterrupt::Wait,
        while_connected: false,
        if_busy: IfBusy::Refuse,
        client: "test".to_owned(),
        environment: Default::default(),
        ..StartTurn::default()
    };
    StartRequest { session, start }
}

fn new_session() -> SessionChoice {
    SessionChoice::New(NewSession::default())
}

/// Whatever gives events.
trait Events {
    async fn event(&mut self) -> Result<Option<Event>, ClientError>;

    async fn until(&mut self, fits: impl Fn(&EventKind) -> bool) -> Event {
        loop {
            let event = tokio::time::timeout(Duration::from_secs(20), self.event()).await.unwrap().unwrap().unwrap();
            if fits(&event.kind) {
                return event;
            }
        }
    }

    async fn stop_reason(&mut self) -> StopReason {
        match self.until(|kind| matches!(kind, EventKind::TurnEnded { .. })).await.kind {
            EventKind::TurnEnded { result } => result.stop_reason,
            _ => unreachable!("only ends fit"),
        }
    }

    async fn interrupt(&mut self) -> InterruptId {
        match self.until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await.kind {
            EventKind::InterruptRaised { interrupt } => interrupt.id,
            _ => unreachable!("only interrupts fit"),
        }
    }
}

impl Events for TurnStream {
    async fn event(&mut self) -> Result<Option<Event>, ClientError> {
        self.next().await
    }
}

impl Events for EventStream {
    async fn event(&mut self) -> Result<Option<Event>, ClientError> {
        self.next().await
    }
}

fn a_change() -> [Play; 2] {
    [calls(&[("change", json!({"path": "a.txt"}))]), says("Changed.")]
}

#[tokio::test]
async fn a_turn_is_started_answered_and_ended_in_one_stream() {
    let daemon = Daemon::start(a_change()).await;
    let client = daemon.client().await;
    let mut turn = client.turn(start(new_session(), "Change!")).await.unwrap();
    let id = turn.interrupt().await;
    let session = turn.session_id().to_string();
    assert_eq!(client.interrupts(Some(&session[..30])).await.unwrap()[0].id, id);
    assert_eq!(client.session(&session).await.unwrap().live_turn, Some(turn.turn_id()));

    // What is refused is told in this stream and ends nothing.
    turn.answer(InterruptId::generate(), &Answer::Approve).await.unwrap();
    let refused = turn.until(|kind| matches!(kind, EventKind::Warning { .. })).await;
    assert!(matches!(&refused.kind, EventKind::Warning { code, .. } if code == "command_refused"), "{refused:?}");
    assert_eq!((refused.session_id, refused.turn_id), (turn.session_id(), Some(turn.turn_id())));

    turn.answer(id, &Answer::Approve).await.unwrap();
    assert_eq!(turn.stop_reason().await, StopReason::Completed);
    assert_eq!(turn.next().await, Ok(None));
    let again = client.answer(id, &Answer::Approve, "test").await.unwrap_err();
    assert_eq!(again.answered(), Some(ErrorKind::Conflict));
    let nobody = client.answer(InterruptId::generate(), &Answer::Approve, "test").await.unwrap_err();
    assert_eq!(nobody.answered(), Some(ErrorKind::NotFound));
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_nothing() {
    let daemon = Daemon::start(a_change()).await;
    let mut turn = daemon.client().await.turn(start(new_session(), "Change!")).await.unwrap();
    let id = turn.interrupt().await;
    let session = turn.session_id().to_string();
    drop(turn);
    let client = daemon.client().await;
    let mut events = client.subscribe(&session, 2, true).await.unwrap();
    client.answer(id, &Answer::Approve, "other").await.unwrap();
    assert_eq!(events.event().await.unwrap().map(|event| event.seq), Some(3));
    assert_eq!(events.stop_reason().await, StopReason::Completed);
    assert_eq!(events.next().await, Ok(None), "it ends with the turn that ran");

    let mut replay = client.subscribe(&session, 0, true).await.unwrap();
    assert_eq!(replay.stop_reason().await, StopReason::Completed);
    assert_eq!(replay.next().await, Ok(None), "it ends when everything was shown");
    let last = client.session(&session).await.unwrap().session.summary.last_seq;
    assert_eq!(client.subscribe(&session, last, true).await.unwrap().next().await, Ok(None));

    let items = client.items(&session, 0, 100).await.unwrap();
    assert!(matches!(items[0].item.body, ItemBody::UserMessage { .. }));
    let newest = client.items(&session, 0, 1).await.unwrap();
    assert_eq!(newest, items[items.len() - 1..]);
    assert!(matches!(newest[0].item.body, ItemBody::AgentMessage { .. }));
}

#[tokio::test]
async fn tools_see_what_may_pass_of_a_clients_environment_and_events_do_not() {
    let daemon = Daemon::start(a_change()).await;
    let client = daemon.client().await;
    let wanted = &client.hello().environment;
    assert!(wanted.contains(&"PATH".to_owned()) && wanted.contains(&"EDITOR_*".to_owned()), "{wanted:?}");
    let sent = [("PATH", "/client/bin"), ("EDITOR_X", "x"), ("LD_PRELOAD", "/x.so"), ("API_KEY", "k"), ("OTHER", "o")];
    let mut request = start(new_session(), "Change!");
    request.start.environment =
        ClientEnvironment::unjudged(sent.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let mut turn = client.turn(request).await.unwrap();
    let id = turn.interrupt().await;
    turn.answer(id, &Answer::Approve).await.unwrap();
    turn.stop_reason().await;
    let seen = daemon.tools.environments();
    let seen: Vec<(&str, &str)> = seen[0].iter().collect();
    assert_eq!(seen, [("EDITOR_X", "x"), ("PATH", "/client/bin")]);
    let mut events = client.subscribe(&turn.session_id().to_string(), 0, true).await.unwrap();
    while let Some(event) = events.next().await.unwrap() {
        assert!(!format!("{event:?}").contains("/client/bin"));
        if let EventKind::TurnStarted { environment, .. } = event.kind {
            assert!(environment.is_empty());
        }
    }
}

#[tokio::test]
async fn a_turn_is_cancelled_from_its_stream_and_from_outside() {
    let script = [Play::Hangs(Vec::new()), Play::Hangs(Vec::new())];
    let daemon = Daemon::start(script).await;
    let client = daemon.client().await;
    let mut turn = client.turn(start(new_session(), "Wait!")).await.unwrap();
    turn.cancel().await.unwrap();
    assert_eq!(turn.stop_reason().await, StopReason::Cancelled);

    let session = turn.session_id().to_string();
    let mut turn = client.turn(start(SessionChoice::Existing(session.clone()), "Again!")).await.unwrap();
    let busy = client.turn(start(SessionChoice::Existing(session.clone()), "Me too!")).await.unwrap_err();
    assert_eq!(busy.answered(), Some(ErrorKind::Busy));
    client.cancel_turn(&session, Some(turn.turn_id())).await.unwrap();
    assert_eq!(turn.stop_reason().await, StopReason::Cancelled);
    assert!(client.steer_turn(&session, None, "too late").await.is_err());
}

fn frame(command: Command) -> v1::TurnRequest {
    v1::TurnRequest { command: Some(command) }
}

async fn refused(daemon: &Daemon, frames: Vec<v1::TurnRequest>) -> Status {
    TurnsClient::new(daemon.bare().await).turn(stream::iter(frames)).await.err().unwrap()
}

#[tokio::test]
async fn a_second_start_ends_the_stream_and_not_the_turn() {
    let daemon = Daemon::start([calls(&[("hold", json!({}))]), says("Held.")]).await;
    let first = Start { text: Some("Hold!".into()), ..Start::default() };
    let (frames, queue) = mpsc::channel(2);
    frames.send(frame(Command::Start(first.clone()))).await.unwrap();
    let mut turns = TurnsClient::new(daemon.bare().await);
    let response = turns.turn(tokio_stream::wrappers::ReceiverStream::new(queue)).await.unwrap();
    let session = response.metadata().get(agentd_proto::SESSION_ID_HEADER).unwrap().to_str().unwrap().to_owned();
    let mut events = response.into_inner();
    daemon.tools.began(1).await;
    frames.send(frame(Command::Start(first))).await.unwrap();
    let status = loop {
        match events.message().await {
            Ok(event) => assert!(event.is_some(), "the stream ended without a word"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("second"), "{status:?}");

    let mut watched = daemon.client().await.subscribe(&session, 0, true).await.unwrap();
    daemon.tools.release(1);
    assert_eq!(watched.stop_reason().await, StopReason::Completed);
}

#[tokio::test]
async fn frames_that_make_no_sense_are_refused() {
    let daemon = Daemon::start([]).await;
    let existing = daemon.client().await.create_session(&NewSession::default()).await.unwrap();
    let existing = existing.session.summary.id.to_string();
    let check = async |start: Start, code: Code, part: &str| {
        let status = refused(&daemon, vec![frame(Command::Start(start))]).await;
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(part), "{status:?} lacks {part:?}");
    };
    let text = Some("hello".to_owned());
    check(Start { slot: 99, text: text.clone(), ..Start::default() }, Code::InvalidArgument, "slot").await;
    let titled = Start { session: existing, title: text.clone(), ..Start::default() };
    check(titled, Code::InvalidArgument, "new session").await;
    let unknown = Start { session: "ffffffff".into(), text, ..Start::default() };
    check(unknown, Code::NotFound, "ffffffff").await;
    let long = Start { text: Some("x".repeat(MAX_PROMPT_BYTES + 1)), ..Start::default() };
    check(long, Code::InvalidArgument, "at most 8 MiB").await;

    for frames in [vec![], vec![v1::TurnRequest::default()], vec![frame(Command::Steer(Steer::default()))]] {
        assert_eq!(refused(&daemon, frames).await.code(), Code::InvalidArgument);
    }
    let sessions = daemon.client().await.sessions(10).await.unwrap();
    assert_eq!(sessions.len(), 1, "what is refused leaves no session behind");
}

#[tokio::test]
async fn streams_end_with_the_daemon() {
    let daemon = Daemon::start([Play::Hangs(Vec::new())]).await;
    let client = daemon.client().await;
    let mut turn = client.turn(start(new_session(), "Wait!")).await.unwrap();
    let mut watched = client.subscribe(&turn.session_id().to_string(), 0, false).await.unwrap();
    daemon.engine.drain(Duration::ZERO).await;
    daemon.shutdown.cancel();
    assert_eq!(turn.stop_reason().await, StopReason::Suspended, "the turn's end comes before the stream's");
    assert_eq!(watched.stop_reason().await, StopReason::Suspended);
    assert_eq!(watched.next().await.unwrap_err().answered(), Some(ErrorKind::ShuttingDown));
    drop((turn, watched, client));
    daemon.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn sessions_are_made_named_configured_and_removed() {
    let daemon = Daemon::start([]).await;
    let client = daemon.client().await;
    let new = NewSession { title: Some("one".into()), slot: Some(Slot::Code), ..NewSession::default() };
    let made = client.create_session(&new).await.unwrap().session;
    assert_eq!((made.summary.title.as_str(), made.settings.slot), ("one", Some(Slot::Code)));
    let id = made.summary.id.to_string();
    assert_eq!(client.find_session(&id[..13]).await, Ok(made.summary.id));
    client.rename_session(&id, "two").await.unwrap();
    let settings = agentd_core::session::SessionSettings { confirm_write: false, ..made.settings };
    client.configure_session(&id, &settings).await.unwrap();
    client.reset_session(&id).await.unwrap();
    let shown = client.session(&id).await.unwrap().session;
    assert_eq!((shown.summary.title.as_str(), &shown.settings), ("two", &settings));
    assert!(shown.reset_seq > 0);
    client.delete_session(&id).await.unwrap();
    for error in [client.session(&id).await.unwrap_err(), client.delete_session(&id).await.unwrap_err()] {
        assert_eq!(error.answered(), Some(ErrorKind::NotFound), "{error}");
    }
    assert_eq!(client.session("").await.unwrap_err().answered(), Some(ErrorKind::InvalidInput));
}

#[tokio::test]
async fn uploads_come_whole_or_not_at_all() {
    let daemon = Daemon::start([]).await;
    let client = daemon.client().await;
    let id = client.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string();
    let content = vec![7_u8; 2 * MAX_CHUNK_BYTES + 1];
    assert_eq!(client.upload(&id, "a.bin", &content[..]).await.unwrap().path, "uploads/a.bin");
    assert_eq!(client.upload(&id, "empty", &[][..]).await.unwrap().path, "uploads/empty");
    let endless = client.upload(&id, "zero", tokio::io::repeat(0)).await.unwrap_err();
    assert!(endless.message.contains("64 MiB"), "{endless:?}");

    let header = || Part::Header(v1::UploadHeader { session: id.clone(), name: "b".into(), path: None });
    let data = |size| Part::Data(vec![0; size]);
    let check = async |parts: Vec<Part>, part: &str| {
        let chunks = parts.into_iter().map(|part| v1::UploadChunk { part: Some(part) }).collect::<Vec<_>>();
        let status = SessionsClient::new(daemon.bare().await).upload(stream::iter(chunks)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(part), "{status:?} lacks {part:?}");
    };
    check(vec![], "header").await;
    check(vec![data(1)], "header").await;
    check(vec![header(), data(1), header()], "second").await;
    check(vec![header(), data(1), Part::Abort(v1::UploadAbort {})], "gave up").await;
    check(vec![header(), data(MAX_CHUNK_BYTES + 1)], "chunk").await;
    let pieces = MAX_UPLOAD_BYTES / MAX_CHUNK_BYTES + 1;
    let too_many = std::iter::once(header()).chain((0..pieces).map(|_| data(MAX_CHUNK_BYTES))).collect();
    check(too_many, "larger than 64 MiB").await;
}

#[tokio::test]
async fn the_daemon_tells_of_itself() {
    let daemon = Daemon::start([]).await;
    let client = daemon.client().await;
    let status = client.status().await.unwrap();
    assert_eq!((status.pid, status.socket), (std::process::id(), daemon.path.clone()));
    assert_eq!(status.config_sources, ["built-in"]);
    assert_eq!(client.models().await.unwrap()[0].model.id, "scripted");
    assert!(client.tools("").await.unwrap().iter().any(|tool| tool.tool.spec.name == "look"));
    assert_eq!(client.reload().await.unwrap_err().hint.as_deref(), Some("mend it"));
    assert_eq!(client.stop(Some(Duration::from_millis(5))).await, Ok(std::process::id()));
    assert_eq!(*daemon.control.stops.lock().unwrap(), [Some(Duration::from_millis(5))]);
}

#[tokio::test]
async fn health_and_reflection_answer() {
    use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let daemon = Daemon::start([]).await;
    let channel = daemon.bare().await;
    for service in ["", "agentd.v1.Turns"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let health = HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::Serving, "{service:?}");
    }
    let list = MessageRequest::ListServices(String::new());
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut reflection = ServerReflectionClient::new(channel);
    let mut answers = reflection.server_reflection_info(stream::iter([request])).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(listed)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("asked for services");
    };
    let names: Vec<_> = listed.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["Turns", "Sessions", "Interrupts", "Daemon"] {
        assert!(names.contains(&format!("agentd.v1.{name}").as_str()), "{name} is not in {names:?}");
    }
}
