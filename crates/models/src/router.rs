//! Mapping of slots to models.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use agentd_core::{
    model::{Slot, SlotInfo},
    ports::{FallbackModel, Model, Models},
    route::Routes,
};

use crate::{
    call::HttpModel,
    config::{Fallback, ModelConfig, ModelConfigError, Wire},
    facts::records::ModelRecords,
    http::target::Clients,
};

/// The five slots. An empty one falls back to the base slot, and an empty base slot to the embedded model.
pub struct ModelRouter {
    slots: BTreeMap<Slot, FilledSlot>,
    named: Mutex<NamedModels>,
    embedded: Arc<dyn Model>,
    records: Arc<ModelRecords>,
}

struct FilledSlot {
    config: ModelConfig,
    model: Arc<dyn Model>,
    /// Fallback models that have their own configuration, by position in the list of fallbacks.
    fallback_models: BTreeMap<usize, Arc<dyn Model>>,
}

/// Models that sessions chose by ID, and the HTTP clients for creating more.
#[derive(Default)]
struct NamedModels {
    clients: Clients,
    models: HashMap<(Slot, String), Arc<dyn Model>>,
}

/// Maximum number of cached models chosen by ID. Beyond this number, the cache is cleared, and the server's facts are
/// queried again.
const MAX_NAMED: usize = 64;

/// Slot whose model is configured incorrectly.
#[derive(Debug, thiserror::Error)]
#[error("invalid model for slot {slot}")]
pub struct SlotError {
    /// Slot with the invalid configuration.
    pub slot: Slot,
    /// The reason for the error.
    #[source]
    pub source: ModelConfigError,
}

impl ModelRouter {
    /// Creates the models of the configuration with their records, over these routes. Uses no network.
    ///
    /// # Errors
    /// Returns the first slot with an invalid URL or header.
    pub fn with_records(
        slots: &BTreeMap<Slot, ModelConfig>,
        embedded: Arc<dyn Model>,
        records: Arc<ModelRecords>,
        routes: Routes,
    ) -> Result<Self, SlotError> {
        let mut clients = Clients::new(routes);
        let mut filled_slots = BTreeMap::new();
        for (slot, config) in slots {
            let mut open = |config| {
                HttpModel::open(config, &mut clients, &records).map_err(|source| SlotError { slot: *slot, source })
            };
            let (model, mut fallback_models) = (open(config)?, BTreeMap::new());
            for (index, fallback) in config.fallback.iter().enumerate() {
                if let Fallback::Model(config) = fallback {
                    fallback_models.insert(index, open(config)?);
                }
            }
            filled_slots.insert(*slot, FilledSlot { config: config.clone(), model, fallback_models });
        }
        let named = Mutex::new(NamedModels { clients, models: HashMap::new() });
        Ok(Self { slots: filled_slots, named, embedded, records })
    }

    /// Returns the slot that serves `slot`, if any.
    fn resolve(&self, slot: Slot) -> Option<(Slot, &FilledSlot)> {
        let slot = if self.slots.contains_key(&slot) { slot } else { Slot::Base };
        Some((slot, self.slots.get(&slot)?))
    }
}

impl Models for ModelRouter {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        self.resolve(slot).map_or(&self.embedded, |(_, filled)| &filled.model).clone()
    }

    fn named(&self, slot: Slot, id: &str) -> Option<Arc<dyn Model>> {
        let (slot, FilledSlot { config, model: own, .. }) = self.resolve(slot)?;
        if config.wire == Wire::LlamaCpp {
            return None;
        }
        if own.info().id == id {
            return Some(Arc::clone(own));
        }
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let NamedModels { clients, models } = &mut *named;
        if let Some(model) = models.get(&(slot, id.to_owned())) {
            return Some(Arc::clone(model));
        }
        let config = ModelConfig { sees_pictures: (slot == Slot::Vision).then_some(true), ..config.with_id(id) };
        let model = HttpModel::open(&config, clients, &self.records)
            .inspect_err(|error| tracing::warn!("could not set up a named model: {error}"));
        let model = model.ok()?;
        if models.len() >= MAX_NAMED {
            models.clear();
        }
        models.insert((slot, id.to_owned()), Arc::clone(&model));
        Some(model)
    }

    fn own_slots(&self) -> Vec<Slot> {
        self.slots.keys().copied().collect()
    }

    fn fallbacks(&self, slot: Slot) -> Vec<FallbackModel> {
        let Some((slot, FilledSlot { config, fallback_models, .. })) = self.resolve(slot) else { return Vec::new() };
        let fallback = |(index, fallback): (usize, &Fallback)| {
            let (slot, model) = match fallback {
                Fallback::Slot(other) => (*other, Some(self.get(*other))),
                Fallback::Id(id) => (slot, self.named(slot, id)),
                Fallback::Model(_) => (slot, fallback_models.get(&index).cloned()),
            };
            Some(FallbackModel { slot, model: model? })
        };
        config.fallback.iter().enumerate().filter_map(fallback).collect()
    }

    fn list(&self) -> Vec<SlotInfo> {
        let falls_back_to = |slot: Slot| (slot != Slot::Base && !self.slots.contains_key(&slot)).then_some(Slot::Base);
        Slot::ALL
            .into_iter()
            .map(|slot| SlotInfo { slot, falls_back_to: falls_back_to(slot), model: self.get(slot).info().clone() })
            .collect()
    }
}

/// Creates a single model. Uses no network.
///
/// # Errors
/// Fails if the URL or a header is invalid.
pub fn connect(config: &ModelConfig) -> Result<Arc<dyn Model>, ModelConfigError> {
    HttpModel::open(config, &mut Clients::default(), &Arc::default())
}
