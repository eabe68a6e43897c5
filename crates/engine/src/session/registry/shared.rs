//! State shared by all sessions: the ports, the tools, facts learned about models, and permanent grants. Models whose
//! servers did not answer recently are remembered, so that other sessions do not wait for them again.
//!
//! Also the engine's activity counters and the news about sessions. Publishing news costs nothing without watchers and
//! never waits for a watcher. A slow watcher is informed how many items it has missed.

use std::{collections::HashMap, sync::Arc, time::Duration};

use agentd_context::{tokens::TokenCalibration, windows::ContextWindows};
use agentd_core::{
    event::{Event, EventKind, StateChange},
    ids::SessionId,
    model::ModelInfo,
};
use tokio::{
    sync::{
        broadcast::{
            self,
            error::{RecvError, TryRecvError},
        },
        watch,
    },
    time::Instant,
};

use crate::{
    agents::ToolSetCache,
    catalog::ToolCatalog,
    config::{EngineConfig, Ports},
    grants::PermanentGrants,
    recovery::RecoveredTurn,
    session::registry::worktree::ClosedFolders,
    turn::hooks::{Chain, Subagents},
};

/// Catalogues cached for sessions with additional tools.
const MAX_SESSION_CATALOGS: usize = 16;

/// State that all sessions share.
pub(crate) struct EngineState {
    pub(crate) ports: Arc<Ports>,
    /// Catalogue of all tools, as of the last lookup.
    pub(crate) catalog: watch::Sender<Arc<ToolCatalog>>,
    /// Catalogues of sessions with additional tools, newest last.
    pub(crate) session_catalogs: watch::Sender<Vec<Arc<ToolCatalog>>>,
    /// Cache of the tool sets shown to agents.
    pub(crate) toolsets: ToolSetCache,
    /// Calibration of token counts per model.
    pub(crate) calibration: Arc<TokenCalibration>,
    /// Context window sizes of models, as reported by their servers.
    pub(crate) windows: Arc<ContextWindows>,
    /// Models whose servers did not answer recently.
    pub(crate) unreachable: UnreachableModels,
    pub(crate) chain: Arc<Chain>,
    /// Activity counters, updated by the sessions.
    pub(crate) activity: watch::Sender<Activity>,
    /// News for watchers of all sessions.
    pub(crate) news: NewsSender,
    /// Folders in which currently no turn may begin.
    pub(crate) closed: ClosedFolders,
    /// Permanent grants, shared by all sessions.
    pub(crate) permanent_grants: PermanentGrants,
    /// Runs the sessions of subagents.
    pub(crate) subagents: Arc<dyn Subagents>,
    pub(crate) config: watch::Receiver<Arc<EngineConfig>>,
}

impl EngineState {
    /// Returns the current configuration.
    pub(crate) fn config(&self) -> Arc<EngineConfig> {
        Arc::clone(&self.config.borrow())
    }

    /// Returns the current catalogue of all tools.
    pub(crate) fn catalog(&self) -> Arc<ToolCatalog> {
        let catalogue = self.ports.toolbox.catalogue();
        let current = Arc::clone(&self.catalog.borrow());
        if current.is_built_from(&catalogue) {
            return current;
        }
        let new = Arc::new(ToolCatalog::new(catalogue, self.chain.tools()));
        self.catalog.send_replace(Arc::clone(&new));
        new
    }

    /// Returns the current catalogue of one session's tools.
    pub(crate) fn catalog_of(&self, session: SessionId) -> Arc<ToolCatalog> {
        let Some(catalogue) = self.ports.toolbox.session_catalogue(session) else { return self.catalog() };
        let cached = self.session_catalogs.borrow().iter().find(|catalog| catalog.is_built_from(&catalogue)).cloned();
        if let Some(cached) = cached {
            return cached;
        }
        let new = Arc::new(ToolCatalog::new(catalogue, self.chain.tools()));
        self.session_catalogs.send_modify(|catalogs| {
            if catalogs.len() == MAX_SESSION_CATALOGS {
                catalogs.remove(0);
            }
            catalogs.push(Arc::clone(&new));
        });
        new
    }
}

/// Maximum number of remembered models.
const MAX_MODELS: usize = 256;

/// Models that recently failed to answer, with the time and the reason.
#[derive(Debug, Default)]
pub(crate) struct UnreachableModels(watch::Sender<HashMap<ModelKey, (Instant, String)>>);

/// Base URL and ID of a model.
type ModelKey = (Option<String>, String);

impl UnreachableModels {
    /// Records that a model did not answer, with the reason.
    pub(crate) fn note(&self, model: &ModelInfo, reason: &str) {
        self.0.send_modify(|models| {
            if models.len() >= MAX_MODELS {
                models.clear();
            }
            models.insert(model_key(model), (Instant::now(), reason.to_owned()));
        });
    }

    /// Returns the reason why a model did not answer if the failure was less than `time` ago.
    pub(crate) fn since(&self, model: &ModelInfo, time: Duration) -> Option<String> {
        let models = self.0.borrow();
        let (since, reason) = models.get(&model_key(model))?;
        (since.elapsed() < time).then(|| reason.clone())
    }
}

fn model_key(info: &ModelInfo) -> ModelKey {
    (info.base_url.clone(), info.id.clone())
}

