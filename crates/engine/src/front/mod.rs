//! Public entry point of the engine: finds and loads sessions, reports usage across all sessions, and provides models
//! for tests.

pub mod archives;
mod files;
pub mod fork;
mod removal;
pub mod rules;
pub mod start;

use std::{sync::Arc, time::Duration};

use agentd_context::windows::ContextWindows;
use agentd_core::{
    catalogue::ToolStanding,
    error::ErrorKind,
    event::Event,
    ids::{InterruptId, SessionId},
    interrupt::{Answer, Interrupt},
    model::{Slot, SlotInfo},
    ports::Model,
    search::{SearchQuery, SearchResult},
    session::{SessionSettings, SessionSummary},
    spending::{SideUsage, UsageQuery, UsageReport},
    tool::ToolSpec,
    usage::Usage,
};
use futures_util::future::join_all;
use tokio::{
    sync::{OnceCell, mpsc, watch},
    time::timeout,
};

use crate::{
    agents::{ActiveAgent, ToolSetCache},
    catalog::{MentionedTools, ToolCatalog, ToolScope},
    config::{EngineConfig, Ports},
    error::{EngineError, Result},
    grants::PermanentGrants,
    links,
    recovery::RecoveredTurn,
    session::{
        SessionHandle,
        registry::{
            QUEUE, RegistryHandle, WeakRegistry,
            shared::{Activity, EngineState, EngineStats, NewsReader, NewsSender, SessionNews},
            worktree::{self, ClosedFolders},
        },
    },
    subagent::SessionSubagents,
};

/// Time limit for querying all servers about their models.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Cloneable handle of the engine. All clones share the same sessions.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<EngineState>,
    registry: RegistryHandle,
    config: watch::Sender<Arc<EngineConfig>>,
    recovered: Arc<OnceCell<Vec<RecoveredTurn>>>,
}

impl Engine {
    /// Creates an engine. Must be called inside a tokio runtime.
    pub fn new(ports: Ports, config: EngineConfig) -> Self {
        let chain = Arc::new(links::standard::chain());
        let catalog = watch::Sender::new(Arc::new(ToolCatalog::new(ports.toolbox.catalogue(), chain.tools())));
        let (sender, receiver) = watch::channel(Arc::new(config));
        let permanent_grants = PermanentGrants::spawn(Arc::clone(&ports.store));
        let (commands, asked) = mpsc::channel(QUEUE);
        let shared = Arc::new(EngineState {
            closed: ClosedFolders::default(),
            ports: Arc::new(ports),
            catalog,
            session_catalogs: watch::Sender::default(),
            toolsets: ToolSetCache::default(),
            calibration: Arc::default(),
            windows: Arc::default(),
            unreachable: Default::default(),
            chain,
            activity: watch::Sender::default(),
            news: NewsSender::default(),
            permanent_grants,
            subagents: Arc::new(SessionSubagents(WeakRegistry(commands.downgrade()))),
            config: receiver,
        });
        let registry = RegistryHandle::spawn(commands, asked, Arc::clone(&shared));
        Self { shared, registry, config: sender, recovered: Arc::new(OnceCell::new()) }
    }

    /// Settles every turn that was open when the daemon last stopped: records which calls finished, never ran, or have
    /// an unknown outcome. Turns that wait for the user stay open. Also loads the permanent grants. Called once, at
    /// start.
    ///
    /// # Errors
    /// Fails if the journal cannot be read. A session that cannot be settled is logged, and retried at its next use.
    pub async fn recover(&self) -> Result<Vec<RecoveredTurn>> {
        self.shared.permanent_grants.reload().await?;
        let mut recovered = Vec::new();
        for id in self.shared.ports.store.open_turns().await? {
            match self.session(id).await?.recovered().await {
                Ok(report) => recovered.extend(report),
                Err(error) => tracing::error!(session = %id, "recovery after the last stop failed: {error}"),
            }
        }
        let _ = self.recovered.set(recovered.clone());
        Ok(recovered)
    }

