//! The configuration. Layers in order of precedence, lowest first: agentd's defaults, the host's files, the user's
//! files, the environment, the command line. Each layer overrides only the keys that it sets.
//!
//! - [`layers`]: the files, and the origin of each value for diagnostics. The only I/O is reading these files,
//!   including files that contain a single key.
//! - this module with `groups` (`agentd.yaml`) and the rules (`hitl_rules.yaml`), `models` (`models.yaml`, `MODEL_*`),
//!   [`agents`] (`agents.yaml`, `tools.yaml`, `skills.yaml`), `languages` (`languages.yaml`, `web.yaml`), `mcp`
//!   (`mcp_servers.yaml`): the schema of these files, and the merging of layers.
//! - [`dotenv`] (`.env`): variables for all configuration files.
//! - `yaml`: parsing, with line, column and the nearest valid key in every error; times and limits.
//! - [`values`]: the values for display, without secrets.
//!
//! Defaults exist only in the shipped files, which are the lowest layer. [`resolve`] fails if a key is not set.

pub use crate::config::{
    agents::{ToolNames, ToolSetting, ToolSettings, ToolSwitch},
    groups::{
        DaemonSettings, IndexSettings, LogFormat, OnDeadline, ReadingSettings, RetentionSettings, SandboxSettings,
        ServiceSettings, TraceSettings,
    },
    layers::{ConfigError, ErrorLocation, Origin, Origins, SourceFile, Sources, Subject, nearest},
    mcp::check_user_file as check_mcp_file,
    models::{ModelLocation, ModelSettings},
    values::ConfigValues,
};

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use agentd_audit::chain::sha256;
use agentd_core::agent::Agents;
use agentd_extensions::skills::SkillSettings;
use agentd_lsp::LanguageConfig;
use agentd_mcp::McpConfig;
use agentd_models::{EmbeddingsConfig, Fallback, ModelConfig, RenewableKey};
use agentd_policy::{Policy, RuleError, RuleFile, Rules};
use agentd_web::WebConfig;
use secrecy::{ExposeSecret, SecretString};

use crate::{
    config::{
        groups::{DaemonLayer, ServiceLayer, TurnLayer},
        yaml::{Auto, log_filter},
    },
    environment::Environment,
};

pub mod agents;
pub mod dotenv;
mod groups;
mod languages;
pub mod layers;
mod mcp;
mod models;
pub mod values;
pub mod yaml;

#[cfg(test)]
mod tests;

/// The merged configuration of all layers.
#[derive(Debug, Clone)]
pub struct Config {
    /// Daemon settings from `agentd.yaml`.
    pub daemon: DaemonSettings,
    /// Slots from `models.yaml` and `MODEL_*`.
    pub models: ModelSettings,
    /// Settings of the embeddings from `models.yaml`.
    pub embeddings: Option<EmbeddingsConfig>,
    /// Tool settings from `tools.yaml`.
    pub tools: ToolSettings,
    /// Agents from `agents.yaml` and from plugins.
    pub agents: Agents,
    /// Plugins by agent, for agents that a plugin provides.
    pub agent_plugins: BTreeMap<String, String>,
    /// Plugins by server, for MCP servers that a plugin provides, including broken ones.
    pub server_plugins: BTreeMap<String, String>,
    /// Skill settings from `skills.yaml`.
    pub skills: SkillSettings,
    /// Settings of the web tools, from `web.yaml`.
    pub web: WebConfig,
    /// Language servers from `languages.yaml`.
    pub languages: LanguageConfig,
    /// MCP servers from `mcp_servers.yaml` and from plugins.
    pub mcp: McpConfig,
    /// Approval rules from `hitl_rules.yaml`.
    pub rules: RuleSettings,
    /// The main agent's prompt, from `prompts/system.md`.
    pub system_prompt: String,
    /// The subagents' prompt, from `prompts/subagent.md`.
    pub subagent_prompt: String,
    /// The prompt for compactions, from `prompts/compact.md`.
    pub compact_prompt: String,
    /// Variables from `.env` files.
    pub dotenv: Environment,
    /// Origin of each value.
    pub origins: Origins,
    /// Values of all keys, for display.
    pub values: ConfigValues,
    /// Files that were read, lowest layer first.
    pub files: Vec<PathBuf>,
}

