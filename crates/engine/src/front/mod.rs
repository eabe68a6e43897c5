//! The front of the engine: finds and loads sessions; usage of all of them, and models for tests.

pub mod archives;
mod files;
pub mod forking;
mod removal;
pub mod rules;
pub mod starting;

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
    error::EngineError,
    grants::KeptHandle,
    links,
    recovery::RecoveredTurn,
    session::{
        SessionHandle,
        registry::{
            QUEUE, RegistryHandle, WeakRegistry,
            shared::{Activity, EngineStats, NewsReader, NewsSender, SessionNews, Shared},
            worktree::{self, ClosedFolders},
        },
    },
    subagent::SessionSubagents,
};

/// Time limit for asking all servers about their models.
const LOOK_UP: Duration = Duration::from_secs(2);

/// The front of the engine. Cloneable; all clones speak to the same sessions.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    registry: RegistryHandle,
    config: watch::Sender<Arc<EngineConfig>>,
    recovered: Arc<OnceCell<Vec<RecoveredTurn>>>,
}

impl Engine {
    /// An engine on these ports, with these settings. Must be called inside a tokio runtime.
    pub fn new(ports: Ports, config: EngineConfig) -> Self {
        let chain = Arc::new(links::standard::chain());
        let stock = watch::Sender::new(Arc::new(ToolCatalog::new(ports.toolbox.catalogue(), chain.tools())));
        let (sender, receiver) = watch::channel(Arc::new(config));
        let kept = KeptHandle::spawn(Arc::clone(&ports.store));
        let (commands, asked) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            closed: ClosedFolders::default(),
            ports: Arc::new(ports),
            stock,
            session_stocks: watch::Sender::default(),
            toolsets: ToolSetCache::default(),
            scales: Arc::default(),
            windows: Arc::default(),
            resting: Default::default(),
            chain,
            activity: watch::Sender::default(),
            news: NewsSender::default(),
            kept,
            subagents: Arc::new(SessionSubagents(WeakRegistry(commands.downgrade()))),
            config: receiver,
        });
        let registry = RegistryHandle::spawn(commands, asked, Arc::clone(&shared));
        Self { shared, registry, config: sender, recovered: Arc::new(OnceCell::new()) }
    }

    /// Settles every turn that was open when the daemon last stopped: tells what finished, what never ran and what
    /// is unknown; leaves those open that wait for a person. What was allowed for good holds from here on. Called
    /// once, at start.
    ///
    /// # Errors
    /// When the journal cannot be read. A session that cannot be settled is logged and left for its next use.
    pub async fn recover(&self) -> Result<Vec<RecoveredTurn>, EngineError> {
        self.shared.kept.reload().await?;
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

    /// Creates a session.
    ///
    /// # Errors
    /// When the settings name a model that it cannot have, or the journal cannot be written.
    pub async fn create_session(
        &self,
        settings: SessionSettings,
        title: Option<String>,
    ) -> Result<SessionHandle, EngineError> {
        let (id, settings) = self.session_to_be(settings, "").await?;
        let parts = &self.shared.ports;
        if let Err(error) = parts.store.create_session(id, parts.clock.now(), settings, Vec::new()).await {
            worktree::leave(parts, id).await;
            return Err(error.into());
        }
        self.shared.news.tell(SessionNews::Created(id));
        let handle = self.registry.get(id).await?;
        if let Some(title) = title {
            handle.rename(title).await?;
        }
        Ok(handle)
    }

    /// The settings of a new session where nobody says otherwise.
    pub fn session_defaults(&self) -> SessionSettings {
        self.shared.config().session_defaults.clone()
    }

    /// One session. That there is none shows at the first question to the handle.
    ///
    /// # Errors
    /// When the engine is stopping.
    pub async fn session(&self, id: SessionId) -> Result<SessionHandle, EngineError> {
        self.registry.get(id).await
    }

    /// One session, if it is in memory: then nobody needs to ask the journal whether it exists.
    ///
    /// # Errors
    /// When the engine is stopping.
    pub async fn live_session(&self, id: SessionId) -> Result<Option<SessionHandle>, EngineError> {
        self.registry.live(id).await
    }

    /// Sessions, last used first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn sessions(&self, limit: usize) -> Result<Vec<SessionSummary>, EngineError> {
        Ok(self.shared.ports.store.sessions(limit).await?)
    }

    /// Finds what was said and done, in one session or in all, the best first.
    ///
    /// # Errors
    /// When the query has no word, there is no such session, or the journal cannot be read.
    pub async fn search(
        &self,
        query: &str,
        session: Option<SessionId>,
        limit: usize,
    ) -> Result<SearchResult, EngineError> {
        let hint = "give a few words that were used, such as: agentctl sessions search tax papers";
        let wordless = || EngineError::invalid("there is no word to look for", hint);
        let query = SearchQuery::parse(query).ok_or_else(wordless)?;
        Ok(self.shared.ports.store.search(query, session, limit).await?)
    }

    /// Pending interrupts, of one session or of all.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn interrupts(&self, session: Option<SessionId>) -> Result<Vec<Interrupt>, EngineError> {
        Ok(self.shared.ports.store.pending_interrupts(session).await?)
    }

    /// Answers an interrupt of any session, once.
    ///
    /// # Errors
    /// When there is no such interrupt, it was answered before, or the answer does not fit.
    pub async fn answer(&self, id: InterruptId, answer: Answer, client: String) -> Result<(), EngineError> {
        let stored = self.shared.ports.store.interrupt(id).await?.ok_or_else(|| {
            EngineError::not_found(format!("there is no interrupt {id}"), "agentctl interrupts shows what waits")
        })?;
        self.session(stored.interrupt.session_id).await?.answer(id, answer, client).await
    }

    /// All model slots, after each server was asked for what nobody configured of its model.
    pub async fn models_looked_up(&self) -> Vec<SlotInfo> {
        let models = &self.shared.ports.models;
        let all: Vec<_> = Slot::ALL.into_iter().map(|slot| models.get(slot)).collect();
        // What is not told in time is not known.
        let _ = timeout(LOOK_UP, join_all(all.iter().map(|model| model.look_up()))).await;
        models.list()
    }

    /// All tools that there are now, sorted by name, those included that no turn shows.
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.shared.stock().specs()
    }

    /// All tools, and why the next turn would show each or not: of a session, or of a new one.
    ///
    /// # Errors
    /// When there is no such session or it cannot be loaded.
    pub async fn tool_standings(&self, session: Option<SessionId>) -> Result<Vec<ToolStanding>, EngineError> {
        match session {
            Some(id) => self.session(id).await?.tools().await,
            None => {
                let config = self.shared.config();
                let acting = ActiveAgent::of(&config.session_defaults, &[], &config.agents);
                Ok(acting.standings(self.shared.stock().standings(&MentionedTools::new(), &ToolScope::default())))
            }
        }
    }

    /// The links of the chain with the reason of each, in order.
    pub fn chain(&self) -> Vec<(&'static str, &'static str)> {
        self.shared.chain.told()
    }

    /// Changes the configuration: for turns that start from now on, and the rules for every call from now on.
    pub fn reconfigure(&self, config: EngineConfig) {
        self.config.send_replace(Arc::new(config));
        self.shared.news.tell(SessionNews::Reconfigured);
    }

    /// News of all sessions, from now on.
    pub fn watch(&self) -> NewsReader {
        self.shared.news.watch()
    }

    /// The stored event of that number; none where there is none, or the session is gone.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn stored_event(&self, session: SessionId, seq: u64) -> Result<Option<Arc<Event>>, EngineError> {
        match self.shared.ports.store.events(session, seq.saturating_sub(1), 1).await {
            Ok(events) => Ok(events.into_iter().next().filter(|event| event.seq == seq)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The ports, for those who only look.
    pub fn ports(&self) -> &Ports {
        &self.shared.ports
    }

    /// Settings in force.
    pub fn config(&self) -> Arc<EngineConfig> {
        self.shared.config()
    }

    /// A session as lists show it; none where there is none.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn summary(&self, id: SessionId) -> Result<Option<SessionSummary>, EngineError> {
        Ok(self.shared.ports.store.session(id).await?.map(|stored| stored.summary))
    }

    /// Figures about what is going on.
    pub fn stats(&self) -> EngineStats {
        let recovered = self.recovered.get().cloned().unwrap_or_default();
        EngineStats { activity: *self.shared.activity.borrow(), recovered }
    }

    /// Activity of the engine, for those who act when there is none.
    pub fn activity(&self) -> watch::Receiver<Activity> {
        self.shared.activity.subscribe()
    }

    /// Asks the journal for something small, so that a watchdog knows that the daemon can work.
    ///
    /// # Errors
    /// When the journal does not answer.
    pub async fn probe(&self) -> Result<(), EngineError> {
        self.shared.ports.store.sessions(1).await.map(drop).map_err(EngineError::from)
    }

    /// Takes no more turns, gives those that run until the deadline, suspends the rest, and unloads everything.
    /// Turns that wait for a person are left as they are: their answers find them after the next start.
    pub async fn drain(&self, deadline: Duration) {
        self.registry.drain(deadline).await;
    }
}

