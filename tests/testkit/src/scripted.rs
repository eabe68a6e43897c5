//! Fakes for engine tests: a scripted model, scripted tools, workspaces without files, and a manual clock.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use agentd_core::{
    Timestamp,
    environment::ClientEnvironment,
    error::{ErrorKind, ModelError, WorkspaceError},
    folder::Mounts,
    ids::{CallId, SessionId, TurnId},
    model::{Finish, Message, ModelChunk, ModelInfo, ModelRequest, Slot, SlotInfo},
    policy::Confinement,
    ports::{Artifact, ArtifactDir, Clock, Model, Models, SampleRequest, ToolContext, Toolbox, Workspace, Workspaces},
    state_files::StateFileChange,
    tool::{Effect, FileChange, FileChangeKind, FollowedLink, ToolCall, ToolData, ToolErrorCode, ToolOutput, ToolSpec},
    usage::Prices,
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::memory_disk::MemoryDisk;

/// Prefix of paths in the session's own state. `change` without content deletes such a file.
const STATE: &str = "/state/";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One response in a script.
pub enum Play {
    /// Sends these chunks and completes.
    Chunks(Vec<ModelChunk>),
    /// Sends these chunks, then fails with an error of this kind.
    Fails(Vec<ModelChunk>, ErrorKind),
    /// Fails because the request does not fit into a context window of this many tokens.
    Overflows(u64),
    /// Sends these chunks, then hangs.
    Hangs(Vec<ModelChunk>),
    /// Waits for a notification, then sends these chunks and completes.
    Waits(Arc<Notify>, Vec<ModelChunk>),
    /// Sends these chunks, waits for a notification, then fails with an error of this kind.
    Breaks(Arc<Notify>, Vec<ModelChunk>, ErrorKind),
    /// Panics while it is streaming.
    Panics,
}

/// Returns a response with this text.
pub fn says(text: &str) -> Play {
    Play::Chunks(vec![ModelChunk::Text(text.to_owned())])
}

/// Returns a response with these tool calls, in order.
pub fn calls(calls: &[(&str, Value)]) -> Play {
    let chunk = |(name, arguments): &(&str, Value)| ModelChunk::call(*name, arguments.to_string());
    Play::Chunks(calls.iter().map(chunk).collect())
}

type Respond = Box<dyn Fn(&ModelRequest) -> Play + Send + Sync>;

/// A model that plays a script and records its requests.
pub struct ScriptedModel {
    info: ModelInfo,
    script: Mutex<VecDeque<Play>>,
    /// Function that responds once the script is exhausted.
    otherwise: Mutex<Option<Respond>>,
    requests: Mutex<Vec<ModelRequest>>,
    asked: Notify,
    strict: bool,
    prices: Mutex<Option<Prices>>,
}

impl ScriptedModel {
    /// Creates a model with this script. Once the script is exhausted, every further response is an error.
    pub fn new(script: impl IntoIterator<Item = Play>) -> Arc<Self> {
        Arc::new(Self::scripted(script))
    }

    /// Creates a model with a context window of this many tokens. Like a server, the model rejects larger requests.
    /// Rejections do not advance the script.
    pub fn strict(context_window: u64, script: impl IntoIterator<Item = Play>) -> Arc<Self> {
        let model = Self::scripted(script);
        Arc::new(Self { info: ModelInfo { context_window, ..model.info }, strict: true, ..model })
    }

    /// Creates a model with this information. The model rejects requests that exceed its window.
    pub fn strict_with_info(info: ModelInfo, script: impl IntoIterator<Item = Play>) -> Arc<Self> {
        Arc::new(Self { info, strict: true, ..Self::scripted(script) })
    }

    /// Creates a model with this information.
    pub fn with_info(info: ModelInfo, script: impl IntoIterator<Item = Play>) -> Arc<Self> {
        Arc::new(Self { info, ..Self::scripted(script) })
    }

