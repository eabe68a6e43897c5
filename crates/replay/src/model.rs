//! Models that answer from a recording.

use std::sync::Arc;

use agentd_core::{
    error::ModelError,
    model::{ModelChunk, ModelInfo, ModelRequest, Slot, SlotInfo},
    ports::{FallbackModel, Model, Models},
};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};

use crate::script::Script;

/// The models of a recording. No model is behind them.
pub struct PlayedModels {
    slots: Vec<(SlotInfo, Arc<dyn Model>)>,
    fallback: Arc<dyn Model>,
}

impl PlayedModels {
    /// The models that answer from what `script` plays.
    #[must_use]
    pub fn new(script: &Arc<Script>) -> Self {
        let model = |info: ModelInfo| -> Arc<dyn Model> { Arc::new(PlayedModel { info, script: Arc::clone(script) }) };
        let slots = script.models().iter().map(|slot| (slot.clone(), model(slot.model.clone()))).collect();
        Self { slots, fallback: model(unknown()) }
    }
}

/// Stands in a slot of which the recording tells nothing.
fn unknown() -> ModelInfo {
    ModelInfo {
        id: "recorded".to_owned(),
        wire: "openai".to_owned(),
        base_url: None,
        context_window: 131_072,
        window_source: Default::default(),
        native_tools: true,
        embedded: false,
        echo_reasoning: false,
        sees_pictures: false,
        figures: Vec::new(),
    }
}

impl Models for PlayedModels {
    fn get(&self, slot: Slot) -> Arc<dyn Model> {
        let of_slot = |wanted: Slot| self.slots.iter().find(|(info, _)| info.slot == wanted);
        let found = of_slot(slot).or_else(|| of_slot(Slot::default())).or_else(|| self.slots.first());
        Arc::clone(found.map_or(&self.fallback, |(_, model)| model))
    }

    fn named(&self, slot: Slot, id: &str) -> Option<Arc<dyn Model>> {
        let model = self.get(slot);
        (model.info().id == id).then_some(model)
    }

    fn list(&self) -> Vec<SlotInfo> {
        self.slots.iter().map(|(info, _)| info.clone()).collect()
    }

    fn fallbacks(&self, _: Slot) -> Vec<FallbackModel> {
        Vec::new()
    }
}

struct PlayedModel {
    info: ModelInfo,
    script: Arc<Script>,
}

impl Model for PlayedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        let chunks = match self.script.answer(&request) {
            Ok(chunks) => chunks.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(chunks).boxed()
    }
}