/// A model for a test. Its calls are counted, and belong to no session.
pub struct ProbedModel {
    slot: Slot,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Windows as turns have learnt them.
    pub windows: Arc<ContextWindows>,
    ports: Arc<Ports>,
}

impl ProbedModel {
    /// Counts one call. A test continues where that cannot be stored.
    pub async fn count(&self, usage: Usage) {
        let model = self.model.info().id.clone();
        let side = SideUsage { at: self.ports.clock.now(), slot: self.slot, model, usage };
        if let Err(error) = self.ports.store.count_usage(side).await {
            tracing::warn!("the usage of a model test is not counted: {error}");
        }
    }
}

impl Engine {
    /// Usage of model calls by model, session, day or slot, that of deleted sessions included.
    ///
    /// # Errors
    /// When the last day is before the first, or the journal cannot be read.
    pub async fn usage(&self, query: UsageQuery) -> Result<UsageReport, EngineError> {
        let Ports { store, clock, .. } = &*self.shared.ports;
        Ok(store.usage(query, clock.now()).await?)
    }

    /// The model that serves a slot, for a test. Its server was asked which it is.
    pub async fn probed_model(&self, slot: Slot) -> ProbedModel {
        let (ports, windows) = (Arc::clone(&self.shared.ports), Arc::clone(&self.shared.windows));
        let model = ports.models.get(slot);
        let _ = timeout(LOOK_UP, model.look_up()).await;
        ProbedModel { slot, model, windows, ports }
    }
}