    fn scripted(script: impl IntoIterator<Item = Play>) -> Self {
        Self {
            info: ModelInfo {
                id: "scripted".to_owned(),
                wire: "script".to_owned(),
                base_url: None,
                context_window: 8192,
                window_source: Default::default(),
                native_tools: true,
                embedded: false,
                echo_reasoning: false,
                sees_pictures: false,
                figures: Vec::new(),
            },
            script: Mutex::new(script.into_iter().collect()),
            otherwise: Mutex::default(),
            requests: Mutex::default(),
            asked: Notify::new(),
            strict: false,
            prices: Mutex::default(),
        }
    }

    /// Returns true if a server with this window would accept the request, at four bytes per token.
    fn takes(&self, request: &ModelRequest) -> bool {
        let text_of = |message: &Message| match message {
            Message::System { text }
            | Message::User { text }
            | Message::Pictures { text, .. }
            | Message::Tool { text, .. } => text.len(),
            Message::Assistant { text, tool_calls, .. } => {
                text.len() + tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
            }
        };
        let tools = request.tools.iter().map(|tool| tool.description.len() + tool.parameters.to_string().len());
        let bytes = request.messages.iter().map(text_of).chain(tools).sum::<usize>();
        !self.strict || bytes as u64 / 4 <= self.info.context_window
    }

    /// Sets the prices of the model from now on.
    pub fn costs(&self, prices: Prices) {
        *lock(&self.prices) = Some(prices);
    }

    /// Adds a response to the script.
    pub fn then(&self, play: Play) {
        lock(&self.script).push_back(play);
    }

    /// Adds several responses to the script.
    pub fn then_all(&self, plays: impl IntoIterator<Item = Play>) {
        lock(&self.script).extend(plays);
    }

    fn play(&self, request: &ModelRequest) -> Option<Play> {
        let scripted = lock(&self.script).pop_front();
        scripted.or_else(|| lock(&self.otherwise).as_ref().map(|respond| respond(request)))
    }

    /// Sets a function that responds once the script is exhausted.
    pub fn respond_with(&self, respond: impl Fn(&ModelRequest) -> Play + Send + Sync + 'static) {
        *lock(&self.otherwise) = Some(Box::new(respond));
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        lock(&self.requests).clone()
    }

    /// Waits until the model has received `times` requests.
    pub async fn asked(&self, times: usize) {
        loop {
            let next_change = self.asked.notified();
            if lock(&self.requests).len() >= times {
                return;
            }
            next_change.await;
        }
    }
}

impl Model for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn prices(&self) -> Option<Prices> {
        lock(&self.prices).clone()
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        let takes = self.takes(&request);
        let play = takes.then(|| self.play(&request)).flatten();
        lock(&self.requests).push(request);
        self.asked.notify_waiters();
        if !takes {
            let refusal = ModelError::new(ErrorKind::ContextOverflow, "the request does not fit into the window");
            return stream::iter([Err(refusal)]).boxed();
        }
        match play {
            Some(Play::Chunks(chunks)) => stream::iter(chunks.into_iter().map(Ok))
                .chain(stream::iter([Ok(ModelChunk::End(Finish::Stop))]))
                .boxed(),
            Some(Play::Fails(chunks, kind)) => stream::iter(chunks.into_iter().map(Ok))
                .chain(stream::iter([Err(ModelError::new(kind, "the script requests this error"))]))
                .boxed(),
            Some(Play::Overflows(window)) => {
                let error = ModelError::new(ErrorKind::ContextOverflow, "the request does not fit into the window");
                stream::iter([Err(error.with_window(Some(window)))]).boxed()
            }
            Some(Play::Hangs(chunks)) => stream::iter(chunks.into_iter().map(Ok)).chain(stream::pending()).boxed(),
            Some(Play::Waits(gate, chunks)) => stream::once(async move { gate.notified().await })
                .flat_map(move |()| stream::iter(chunks.clone().into_iter().map(Ok)))
                .chain(stream::iter([Ok(ModelChunk::End(Finish::Stop))]))
                .boxed(),
            Some(Play::Breaks(gate, chunks, kind)) => stream::iter(chunks.into_iter().map(Ok))
                .chain(stream::once(async move {
                    gate.notified().await;
                    Err(ModelError::new(kind, "the script requests this error"))
                }))
                .boxed(),
            #[expect(clippy::panic, reason = "the script requests a panic")]
            Some(Play::Panics) => stream::once(async { panic!("the script requests this panic") }).boxed(),
            None => stream::iter([Err(ModelError::new(ErrorKind::Internal, "the script is exhausted"))]).boxed(),
        }
    }
}

