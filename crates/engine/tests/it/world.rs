//! Test environment: an engine with scripted ports, and a log format for asserting on events.

use std::{sync::Arc, time::Duration};

use agentd_core::{
    context::PromptReport,
    event::{Event, EventKind, StateChange},
    ids::{SessionId, TurnId},
    interrupt::{Answer, Interrupt},
    item::{Item, ItemBody},
    model::{Message, ModelInfo, ModelRequest, Slot, SlotInfo},
    ports::{Model, Models, NoExchanges, NoLanguages, Store as _, ToolContext, Toolbox},
    session::SessionSettings,
    spending::{UsageGrouping, UsageQuery},
    tool::{ToolCall, ToolOutput, ToolResult, ToolSpec},
    turn::{StartTurn, TurnResult},
};
use agentd_engine::{Engine, EngineConfig, Ports, SessionHandle, StartedTurn, Subscription};
use agentd_testkit::{
    memory_audit::MemoryAudit,
    memory_disk::MemoryDisk,
    memory_store::MemoryStore,
    memory_workspaces::MemoryWorkspaces,
    scripted::{NoWorkspaces, OneModel, Play, ScriptedModel, ScriptedTools, StoppedClock},
    test_pictures::TestPictures,
};
use futures_util::{FutureExt as _, future::BoxFuture};

/// State that outlives a daemon: the journal, the disk and the session files.
type Durable = (Arc<MemoryStore>, Arc<MemoryDisk>, Arc<MemoryWorkspaces>);

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) tools: Arc<ScriptedTools>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) disk: Arc<MemoryDisk>,
    pub(crate) audit: Arc<MemoryAudit>,
    pub(crate) clock: Arc<StoppedClock>,
    pub(crate) workspaces: Arc<MemoryWorkspaces>,
}

impl World {
    /// Asserts that each model request is counted exactly once, and that nothing else is counted.
    #[track_caller]
    pub(crate) fn all_calls_are_counted(&self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        let query = UsageQuery { last_days: None, since: None, until: None, by: UsageGrouping::Model };
        async move {
            let total = self.engine.usage(query).await.unwrap().total;
            assert_eq!(total.calls, self.model.requests().len() as u64, "{caller}");
            let sessions = self.store.sessions(usize::MAX).await.unwrap();
            assert_eq!(sessions.iter().map(|session| session.usage.calls).sum::<u64>(), total.calls, "{caller}");
        }
    }

    pub(crate) fn new(script: impl IntoIterator<Item = Play>) -> Self {
        Self::with(EngineConfig::default(), script)
    }

    pub(crate) fn with(config: EngineConfig, script: impl IntoIterator<Item = Play>) -> Self {
        Self::on(Arc::default(), config, script)
    }

    pub(crate) fn on(store: Arc<MemoryStore>, config: EngineConfig, script: impl IntoIterator<Item = Play>) -> Self {
        Self::on_disk(store, Arc::default(), config, script)
    }

    pub(crate) fn on_disk(
        store: Arc<MemoryStore>,
        disk: Arc<MemoryDisk>,
        config: EngineConfig,
        script: impl IntoIterator<Item = Play>,
    ) -> Self {
        Self::of(ScriptedModel::new(script), None, (store, disk, Arc::default()), config)
    }

    /// Creates a world whose model has a small window and refuses requests that do not fit.
    pub(crate) fn narrow(window: u64, config: EngineConfig) -> Self {
        Self::of(ScriptedModel::strict(window, []), None, Durable::default(), config)
    }

    /// Creates a world with several models. The world's own scripted model is not used.
    pub(crate) fn with_models(models: Arc<dyn Models>) -> Self {
        Self::of(ScriptedModel::new([]), Some(models), Durable::default(), EngineConfig::default())
    }

    /// Starts another daemon on the same journal and files.
    pub(crate) fn restarted_with_files(&self, script: impl IntoIterator<Item = Play>) -> Self {
        Self::of(ScriptedModel::new(script), None, self.durable(), EngineConfig::default())
    }

