//! The models, exchangeable while turns run. A turn asks once and keeps what it got.

use std::sync::{Arc, PoisonError, RwLock};

use agentd_core::{
    model::{Slot, SlotInfo},
    ports::{FallbackModel, Model, Models},
};

/// The engine's models, which a reload may replace.
pub struct ReloadableModels(RwLock<Arc<dyn Models>>);

impl ReloadableModels {
    /// Stands for these models.
    #[must_use]
    pub fn new(models: Arc<dyn Models>) -> Self {
        Self(RwLock::new(models))
    }

    /// Replaces the models. Running calls continue with the old ones.
    pub fn replace(&self, models: Arc<dyn Models>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = models;
    }

    fn current(&self) -> Arc<dyn Models> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Models for ReloadableModels {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        self.current().get(slot)
    }

    fn named(&self, slot: Slot, id: &str) -> Option<Arc<dyn Model>> {
        self.current().named(slot, id)
    }

    fn own_slots(&self) -> Vec<Slot> {
        self.current().own_slots()
    }

    fn fallbacks(&self, slot: Slot) -> Vec<FallbackModel> {
        self.current().fallbacks(slot)
    }

    fn list(&self) -> Vec<SlotInfo> {
        self.current().list()
    }
}