/// A set of models with the same model in every slot.
pub struct OneModel(pub Arc<dyn Model>);

impl Models for OneModel {
    fn get(&self, _: Slot) -> Arc<dyn Model> {
        Arc::clone(&self.0)
    }

    fn list(&self) -> Vec<SlotInfo> {
        vec![SlotInfo { slot: Slot::Base, falls_back_to: None, model: self.0.info().clone() }]
    }
}

/// Tools named after their behaviour: `look` (reads), `change` (writes a file), `launch` (runs a command), `fail`,
/// `hold` (reads, after waiting for [`ScriptedTools::release`]), and `linger` (a command that also waits for the
/// release). `look`, `launch` and `fail` return their argument `answer`, if given. `look` returns its argument `data`
/// as bytes.
#[derive(Debug)]
pub struct ScriptedTools {
    ran: Mutex<Vec<String>>,
    environments: Mutex<Vec<ClientEnvironment>>,
    disk: Arc<MemoryDisk>,
    gate: Semaphore,
    began: Notify,
}

impl ScriptedTools {
    /// Creates tools with an empty disk.
    pub fn new() -> Arc<Self> {
        Self::on(Arc::default())
    }

    /// Creates tools that work on this disk. `change`, `launch` and `hold` write `content` to `path`, and also write
    /// the files in `and`.
    pub fn on(disk: Arc<MemoryDisk>) -> Arc<Self> {
        Arc::new(Self {
            ran: Mutex::default(),
            environments: Mutex::default(),
            disk,
            gate: Semaphore::new(0),
            began: Notify::new(),
        })
    }

    fn write(&self, call: &ToolCall) {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        self.write_file(&arguments);
        self.write_file(&arguments["and"]);
    }

    fn write_file(&self, arguments: &Value) {
        if let (Some(path), Some(content)) = (arguments["path"].as_str(), arguments["content"].as_str())
            && !path.starts_with(STATE)
        {
            self.disk.write(path, content);
        }
    }

    /// Returns the `look` call with its link resolved, if the path is a link on the disk.
    fn followed(&self, call: &ToolCall) -> Option<FollowedLink> {
        let mut arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        let path = arguments["path"].as_str().filter(|_| call.name == "look")?.to_owned();
        let leads_to = self.disk.leads_to(&path)?;
        arguments["path"] = leads_to.clone().into();
        Some(FollowedLink { arguments: arguments.to_string(), path, leads_to })
    }

    /// Returns the content of the file that the call would overwrite, in the form of a diff.
    fn replaced(&self, call: &ToolCall) -> String {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let content = arguments["path"].as_str().map(|path| self.disk.read(path)).unwrap_or_default();
        if content.is_empty() { content } else { format!("- {content}\n") }
    }

    /// Returns all calls so far, as `name arguments`.
    pub fn ran(&self) -> Vec<String> {
        lock(&self.ran).clone()
    }

    /// Returns the client environment that each call received.
    pub fn environments(&self) -> Vec<ClientEnvironment> {
        lock(&self.environments).clone()
    }

    /// Waits until `times` calls have begun.
    pub async fn began(&self, times: usize) {
        loop {
            let next_change = self.began.notified();
            if lock(&self.ran).len() >= times {
                return;
            }
            next_change.await;
        }
    }

