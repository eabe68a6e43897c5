//! Configuration and data paths, which depend only on the environment and the command line, and the source of the
//! configuration, which is loaded at the start and at each reload.

use std::path::{Path, PathBuf};

use agentd_extensions::plugins::PluginStore;

use crate::{
    config::{self, Config, Sources},
    environment::{Args, Environment},
    failure::Failure,
};

/// Folders of one daemon, all absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The host's configuration folders, lowest precedence first.
    pub system_config: Vec<PathBuf>,
    /// The user's configuration folder.
    pub config: PathBuf,
    /// Folder of the journal, the workspaces and the built-in model.
    pub data: PathBuf,
}

impl Paths {
    /// Resolves the paths for these arguments and this environment.
    ///
    /// # Errors
    /// Fails if no flag, variable or `HOME` determines a folder.
    pub fn resolve(args: &Args, env: &Environment, current: &Path) -> Result<Self, Failure> {
        let own = |flag: &Option<PathBuf>, variable, xdg, fallback| {
            let path = flag.clone().or_else(|| env.path(variable)).map(|path| current.join(path));
            path.or_else(|| xdg_folder(env, xdg, fallback)).ok_or_else(|| {
                Failure::usage("no folder for configuration and data: HOME is not set")
                    .with_hint(format!("set HOME, or set the folder with {variable}"))
            })
        };
        Ok(Self {
            system_config: system_config(env),
            config: own(&args.config_dir, "AGENTD_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")?,
            data: own(&args.data_dir, "AGENTD_DATA_DIR", "XDG_DATA_HOME", ".local/share")?,
        })
    }
}

/// Returns agentd's folder in the folder that an XDG variable names, or else in `fallback` in the home folder. The XDG
/// specification requires that relative paths in its variables are ignored.
fn xdg_folder(env: &Environment, variable: &str, fallback: &str) -> Option<PathBuf> {
    let base = env.path(variable).filter(|path| path.is_absolute());
    base.or_else(|| Some(env.path("HOME").filter(|home| home.is_absolute())?.join(fallback)))
        .map(|base| base.join("agentd"))
}

/// Returns the system's configuration folders, lowest precedence first. The first folder of `XDG_CONFIG_DIRS` has the
/// highest precedence; `/etc/agentd` has the lowest.
fn system_config(env: &Environment) -> Vec<PathBuf> {
    let listed = env.path("XDG_CONFIG_DIRS").unwrap_or_else(|| PathBuf::from("/etc/xdg"));
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&listed).filter(|path| path.is_absolute()).map(|path| path.join("agentd")).collect();
    folders.push(PathBuf::from("/etc/agentd"));
    folders.reverse();
    folders
}

/// Source of the configuration, at the start and at each reload.
#[derive(Debug, Clone)]
pub struct ConfigSource {
    /// Paths of the configuration files.
    pub paths: Paths,
    /// The environment that the daemon was started with.
    pub env: Environment,
    /// Value of `--log-level`, if any.
    pub log_level: Option<String>,
    /// The plugins. Plugin files are checked again at each read.
    pub plugins: PluginStore,
}

impl ConfigSource {
    /// Creates the source for these paths.
    pub fn new(paths: Paths, env: Environment, log_level: Option<String>) -> Self {
        let plugins = PluginStore::new(paths.data.join("plugins"), paths.data.join("plugin_data"));
        Self { paths, env, log_level, plugins }
    }

    /// Loads the current configuration.
    ///
    /// # Errors
    /// Returns the configuration error, with its location.
    pub fn read(&self) -> Result<Config, Failure> {
        Ok(config::resolve(&self.sources()?)?)
    }

    pub(crate) fn sources(&self) -> Result<Sources, Failure> {
        let files = config::layers::load(&self.paths.system_config, &self.paths.config)?;
        let plugins = self.plugins.refresh();
        Ok(Sources { files, plugins, env: self.env.clone(), log_level: self.log_level.clone() }.with_dotenv()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_override_variables_and_variables_override_xdg() {
        let check = |env: &[(&str, &str)], args: Args, config: &str, data: &str| {
            let env = env.iter().copied().collect();
            let paths = Paths::resolve(&args, &env, Path::new("/cwd")).unwrap();
            assert_eq!((paths.config.to_str(), paths.data.to_str()), (Some(config), Some(data)));
        };
        let home = ("HOME", "/home/p");
        let none = Args::default;
        check(&[home], none(), "/home/p/.config/agentd", "/home/p/.local/share/agentd");
        let xdg = [home, ("XDG_CONFIG_HOME", "/c"), ("XDG_DATA_HOME", "relative")];
        check(&xdg, none(), "/c/agentd", "/home/p/.local/share/agentd");
        let own = [home, ("XDG_CONFIG_HOME", "/c"), ("AGENTD_CONFIG_DIR", "/own"), ("AGENTD_DATA_DIR", "here")];
        check(&own, none(), "/own", "/cwd/here");
        let flag = Args { data_dir: Some("/flag".into()), ..Args::default() };
        check(&own, flag, "/own", "/flag");
    }

    #[test]
    fn folders_are_required_without_a_home() {
        let error = Paths::resolve(&Args::default(), &Environment::default(), Path::new("/")).unwrap_err();
        assert!(
            error.report().contains("hint: set HOME, or set the folder with AGENTD_CONFIG_DIR"),
            "{}",
            error.report()
        );
    }

    #[test]
    fn first_system_config_folder_has_precedence() {
        let env = Environment::from_iter([("XDG_CONFIG_DIRS", "/a:/b")]);
        assert_eq!(system_config(&env), ["/etc/agentd", "/b/agentd", "/a/agentd"].map(PathBuf::from));
    }
}