/// Merges all layers.
///
/// # Errors
/// Returns the first invalid setting, with its location.
pub fn resolve(sources: &Sources) -> Result<Config, ConfigError> {
    let mut origins = Origins::default();
    let sources = &sources.with_dotenv()?;
    let daemon = daemon_settings(sources, &mut origins)?;
    let (models, embeddings) = models::resolve(sources, &mut origins)?;
    let (mcp, server_plugins) = mcp::resolve(sources, &mut origins)?;
    let names = ToolNames::new(&mcp);
    let tools = agents::tools(sources, &names, &mut origins)?;
    let (agents, agent_plugins) = agents::resolve(sources, &names, &mut origins)?;
    let files = sources.files.iter().filter(|file| file.origin != Origin::BuiltIn).map(|file| file.origin.path());
    Ok(Config {
        daemon,
        models,
        embeddings,
        tools,
        agents,
        agent_plugins,
        server_plugins,
        skills: agents::skills(sources, &mut origins)?,
        web: languages::web(sources, &mut origins)?,
        languages: languages::resolve(sources, &mut origins)?,
        mcp,
        rules: rules(sources, &names, &mut origins)?,
        system_prompt: prompt(sources, Subject::SystemPrompt, "prompts.system", &mut origins),
        subagent_prompt: prompt(sources, Subject::SubagentPrompt, "prompts.subagent", &mut origins),
        compact_prompt: prompt(sources, Subject::CompactPrompt, "prompts.compact", &mut origins),
        files: files.collect(),
        dotenv: dotenv::variables(&sources.files, &Environment::default())?,
        origins,
        values: ConfigValues(Arc::new(sources.clone())),
    })
}

/// Returns the prompt of the highest layer that sets one. Prompts are not merged.
fn prompt(sources: &Sources, subject: Subject, key: &'static str, origins: &mut Origins) -> String {
    let mut text = String::new();
    for file in sources.files_of(subject).filter(|file| !file.text.trim().is_empty()) {
        text = file.text.trim().to_owned();
        origins.set(key, &file.origin);
    }
    text
}

impl Config {
    /// Returns all secrets in the configuration.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let search_keys = self.web.search.iter().filter_map(|search| search.api_key.as_ref());
        let model_keys = self.servers().flat_map(|model| model.api_key.iter().chain(model.headers.values()));
        let keys = model_keys.chain(search_keys).map(SecretString::expose_secret);
        keys.chain(self.mcp.secrets()).chain(self.dotenv.secrets())
    }

    /// Returns the keys of models that can be read again.
    pub fn renewable_keys(&self) -> impl Iterator<Item = &Arc<RenewableKey>> {
        self.servers().filter_map(|model| model.renewable_key.as_ref())
    }

    /// Returns the models on servers, including those that only answer in place of others.
    fn servers(&self) -> impl Iterator<Item = &ModelConfig> {
        let slots = self.models.iter().filter_map(|(_, model)| match model {
            ModelLocation::Server(model) => Some(&**model),
            ModelLocation::Gguf(_) => None,
        });
        let slots = slots.flat_map(|model| {
            let fallbacks = model.fallback.iter().filter_map(|fallback| match fallback {
                Fallback::Model(model) => Some(&**model),
                Fallback::Slot(_) | Fallback::Id(_) => None,
            });
            std::iter::once(model).chain(fallbacks)
        });
        slots.chain(self.embeddings.iter().map(|embeddings| &embeddings.model))
    }
}

/// Variable that sets `turns.max_message_history`.
const HISTORY_VARIABLE: &str = "MAX_MESSAGE_HISTORY";

/// Variable that sets `service.log_level`.
const LOG_VARIABLE: &str = "AGENTD_LOG";

