//! What all sessions share: the ports, the tools, what was learned of models, and what people allowed for good.

use std::sync::Arc;

use agentd_context::{tokens::TokenCalibration, windows::ContextWindows};
use agentd_core::{
    ids::SessionId,
    ports::{Audit, Clock, Exchanges, Languages, Models, Pictures, Snapshots, Store, Toolbox, Workspaces},
};
use tokio::sync::watch;

use crate::{
    agents::toolset_cache::ToolSetCache,
    catalog::ToolCatalog,
    config::{EngineConfig, PolicyInForce},
    grants::KeptHandle,
    session::{
        models::resting::RestingModels,
        registry::{closed::ClosedFolders, gauges::Gauges, news::NewsSender, siblings::WeakRegistry},
    },
    turn::hooks::{Chain, Subagents},
};

/// Catalogs that are kept of sessions with tools of their own.
const SESSION_STOCKS: usize = 16;

/// State that all sessions share.
pub(crate) struct Shared {
    pub(crate) parts: Ports,
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
    /// The way of sessions to other sessions.
    pub(crate) siblings: WeakRegistry,
    /// The sessions that work for others.
    pub(crate) subagents: Arc<dyn Subagents>,
    pub(crate) config: watch::Receiver<Arc<EngineConfig>>,
}

/// Ports of the engine, without its settings, which may change.
pub struct Ports {
    /// The models.
    pub models: Arc<dyn Models>,
    /// The tools.
    pub toolbox: Arc<dyn Toolbox>,
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The sessions' files.
    pub workspaces: Arc<dyn Workspaces>,
    /// Makes pictures fit for models. Without it none is shown.
    pub pictures: Option<Arc<dyn Pictures>>,
    /// Storage of what calls change in those files.
    pub snapshots: Arc<dyn Snapshots>,
    /// The language servers.
    pub languages: Arc<dyn Languages>,
    /// The audit log.
    pub audit: Arc<dyn Audit>,
    /// Keeps what goes over the wires of models.
    pub exchanges: Arc<dyn Exchanges>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Shared {
    /// The configuration that is in force now.
    pub(crate) fn config(&self) -> Arc<EngineConfig> {
        Arc::clone(&self.config.borrow())
    }

    /// All tools that there are now.
    pub(crate) fn stock(&self) -> Arc<ToolCatalog> {
        let catalogue = self.parts.toolbox.catalogue();
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
        let Some(catalogue) = self.parts.toolbox.session_catalogue(session) else { return self.stock() };
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
