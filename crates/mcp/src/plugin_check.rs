//! The check of a plugin before one of its servers is reached: its files may have changed since the person agreed to them.

use std::{fmt, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};

type Check = dyn Fn(&str) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// Checks a plugin by its name. Without one, no server of a plugin is reached.
#[derive(Clone)]
pub struct PluginCheck(Arc<Check>);

impl PluginCheck {
    /// A check whose error is the reason why nothing of the plugin may run.
    #[must_use]
    pub fn new(check: impl Fn(&str) -> BoxFuture<'static, Result<(), String>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    pub(crate) async fn run(&self, plugin: &str) -> Result<(), String> {
        (self.0)(plugin).await
    }
}

impl Default for PluginCheck {
    fn default() -> Self {
        Self::new(|_| std::future::ready(Err("plugins are not used here".to_owned())).boxed())
    }
}

impl fmt::Debug for PluginCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PluginCheck")
    }
}