fn daemon_settings(sources: &Sources, origins: &mut Origins) -> Result<DaemonSettings, ConfigError> {
    let mut merged = DaemonLayer::default();
    let variables = sources.env.texts();
    for file in sources.files_of(Subject::Daemon) {
        let mut layer: DaemonLayer = yaml::parse(file, &variables)?;
        let sandbox = layer.sandbox.iter_mut().flat_map(|sandbox| [&mut sandbox.read, &mut sandbox.write]);
        let weights = layer.embedded.iter_mut().flat_map(|embedded| &mut embedded.weights);
        for path in sandbox.flatten().flatten().chain(weights) {
            path.resolve(file, sources)?;
        }
        merged.overlay(layer, &file.origin, origins);
    }

    if let Some(text) = sources.env.text(HISTORY_VARIABLE) {
        let number = Auto::parse(text)
            .map_err(|message| ConfigError::new(ErrorLocation::Variable(HISTORY_VARIABLE.to_owned()), message))?;
        let turns = Some(TurnLayer { max_message_history: Some(number), ..TurnLayer::default() });
        merged.overlay(DaemonLayer { turns, ..DaemonLayer::default() }, &Origin::Variable(HISTORY_VARIABLE), origins);
    }
    let variable = sources.env.text(LOG_VARIABLE).map(|level| (level, Origin::Variable(LOG_VARIABLE)));
    let flag = sources.log_level.as_deref().map(|level| (level, Origin::Flag("--log-level")));
    for (level, origin) in variable.into_iter().chain(flag) {
        let service = Some(ServiceLayer { log_level: Some(level.to_owned()), ..ServiceLayer::default() });
        merged.overlay(DaemonLayer { service, ..DaemonLayer::default() }, &origin, origins);
    }
    let settings = merged.complete()?;
    settings.index.check(origins)?;
    settings.service.check(origins)?;
    Ok(settings)
}

impl IndexSettings {
    /// Checks that overlaps are at most half a chunk, so that each chunk advances, and that a document becomes stale
    /// before it is removed.
    fn check(&self, origins: &Origins) -> Result<(), ConfigError> {
        let refuse = |key: &str, rule: &str| Err(ConfigError::new(origins.location(key), format!("{key} {rule}")));
        if self.chunk_overlap.0 * 2 > self.chunk_chars.0 {
            return refuse("index.chunk_overlap", "must be at most half of index.chunk_chars");
        }
        if self.row_overlap.0 * 2 > self.chunk_rows.0 {
            return refuse("index.row_overlap", "must be at most half of index.chunk_rows");
        }
        if self.keep.0 < self.stale_after.0 {
            return refuse("index.keep", "must be at least index.stale_after");
        }
        Ok(())
    }
}

impl ServiceSettings {
    /// Checks the log filter. An invalid filter would silence the log without an error.
    fn check(&self, origins: &Origins) -> Result<(), ConfigError> {
        if log_filter(&self.log_level).is_some() {
            return Ok(());
        }
        let error =
            ConfigError::new(origins.location("service.log_level"), format!("invalid log level `{}`", self.log_level));
        Err(error.with_hint("use error, warn, info, debug or trace, or a filter such as `info,agentd_models=debug`"))
    }
}

impl DaemonSettings {
    /// Returns the path of the embedded model's weights, or `None` for the bundled weights.
    pub fn named_weights(&self) -> Option<PathBuf> {
        let weights = &self.embedded.weights;
        (weights.text != "auto").then(|| weights.path.clone())
    }
}

/// Prefix of the keys of `hitl_rules.yaml`.
const PREFIX: &str = "hitl_rules";

/// The merged rules of all layers.
#[derive(Debug, Clone)]
pub struct RuleSettings {
    /// All rule files, merged.
    pub file: RuleFile,
    /// The rules of `file`, compiled.
    pub policy: Arc<Policy>,
    /// Sources of the rules, lowest first: `built-in` and file paths.
    pub sources: Vec<String>,
    /// SHA-256 of the concatenated texts of all sources.
    pub sha256: String,
}