    /// Starts another daemon on the same journal and disk. The tasks of this daemon end with the test.
    pub(crate) fn restarted(&self, script: impl IntoIterator<Item = Play>) -> Self {
        Self::on_disk(Arc::clone(&self.store), Arc::clone(&self.disk), EngineConfig::default(), script)
    }

    /// Starts another daemon with other models. The daemon's own scripted model is not used.
    pub(crate) fn restarted_with(&self, models: Arc<dyn Models>) -> Self {
        Self::of(ScriptedModel::new([]), Some(models), self.durable(), EngineConfig::default())
    }

    /// Starts another daemon, runs its recovery and opens a session.
    pub(crate) async fn recovered(
        &self,
        session: SessionId,
        script: impl IntoIterator<Item = Play>,
    ) -> (Self, SessionHandle) {
        self.restarted_with_files(script).settled(session).await
    }

    /// Runs the recovery of this daemon and opens a session.
    pub(crate) async fn settled(self, session: SessionId) -> (Self, SessionHandle) {
        self.engine.recover().await.unwrap();
        self.with_session(session).await
    }

    /// Opens a session without a recovery, for sessions in which nothing was interrupted.
    pub(crate) async fn with_session(self, session: SessionId) -> (Self, SessionHandle) {
        let session = self.engine.session(session).await.unwrap();
        (self, session)
    }

    fn durable(&self) -> Durable {
        (Arc::clone(&self.store), Arc::clone(&self.disk), Arc::clone(&self.workspaces))
    }

    fn of(
        model: Arc<ScriptedModel>,
        models: Option<Arc<dyn Models>>,
        (store, disk, workspaces): Durable,
        config: EngineConfig,
    ) -> Self {
        let tools = ScriptedTools::on(Arc::clone(&disk));
        let clock = Arc::new(StoppedClock::default());
        let audit = Arc::new(MemoryAudit::default());
        let engine = Engine::new(
            Ports {
                models: models.unwrap_or_else(|| Arc::new(OneModel(Arc::clone(&model) as _))),
                toolbox: Arc::clone(&tools) as _,
                store: Arc::clone(&store) as _,
                workspaces: Arc::clone(&workspaces) as _,
                pictures: Some(Arc::new(TestPictures)),
                snapshots: Arc::clone(&disk) as _,
                audit: Arc::clone(&audit) as _,
                clock: Arc::clone(&clock) as _,
                ..ports(ScriptedTools::new(), [])
            },
            config,
        );
        Self { engine, model, tools, store, disk, audit, clock, workspaces }
    }

    pub(crate) async fn session(&self) -> SessionHandle {
        self.engine.create_session(self.engine.session_defaults(), None).await.unwrap()
    }

    /// Returns this world with a new session.
    pub(crate) async fn begun(self) -> (Self, SessionHandle) {
        let session = self.session().await;
        (self, session)
    }

    /// Creates a world with a session that needs no approvals.
    pub(crate) async fn trusting(script: impl IntoIterator<Item = Play>) -> (Self, SessionHandle) {
        let world = Self::new(script);
        let settings = SessionSettings { confirm_write: false, confirm_exec: false, ..SessionSettings::default() };
        let session = world.engine.create_session(settings, None).await.unwrap();
        (world, session)
    }

    /// Appends plays to the model's script.
    pub(crate) fn then(&self, plays: impl IntoIterator<Item = Play>) {
        plays.into_iter().for_each(|play| self.model.then(play));
    }

    pub(crate) fn last_request(&self) -> ModelRequest {
        self.model.requests().pop().unwrap()
    }

    /// Returns the messages of the last request as text.
    pub(crate) fn sent_text(&self) -> String {
        format!("{:?}", self.last_request().messages)
    }

    /// Returns the tool results in the last request.
    pub(crate) fn results(&self) -> Vec<String> {
        let result = |message| if let Message::Tool { text, .. } = message { Some(text) } else { None };
        self.last_request().messages.into_iter().filter_map(result).collect()
    }