    /// Creates a session with these settings and an optional title.
    ///
    /// # Errors
    /// Fails if the settings name a model or folder that is not usable, or the journal cannot be written.
    pub async fn create_session(&self, settings: SessionSettings, title: Option<String>) -> Result<SessionHandle> {
        let (id, settings) = self.prepare_session(settings, "").await?;
        let ports = &self.shared.ports;
        if let Err(error) = ports.store.create_session(id, ports.clock.now(), settings, Vec::new()).await {
            worktree::release_worktrees(ports, id).await;
            return Err(error.into());
        }
        self.shared.news.publish(SessionNews::Created(id));
        let handle = self.registry.get(id).await?;
        if let Some(title) = title {
            handle.rename(title).await?;
        }
        Ok(handle)
    }

    /// Returns the default settings of a new session.
    pub fn session_defaults(&self) -> SessionSettings {
        self.shared.config().session_defaults.clone()
    }

    /// Returns a session's handle. An unknown session is only reported by the first call on the handle.
    ///
    /// # Errors
    /// Fails if the engine is stopping.
    pub async fn session(&self, id: SessionId) -> Result<SessionHandle> {
        self.registry.get(id).await
    }

    /// Returns a session's handle if the session is in memory, without reading the journal.
    ///
    /// # Errors
    /// Fails if the engine is stopping.
    pub async fn live_session(&self, id: SessionId) -> Result<Option<SessionHandle>> {
        self.registry.live(id).await
    }

