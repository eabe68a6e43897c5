//! Ports that answer from a recording: the models, and a toolbox that lists the tools of another toolbox.

use std::sync::Arc;

use agentd_core::{
    catalogue::Catalogue,
    error::ModelError,
    ids::SessionId,
    model::{ModelChunk, ModelInfo, ModelRequest, Slot, SlotInfo},
    ports::{Model, Models, ToolContext, Toolbox},
    tool::{AdaptedCall, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};

use crate::script::Script;

/// Models of a recording, which answer without calling a real model.
pub struct PlayedModels {
    slots: Vec<(SlotInfo, Arc<dyn Model>)>,
    fallback: Arc<dyn Model>,
}

impl PlayedModels {
    /// Creates models that answer from `script`.
    pub fn new(script: &Arc<Script>) -> Self {
        let model = |info: ModelInfo| -> Arc<dyn Model> { Arc::new(PlayedModel { info, script: Arc::clone(script) }) };
        let slots = script.models().iter().map(|slot| (slot.clone(), model(slot.model.clone()))).collect();
        Self { slots, fallback: model(unknown()) }
    }
}

/// Returns the model for a slot that the recording does not describe.
fn unknown() -> ModelInfo {
    ModelInfo {
        id: "recorded".to_owned(),
        wire: "openai".to_owned(),
        context_window: 131_072,
        native_tools: true,
        ..ModelInfo::default()
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

/// Toolbox that returns recorded results and runs nothing.
pub struct PlayedToolbox {
    toolbox: Arc<dyn Toolbox>,
    script: Arc<Script>,
}

impl PlayedToolbox {
    /// Creates a toolbox with the tools of `toolbox` and results from `script`.
    pub fn new(toolbox: Arc<dyn Toolbox>, script: Arc<Script>) -> Self {
        Self { toolbox, script }
    }
}

fn ready<T: Send + 'static>(value: T) -> BoxFuture<'static, T> {
    std::future::ready(value).boxed()
}

impl Toolbox for PlayedToolbox {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.toolbox.specs()
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.toolbox.catalogue()
    }

    fn session_catalogue(&self, session: SessionId) -> Option<Arc<Catalogue>> {
        self.toolbox.session_catalogue(session)
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        self.toolbox.canonical_name(name)
    }

    fn adapt(&self, call: &ToolCall) -> Option<AdaptedCall> {
        self.toolbox.adapt(call)
    }

    // The files of the call do not exist in a replay. Computing a preview would give a wrong result, or reject a call
    // that was accepted when the session was recorded.
    fn preview<'a>(
        &'a self,
        _: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        ready(Ok(self.script.preview(call)))
    }

    fn changes(&self, _: &ToolContext, _: &ToolCall) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    fn can_enforce_read_only(&self) -> BoxFuture<'_, bool> {
        ready(true)
    }

    fn can_contain_commands(&self) -> BoxFuture<'_, bool> {
        ready(true)
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        let output = self.script.result(context.session_id, call).unwrap_or_else(|| {
            let message = format!("the recording has no result for this call to {}", call.name);
            ToolOutput::error(ToolErrorCode::NotRun, message)
        });
        ready(output)
    }
}