    /// Maps the session's stored events, dropping those for which `of` returns `None`.
    pub(crate) fn facts<T>(&self, session: &SessionHandle, of: impl Fn(&EventKind) -> Option<T>) -> Vec<T> {
        self.store.events_of(session.id()).iter().filter_map(|event| of(&event.kind)).collect()
    }

    /// Returns the completed items in the session's journal.
    pub(crate) fn items(&self, session: &SessionHandle) -> Vec<ItemBody> {
        self.facts(session, |kind| match kind {
            EventKind::ItemCompleted { item, .. } => Some(item.body.clone()),
            _ => None,
        })
    }

    /// Returns a copy of the journal up to the answer of the session's first question, as after a kill.
    pub(crate) fn killed_when_answered(&self, session: SessionId) -> Arc<MemoryStore> {
        let is_answer = |event: &Arc<Event>| matches!(event.kind, EventKind::InterruptResolved { .. });
        let answered = self.store.events_of(session).iter().position(is_answer).unwrap();
        self.store.copy_prefix(session, answered + 1)
    }

    /// Formats the session's stored events, one per line.
    pub(crate) fn log(&self, session: &SessionHandle) -> String {
        log(&self.store.events_of(session.id()))
    }
}

pub(crate) fn input(text: &str) -> StartTurn {
    StartTurn { text: Some(text.to_owned()), client: "test".to_owned(), ..StartTurn::default() }
}

pub(crate) fn continuation() -> StartTurn {
    StartTurn { text: None, ..input("") }
}

/// Awaits a future with a time limit. Nothing in these tests takes real time, so a longer wait is a hang.
pub(crate) async fn with_time_limit<T>(awaited: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(20), future).await {
        Ok(value) => value,
        Err(_) => panic!("still waiting for {awaited}"),
    }
}

/// Collects all events up to the turn's end.
pub(crate) async fn to_end(events: &mut Subscription) -> (Vec<Arc<Event>>, TurnResult) {
    followed(events, async |_| {}).await
}

/// Collects all events like `to_end`, and calls `asked` for each question.
pub(crate) async fn followed(
    events: &mut Subscription,
    asked: impl AsyncFn(&Interrupt),
) -> (Vec<Arc<Event>>, TurnResult) {
    let mut seen = Vec::new();
    loop {
        let event = until(events, |_| true).await;
        seen.push(Arc::clone(&event));
        match &event.kind {
            EventKind::InterruptRaised { interrupt } => asked(interrupt).await,
            EventKind::TurnEnded { result } => return (seen, (**result).clone()),
            _ => {}
        }
    }
}

/// Waits for the end of the given turn.
pub(crate) async fn end_of(events: &mut Subscription, turn: TurnId) -> TurnResult {
    loop {
        let (_, result) = to_end(events).await;
        if result.turn_id == turn {
            return result;
        }
    }
}

/// Waits for the first event that `fits`.
pub(crate) async fn until(events: &mut Subscription, fits: impl Fn(&EventKind) -> bool) -> Arc<Event> {
    loop {
        let event =
            with_time_limit("an event", events.next()).await.expect("the stream has not ended").expect("no error");
        if fits(&event.kind) {
            return event;
        }
    }
}

pub(crate) async fn run(session: &SessionHandle, text: &str) -> TurnResult {
    turn(session, input(text)).await
}

/// Runs a turn to its end.
pub(crate) async fn turn(session: &SessionHandle, start: StartTurn) -> TurnResult {
    to_end(&mut session.start_turn(start).await.unwrap().events).await.1
}

pub(crate) fn log<E: AsRef<Event>>(events: &[E]) -> String {
    // Intents are tested elsewhere. The other events are numbered without them.
    let is_intent = |event: &Event| matches!(event.kind, EventKind::IntentClassified { .. });
    let (mut left_out, mut lines) = (0, String::new());
    for event in events.iter().map(AsRef::as_ref) {
        left_out += u64::from(is_intent(event));
        if !is_intent(event) {
            lines.push_str(&format!("{:>2} {}\n", event.seq - left_out, line(event)));
        }
    }
    lines
}

