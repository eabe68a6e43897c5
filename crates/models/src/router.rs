//! Which model serves which slot.

use std::{collections::BTreeMap, fmt, sync::Arc};

use agentd_core::{
    model::{Slot, SlotInfo},
    ports::{Model, Models},
};

use crate::{
    call::{Dialect, HttpModel},
    config::{ModelConfig, ModelConfigError, Wire},
    http::{Clients, Target},
    llamacpp::LlamaCpp,
    openai::OpenAi,
};

/// The five slots. An empty one is served by the base slot, and an empty base slot by the embedded model.
pub struct ModelRouter {
    filled: BTreeMap<Slot, Arc<dyn Model>>,
    embedded: Arc<dyn Model>,
}

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
        let mut clients = Clients::default();
        let filled = slots
            .iter()
            .map(|(slot, config)| match open(config, &mut clients) {
                Ok(model) => Ok((*slot, model)),
                Err(source) => Err(SlotError { slot: *slot, source }),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { filled, embedded })
    }
}

impl Models for ModelRouter {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        let model = self.filled.get(&slot).or_else(|| self.filled.get(&Slot::Base));
        model.unwrap_or(&self.embedded).clone()
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
    open(config, &mut Clients::default())
}

fn open(config: &ModelConfig, clients: &mut Clients) -> Result<Arc<dyn Model>, ModelConfigError> {
    let target = Target::new(config, clients)?;
    let dialect: Box<dyn Dialect> = match config.wire {
        Wire::OpenAi => Box::new(OpenAi::new(config.clone())),
        Wire::LlamaCpp => Box::new(LlamaCpp::new(config.clone())),
    };
    Ok(Arc::new(HttpModel::new(dialect, target, config.clone())))
}
