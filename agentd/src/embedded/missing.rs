//! The answers of a build without the feature `builtin-model`.

use std::{num::NonZero, path::PathBuf, sync::Arc, thread, time::Duration};

use agentd_core::{
    error::{ErrorKind, ModelError},
    model::{ModelChunk, ModelInfo, ModelRequest},
    ports::Model,
};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};

/// The settings of a model that cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EmbeddedConfig {
    /// The GGUF file.
    pub(crate) path: PathBuf,
    /// The time that weights stay in memory.
    pub(crate) idle: Duration,
}

impl EmbeddedConfig {
    /// The settings of a file.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, idle: Duration::ZERO }
    }
}

/// The threads that a model would use, which other libraries keep to.
#[must_use]
pub fn recommended_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// A model that refuses each request.
pub(crate) fn model(_config: EmbeddedConfig) -> Arc<dyn Model> {
    Arc::new(MissingModel(ModelInfo {
        id: "none (built without a model)".to_owned(),
        wire: "embedded".to_owned(),
        base_url: None,
        context_window: 8192,
        window_source: Default::default(),
        native_tools: true,
        embedded: false,
        echo_reasoning: false,
        sees_pictures: false,
        figures: Vec::new(),
    }))
}

struct MissingModel(ModelInfo);

impl Model for MissingModel {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        let error = ModelError::new(ErrorKind::Configuration, "this agentd was built without a model of its own")
            .with_hint(
                "name a model server in models.yaml or MODEL_BASIC_BASE_URL, or build with the feature `builtin-model`",
            );
        stream::once(std::future::ready(Err(error))).boxed()
    }
}
