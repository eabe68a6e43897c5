//! Configuration: what came with agentd < the machine's files < the person's files < the environment < the command
//! line. Each layer sets only what it names.
//!
//! - [`layers`]: the files. Reading them is all the I/O there is, but for keys that a file keeps elsewhere.
//! - `groups` and `daemon` (`agentd.yaml`), `models` (`models.yaml`, `MODEL_*`), `tools` (`tools.yaml`, `skills.yaml`), [`agents`] (`agents.yaml`),
//!   `web` (`web.yaml`), `languages` (`languages.yaml`), `mcp` (`mcp_servers.yaml`), [`hitl_rules`] (`hitl_rules.yaml`): their schema, and how the
//!   layers are merged.
//! - [`dotenv`] (`.env`): variables for all of them. `removed`: keys that an earlier version had.
//! - `yaml`: text to values, with line, column and the nearest valid key in every error; [`value`]: times and limits.
//! - [`origin`]: the origin of each value, for people who wonder; [`values`]: the values themselves, without secrets.
//!
//! The defaults have no second home in code: the shipped files are the lowest layer, and [`resolve`] fails if a key is
//! not set.

pub mod agents;
mod daemon;
pub mod dotenv;
mod groups;
pub mod hitl_rules;
mod in_text;
mod languages;
pub mod layers;
mod mcp;
mod models;
pub mod origin;
mod removed;
mod tools;
pub mod value;
pub mod values;
mod web;
mod yaml;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentd_core::agent::Agents;
use agentd_extensions::{plugins::InstalledPlugin, skills::SkillSettings};
use agentd_lsp::LanguageConfig;
use agentd_mcp::McpConfig;
use agentd_web::WebConfig;
use secrecy::{ExposeSecret, SecretString};

pub use self::{
    groups::{
        Confinement, DaemonSettings, HardLinkRule, IndexSettings, LogFormat, OnDeadline, ReadingSettings,
        RetentionSettings, SandboxSettings, ServiceSettings, TraceSettings,
    },
    hitl_rules::RuleSettings,
    layers::{SourceFile, Subject},
    mcp::over as try_mcp,
    models::{ModelPlace, ModelSettings},
    origin::{ConfigError, ErrorPlace, Origin, Origins, nearest},
    tools::{ToolNames, ToolSetting, ToolSettings, ToolSwitch},
    values::ConfigValues,
};
use crate::environment::Environment;

/// Everything that a configuration is made of.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The files, lowest layer first.
    pub files: Vec<SourceFile>,
    /// The plugins, whose agents and servers stand below those of all files.
    pub plugins: Arc<[InstalledPlugin]>,
    /// The environment.
    pub env: Environment,
    /// The command line.
    pub flags: Flags,
}

/// Settings of the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--log-level`
    pub log_level: Option<String>,
}

/// The configuration, all layers together.
#[derive(Debug, Clone)]
pub struct Config {
    /// `agentd.yaml`
    pub daemon: DaemonSettings,
    /// `models.yaml`
    pub models: ModelSettings,
    /// `tools.yaml`
    pub tools: ToolSettings,
    /// `agents.yaml`
    pub agents: Agents,
    /// The plugins of those agents that came with one.
    pub agent_plugins: BTreeMap<String, String>,
    /// The plugins of those servers that came with one, those that are down included.
    pub server_plugins: BTreeMap<String, String>,
    /// `skills.yaml`
    pub skills: SkillSettings,
    /// `web.yaml`
    pub web: WebConfig,
    /// `languages.yaml`
    pub languages: LanguageConfig,
    /// `mcp_servers.yaml`
    pub mcp: McpConfig,
    /// `hitl_rules.yaml`
    pub rules: RuleSettings,
    /// `prompts/system.md`
    pub system_prompt: String,
    /// `prompts/subagent.md`
    pub subagent_prompt: String,
    /// `prompts/compact.md`
    pub compact_prompt: String,
    /// The variables of `.env` files.
    pub dotenv: Environment,
    /// Origin of each value.
    pub origins: Origins,
    /// The values, for people who ask.
    pub values: ConfigValues,
    /// The files that were read, lowest layer first.
    pub files: Vec<PathBuf>,
}

/// Adds the layers up.
///
/// # Errors
/// The first thing that makes no sense, with its place.
pub fn resolve(sources: &Sources) -> Result<Config, ConfigError> {
    let mut origins = Origins::default();
    let sources = &sources.with_dotenv()?;
    let daemon = daemon::resolve(sources, &mut origins)?;
    let models = models::resolve(sources, &mut origins)?;
    let (mcp, server_plugins) = mcp::resolve(sources, &mut origins)?;
    let names = ToolNames::besides(&mcp);
    let tools = tools::resolve(sources, &names, &mut origins)?;
    let (agents, agent_plugins) = agents::resolve(sources, &names, &mut origins)?;
    let skills = tools::skills(sources, &mut origins)?;
    let web = web::resolve(sources, &mut origins)?;
    let languages = languages::resolve(sources, &mut origins)?;
    let rules = hitl_rules::resolve(sources, &names, &mut origins)?;
    let system_prompt = prompt(sources, Subject::SystemPrompt, "prompts.system", &mut origins);
    let subagent_prompt = prompt(sources, Subject::SubagentPrompt, "prompts.subagent", &mut origins);
    let compact_prompt = prompt(sources, Subject::CompactPrompt, "prompts.compact", &mut origins);
    let files = sources.files.iter().filter(|file| file.origin != Origin::BuiltIn).map(|file| file.origin.path());
    Ok(Config {
        daemon,
        models,
        tools,
        agents,
        agent_plugins,
        server_plugins,
        skills,
        web,
        languages,
        mcp,
        rules,
        system_prompt,
        subagent_prompt,
        compact_prompt,
        files: files.collect(),
        dotenv: dotenv::variables(&sources.files, &Environment::default())?,
        origins,
        values: ConfigValues::new(sources),
    })
}

/// The highest layer's text: instructions do not add up.
fn prompt(sources: &Sources, subject: Subject, key: &'static str, origins: &mut Origins) -> String {
    let mut text = String::new();
    for file in sources.files_about(subject).filter(|file| !file.text.trim().is_empty()) {
        text = file.text.trim().to_owned();
        origins.set(key, &file.origin);
    }
    text
}

impl Sources {
    /// The same, where the environment has what `.env` files add to it.
    ///
    /// # Errors
    /// A line of such a file that is no variable.
    pub fn with_dotenv(&self) -> Result<Self, ConfigError> {
        let added = dotenv::variables(&self.files, &self.env)?;
        Ok(Self { env: self.env.and(&added), ..self.clone() })
    }

    fn files_about(&self, subject: Subject) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(move |file| file.subject == subject)
    }

    /// A path that a file names: `~/` is the person's home, and a relative one belongs to the file's own folder.
    fn path_in(&self, file: &SourceFile, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.env.path("HOME")) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => file.folder().join(Path::new(path)),
        }
    }
}

impl Config {
    /// All that must never be shown.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let servers = self.models.iter().filter_map(|(_, place)| match place {
            ModelPlace::Server(model) => Some(model),
            ModelPlace::Gguf(_) => None,
        });
        let of_search = self.web.search.iter().filter_map(|search| search.api_key.as_ref());
        let of_models = servers.flat_map(|model| model.api_key.iter().chain(model.headers.values()));
        let known = of_models.chain(of_search).map(SecretString::expose_secret);
        known.chain(self.mcp.secrets()).chain(self.dotenv.secrets())
    }
}