fn rules(sources: &Sources, tools: &ToolNames, origins: &mut Origins) -> Result<RuleSettings, ConfigError> {
    let mut rules = RuleFile::default();
    let (mut names, mut texts) = (Vec::new(), String::new());
    for file in sources.files_of(Subject::HitlRules) {
        apply_layer(file, sources, tools, &mut rules, origins)?;
        names.push(file.origin.to_string());
        texts.push_str(&file.text);
    }
    let compiled = Rules::compile(&rules).map_err(|error| describe(sources, origins, &error))?;
    let policy = Arc::new(Policy::new(compiled));
    Ok(RuleSettings { file: rules, policy, sources: names, sha256: sha256(texts.as_bytes()) })
}

/// Returns the rules with `text` in place of the user's file at `path`, to check the text before it is used.
///
/// # Errors
/// Returns the first invalid entry, with its location.
pub fn rules_with_user_file(sources: &Sources, text: String, path: PathBuf) -> Result<RuleSettings, ConfigError> {
    let mut candidate = sources.clone();
    candidate.files.retain(|file| !(file.subject == Subject::HitlRules && matches!(file.origin, Origin::User(_))));
    candidate.files.push(SourceFile { subject: Subject::HitlRules, origin: Origin::User(path), text });
    let names = ToolNames::new(&mcp::resolve(&candidate, &mut Origins::default())?.0);
    rules(&candidate, &names, &mut Origins::default())
}

fn apply_layer(
    file: &SourceFile,
    sources: &Sources,
    names: &ToolNames,
    rules: &mut RuleFile,
    origins: &mut Origins,
) -> Result<(), ConfigError> {
    let mut overrides: RuleFile = yaml::parse(file, &sources.env.texts())?;
    if let Some(tools) = overrides.tools.take() {
        let mut named = BTreeMap::new();
        for (name, section) in tools {
            let canonical = names.canonical(&name).to_owned();
            if named.insert(canonical.clone(), section).is_some() {
                // Without this error, one of the two sections would be ignored silently.
                let message = format!("`{name}` and another name in `tools` both refer to {canonical}");
                let location = ErrorLocation::File(file.origin.path(), find(&file.text, &name));
                return Err(ConfigError::new(location, message).with_hint(format!("put all rules under `{canonical}`")));
            }
        }
        overrides.tools = Some(named);
    }
    rules.overlay(overrides, &mut |key| origins.set(format!("{PREFIX}.{key}"), &file.origin));
    Ok(())
}

/// Locates an invalid value: the first line that contains the value, in the highest layer that set it.
fn describe(sources: &Sources, origins: &Origins, error: &RuleError) -> ConfigError {
    let message = format!("{}: {}", error.key, error.message);
    let hint = if error.key.ends_with(".deny") {
        "each entry is a program, optionally with arguments: `git push`, `mkfs*`"
    } else {
        "patterns are regular expressions without look-around; in double quotes, write each backslash twice"
    };
    // A list of global patterns is a single value within its level.
    let keys = [format!("{PREFIX}.{}", error.key), format!("{PREFIX}.{}.patterns", error.key)];
    let Some(origin) = keys.iter().find_map(|key| origins.keys.get(key)) else {
        return ConfigError::new(ErrorLocation::Setting(error.key.clone()), error.message.clone()).with_hint(hint);
    };
    let file = sources.files_of(Subject::HitlRules).find(|file| file.origin == *origin);
    let location = file.and_then(|file| find(&file.text, &error.value));
    ConfigError::new(ErrorLocation::File(origin.path(), location), message).with_hint(hint)
}

/// Returns the line and column of `value` in `text`, plain or quoted.
fn find(text: &str, value: &str) -> Option<(u64, u64)> {
    let spellings = [value.to_owned(), value.replace('\\', "\\\\"), value.replace('\'', "''")];
    let at = |(number, line): (usize, &str)| {
        let column = spellings.iter().filter(|value| !value.is_empty()).find_map(|value| line.find(value.as_str()))?;
        Some((number as u64 + 1, column as u64 + 1))
    };
    text.lines().enumerate().find_map(at)
}
