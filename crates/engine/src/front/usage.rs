//! Usage of all sessions, and models for tests, whose calls belong to none.

use std::sync::Arc;

use agentd_context::windows::ContextWindows;
use agentd_core::{
    Date,
    counters::DayCounters,
    model::Slot,
    ports::{Clock, Model, Store},
    spending::{SideUsage, UsageQuery, UsageReport},
    usage::Usage,
};
use tokio::time::timeout;

use super::{Engine, LOOK_UP};
use crate::{error::EngineError, session::registry::shared::Ports};

/// A model for a test. Its calls are counted, and belong to no session.
pub struct ProbedModel {
    slot: Slot,
    /// The model.
    pub model: Arc<dyn Model>,
    /// Windows as turns have learnt them.
    pub windows: Arc<ContextWindows>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl ProbedModel {
    /// Counts one call. A test continues where that cannot be stored.
    pub async fn count(&self, usage: Usage) {
        let model = self.model.info().id.clone();
        let side = SideUsage { at: self.clock.now(), slot: self.slot, model, usage };
        if let Err(error) = self.store.count_usage(side).await {
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
        let Ports { store, clock, .. } = &self.shared.parts;
        Ok(store.usage(query, clock.now()).await?)
    }

    /// Counters of what happened from one day to another, day by day.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn counters(&self, since: Option<Date>, until: Option<Date>) -> Result<Vec<DayCounters>, EngineError> {
        Ok(self.shared.parts.store.counters(since, until).await?)
    }

    /// The model that serves a slot, for a test. Its server was asked which it is.
    pub async fn probed_model(&self, slot: Slot) -> ProbedModel {
        let Ports { models, store, clock, .. } = &self.shared.parts;
        let model = models.get(slot);
        let _ = timeout(LOOK_UP, model.look_up()).await;
        let (store, clock) = (Arc::clone(store), Arc::clone(clock));
        ProbedModel { slot, model, windows: Arc::clone(&self.shared.windows), store, clock }
    }
}