    /// Releases `calls` waiting calls.
    pub fn release(&self, calls: usize) {
        self.gate.add_permits(calls);
    }
}

/// Returns the context of a call in this workspace, with defaults for all other fields.
pub fn tool_context(session_id: SessionId, workspace: Workspace) -> ToolContext {
    ToolContext {
        session_id,
        turn_id: TurnId::generate(),
        call_id: CallId::generate(),
        workspace: Arc::new(workspace),
        state_files: Arc::default(),
        client_files: None,
        reading: Default::default(),
        environment: Arc::default(),
        progress: Default::default(),
        person: Default::default(),
        sampler: Default::default(),
        sight: Default::default(),
        stands_for: None,
        confinement: Confinement::Usual,
        guarded: Default::default(),
        closed: Default::default(),
        now: Timestamp::now(),
        cancel: Default::default(),
    }
}

/// Queries the model in a separate task, without waiting for the response.
fn query_in_background(context: &ToolContext, text: &str) {
    let (sampler, text) = (context.sampler.clone(), text.to_owned());
    tokio::spawn(async move {
        let messages = [Message::System { text: "Answer.".to_owned() }, Message::User { text }];
        sampler.ask(SampleRequest { messages: messages.into(), max_tokens: 50 }).await
    });
}

/// Queries the model with this text, and returns the response or the error.
async fn query(context: &ToolContext, text: &str) -> ToolOutput {
    let messages = [Message::System { text: "Answer.".to_owned() }, Message::User { text: text.to_owned() }];
    match context.sampler.ask(SampleRequest { messages: messages.into(), max_tokens: 50 }).await {
        Some(Ok(sampled)) => ToolOutput::ok(format!("{} ({}, cut: {})", sampled.text, sampled.model, sampled.cut)),
        Some(Err(error)) => ToolOutput::error(ToolErrorCode::Tool, error.to_string()),
        None => ToolOutput::error(ToolErrorCode::Tool, "there is no model"),
    }
}

impl Toolbox for ScriptedTools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        let spec = |name: &str, effect| ToolSpec {
            name: name.to_owned(),
            description: format!("Does: {name}."),
            parameters: json!({"type": "object"}),
            effect,
        };
        [
            spec("change", Effect::Write),
            spec("fail", Effect::Read),
            spec("hold", Effect::Read),
            spec("launch", Effect::Execute),
            spec("linger", Effect::Execute),
            spec("look", Effect::Read),
        ]
        .into()
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        name
    }

    fn preview<'a>(
        &'a self,
        _: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        let bad = call.arguments.contains("impossible");
        let outcome = if bad {
            Err(ToolOutput::error(ToolErrorCode::InvalidArgs, "that is impossible"))
        } else if self.followed(call).is_some() {
            // A read-only tool has no preview.
            Ok(None)
        } else {
            Ok(Some(format!("{}+ {}", self.replaced(call), call.arguments)))
        };
        std::future::ready(outcome).boxed()
    }

    fn follow<'a>(&'a self, _: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        std::future::ready(self.followed(call)).boxed()
    }

    fn can_enforce_read_only(&self) -> BoxFuture<'_, bool> {
        std::future::ready(true).boxed()
    }

    fn can_contain_commands(&self) -> BoxFuture<'_, bool> {
        std::future::ready(true).boxed()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        async move {
            self.write(call);
            lock(&self.ran).push(format!("{} {}", call.name, call.arguments));
            lock(&self.environments).push(ClientEnvironment::clone(&context.environment));
            self.began.notify_waiters();
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            if let (Some(text), "look") = (arguments["data"].as_str(), call.name.as_str()) {
                let (name, kind, ending) = ("picture".to_owned(), "a PNG image".to_owned(), "png".to_owned());
                let data = ToolData { name, kind, ending, content: text.into(), ..ToolData::default() };
                return ToolOutput { data: vec![data.clone(), data], ..ToolOutput::ok("two pictures") };
            }
            if let (Some(question), "hold") = (arguments["ask"].as_str(), call.name.as_str()) {
                query_in_background(context, question);
            }
            if let (Some(question), "look") = (arguments["ask"].as_str(), call.name.as_str()) {
                return query(context, question).await;
            }
            match (call.name.as_str(), arguments["answer"].as_str()) {
                ("look" | "launch", Some(answer)) => return ToolOutput::ok(answer),
                ("fail", Some(answer)) => return ToolOutput::error(ToolErrorCode::Tool, answer),
                _ => {}
            }
            match call.name.as_str() {
                "look" | "launch" => ToolOutput::ok(format!("{} is done", call.name)),
                "change" if arguments["path"].as_str().is_some_and(|path| path.starts_with(STATE)) => {
                    let path = arguments["path"].as_str().unwrap_or_default().trim_start_matches(STATE).to_owned();
                    let content = arguments["content"].as_str().map(str::to_owned);
                    ToolOutput { state_files: vec![StateFileChange { path, content }], ..ToolOutput::ok("written") }
                }
                "change" => ToolOutput {
                    files: vec![FileChange::new("a.txt", FileChangeKind::Created)],
                    ..ToolOutput::ok("written")
                },
                "hold" | "linger" => tokio::select! {
                    permit = self.gate.acquire() => {
                        if let Ok(permit) = permit {
                            permit.forget();
                        }
                        ToolOutput::ok("held and let go")
                    }
                    () = context.cancel.cancelled() => ToolOutput::error(ToolErrorCode::Cancelled, "stopped"),
                },
                "fail" => ToolOutput::error(ToolErrorCode::Tool, "it did not work"),
                other => ToolOutput::error(ToolErrorCode::UnknownTool, format!("there is no tool {other}")),
            }
        }
        .boxed()
    }
}

