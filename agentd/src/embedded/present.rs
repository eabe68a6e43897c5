//! Models of the crate `agentd-local`.

use std::sync::Arc;

use agentd_core::ports::Model;
pub(crate) use agentd_local::EmbeddedConfig;
pub use agentd_local::recommended_threads;
use agentd_local::{EmbeddedModel, Neighbour};
use agentd_proto::local_servers;
use futures_util::{FutureExt as _, future::BoxFuture};

/// The model of this configuration. Its weights are loaded when they are first needed.
pub(crate) fn model(config: EmbeddedConfig) -> Arc<dyn Model> {
    EmbeddedModel::new(config, neighbours)
}

/// The model servers of this machine, which the built-in model names to people who ask for a larger one.
fn neighbours() -> BoxFuture<'static, Vec<Neighbour>> {
    let named = |server: &local_servers::LocalServer| Neighbour {
        name: server.name,
        title: server.title,
        url: server.base_url.to_owned(),
    };
    local_servers::listening().map(move |found| found.into_iter().map(named).collect()).boxed()
}
