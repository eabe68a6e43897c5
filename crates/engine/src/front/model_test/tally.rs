//! Usage of a test, which belongs to no session.

use std::sync::Arc;

use agentd_core::{
    model::{ModelInfo, Slot},
    ports::{Clock, Store},
    spending::SideUsage,
    usage::Usage,
};

/// Counts model calls that belong to no session.
pub(in crate::front) struct SideTally {
    pub(in crate::front) slot: Slot,
    pub(in crate::front) store: Arc<dyn Store>,
    pub(in crate::front) clock: Arc<dyn Clock>,
}

impl SideTally {
    /// Counts one call. A test goes on where that cannot be stored.
    pub(super) async fn count(&self, model: &ModelInfo, usage: Usage) {
        let side = SideUsage { at: self.clock.now(), slot: self.slot, model: model.id.clone(), usage };
        if let Err(error) = self.store.count_usage(side).await {
            tracing::warn!("the usage of a model test is not counted: {error}");
        }
    }
}
