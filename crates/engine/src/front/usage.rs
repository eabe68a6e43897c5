//! Usage of all sessions, and tests of models, whose calls belong to none.

use std::sync::Arc;

use agentd_core::{
    Date,
    counters::DayCounters,
    model::Slot,
    spending::{UsageQuery, UsageReport},
};
use tokio::time::timeout;

use super::{
    Engine, LOOK_UP,
    model_test::{ModelTest, SideTally},
};
use crate::{error::EngineError, session::shared::Ports};

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

    /// A test of the model that serves a slot, which asks nothing before its first check. Its server was asked which it is.
    pub async fn test_model(&self, slot: Slot) -> ModelTest {
        let Ports { models, store, clock, .. } = &self.shared.parts;
        let model = models.get(slot);
        let _ = timeout(LOOK_UP, model.look_up()).await;
        let tally = SideTally { slot, store: Arc::clone(store), clock: Arc::clone(clock) };
        ModelTest::new(model, Arc::clone(&self.shared.windows), tally)
    }
}