/// Activity of the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Number of sessions in memory.
    pub sessions: usize,
    /// Number of open turns.
    pub open_turns: usize,
    /// Number of open turns that wait for the user.
    pub waiting_turns: usize,
}

impl Activity {
    /// Returns true if no turn is working: each open turn has at least one call that waits for the user.
    pub fn is_quiet(&self) -> bool {
        self.open_turns == self.waiting_turns
    }
}

/// Statistics of the engine.
#[derive(Debug, Clone, Default)]
pub struct EngineStats {
    /// Current sessions and turns.
    pub activity: Activity,
    /// Turns that were left open by the last stop of the daemon.
    pub recovered: Vec<RecoveredTurn>,
}

/// One session's contribution to the counters, removed when the guard is dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard {
    activity: watch::Sender<Activity>,
    open: bool,
    waiting: bool,
}

impl GaugeGuard {
    /// Counts a session that was loaded.
    pub(crate) fn new(activity: &watch::Sender<Activity>) -> Self {
        activity.send_modify(|activity| activity.sessions += 1);
        Self { activity: activity.clone(), open: false, waiting: false }
    }

    /// Updates whether the session has an open turn, and whether that turn waits for the user.
    pub(crate) fn set(&mut self, open: bool, waiting: bool) {
        let before = (self.open, self.waiting);
        if before == (open, waiting) {
            return;
        }
        self.activity.send_modify(|activity| {
            activity.open_turns = activity.open_turns - usize::from(before.0) + usize::from(open);
            activity.waiting_turns = activity.waiting_turns - usize::from(before.1) + usize::from(waiting);
        });
        (self.open, self.waiting) = (open, waiting);
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.set(false, false);
        self.activity.send_modify(|activity| activity.sessions -= 1);
    }
}

/// Maximum number of news items buffered for a slow watcher.
const QUEUE: usize = 1024;

/// An event for watchers of all sessions.
#[derive(Debug, Clone)]
pub enum SessionNews {
    /// A session was created.
    Created(SessionId),
    /// A session was deleted.
    Deleted {
        /// ID of the deleted session.
        session: SessionId,
        /// True if the deleted session was a subagent.
        is_child: bool,
    },
    /// A stored fact: a change that session lists show, the start or end of a turn, or a question or its answer.
    /// Carries only the fact's sequence number, because the fact may be long and slow watchers would keep it in memory.
    Fact {
        /// ID of the session.
        session: SessionId,
        /// Sequence number of the event.
        seq: u64,
        /// True for turns and questions; false if only session lists change.
        is_event: bool,
        /// True if the session is a subagent of another session.
        is_child: bool,
    },
    /// The configuration was reloaded.
    Reconfigured,
}

/// Sending half of the news channel.
#[derive(Debug)]
pub(crate) struct NewsSender(broadcast::Sender<SessionNews>);

impl Default for NewsSender {
    fn default() -> Self {
        Self(broadcast::Sender::new(QUEUE))
    }
}

impl NewsSender {
    pub(crate) fn publish(&self, news: SessionNews) {
        // An error only means that there are no watchers.
        let _ = self.0.send(news);
    }

    /// Sends the stored facts that are news.
    pub(crate) fn publish_facts(&self, stored: &[Arc<Event>], is_child: bool) {
        if self.0.receiver_count() == 0 {
            return;
        }
        for event in stored {
            let is_event = is_event(&event.kind);
            if is_event || changes_lists(&event.kind) {
                self.publish(SessionNews::Fact { session: event.session_id, seq: event.seq, is_event, is_child });
            }
        }
    }

    pub(crate) fn watch(&self) -> NewsReader {
        NewsReader(self.0.subscribe())
    }
}

/// Receiving half of the news channel.
#[derive(Debug)]
pub struct NewsReader(broadcast::Receiver<SessionNews>);

/// Number of news items that a slow watcher has missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissedNews(pub u64);

impl NewsReader {
    /// Waits for the next news. Returns `None` if the engine has ended.
    pub async fn next(&mut self) -> Option<Result<SessionNews, MissedNews>> {
        match self.0.recv().await {
            Ok(news) => Some(Ok(news)),
            Err(RecvError::Lagged(missed)) => Some(Err(MissedNews(missed))),
            Err(RecvError::Closed) => None,
        }
    }

    /// Returns the next news if one is buffered.
    pub fn try_next(&mut self) -> Option<Result<SessionNews, MissedNews>> {
        match self.0.try_recv() {
            Ok(news) => Some(Ok(news)),
            Err(TryRecvError::Lagged(missed)) => Some(Err(MissedNews(missed))),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// Returns true if a fact is news by itself. Messages and calls of a turn are not news.
fn is_event(fact: &EventKind) -> bool {
    matches!(
        fact,
        EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::InterruptRaised { .. }
            | EventKind::InterruptResolved { .. }
    )
}

/// Returns true if a fact changes session lists without being news by itself.
fn changes_lists(fact: &EventKind) -> bool {
    let EventKind::StateChanged { change } = fact else { return false };
    matches!(
        change,
        StateChange::Title { .. }
            | StateChange::Settings { .. }
            | StateChange::Queue { .. }
            | StateChange::Reset
            | StateChange::Agent { .. }
            | StateChange::Undone { .. }
            | StateChange::Withdrawn { .. }
    )
}
