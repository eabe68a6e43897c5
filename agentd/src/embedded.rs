//! Models that run in this process. Without the feature `builtin-model`, a substitute reports that the build contains
//! no model.

#[cfg(feature = "builtin-model")]
mod adapter {
    //! Adapter for the models of the crate `agentd-local`.

    use std::{path::PathBuf, sync::Arc, time::Duration};

    use agentd_core::ports::Model;
    pub use agentd_local::recommended_threads;
    use agentd_local::{EmbeddedConfig, EmbeddedModel, Neighbour};
    use agentd_proto::local_servers;
    use futures_util::{FutureExt as _, future::BoxFuture};

    /// Creates a model from a GGUF file. The weights are loaded on first use, and released after `idle` without use.
    pub(crate) fn model(path: PathBuf, idle: Duration) -> Arc<dyn Model> {
        EmbeddedModel::new(EmbeddedConfig { idle, ..EmbeddedConfig::new(path) }, neighbours)
    }

    /// Lists model servers on this host. The built-in model suggests them to users who ask for a larger model.
    fn neighbours() -> BoxFuture<'static, Vec<Neighbour>> {
        let neighbour = |server: &local_servers::LocalServer| Neighbour {
            name: server.name,
            title: server.title,
            url: server.base_url.to_owned(),
        };
        local_servers::listening().map(move |found| found.into_iter().map(neighbour).collect()).boxed()
    }
}

#[cfg(not(feature = "builtin-model"))]
mod substitute {
    //! Substitutes for a build without the feature `builtin-model`.

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

    /// Returns the number of threads that a model would use. Other libraries use the same number.
    pub fn recommended_threads() -> usize {
        thread::available_parallelism().map_or(1, NonZero::get)
    }

    /// Creates a model that refuses each request.
    pub(crate) fn model(_path: PathBuf, _idle: Duration) -> Arc<dyn Model> {
        Arc::new(MissingModel(ModelInfo {
            id: "none (built without a model)".to_owned(),
            wire: "embedded".to_owned(),
            context_window: 8192,
            native_tools: true,
            ..ModelInfo::default()
        }))
    }

    struct MissingModel(ModelInfo);

    impl Model for MissingModel {
        fn info(&self) -> &ModelInfo {
            &self.0
        }

        fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
            let error = ModelError::new(ErrorKind::Configuration, "this agentd was built without the built-in model")
                .with_hint(
                    "set a model server in models.yaml or MODEL_BASIC_BASE_URL, or build with the feature `builtin-model`",
                );
            stream::once(std::future::ready(Err(error))).boxed()
        }
    }
}

#[cfg(feature = "builtin-model")]
use adapter as chosen;
#[cfg(not(feature = "builtin-model"))]
use substitute as chosen;

pub(crate) use chosen::model;
pub use chosen::recommended_threads;
