//! Source of the configuration: its files, variables, flags and plugins, read at the start and at each reload.

use agentd_extensions::plugins::PluginStore;

use crate::{
    config::{self, Config, Flags, Sources},
    environment::Environment,
    failure::Failure,
    paths::Paths,
};

/// Source of the configuration, at the start and at each reload.
#[derive(Debug, Clone)]
pub struct ConfigSource {
    /// Paths of its files.
    pub paths: Paths,
    /// The environment that the daemon was started with.
    pub env: Environment,
    /// The command line.
    pub flags: Flags,
    /// The plugins, which are looked at again at each reading.
    pub plugins: PluginStore,
}

impl ConfigSource {
    /// The configuration at these paths.
    #[must_use]
    pub fn new(paths: Paths, env: Environment, flags: Flags) -> Self {
        let plugins = PluginStore::new(paths.plugins(), paths.plugin_data());
        Self { paths, env, flags, plugins }
    }

    /// Reads the current configuration.
    ///
    /// # Errors
    /// The problem, and where it is.
    pub fn read(&self) -> Result<Config, Failure> {
        Ok(config::resolve(&self.sources()?)?)
    }

    pub(crate) fn sources(&self) -> Result<Sources, Failure> {
        let files = config::layers::gather(&self.paths.system_config, &self.paths.config)?;
        let plugins = self.plugins.refresh();
        Ok(Sources { files, plugins, env: self.env.clone(), flags: self.flags.clone() }.with_dotenv()?)
    }
}
