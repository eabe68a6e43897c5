//! Which model serves which slot.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
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
    http::target::{Clients, Target},
    wire::{anthropic::Anthropic, dialect::Dialect, llamacpp::LlamaCpp, openai::OpenAi, responses::Responses},
};

/// The five slots. An empty one is served by the base slot, and an empty base slot by the embedded model.
pub struct ModelRouter {
    filled: BTreeMap<Slot, Arc<dyn Model>>,
    configs: BTreeMap<Slot, ModelConfig>,
    /// Models of their own that stand in for those of slots.
    standing_by: BTreeMap<Slot, Vec<StandBy>>,
    named: Mutex<NamedModels>,
    embedded: Arc<dyn Model>,
    records: Arc<ModelRecords>,
}

/// A model and its place in the list of its slot.
type StandBy = (usize, Arc<dyn Model>);

/// Models that sessions chose by their ids, and the clients for more of them.
#[derive(Default)]
struct NamedModels {
    clients: Clients,
    models: HashMap<(Slot, String), Arc<dyn Model>>,
}

/// Models that are kept once they were named. Of one that is named again after that, what its server told is asked again.
const MAX_NAMED: usize = 64;

/// A slot whose model cannot be spoken to.
#[derive(Debug, thiserror::Error)]
#[error("the model of slot {slot} cannot be used")]
pub struct SlotError {
    /// The slot.
    pub slot: Slot,
    /// Why.
    #[source]
    pub source: ModelConfigError,
}

impl ModelRouter {
    /// Makes the models of the configuration. Nothing is asked over the network.
    ///
    /// # Errors
    /// The first slot whose address or headers cannot be used.
    pub fn new(slots: &BTreeMap<Slot, ModelConfig>, embedded: Arc<dyn Model>) -> Result<Self, SlotError> {
        Self::with_records(slots, embedded, Arc::default(), Routes::default())
    }

    /// The same with what was learnt of models before, over these routes.
    ///
    /// # Errors
    /// The first slot whose address or headers cannot be used.
    pub fn with_records(
        slots: &BTreeMap<Slot, ModelConfig>,
        embedded: Arc<dyn Model>,
        records: Arc<ModelRecords>,
        routes: Routes,
    ) -> Result<Self, SlotError> {
        let mut clients = Clients::new(routes);
        let (mut filled, mut standing_by) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for (slot, config) in slots {
            let mut open =
                |config| open(config, &mut clients, &records).map_err(|source| SlotError { slot: *slot, source });
            filled.insert(*slot, open(config)?);
            for (place, fallback) in config.fallback.iter().enumerate() {
                let Fallback::Model(config) = fallback else { continue };
                standing_by.entry(*slot).or_default().push((place, open(config)?));
            }
        }
        let named = Mutex::new(NamedModels { clients, models: HashMap::new() });
        Ok(Self { filled, configs: slots.clone(), standing_by, named, embedded, records })
    }
}

impl Models for ModelRouter {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        let model = self.filled.get(&slot).or_else(|| self.filled.get(&Slot::Base));
        model.unwrap_or(&self.embedded).clone()
    }

    fn named(&self, slot: Slot, id: &str) -> Option<Arc<dyn Model>> {
        let slot = if self.configs.contains_key(&slot) { slot } else { Slot::Base };
        let (config, own) = (self.configs.get(&slot)?, self.filled.get(&slot)?);
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
        let model = open(&config, clients, &self.records)
            .inspect_err(|error| tracing::warn!("a named model cannot be used: {error}"));
        let model = model.ok()?;
        if models.len() >= MAX_NAMED {
            models.clear();
        }
        models.insert((slot, id.to_owned()), Arc::clone(&model));
        Some(model)
    }

    fn own_slots(&self) -> Vec<Slot> {
        self.filled.keys().copied().collect()
    }

    fn fallbacks(&self, slot: Slot) -> Vec<FallbackModel> {
        let slot = if self.configs.contains_key(&slot) { slot } else { Slot::Base };
        let Some(config) = self.configs.get(&slot) else { return Vec::new() };
        let own = |place: usize| {
            let (_, model) = self.standing_by.get(&slot)?.iter().find(|(of, _)| *of == place)?;
            Some(Arc::clone(model))
        };
        let fallback = |(place, fallback): (usize, &Fallback)| {
            let (slot, model) = match fallback {
                Fallback::Slot(other) => (*other, Some(self.get(*other))),
                Fallback::Id(id) => (slot, self.named(slot, id)),
                Fallback::Model(_) => (slot, own(place)),
            };
            Some(FallbackModel { slot, model: model? })
        };
        config.fallback.iter().enumerate().filter_map(fallback).collect()
    }

    fn list(&self) -> Vec<SlotInfo> {
        let falls_back_to = |slot: Slot| (slot != Slot::Base && !self.filled.contains_key(&slot)).then_some(Slot::Base);
        Slot::ALL
            .into_iter()
            .map(|slot| SlotInfo { slot, falls_back_to: falls_back_to(slot), model: self.get(slot).info().clone() })
            .collect()
    }
}

impl fmt::Debug for ModelRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRouter").field("slots", &self.list()).finish()
    }
}

/// Makes one model by itself. Nothing is asked over the network.
///
/// # Errors
/// Where the address or a header cannot be used.
pub fn connect(config: &ModelConfig) -> Result<Arc<dyn Model>, ModelConfigError> {
    open(config, &mut Clients::default(), &Arc::default())
}

fn open(
    config: &ModelConfig,
    clients: &mut Clients,
    records: &Arc<ModelRecords>,
) -> Result<Arc<dyn Model>, ModelConfigError> {
    let target = Target::new(config, clients)?;
    let dialect: Box<dyn Dialect> = match config.wire {
        Wire::OpenAi => Box::new(OpenAi::default()),
        Wire::LlamaCpp => Box::new(LlamaCpp),
        Wire::Anthropic => Box::new(Anthropic::default()),
        Wire::Responses => Box::new(Responses::default()),
    };
    Ok(Arc::new(HttpModel::new(dialect, target, config.clone(), records)))
}