fn line(event: &Event) -> String {
    match &event.kind {
        EventKind::TurnStarted { slot, max_steps, .. } => format!("turn started, {slot}, at most {max_steps} steps"),
        EventKind::ItemStarted { item } => format!("+ {}", short(item)),
        EventKind::ItemCompleted { item, status } => format!("= {} ({status:?})", full(item)),
        EventKind::InterruptRaised { interrupt } => format!("? {:?}", interrupt.ask),
        EventKind::InterruptResolved { answer, by, .. } => format!("! {answer:?} by {by:?}"),
        EventKind::UsageUpdated { step, usage, .. } => {
            format!("usage of step {step}: {}+{}", usage.prompt_tokens, usage.completion_tokens)
        }
        EventKind::StateChanged { change: StateChange::Todos { todos } } => format!("todos: {}", todos.len()),
        EventKind::Warning { code, message, .. } => format!("warning {code}: {message}"),
        EventKind::TurnEnded { result } => {
            format!("turn ended: {:?} {:?}, {} steps", result.stop_reason, result.text, result.steps)
        }
        other => format!("{other:?}"),
    }
}

fn short(item: &Item) -> String {
    match &item.body {
        ItemBody::ToolResult(result) => format!("result of {}", result.name),
        other => other.kind().to_owned(),
    }
}

fn full(item: &Item) -> String {
    match &item.body {
        ItemBody::UserMessage { text, steered: true, .. } => format!("steered {text:?}"),
        ItemBody::UserMessage { text, .. } => format!("user {text:?}"),
        ItemBody::AgentMessage { text } => format!("agent {text:?}"),
        ItemBody::Reasoning { text } => format!("reasoning {text:?}"),
        ItemBody::ToolResult(result) => {
            let code = result.error.map(|code| format!(" {}", code.as_str())).unwrap_or_default();
            format!("result of {}{code}: {:?}", result.name, result.text)
        }
        ItemBody::Notice { text, .. } => format!("notice {text:?}"),
        other => format!("{} {other:?}", other.kind()),
    }
}

pub(crate) fn is_question_raised(kind: &EventKind) -> bool {
    matches!(kind, EventKind::InterruptRaised { .. })
}

/// Starts a turn and waits for its first question.
pub(crate) async fn start_until_question(session: &SessionHandle, start: StartTurn) -> (StartedTurn, Interrupt) {
    let mut started = session.start_turn(start).await.unwrap();
    let event = until(&mut started.events, is_question_raised).await;
    let EventKind::InterruptRaised { interrupt } = &event.kind else { panic!() };
    (started, (**interrupt).clone())
}

/// Runs a turn to its end, and gives the same answer to every question.
pub(crate) async fn run_with_answer(
    session: &SessionHandle,
    start: StartTurn,
    answer: Answer,
) -> (Vec<Arc<Event>>, TurnResult) {
    let mut started = session.start_turn(start).await.unwrap();
    followed(&mut started.events, async |interrupt| {
        session.answer(interrupt.id, answer.clone(), "phone".to_owned()).await.unwrap();
    })
    .await
}

/// Answers an interrupt and follows the session's first turn to its end.
pub(crate) async fn answer_and_follow(
    session: &SessionHandle,
    interrupt: &Interrupt,
    answer: Answer,
) -> (Vec<Arc<Event>>, TurnResult) {
    let mut events = session.subscribe(0).await.unwrap();
    session.answer(interrupt.id, answer, "phone".to_owned()).await.unwrap();
    to_end(&mut events).await
}

