//! Models that answer in place of others: the lists `fallback`, and the models of `others`, which are in no slot.

use std::collections::BTreeMap;

use agentd_core::model::{Slot, is_model_id};
use agentd_models::{Fallback, ModelConfig};
use serde_saphyr::Spanned;

use super::{AnthropicDefaults, ModelPlace, Reader, SlotLayer};
use crate::config::{ConfigError, ErrorPlace};

impl SlotLayer {
    /// A model in no slot, which only answers in place of others.
    pub(super) fn standing_by(self, name: &str, anthropic: &AnthropicDefaults) -> Result<ModelConfig, ConfigError> {
        let place = || ErrorPlace::Setting(format!("models.others.{name}"));
        let odd = |why: &str| Err(ConfigError::new(place(), why));
        if name.parse::<Slot>().is_ok() {
            return odd("a slot has that name: give it another one");
        }
        if self.fallback.is_some() {
            return odd("a model that answers in place of others has no `fallback` of its own");
        }
        if !self.has_address() {
            return odd("nothing says where this model is: set base_url or api_key");
        }
        match self.complete(Slot::Base, &Self::default(), anthropic, &BTreeMap::new())? {
            ModelPlace::Server(model) => Ok(*model),
            ModelPlace::Gguf(_) => odd("a file can only be the model of a slot: name that slot in `fallback`"),
        }
    }
}

impl Reader<'_> {
    /// Names of the models that answer in place of a slot's.
    pub(super) fn fallback(&self, names: &[Spanned<String>]) -> Result<Vec<String>, ConfigError> {
        let name = |name: &Spanned<String>| match self.text(Some(name))? {
            Some(text) if !is_model_id(&text) => Err(self.refuse(name, "that is no slot and no id of a model")),
            text => Ok(text),
        };
        names.iter().filter_map(|text| name(text).transpose()).collect()
    }
}

/// The model that a name in `fallback` means; none where that is the slot itself, which only varies another one.
pub(super) fn named(slot: Slot, name: &str, others: &BTreeMap<String, ModelConfig>) -> Option<Fallback> {
    match (name.parse::<Slot>(), others.get(name)) {
        (Ok(own), _) if own == slot => None,
        (Ok(other), _) => Some(Fallback::Slot(other)),
        (Err(_), Some(model)) => Some(Fallback::Model(Box::new(model.clone()))),
        (Err(_), None) => Some(Fallback::Id(name.to_owned())),
    }
}
