//! What all sessions share: the ports, the tools, what was learned of models, and what people allowed for good. Models whose
//! servers did not answer a moment ago are remembered, by which sessions save each other the wait.

use std::{collections::HashMap, sync::Arc, time::Duration};

use agentd_context::{tokens::TokenCalibration, windows::ContextWindows};
use agentd_core::{ids::SessionId, model::ModelInfo};
use tokio::{sync::watch, time::Instant};

use crate::{
    agents::toolset_cache::ToolSetCache,
    catalog::ToolCatalog,
    config::{EngineConfig, PolicyInForce, Ports},
    grants::KeptHandle,
    session::registry::{
        activity::{Gauges, NewsSender},
        worktree::ClosedFolders,
    },
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
    pub(crate) gauges: Gauges,
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

    /// The rules, as they stand whenever they are asked.
    pub(crate) fn policy_in_force(&self) -> PolicyInForce {
        PolicyInForce(self.config.clone())
    }
}

/// Models that are kept in mind at the most.
const MAX_MODELS: usize = 256;

/// Models that are given a rest.
#[derive(Debug)]
pub(crate) struct RestingModels(watch::Sender<HashMap<ModelPlace, (Instant, String)>>);

/// Address and id of a model.
type ModelPlace = (Option<String>, String);

impl Default for RestingModels {
    fn default() -> Self {
        Self(watch::Sender::new(HashMap::new()))
    }
}

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
        if known.is_empty() {
            return None;
        }
        let (noted, why) = known.get(&place(model))?;
        (noted.elapsed() < time).then(|| why.clone())
    }
}

fn place(info: &ModelInfo) -> ModelPlace {
    (info.base_url.clone(), info.id.clone())
}