    /// Lists up to `limit` sessions, most recently used first.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub async fn sessions(&self, limit: usize) -> Result<Vec<SessionSummary>> {
        Ok(self.shared.ports.store.sessions(limit).await?)
    }

    /// Searches the history of one session or of all, best match first.
    ///
    /// # Errors
    /// Fails if the query contains no word, there is no such session, or the journal cannot be read.
    pub async fn search(&self, query: &str, session: Option<SessionId>, limit: usize) -> Result<SearchResult> {
        let hint = "give a few words to search for, such as: agentctl sessions search tax papers";
        let empty_query = || EngineError::invalid("the query is empty", hint);
        let query = SearchQuery::parse(query).ok_or_else(empty_query)?;
        Ok(self.shared.ports.store.search(query, session, limit).await?)
    }

    /// Lists the pending interrupts of one session or of all.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub async fn interrupts(&self, session: Option<SessionId>) -> Result<Vec<Interrupt>> {
        Ok(self.shared.ports.store.pending_interrupts(session).await?)
    }

    /// Answers an interrupt in any session, once.
    ///
    /// # Errors
    /// Fails if there is no such interrupt, it was already answered, or the answer does not fit.
    pub async fn answer(&self, id: InterruptId, answer: Answer, client: String) -> Result<()> {
        let hint = "list pending questions with `agentctl interrupts`";
        let unknown = || EngineError::not_found(format!("no such question: {id}"), hint);
        let stored = self.shared.ports.store.interrupt(id).await?.ok_or_else(unknown)?;
        self.session(stored.interrupt.session_id).await?.answer(id, answer, client).await
    }

    /// Lists all model slots, after querying each server for details that are not configured.
    pub async fn look_up_models(&self) -> Vec<SlotInfo> {
        let models = &self.shared.ports.models;
        let all: Vec<_> = Slot::ALL.into_iter().map(|slot| models.get(slot)).collect();
        // Details that do not arrive in time stay unknown.
        let _ = timeout(LOOK_UP_TIMEOUT, join_all(all.iter().map(|model| model.look_up()))).await;
        models.list()
    }

    /// Lists all current tools sorted by name, including those that no turn offers.
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.shared.catalog().specs()
    }

    /// Lists all tools with the reason why the next turn would offer each or not, for a session or for a new one.
    ///
    /// # Errors
    /// Fails if there is no such session or it cannot be loaded.
    pub async fn tool_standings(&self, session: Option<SessionId>) -> Result<Vec<ToolStanding>> {
        match session {
            Some(id) => self.session(id).await?.tools().await,
            None => {
                let config = self.shared.config();
                let active_agent = ActiveAgent::of(&config.session_defaults, &[], &config.agents);
                Ok(active_agent
                    .standings(self.shared.catalog().standings(&MentionedTools::new(), &ToolScope::default())))
            }
        }
    }

    /// Returns the names and reasons of the chain's links, in order.
    pub fn chain(&self) -> Vec<(&'static str, &'static str)> {
        self.shared.chain.descriptions()
    }

    /// Replaces the configuration. New turns use the new configuration, and its policy applies to every call from now
    /// on.
    pub fn reconfigure(&self, config: EngineConfig) {
        self.config.send_replace(Arc::new(config));
        self.shared.news.publish(SessionNews::Reconfigured);
    }

    /// Subscribes to news from all sessions.
    pub fn watch(&self) -> NewsReader {
        self.shared.news.watch()
    }

    /// Reads a stored event. Returns `None` if there is no such event or the session is gone.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub async fn stored_event(&self, session: SessionId, seq: u64) -> Result<Option<Arc<Event>>> {
        match self.shared.ports.store.events(session, seq.saturating_sub(1), 1).await {
            Ok(events) => Ok(events.into_iter().next().filter(|event| event.seq == seq)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the ports for read access.
    pub fn ports(&self) -> &Ports {
        &self.shared.ports
    }

    /// Returns the current engine configuration.
    pub fn config(&self) -> Arc<EngineConfig> {
        self.shared.config()
    }

    /// Returns the summary of a session, or `None` if there is no such session.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub async fn summary(&self, id: SessionId) -> Result<Option<SessionSummary>> {
        Ok(self.shared.ports.store.session(id).await?.map(|stored| stored.summary))
    }

    /// Returns the current statistics of the engine.
    pub fn stats(&self) -> EngineStats {
        let recovered = self.recovered.get().cloned().unwrap_or_default();
        EngineStats { activity: *self.shared.activity.borrow(), recovered }
    }

    /// Watches the engine's activity, for example to act when it is idle.
    pub fn activity(&self) -> watch::Receiver<Activity> {
        self.shared.activity.subscribe()
    }

    /// Performs a small read of the journal, so that a watchdog can check that the daemon works.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub async fn probe(&self) -> Result<()> {
        self.shared.ports.store.sessions(1).await.map(drop).map_err(EngineError::from)
    }

    /// Accepts no more turns, lets running turns continue until the deadline, then suspends them, and unloads all
    /// sessions. Turns that wait for the user stay pending, and can be answered after the next start.
    pub async fn drain(&self, deadline: Duration) {
        self.registry.drain(deadline).await;
    }

    /// Reports usage by model, session, day or slot, including deleted sessions.
    ///
    /// # Errors
    /// Fails if the last day is before the first, or the journal cannot be read.
    pub async fn usage(&self, query: UsageQuery) -> Result<UsageReport> {
        let Ports { store, clock, .. } = &*self.shared.ports;
        Ok(store.usage(query, clock.now()).await?)
    }

    /// Returns the model of a slot for a test, after querying its server.
    pub async fn probed_model(&self, slot: Slot) -> ProbedModel {
        let (ports, windows) = (Arc::clone(&self.shared.ports), Arc::clone(&self.shared.windows));
        let model = ports.models.get(slot);
        let _ = timeout(LOOK_UP_TIMEOUT, model.look_up()).await;
        ProbedModel { slot, model, windows, ports }
    }
}

/// A model under test. Calls to the model count towards usage, but belong to no session.
pub struct ProbedModel {
    slot: Slot,
    /// The model under test.
    pub model: Arc<dyn Model>,
    /// Context window sizes, as learned by turns.
    pub windows: Arc<ContextWindows>,
    ports: Arc<Ports>,
}

impl ProbedModel {
    /// Records the token usage of one call. A failure is logged and does not fail the test.
    pub async fn count(&self, usage: Usage) {
        let model = self.model.info().id.clone();
        let side = SideUsage { at: self.ports.clock.now(), slot: self.slot, model, usage };
        if let Err(error) = self.ports.store.count_usage(side).await {
            tracing::warn!("could not count the usage of a model test: {error}");
        }
    }
}
