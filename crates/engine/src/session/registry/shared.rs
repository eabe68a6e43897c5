//! What all sessions share: the ports, the tools, what was learned of models, and what people allowed for good. Models whose
//! servers did not answer a moment ago are remembered, by which sessions save each other the wait.
//!
//! And what all sessions do, in one place: how many sessions and turns there are, and news for those who watch them together.
//! Nothing is done for watchers while nobody watches, and nobody waits for one: one that is too slow hears how much it has missed.

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
    grants::KeptHandle,
    recovery::RecoveredTurn,
    session::registry::worktree::ClosedFolders,
    turn::hooks::{Chain, Subagents},
};

/// Catalogs that are kept of sessions with tools of their own.
const SESSION_STOCKS: usize = 16;

/// State that all sessions share.
pub(crate) struct Shared {
    pub(crate) ports: Arc<Ports>,
    /// All tools that there were when somebody last looked.
    pub(crate) stock: watch::Sender<Arc<ToolCatalog>>,
    /// Those of sessions that have more tools than all have, the latest at the end.
    pub(crate) session_stocks: watch::Sender<Vec<Arc<ToolCatalog>>>,
    /// The tools that agents were shown last.
    pub(crate) toolsets: ToolSetCache,
    /// Calibration of token counts, model by model.
    pub(crate) scales: Arc<TokenCalibration>,
    /// Sizes of the windows of models, as their servers said.
    pub(crate) windows: Arc<ContextWindows>,
    /// Models whose servers did not answer a moment ago.
    pub(crate) resting: RestingModels,
    pub(crate) chain: Arc<Chain>,
    /// The figures that sessions keep.
    pub(crate) activity: watch::Sender<Activity>,
    /// News for those who watch all sessions.
    pub(crate) news: NewsSender,
    /// Folders in which no turn begins now.
    pub(crate) closed: ClosedFolders,
    /// Permanent grants.
    pub(crate) kept: KeptHandle,
    /// The sessions that work for others.
    pub(crate) subagents: Arc<dyn Subagents>,
    pub(crate) config: watch::Receiver<Arc<EngineConfig>>,
}

impl Shared {
    /// The configuration that is in force now.
    pub(crate) fn config(&self) -> Arc<EngineConfig> {
        Arc::clone(&self.config.borrow())
    }

    /// All tools that there are now.
    pub(crate) fn stock(&self) -> Arc<ToolCatalog> {
        let catalogue = self.ports.toolbox.catalogue();
        let known = Arc::clone(&self.stock.borrow());
        if known.is_of(&catalogue) {
            return known;
        }
        let new = Arc::new(ToolCatalog::new(catalogue, self.chain.tools()));
        self.stock.send_replace(Arc::clone(&new));
        new
    }

    /// All tools that there are now for a session.
    pub(crate) fn stock_of(&self, session: SessionId) -> Arc<ToolCatalog> {
        let Some(catalogue) = self.ports.toolbox.session_catalogue(session) else { return self.stock() };
        let known = self.session_stocks.borrow().iter().find(|stock| stock.is_of(&catalogue)).cloned();
        if let Some(known) = known {
            return known;
        }
        let new = Arc::new(ToolCatalog::new(catalogue, self.chain.tools()));
        self.session_stocks.send_modify(|stocks| {
            if stocks.len() == SESSION_STOCKS {
                stocks.remove(0);
            }
            stocks.push(Arc::clone(&new));
        });
        new
    }
}

/// Models that are kept in mind at the most.
const MAX_MODELS: usize = 256;

/// Models that are given a rest.
#[derive(Debug, Default)]
pub(crate) struct RestingModels(watch::Sender<HashMap<ModelPlace, (Instant, String)>>);

/// Address and id of a model.
type ModelPlace = (Option<String>, String);

impl RestingModels {
    /// Takes note that a model does not answer, and why.
    pub(crate) fn note(&self, model: &ModelInfo, why: &str) {
        self.0.send_modify(|known| {
            if known.len() >= MAX_MODELS {
                known.clear();
            }
            known.insert(place(model), (Instant::now(), why.to_owned()));
        });
    }

    /// Why a model did not answer within that time.
    pub(crate) fn since(&self, model: &ModelInfo, time: Duration) -> Option<String> {
        let known = self.0.borrow();
        let (noted, why) = known.get(&place(model))?;
        (noted.elapsed() < time).then(|| why.clone())
    }
}

