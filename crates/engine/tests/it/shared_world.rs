//! What several tests need: turns to their ends, other lives of a daemon, and parts of an engine that are not those of a world.

use std::sync::Arc;

use agentd_core::{
    context::PromptReport,
    event::{Event, EventKind},
    interrupt::{Answer, Interrupt},
    item::ItemBody,
    model::{ModelInfo, Slot, SlotInfo},
    ports::{Model, Models, NoExchanges, NoLanguages, ToolContext, Toolbox},
    tool::{ToolCall, ToolOutput, ToolResult, ToolSpec},
    turn::{StartTurn, TurnResult},
};
use agentd_engine::{Ports, SessionHandle, StartedTurn};
use agentd_testkit::{
    memory_audit::MemoryAudit,
    memory_disk::MemoryDisk,
    memory_store::MemoryStore,
    scripted::{NoWorkspaces, OneModel, Play, ScriptedModel, ScriptedTools, StoppedClock},
};
use futures_util::{FutureExt as _, future::BoxFuture};

use crate::world::{World, to_end, until};

pub(crate) fn raised(kind: &EventKind) -> bool {
    matches!(kind, EventKind::InterruptRaised { .. })
}

/// Starts a turn and waits for its first question.
pub(crate) async fn raising(session: &SessionHandle, start: StartTurn) -> (StartedTurn, Interrupt) {
    let mut started = session.start_turn(start).await.unwrap();
    let event = until(&mut started.events, raised).await;
    let EventKind::InterruptRaised { interrupt } = &event.kind else { panic!() };
    (started, (**interrupt).clone())
}

/// Runs a turn to its end, and gives every question that answer.
pub(crate) async fn answering(session: &SessionHandle, start: StartTurn, answer: Answer) {
    let mut started = session.start_turn(start).await.unwrap();
    let is_told = |kind: &EventKind| raised(kind) || matches!(kind, EventKind::TurnEnded { .. });
    while let EventKind::InterruptRaised { interrupt } = &until(&mut started.events, is_told).await.kind {
        session.answer(interrupt.id, answer.clone(), "phone".to_owned()).await.unwrap();
    }
}

/// Runs a turn to its end.
pub(crate) async fn ended(session: &SessionHandle, start: StartTurn) -> TurnResult {
    to_end(&mut session.start_turn(start).await.unwrap().events).await.1
}

/// The results of calls among these events.
pub(crate) fn results(events: &[Arc<Event>]) -> Vec<ToolResult> {
    let bodies = events.iter().filter_map(|event| match &event.kind {
        EventKind::ItemCompleted { item, .. } => Some(&item.body),
        _ => None,
    });
    let results = bodies.filter_map(|body| match body {
        ItemBody::ToolResult(result) => Some(result.clone()),
        _ => None,
    });
    results.collect()
}

/// What was reported of each request's prompt.
pub(crate) fn prompts(world: &World, session: &SessionHandle) -> Vec<PromptReport> {
    let events = world.store.events_of(session.id());
    let reports = events.iter().filter_map(|event| match &event.kind {
        EventKind::UsageUpdated { prompt, .. } => prompt.clone(),
        _ => None,
    });
    reports.collect()
}

/// The warnings of that code among these events.
pub(crate) fn warnings(events: &[Arc<Event>], code: &str) -> Vec<String> {
    let found = events.iter().filter_map(|event| match &event.kind {
        EventKind::Warning { code: known, message } if known == code => Some(message.clone()),
        _ => None,
    });
    found.collect()
}

impl World {
    /// That session in this life of the daemon.
    pub(crate) async fn with_session(self, session: &SessionHandle) -> (Self, SessionHandle) {
        let session = self.engine.session(session.id()).await.unwrap();
        (self, session)
    }

    /// The same, once this life has recovered what the last one left behind.
    pub(crate) async fn recovered(self, session: &SessionHandle) -> (Self, SessionHandle) {
        self.engine.recover().await.unwrap();
        self.with_session(session).await
    }
}

/// A model of that id with such a window.
pub(crate) fn sized(id: &str, context_window: u64, script: impl IntoIterator<Item = Play>) -> Arc<ScriptedModel> {
    let info = ModelInfo { id: id.to_owned(), context_window, ..ScriptedModel::new([]).info().clone() };
    ScriptedModel::with_info(info, script)
}

/// A model for one slot, and another one for all else.
pub(crate) struct TwoModels {
    pub(crate) base: Arc<ScriptedModel>,
    pub(crate) slot: Slot,
    pub(crate) other: Arc<ScriptedModel>,
    /// Set if turns are routed between them.
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

/// Ports with these tools, and a model that plays that script.
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

/// What a test does before a call runs, or in its place.
type OnCall = dyn Fn(&ToolContext, &ToolCall) -> Option<ToolOutput> + Send + Sync;

/// Scripted tools, or a shell, each of whose calls a test sees first.
pub(crate) struct WatchedTools {
    pub(crate) inner: Arc<ScriptedTools>,
    /// Tools in place of the scripted ones.
    pub(crate) specs: Option<ToolSpec>,
    /// Set if commands that only look are held to that.
    pub(crate) holds: bool,
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

    fn holds_commands(&self) -> BoxFuture<'_, bool> {
        std::future::ready(self.holds).boxed()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        match (self.on_call)(context, call) {
            Some(output) => std::future::ready(output).boxed(),
            None => self.inner.call(context, call),
        }
    }
}