/// Workspaces without any files.
pub struct NoWorkspaces;

impl Workspaces for NoWorkspaces {
    fn open(&self, session: SessionId, mounts: Mounts) -> BoxFuture<'_, Result<Workspace, WorkspaceError>> {
        let root = PathBuf::from(format!("/nowhere/{session}"));
        let Mounts { project, folders } = mounts;
        std::future::ready(Ok(Workspace { root, project, folders, memories: None, worktree: None })).boxed()
    }

    fn clear_temp(&self, _: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn remove(&self, _: SessionId) -> BoxFuture<'_, Result<(), WorkspaceError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn add_upload(&self, _: SessionId, name: String, _: Vec<u8>) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        std::future::ready(Ok(format!("uploads/{name}"))).boxed()
    }

    fn keep(
        &self,
        _: SessionId,
        area: ArtifactDir,
        name: String,
        _: Vec<u8>,
    ) -> BoxFuture<'_, Result<String, WorkspaceError>> {
        std::future::ready(Ok(format!("{}/{name}", area.as_str()))).boxed()
    }

    fn append_artifact(
        &self,
        _: SessionId,
        area: ArtifactDir,
        name: String,
        _: Option<u64>,
        content: Vec<u8>,
    ) -> BoxFuture<'_, Result<Artifact, WorkspaceError>> {
        let text = Artifact { path: format!("{}/{name}", area.as_str()), bytes: content.len() as u64 };
        std::future::ready(Ok(text)).boxed()
    }

    fn paths<'a>(&'a self, _: &'a Workspace, _: usize) -> BoxFuture<'a, Result<Vec<String>, WorkspaceError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

/// A clock that only moves when advanced.
#[derive(Debug, Default)]
pub struct StoppedClock {
    advanced_ms: AtomicI64,
}

impl StoppedClock {
    /// Advances the clock by this duration.
    pub fn advance(&self, by: Duration) {
        self.advanced_ms.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.advanced_ms.load(Ordering::Relaxed)).unwrap_or(Timestamp::MAX)
    }
}