fn place(info: &ModelInfo) -> ModelPlace {
    (info.base_url.clone(), info.id.clone())
}

/// Activity of the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Sessions in memory.
    pub sessions: usize,
    /// Turns that are open.
    pub open_turns: usize,
    /// Those of them that wait for a person.
    pub waiting_turns: usize,
}

impl Activity {
    /// Returns whether no turn is at work: each that is open waits for a person, with one of its calls at least.
    pub fn is_quiet(&self) -> bool {
        self.open_turns == self.waiting_turns
    }
}

/// Figures about what is going on.
#[derive(Debug, Clone, Default)]
pub struct EngineStats {
    /// Sessions and turns.
    pub activity: Activity,
    /// Turns that the last stop of the daemon had left behind.
    pub recovered: Vec<RecoveredTurn>,
}

/// One session's share of the figures; given back when the session is unloaded, however that comes.
#[derive(Debug)]
pub(crate) struct GaugeGuard {
    activity: watch::Sender<Activity>,
    open: bool,
    waiting: bool,
}

impl GaugeGuard {
    /// Counts a session.
    pub(crate) fn new(activity: &watch::Sender<Activity>) -> Self {
        activity.send_modify(|activity| activity.sessions += 1);
        Self { activity: activity.clone(), open: false, waiting: false }
    }

    /// Says whether the session has an open turn, and whether it waits for a person.
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

/// News that wait for a slow watcher at the most.
const QUEUE: usize = 1024;

/// Something that happened, as watchers of all sessions hear of it.
#[derive(Debug, Clone)]
pub enum SessionNews {
    /// There is a new session.
    Created(SessionId),
    /// A session is gone for good.
    Deleted {
        /// The session.
        session: SessionId,
        /// Set if it worked for another one.
        is_child: bool,
    },
    /// A stored fact that changes what lists show, a turn that began or ended, or a question and its answer. Only its place is
    /// told: the fact itself may be long, and watchers that do not read would hold it.
    Fact {
        /// The session.
        session: SessionId,
        /// The number of its event.
        seq: u64,
        /// Set if it is more than a change of what lists show.
        is_event: bool,
        /// Set if the session works for another one.
        is_child: bool,
    },
    /// The configuration was read again.
    Reconfigured,
}

/// Place at which news are told.
#[derive(Debug)]
pub(crate) struct NewsSender(broadcast::Sender<SessionNews>);

impl Default for NewsSender {
    fn default() -> Self {
        Self(broadcast::Sender::new(QUEUE))
    }
}

impl NewsSender {
    pub(crate) fn tell(&self, news: SessionNews) {
        // Without watchers it goes nowhere.
        let _ = self.0.send(news);
    }

    /// Tells of stored facts, as far as they are news.
    pub(crate) fn tell_facts(&self, stored: &[Arc<Event>], is_child: bool) {
        if self.0.receiver_count() == 0 {
            return;
        }
        for event in stored {
            let is_event = is_event(&event.kind);
            if is_event || changes_lists(&event.kind) {
                self.tell(SessionNews::Fact { session: event.session_id, seq: event.seq, is_event, is_child });
            }
        }
    }

    pub(crate) fn watch(&self) -> NewsReader {
        NewsReader(self.0.subscribe())
    }
}

/// A watcher's end.
#[derive(Debug)]
pub struct NewsReader(broadcast::Receiver<SessionNews>);

/// Number of news that a watcher has missed, because it did not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissedNews(pub u64);

impl NewsReader {
    /// The next news; none where the engine is gone.
    pub async fn next(&mut self) -> Option<Result<SessionNews, MissedNews>> {
        match self.0.recv().await {
            Ok(news) => Some(Ok(news)),
            Err(RecvError::Lagged(missed)) => Some(Err(MissedNews(missed))),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next news, if there is any already.
    pub fn try_next(&mut self) -> Option<Result<SessionNews, MissedNews>> {
        match self.0.try_recv() {
            Ok(news) => Some(Ok(news)),
            Err(TryRecvError::Lagged(missed)) => Some(Err(MissedNews(missed))),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

/// Returns whether a fact is news by itself: what is said and done in a turn is not.
fn is_event(fact: &EventKind) -> bool {
    matches!(
        fact,
        EventKind::TurnStarted { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::InterruptRaised { .. }
            | EventKind::InterruptResolved { .. }
    )
}

/// Returns whether lists show a session otherwise after a fact that is no news by itself.
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