/// Returns the tool results among these events.
pub(crate) fn results(events: &[Arc<Event>]) -> Vec<ToolResult> {
    let result = |event: &Arc<Event>| match &event.kind {
        EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => Some(result.clone()),
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

/// Returns the prompt reports of all requests.
pub(crate) fn prompts(world: &World, session: &SessionHandle) -> Vec<PromptReport> {
    world.facts(session, |kind| match kind {
        EventKind::UsageUpdated { prompt, .. } => prompt.clone(),
        _ => None,
    })
}

/// Returns the warnings with this code among these events.
pub(crate) fn warnings(events: &[Arc<Event>], code: &str) -> Vec<String> {
    let found = events.iter().filter_map(|event| match &event.kind {
        EventKind::Warning { code: actual, message, .. } if actual == code => Some(message.clone()),
        _ => None,
    });
    found.collect()
}

/// Creates a model with this ID and window size.
pub(crate) fn sized(id: &str, context_window: u64, script: impl IntoIterator<Item = Play>) -> Arc<ScriptedModel> {
    let info = ModelInfo { id: id.to_owned(), context_window, ..ScriptedModel::new([]).info().clone() };
    ScriptedModel::with_info(info, script)
}

/// Creates a model that accepts pictures.
pub(crate) fn seeing(script: impl IntoIterator<Item = Play>) -> Arc<ScriptedModel> {
    let info = ModelInfo { sees_pictures: true, ..ScriptedModel::new([]).info().clone() };
    ScriptedModel::with_info(info, script)
}

/// Returns the pictures in the results of a request.
pub(crate) fn shown_in_results(request: &ModelRequest) -> Vec<&[u8]> {
    let results = request.messages.iter().filter(|message| matches!(message, Message::Tool { .. }));
    results.flat_map(Message::pictures).map(|shown| shown.content.as_deref().unwrap()).collect()
}

/// One model for `slot`, and another model for all other slots.
pub(crate) struct TwoModels {
    pub(crate) base: Arc<ScriptedModel>,
    pub(crate) slot: Slot,
    pub(crate) other: Arc<ScriptedModel>,
    /// True if turns are routed between the models.
    pub(crate) listed: bool,
}

impl Models for TwoModels {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        Arc::clone(if slot == self.slot { &self.other } else { &self.base }) as _
    }

    fn named(&self, _: Slot, id: &str) -> Option<Arc<dyn Model>> {
        (self.other.info().id == id).then(|| Arc::clone(&self.other) as _)
    }

    fn list(&self) -> Vec<SlotInfo> {
        let of = |slot| SlotInfo { slot, falls_back_to: None, model: self.get(slot).info().clone() };
        [Slot::Base, self.slot].into_iter().filter(|_| self.listed).map(of).collect()
    }
}

/// Creates ports with these tools, and a model that plays the script.
pub(crate) fn ports(toolbox: Arc<dyn Toolbox>, script: impl IntoIterator<Item = Play>) -> Ports {
    Ports {
        models: Arc::new(OneModel(ScriptedModel::new(script))),
        toolbox,
        store: Arc::new(MemoryStore::new()),
        workspaces: Arc::new(NoWorkspaces),
        pictures: None,
        snapshots: Arc::new(MemoryDisk::default()),
        languages: Arc::new(NoLanguages),
        exchanges: NoExchanges::port(),
        audit: Arc::new(MemoryAudit::default()),
        clock: Arc::new(StoppedClock::default()),
    }
}

/// Callback before a call, whose output replaces the call.
type OnCall = dyn Fn(&ToolContext, &ToolCall) -> Option<ToolOutput> + Send + Sync;

/// Scripted tools or a shell, with a callback before each call.
pub(crate) struct WatchedTools {
    pub(crate) inner: Arc<ScriptedTools>,
    /// Tool that replaces the scripted tools.
    pub(crate) specs: Option<ToolSpec>,
    /// True if read-only commands are confined to reading.
    pub(crate) enforces_read_only: bool,
    pub(crate) on_call: Box<OnCall>,
}

impl Toolbox for WatchedTools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.specs.clone().map_or_else(|| self.inner.specs(), |spec| [spec].into())
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        name
    }

    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        self.inner.preview(context, call)
    }

    fn can_enforce_read_only(&self) -> BoxFuture<'_, bool> {
        std::future::ready(self.enforces_read_only).boxed()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        match (self.on_call)(context, call) {
            Some(output) => std::future::ready(output).boxed(),
            None => self.inner.call(context, call),
        }
    }
}
