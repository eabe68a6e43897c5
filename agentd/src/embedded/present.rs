//! Models of the crate `agentd-local`.

use std::sync::Arc;

use agentd_core::ports::Model;
pub(crate) use agentd_local::EmbeddedConfig;
use agentd_local::EmbeddedModel;
pub use agentd_local::recommended_threads;

/// The model of this configuration. Its weights are loaded when it is first asked.
pub(crate) fn model(config: EmbeddedConfig) -> Arc<dyn Model> {
    EmbeddedModel::new(config)
}
